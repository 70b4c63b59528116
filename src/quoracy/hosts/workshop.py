"""The workshop: where duties with weights are done, in processes beside the server.

The server's loop never touches weights and never waits for them. It hands duties over and goes on; what came of them
is journaled when it comes back. There are two benches, each with a process of its own that is started when it is needed
first: *ours* for what we have written ourselves, several duties at once, and *theirs* for code that somebody named in
the settings of a run, one at a time and not for ever.

A process that dies is started again, and what it had in its hands is given again: one by one, so that the duty that
kills is told apart from those that were only beside it. The one that kills a few processes is answered as failed. What
the world refuses for now, such as a store that is away, is tried again later. All duties may be done twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from quoracy.config import Workshop as Settings
from quoracy.core import shell
from quoracy.core.backoff import Backoff, Waits
from quoracy.core.federated.code import code_refused
from quoracy.core.machine import Duty
from quoracy.hosts.keys import prefix_of
from quoracy.hosts.log import Log
from quoracy.hosts.server import ServedRun, Server
from quoracy.hosts.workbench import Finished, Given, Ready, Setup, answers, failure
from quoracy.wire.frames import FrameReader, frame

DUTIES: Final = ("admit", "aggregate", "evaluate")
TRIES: Final = 3
"""Processes that one duty may kill."""
AHEAD: Final = 4
"""Duties handed over for each that can be done at once: the next is there when one is done."""
AGAIN: Final = Waits(first_us=500_000, longest_us=10_000_000)
"""Before what the world refused is tried again."""
PATIENCE_S: Final = 60.0
"""For an aggregation or evaluation that the world refuses: then the run pauses, and somebody may resume it. An
admission waits for as long as it takes, since its sender is not to blame."""
START: Final = Waits(first_us=200_000, longest_us=5_000_000, growth=5)
"""Before a process is started again that ended without having done anything."""
LEAVE_S: Final = 2.0
ONE_THREAD: Final = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Two processes beside a server: more threads only get into each other's way."""
ROOT: Final = Path(__file__).resolve().parents[2]


class Job(msgspec.Struct):
    """A duty, until it is answered."""

    number: int
    run: ServedRun
    duty: Duty
    limit_s: float | None = None
    killed: int = 0
    """Processes that died while they did this and nothing else."""
    refused: Backoff = msgspec.field(default_factory=lambda: Backoff(AGAIN))
    """By the world."""
    since_s: float = 0.0
    """When the world refused first."""
    overdue: bool = False

    def given(self) -> Given:
        return Given(self.number, self.run.name, prefix_of(self.run.name), self.duty.what, self.duty.order)


Answer = Callable[[Job, dict[str, Any]], None]


class Bench:
    """One process and what waits for it. All calls from the event loop."""

    def __init__(self, name: str, setup: Setup, log: Log, answer: Answer) -> None:
        self._name = name
        self._setup = setup
        self._log = log
        self._answer = answer
        self._most = setup.at_once * AHEAD if setup.at_once > 1 else 1
        self._waiting: deque[Job] = deque()
        self._flying: dict[int, Job] = {}
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._ready = False
        self._task: asyncio.Task[None] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._suspects: set[int] = set()
        """Jobs that a process died of, or beside: given one at a time."""
        self._in_vain = Backoff(START)
        """Processes that ended without having done anything."""
        self._useful = False
        self._closed = False

    @property
    def pid(self) -> int:
        return 0 if self._process is None else self._process.pid

    def __len__(self) -> int:
        return len(self._waiting) + len(self._flying)

    def give(self, job: Job, first: bool = False) -> None:
        if self._closed:
            return
        if first:
            self._waiting.appendleft(job)
        else:
            self._waiting.append(job)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._live())
        self._pump()

    def _pump(self) -> None:
        while self._ready and self._writer is not None and self._waiting and len(self._flying) < self._may_fly():
            job = self._waiting.popleft()
            self._flying[job.number] = job
            if job.limit_s is not None:
                later = asyncio.get_running_loop().call_later
                self._timers[job.number] = later(job.limit_s, self._too_long, job)
            self._writer.write(frame(job.given()))

    def _may_fly(self) -> int:
        return 1 if self._suspects else self._most

    # -- the process --------------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        """Processes, one after the other, while there is something to do."""
        try:
            while self._waiting or self._flying:
                self._useful = False
                await self._one_process()
                if not self._useful:
                    await asyncio.sleep(self._in_vain.failed_s(time.monotonic(), random.SystemRandom().random()))
        finally:
            self._task = None

    async def _one_process(self) -> None:
        spawning = asyncio.ensure_future(asyncio.to_thread(_spawn))
        try:
            line, process = await asyncio.shield(spawning)
        except OSError as error:
            self._log.once("no process for weights", self._name, f"it cannot be started: {error}")
            return
        except asyncio.CancelledError:
            line, process = await spawning
            line.close()
            await asyncio.to_thread(_reap, process)
            raise
        self._process = process
        reader, self._writer = await asyncio.open_unix_connection(sock=line)
        self._writer.write(frame(self._setup))
        frames = FrameReader()
        try:
            with contextlib.suppress(ConnectionError):
                while chunk := await reader.read(65536):
                    for body in frames.feed(chunk):
                        self._heard(answers.decode(body))
        finally:
            self._ready = False
            self._writer.close()
            self._writer = None
            code = await asyncio.shield(asyncio.to_thread(_reap, process))
            self._died(code)

    def _heard(self, message: Ready | Finished) -> None:
        if isinstance(message, Ready):
            if message.why:
                self._log.once("no process for weights", self._name, message.why)
                return
            self._ready = True
            self._pump()
            return
        job = self._flying.pop(message.number, None)
        if job is None:
            return
        self._useful = True
        self._in_vain.succeeded(0)
        self._done_with(job)
        if message.bug:
            self._log.error("a duty broke", run=job.run.name, duty=job.duty.what, why=message.bug)
        if message.later:
            self._try_later(job, message.later)
        else:
            self._answer(job, message.result)
        self._pump()

    def _done_with(self, job: Job) -> None:
        self._suspects.discard(job.number)
        if (timer := self._timers.pop(job.number, None)) is not None:
            timer.cancel()

    def _try_later(self, job: Job, why: str) -> None:
        now_s = time.monotonic()
        job.since_s = job.since_s or now_s
        if job.duty.what != "admit" and now_s - job.since_s > PATIENCE_S:
            self._answer(job, failure(job.duty.what, f"tried for {PATIENCE_S:g} s: {why}"))
            return
        self._log.once("weights cannot be reached: tried again", job.run.name, why, duty=job.duty.what)
        delay_s = job.refused.failed_s(now_s, random.SystemRandom().random())
        asyncio.get_running_loop().call_later(delay_s, self.give, job)

    def _too_long(self, job: Job) -> None:
        job.overdue = True
        self.kill()

    def kill(self) -> None:
        """Whatever it does. What it had in its hands is given to the next."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    def _died(self, code: int) -> None:
        flying, self._flying = self._flying, {}
        if flying:
            self._log.warn("a process for weights died", bench=self._name, how=_how(code), duties=len(flying))
        alone = len(flying) == 1
        for job in reversed(flying.values()):
            self._done_with(job)
            if job.overdue:
                why = f"it took longer than {job.limit_s:g} s (workshop.code_timeout_s) and was ended"
                self._answer(job, failure(job.duty.what, why))
                continue
            job.killed += alone
            if job.killed >= TRIES:
                why = f"{TRIES} processes died of it, the last one {_how(code)}"
                self._answer(job, failure(job.duty.what, why))
            else:
                self._suspects.add(job.number)
                self._waiting.appendleft(job)

    async def close(self) -> None:
        """What is under way is left: it is given again to whoever serves next."""
        self._closed = True
        self._waiting.clear()
        self._flying.clear()
        for timer in self._timers.values():
            timer.cancel()
        if self._writer is not None:
            self._writer.close()
        if (task := self._task) is not None:
            task.cancel()
            await asyncio.wait((task,))


class Workshop:
    def __init__(self, server: Server, objects: str, scratch: Path, settings: Settings) -> None:
        """``objects``: the store's URL, which must be one that another process can open."""
        self._server = server
        self._settings = settings
        self._open: dict[tuple[str, int, int], Job] = {}
        self._scratch = scratch
        self._numbers = 0
        self._begun = False
        here = str(Path.cwd())
        path = list(dict.fromkeys([*(entry or here for entry in sys.path), here]))
        setup = Setup(objects, str(scratch / "ours"), settings.at_once, path)
        theirs = msgspec.structs.replace(setup, scratch=str(scratch / "theirs"), at_once=1)
        self.ours = Bench("ours", setup, server.log, self._answered)
        self.theirs = Bench("theirs", theirs, server.log, self._answered)
        for what in DUTIES:
            server.duties[what] = self.perform
        server.metrics.watch("queue", "workshop", lambda: float(len(self._open)))

    def perform(self, run: ServedRun, duty: Duty) -> None:
        """A duty that is under way may be issued again, when its journal was read anew: one of them is enough."""
        key = (run.name, duty.entry, duty.index)
        if key in self._open:
            self._open[key].run = run
            return
        if not self._begun:
            self._begun = True
            shutil.rmtree(self._scratch, ignore_errors=True)  # what a killed one left
        self._numbers += 1
        foreign = duty.what == "evaluate" or duty.order.get("aggregation", {}).get("rule") == "own"
        job = Job(self._numbers, run, duty, self._settings.code_timeout_s if foreign else None)
        self._open[key] = job
        if refused := code_refused(duty.order, self._settings.modules) if foreign else []:
            why = f"{refused[0].field} = {refused[0].value!r}: {refused[0].fix}"  # another replica may list it
            asyncio.get_running_loop().call_soon(self._answered, job, failure(duty.what, why))
            return
        (self.theirs if foreign else self.ours).give(job)

    def _answered(self, job: Job, result: dict[str, Any]) -> None:
        self._open.pop((job.run.name, job.duty.entry, job.duty.index), None)
        if job.limit_s is not None and "failed" in result:
            self.theirs.kill()  # whoever mends the code and resumes the run gets it as it is then
        job.run.report(shell.DutyFinished(job.duty.entry, job.duty.index, result))
        self._server.flush_soon()

    def waits(self) -> int:
        """Duties that the world has refused so far, and that are tried again."""
        return sum(1 for job in self._open.values() if job.refused.tries)

    async def close(self) -> None:
        await asyncio.gather(self.ours.close(), self.theirs.close())
        await asyncio.to_thread(shutil.rmtree, self._scratch, True)


def _spawn() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """A session of its own, so that Ctrl-C at the terminal means the server, which then ends this one."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    path = [entry for entry in (os.environ.get("PYTHONPATH", ""), str(ROOT)) if entry]
    environment = dict.fromkeys(ONE_THREAD, "1") | os.environ | {"PYTHONPATH": os.pathsep.join(path)}
    try:
        process = subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, "-P", "-m", "quoracy.hosts.workbench", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
            env=environment,
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return ours, process


def _reap(process: subprocess.Popen[bytes]) -> int:
    """Its socket is closed: it goes by itself, or is made to."""
    try:
        return process.wait(LEAVE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _how(code: int) -> str:
    if code >= 0:
        return f"with exit code {code}"
    name = signal.Signals(-code).name if -code in signal.Signals._value2member_map_ else f"signal {-code}"
    return f"by {name}" + (", as for want of memory" if -code == signal.SIGKILL else "")

"""The server host: many runs in one process, an asyncio shell over ``core.host``.

What arrives in one turn of the loop is handed to a run's host together and decided together; while its entry is being
written by the committer's thread, the loop goes on reading. Messages to one peer are collected and written once per
turn.

The server serves what it may. With the exclusive lock of its store it takes over at once; without it every run is
followed, members are sent to whoever serves, and the lock is tried again.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from typing import Any, Protocol

from quorate.core import shell
from quorate.core.errors import Refusal, Refused
from quorate.core.host import Host, Limits, Phase
from quorate.core.journal import RunCreated
from quorate.core.kinds import KINDS
from quorate.core.machine import Duty, Explanation
from quorate.core.messages import ToHost, ToMember
from quorate.core.run import Kinds, Run
from quorate.hosts import carry
from quorate.hosts.committer import Committer
from quorate.hosts.log import Log
from quorate.ports import Journal

LOCK_S = 0.2
"""How often a server that may not serve yet tries the lock, and looks for news of runs."""


class Peer(Protocol):
    """Somebody reached through a door."""

    def send(self, message: ToMember) -> None:
        """Keep the message; it is written by ``flush``."""

    def flush(self) -> None: ...


class Lockable(Protocol):
    """A store that one host at a time may serve."""

    def try_lock(self) -> bool: ...


Shown = tuple[Explanation, dict[str, Any] | None]


class ServedRun:
    """One run on this server: its host, its timer, and those who wait for an explanation."""

    def __init__(self, server: Server, name: str) -> None:
        self.server = server
        self.name = name
        self.host = Host(name, server.name, server.address, secrets.token_bytes(32), server.kinds, server.limits)
        self.inbox: list[tuple[Peer, ToHost]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_us = 0
        self._asked: list[asyncio.Future[Shown]] = []
        self._stopped_said = False
        self.loaded = asyncio.get_running_loop().create_future()

    def start(self) -> None:
        self.do(self.host.start(now_us()))

    def report(self, report: shell.Report) -> None:
        self.do(self.host.handle(report, now_us()))

    def drain_inbox(self) -> None:
        messages, self.inbox = self.inbox, []
        if messages:
            self.do(self.host.receive(messages, now_us()))  # type: ignore[arg-type]

    async def explain(self) -> Shown:
        asked: asyncio.Future[Shown] = asyncio.get_running_loop().create_future()
        self._asked.append(asked)
        self.report(shell.Asked("people"))
        return await asked

    def do(self, actions: list[shell.Action]) -> None:
        for action in actions:
            self._carry_out(action)
        self._arm()

    def _carry_out(self, action: shell.Action) -> None:
        server = self.server
        match action:
            case shell.Send(peer=peer, message=message):
                server.send(peer, message)
            case shell.Append():
                server.append(self, action)
            case shell.Load():
                server.committer.later(lambda: carry.load(server.journal, self.name), self._on_loaded)
            case shell.ReadEntry(n=n):
                server.committer.later(lambda: carry.read_entry(server.journal, self.name, n), self.report)
            case shell.Save(snapshot=snapshot):
                server.committer.later(lambda: carry.save(server.journal, self.name, snapshot), _nothing)
            case shell.Explained(explanation=explanation, overview=overview):
                self._answer((explanation, overview))
            case shell.Perform(duty=duty):
                server.perform(self, duty)
            case shell.Stop(code=code, why=why):
                server.log.error("run stopped", run=self.name, code=code, why=why)
            case shell.Beat():
                pass

    def _on_loaded(self, report: shell.Report) -> None:
        self.report(report)
        run = self.host.run
        if run is not None:
            self.server.log.info("journal read", run=self.name, entry=run.head.n, term=run.head.term)
        if not self.loaded.done():
            self.loaded.set_result(None)

    def _answer(self, shown: Shown) -> None:
        asked, self._asked = self._asked, []
        for future in asked:
            if not future.done():
                future.set_result(shown)

    def _arm(self) -> None:
        """One timer, at the host's next wish."""
        wake_us = self.host.wake_us()
        if wake_us is None or (self._timer is not None and self._timer_us <= wake_us):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_us = wake_us
        delay_s = max(0.0, (wake_us - now_us()) / 1e6)
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.report(shell.Tick())
        self.server.flush_soon()


class Server:
    def __init__(
        self,
        journal: Journal,
        name: str,
        address: str,
        *,
        inline: bool = False,
        kinds: Kinds = KINDS,
        limits: Limits | None = None,
        log: Log | None = None,
    ) -> None:
        """``inline``: appends take no time worth a thread, as with a journal in memory."""
        self.journal = journal
        self.name = name
        self.address = address
        self.kinds = kinds
        self.limits = limits or Limits()
        self.log = log or Log()
        self.runs: dict[str, ServedRun] = {}
        self.serving = False
        self.started_us = now_us()
        self.committer = Committer(journal, asyncio.get_running_loop())
        self._inline = inline
        self._loop = asyncio.get_running_loop()
        self._ready: dict[str, ServedRun] = {}
        self._dirty: dict[Peer, None] = {}
        self._scheduled = False
        self._watch: asyncio.Task[None] | None = None
        self.duties: dict[str, Callable[[ServedRun, Duty], None]] = {}

    # -- life -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Read all runs, and serve them if the store lets us."""
        for name in await self._off_loop(self.journal.runs):
            await self._open(name)
        self._try_lock()
        if not self.serving:
            self._watch = asyncio.create_task(self._follow())

    async def settle(self) -> None:
        """Until nothing is under way: what was decided is written, and whoever waits for it is told."""
        while any(run.host.busy() for run in self.runs.values()):
            await asyncio.sleep(0.001)
        self._flush()

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        await asyncio.to_thread(self.committer.close)

    def _try_lock(self) -> None:
        lock = getattr(self.journal, "try_lock", None)
        self.serving = lock is None or bool(lock())
        if self.serving:
            self.log.info("serving", host=self.name, address=self.address, runs=len(self.runs))
            for run in self.runs.values():
                run.report(shell.Take())

    async def _follow(self) -> None:
        """Another host serves: keep up with it, and be ready when it goes."""
        self.log.info("following: another host holds the store", host=self.name)
        while not self.serving:
            await asyncio.sleep(LOCK_S)
            for name in await self._off_loop(self.journal.runs):
                if name not in self.runs:
                    await self._open(name)
            for run in self.runs.values():
                await self._catch_up(run)
            self._try_lock()
            self.flush_soon()

    async def _catch_up(self, run: ServedRun) -> None:
        first = 1 if run.host.run is None else run.host.run.head.n + 1
        entries = await self._off_loop(lambda: self.journal.read(run.name, first))
        if entries:
            run.report(shell.Followed(first, entries))

    async def _off_loop(self, work: Callable[[], Any]) -> Any:
        done: asyncio.Future[Any] = self._loop.create_future()
        self.committer.later(work, done.set_result)
        return await done

    async def _open(self, name: str) -> ServedRun:
        run = self.runs[name] = ServedRun(self, name)
        run.start()
        await run.loaded
        return run

    # -- runs -------------------------------------------------------------------------------------------------------

    async def create(self, created: RunCreated) -> ServedRun:
        """Raises Refused if there is such a run, ConfigError if there can be none such."""
        if created.run in self.runs:
            raise Refused(Refusal("run_exists", f"run {created.run} was created before", "choose another name"))
        if not self.serving:
            raise Refused(Refusal("not_serving", "this host does not serve", "ask the one that does"))
        Run.create(self.kinds, created)
        run = await self._open(created.run)
        run.report(shell.Create(created))
        while run.host.phase is Phase.TAKING:
            await asyncio.sleep(0.0005)
        self.log.info("run created", run=created.run, kind=created.kind)
        return run

    # -- messages ---------------------------------------------------------------------------------------------------

    def receive(self, run: ServedRun, peer: Peer, message: ToHost) -> None:
        """Decided at the end of this turn of the loop, together with all else that came in it."""
        run.inbox.append((peer, message))
        self._ready[run.name] = run
        self.flush_soon()

    def gone(self, peer: Peer) -> None:
        self._dirty.pop(peer, None)
        for run in self.runs.values():
            run.report(shell.Disconnected(peer))  # type: ignore[arg-type]

    def send(self, peer: Any, message: ToMember) -> None:
        peer.send(message)
        self._dirty[peer] = None
        self.flush_soon()

    def append(self, run: ServedRun, wish: shell.Append) -> None:
        if self._inline:
            self._loop.call_soon(self._appended_inline, run, wish)
        else:
            self.committer.append(run.name, wish, run.report)

    def _appended_inline(self, run: ServedRun, wish: shell.Append) -> None:
        run.report(carry.append(self.journal, run.name, wish))

    def perform(self, run: ServedRun, duty: Duty) -> None:
        perform = self.duties.get(duty.what)
        if perform is None:
            self.log.error("nobody here performs this duty", run=run.name, duty=duty.what)
        else:
            perform(run, duty)

    def flush_soon(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        ready, self._ready = self._ready, {}
        for run in ready.values():
            run.drain_inbox()
        dirty, self._dirty = self._dirty, {}
        for peer in dirty:
            peer.flush()


def now_us() -> int:
    return time.monotonic_ns() // 1000


def _nothing(_result: Any) -> None:
    pass

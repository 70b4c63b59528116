"""The server host: many runs in one process, an asyncio shell over ``core.host``.

What arrives in one turn of the loop is handed to a run's host together and decided together; while its entry is being
written by the committer's thread, the loop goes on reading. Messages to one peer are collected and written once per
turn.

The server serves what it may. With the exclusive lock of its store it takes over at once; without it every run is
followed, members are sent to whoever serves, and the lock is tried again. Where a lock can lapse, a server that has
lost it steps back: whatever another one has taken over since is followed, and what nobody took is still served. Nothing
depends on it: of two servers that both believe they may serve, only one can write.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from typing import Any, Protocol

from quoracy.core import serverwide, shell
from quoracy.core.codec import digest
from quoracy.core.errors import ConfigError, JournalError, Refusal, Refused
from quoracy.core.host import Host, Phase
from quoracy.core.journal import RunCreated
from quoracy.core.kinds import KINDS, SERVER
from quoracy.core.limits import Limits
from quoracy.core.machine import Duty, Event, Explanation
from quoracy.core.members import OPERATOR_MARK
from quoracy.core.messages import Answered, Declined, Sign, ToHost, Told, ToMember
from quoracy.core.run import Kinds, Run
from quoracy.core.snapshot import Snapshot
from quoracy.hosts import carry
from quoracy.hosts.chronicle import Chronicle
from quoracy.hosts.committer import Committer
from quoracy.hosts.log import Log
from quoracy.hosts.metrics import Metrics
from quoracy.ports import Journal, Segment

LOCK_S = 0.2
"""How often a server that may not serve yet tries the lock, and looks for news of runs."""
TELL_S = 1.0
"""How often the log may tell what a run is waiting for."""
TRIES = 10
PAUSE_S = 0.01
"""A run is mostly between two entries: look again a few times before it is made to answer."""


OF_THE_STORE = frozenset({"journal_broken", "journal_full", "journal_busy", "outcome_unknown"})
"""Why a run stopped that concerns all runs: this process cannot write any more, while it keeps others from the lock."""


class Peer(Protocol):
    """Somebody reached through a door."""

    def send(self, message: ToMember, run: str = "") -> None:
        """Keep the message; it is written by ``flush``. ``run``: which one it is about, if it is a view."""

    def flush(self) -> None: ...


class Lockable(Protocol):
    """A store that one host at a time may serve."""

    def try_lock(self) -> bool: ...


Shown = tuple[Explanation, dict[str, Any] | None]


class ServedRun:
    """One run on this server, or the server's own journal: its host, its timer, and those who wait for an
    explanation."""

    def __init__(self, server: Server, name: str) -> None:
        self.server = server
        self.name = name
        self.own = name == serverwide.RUN
        kinds = SERVER if self.own else server.kinds
        self.host = Host(name, server.name, server.address, secrets.token_bytes(32), kinds, server.limits)
        self.inbox: list[tuple[Peer, ToHost]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_us = 0
        self._asked: list[asyncio.Future[Shown]] = []
        self._flying: shell.Append | None = None
        self._told_n = 0
        self._wish: tuple[bytes, int] = (b"", 0)
        """The nonce of the entry that was handed to the store last, and when that was, for the first time."""
        self.loaded = asyncio.get_running_loop().create_future()

    def start(self) -> None:
        self.do(self.host.start(now_us()))

    def report(self, report: shell.Report) -> None:
        self.do(self.host.handle(report, self.server.clock_us()))

    def drain_inbox(self) -> None:
        messages, self.inbox = self.inbox, []
        if messages:
            self.do(self.host.receive(messages, self.server.clock_us()))  # type: ignore[arg-type]

    def hear(self, peer: Peer, sign: Sign) -> Declined | Told | None:
        """A signal that is answered from what is known, such as a heartbeat, without a turn of its own. None: it has to
        wait its turn, because others do or an entry is on its way, and nothing has happened."""
        desk = self.host.desk
        if desk is None or self.inbox or self.host.busy():
            return None
        return desk.hear(peer, sign, now_us())  # type: ignore[arg-type]

    async def explain(self) -> Shown:
        asked: asyncio.Future[Shown] = asyncio.get_running_loop().create_future()
        self._asked.append(asked)
        self.report(shell.Asked("people"))
        return await asked

    async def brief(self) -> Explanation | None:
        """What the run is waiting for, for less than ``explain`` costs; None if this host cannot say."""
        for _ in range(TRIES):
            if self.host.phase is not Phase.SERVING or self.host.desk is None:
                return None
            if self.host.quiet():
                return self.host.desk.explain(now_us())
            await asyncio.sleep(PAUSE_S)
        return (await self.explain())[0]

    def do(self, actions: list[shell.Action]) -> None:
        events = self.host.landed
        took_us = now_us() - self._wish[1] if events else 0
        payload = self._landed()
        self.server.send_all(self.name, actions)
        for action in actions:
            if type(action) is not shell.Send:
                self._carry_out(action)
        if events:
            self.host.landed = []
            self._tell_of(events, took_us)
        self._arm()
        run = self.host.run
        if run is None or self.own:
            return
        if payload is not None:
            self.server.chronicle.committed(run, payload)
        if run.head.n != self._told_n:
            self._told_n = run.head.n
            for told in self.server.on_entry:
                told(self.name, run.head.n)

    def _tell_of(self, events: list[Event], took_us: int) -> None:
        """An entry is durable. Whoever waits for it is told first; counting and logging can wait."""
        server = self.server
        server.hand_out()
        if self.own:
            return
        server.metrics.committed(self.name, took_us / 1e6)
        server.metrics.recorded(self.name, events)

    def _landed(self) -> bytes | None:
        """The entry that was on its way, if it has just become part of the journal."""
        flying, run = self._flying, self.host.run
        if flying is None or run is None or run.head.n < flying.n:
            return None
        self._flying = None
        ours = run.head.n == flying.n and run.head.digest == digest(flying.payload)
        return flying.payload if ours else None

    def _carry_out(self, action: shell.Action) -> None:
        server = self.server
        match action:
            case shell.Append():
                if action.nonce != self._wish[0]:
                    self._wish = (action.nonce, now_us())
                self._flying = action if server.log.tells("warn") else None
                server.append(self, action)
            case shell.Load():
                server.committer.later(lambda: carry.load(server.journal, self.name), self._on_loaded)
            case shell.ReadEntry(n=n):
                server.committer.later(lambda: carry.read_entry(server.journal, self.name, n), self.report)
            case shell.Save(snapshot=snapshot):
                server.committer.later(lambda: self._save(snapshot), self._saved, self._not_saved)
            case shell.Explained(explanation=explanation, overview=overview):
                self._answer((explanation, overview))
            case shell.Perform(duty=duty):
                server.perform(self, duty)
            case shell.Stop(code=code, why=why):
                server.log.error("this host stops serving the run", run=self.name, code=code, why=why)
                if code in OF_THE_STORE and not server.broken.done():
                    server.broken.set_result(action)
            case shell.Beat():
                pass

    def _on_loaded(self, report: shell.Report) -> None:
        self.report(report)
        run = self.host.run
        if run is not None:
            self.server.log.info("journal read", run=self.name, entry=run.head.n, term=run.head.term)
        if not self.loaded.done():
            self.loaded.set_result(None)

    def _save(self, snapshot: Snapshot) -> Segment | None:
        """On the reader's thread, off the commit path."""
        journal = self.server.journal
        carry.save(journal, self.name, snapshot)
        return carry.archive(journal, self.name, snapshot.n, self.server.retention)

    def _saved(self, segment: Segment | None) -> None:
        if segment is not None:
            said = {"first": segment.first, "last": segment.last, "file": segment.name}
            self.server.log.info("archived a segment", run=self.name, **said)

    def _not_saved(self, error: Exception) -> None:
        """Nothing is lost: a restart folds more entries, or reads more of them in the hot store."""
        self.server.log.warn("a snapshot could not be saved", run=self.name, why=str(error))

    def _answer(self, shown: Shown) -> None:
        asked, self._asked = self._asked, []
        for future in asked:
            if not future.done():
                future.set_result(shown)

    def _arm(self) -> None:
        """One timer, at the host's next wish. Not for a follower while another server holds the store: its only wish is
        to take over from a host that is silent, and a host without work is; the lock knows better."""
        follows = not self.server.serving and self.host.phase is Phase.FOLLOWING
        wake_us = None if follows else self.host.wake_us()
        if wake_us is None or (self._timer is not None and self._timer_us <= wake_us):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_us = wake_us
        delay_s = max(0.0, (wake_us - now_us()) / 1e6)
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self.server.hushed_us is not None:
            return
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
        retention: carry.Retention | None = None,
        log: Log | None = None,
    ) -> None:
        """``inline``: appends take no time worth a thread, as with a journal in memory."""
        self.journal = journal
        self.retention = retention or carry.Retention()
        self.name = name
        self.address = address
        self.kinds = kinds
        self.limits = limits or Limits()
        self.log = log or Log()
        self.metrics = Metrics()
        self.chronicle = Chronicle(self.log, kinds)
        self.runs: dict[str, ServedRun] = {}
        self.own: ServedRun | None = None
        """What belongs to the server and to no run. Made when there is something to keep."""
        self._own_lock = asyncio.Lock()
        self.serving = False
        self.broken: asyncio.Future[shell.Stop] = asyncio.get_running_loop().create_future()
        """Done when the store cannot be written any more: whoever runs this server should end it."""
        self.on_entry: list[Callable[[str, int], None]] = []
        """Called with a run and its newest entry when there is a new one, after whom it concerns was told."""
        self.started_us = now_us()
        self.hushed_us: int | None = None
        """Since when nobody is heard any more."""
        self.committer = Committer(journal, asyncio.get_running_loop())
        self._inline = inline
        self._lapses = bool(getattr(journal, "lock_lapses", False))
        self._loop = asyncio.get_running_loop()
        self._ready: dict[str, ServedRun] = {}
        self._dirty: dict[Peer, None] = {}
        self._scheduled = False
        self._watch: asyncio.Task[None] | None = None
        self._tell: asyncio.Task[None] | None = None
        self.duties: dict[str, Callable[[ServedRun, Duty], None]] = {}

    # -- life -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Read all runs, and serve them if the store lets us. Raises JournalError."""
        for name in await self.off_loop(self.journal.runs):
            await self._open(name)
        if await self._lock():
            self._serve()
        if self._lapses or not self.serving:
            self._watch = asyncio.create_task(self._keep_place())
        if self.log.tells("info"):
            self._tell = asyncio.create_task(self._tell_waiting())

    def hush(self) -> None:
        """Nothing is read any more: from here on no time passes for the runs. Silence would mean nothing, and whoever
        beats in vain must not be declared dead by a server that is about to stop."""
        self.hushed_us = self.hushed_us or now_us()

    def clock_us(self) -> int:
        return now_us() if self.hushed_us is None else self.hushed_us

    async def settle(self) -> None:
        """Until nothing is under way: what was decided is written, and whoever waits for it is told."""
        while any(run.host.busy() for run in self._all()):
            await asyncio.sleep(0.001)
        self._flush()

    async def close(self) -> None:
        for task in (self._watch, self._tell):
            if task is not None:
                task.cancel()
        await asyncio.to_thread(self.committer.close)

    async def _lock(self) -> bool:
        """Off the loop: a lock may be on another machine."""
        lock = getattr(self.journal, "try_lock", None)
        return lock is None or bool(await self.off_loop(lock))

    def _serve(self) -> None:
        self.serving = True
        self.log.info("serving", host=self.name, address=self.address, runs=len(self.runs))
        for run in self._all():
            run.report(shell.Take())

    async def _keep_place(self) -> None:
        """While another host serves keep up with it, and be ready when it goes. Notice if our own lock lapses."""
        if not self.serving:
            await self._tell_following()
        while self._lapses or not self.serving:
            await asyncio.sleep(LOCK_S)
            mine = False
            try:
                mine = await self._lock()
                await self._catch_up()
            except JournalError as error:
                self.log.once("cannot follow", "", str(error), code=error.code)
                if not mine and self.serving:
                    self._step_back()
                continue
            if not mine and self.serving:
                self._step_back()
            if mine and not self.serving:
                self.log.info("the other server is gone: taking over", host=self.name)
                self._serve()
            self.flush_soon()

    def _step_back(self) -> None:
        """Whether another host has taken over a run is in its journal, and its members are told when we read it."""
        self.serving = False
        self.log.warn("the lock has lapsed: following, since another server may serve now", host=self.name)

    async def _tell_following(self) -> None:
        holder = await self.off_loop(getattr(self.journal, "lock_holder", str))
        self.log.info("following: another server holds the store", host=self.name, process=holder or "?")

    async def _catch_up(self) -> None:
        """What other hosts wrote. While we serve that is nothing, but for the last words of one that had not yet
        noticed that its lock has lapsed: what it made or took is taken from it."""
        for name in await self.off_loop(self.journal.runs):
            if name not in self.runs and not (self.own is not None and name == serverwide.RUN):
                await self._open(name)
        for run in self._all():
            if not self.serving or run.host.phase is Phase.FOLLOWING:
                while await self._read_on(run):
                    pass
                if self.serving and run.host.run is not None:
                    run.report(shell.Take())

    async def _tell_waiting(self) -> None:
        while True:
            await asyncio.sleep(TELL_S)
            for run in list(self.runs.values()):
                explanation = await run.brief()
                if explanation is not None:
                    self.chronicle.waiting(run.name, explanation)

    async def _read_on(self, run: ServedRun) -> bool:
        first = 1 if run.host.run is None else run.host.run.head.n + 1
        entries = await self.off_loop(lambda: self.journal.read(run.name, first))
        if entries:
            run.report(shell.Followed(first, entries))
        return bool(entries) and run.host.run is not None and run.host.run.head.n >= first

    async def off_loop(self, work: Callable[[], Any]) -> Any:
        """Blocking work, such as reading a journal, on the reader's thread."""
        done: asyncio.Future[Any] = self._loop.create_future()

        def result(value: Any) -> None:
            if not done.done():
                done.set_result(value)

        def failed(error: Exception) -> None:
            if not done.done():
                done.set_exception(error)

        self.committer.later(work, result, failed)
        return await done

    async def _open(self, name: str) -> ServedRun:
        run = ServedRun(self, name)
        if run.own:
            self.own = run
        else:
            self.runs[name] = run
        run.start()
        await run.loaded
        return run

    # -- runs -------------------------------------------------------------------------------------------------------

    def _all(self) -> list[ServedRun]:
        return [*self.runs.values(), *([] if self.own is None else [self.own])]

    async def own_run(self) -> ServedRun:
        """The server's own journal, which is made if there is none. Raises Refused."""
        async with self._own_lock:
            if self.own is None:
                await self._create(RunCreated(serverwide.RUN, serverwide.KIND.name, serverwide.KIND.rules, {}))
        if self.own is None:
            raise Refused(Refusal("not_serving", "this host does not serve", "ask the one that does"))
        return self.own

    async def create(self, created: RunCreated) -> ServedRun:
        """Raises Refused if there is such a run, ConfigError if there can be none such."""
        if created.run.startswith(OPERATOR_MARK):
            raise ConfigError("run", created.run, f"a name that does not begin with {OPERATOR_MARK}")
        if created.run in self.runs:
            raise Refused(Refusal("run_exists", f"run {created.run} was created before", "choose another name"))
        Run.create(self.kinds, created)
        return await self._create(created)

    async def _create(self, created: RunCreated) -> ServedRun:
        if not self.serving:
            raise Refused(Refusal("not_serving", "this host does not serve", "ask the one that does"))
        run = await self._open(created.run)
        run.report(shell.Create(created))
        while run.host.phase is Phase.TAKING:
            await asyncio.sleep(0.0005)
        if (stopped := run.host.stopped) is not None:
            self.runs.pop(created.run, None)
            self.own = None if run.own else self.own
            raise Refused(Refusal(stopped.code, f"the run could not be written: {stopped.why}", "see the server's log"))
        return run

    # -- messages ---------------------------------------------------------------------------------------------------

    def receive(self, run: ServedRun, peer: Peer, message: ToHost) -> None:
        """Decided at the end of this turn of the loop, together with all else that came in it."""
        run.inbox.append((peer, message))
        self._ready[run.name] = run
        self.flush_soon()

    def gone(self, peer: Peer) -> None:
        self._dirty.pop(peer, None)
        for run in self._all():
            run.report(shell.Disconnected(peer))  # type: ignore[arg-type]

    def send(self, peer: Any, message: ToMember) -> None:
        if type(message) is Answered:
            self.metrics.answered(message.answer)
        peer.send(message)
        self._dirty[peer] = None
        self.flush_soon()

    def send_all(self, run: str, actions: list[shell.Action]) -> None:
        """As ``send``, for each that is a ``Send``: when a barrier opens there are as many as there are members."""
        dirty = self._dirty
        for action in actions:
            if type(action) is shell.Send:
                peer: Any = action.peer
                message = action.message
                if type(message) is Answered:
                    self.metrics.answered(message.answer)
                peer.send(message, run)
                dirty[peer] = None
        if dirty:
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
        self.hand_out()

    def hand_out(self) -> None:
        """Write what was said to peers since the last time."""
        dirty, self._dirty = self._dirty, {}
        for peer in dirty:
            peer.flush()


def now_us() -> int:
    return time.monotonic_ns() // 1000

"""``quoracy.ranks``: a training loop among equals, with no coordinator.

    with quoracy.ranks("tcpstore://host:29500", run="bert", rank=3) as ranks:
        for it in ranks.iterations():
            gradients = compute(it)
            if it.vote(ok=True):
                optimizer.step()

The logic is in ``core.ranks.part``; here it meets a real store and a real clock. Beats come from another process, since
the training may hold this one for as long as it likes.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Final

from quoracy.core.asks import Steps
from quoracy.core.errors import ConfigError, JournalError, QuoracyError, Refusal, Refused
from quoracy.core.journal import RunCreated
from quoracy.core.kinds import PEERLESS
from quoracy.core.machine import Event
from quoracy.core.members import Cause
from quoracy.core.peer import Peer
from quoracy.core.ranks.events import AttemptDecided, RankJoined, RankLeft
from quoracy.core.ranks.part import Part, Stage, Turn
from quoracy.core.ranks.salvage import begin_anew
from quoracy.core.ranks.state import OUT, Config, Crew, Decision
from quoracy.core.ranks.times import Times, derive
from quoracy.core.run import Run, UnknownRules
from quoracy.hosts.peerless import OutOfReach, Peerless, Shared, fix_of
from quoracy.ports.keyvalue import StoreLost
from quoracy.sdk.client.errors import (
    Closed,
    CutOff,
    Draining,
    Ended,
    Forked,
    RunClosed,
    Unreachable,
    WorkerError,
    again,
    ended_by,
    from_refusal,
    reason_of,
)
from quoracy.sdk.client.sigterm import Drain
from quoracy.sdk.ranks.events import OnNews, Teller, show_log
from quoracy.sdk.ranks.heartbeat import Sight, Task, now_us
from quoracy.sdk.ranks.iteration import Iteration
from quoracy.sdk.ranks.parts import ToldPart, check_rank, check_settings, gone_of
from quoracy.sdk.ranks.supervisor import Lookout
from quoracy.stores.opening import open_store

DRAIN_S: Final = 20.0
"""After SIGTERM, for the attempt under way. Less than the 30 s after which most platforms kill."""
LEAVE_S: Final = 5.0
"""For a goodbye to be written. The others notice the silence of whoever cannot say it."""

POLL_S: Final = 0.005


class _Enough(Exception):
    """Whoever waits is not to wait any longer."""


class Ranks:
    """One rank. Made by ``quoracy.ranks``; for one thread."""

    def __init__(
        self,
        store: str,
        run: str,
        rank: int,
        *,
        learner: bool = False,
        address: str = "",
        on_news: OnNews | None = None,
        handle_sigterm: bool | None = None,
        drain_s: float = DRAIN_S,
        min_members: int | None = None,
        form_members: int | None = None,
        max_ranks: int | None = None,
        t_dead_s: float | None = None,
        **times: float,
    ) -> None:
        """``learner``: has to fetch the model before it is counted in, and says so with ``Iteration.ready``.
        ``address``: for the others, as ``Iteration.addresses``. ``on_news`` is called with everything that happens.

        ``min_members, form_members, max_ranks, t_dead_s`` are the run's: the first rank that comes creates it with
        them. Later ones may leave them out; one that names another value is refused. ``times``: beat_s, look_s, op_s,
        stop_s, slot_s, help_s of this rank alone, where what follows from ``t_dead_s`` does not do."""
        check_settings(rank, drain_s, times)
        self.run = run
        self.rank = rank
        self._store = store
        named = {
            "min_members": min_members, "form_members": form_members, "max_ranks": max_ranks, "t_dead_s": t_dead_s,
        }  # fmt: skip
        self._named = {name: value for name, value in named.items() if value is not None}
        created = RunCreated(run, "ranks", PEERLESS.newest("ranks").rules, self._named, seeding="chain")
        machine: Any = Run.create(PEERLESS, created).machine
        self._given_times = times
        self.times: Times = derive(machine.crew.config.t_dead_s, **times)
        check_rank(rank, machine.crew.config)
        self._peer = Peer(str(rank), secrets.token_bytes(32), PEERLESS, created)
        self._learner = learner
        self._address = address or socket.gethostname()[:255]
        self._teller = Teller(rank, on_news)
        self._handle_sigterm = handle_sigterm
        self._drain = Drain(lambda: None)
        self._drain_s = drain_s
        self._patience_s: float | None = None
        """After SIGTERM, for what is being waited for; None for as long as it takes."""
        self._until_s: float | None = None
        self._stopped_waiting = False
        self._pid = os.getpid()
        self._shared: Shared | None = None
        self.host: Peerless | None = None
        self._part: Part | None = None
        self._lookout: Lookout | None = None
        self._sight: Sight | None = None
        self._iteration: Iteration | None = None
        self.ended: WorkerError | None = None
        """Why ``iterations`` ended, as the exception that any further call would raise; None while it goes on."""

    # -- life -------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Ranks:
        self.prepare()
        try:
            self.open()
        except BaseException:
            self.unprepare()
            raise
        return self

    def prepare(self) -> None:
        """What is the process's: its log and its signals."""
        show_log()
        self._drain.install(self._handle_sigterm)

    def unprepare(self) -> None:
        self._drain.remove()

    def open(self) -> None:
        """Reach the store and read the run, or create it. Raises Unreachable, or ConfigError for settings that are not
        the run's."""
        try:
            self._shared = Shared(*open_store(self._store, self.times.op_s))
        except JournalError as error:
            why = f"the store {self._store} cannot be opened: {error}"
            raise Unreachable(why, fix_of(error).replace("start the rank again", "try again"), error.code) from None
        self.host = Peerless(self._shared, self.run, self.times)
        try:
            self._drive(self._peer.load())
            self._agree(self.crew.config)
            self._part = ToldPart(self._peer, self.times, self._learner, self._address, self._teller.stage)
            self._part.collector.decider = str(self.rank)
            part_folds = self._peer.folding
            self._peer.folding = lambda recorded: self._tell(recorded, part_folds)
            self._watch()
        except UnknownRules as error:
            self._release()
            fix = "choose another name, or the kind of run that it is"
            raise ConfigError("run", self.run, f"{fix}: {error}") from None
        except BaseException:
            self._release()
            raise

    def _watch(self) -> None:
        """Have somebody beat. Nobody joins before it can: the others would soon give it up. Some stores take seconds to
        open."""
        times = self.times
        task = Task(self._store, self.run, str(self.rank), times.beat_s, times.look_s, times.dead_s, times.op_s)
        self._lookout = Lookout(task, self._take)
        while not self._has_looked():
            self.glance()
            time.sleep(POLL_S)

    def _has_looked(self) -> bool:
        return self._sight is not None and self._sight.looks > 0

    def _agree(self, config: Config) -> None:
        """The run's settings are in its journal, and count for everybody."""
        for name, value in self._named.items():
            if getattr(config, name) != value:
                there = f"run {self.run!r} was created with {getattr(config, name)!r}"
                raise ConfigError(name, value, f"{there}, which counts for all: use that, or leave it out")
        check_rank(self.rank, config)
        self.times = derive(config.t_dead_s, **self._given_times)
        if self.host is not None:
            self.host.times = self.times

    def __exit__(
        self, _sort: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close(reason_of(error))

    def close(self, reason: str = "done") -> None:
        """Leave, if that is still to be done, and let go of everything."""
        if os.getpid() == self._pid:
            try:
                self.part_ways(reason)
            finally:
                self.unprepare()

    def part_ways(self, reason: str) -> None:
        try:
            self._goodbye(reason, Closed(f"rank {self.rank} has left: {reason}", "begin again with quoracy.ranks"))
        finally:
            self._release()

    def _release(self) -> None:
        if self._part is not None:
            self._part.stage = Stage.STOPPED
        if self._lookout is not None:
            self._lookout.close()
            self._lookout = None
        self._sight = None  # trouble with a store that is gone is not trouble with the next
        if self._shared is not None:
            self._shared.close()
            self._shared = None

    def _goodbye(self, reason: str, ended: WorkerError) -> None:
        """Written at once where that is possible, so that nobody waits for a rank that has gone."""
        if self.ended is not None or self._part is None:
            self.ended = self.ended or ended
            return
        part, self._until_s, self._patience_s = self._part, time.monotonic() + LEAVE_S, None
        with contextlib.suppress(QuoracyError, OSError, _Enough):
            if part.incarnation and part.stage is not Stage.STOPPED and self.host is not None:
                self.host.drive(self._peer, part.leave(reason[:256]), self._between)
                while not self._is_out():  # somebody else's entry may come first, and not have it
                    self.host.drive(self._peer, self._peer.propose(), self._between)
        self._until_s = None
        self.ended = ended

    def _is_out(self) -> bool:
        mine = self.part.mine()
        return mine is None or mine.state in OUT or mine.incarnation != self.part.incarnation

    # -- the loop ---------------------------------------------------------------------------------------------------

    def iterations(self) -> Iterator[Iteration]:
        """Attempt after attempt, until the run is stopped or SIGTERM has come; ``ended`` says which. One that the loop
        did not vote on counts as failed. Raises Superseded, CutOff."""
        iteration = self.begin()
        while iteration is not None:
            yield iteration
            iteration = self.advance(iteration)

    def begin(self) -> Iteration | None:
        """Join, if that is still to be done. None if there is nothing to take part in."""
        if self._iteration is not None:
            return self.advance(self._iteration) if self._iteration.voted else self._iteration
        self._turn(lambda part: part.join(), 0.0)
        return self._iteration if self.ended is None else None

    def advance(self, iteration: Iteration) -> Iteration | None:
        """To the attempt after this one."""
        if self.ended is None and not iteration.voted and not self.draining:
            if iteration.learner:
                iteration.ready()
            else:
                iteration.vote(ok=False)
        if self.ended is None and self.draining:
            self._goodbye("SIGTERM", self._drained())
        return self._iteration if self.ended is None else None

    def settle(self, iteration: Iteration, ok: bool) -> bool:
        """-> whether the attempt was committed, with this rank in it."""
        turn = self._turn(lambda part: part.vote(ok), self._drain_s)
        before = None if turn is None else turn.before
        if turn is None or before is None or turn.joined:
            return False
        return before.attempt == iteration.attempt and before.outcome == "committed"

    def learned(self) -> None:
        self._turn(lambda part: part.ready(), 0.0)

    def make_once(self, name: str, make: Callable[[], bytes]) -> bytes:
        self._check()
        try:
            made: bytes = self._drive(self.part.once(name, make))
        except StoreLost as lost:
            refusal = Refusal(
                "stale_token", f"the store was lost: {lost}", "vote: the run begins anew, and the rank joins"
            )
            raise from_refusal(refusal) from None
        return made

    def _turn(self, steps: Callable[[Part], Steps], patience_s: float) -> Turn | None:
        """None if the run is over or this rank has to go; anything else that ends it is raised."""
        self._check()
        part = self.part
        self._patience_s = patience_s
        try:
            turn: Turn = self._drive_or_begin_anew(steps(part))
        except RunClosed:
            return None
        except _Enough:
            if self._stopped_waiting:
                raise
            self._goodbye("SIGTERM", self._drained())
            return None
        finally:
            self._patience_s = None
        ranks = self.crew.ranks
        known = {int(name): ranks[name] for name in turn.members if name in ranks}
        self._iteration = Iteration(self, turn, known)
        part.stage = Stage.LEARNER if self._iteration.learner else Stage.TRAINING
        return turn

    def _drive_or_begin_anew(self, steps: Steps) -> Any:
        """A store that has lost its memory is begun anew with what the ranks remember, if enough of them are there."""
        try:
            return self._drive(steps)
        except StoreLost as lost:
            self._teller.lost(str(lost))
        while True:
            try:
                self._reopen()
                self._drive(begin_anew(self.part))
                self._watch()
                return self._drive(self.part.join())
            except StoreLost as lost:
                self._teller.lost(str(lost))

    def _reopen(self) -> None:
        """Everything that knows the old store goes: its connections, and the process that beats."""
        self._release()
        began_s = time.monotonic()
        while True:
            try:
                self._shared = Shared(*open_store(self._store, self.times.op_s))
                break
            except JournalError as error:
                if time.monotonic() - began_s > self.times.stop_s:
                    why = f"the store {self._store} was lost, and cannot be opened again: {error}"
                    raise self._end(CutOff(why, fix_of(error), error.code)) from None
                time.sleep(POLL_S)
        hooks = self.host
        self.host = Peerless(self._shared, self.run, self.times)
        if hooks is not None:
            self.host.before, self.host.after = hooks.before, hooks.after

    # -- what a script may ask --------------------------------------------------------------------------------------

    @property
    def part(self) -> Part:
        if self._part is None:
            raise ConfigError("ranks", self.rank, "use it inside its with block")
        return self._part

    @property
    def crew(self) -> Crew:
        run, _ = self._peer.folded()
        machine: Any = run.machine
        crew: Crew = machine.crew
        return crew

    @property
    def stage(self) -> str:
        return self.part.stage.value

    @property
    def draining(self) -> bool:
        """SIGTERM has come: the attempt under way is the last."""
        return self._drain.since_s is not None

    def drain(self) -> None:
        """As if SIGTERM had come: for programs that handle signals themselves."""
        self._drain.begin()

    def explain(self) -> str:
        """At which stage this rank is, what it is waiting for, and why."""
        self._read_on()
        self._peer.now_us = now_us()
        return self.part.explain()

    def overview(self) -> dict[str, Any]:
        self._read_on()
        run, collector = self._peer.folded()
        return collector.overview(run.machine, now_us())

    def recall(self, before: Decision) -> Decision:
        """A decision as the record has it, if that has been read."""
        return self.part.recall(before)

    def _read_on(self) -> None:
        """What was said to have been written, as far as the store answers."""
        if self._peer.unread is not None and self.host is not None:
            with contextlib.suppress(QuoracyError, _Enough):
                self.host.drive(self._peer, self.part.settle(), self._between)

    @property
    def operations(self) -> int:
        """Asked of the store so far, beats not counted."""
        return 0 if self._shared is None else self._shared.count

    @property
    def beater(self) -> int:
        """The process that beats."""
        return 0 if self._lookout is None else self._lookout.pid

    def glance(self) -> Sight | None:
        """What the beater has seen last, without waiting and without the store. Raises CutOff."""
        self._check()
        try:
            self._between()
        except OutOfReach as error:
            raise self._end(CutOff(error.why, error.fix)) from None
        return self._sight

    def missing(self, lives: dict[int, int]) -> list[int]:
        """Which of these, by rank and incarnation, do not go on with this attempt, as far as the beater has seen."""
        sight = self.glance()
        return [] if sight is None else sorted(gone_of(sight, lives, self.times.dead_us()) - {self.rank})

    def stop_waiting(self, stop: bool) -> None:
        """From another thread: whatever waits here ends soon, and may be called again when this is over."""
        self._stopped_waiting = stop

    # -- driving ----------------------------------------------------------------------------------------------------

    def _drive(self, steps: Steps) -> Any:
        if self.host is None:
            raise ConfigError("ranks", self.rank, "use it inside its with block")
        try:
            return self.host.drive(self._peer, steps, self._between)
        except OutOfReach as error:
            raise self._end(CutOff(error.why, error.fix, error.code)) from None
        except Refused as error:
            if error.code == "stale_token":
                raise from_refusal(error.refusal) from None
            raise self._end(ended_by(error.refusal)) from None

    def _between(self) -> None:
        """Between two operations: what the beater has seen meanwhile, and whether to go on waiting."""
        now_s = time.monotonic()
        if self._stopped_waiting or (self._until_s is not None and now_s > self._until_s):
            raise _Enough
        since_s = self._drain.since_s
        if since_s is not None and self._patience_s is not None and now_s - since_s > self._patience_s:
            raise _Enough
        if self._lookout is not None and self._part is not None:
            self._lookout.tend(self._part.incarnation)
        if self.host is not None and self._sight is not None and self._sight.trouble:
            self.host.check_reach((now_us() - self._sight.failing_us) / 1e6, self._sight.trouble)

    def _take(self, sight: Sight) -> None:
        self._sight = sight
        if self._peer.run is None:
            return
        for seen in sight.seen:
            self._peer.observe([seen.note], max(seen.changed_us, sight.steady_us))
        self.part.collector.watched_for(sight.looked_us, sight.steady_us)

    def _tell(self, recorded: list[tuple[Cause | None, Event]], part_folds: Any) -> None:
        part_folds(recorded)
        for _, event in recorded:
            match event:
                case AttemptDecided():
                    self._teller.decision(self.crew.log[-1])
                case RankJoined():
                    self._teller.came(event.member, event.supersedes + 1)
                case RankLeft():
                    self._teller.left(event.member, event.reason)

    def _check(self) -> None:
        if os.getpid() != self._pid:
            why = f"rank {self.rank} belongs to process {self._pid}, and this is its child {os.getpid()}"
            raise Forked(why, "begin with quoracy.ranks in the child process, as a rank of its own")
        if self.ended is not None:
            raise again(self.ended)

    def _end(self, error: WorkerError) -> WorkerError:
        if isinstance(error, Ended):
            self.ended = error
        return error

    def _drained(self) -> Draining:
        return Draining(f"SIGTERM came, and rank {self.rank} has left", None)


def ranks(store: str, run: str, rank: int, **settings: Any) -> Ranks:
    """One rank of a run that has no coordinator; see ``Ranks`` for the settings. To be entered with ``with``."""
    return Ranks(store, run, rank, **settings)

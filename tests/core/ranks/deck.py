"""Ranks on a deck: ``Deck`` is a fold that tests write entries into, ``Boat`` whole ranks over one store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.core.scribe import RUN, Scribe, created

from quoracy.core import asks as ops
from quoracy.core.asks import Steps
from quoracy.core.codec import encode
from quoracy.core.errors import EntriesGone, QuoracyError
from quoracy.core.journal import RunCreated
from quoracy.core.kinds import PEERLESS
from quoracy.core.members import Cause
from quoracy.core.peer import Peer
from quoracy.core.ranks.events import AttemptDecided, RankArrived, RankBeat, RankJoined, RankLeft, RankReady
from quoracy.core.ranks.part import Part, Turn
from quoracy.core.ranks.state import Crew, Decision, Rank
from quoracy.core.ranks.times import derive
from quoracy.core.run import Run
from quoracy.sim.ranks.store import Store
from quoracy.sim.world import World

SECOND = 1_000_000


class Deck:
    def __init__(self, *ranks: int, **config: Any) -> None:
        """These have joined, and the first attempt is under way if there are any."""
        self.scribe = Scribe(PEERLESS, created("ranks", config))
        if ranks:
            self.join(*ranks)
            self.decide()

    @property
    def run(self) -> Run:
        return self.scribe.run

    @property
    def machine(self) -> Any:
        return self.run.machine

    @property
    def crew(self) -> Crew:
        crew: Crew = self.machine.crew
        return crew

    def rank(self, rank: int) -> Rank:
        return self.crew.ranks[str(rank)]

    def seats(self, *ranks: int) -> list[int]:
        return [self.rank(rank).seat for rank in ranks]

    def state(self, rank: int) -> str:
        return self.rank(rank).state.value

    def members(self) -> list[str]:
        return [rank.id for rank in self.crew.members()]

    # -- commands ---------------------------------------------------------------------------------------------------

    def joining(self, rank: int | str, learner: bool = False) -> tuple[Cause, RankJoined]:
        life = self.machine.incarnation_of(str(rank))
        nonce = f"{rank:>8}{self.run.head.n:08}".encode()
        return Cause(str(rank), life, 0), RankJoined(str(rank), life, nonce, learner=learner)

    def join(self, *ranks: int, learner: bool = False) -> None:
        for rank in ranks:
            self.scribe.write(self.joining(rank, learner))

    def said(self, rank: int, sort: type[Any] = RankLeft, *rest: Any) -> tuple[Cause, Any]:
        known = self.run.roster.members[str(rank)]
        return Cause(str(rank), known.incarnation, known.seq + 1), sort(str(rank), known.incarnation, *rest)

    def say(self, rank: int, sort: type[Any] = RankLeft, *rest: Any) -> None:
        self.scribe.write(self.said(rank, sort, *rest))

    def ready(self, rank: int) -> None:
        self.say(rank, RankReady)

    # -- records ----------------------------------------------------------------------------------------------------

    def record(self, against: tuple[int, ...] = (), gone: tuple[int, ...] = (), **changes: Any) -> AttemptDecided:
        """The right one, if everybody else arrived; or one with these changes."""
        members = [int(rank.id) for rank in self.crew.members() if int(rank.id) not in gone]
        arrived = self.seats(*members)
        outcome: Any = "formed" if not arrived else "repeated" if against else "committed"
        given_up = [(seat, "silent") for seat in self.seats(*gone)]
        fields: dict[str, Any] = {
            "number": self.crew.number, "outcome": outcome, "arrived": arrived, "against": self.seats(*against),
            "gone": given_up, "decider": "0", "waits_us": [],
        }  # fmt: skip
        return AttemptDecided(**{**fields, **changes})

    def decide(self, against: tuple[int, ...] = (), gone: tuple[int, ...] = ()) -> None:
        self.scribe.write((None, self.record(against, gone)))

    def refused(self, cause: Cause | None, event: Any) -> str:
        """The code of a refusal, which has changed nothing."""
        before = self.run.snapshot().root
        answer: Any = self.scribe.decide(cause, event)
        assert self.run.snapshot().root == before
        return str(answer.code)

    # -- signals ----------------------------------------------------------------------------------------------------

    def beat(self, rank: int, seq: int) -> RankBeat:
        return RankBeat(str(rank), self.rank(rank).incarnation, seq)

    def arrival(self, rank: int, ok: bool = True, tried_us: int = 0) -> RankArrived:
        return RankArrived(str(rank), self.rank(rank).incarnation, self.crew.attempt + 1, ok, tried_us)


class Sailor:
    """One rank that does what it is told, one generator at a time."""

    def __init__(self, boat: Boat, rank: int, learner: bool = False, t_dead_s: float | None = None) -> None:
        self.boat = boat
        dead_s = boat.dead_s if t_dead_s is None else t_dead_s
        self.peer = Peer(str(rank), encode((rank, len(boat.crew))), PEERLESS, boat.created, boat.snapshot_every)
        self.part = Part(self.peer, derive(dead_s), learner)
        self.alive = True
        self.frozen = False
        self.busy = False
        self.result: Any = None
        self.error: QuoracyError | None = None
        self.asked: list[ops.Op] = []
        self.before: Callable[[ops.Op], None] = lambda _op: None
        self._steps: Steps | None = None
        self._held: list[Any] = []
        self._beats = 0
        self._beat()
        self._look()

    @property
    def turn(self) -> Turn:
        if self.error is not None:
            raise self.error
        assert not self.busy
        assert isinstance(self.result, Turn)
        return self.result

    def go(self, steps: Steps) -> None:
        assert not self.busy
        self._steps, self.busy, self.error = steps, True, None
        self._next(None)

    def _next(self, result: Any) -> None:
        if not self.alive or self._steps is None:
            return
        if self.frozen:
            self._held.append(result)
            return
        self.peer.now_us = self.boat.world.now_us
        try:
            op = self._steps.throw(result) if isinstance(result, EntriesGone) else self._steps.send(result)
        except StopIteration as done:
            self.busy, self.result = False, done.value
            return
        except QuoracyError as error:
            self.busy, self.error = False, error
            return
        self.asked.append(op)
        self.before(op)
        if self.alive:
            self.boat.store.do(op, lambda reply: self.boat.world.after(1, self._next, reply))

    def _beat(self) -> None:
        if self.alive:
            self.boat.world.after(round(self.part.times.beat_s * SECOND), self._beat)
            if self.part.incarnation and not self.frozen:
                self._beats += 1
                self.boat.store.do(self.part.beat(self._beats), lambda _: None)

    def _look(self) -> None:
        """As a rank's beater does, whatever else goes on."""
        if self.alive:
            self.boat.world.after(round(self.part.times.look_s * SECOND), self._look)
            if self.peer.run is not None and not self.frozen:
                self.boat.store.do(ops.Beats(), self._seen)

    def _seen(self, notes: list[bytes]) -> None:
        self.peer.observe(notes, self.boat.world.now_us)
        self.part.collector.watched(self.boat.world.now_us)

    def kill(self) -> None:
        self.alive = False

    def thaw(self) -> None:
        self.frozen = False
        held, self._held = self._held, []
        for result in held:
            self._next(result)


class Boat:
    def __init__(self, snapshot_every: int = 1000, dead_s: float = 1.2, **config: Any) -> None:
        self.world = World(1)
        self.entries: list[bytes] = []
        self.store = Store(self.world, RUN, lambda _n, payload: self.entries.append(payload))
        self.dead_s = dead_s
        self.snapshot_every = snapshot_every
        self.created = RunCreated(RUN, "ranks", 1, {"t_dead_s": dead_s, **config}, seeding="chain")
        self.crew: list[Sailor] = []

    def sailor(self, rank: int, **how: Any) -> Sailor:
        self.crew.append(Sailor(self, rank, **how))
        return self.crew[-1]

    def board(self, *ranks: int) -> list[Sailor]:
        """These join, and are all in the same attempt afterwards."""
        new = [self.sailor(rank) for rank in ranks]
        for sailor in new:
            sailor.go(sailor.part.join())
        self.until(lambda: not any(sailor.busy for sailor in new))
        members = new[0].turn.members
        while not {str(rank) for rank in ranks} <= set(members):
            members = self.all_vote(*new)[0].members
        return new

    def until(self, done: Callable[[], bool], most_s: float = 60) -> None:
        end_us = self.world.now_us + round(most_s * SECOND)
        while not done():
            assert self.world.now_us < end_us, [(s.peer.me, s.part.stage, s.busy) for s in self.crew if s.alive]
            self.world.run(self.world.now_us + 1000)

    def pass_s(self, seconds: float) -> None:
        self.world.run(self.world.now_us + round(seconds * SECOND))

    def all_vote(self, *sailors: Sailor, against: tuple[Sailor, ...] = ()) -> list[Turn]:
        for sailor in sailors:
            sailor.go(sailor.part.vote(sailor not in against))
        self.until(lambda: not any(sailor.busy for sailor in sailors if sailor.alive and not sailor.frozen))
        return [sailor.turn for sailor in sailors if sailor.alive and not sailor.frozen]

    def read_on(self, sailor: Sailor) -> Decision:
        """How the last attempt ended, as a rank knows it that has read the record."""
        turn = sailor.turn
        sailor.go(sailor.part.settle())
        self.until(lambda: not sailor.busy)
        sailor.result = turn
        assert turn.before is not None
        assert turn.before.attempt == turn.attempt - 1
        return sailor.part.recall(turn.before)

    def sail(self, until: Callable[[], bool]) -> None:
        """Everybody who is in an attempt and not busy votes for it, again and again."""

        def done() -> bool:
            if until():
                return True
            for sailor in self.crew:
                ready = sailor.alive and not sailor.frozen and not sailor.busy and sailor.error is None
                if ready and isinstance(sailor.result, Turn) and sailor.result.index >= 0:
                    sailor.go(sailor.part.vote(True))
            return False

        self.until(done)

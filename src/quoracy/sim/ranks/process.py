"""One rank as a simulated process: it trains and votes, and asks the store for one thing at a time.

Between any two operations it may be killed, stopped or cut off. Any request or reply may be lost, and a request that
was given up may still arrive, long after its sender has gone on or died.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import msgspec

from quoracy.core import asks as ops
from quoracy.core.errors import EntriesGone, Refused
from quoracy.core.journal import RunCreated
from quoracy.core.peer import Peer
from quoracy.core.ranks.part import Part, Stage, Turn
from quoracy.core.ranks.salvage import begin_anew
from quoracy.core.ranks.times import Times
from quoracy.core.run import Kinds
from quoracy.ports.keyvalue import StoreLost
from quoracy.sim.ranks.checkers import Checkers
from quoracy.sim.ranks.store import Store
from quoracy.sim.world import MS, SECOND, World

LOST = 0.01
"""Of requests, of replies, and of requests that arrive too late: each."""
SNAPSHOT_EVERY = 25


READS = (ops.Load, ops.Read, ops.Watch, ops.Await, ops.Beats, ops.Arrivals, ops.Collect)


class Rest(msgspec.Struct, frozen=True):
    """The training itself: nothing is asked of the store meanwhile."""

    us: int


class SimRank:
    def __init__(
        self, world: World, store: Store, rank: int, life: int, kinds: Kinds, created: RunCreated, times: Times,
        checkers: Checkers,
    ) -> None:  # fmt: skip
        self.world = world
        self.name = f"{rank}/{life}"
        self.rank = str(rank)
        self.alive = True
        self.ended = ""
        self.cut_off = False
        self.muted = False
        """What it writes does not get through."""
        self.resting = False
        self.slow = 1
        self.leaving = False
        self.attempt = 0
        self.die_after: int | None = None
        self._paused_us = 0
        self._skew_us = world.between(0, 10**12)
        self._store = store
        self.known = store.losses
        """Which store it is connected to."""
        self._times = times
        self._checkers = checkers
        learner = world.chance(0.2)
        self.weather = LOST
        self.peer = Peer(self.rank, world.rng.randbytes(16), kinds, created, SNAPSHOT_EVERY)
        self.part = Part(self.peer, times, learner=learner)
        self._script: Generator[Any, Any, None] = self._train()
        self._reached_us = world.now_us
        self._beats = 0
        self._beaten_us: int | None = None
        """When the last beat of this life was sent that got through."""
        self._beaten_as = 0
        self._failing_us: int | None = None
        """Since when none does: from the last that did."""
        world.note(self.name, lambda: "starts")
        self._go_on(None)
        self._beat()
        self._look()

    # -- what it does -----------------------------------------------------------------------------------------------

    def _train(self) -> Generator[Any, Any, None]:
        yield from self._go_on_from((yield from self.part.join()))

    def _begin_anew(self) -> Generator[Any, Any, None]:
        """As ``sdk.ranks`` does it: in the store that is there now, with what this process remembers."""
        yield from begin_anew(self.part)
        self._say(f"is in generation {self.part.crew.config.generation}")
        yield from self._go_on_from((yield from self.part.join()))

    def _go_on_from(self, turn: Turn) -> Generator[Any, Any, None]:
        while True:
            if turn.index < 0:
                yield Rest(self.world.between(50 * MS, 800 * MS))
                turn = yield from self.part.ready()
                continue
            life = (self.rank, self.part.incarnation)
            self._checkers.began(self.name, life, turn)
            self.attempt = turn.attempt
            self.part.stage = Stage.TRAINING
            if turn.attempt % 4 == 0:
                yield from self._duty(turn)
            yield Rest(self.world.between(5 * MS, 120 * MS) * self.slow)
            ok = self.world.chance(0.93)
            self._checkers.voted(self.name, life, turn, ok)
            self._say(f"votes {ok} on attempt {turn.attempt}")
            turn = yield from self.part.vote(ok)
            if self.leaving:
                yield from self.part.leave("enough")
                return

    def _say(self, text: str) -> None:
        self.world.note(self.name, lambda: text)

    def _duty(self, turn: Turn) -> Generator[Any, Any, None]:
        try:
            value = yield from self.part.once("group", lambda: self.name.encode())
        except Refused as error:
            if error.code != "stale_token":
                raise
        else:
            self._checkers.delivered(self.name, turn, value)

    # -- between it and the store -----------------------------------------------------------------------------------

    def now_us(self) -> int:
        """Its own clock: hours away from the others', and as fast."""
        return self.world.now_us + self._skew_us

    def _go_on(self, result: Any) -> None:
        if not self.alive:
            return
        if self._paused_us > self.world.now_us:
            self.world.after(self._paused_us - self.world.now_us, self._go_on, result)
            return
        if isinstance(result, StoreLost):
            if not self.knows_run():
                self._end("lost its store before it had read it")
                return
            self.known = self._store.losses
            self._script, result = self._begin_anew(), None
        if self.die_after is not None:
            self.die_after -= 1
            if self.die_after < 0:
                self.kill("between two operations")
                return
        self.resting = False
        if self._is_out_of_reach():
            self._end("cut off from the store")
            return
        self.peer.now_us = self.now_us()
        try:
            gone = isinstance(result, EntriesGone)
            op = self._script.throw(result) if gone else self._script.send(result)
        except Refused as error:
            self._end(error.code)
            return
        except StopIteration:
            self._end("done")
            return
        if isinstance(op, Rest):
            self.resting = True
            self.world.after(op.us, self._go_on, None)
        else:
            self._ask(op)

    def knows_run(self) -> bool:
        """Whether it remembers anything."""
        return self.peer.run is not None

    def _ask(self, op: ops.Op) -> None:
        self._checkers.asked(self.name, (self.rank, self.part.incarnation))
        self.world.note(self.name, lambda: f"asks {op}"[:100])
        if self.world.chance(3 * self.weather):
            self._lose(op)
        else:
            self.world.after(self._under_way_us(), self._reaches, op, self.world.now_us)

    def _under_way_us(self) -> int:
        return int(100 + 1_900 * self.world.rng.random()) * self.slow

    def _lose(self, op: ops.Op) -> None:
        """The request, or only the reply; or the request is late, and its sender no longer waits for it."""
        how = self.world.rng.choice(("request", "reply", "late"))
        self.world.note(self.name, lambda: f"is not answered: {how} lost")
        if how != "request" and not isinstance(op, ops.Watch | ops.Await):
            late_us = self.world.between(0, 2 * SECOND) if how == "late" else self._under_way_us()
            self.world.after(late_us, self._store.do, op, _nothing, self.known)
        self._fails(op, self.world.now_us)

    def _reaches(self, op: ops.Op, asked_us: int) -> None:
        """A store that is out of reach answers nothing: what was asked is asked again, unless it may have happened."""
        if self.cut_off or (self.muted and not isinstance(op, READS)):
            self._fails(op, asked_us)
            return
        reply: Any = lambda result: self.world.after(self._under_way_us(), self._replied, op, asked_us, result)  # noqa: E731
        self._store.do(op, reply, self.known)

    def _replied(self, op: ops.Op, asked_us: int, result: Any) -> None:
        if self.cut_off:
            self._fails(op, asked_us)
            return
        self._reached_us = self.world.now_us
        self._go_on(result)

    def _fails(self, op: ops.Op, asked_us: int) -> None:
        if not self.alive:
            return
        if self.world.now_us - self._reached_us > self._times.stop_s * 1e6 or self._is_out_of_reach():
            self._end("cut off from the store")
            return
        left_us = asked_us + round(self._times.op_s * 1e6) - self.world.now_us
        if isinstance(op, ops.Append):
            self.world.after(left_us, self._go_on, ops.Unclear())
        else:
            self.world.after(left_us, self._ask_again, op)

    def _ask_again(self, op: ops.Op) -> None:
        if self.alive and self._is_out_of_reach():
            self._end("cut off from the store")
        elif self.alive:
            self._ask(op)

    def _is_out_of_reach(self) -> bool:
        """Its beats do not get through, though its reads may: the others will give it up."""
        failing_us = self._failing_us
        return failing_us is not None and self.world.now_us - failing_us > self._times.stop_s * 1e6

    def is_cut_off(self, life: tuple[str, int]) -> bool:
        """Whether this life has been alive, awake and cut off ever since its last beat got through."""
        beaten_us = self._beaten_us
        if not self.alive or life != (self.rank, self._beaten_as) or beaten_us is None:
            return False
        return (self.cut_off or self.muted) and self._paused_us <= beaten_us

    # -- its pulse, on a connection of its own ----------------------------------------------------------------------

    def _beat(self) -> None:
        """Whatever the training does; not while the process is stopped."""
        if not self.alive:
            return
        self.world.after(round(self._times.beat_s * 1e6), self._beat)
        if not self.part.incarnation or self.peer.run is None or self._paused_us > self.world.now_us:
            return
        if self._beaten_as != self.part.incarnation:
            self._beaten_as, self._beaten_us, self._failing_us = self.part.incarnation, None, None
        if self.cut_off or self.muted:
            if self._failing_us is None:
                self._failing_us = self.world.now_us if self._beaten_us is None else self._beaten_us
        else:
            self._beats += 1
            self._beaten_us, self._failing_us = self.world.now_us, None
            beat = self.part.beat(self._beats)
            self.world.after(self._under_way_us(), self._store.do, beat, _nothing, self.known)

    def _look(self) -> None:
        """At the others' beats."""
        if not self.alive:
            return
        self.world.after(round(self._times.look_s * 1e6), self._look)
        if self._awake():
            self.world.after(self._under_way_us(), self._reads)

    def _awake(self) -> bool:
        return self.alive and self.peer.run is not None and not self.cut_off and self._paused_us <= self.world.now_us

    def _reads(self) -> None:
        if self._awake():
            seen: Any = lambda notes: self.world.after(self._under_way_us(), self._seen, notes)  # noqa: E731
            self._store.do(ops.Beats(), seen, self.known)

    def _seen(self, notes: list[bytes] | StoreLost) -> None:
        if isinstance(notes, StoreLost):
            return
        if self.alive and self.peer.run is not None and self._paused_us <= self.world.now_us:
            self._reached_us = max(self._reached_us, self.world.now_us)
            self.peer.observe(notes, self.now_us())
            self.part.collector.watched(self.now_us())

    # -- faults -----------------------------------------------------------------------------------------------------

    def kill(self, why: str) -> None:
        self.world.note(self.name, lambda: f"is killed {why}")
        self.alive = False

    def pause(self, us: int) -> None:
        self._paused_us = self.world.now_us + us

    def _end(self, why: str) -> None:
        self.world.note(self.name, lambda: f"ends: {why}")
        self.ended = why
        self.alive = False

    def about_to_decide(self) -> bool:
        return self.alive and self.part.stage is Stage.CONSENSUS


def _nothing(_result: Any) -> None:
    pass

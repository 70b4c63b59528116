"""A fleet in a yard: a real host over a journal in a list, workers that say what a test lets them say.

Everything that is asked for is carried out at once, so after each call the yard is at rest. Each worker speaks through
a connection of its own name. ``told`` keeps what every worker was told, newest last.
"""

from __future__ import annotations

from typing import Any

from tests.core import byhand
from tests.core.scribe import created

from quoracy.core.cluster.collect import Collector
from quoracy.core.cluster.events import (
    Arrive,
    Heartbeat,
    HeartbeatSeen,
    WorkerIdle,
    WorkerLoading,
    WorkerReady,
    WorkerRegistered,
)
from quoracy.core.cluster.kind import KIND
from quoracy.core.cluster.machine import Cluster
from quoracy.core.cluster.state import Fleet, Worker
from quoracy.core.codec import us
from quoracy.core.errors import Refusal
from quoracy.core.kinds import KINDS
from quoracy.core.machine import Event, Explanation
from quoracy.core.members import Accepted, Answer, Cause
from quoracy.core.messages import Answered, Declined, Told, Welcome
from quoracy.core.shell import Action, Append, Asked, Disconnected, Explained

TIMEOUT_S = 30.0
LOST_S = TIMEOUT_S + 0.000_001
"""Longer than the time-out, by as little as there is."""


class Yard:
    def __init__(self, **config: Any) -> None:
        self.hand = byhand.serving(KINDS, created("cluster", config))
        self.told: dict[str, list[tuple[str, Any]]] = {}
        self.declined: dict[str, list[Refusal]] = {}
        self.seqs: dict[str, int] = {}
        self.beats = 0

    # -- looking ------------------------------------------------------------------------------------------------

    @property
    def machine(self) -> Cluster:
        assert self.hand.host.run is not None
        machine = self.hand.host.run.machine
        assert isinstance(machine, Cluster)
        return machine

    @property
    def fleet(self) -> Fleet:
        return self.machine.fleet

    @property
    def collector(self) -> Collector:
        assert self.hand.host.desk is not None
        collector = self.hand.host.desk.collector
        assert isinstance(collector, Collector)
        return collector

    def worker(self, name: str) -> Worker:
        return self.fleet.workers[name]

    def events(self, back: int = 1) -> list[Event]:
        """Of the newest entry, or of one further back."""
        return [event for _, event in byhand.recorded(KINDS, self.hand.journal.entries[-back], KIND)]

    @property
    def n(self) -> int:
        return len(self.hand.journal.entries)

    def explain(self) -> Explanation:
        self.hand.report(Asked("someone"))
        (explained,) = self.hand.take_out(Explained)
        return explained.explanation

    # -- what workers say ---------------------------------------------------------------------------------------

    def register(self, name: str, **fields: Any) -> dict[str, Any]:
        answer = self.try_register(name, **fields)
        assert isinstance(answer, Accepted), answer
        assert answer.result is not None
        return answer.result

    def try_register(self, name: str, **fields: Any) -> Answer:
        life = self.machine.incarnation_of(name)
        nonce = f"{name:.10}{self.n:06}".encode().rjust(16, b"\0")
        answer = self._call(name, Cause(name, life, 0), WorkerRegistered(name, life, nonce, **fields))
        if isinstance(answer, Accepted):
            self.seqs[name] = 0
        return answer

    def join(self, *names: str) -> None:
        """Register and be ready."""
        for name in names:
            self.register(name)
            self.say(WorkerReady, name)

    def say(self, sort: type[Any], name: str, *rest: Any) -> Answer:
        """A worker's next command. Where it has to say which generation of the run it works in, it knows."""
        life = self.machine.incarnation_of(name)
        if sort in (WorkerIdle, WorkerLoading) and not rest:
            rest = (self.fleet.generation,)
        self.seqs[name] = self.seqs.get(name, 0) + 1
        return self._call(name, Cause(name, life, self.seqs[name]), sort(name, life, *rest))

    def order(self, event: Event) -> Answer:
        return self._answer("desk", self._at_rest(self.hand.order(event)))

    def beat(self, name: str, **fields: Any) -> HeartbeatSeen | Refusal:
        self.beats += 1
        life = fields.pop("incarnation", self.machine.incarnation_of(name))
        seq = fields.pop("seq", self.beats)
        actions = self._at_rest(self.hand.sign(name, Heartbeat(name, life, seq, **fields)))
        (said,) = _said_of(actions, name, "heartbeat", life)
        return said  # type: ignore[no-any-return]

    def arrive(
        self, name: str, step: int = 1, barrier: str = "b", after: int | str | None = "newest",
        fence: int | None = None, incarnation: int | None = None,
    ) -> Any:  # fmt: skip
        """What the worker was told of this barrier before the yard came to rest; None if it has to wait."""
        arrive = Arrive(
            name,
            self.machine.incarnation_of(name) if incarnation is None else incarnation,
            barrier,
            step,
            self.fleet.settled_of(barrier) if isinstance(after, str) else after,
            self.fleet.generation if fence is None else fence,
        )
        actions = self._at_rest(self.hand.sign(name, arrive))
        said = _said_of(actions, name, f"barrier/{barrier}", arrive.incarnation)
        return said[-1] if said else None

    def hello(self, name: str, incarnation: int | None = None, peer: str | None = None) -> list[Any]:
        life = self.machine.incarnation_of(name) if incarnation is None else incarnation
        actions = self._at_rest(self.hand.hello(peer or name, name, life))
        return [m for _, m in byhand.sent(actions) if isinstance(m, Told | Welcome)]

    def disconnect(self, name: str) -> None:
        self._at_rest(self.hand.report(Disconnected(name)))

    # -- time ---------------------------------------------------------------------------------------------------

    def pass_s(self, seconds: float, *silent: str, pace_s: float = 1.0) -> None:
        """Time goes by; everybody who is here beats, but for the silent ones."""
        left_us, pace_us = us(seconds), us(pace_s)
        while left_us > 0:
            span_us = min(pace_us, left_us)
            left_us -= span_us
            for worker in list(self.fleet.by_seat.values()):
                if worker.id not in silent:
                    self.beat(worker.id)
            self._at_rest(self.hand.tick(span_us))

    def lose(self, *names: str) -> None:
        """They fall silent until they are given up."""
        self.pass_s(LOST_S, *names)

    # -- carrying out -------------------------------------------------------------------------------------------

    def _call(self, peer: str, cause: Cause, event: Event) -> Answer:
        return self._answer(peer, self._at_rest(self.hand.call(peer, cause, event)))

    def _answer(self, peer: str, actions: list[Action]) -> Answer:
        (answer,) = [m.answer for to, m in byhand.sent(actions) if to == peer and isinstance(m, Answered)]
        return answer

    def _at_rest(self, actions: list[Action]) -> list[Action]:
        """Land all that is under way; all that was asked for meanwhile."""
        everything = [*actions, *self.hand.land_all()]
        self.hand.take_out(Append)
        self.hand.actions.clear()
        for peer, message in byhand.sent(everything):
            if isinstance(message, Told):
                self.told.setdefault(str(peer), []).append((message.topic, message.value))
            elif isinstance(message, Declined):
                self.declined.setdefault(str(peer), []).append(message.refusal)
        return everything

    def last_told(self, name: str, topic: str) -> Any:
        return [value for about, value in self.told.get(name, []) if about == topic][-1]


def _said_of(actions: list[Action], name: str, topic: str, life: int) -> list[Any]:
    """What a worker's connection was told under the topic, or why its signal was declined."""
    said = []
    for peer, message in byhand.sent(actions):
        if peer != name or not isinstance(message, Told | Declined) or message.topic != topic:
            continue
        assert (message.member, message.incarnation) == (name, life)
        assert isinstance(message, Declined) or not isinstance(message.value, Refusal)
        said.append(message.refusal if isinstance(message, Declined) else message.value)
    return said


def standing(*names: str, **config: Any) -> Yard:
    """A yard in which these are ready, in this order; their seats are 1, 2, 3..."""
    yard = Yard(**config)
    yard.join(*names)
    yard.told.clear()
    return yard

"""A study: a real host over a journal in a list, participants that say what a test lets them say, and a workshop in
which a test decides every duty.

Everything that is asked for is carried out at once, but for duties: those wait in ``duties`` until a test ends them.
Each participant speaks through a connection of its own name.
"""

from __future__ import annotations

from typing import Any

from tests.core import byhand
from tests.core.byhand import Hand
from tests.core.scribe import created

from quoracy.core.codec import us
from quoracy.core.dice import Cup
from quoracy.core.errors import Refusal
from quoracy.core.federated.collect import Collector
from quoracy.core.federated.events import Beat, BeatSeen, ParticipantJoined, ParticipantLeft, UpdateOffered
from quoracy.core.federated.kind import KIND
from quoracy.core.federated.machine import Federated
from quoracy.core.federated.state import Fate, Participant, Round, Task
from quoracy.core.federated.views import Standing
from quoracy.core.kinds import KINDS
from quoracy.core.limits import Limits
from quoracy.core.machine import Duty, Event, Explanation
from quoracy.core.members import Accepted, Answer, Cause
from quoracy.core.messages import Answered, Declined, Told
from quoracy.core.shell import Action, Append, Asked, DutyFinished, Explained, Perform

TIMEOUT_S = 15.0
LOST_S = TIMEOUT_S + 0.000_001
"""Longer than the time-out, by as little as there is."""
OK: dict[str, Any] = {"ok": True, "norm": 1.0}
INITIAL = "0" * 64
EVER = Limits(snapshot_every=10**9)


def weights(mark: str) -> str:
    """A digest that is easy to tell from others."""
    return mark.encode().hex().ljust(64, "0")[:64]


class Study:
    def __init__(self, hand: Hand | None = None, **config: Any) -> None:
        """The initial weights are given, unless ``initial`` says otherwise."""
        settings = {"clients": 1, "initial": INITIAL} | config
        self.hand = hand or byhand.serving(KINDS, created("federated", settings), EVER)
        self.duties: list[Duty] = [action.duty for action in self.hand.take_out(Perform)]
        self.told: dict[str, list[Any]] = {}
        self.seqs: dict[str, int] = {}
        self.beats = 0

    # -- looking ------------------------------------------------------------------------------------------------

    @property
    def machine(self) -> Federated:
        assert self.hand.host.run is not None
        machine = self.hand.host.run.machine
        assert isinstance(machine, Federated)
        return machine

    @property
    def task(self) -> Task:
        return self.machine.task

    @property
    def phase(self) -> str:
        return self.task.state.value

    @property
    def round(self) -> Round:
        assert self.task.round is not None
        return self.task.round

    @property
    def collector(self) -> Collector:
        assert self.hand.host.desk is not None
        collector = self.hand.host.desk.collector
        assert isinstance(collector, Collector)
        return collector

    def who(self, name: str) -> Participant:
        return self.task.participants[name]

    def fates(self) -> dict[str, str]:
        return {name: assignment.fate.value for name, assignment in sorted(self.round.assignments.items())}

    def training(self) -> list[str]:
        return sorted(assignment.member for assignment in self.round.having(Fate.TRAINING))

    def standing(self, name: str) -> Standing:
        standing = self.machine.look("standing", name)
        assert isinstance(standing, Standing)
        return standing

    def verdict(self, name: str) -> tuple[bool, str]:
        """What it is told of its last update."""
        verdict = self.standing(name).verdict
        assert verdict is not None
        return verdict.admitted, verdict.why

    def events(self, back: int = 1) -> list[Event]:
        """Of the newest entry, or of one further back."""
        return [event for _, event in byhand.recorded(KINDS, self.hand.journal.entries[-back], KIND)]

    def all_events(self, sort: type[Any] = object) -> list[Any]:
        entries = self.hand.journal.entries
        return [e for n in range(len(entries), 0, -1) for e in self.events(n) if isinstance(e, sort)]

    @property
    def n(self) -> int:
        return len(self.hand.journal.entries)

    def explain(self) -> Explanation:
        self.hand.report(Asked("someone"))
        (explained,) = self.hand.take_out(Explained)
        return explained.explanation

    def overview(self) -> dict[str, Any]:
        self.hand.report(Asked("someone"))
        (explained,) = self.hand.take_out(Explained)
        assert explained.overview is not None
        return explained.overview

    # -- what participants say ----------------------------------------------------------------------------------

    def join(self, *names: str, **fields: Any) -> None:
        for name in names:
            answer = self.try_join(name, **fields)
            assert isinstance(answer, Accepted), answer

    def try_join(self, name: str, **fields: Any) -> Answer:
        life = self.machine.incarnation_of(name)
        nonce = f"{name:.10}{self.n:06}".encode().rjust(16, b"\0")
        answer = self._call(name, Cause(name, life, 0), ParticipantJoined(name, life, nonce, **fields))
        if isinstance(answer, Accepted):
            self.seqs[name] = 0
        return answer

    def leave(self, name: str) -> Answer:
        return self._say(name, ParticipantLeft(name, self.machine.incarnation_of(name)))

    def offer(
        self, name: str, digest: str = "", samples: int = 10, ticket: int | None = None, number: int | None = None,
        incarnation: int | None = None, **fields: Any,
    ) -> Answer:  # fmt: skip
        """Its update of the open round; or of another, where a test says so."""
        ticket = self.round.assignments[name].ticket if ticket is None else ticket
        number = self.task.number if number is None else number
        life = self.machine.incarnation_of(name) if incarnation is None else incarnation
        digest = digest or weights(f"{name}{number}")
        return self._say(name, UpdateOffered(name, life, number, ticket, samples, digest, 100, **fields))

    def update(self, *names: str, **fields: Any) -> None:
        """Offered and admitted."""
        for name in names:
            assert isinstance(answer := self.offer(name, **fields), Accepted), answer
            self.judge(name)

    def _say(self, name: str, event: Any) -> Answer:
        self.seqs[name] = self.seqs.get(name, 0) + 1
        return self._call(name, Cause(name, event.incarnation, self.seqs[name]), event)

    def order(self, event: Event) -> Answer:
        return self._answer("desk", self._at_rest(self.hand.order(event)))

    def beat(self, name: str, **fields: Any) -> BeatSeen | Refusal:
        self.beats += 1
        life = fields.pop("incarnation", self.machine.incarnation_of(name))
        actions = self._at_rest(self.hand.sign(name, Beat(name, life, fields.pop("seq", self.beats), **fields)))
        said = [m for peer, m in byhand.sent(actions) if peer == name and isinstance(m, Told | Declined)]
        (message,) = [m for m in said if m.topic == "heartbeat"]
        return message.refusal if isinstance(message, Declined) else message.value

    # -- the workshop -------------------------------------------------------------------------------------------

    def duty(self, what: str, name: str = "") -> Duty:
        """The newest open one."""
        found = [d for d in self.duties if d.what == what and (not name or d.order["participant"] == name)]
        assert found, f"no {what} of {name or 'anybody'} among {self.duties}"
        return found[-1]

    def end(self, duty: Duty, result: dict[str, Any] | None) -> list[Action]:
        """Report it done; a second time, if it was before."""
        self.duties = [other for other in self.duties if other is not duty]
        return self._at_rest(self.hand.report(DutyFinished(duty.entry, duty.index, result)))

    def judge(self, name: str, ok: bool = True, why: str = "nan in w") -> None:
        self.end(self.duty("admit", name), OK if ok else {"ok": False, "why": why})

    def refuse(self, name: str, why: str = "nan in w") -> None:
        assert isinstance(self.offer(name), Accepted)
        self.judge(name, False, why)

    def aggregate(self, mark: str = "", **more: Any) -> None:
        duty = self.duty("aggregate")
        result = {"weights": weights(mark or f"g{duty.order['round'] + 1}"), "size_bytes": 100, "state": ""}
        self.end(duty, result | more)

    def run_round(self, *names: str, **fields: Any) -> None:
        self.update(*names, **fields)
        self.aggregate()

    # -- the host itself ----------------------------------------------------------------------------------------

    def propose(self, event: Event) -> Refusal:
        """What the fold says to a host that proposes what it should not."""
        run = self.hand.host.run
        assert run is not None
        refused = run.decide(None, event, self.hand.now_us, Cup("demo", bytes(16)), run.head.n + 1)
        assert isinstance(refused, Refusal)
        return refused

    def state(self) -> bytes:
        assert self.hand.host.run is not None
        return self.hand.host.run.state_digest()

    # -- time ---------------------------------------------------------------------------------------------------

    def pass_s(self, seconds: float, *silent: str, pace_s: float = 1.0) -> None:
        """Time goes by; everybody who is here beats, but for the silent ones."""
        left_us, pace_us = us(seconds), us(pace_s)
        while left_us > 0:
            span_us = min(pace_us, left_us)
            left_us -= span_us
            for name in sorted(self.task.here):
                if name not in silent:
                    self.beat(name)
            self._at_rest(self.hand.tick(span_us))

    def wait_us(self, span_us: int) -> None:
        """Time goes by at once, and nobody says anything."""
        self._at_rest(self.hand.tick(max(0, span_us)))

    def lose(self, *names: str) -> None:
        """They fall silent until they are given up."""
        self.pass_s(LOST_S, *names)

    def takeover(self, name: str = "beta") -> Study:
        """Another host goes on with the journal."""
        hand = byhand.takeover(KINDS, self.hand.journal, name, EVER, now_us=self.hand.now_us)
        study = Study(hand)
        study.seqs = dict(self.seqs)
        study.beats = self.beats
        return study

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
        self.duties += [action.duty for action in everything if isinstance(action, Perform)]
        for peer, message in byhand.sent(everything):
            if isinstance(message, Told) and message.topic == "standing":
                self.told.setdefault(str(peer), []).append(message.value)
        return everything


def studying(*names: str, **config: Any) -> Study:
    """A study in which these have joined and, if nothing else is said, are all needed and all drawn for round 0."""
    study = Study(**({"clients": len(names)} | config))
    study.join(*names)
    study.told.clear()
    return study


def code(answer: Answer | BeatSeen) -> str:
    return answer.code if isinstance(answer, Refusal) else ""


__all__ = ["INITIAL", "OK", "Study", "code", "studying", "weights"]

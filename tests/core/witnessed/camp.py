"""A camp: a real host over a journal in a list, and members that say what a test lets them say.

Everything that is asked for is carried out at once. Each member speaks through a connection of its own name. The model
of a step is a hash that everybody knows; a test that wants another one says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.core import byhand
from tests.core.byhand import Hand
from tests.core.scribe import created

from quoracy.core.codec import digest, us
from quoracy.core.dice import Cup
from quoracy.core.errors import Refusal
from quoracy.core.kinds import KINDS
from quoracy.core.limits import Limits
from quoracy.core.machine import Event, Explanation, Signal
from quoracy.core.members import Accepted, Answer, Cause
from quoracy.core.messages import Answered, Declined, Told
from quoracy.core.run import Run
from quoracy.core.shell import Action, Append, Asked, Explained
from quoracy.core.witnessed import attestation, rules
from quoracy.core.witnessed.collect import Collector
from quoracy.core.witnessed.committee import count
from quoracy.core.witnessed.events import (
    Attest,
    Beat,
    BeatSeen,
    CheckpointStored,
    HealthCheck,
    Holds,
    Loaded,
    MemberJoined,
    MemberLeft,
    ModelHash,
    ResultCommitted,
    Taken,
)
from quoracy.core.witnessed.kind import KIND
from quoracy.core.witnessed.machine import Witnessed
from quoracy.core.witnessed.state import Course, Member, Round, Work
from quoracy.core.witnessed.views import SEALED, SealedList, Standing

TIMEOUT_S = 30.0
LOST_S = TIMEOUT_S + 0.000_001
"""Longer than the time-out, by as little as there is."""
EVER = Limits(snapshot_every=10**9)
SETTINGS: dict[str, Any] = {"waiting_extra_s": 0.0, "batch_size": 1, "global_batch_size_start": 8}


def model(step: int, mark: str = "") -> bytes:
    """The hash of the model of a step; with a mark, of another one."""
    return digest(f"model {step} {mark}".encode())


def voids(course: Course, step: int) -> int:
    """How many results are left out of the model of a step."""
    made = [past for past in course.past if (past.epoch, past.step + 1) == (course.epoch, step) and past.positions]
    return len(made[-1].voided) if made else 0


def blob(name: str, epoch: int, number: int, assignment: int, attempt: int, mark: str = "") -> bytes:
    return digest(f"result {name} {epoch} {number} {assignment} {attempt} {mark}".encode())


class Camp:
    def __init__(self, hand: Hand | None = None, **config: Any) -> None:
        """Epochs begin as soon as there are enough, with batches of one sample, unless something else is said."""
        self.hand = hand or byhand.serving(KINDS, created("witnessed", SETTINGS | config), EVER)
        self.told: dict[str, list[tuple[str, Any]]] = {}
        self.seqs: dict[str, int] = {}
        self.beats = 0

    # -- looking ------------------------------------------------------------------------------------------------

    @property
    def run(self) -> Run:
        assert self.hand.host.run is not None
        return self.hand.host.run

    @property
    def machine(self) -> Witnessed:
        machine = self.run.machine
        assert isinstance(machine, Witnessed)
        return machine

    @property
    def course(self) -> Course:
        return self.machine.course

    @property
    def phase(self) -> str:
        return self.course.state.value

    @property
    def round(self) -> Round:
        assert self.course.round is not None
        return self.course.round

    @property
    def collector(self) -> Collector:
        assert self.hand.host.desk is not None
        collector = self.hand.host.desk.collector
        assert isinstance(collector, Collector)
        return collector

    def who(self, name: str) -> Member:
        return self.course.members[name]

    def states(self) -> dict[str, str]:
        return {name: member.state.value for name, member in sorted(self.course.members.items())}

    def works(self, name: str) -> list[Work]:
        return [work for work in self.round.works if work.member == name]

    def standing(self, name: str) -> Standing:
        standing = self.machine.look("standing", name)
        assert isinstance(standing, Standing)
        return standing

    def sealed(self, name: str) -> SealedList:
        shown = self.machine.look(SEALED, name)
        assert isinstance(shown, SealedList)
        return shown

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

    def account(self) -> tuple[int, int, int, int]:
        """Applied, open, waiting, skipped: together all that were ever given out."""
        shown = self.overview()["account"]
        parts = (shown["applied"], shown["open"], shown["waiting"], shown["skipped"])
        assert sum(parts) == self.course.account.next_batch
        return parts

    # -- what members say ---------------------------------------------------------------------------------------

    def join(self, *names: str, **fields: Any) -> None:
        for name in names:
            answer = self.try_join(name, **fields)
            assert isinstance(answer, Accepted), answer

    def try_join(self, name: str, **fields: Any) -> Answer:
        life = self.machine.incarnation_of(name)
        nonce = f"{name:.10}{self.n:06}".encode().rjust(16, b"\0")
        answer = self._call(name, Cause(name, life, 0), MemberJoined(name, life, nonce, **({"key": b"key"} | fields)))
        if isinstance(answer, Accepted):
            self.seqs[name] = 0
        return answer

    def leave(self, name: str) -> Answer:
        return self.say(name, MemberLeft(name, self.machine.incarnation_of(name)))

    def load(self, *names: str, mark: str = "") -> None:
        for name in names or sorted(self.course.here):
            place = self.course.place
            life = self.machine.incarnation_of(name)
            self.tell(Loaded(name, life, self.course.epoch, place.step, model(place.step, mark)))

    def commit(self, *names: str, **fields: Any) -> None:
        """All that they have to do, and have not done."""
        for name in names or sorted(self.course.in_step):
            for work in [work for work in self.works(name) if work.result < 0]:
                answer = self.try_commit(name, work, **fields)
                assert isinstance(answer, Accepted), answer

    def try_commit(self, name: str, work: Work, mark: str = "", **fields: Any) -> Answer:
        round_ = self.round
        made: dict[str, Any] = {
            "epoch": round_.epoch, "round": round_.number, "assignment": work.index, "attempt": work.attempt,
            "digest": blob(name, round_.epoch, round_.number, work.index, work.attempt, mark), "size_bytes": 100,
            "base": model(round_.step), "samples": count(work.batches) * self.course.config.batch_size, "loss": 1.0,
        }  # fmt: skip
        return self.say(name, ResultCommitted(name, self.machine.incarnation_of(name), **(made | fields)))

    def held(self, name: str, positions: Iterable[int] | None = None, known: int | None = None) -> dict[str, Any]:
        """What it says it holds: everything, if nothing else is said."""
        round_ = self.round
        known = len(round_.results) if known is None else known
        positions = range(known) if positions is None else positions
        drawn = round_.results[known - 1].salt if known else b""
        salt = attestation.salt_of(round_.epoch, round_.number, drawn, name)
        bits = self.course.scheme.write(positions, [result.digest for result in round_.results[:known]], salt)
        return {"epoch": round_.epoch, "round": round_.number, "known": known, "held": bits}

    def hold(self, *names: str, positions: Iterable[int] | None = None, known: int | None = None) -> None:
        """Witnesses attest, others say that they hold."""
        for name in names or sorted(self.course.in_step):
            sort: Any = Attest if name in self.round.witnesses else Holds
            said = sort(name, self.machine.incarnation_of(name), **self.held(name, positions, known))
            taken = self.tell(said)
            assert isinstance(taken, Taken), taken

    def miss(self, name: str, *positions: int) -> Taken | Refusal | BeatSeen:
        """Of what was sealed last."""
        (newest,) = self.sealed(name).rounds[-1:]
        missing = attestation.bitmap(positions, len(newest.results))
        life = self.machine.incarnation_of(name)
        held: dict[str, Any] = {"epoch": self.course.epoch, "round": 0, "known": 0, "held": b""}
        if self.course.round is not None:
            held = self.held(name, (), 0)
        return self.tell(Holds(name, life, step=newest.step, missing=missing, **held))

    def accuse(self, by: str, *accused: str) -> Taken | Refusal | BeatSeen:
        step = self.course.step - 1
        about = (step, accused, tuple(self.attested(name, step) for name in accused), self.course.epoch)
        return self.tell(HealthCheck(by, self.machine.incarnation_of(by), *about))

    def attested(self, name: str, step: int) -> int:
        """The place of a sealed result that it attested; 0 if there is none."""
        member = self.course.members[name]
        places = range(max((len(past.positions) for past in self.course.past), default=0))
        return next((place for place in places if rules.has_attested(self.course, member, step, place)), 0)

    def hash(self, *names: str, step: int | None = None, mark: str = "") -> None:
        for name in names or sorted(self.course.in_step):
            at = self.course.step if step is None else step
            made = (at, model(at, mark), self.course.epoch, voids(self.course, at))
            self.tell(ModelHash(name, self.machine.incarnation_of(name), *made))

    def store(self, name: str, **fields: Any) -> Answer:
        place = self.course.place
        made: dict[str, Any] = {
            "epoch": self.course.epoch, "step": place.step, "model": place.model,
            "digest": digest(b"file", place.model), "size_bytes": 1000,
        }  # fmt: skip
        return self.say(name, CheckpointStored(name, self.machine.incarnation_of(name), **(made | fields)))

    def turn(self, *names: str) -> None:
        """A whole round, by these or by all in step."""
        self.hash(*names)
        self.commit(*names)
        self.hold(*names)

    def cool(self) -> None:
        """Everybody says which model it has, and one stores it."""
        assert self.phase == "Cooldown"
        self.hash()
        if self.course.storing is not None and self.course.storing.member:
            assert isinstance(answer := self.store(self.course.storing.member), Accepted), answer

    def say(self, name: str, event: Any) -> Answer:
        self.seqs[name] = self.seqs.get(name, 0) + 1
        return self._call(name, Cause(name, event.incarnation, self.seqs[name]), event)

    def tell(self, signal: Any) -> Taken | Refusal | BeatSeen:
        """A signal, and what is answered to it."""
        actions = self._at_rest(self.hand.sign(signal.member, signal))
        said = [m for peer, m in byhand.sent(actions) if peer == signal.member and isinstance(m, Told | Declined)]
        (message,) = [m for m in said if m.topic == signal.topic()]
        return message.refusal if isinstance(message, Declined) else message.value

    def order(self, event: Event) -> Answer:
        return self._answer("desk", self._at_rest(self.hand.order(event)))

    def beat(self, name: str, **fields: Any) -> Taken | Refusal | BeatSeen:
        self.beats += 1
        life = fields.pop("incarnation", self.machine.incarnation_of(name))
        return self.tell(Beat(name, life, fields.pop("seq", self.beats), **fields))

    # -- the host itself ----------------------------------------------------------------------------------------

    def propose(self, event: Event) -> Refusal:
        """What the fold says to a host that proposes what it should not."""
        before = self.state()
        refused = self.run.decide(None, event, self.hand.now_us, Cup("demo", bytes(16)), self.run.head.n + 1)
        assert isinstance(refused, Refusal), refused
        assert self.state() == before
        return refused

    def state(self) -> bytes:
        return self.run.state_digest()

    # -- time ---------------------------------------------------------------------------------------------------

    def pass_s(self, seconds: float, *silent: str, pace_s: float = 1.0) -> None:
        """Time goes by; everybody who is here beats, but for the silent ones."""
        left_us, pace_us = us(seconds), us(pace_s)
        while left_us > 0:
            span_us = min(pace_us, left_us)
            left_us -= span_us
            for name in sorted(self.course.here):
                if name not in silent:
                    self.beat(name)
            self._at_rest(self.hand.tick(span_us))

    def wait_us(self, span_us: int) -> None:
        """Time goes by at once, and nobody says anything."""
        self._at_rest(self.hand.tick(max(0, span_us)))

    def lose(self, *names: str) -> None:
        """They fall silent until they are given up."""
        self.pass_s(LOST_S, *names)

    def takeover(self, name: str = "beta") -> Camp:
        """Another host goes on with the journal."""
        hand = byhand.takeover(KINDS, self.hand.journal, name, EVER, now_us=self.hand.now_us)
        camp = Camp(hand)
        camp.seqs = dict(self.seqs)
        camp.beats = self.beats
        return camp

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
        return everything


def camping(*names: str, **config: Any) -> Camp:
    """A camp in which these have joined and wait for nobody else."""
    camp = Camp(**({"init_min_clients": len(names)} | config))
    camp.join(*names)
    camp.told.clear()
    return camp


def training(*names: str, **config: Any) -> Camp:
    """In the first round, with all of these in step."""
    camp = camping(*names, **config)
    camp.pass_s(camp.course.config.waiting_extra_s)
    camp.load(*names)
    assert camp.phase == "RoundTrain"
    camp.told.clear()
    return camp


def code(answer: Answer | BeatSeen | Taken) -> str:
    return answer.code if isinstance(answer, Refusal) else ""


__all__ = ["Camp", "Signal", "blob", "camping", "code", "model", "training"]

"""A member of a witnessed run for tests, over TCP: says what it is told to, and asks for what it is shown."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Self, TypeVar

import msgspec
from blake3 import blake3
from tests.doors.talk import PATIENCE_S, Talk

from quoracy.core.errors import Refusal
from quoracy.core.machine import MemberEvent
from quoracy.core.members import Cause, signed_by_joiner
from quoracy.core.messages import Declined, Hello, Told
from quoracy.core.witnessed.committee import draw
from quoracy.core.witnessed.events import (
    Attest,
    Beat,
    Loaded,
    MemberJoined,
    ModelHash,
    ResultCommitted,
    WitnessedSignal,
    signed_by_trainer,
)
from quoracy.core.witnessed.views import ResultsShown, RoundShown, Standing
from quoracy.doors.auth import MemberKey

RUN = "sums"
START = blake3(b"0").digest()
VIEWS: dict[str, Any] = {"standing": Standing, "round": RoundShown, "results": ResultsShown}
T = TypeVar("T")


def join_of(talk: Talk, key: MemberKey, run: str, member: str, supersedes: int, nonce: bytes) -> MemberJoined:
    """With the proof that this connection's challenge asks for."""
    assert talk.greeted is not None
    challenge = talk.greeted.challenge
    proof = challenge + key.sign(signed_by_joiner(challenge, run, member, supersedes, nonce))
    return MemberJoined(member, supersedes, nonce, key.public, proof)


class Witness:
    """One connection, one life. ``model``: what it says that it has, whatever was sealed."""

    def __init__(
        self, url: str, member: str, run: str = RUN, token: str = "", key: MemberKey | None = None, supersedes: int = 0
    ) -> None:
        self.talk = Talk(url, token=token)
        self.member, self.run_, self.key = member, run, key or MemberKey.create()
        self.shown: RoundShown | None = None
        self.commands = self.beats = 0
        nonce = f"{member}/{supersedes}".encode().ljust(16, b".")[:16]
        join = join_of(self.talk, self.key, run, member, supersedes, nonce)
        self.joined = self.talk.call(Cause(member, supersedes, 0), join, run)
        assert not isinstance(self.joined, Refusal), self.joined
        self.life = int(self.joined.result["incarnation"])
        self.session = self.talk.granted().token

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.talk.socket.close()

    def view(self, topic: str, where: Callable[[Any], bool] = lambda _view: True) -> Any:
        """The next one that fits. Asked for, so that none is missed."""
        deadline_s = time.monotonic() + PATIENCE_S
        value = None
        while time.monotonic() < deadline_s:
            self.talk.say(Hello(self.run_, self.member, self.life, self.session))
            told = self.talk.hear(Told, where=lambda m: m.topic == topic and m.member == self.member)
            value = None if told.value is None else msgspec.convert(told.value, VIEWS[topic])
            if value is not None and where(value):
                return value
            time.sleep(0.005)
        raise TimeoutError(f"{self.member} never saw such a {topic}: {value}")

    def say(self, signal: WitnessedSignal) -> Any:
        """What was answered: that it was taken, or the refusal."""
        self.talk.sign(signal, self.run_)
        answer = self.talk.hear(Told, Declined, where=lambda m: m.topic == signal.topic())
        return answer.value if isinstance(answer, Told) else answer.refusal

    def command(self, event: MemberEvent) -> Any:
        self.commands += 1
        return self.talk.call(Cause(self.member, self.life, self.commands), event, self.run_)

    def beat(self, **metrics: float) -> Any:
        self.beats += 1
        return self.say(Beat(self.member, self.life, self.beats, self.beats, metrics))

    # -- one round after the other ----------------------------------------------------------------------------------

    def warm(self, model: bytes = START) -> None:
        """Has the model as soon as it is asked for."""
        standing = self.view("standing", lambda s: s.state == "Warming" and s.load is not None)
        taken = self.say(Loaded(self.member, self.life, standing.epoch, standing.load.step, model))
        assert not isinstance(taken, Refusal), taken

    def round(self, step: int = 0, model: bytes = START) -> RoundShown:
        shown: RoundShown = self.view("round", lambda r: r.phase == "RoundTrain" and r.step == step)
        taken = self.say(self.hash_of(step, model, shown.epoch))
        assert not isinstance(taken, Refusal), taken
        self.shown = shown
        return shown

    def hash_of(self, step: int, model: bytes = START, epoch: int = 0) -> ModelHash:
        return ModelHash(self.member, self.life, step, model, epoch)

    def end(self, step: int) -> None:
        """The epoch is over: which model it has."""
        shown: RoundShown = self.view("round", lambda r: r.phase == "Cooldown" and r.step == step)
        taken = self.say(self.hash_of(step, epoch=shown.epoch))
        assert not isinstance(taken, Refusal), taken

    def mine(self) -> tuple[tuple[int, int], ...]:
        assert self.shown is not None
        (work,) = draw(self.run_, self.shown).of(self.member)
        return work.batches

    def commit(self, loss: float = 0.5, batch_size: int = 32, base: bytes = START) -> Any:
        shown = self.shown
        assert shown is not None
        (work,) = draw(self.run_, shown).of(self.member)
        digest = blake3(f"{self.member}/{shown.epoch}/{shown.round}".encode()).digest()
        place = (shown.epoch, shown.round, work.index, work.attempt)
        signed = signed_by_trainer(self.run_, *place, self.member, digest, base)
        signature = self.key.sign(signed)
        samples = batch_size * sum(end - first for first, end in work.batches)
        return self.command(ResultCommitted(self.member, self.life, *place, digest, 9, base, samples, loss, signature))

    def attest(self) -> Any:
        """All results, once they are listed."""
        shown = self.shown
        assert shown is not None
        listed = self.view("results", lambda r: (r.epoch, r.round) == (shown.epoch, shown.round)).results
        held = ((1 << len(listed)) - 1).to_bytes((len(listed) + 7) // 8, "little")
        return self.say(Attest(self.member, self.life, shown.epoch, shown.round, len(listed), held))


def play(witnesses: list[Witness], steps: range, batch_size: int = 32) -> None:
    """Rounds that all of them do as they should, with a loss that becomes smaller."""
    for step in steps:
        for witness in witnesses:
            witness.round(step)
            witness.beat(accuracy=0.5 + step / 100)
        for witness in witnesses:
            answer = witness.commit(loss=1 / (1 + step), batch_size=batch_size)
            assert not isinstance(answer, Refusal), answer
        for witness in witnesses:
            answer = witness.attest()
            assert not isinstance(answer, Refusal), answer

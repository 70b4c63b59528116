"""One story of witnessed rounds through every door that members come through: same answers, same journals."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, Self

import grpc
import msgspec
from blake3 import blake3
from tests.doors.grpc.fellows import Fellow
from tests.doors.grpc.talk import refusal
from tests.doors.scenarios.test_federated import compared
from tests.doors.talk import Talk
from tests.doors.witnesses import RUN, Witness, join_of

from quoracy.coordinator import Coordinator
from quoracy.core.errors import Refusal
from quoracy.core.members import Cause
from quoracy.core.witnessed.committee import draw
from quoracy.core.witnessed.events import (
    Attest,
    CheckpointStored,
    HealthCheck,
    Holds,
    Loaded,
    MemberLeft,
    ModelHash,
    ResultCommitted,
    TwoFacedShown,
    signed_by_trainer,
)
from quoracy.doors.auth import MemberKey
from quoracy.doors.grpc.witnesses import PHASES
from quoracy.wire.pb import witnessed_pb2 as pb

Outcome = Any
"""The code of a refusal as text, or what was answered."""
NAMES = {number: name for name, number in PHASES.items()}
MODEL = blake3(b"0").digest()
KEY = MemberKey.create()


def signed(event: Any) -> Any:
    """As its member would."""
    if not isinstance(event, ResultCommitted):
        return event
    place = (event.epoch, event.round, event.assignment, event.attempt, event.member, event.digest, event.base)
    return msgspec.structs.replace(event, signature=KEY.sign(signed_by_trainer(RUN, *place)))


SIGNALS: dict[Any, str] = {
    Loaded: "Loaded",
    Attest: "Attest",
    Holds: "Holds",
    ModelHash: "ModelHash",
    HealthCheck: "HealthCheck",
}
COMMANDS: dict[Any, str] = {
    ResultCommitted: "Commit", CheckpointStored: "CheckpointDone", TwoFacedShown: "ShowTwoFaced", MemberLeft: "Leave",
}  # fmt: skip
CALLED = {"Leave": "MemberLeave"}


class Driver(Protocol):
    def join(self, member: str) -> Outcome:
        """Incarnation, status, epoch."""

    def beat(self) -> Outcome:
        """Phase, epoch and round."""

    def say(self, signal: Any) -> Outcome:
        """Phase, epoch and round."""

    def command(self, event: Any) -> Outcome:
        """The entry."""

    def round(self, step: int) -> Any:
        """Epoch, round, and what is to be trained: assignment, attempt, batches."""


class TcpDriver:
    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self.one = Witness(coordinator.url, "m1", key=KEY)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.one.talk.socket.close()

    def join(self, member: str) -> Outcome:
        with Talk(self._coordinator.url) as talk:
            join = join_of(talk, KEY, RUN, member, 0, member.encode().ljust(16))
            joined = talk.call(Cause(member, 0, 0), join, RUN)
        return (
            joined.code
            if isinstance(joined, Refusal)
            else [joined.result[k] for k in ("incarnation", "status", "epoch")]
        )

    def beat(self) -> Outcome:
        return list(self.one.beat(accuracy=0.5)[1:])

    def say(self, signal: Any) -> Outcome:
        answer = self.one.say(signal)
        return answer.code if isinstance(answer, Refusal) else list(answer)

    def command(self, event: Any) -> Outcome:
        answer = self.one.command(signed(event))
        return answer.code if isinstance(answer, Refusal) else answer.entry

    def round(self, step: int) -> Any:
        shown = self.one.view("round", lambda r: r.phase == "RoundTrain" and r.step == step)
        (work,) = draw(RUN, shown).of("m1")
        return shown.epoch, shown.round, work.index, work.attempt, [list(span) for span in work.batches]


class GrpcDriver:
    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self.one = Fellow(coordinator, "m1", key=KEY)
        self.one.join(nonce=b"m1/0".ljust(16, b"."))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.one.channel.close()

    def _asked(self, name: str, said: Any) -> Any:
        try:
            return self.one.call(name, said)
        except grpc.RpcError as error:
            return refusal(error).code

    def join(self, member: str) -> Outcome:
        with Fellow(self._coordinator, member, key=KEY) as other:
            try:
                answer = other.join(nonce=member.encode().ljust(16))
            except grpc.RpcError as error:
                return refusal(error).code
        return [
            answer.incarnation,
            pb.JoinStatus.Name(answer.status).removeprefix("JOIN_STATUS_").lower(),
            answer.epoch,
        ]

    def beat(self) -> Outcome:
        return _where(self.one.beat())

    def say(self, signal: Any) -> Outcome:
        return _where(self._asked(SIGNALS[type(signal)], self._said(SIGNALS[type(signal)], signal)))

    def command(self, event: Any) -> Outcome:
        self.one.commands += 1
        name = COMMANDS[type(event)]
        answer = self._asked(name, self._said(name, signed(event), seq=self.one.commands))
        return answer if isinstance(answer, str) else answer.entry

    def _said(self, name: str, said: Any, **more: Any) -> Any:
        fields = {field: getattr(said, field) for field in said.__struct_fields__ if field != "seen"}
        return getattr(pb, f"{CALLED.get(name, name)}Request")(run=RUN, **fields, **more)

    def round(self, step: int) -> Any:
        self.one.known = {}
        shown = self.one.sees("round_shown", lambda r: r.phase == pb.WITNESSED_PHASE_ROUND_TRAIN and r.step == step)
        (work,) = shown.mine
        return shown.epoch, shown.round, work.assignment, work.attempt, [[s.first, s.end] for s in work.batches]


def _where(answer: Any) -> Outcome:
    return answer if isinstance(answer, str) else [NAMES[answer.phase], answer.epoch, answer.round]


def the_story(driver: Driver) -> list[Outcome]:
    """A member alone in its rounds, which says much at the wrong time. Another one waits for the next epoch."""
    me, digest = ("m1", 1), [blake3(b"%d" % step).digest() for step in range(3)]
    told: list[Outcome] = [driver.beat(), driver.say(ModelHash(*me, 0, MODEL))]
    told += [driver.say(Loaded(*me, 3, 0, MODEL)), driver.say(Loaded(*me, 0, 0, MODEL))]
    epoch, number, index, attempt, _ = place = driver.round(0)
    told += [place, driver.join("m2"), driver.say(ModelHash(*me, 0, MODEL)), driver.say(ModelHash(*me, 1, MODEL))]
    result = (epoch, number, index, attempt)
    told.append(driver.command(ResultCommitted(*me, epoch, number + 1, index, attempt, digest[0], 3, MODEL, 256)))
    told.append(driver.command(ResultCommitted(*me, *result, digest[0], 3, MODEL, 255)))
    told.append(driver.command(ResultCommitted(*me, *result, digest[0], 3, MODEL, 256, 0.5)))
    told.append(driver.command(ResultCommitted(*me, *result, digest[1], 3, MODEL, 256, 0.5)))
    told.append(driver.command(CheckpointStored(*me, 0, 1, MODEL, digest[0], 9)))
    told.append(driver.command(TwoFacedShown(*me, "m2", 0, 0, 0, 1, digest[0], MODEL, b"")))
    told.append(driver.say(Holds(*me, 0, 0, 1, b"\1")))
    told.append(driver.say(HealthCheck(*me, 0, ("m2",), (0,))))
    told.append(driver.say(HealthCheck(*me, 0, ("m2",))))
    told.append(driver.say(Attest(*me, 0, 0, 2, b"\3")))
    told.append(driver.say(Attest(*me, 0, 0, 1, b"\3")))
    told.append(driver.say(Attest(*me, 0, 0, 1, b"\1")))
    told += [driver.round(1), driver.say(Attest(*me, 0, 0, 1, b"\1"))]
    told.append(driver.command(MemberLeft(*me, "done")))
    told.append(driver.say(ModelHash(*me, 1, MODEL)))
    return told


DRIVERS: dict[str, Any] = {"tcp": TcpDriver, "grpc": GrpcDriver}


def played(door: str, folder: Path) -> tuple[list[Outcome], list[Any]]:
    with Coordinator(folder=folder, grpc={"port": 0}, http={"port": 0}) as coordinator:
        coordinator.create(RUN, "witnessed", waiting_extra_s=0, checkpoint="none", adaptive_deadline=False)
        with DRIVERS[door](coordinator) as driver:
            told = the_story(driver)
        entries = coordinator.ask("journal", RUN, limit=1000)["entries"]
        return told, [compared(entry) for entry in entries]


def test_every_door_leads_to_the_same_journal(tmp_path: Path) -> None:
    tales = {door: played(door, tmp_path / door) for door in DRIVERS}
    answers, journal = tales["tcp"]
    assert len(journal) > 8
    assert {"wrong_step", "late_result", "malformed", "contradiction", "member_gone"} <= {
        answer for answer in answers if isinstance(answer, str)
    }
    for door, (told, entries) in tales.items():
        assert told == answers, door
        for ours, theirs in zip(entries, journal, strict=True):
            assert ours == theirs, door

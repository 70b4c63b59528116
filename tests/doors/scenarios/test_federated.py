"""One story of federated rounds through every door that participants come through: the journals are the same."""

from __future__ import annotations

import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import grpc
import numpy as np
from blake3 import blake3
from safetensors.numpy import save
from tests.doors.scenarios.drivers import PATIENCE_S
from tests.doors.talk import RUN, Talk
from tests.e2e.command import until

from quoracy.coordinator import Coordinator
from quoracy.core.errors import Refusal
from quoracy.core.federated.events import Beat, ParticipantJoined, ParticipantLeft, UpdateOffered
from quoracy.core.members import Cause
from quoracy.core.messages import Declined, Told
from quoracy.wire.pb import coordinator_pb2
from quoracy.wire.pb import federated_pb2 as pb
from quoracy.wire.pb.federated_pb2_grpc import FederatedStub

Outcome = Any
"""The code of a refusal as text, or what was answered."""


class Driver(Protocol):
    def join(self, member: str, nonce: bytes, supersedes: int) -> Outcome:
        """Incarnation and seat."""

    def beat(self, member: str, life: int, seq: int) -> Outcome:
        """Phase and round."""

    def start(self, member: str, life: int) -> Outcome:
        """Round, ticket, weights, epochs, hyper-parameters."""

    def end(self, member: str, life: int, round_: int, ticket: int, digest: str) -> Outcome:
        """Admitted, or the code."""

    def leave(self, member: str, life: int) -> Outcome: ...


class TcpDriver:
    def __init__(self, coordinator: Coordinator) -> None:
        self._url = coordinator.url
        self._talks: dict[tuple[str, int], Talk] = {}
        self._seqs: dict[tuple[str, int], int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        for talk in self._talks.values():
            talk.socket.close()

    def join(self, member: str, nonce: bytes, supersedes: int) -> Outcome:
        talk = Talk(self._url)
        answer = talk.call(Cause(member, supersedes, 0), ParticipantJoined(member, supersedes, nonce, initial=True))
        if isinstance(answer, Refusal):
            talk.socket.close()
            return answer.code
        life = answer.result["incarnation"]
        if (before := self._talks.pop((member, life), None)) is not None:
            before.socket.close()
        self._talks[member, life] = talk
        return life, answer.result["seat"]

    def beat(self, member: str, life: int, seq: int) -> Outcome:
        talk = self._talks[member, life]
        talk.sign(Beat(member, life, seq))
        heard = talk.hear(Told, Declined, where=lambda m: m.topic == "heartbeat")
        return heard.refusal.code if isinstance(heard, Declined) else tuple(heard.value[1:])

    def _standing(self, member: str, life: int) -> dict[str, Any]:
        talk = self._talks[member, life]
        talk.hello(member, life)
        value: dict[str, Any] = talk.hear(Told, where=lambda m: m.topic == "standing").value
        return value

    def start(self, member: str, life: int) -> Outcome:
        standing = self._standing(member, life)
        if standing["phase"] != "ROUND" or standing["offered"]:
            return "round_early"
        return standing["round"], standing["ticket"], standing["weights"], standing["epochs"], standing["hyper"]

    def end(self, member: str, life: int, round_: int, ticket: int, digest: str) -> Outcome:
        known = self._standing(member, life)["verdict"]
        if known is None or known[:3] != [round_, ticket, digest]:
            answer = self._command(
                member, life, UpdateOffered(member, life, round_, ticket, 3, digest, 0, {"loss": 0.5})
            )
            if isinstance(answer, Refusal):
                return answer.code

        def judged() -> Any:
            verdict = self._standing(member, life)["verdict"]
            return verdict if verdict is not None and verdict[:2] == [round_, ticket] else None

        return "admitted" if until(judged, "a verdict")[3] else "update_refused"

    def leave(self, member: str, life: int) -> Outcome:
        answer = self._command(member, life, ParticipantLeft(member, life, "done"))
        return answer.code if isinstance(answer, Refusal) else answer.entry

    def _command(self, member: str, life: int, event: Any) -> Any:
        seq = self._seqs[member, life] = self._seqs.get((member, life), 0) + 1
        return self._talks[member, life].call(Cause(member, life, seq), event)


class GrpcDriver:
    def __init__(self, coordinator: Coordinator) -> None:
        self._channel = grpc.insecure_channel(coordinator.addresses["grpc"].partition("://")[2])
        self._stub = FederatedStub(self._channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._channel.close()

    def _do(self, call: Any, said: Any) -> Any:
        try:
            return call(said, timeout=PATIENCE_S)
        except grpc.RpcError as error:
            trailing: Any = dict(error.trailing_metadata())  # type: ignore[attr-defined]
            return coordinator_pb2.ErrorDetail.FromString(trailing["quoracy-error-bin"]).code

    def join(self, member: str, nonce: bytes, supersedes: int) -> Outcome:
        said = pb.RendezvousRequest(run=RUN, participant=member, nonce=nonce, supersedes=supersedes, initial=True)
        told = self._do(self._stub.Rendezvous, said)
        if isinstance(told, str):
            return told
        return "come_later" if told.reply == pb.RENDEZVOUS_REPLY_LATER else (told.incarnation, told.seat)

    def beat(self, member: str, life: int, seq: int) -> Outcome:
        said = pb.ParticipantHeartbeatRequest(run=RUN, participant=member, incarnation=life, seq=seq)
        told = self._do(self._stub.Heartbeat, said)
        if isinstance(told, str):
            return told
        phase = pb.RoundPhase.Name(told.phase).removeprefix("ROUND_PHASE_")
        return phase, told.round, told.run_phase, told.reason

    def start(self, member: str, life: int) -> Outcome:
        said = pb.StartTrainingRoundRequest(run=RUN, participant=member, incarnation=life)
        told = self._do(self._stub.StartTrainingRound, said)
        return told if isinstance(told, str) else (told.round, told.ticket, told.weights, told.epochs, dict(told.hyper))

    def end(self, member: str, life: int, round_: int, ticket: int, digest: str) -> Outcome:
        said = pb.EndTrainingRoundRequest(
            run=RUN, participant=member, incarnation=life, round=round_, ticket=ticket, digest=digest, number_samples=3
        )
        said.metrics["loss"].scalar = 0.5
        told = self._do(self._stub.EndTrainingRound, said)
        return told if isinstance(told, str) else "admitted"

    def leave(self, member: str, life: int) -> Outcome:
        said = pb.LeaveRequest(run=RUN, participant=member, incarnation=life, reason="done")
        told = self._do(self._stub.Leave, said)
        return told if isinstance(told, str) else told.entry


DRIVERS: dict[str, Any] = {"tcp": TcpDriver, "grpc": GrpcDriver}


class Stage:
    def __init__(self, coordinator: Coordinator, driver: Driver) -> None:
        self.coordinator = coordinator
        self.driver = driver
        self.told: list[Any] = []

    def note(self, outcome: Any) -> Any:
        self.told.append(outcome)
        return outcome

    def bring(self, member: str, life: int, value: float) -> str:
        """Weights through the HTTP door; returns the digest."""
        content = save({"w": np.full(4, value, np.float32)})
        digest = str(blake3(content).hexdigest())
        url = f"{self.coordinator.addresses['http']}/api/runs/{RUN}/weights/{digest}"
        url += f"?member={member}&incarnation={life}"
        with urllib.request.urlopen(urllib.request.Request(url, content, method="PUT"), timeout=PATIENCE_S) as answer:
            assert answer.status in (200, 201)
        return digest

    def opens(self, number: int) -> None:
        until(lambda: (self.coordinator.show(RUN)["open"] or {}).get("number") == number, f"round {number}")

    def train(self, member: str, life: int, value: float) -> None:
        round_, ticket, *_ = self.note(self.driver.start(member, life))
        self.note(self.driver.end(member, life, round_, ticket, self.bring(member, life, value)))


def the_story(stage: Stage) -> None:
    driver, note = stage.driver, stage.note
    note(driver.join("p1", b"1" * 16, 0))
    note(driver.beat("p1", 1, 1))
    note(driver.start("p1", 1))
    note(driver.join("p2", b"2" * 16, 0))
    note(driver.join("p1", b"1" * 16, 0))
    stage.opens(-1)
    note(driver.beat("p1", 1, 2))
    stage.train("p1", 1, 0.0)
    stage.opens(0)
    first = note(driver.start("p1", 1))
    digest = stage.bring("p1", 1, 1.0)
    note(driver.end("p1", 1, first[0], first[1], digest))
    note(driver.end("p1", 1, first[0], first[1], digest))
    note(driver.end("p1", 1, first[0], first[1] + 7, digest))
    note(driver.join("p2", b"4" * 16, 1))
    note(driver.beat("p2", 1, 1))
    stage.train("p2", 2, float("nan"))
    note(driver.beat("p2", 2, 1))
    note(driver.join("p2", b"5" * 16, 2))
    note(driver.join("p3", b"3" * 16, 0))
    note(driver.join("p4", b"6" * 16, 0))
    until(lambda: driver.start("p3", 1) != "round_early", "p3 steps in")
    stage.train("p3", 1, 3.0)
    until(lambda: stage.coordinator.show(RUN)["phase"] == "Finished", "it is finished")
    note(driver.beat("p1", 1, 3))
    for member, life in (("p1", 1), ("p3", 1)):
        note(driver.leave(member, life))


def played(door: str, folder: Path) -> tuple[list[Any], list[Any]]:
    with Coordinator(folder=folder, grpc={"port": 0}, http={"port": 0}) as coordinator:
        config = {"clients": 2, "per_round": 2, "rounds": 1, "epochs": 3, "hyper": {"lr": 0.5}, "max_participants": 2}
        coordinator.create(RUN, "federated", heartbeat_interval_s=20, heartbeat_timeout_s=60, seed=4, **config)
        with DRIVERS[door](coordinator) as driver:
            stage = Stage(coordinator, driver)
            the_story(stage)
        entries = coordinator.ask("journal", RUN, limit=1000)["entries"]
        return stage.told, [compared(entry) for entry in entries]


def compared(entry: dict[str, Any]) -> Any:
    """Without what time and chance decide: when, and on which port."""
    kept = [
        {name: value for name, value in event.items() if name not in ("host", "address")} for event in entry["events"]
    ]
    return entry["n"], entry["term"], kept


def test_every_door_leads_to_the_same_journal(tmp_path: Path) -> None:
    tales = {door: played(door, tmp_path / door) for door in DRIVERS}
    answers, journal = tales["tcp"]
    assert len(journal) > 10
    for door, (told, entries) in tales.items():
        assert told == answers, door
        for ours, theirs in zip(entries, journal, strict=True):
            assert ours == theirs, door

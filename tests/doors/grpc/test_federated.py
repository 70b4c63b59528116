"""Participants that know nothing of Quoracy but federated.proto: whole lives in real rounds, weights over HTTP."""

from __future__ import annotations

import importlib
import secrets
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from blake3 import blake3
from google.protobuf import descriptor_pool, struct_pb2
from safetensors.numpy import load, save
from tests.doors.grpc.test_proto import ROOT
from tests.e2e.command import until

from quoracy.coordinator import Coordinator
from quoracy.core.members import signed_by_joiner
from quoracy.doors.auth import Authority, MemberKey, Role
from quoracy.wire.pb import coordinator_pb2, coordinator_pb2_grpc

RUN = "fed"
PATIENCE_S = 30.0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    """Code that protoc alone makes, under names of its own."""
    folder = tmp_path_factory.mktemp("made")
    command = [
        sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT / 'proto' / 'quoracy' / 'v1'}",
        f"-I{resources.files('grpc_tools') / '_proto'}", f"--python_out={folder}", f"--grpc_python_out={folder}",
        "federated.proto",
    ]  # fmt: skip
    subprocess.run(command, check=True, timeout=60)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(struct_pb2.DESCRIPTOR.serialized_pb)
    with pytest.MonkeyPatch.context() as patched:
        # A pool of its own: the server's messages are registered in this process, under another file name.
        patched.setattr(descriptor_pool, "Default", lambda: pool)
        patched.syspath_prepend(folder)
        yield importlib.import_module("federated_pb2"), importlib.import_module("federated_pb2_grpc")


class Stranger:
    def __init__(self, made: tuple[Any, Any], place: str, name: str, token: str = "") -> None:
        self.pb, stubs = made
        self.channel = grpc.insecure_channel(place)
        self.stub = stubs.FederatedStub(self.channel)
        self.name, self.token, self.seq = name, token, 0
        self.me: Any = None
        self.phase, self.round = 0, 0

    def close(self) -> None:
        self.channel.close()

    def call(self, what: str, said: Any, token: str = "") -> Any:
        shown = token or self.token
        metadata = (("authorization", f"Bearer {shown}"),) if shown else ()
        return getattr(self.stub, what)(said, timeout=PATIENCE_S, metadata=metadata)

    def rendezvous(self, **more: Any) -> Any:
        fields = {"run": RUN, "participant": self.name, "nonce": secrets.token_bytes(16), "initial": True} | more
        self.me = self.call("Rendezvous", self.pb.RendezvousRequest(**fields))
        return self.me

    def mine(self) -> dict[str, Any]:
        return {"run": RUN, "participant": self.name, "incarnation": self.me.incarnation, "token": self.me.token}

    def beat(self, wait_ms: int = 0) -> Any:
        self.seq += 1
        said = self.pb.ParticipantHeartbeatRequest(
            **self.mine(),
            seq=self.seq,
            wait_ms=wait_ms,
            phase=self.phase,
            round=self.round,
            metrics={"loss": 0.5, "gradient": float("inf")},
        )
        heard = self.call("Heartbeat", said)
        self.phase, self.round = heard.phase, heard.round
        return heard

    def start(self) -> Any:
        return self.call("StartTrainingRound", self.pb.StartTrainingRoundRequest(**self.mine()))

    def end(self, assigned: Any, digest: str, **more: Any) -> Any:
        said = self.pb.EndTrainingRoundRequest(
            **self.mine(), round=assigned.round, ticket=assigned.ticket, digest=digest, number_samples=2, **more
        )
        said.metrics["loss"].scalar = 0.25
        said.metrics["per_class"].list.values.extend([0.5, 1.0])
        said.history["loss"].values.extend([0.5, 0.25])
        return self.call("EndTrainingRound", said)

    def leave(self) -> Any:
        return self.call("Leave", self.pb.LeaveRequest(**self.mine(), reason="done"))

    # -- weights, with nothing but urllib -------------------------------------------------------------------------

    def _asked(self, assigned: Any, digest: str, method: str, body: bytes | None = None) -> bytes:
        url = f"{assigned.weights_at.http}/api/runs/{RUN}/weights/{digest}"
        url += f"?member={self.name}&incarnation={self.me.incarnation}"
        request = urllib.request.Request(url, body, method=method)
        request.add_header("Content-Type", "application/octet-stream")
        if self.me.token:
            request.add_header("Authorization", f"Bearer {self.me.token}")
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return bytes(answer.read())

    def train(self, assigned: Any) -> str:
        arrays = {"w": np.zeros(4, np.float32)}
        if assigned.weights:
            before = self._asked(assigned, assigned.weights, "GET")
            arrays = {"w": load(before)["w"] + np.float32(assigned.hyper["lr"])}
        content = save(arrays)
        digest = str(blake3(content).hexdigest())
        self._asked(assigned, digest, "PUT", content)
        return digest

    def live(self) -> list[int]:
        """As the .proto says; returns the rounds it took part in."""
        trained = []
        while True:
            heard = self.beat(wait_ms=2000)
            if heard.phase == self.pb.ROUND_PHASE_FINISHED:
                self.leave()
                return trained
            if heard.phase == self.pb.ROUND_PHASE_ROUND:
                assigned = self.start()
                self.end(assigned, self.train(assigned))
                trained.append(assigned.round)


def code(error: Any) -> str:
    trailing = dict(error.trailing_metadata())
    return coordinator_pb2.ErrorDetail.FromString(trailing["quoracy-error-bin"]).code


def place(coordinator: Coordinator) -> str:
    return coordinator.addresses["grpc"].partition("://")[2]


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    with Coordinator(folder=tmp_path, grpc={"port": 0}, http={"port": 0}) as running:
        yield running


@pytest.fixture
def stranger(made: tuple[Any, Any], coordinator: Coordinator) -> Iterator[Any]:
    come: list[Stranger] = []

    def make(name: str) -> Stranger:
        come.append(Stranger(made, place(coordinator), name))
        return come[-1]

    yield make
    for one in come:
        one.close()


def test_two_strangers_live_through_a_whole_run(coordinator: Coordinator, stranger: Any) -> None:
    coordinator.create(RUN, "federated", clients=2, rounds=3, epochs=2, hyper={"lr": 0.5})
    both = [stranger("p1"), stranger("p2")]
    for one in both:
        entered = one.rendezvous()
        assert entered.reply == one.pb.RENDEZVOUS_REPLY_ACCEPT
        assert (entered.incarnation, entered.heartbeat_interval_s) == (1, 5.0)
    with ThreadPoolExecutor(2) as pool:
        lives = list(pool.map(lambda one: one.live(), both))
    assert lives == [[-1, 0, 1, 2], [0, 1, 2]]
    shown = coordinator.show(RUN)
    assert [party["state"] for party in shown["participants"]] == ["Done", "Done"]
    assert shown["history"][2]["metrics"] == {"loss": 0.25, "per_class": [0.5, 1.0]}
    assert [over["samples"] for over in shown["history"]] == [4, 4, 4]


def test_the_assignment_says_everything(coordinator: Coordinator, stranger: Any) -> None:
    coordinator.create(RUN, "federated", clients=1, rounds=3, epochs=2, hyper={"lr": 0.5})
    one = stranger("p1")
    one.rendezvous()
    first = one.start()
    assert (first.round, first.weights, first.rounds) == (-1, "", 3)
    one.end(first, one.train(first))
    zero = until(lambda: one.beat().round == 0 and one.start(), "round 0")
    one.end(zero, one.train(zero))
    then = until(lambda: one.beat(100).round == 1 and one.phase == one.pb.ROUND_PHASE_ROUND and one.start(), "round 1")
    assert (then.epochs, then.epoch_base, then.hyper["lr"]) == (2, 2, 0.5)
    assert then.ticket > zero.ticket
    assert then.weights_at.store.startswith("file:///")
    assert (then.weights_at.prefix, then.weights_at.http) == (RUN, coordinator.addresses["http"])


def test_an_update_that_is_sent_again_gets_the_same_verdict_and_counts_once(
    coordinator: Coordinator, stranger: Any
) -> None:
    coordinator.create(RUN, "federated", clients=2, rounds=1)
    one, other = stranger("p1"), stranger("p2")
    one.rendezvous()
    other.rendezvous()
    first = one.start()
    digest = one.train(first)
    with ThreadPoolExecutor(2) as pool:
        answers = [again.result() for again in [pool.submit(one.end, first, digest) for _ in range(2)]]
    assert answers[0] == answers[1] == one.end(first, digest)
    offers = [
        event
        for entry in coordinator.ask("journal", RUN, limit=1000)["entries"]
        for event in entry["events"]
        if event["type"] == "update-offered"
    ]
    assert len(offers) == 1
    with pytest.raises(grpc.RpcError) as refused:
        one.end(first, "0" * 64)
    assert code(refused.value) == "late_update"


def test_what_is_refused_says_why(coordinator: Coordinator, stranger: Any) -> None:
    coordinator.create(RUN, "federated", clients=1)
    one = stranger("p1")
    one.rendezvous()
    first = one.start()
    for _ in range(2):
        with pytest.raises(grpc.RpcError) as refused:
            one.end(first, "0" * 64)
        assert code(refused.value) == "update_refused"
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "has not uploaded" in refused.value.details()
    with pytest.raises(grpc.RpcError) as out:
        one.beat()
    assert (code(out.value), out.value.code()) == ("quarantined", grpc.StatusCode.PERMISSION_DENIED)
    coordinator.ask("readmit", RUN, member="p1")
    assert one.rendezvous().incarnation == 2


def test_a_full_run_says_later_and_when(coordinator: Coordinator, stranger: Any) -> None:
    coordinator.create(RUN, "federated", clients=1, max_participants=1)
    stranger("p1").rendezvous()
    late = stranger("p2").rendezvous()
    assert late.reply == 2
    assert late.retry_s == 15.0
    assert "max_participants = 1" in late.why


def test_a_heartbeat_is_held_until_there_is_news(coordinator: Coordinator, stranger: Any) -> None:
    coordinator.create(RUN, "federated", clients=2, heartbeat_interval_s=20, heartbeat_timeout_s=60)
    one, other = stranger("p1"), stranger("p2")
    one.rendezvous()
    assert one.beat().phase == one.pb.ROUND_PHASE_STANDBY
    began_s = time.monotonic()
    assert one.beat(wait_ms=50).phase == one.pb.ROUND_PHASE_STANDBY
    assert time.monotonic() - began_s >= 0.04, "timers may be a little early"
    heard: list[Any] = []
    waiting = threading.Thread(target=lambda: heard.append(one.beat(wait_ms=20_000)))
    waiting.start()
    standins = coordinator._open().federated._standins
    until(lambda: any(standin.waiting for standin in list(standins.values())), "it waits")
    other.rendezvous()
    waiting.join(PATIENCE_S)
    assert (heard[0].phase, heard[0].round) == (one.pb.ROUND_PHASE_ROUND, -1)


def test_calls_for_another_kind_of_run_are_told_so(coordinator: Coordinator, stranger: Any) -> None:
    coordinator.create(RUN)
    with pytest.raises(grpc.RpcError) as refused:
        stranger("p1").rendezvous()
    assert code(refused.value) == "wrong_kind"
    assert "cluster" in refused.value.details()


@pytest.mark.parametrize(
    ("fields", "named"),
    [({"nonce": b"short"}, "nonce"), ({"participant": "x" * 65}, "member"), ({"labels": {"a" * 65: "b"}}, "labels")],
)
def test_a_wrong_field_is_named(coordinator: Coordinator, stranger: Any, fields: dict[str, Any], named: str) -> None:
    coordinator.create(RUN, "federated")
    with pytest.raises(grpc.RpcError) as refused:
        stranger("p1").rendezvous(**fields)
    assert code(refused.value) == "malformed"
    assert named in refused.value.details()


def test_tokens_and_keys_as_everywhere(made: tuple[Any, Any], tmp_path: Path) -> None:
    with Coordinator(folder=tmp_path, grpc={"port": 0}, http={"port": 0}, access={"tokens": "required"}) as coordinator:
        coordinator.create(RUN, "federated", clients=1, rounds=1, hyper={"lr": 0.5})
        token = Authority.open(tmp_path).new_token(Role.MEMBER, run=RUN)
        bare = Stranger(made, place(coordinator), "p1")
        with pytest.raises(grpc.RpcError) as refused:
            bare.rendezvous()
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        bare.close()
        one = Stranger(made, place(coordinator), "p1", token)
        key = MemberKey.create()
        challenges = coordinator_pb2_grpc.CoordinatorStub(one.channel)
        metadata = (("authorization", f"Bearer {token}"),)
        challenge = challenges.GetChallenge(coordinator_pb2.GetChallengeRequest(), metadata=metadata).challenge
        nonce = secrets.token_bytes(16)
        signature = key.sign(signed_by_joiner(challenge, RUN, "p1", 0, nonce))
        entered = one.rendezvous(supersedes=0, nonce=nonce, key=key.public, challenge=challenge, signature=signature)
        assert entered.token.startswith("qrt1_session_")
        assert one.live() == [-1, 0]
        one.close()

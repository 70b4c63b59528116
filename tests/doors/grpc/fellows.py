"""Members of a witnessed run over gRPC for tests: they say what they are told to. The model is a number."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, Self

import grpc
from blake3 import blake3
from tests.doors.grpc.talk import PATIENCE_S, place
from tests.e2e.command import until

from quoracy.coordinator import Coordinator
from quoracy.core.members import signed_by_joiner
from quoracy.core.witnessed.events import signed_by_trainer
from quoracy.doors.auth import MemberKey
from quoracy.wire.pb import coordinator_pb2, coordinator_pb2_grpc
from quoracy.wire.pb import witnessed_pb2 as pb
from quoracy.wire.pb.witnessed_pb2_grpc import WitnessedStub

RUN = "sums"
MODEL = blake3(b"0").digest()


class Fellow:
    """One life."""

    def __init__(self, coordinator: Coordinator, name: str, token: str = "", key: MemberKey | None = None) -> None:
        self.channel = grpc.insecure_channel(place(coordinator), [("grpc.enable_http_proxy", 0)])
        self.stub = WitnessedStub(self.channel)  # type: ignore[no-untyped-call]
        self.name, self.token, self.key = name, token, key or MemberKey.create()
        self.me: Any = None
        self.beats = self.commands = 0
        self.known: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.channel.close()

    def call(self, name: str, said: Any, timeout_s: float = PATIENCE_S) -> Any:
        metadata = (("authorization", f"Bearer {self.token}"),) if self.token else ()
        return getattr(self.stub, name)(said, timeout=timeout_s, metadata=metadata)

    def join(self, **more: Any) -> Any:
        fields: dict[str, Any] = {"run": RUN, "member": self.name, "nonce": secrets.token_bytes(16)} | more
        metadata = (("authorization", f"Bearer {self.token}"),) if self.token else ()
        ask = coordinator_pb2_grpc.CoordinatorStub(self.channel).GetChallenge  # type: ignore[no-untyped-call]
        challenge = ask(coordinator_pb2.GetChallengeRequest(), metadata=metadata).challenge
        fields = {"supersedes": 0, "key": self.key.public} | fields
        signed = signed_by_joiner(challenge, RUN, self.name, fields["supersedes"] or 0, fields["nonce"])
        fields = {"challenge": challenge, "signature": self.key.sign(signed)} | fields
        self.me = self.call("Join", pb.JoinRequest(**fields))
        return self.me

    def mine(self) -> dict[str, Any]:
        return {"run": RUN, "member": self.name, "incarnation": self.me.incarnation, "token": self.me.token}

    def beat(self, wait_ms: int = 0, **more: Any) -> Any:
        self.beats += 1
        said = pb.MemberHeartbeatRequest(
            **self.mine(), seq=self.beats, wait_ms=wait_ms, known=self.known, metrics={"accuracy": 0.5}, **more
        )
        heard = self.call("Heartbeat", said)
        self.known = dict(heard.known)
        return heard

    def sees(self, topic: str, where: Callable[[Any], bool] = lambda _view: True) -> Any:
        """The next such view, asked for until it comes."""

        def look() -> Any:
            heard = self.beat(wait_ms=500)
            return heard.HasField(topic) and where(getattr(heard, topic)) and getattr(heard, topic)

        return until(look, f"{self.name} sees {topic}")

    def loaded(self, epoch: int = 0, step: int = 0, model: bytes = MODEL) -> Any:
        return self.call("Loaded", pb.LoadedRequest(**self.mine(), epoch=epoch, step=step, model=model))

    def model_hash(self, step: int = 0, model: bytes = MODEL, epoch: int = 0) -> Any:
        return self.call("ModelHash", pb.ModelHashRequest(**self.mine(), step=step, model=model, epoch=epoch))

    def commit(
        self, shown: Any, digest: bytes, base: bytes = MODEL, signature: bytes | None = None, **more: Any
    ) -> Any:
        (mine,) = shown.mine
        batches = sum(span.end - span.first for span in mine.batches)
        place_ = (shown.epoch, shown.round, mine.assignment, mine.attempt)
        if signature is None:
            signed = signed_by_trainer(RUN, *place_, self.name, digest, base)
            signature = self.key.sign(signed)
        self.commands += "seq" not in more
        said = {"seq": self.commands, "samples": 32 * batches, "loss": 0.5} | more
        commit = pb.CommitRequest(
            **self.mine(), epoch=place_[0], round=place_[1], assignment=place_[2], attempt=place_[3], digest=digest,
            size_bytes=3, base=base, signature=signature, **said,
        )  # fmt: skip
        return self.call("Commit", commit)

    def attest(self, shown: Any, held: int, known: int) -> Any:
        bits = held.to_bytes((known + 7) // 8, "little")
        said = pb.AttestRequest(**self.mine(), epoch=shown.epoch, round=shown.round, known=known, held=bits)
        return self.call("Attest", said)


def trains(view: Any) -> bool:
    return bool(view.phase == pb.WITNESSED_PHASE_ROUND_TRAIN)

"""Participants of a federated run for tests, over TCP: they say what they are told to, and train by adding a number."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np
from tests.doors.talk import PATIENCE_S, RUN, Talk

from quoracy.coordinator import Coordinator
from quoracy.core.errors import Refusal
from quoracy.core.federated.events import Beat, ParticipantJoined, ParticipantLeft, UpdateOffered
from quoracy.core.members import Cause, signed_by_joiner
from quoracy.core.messages import Told
from quoracy.hosts.keys import Keys
from quoracy.learn import load, save
from quoracy.learn.dtypes import Numbers
from quoracy.objects import LocalObjects
from quoracy.trust import MemberKey

KEYS = Keys(RUN)


def model(value: float, size: int = 8) -> dict[str, Numbers]:
    return {"a": np.full((2, size), value, np.float32), "b": np.full(3, value, np.float32)}


def put(folder: Path, arrays: dict[str, Numbers], scratch: Path, member: str = "p1") -> str:
    """Into the store as a participant would that can reach it; returns the digest. ``member`` "": as the run's own."""
    scratch.mkdir(parents=True, exist_ok=True)
    path = scratch / "update.safetensors"
    digest = save(path, arrays)
    key = KEYS.upload(member, digest) if member else KEYS.blob(digest)
    with_store(folder).put_file(key, path, digest)
    return digest


def put_bytes(folder: Path, content: bytes, digest: str, member: str = "p1") -> None:
    with_store(folder).put(KEYS.upload(member, digest), content)


def with_store(folder: Path) -> LocalObjects:
    return LocalObjects(str(folder / "objects"))


class Participant:
    """One connection, one life."""

    def __init__(
        self, url: str, member: str, supersedes: int = 0, initial: bool = True, token: str = "",
        key: MemberKey | None = None,
    ) -> None:  # fmt: skip
        """``token``, ``key``: where the coordinator asks for them."""
        self.member = member
        self.talk = Talk(url, token=token)
        nonce = f"{member}/{supersedes}".encode().ljust(16, b".")[:16]
        joined = ParticipantJoined(member, supersedes, nonce, initial=initial)
        if key is not None:
            assert self.talk.greeted is not None
            challenge = self.talk.greeted.challenge
            proof = challenge + key.sign(signed_by_joiner(challenge, RUN, member, supersedes, nonce))
            joined = msgspec.structs.replace(joined, key=key.public, proof=proof)
        answer = self.talk.call(Cause(member, supersedes, 0), joined)
        assert not isinstance(answer, Refusal), answer
        self.life = int(answer.result["incarnation"])
        self.seq = 0
        self.session = self.talk.granted().token
        """The session token."""

    def close(self) -> None:
        self.talk.socket.close()

    def standing(self, where: Callable[[dict[str, Any]], bool] = lambda _s: True) -> dict[str, Any]:
        """The next one that fits. Asked for, so that none is missed."""
        deadline_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline_s:
            self.talk.hello(self.member, self.life, self.session)
            told = self.talk.hear(Told, where=lambda m: m.topic == "standing" and m.member == self.member)
            if where(told.value):
                return dict(told.value)
            time.sleep(0.005)
        raise TimeoutError(f"{self.member} never stood so: {told.value}")

    def assigned(self, number: int) -> dict[str, Any]:
        return self.standing(lambda s: s["phase"] == "ROUND" and s["round"] == number and s["ticket"] > 0)

    def beat(self, seq: int) -> Any:
        self.talk.sign(Beat(self.member, self.life, seq))
        return self.talk.hear(Told, where=lambda m: m.topic == "heartbeat").value

    def offer(self, standing: dict[str, Any], digest: str, samples: int = 1, **more: Any) -> Any:
        self.seq += 1
        event = UpdateOffered(self.member, self.life, standing["round"], standing["ticket"], samples, digest, **more)
        return self.talk.call(Cause(self.member, self.life, self.seq), event)

    def verdict(self, standing: dict[str, Any]) -> Any:
        """(round, ticket, digest, admitted, why)"""
        wanted = [standing["round"], standing["ticket"]]
        return self.standing(lambda s: s["verdict"] is not None and s["verdict"][:2] == wanted)["verdict"]

    def leave(self) -> Any:
        self.seq += 1
        return self.talk.call(Cause(self.member, self.life, self.seq), ParticipantLeft(self.member, self.life))


class Parties:
    """All who came, so that none is left connected."""

    def __init__(self, coordinator: Coordinator) -> None:
        self.url = coordinator.url
        self.all: list[Participant] = []

    def join(self, member: str, supersedes: int = 0, initial: bool = True) -> Participant:
        party = Participant(self.url, member, supersedes, initial)
        self.all.append(party)
        return party

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        for party in self.all:
            party.close()


def play_round(folder: Path, parties: list[Participant], number: int, scratch: Path, step: float = 1.0) -> None:
    """Each adds its own step to the global weights, or gives the initial ones."""
    for at, party in enumerate(parties):
        standing = party.assigned(number)
        path = None if not standing["weights"] else with_store(folder).local_path(KEYS.blob(standing["weights"]))
        before = model(0.0) if path is None else load(path)
        arrays = {name: array + np.float32(step * (at + 1) * (number >= 0)) for name, array in before.items()}
        digest = put(folder, arrays, scratch, party.member)
        answer = party.offer(standing, digest, samples=at + 1, metrics={"loss": 1.0 / (at + 1)})
        assert not isinstance(answer, Refusal), answer


def ended(coordinator: Coordinator, phase: str = "Finished") -> dict[str, Any]:
    """The run, once it is there."""
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        shown = coordinator.show(RUN)
        if shown.get("phase") == phase:
            return shown
        time.sleep(0.01)
    raise TimeoutError(f"never {phase}: {shown}")

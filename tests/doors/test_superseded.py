"""A process that was superseded, with its session token and ill will, at every door: nothing it says counts for its
successor."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import grpc
import pytest
from msgspec import Raw
from tests.doors.grpc.talk import Talk as GrpcTalk
from tests.doors.grpc.talk import place
from tests.doors.talk import RUN, Talk

from quoracy.coordinator import Coordinator
from quoracy.core.cluster.events import Arrive, Heartbeat, WorkerIdle, WorkerLeft
from quoracy.core.codec import encode
from quoracy.core.members import Accepted, Cause
from quoracy.core.messages import Declined, Sign, Told, Welcome
from quoracy.doors.auth import Authority, MemberKey, Role
from quoracy.wire.pb import coordinator_pb2 as pb

FAR = 900_000
"""The number of a heartbeat that would make all honest ones look like repeats."""


class Pair:
    """Two incarnations of a worker. The first has its session token still; the second takes part."""

    def __init__(self, coordinator: Coordinator, token: str) -> None:
        self.coordinator = coordinator
        self.token = token
        self._beats = count(1)
        key = MemberKey.create()
        with Talk(coordinator.url, token=token) as first:
            assert isinstance(first.join("w1", key=key), Accepted)
            self.old = first.granted().token
        self.second = Talk(coordinator.url, token=token)
        assert isinstance(self.second.join("w1", supersedes=1, key=key), Accepted)
        self.second.ready("w1", incarnation=2)
        assert isinstance(self.second.call(Cause("w1", 2, 2), WorkerIdle("w1", 2, 0)), Accepted)

    def check_unharmed(self) -> None:
        """The second is heard with its own small numbers, has not left, and stands at no barrier."""
        seq = next(self._beats)
        self.second.sign(Heartbeat("w1", 2, seq, step=seq))
        self.second.hear(Told, where=lambda m: m.topic == "heartbeat" and m.value[0] == seq)
        shown = self.coordinator.show(RUN)
        (worker,) = shown["workers"]
        assert (worker["incarnation"], worker["state"], worker["step"]) == (2, "Idle", seq)
        assert shown["barriers"] == []


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder: Path = tmp_path_factory.mktemp("superseded")
    doors: dict[str, Any] = {"grpc": {"port": 0}, "http": {"port": 0}}
    with Coordinator(folder=folder, access={"tokens": "required"}, **doors) as running:
        running.create(RUN)
        token = Authority.open(folder).new_token(Role.MEMBER, run=RUN)
        made = Pair(running, token)
        with made.second:
            yield made


def test_over_tcp(pair: Pair) -> None:
    with Talk(pair.coordinator.url, token=pair.token) as talk:
        talk.hello("w1", 1, pair.old)
        assert talk.hear(Welcome).incarnation == 2
        for forged in (Heartbeat("w1", 2, FAR), Arrive("w1", 2, "step", 0)):
            talk.sign(forged)
            assert talk.hear(Declined).refusal.code == "bad_token"
            talk.say(Sign(RUN, Raw(encode(forged)), "w1", 1))
            assert talk.hear(Declined).refusal.code == "contradiction"
        for own in (Heartbeat("w1", 1, FAR), Arrive("w1", 1, "step", 0)):
            talk.sign(own)
            assert talk.hear(Declined).refusal.code == "superseded"
        assert talk.call(Cause("w1", 2, 3), WorkerLeft("w1", 2)).code == "bad_token"
        assert talk.call(Cause("w1", 1, 1), WorkerLeft("w1", 2)).code in ("superseded", "contradiction")
        talk.hello("w1", 2, pair.old)
        assert talk.hear(Declined).refusal.code == "bad_token"
    pair.check_unharmed()


def test_over_a_grpc_stream_with_nothing_but_its_session_token(pair: Pair) -> None:
    with GrpcTalk(place(pair.coordinator), pair.old) as talk, talk.session() as chat:
        chat.say(hello=pb.Hello(run=RUN, worker="w1", incarnation=1, token=pair.old))
        assert chat.hear("welcome").welcome.incarnation == 2
        for incarnation, code in ((2, "bad_token"), (1, "superseded")):
            life = {"run": RUN, "worker": "w1", "incarnation": incarnation}
            chat.say(heartbeat=pb.HeartbeatRequest(**life, seq=FAR))
            assert chat.hear("declined").declined.error.code == code
            chat.say(arrive=pb.WaitAtBarrierRequest(**life, barrier="step", step=0))
            assert chat.hear("declined").declined.error.code == code
            chat.say(leave=pb.DeregisterRequest(**life, seq=3))
            assert chat.hear("answered").answered.refused.code == code
    pair.check_unharmed()


@pytest.mark.parametrize("bearer", ["join", "session", "none"])
@pytest.mark.parametrize(("incarnation", "code"), [(2, "bad_token"), (1, "superseded")])
def test_over_single_grpc_calls(pair: Pair, bearer: str, incarnation: int, code: str) -> None:
    life = {"run": RUN, "worker": "w1", "incarnation": incarnation, "token": pair.old}
    with GrpcTalk(place(pair.coordinator), {"join": pair.token, "session": pair.old, "none": ""}[bearer]) as talk:
        for request in (
            pb.HeartbeatRequest(**life, seq=FAR),
            pb.WaitAtBarrierRequest(**life, barrier="step", step=0, timeout_s=5.0),
            pb.ReportStateRequest(**life, seq=3, state=pb.REPORTED_STATE_LOADING),
            pb.DeregisterRequest(**life, seq=3),
        ):
            status, told = talk.refused(request)
            assert told.code == code, request
            assert status in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.ABORTED)
    pair.check_unharmed()


@pytest.mark.parametrize(("incarnation", "code"), [(2, "bad_token"), (1, "superseded")])
def test_over_http(pair: Pair, incarnation: int, code: str) -> None:
    home = f"{pair.coordinator.addresses['http']}/api/runs/{RUN}/workers/w1"
    headers = {"authorization": f"Bearer {pair.old}", "content-type": "application/json"}
    said: dict[str, dict[str, Any]] = {
        "heartbeat": {"seq": FAR}, "barriers/step": {"step": 0, "timeout_s": 5.0},
        "state": {"seq": 3, "state": "loading"}, "leave": {"seq": 3},
    }  # fmt: skip
    for what, body in said.items():
        request = urllib.request.Request(
            f"{home}/{what}", json.dumps({"incarnation": incarnation, **body}).encode(), headers
        )
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=30)
        assert json.load(refused.value)["code"] == code
    pair.check_unharmed()

"""Tokens and TLS at the gRPC door."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.doors.grpc.conftest import opened
from tests.doors.grpc.strangers import Stranger, free_port, generated
from tests.doors.grpc.talk import RUN, Talk, fresh, place

from quoracy.coordinator import Coordinator
from quoracy.core.errors import ConfigError
from quoracy.core.members import signed_by_joiner
from quoracy.doors.auth import MemberKey, Role
from quoracy.trust.ca import create_authority
from quoracy.wire.pb import coordinator_pb2 as pb

S = grpc.StatusCode


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Coordinator]:
    with opened(tmp_path / "journals", access={"tokens": "required"}) as running:
        running.create(RUN)
        yield running


def token(running: Coordinator, role: Role, run: str = "*") -> str:
    return running._open().service.authority.new_token(role, run)


def keyed(talk: Talk, key: MemberKey, worker: str = "w1", supersedes: int = 0) -> pb.RegisterWorkerRequest:
    challenge = talk.call(pb.GetChallengeRequest()).challenge
    return signed(key, challenge, worker, supersedes)


def signed(key: MemberKey, challenge: bytes, worker: str = "w1", supersedes: int = 0) -> pb.RegisterWorkerRequest:
    nonce = fresh()
    signature = key.sign(signed_by_joiner(challenge, RUN, worker, supersedes, nonce))
    return pb.RegisterWorkerRequest(
        run=RUN, worker=worker, supersedes=supersedes, nonce=nonce, key=key.public, challenge=challenge,
        signature=signature,
    )  # fmt: skip


def refused(talk: Talk, request: Any) -> tuple[grpc.StatusCode, str]:
    was, told = talk.refused(request)
    return was, told.code


def test_nobody_gets_in_without_a_token(guarded: Coordinator) -> None:
    for bad in ("", "nonsense", "qrt1_admin_AAAA.BBBB"):
        with Talk(place(guarded), bad) as talk:
            assert refused(talk, pb.GetStatusRequest()) == (S.UNAUTHENTICATED, "bad_token")
            assert refused(talk, pb.HeartbeatRequest(run=RUN, worker="w1")) == (S.UNAUTHENTICATED, "bad_token")
            with talk.session() as chat:
                assert chat.ended()[0] is S.UNAUTHENTICATED


def test_a_role_may_do_what_it_may_and_no_more(guarded: Coordinator) -> None:
    with Talk(place(guarded), token(guarded, Role.VIEWER)) as viewer:
        assert viewer.call(pb.GetRunRequest(run=RUN)).run.run == RUN
        assert refused(viewer, pb.StopRunRequest(run=RUN)) == (S.PERMISSION_DENIED, "forbidden")
        assert refused(viewer, keyed(viewer, MemberKey.create())) == (S.PERMISSION_DENIED, "forbidden")
    with Talk(place(guarded), token(guarded, Role.MEMBER, "other")) as stranger:
        assert refused(stranger, pb.GetRunRequest(run=RUN)) == (S.PERMISSION_DENIED, "forbidden")
        assert list(stranger.call(pb.ListRunsRequest()).runs) == []
    with Talk(place(guarded), token(guarded, Role.OPERATOR)) as operator:
        assert operator.call(pb.StopRunRequest(run=RUN)).entry > 1


def test_a_join_proves_its_key_and_earns_a_token_for_its_own_calls_alone(guarded: Coordinator) -> None:
    key = MemberKey.create()
    with Talk(place(guarded), token(guarded, Role.MEMBER)) as talk:
        unsigned = pb.RegisterWorkerRequest(run=RUN, worker="w1", nonce=fresh())
        assert refused(talk, unsigned) == (S.UNAUTHENTICATED, "bad_token")
        foreign = signed(key, bytes(32))
        assert refused(talk, foreign) == (S.UNAUTHENTICATED, "bad_token")
        joined = talk.call(keyed(talk, key))
        assert refused(talk, keyed(talk, MemberKey.create(), supersedes=1)) == (S.PERMISSION_DENIED, "key_mismatch")
        beat = pb.HeartbeatRequest(run=RUN, worker="w1", incarnation=1, seq=1)
        assert refused(talk, beat) == (S.UNAUTHENTICATED, "bad_token")
        beat.token = joined.token
        assert talk.call(beat).seq == 1
    with Talk(place(guarded), joined.token) as alone:
        beat = pb.HeartbeatRequest(run=RUN, worker="w1", incarnation=1, seq=2)
        assert alone.call(beat).seq == 2
        ready = pb.ReportStateRequest(run=RUN, worker="w1", incarnation=1, seq=1, state=pb.REPORTED_STATE_READY)
        assert alone.call(ready).entry
        beat.worker = "w2"
        assert refused(alone, beat) == (S.UNAUTHENTICATED, "bad_token")
        assert refused(alone, pb.GetRunRequest(run=RUN)) == (S.UNAUTHENTICATED, "bad_token")
        assert refused(alone, keyed(alone, key, "w1", 1)) == (S.PERMISSION_DENIED, "forbidden")
    with Talk(place(guarded)) as bare:
        beat = pb.HeartbeatRequest(run=RUN, worker="w1", incarnation=1, seq=3, token=joined.token)
        assert bare.call(beat).seq == 3


def test_a_stream_goes_on_with_a_session_token_but_brings_nobody_in(guarded: Coordinator) -> None:
    key = MemberKey.create()
    with Talk(place(guarded), token(guarded, Role.MEMBER)) as talk, talk.session() as chat:
        chat.say(hello=pb.Hello(run=RUN, worker="w1"))
        chat.say(register=signed(key, chat.hear("welcome").welcome.challenge))
        granted = chat.hear("granted").granted
    with Talk(place(guarded), granted.token) as talk, talk.session() as chat:
        chat.say(hello=pb.Hello(run=RUN, worker="w1", incarnation=1, token="qrt1_session_1.AAAA"))
        assert chat.hear("declined").declined.error.code == "forbidden"
        chat.say(hello=pb.Hello(run=RUN, worker="w1", incarnation=1, token=granted.token))
        challenge = chat.hear("welcome").welcome.challenge
        assert chat.beat("w1", 1).seq == 1
        chat.say(heartbeat=pb.HeartbeatRequest(run=RUN, worker="w2", incarnation=1, seq=1))
        assert chat.hear("declined").declined.error.code == "bad_token"
        chat.say(register=signed(MemberKey.create(), challenge, "w2"))
        assert chat.hear("answered").answered.refused.code == "forbidden"


def test_a_challenge_of_another_stream_proves_nothing(guarded: Coordinator) -> None:
    with Talk(place(guarded), token(guarded, Role.MEMBER)) as talk, talk.session() as one, talk.session() as two:
        for chat in (one, two):
            chat.say(hello=pb.Hello(run=RUN, worker="w1"))
        foreign = one.hear("welcome").welcome.challenge
        two.say(register=signed(MemberKey.create(), foreign))
        assert two.hear("answered").answered.refused.code == "bad_token"


@pytest.mark.parametrize("way", ["unary", "stream"])
def test_strangers_come_in_with_tls_token_and_key(tmp_path: Path, way: str) -> None:
    made = create_authority(tmp_path / "ca", ["localhost"])
    tls = {"cert": str(made.server.cert), "key": str(made.server.key)}
    port = free_port()
    with opened(tmp_path / "journals", {"port": port}, tls=tls, access={"tokens": "required"}) as running:
        running.create(RUN)
        environment = {"QUORACY_TOKEN": token(running, Role.MEMBER), "GRPC_CA": str(made.authority.cert)}
        with Stranger(generated(tmp_path / "made"), way, port, "w1", 3, HOST="localhost", **environment) as one:
            assert one.ended() == 0, one.errors
            assert one.passed == [(1, 0), (2, 1), (3, 2)]


def test_without_tls_nobody_speaks_to_a_door_that_has_it(tmp_path: Path) -> None:
    made = create_authority(tmp_path / "ca", ["localhost"])
    tls = {"cert": str(made.server.cert), "key": str(made.server.key)}
    with opened(tmp_path / "journals", tls=tls) as running, Talk(place(running)) as talk:
        with pytest.raises(grpc.RpcError) as caught:
            talk.raw("GetStatus", b"", timeout_s=5.0)
        assert caught.value.code() in (S.UNAVAILABLE, S.DEADLINE_EXCEEDED)


def test_a_key_that_is_none_is_named(tmp_path: Path) -> None:
    made = create_authority(tmp_path / "ca", ["localhost"])
    tls = {"cert": str(made.server.cert), "key": str(made.authority.cert)}
    with pytest.raises(ConfigError, match="tls"):
        opened(tmp_path / "journals", tls=tls).__enter__()

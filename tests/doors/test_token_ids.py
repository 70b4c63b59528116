"""A token brings as many ids into a run as it may, through all doors together, and after every restart."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.doors.grpc.fellows import RUN as SUMS
from tests.doors.grpc.fellows import Fellow
from tests.doors.grpc.talk import Talk as Grpc
from tests.doors.grpc.talk import place, refusal
from tests.doors.grpc.test_trust import keyed
from tests.doors.http.live import Live, live, problem
from tests.doors.talk import RUN, Talk
from tests.e2e.command import quoracy

from quoracy.core.cluster.events import WorkerRegistered
from quoracy.core.errors import ConfigError
from quoracy.core.members import Accepted, Cause, signed_by_joiner
from quoracy.doors.auth import Authority, MemberKey, Role

GUARDED: dict[str, Any] = {"access": {"tokens": "required"}, "grpc": {"enabled": True, "port": 0}}


def by_tcp(home: Live, token: str, member: str, key: MemberKey, supersedes: int = 0) -> str:
    with Talk(home.coordinator.url, token=token) as talk:
        answer = talk.join(member, supersedes, key, nonce=secrets.token_bytes(16))
        return "" if isinstance(answer, Accepted) else str(answer.code)


def by_grpc(home: Live, token: str, member: str, key: MemberKey, supersedes: int = 0) -> str:
    with Grpc(place(home.coordinator), token) as talk:
        try:
            talk.call(keyed(talk, key, member, supersedes))
        except grpc.RpcError as error:
            return refusal(error).code
        return ""


def by_http(home: Live, token: str, member: str, key: MemberKey, supersedes: int = 0) -> str:
    headers = {"authorization": f"Bearer {token}"}
    challenge = bytes.fromhex(home.http.post("/api/challenge", headers=headers).json()["challenge"])
    nonce = secrets.token_bytes(16)
    proof = challenge + key.sign(signed_by_joiner(challenge, RUN, member, supersedes, nonce))
    wish = {
        "member": member,
        "supersedes": supersedes,
        "nonce": nonce.hex(),
        "key": key.public.hex(),
        "proof": proof.hex(),
    }
    sent = home.http.post(f"/api/runs/{RUN}/workers", json=wish, headers=headers)
    return "" if sent.status_code == 201 else str(problem(sent, 403, "too_many_ids")["code"])


def test_the_count_holds_through_every_api_and_after_a_restart(tmp_path: Path) -> None:
    token = Authority.open(tmp_path).new_token(Role.MEMBER, run=RUN, ids=2)
    keys = {name: MemberKey.create() for name in ("w1", "w2", "w3")}
    with live(tmp_path, **GUARDED) as home:
        home.coordinator.create(RUN)
        assert by_tcp(home, token, "w1", keys["w1"]) == ""
        assert by_grpc(home, token, "w2", keys["w2"]) == ""
        for join in (by_tcp, by_grpc, by_http):
            assert join(home, token, "w3", keys["w3"]) == "too_many_ids"
    with live(tmp_path, **GUARDED) as home:
        for join in (by_tcp, by_grpc, by_http):
            assert join(home, token, "w3", keys["w3"]) == "too_many_ids"
        assert by_http(home, token, "w1", keys["w1"], 1) == "", "an id that was brought comes again"
        another = Authority.open(tmp_path).new_token(Role.MEMBER, run=RUN, ids=1)
        assert by_grpc(home, another, "w2", keys["w2"], 1) == "", "also by another token, which that costs nothing"
        assert by_tcp(home, another, "w3", keys["w3"]) == ""
        many = Authority.open(tmp_path).new_token(Role.MEMBER)
        assert [by_tcp(home, many, f"x{i}", MemberKey.create()) for i in range(5)] == [""] * 5, "a cluster's default"


def test_what_a_member_writes_about_its_token_does_not_count(tmp_path: Path) -> None:
    token, key = Authority.open(tmp_path).new_token(Role.MEMBER, run=RUN, ids=1), MemberKey.create()
    with live(tmp_path, **GUARDED) as home:
        home.coordinator.create(RUN)
        codes = []
        for member in ("w1", "w2"):
            with Talk(home.coordinator.url, token=token) as talk:
                assert talk.greeted is not None
                challenge, nonce = talk.greeted.challenge, secrets.token_bytes(16)
                proof = challenge + key.sign(signed_by_joiner(challenge, RUN, member, 0, nonce))
                forged = WorkerRegistered(member, 0, nonce, key.public, proof, token=f"{member}'s", token_ids=0)
                codes.append(getattr(talk.call(Cause(member, 0, 0), forged), "code", ""))
        assert codes == ["", "too_many_ids"]


def test_one_id_by_default_where_a_majority_could_be_bought(tmp_path: Path) -> None:
    authority = Authority.open(tmp_path)
    with live(tmp_path, **GUARDED) as home:
        home.coordinator.create(SUMS, "witnessed", min_clients=2)
        token = authority.new_token(Role.MEMBER, run=SUMS)
        with Fellow(home.coordinator, "m1", token) as one, Fellow(home.coordinator, "m2", token) as two:
            one.join()
            with pytest.raises(grpc.RpcError) as caught:
                two.join()
            said = refusal(caught.value)
            assert said.code == "too_many_ids"
            assert "m1" in said.why
            assert "--ids 2" in said.fix
            two.token = authority.new_token(Role.MEMBER, run=SUMS)
            two.join()
        with Fellow(home.coordinator, "m3", authority.new_token(Role.ADMIN)) as three:
            three.join()
            three.name = "m4"
            three.join()


def test_the_command_line_makes_such_tokens(tmp_path: Path) -> None:
    made = quoracy("token", "new", "--role", "member", "--ids", 12, "--folder", tmp_path, "--json")
    assert '"ids":12' in made.stdout
    identity = Authority.open(tmp_path).check_token(json.loads(made.stdout)["token"], 0)
    assert getattr(identity, "ids", 0) == 12
    with pytest.raises(ConfigError, match="ids"):
        Authority.open(tmp_path).new_token(Role.MEMBER, ids=-1)

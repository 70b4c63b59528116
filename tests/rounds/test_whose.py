"""Whose an update is: nobody offers what another has brought, and nobody reads it but who may."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import httpx
import numpy as np
import pytest
from blake3 import blake3
from safetensors.numpy import save
from tests.doors.talk import RUN
from tests.e2e.command import until
from tests.rounds.party import KEYS, Participant, Parties, model, play_round, put, with_store

from quoracy.coordinator import Coordinator
from quoracy.doors.auth import Authority, Role
from quoracy.trust import MemberKey
from quoracy.wire.pb import federated_pb2 as pb
from quoracy.wire.pb.federated_pb2_grpc import FederatedStub


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def coordinator(folder: Path) -> Iterator[Coordinator]:
    with Coordinator(folder=folder, grpc={"port": 0}, http={"port": 0}) as running:
        yield running


@pytest.fixture
def parties(coordinator: Coordinator) -> Iterator[Parties]:
    with Parties(coordinator) as parties:
        yield parties


def begun(coordinator: Coordinator, parties: Parties, folder: Path, scratch: Path) -> list[Participant]:
    """Round 0 is open, and both train in it."""
    coordinator.create(RUN, "federated", clients=2, rounds=1, refused_max=5)
    both = [parties.join("p1"), parties.join("p2")]
    play_round(folder, both[:1], -1, scratch)
    return both


def refused(party: Participant, digest: str) -> str:
    standing = party.assigned(0)
    party.offer(standing, digest)
    _, _, _, admitted, why = party.verdict(standing)
    assert not admitted
    return str(why)


def test_nobody_offers_what_another_has_brought(
    coordinator: Coordinator, parties: Parties, folder: Path, tmp_path: Path
) -> None:
    """The digest is in the journal, for everybody to read; the bytes are not."""
    one, other = begun(coordinator, parties, folder, tmp_path)
    digest = put(folder, model(1.0), tmp_path, "p1")
    assert f"p2 has not uploaded {digest}" in refused(other, digest)
    standing = one.assigned(0)
    one.offer(standing, digest)
    assert one.verdict(standing)[3], "the refusal has not cost its owner anything"
    assert f"p2 has not uploaded {digest}" in refused(other, digest), "also not when it was admitted"
    at = f"{coordinator.addresses['http']}/api/runs/{RUN}/weights/{digest}"
    mine = {"member": "p2", "incarnation": 1}
    assert httpx.head(at, params=mine).status_code == 404, "a door that said it is there would save the upload"
    assert httpx.put(at, params=mine, content=b"a guess").status_code == 422
    empty = {"upload-offset": "0", "upload-length": "0"}
    assert httpx.patch(at, params=mine, headers=empty, content=b"").status_code == 422
    assert "has not uploaded" in refused(other, digest)


def test_what_two_have_brought_each_for_itself_counts_for_both(
    coordinator: Coordinator, parties: Parties, folder: Path, tmp_path: Path
) -> None:
    both = begun(coordinator, parties, folder, tmp_path)
    for party in both:
        standing = party.assigned(0)
        party.offer(standing, put(folder, model(1.0), tmp_path, party.member))
        assert party.verdict(standing)[3]
    assert until(lambda: coordinator.show(RUN)["history"], "it closes")[0]["updates"] == 2


def test_a_model_that_comes_back_unchanged_need_not_be_brought(
    coordinator: Coordinator, parties: Parties, folder: Path, tmp_path: Path
) -> None:
    both = begun(coordinator, parties, folder, tmp_path)
    for party in both:
        standing = party.assigned(0)
        party.offer(standing, standing["weights"])
        assert party.verdict(standing)[3]
    first = coordinator.show(RUN)["weights"]
    over = until(lambda: coordinator.show(RUN)["phase"] == "Finished" and coordinator.show(RUN), "it ends")
    assert over["weights"] == first


def test_by_grpc_neither(coordinator: Coordinator, parties: Parties, folder: Path, tmp_path: Path) -> None:
    _, other = begun(coordinator, parties, folder, tmp_path)
    digest = put(folder, model(1.0), tmp_path, "p1")
    standing = other.assigned(0)
    with grpc.insecure_channel(coordinator.addresses["grpc"].partition("://")[2]) as channel:
        said = pb.EndTrainingRoundRequest(
            run=RUN, participant="p2", incarnation=1, round=0, ticket=standing["ticket"], digest=digest,
            number_samples=1,
        )  # fmt: skip
        with pytest.raises(grpc.RpcError, match="p2 has not uploaded"):
            FederatedStub(channel).EndTrainingRound(said, timeout=30)


def test_a_participant_that_is_called_global_has_a_folder_of_its_own(
    coordinator: Coordinator, parties: Parties, folder: Path, tmp_path: Path
) -> None:
    coordinator.create(RUN, "federated", clients=1, rounds=1)
    party = parties.join("global")
    play_round(folder, [party], -1, tmp_path)
    play_round(folder, [party], 0, tmp_path)
    until(lambda: coordinator.show(RUN)["phase"] == "Finished", "it ends")
    assert with_store(folder).head(KEYS.update(0, "global")) is not None


# -- with tokens -----------------------------------------------------------------------------------------------------


class Guarded:
    """A run whose members need tokens: p1 and p2 have joined, and round 0 is open."""

    def __init__(self, coordinator: Coordinator, folder: Path, scratch: Path, **config: Any) -> None:
        self.coordinator = coordinator
        self.coordinator.create(RUN, "federated", clients=2, rounds=1, **config)
        authority = Authority.open(folder)
        self.tokens = {role.value: authority.new_token(role) for role in Role}
        self.keys = {member: MemberKey.create() for member in ("p1", "p2")}
        self.joins = {member: authority.new_token(Role.MEMBER, run=RUN) for member in self.keys}
        self.parties = [self.join(member) for member in self.keys]
        play_round(folder, self.parties[:1], -1, scratch)
        self.standings = [party.assigned(0) for party in self.parties]
        self.http = httpx.Client(base_url=f"{self.coordinator.addresses['http']}/api/runs/{RUN}/weights/")

    def join(self, member: str, supersedes: int = 0) -> Participant:
        return Participant(
            self.coordinator.url, member, supersedes, token=self.joins[member], key=self.keys[member]
        )  # fmt: skip

    def close(self) -> None:
        self.http.close()
        for party in self.parties:
            party.close()

    def ask(self, method: str, path: str, token: str, member: str = "", life: int = 1, **more: Any) -> httpx.Response:
        who = {"member": member, "incarnation": life} if member else {}
        return self.http.request(method, path, params=who, headers={"authorization": f"Bearer {token}"}, **more)

    def code(self, *asked: Any, **more: Any) -> str:
        answer = self.ask(*asked, **more)
        return "" if answer.is_success else str(answer.json()["code"])


@contextmanager
def guarding(folder: Path, scratch: Path, **config: Any) -> Iterator[Guarded]:
    with Coordinator(folder=folder, http={"port": 0}, access={"tokens": "required"}) as coordinator:
        made = Guarded(coordinator, folder, scratch, **config)
        yield made
        made.close()


@pytest.fixture
def guarded(folder: Path, tmp_path: Path) -> Iterator[Guarded]:
    with guarding(folder, tmp_path) as made:
        yield made


def content(value: float) -> tuple[bytes, str]:
    written = save({name: np.asarray(array) for name, array in model(value).items()})
    return written, str(blake3(written).hexdigest())


def test_a_session_token_opens_what_its_participant_needs_and_nothing_else(guarded: Guarded) -> None:
    one, two = guarded.parties
    mine, digest = content(2.0)
    assert guarded.code("PUT", digest, one.session, "p1", content=mine) == ""
    assert guarded.code("HEAD", digest, one.session, "p1") == ""
    assert guarded.ask("GET", digest, one.session, "p1").content == mine
    first = guarded.standings[0]["weights"]
    for name in (first, "0/global"):
        assert guarded.code("GET", name, one.session, "p1") == "", name
    assert guarded.ask("HEAD", first, two.session, "p2").status_code == 404, "it is there, and not brought by p2"
    assert guarded.code("GET", digest, two.session, "p2") == "object_missing"
    assert guarded.code("GET", digest, two.session, "p1") == "bad_token"
    assert guarded.code("PUT", digest, two.session, "p1", content=mine) == "bad_token"
    assert guarded.code("PUT", digest, one.session, content=mine) == "bad_token"
    assert guarded.code("PUT", digest, guarded.joins["p1"], "p1", content=mine) == "bad_token"
    assert guarded.code("PUT", digest, guarded.joins["p1"], content=mine) == "forbidden"
    one.offer(guarded.standings[0], digest)
    assert one.verdict(guarded.standings[0])[3]
    assert guarded.ask("GET", "0/p1", one.session, "p1").content == mine
    assert guarded.code("GET", "0/p1", two.session, "p2") == "forbidden"


def test_single_updates_are_for_those_who_operate_the_run(guarded: Guarded) -> None:
    one = guarded.parties[0]
    mine, digest = content(2.0)
    assert guarded.code("PUT", digest, one.session, "p1", content=mine) == ""
    one.offer(guarded.standings[0], digest)
    assert one.verdict(guarded.standings[0])[3]
    looks = {
        role: (
            guarded.code("GET", "0/p1", token),
            guarded.code("GET", digest, token),
            guarded.code("GET", "0/global", token),
        )
        for role, token in guarded.tokens.items()
    }
    nothing, all_of_it = ("forbidden", "object_missing", ""), ("", "object_missing", "")
    assert looks == {"viewer": nothing, "member": nothing, "operator": all_of_it, "admin": all_of_it}


def test_unless_the_run_shows_them(folder: Path, tmp_path: Path) -> None:
    with guarding(folder, tmp_path, updates_readable=True) as guarded:
        one = guarded.parties[0]
        mine, digest = content(2.0)
        assert guarded.code("PUT", digest, one.session, "p1", content=mine) == ""
        one.offer(guarded.standings[0], digest)
        assert one.verdict(guarded.standings[0])[3]
        assert guarded.ask("GET", "0/p1", guarded.tokens["viewer"]).content == mine


def test_an_older_life_and_one_in_quarantine_bring_nothing(guarded: Guarded) -> None:
    one, two = guarded.parties
    mine, digest = content(2.0)
    newer = guarded.join("p1", 1)
    guarded.parties.append(newer)
    assert guarded.code("PUT", digest, one.session, "p1", content=mine) == "superseded"
    assert guarded.code("PUT", digest, newer.session, "p1", 2, content=mine) == ""
    two.offer(guarded.standings[1], digest)
    assert not two.verdict(guarded.standings[1])[3]
    assert guarded.code("PUT", digest, two.session, "p2", content=mine) == "quarantined"
    assert guarded.code("GET", "0/global", two.session, "p2") == ""

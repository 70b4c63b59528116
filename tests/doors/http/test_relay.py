"""The relay: members of a witnessed run pass blobs on through the HTTP door, and nobody else does."""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from blake3 import blake3
from tests.doors.http.live import Live, live, problem, raw

from quoracy.core.members import signed_by_joiner
from quoracy.core.witnessed.events import MemberJoined
from quoracy.doors.auth import Authority, MemberKey, Role
from quoracy.doors.questions_witnessed import course_of
from quoracy.doors.tokens import Identity
from quoracy.doors.witnessed import Entered, WitnessedCalls
from quoracy.hosts.relayed import ROUNDS, Blob, Relayed

BYTES = random.Random(11).randbytes(3 * 1024 * 1024 + 5)
DIGEST = blake3(BYTES).hexdigest()
PLACE = f"/api/runs/wit/relay/{DIGEST}"
ALICE: dict[str, str | int] = {"member": "alice", "incarnation": 1}


def enter(running: Live, run: str, member: str) -> Entered:
    """As a member joins that proves its key."""
    calls, identity = WitnessedCalls(running.coordinator._open().service), Identity(Role.MEMBER, "*", member, member)
    key, nonce, challenge = MemberKey.create(), secrets.token_bytes(16), calls.challenge()
    proof = challenge + key.sign(signed_by_joiner(challenge, run, member, 0, nonce))
    return running.coordinator._wait(calls.enter(identity, run, MemberJoined(member, 0, nonce, key.public, proof)))


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Live]:
    sizes = {"relay_blob_bytes": 4 * 1024 * 1024, "relay_total_bytes": 8 * 1024 * 1024}
    with live(tmp_path, http=sizes) as running:
        running.coordinator.create("wit", "witnessed", total_steps=10, min_clients=2)
        running.coordinator.create("demo")
        enter(running, "wit", "alice")
        yield running


def put(home: Live, content: bytes) -> str:
    place = f"/api/runs/wit/relay/{blake3(content).hexdigest()}"
    assert home.http.put(place, params=ALICE, content=content).status_code == 201
    return place


def counted(home: Live, direction: str) -> float:
    line = f'quoracy_relayed_bytes_total{{direction="{direction}",run="wit"}} '
    return sum(float(said.removeprefix(line)) for said in home.http.get("/metrics").text.splitlines() if line in said)


def test_what_one_member_puts_another_gets_whole_and_in_part(home: Live) -> None:
    bob: dict[str, str | int] = {"member": "bob", "incarnation": enter(home, "wit", "bob").incarnation}
    assert home.http.put(PLACE, params=ALICE, content=BYTES).status_code == 201
    assert home.http.put(PLACE, params=bob, content=BYTES).status_code == 200
    got = home.http.get(PLACE, params=bob)
    assert (got.status_code, got.content, got.headers["etag"]) == (200, BYTES, f'"{DIGEST}"')
    part = home.http.get(PLACE, params=bob, headers={"range": "bytes=3000000-"})
    assert (part.status_code, part.content) == (206, BYTES[3_000_000:])
    assert home.http.get(PLACE, params=bob, headers={"if-none-match": f'"{DIGEST}"'}).status_code == 304
    assert counted(home, "in") == 2 * len(BYTES)
    assert counted(home, "out") == len(BYTES) + len(BYTES) - 3_000_000


def test_other_bytes_than_the_digest_names_are_not_kept(home: Live) -> None:
    problem(home.http.put(PLACE, params=ALICE, content=BYTES[:-1]), 422, "digest_mismatch")
    problem(home.http.get(PLACE, params=ALICE), 404, "object_missing")


def test_what_is_too_large_is_refused_before_it_is_read(home: Live) -> None:
    path = f"{PLACE}?member=alice&incarnation=1".encode()
    head = b"PUT %b HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4194305\r\n\r\n" % path
    assert b"object_too_large" in raw(home.port, head, read_all=False)


@pytest.mark.parametrize(
    ("path", "params", "status", "code"),
    [
        (PLACE, ALICE, 404, "object_missing"),
        ("/api/runs/wit/relay/nothex", ALICE, 400, "malformed"),
        (PLACE, {}, 400, "malformed"),
        (PLACE, {"member": "nobody"}, 404, "unknown_member"),
        (PLACE, {"member": "alice", "incarnation": 0}, 409, "superseded"),
        (f"/api/runs/none/relay/{DIGEST}", ALICE, 404, "unknown_run"),
        (f"/api/runs/demo/relay/{DIGEST}", ALICE, 422, "wrong_kind"),
    ],
)
def test_who_is_no_member_and_what_is_not_there_is_told(
    home: Live, path: str, params: dict[str, str | int], status: int, code: str
) -> None:
    problem(home.http.get(path, params=params), status, code)


def test_only_the_member_itself_gets_in_where_tokens_are_asked_for(tmp_path: Path) -> None:
    with live(tmp_path, access={"tokens": "required"}) as running:
        running.coordinator.create("wit", "witnessed", total_steps=10, min_clients=2)
        alice, bob = enter(running, "wit", "alice"), enter(running, "wit", "bob")
        viewer = Authority.open(tmp_path).new_token(Role.VIEWER)
        anybody = Authority.open(tmp_path).new_token(Role.ADMIN)

        def tried(token: str) -> httpx.Response:
            said = {"authorization": f"Bearer {token}"} if token else {}
            return running.http.put(PLACE, params=ALICE, content=BYTES, headers=said)

        for token in ("", viewer, anybody, bob.token):
            assert tried(token).status_code == 401, token
        assert tried(alice.token).status_code == 201
        said = {"authorization": f"Bearer {bob.token}"}
        assert running.http.get(PLACE, params={"member": "bob"}, headers=said).content == BYTES


def test_the_oldest_blobs_give_way_when_there_is_no_room(home: Live, tmp_path: Path) -> None:
    first, second = put(home, BYTES), put(home, BYTES[1:])
    home.http.put(first, params=ALICE, content=BYTES)  # once more: now the second is the oldest
    third = put(home, BYTES[2:])
    assert [home.http.get(place, params=ALICE).status_code for place in (first, second, third)] == [200, 404, 200]
    assert len(list((tmp_path / "objects").rglob("relay/*"))) == 2


def test_blobs_go_after_a_few_rounds(home: Live) -> None:
    course = course_of(home.coordinator._open().service.served("wit"))
    old = put(home, BYTES)
    course.step = ROUNDS
    young = put(home, b"young")
    assert home.http.get(old, params=ALICE).status_code == 200
    course.step = ROUNDS + 1
    new = put(home, b"new")
    assert [home.http.get(place, params=ALICE).status_code for place in (old, young, new)] == [404, 200, 200]


def test_what_an_earlier_server_kept_is_the_oldest(tmp_path: Path) -> None:
    sizes = {"relay_total_bytes": 7 * 1024 * 1024}
    with live(tmp_path, http=sizes) as running:
        running.coordinator.create("wit", "witnessed", total_steps=10, min_clients=2)
        enter(running, "wit", "alice")
        before = put(running, BYTES)
    with live(tmp_path, http=sizes) as running:
        assert running.http.get(before, params=ALICE).content == BYTES
        middle, last = put(running, BYTES[1:]), put(running, BYTES[2:])
        answers = [running.http.get(place, params=ALICE).status_code for place in (before, middle, last)]
        assert answers == [404, 200, 200]


def test_the_list_never_lets_the_newest_go_and_counts_right() -> None:
    relayed = Relayed(10)
    assert relayed.came(Blob("a", "1"), 6, 0) == []
    assert relayed.came(Blob("b", "2"), 4, 0) == []
    assert relayed.came(Blob("b", "3"), 99, 0) == [Blob("a", "1"), Blob("b", "2")]
    assert relayed.total_bytes == 99
    relayed.gone(Blob("b", "3"))
    relayed.gone(Blob("b", "3"))
    assert relayed.total_bytes == 0

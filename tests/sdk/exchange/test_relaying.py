"""Members that cannot reach each other: their blobs go through the HTTP door of a real coordinator, and are counted
apart."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.doors.http.live import Live, live
from tests.sdk.exchange.sites import Site, gives, made, wait_for, wicked
from tests.sdk.live import free_port

from quoracy.core.backoff import Waits
from quoracy.core.members import signed_by_joiner
from quoracy.core.witnessed.events import MemberJoined
from quoracy.doors.auth import MemberKey, Role
from quoracy.doors.tokens import Identity
from quoracy.doors.witnessed import Entered, WitnessedCalls
from quoracy.sdk.client.http import HttpLine
from quoracy.sdk.witnessed.exchange import relay
from quoracy.sdk.witnessed.exchange.relay import RelayClient

CONTENT, DIGEST = made(3_000_000)


def entered(running: Live, member: str) -> Entered:
    calls, identity = WitnessedCalls(running.coordinator._open().service), Identity(Role.MEMBER, "*", member, member)
    key, nonce, challenge = MemberKey.create(), secrets.token_bytes(16), calls.challenge()
    proof = challenge + key.sign(signed_by_joiner(challenge, "wit", member, 0, nonce))
    return running.coordinator._wait(calls.enter(identity, "wit", MemberJoined(member, 0, nonce, key.public, proof)))


def line(url: str, life: Entered) -> HttpLine:
    who: dict[str, Any] = {"member": life.member, "incarnation": life.incarnation}
    return HttpLine(url, "wit", lambda: life.token, None, who=lambda: who)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path / "coordinator", access={"tokens": "required"}) as running:
        running.coordinator.create("wit", "witnessed", total_steps=10, min_clients=2)
        yield running


def hidden(name: str, home: Live, url: str = "") -> Site:
    """One that nobody can reach."""
    site = Site(name, "")
    site.exchange.relay_by(line(url or home.url, entered(home, name)))
    return site


def test_a_blob_of_one_whom_nobody_can_reach_comes_through_the_coordinator(home: Live, tmp_path: Path) -> None:
    alice, bob = hidden("alice", home), hidden("bob", home)
    with closing(alice.exchange), closing(bob.exchange):
        bob.know(alice.peer())
        asking = bob.ask(DIGEST, len(CONTENT), ("alice",), tmp_path / "blob")
        alice.exchange.offer(DIGEST, CONTENT, relay=True)
        came = asking.wait()
        assert came.ok, "also if it is asked for before it has come to the coordinator"
        assert (tmp_path / "blob").read_bytes() == CONTENT
        assert (alice.figure("relayed_out_bytes"), alice.figure("given_bytes")) == (len(CONTENT), 0)
        assert (bob.figure("relayed_in_bytes"), bob.figure("taken_bytes")) == (len(CONTENT), 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["blob", "coordinator"]


def test_what_somebody_else_may_have_is_not_sent_to_the_coordinator(home: Live, tmp_path: Path) -> None:
    alice = hidden("alice", home)
    with closing(alice.exchange):
        alice.exchange.offer(DIGEST, CONTENT)
        other = made(10, seed=2)
        alice.exchange.offer(other[1], other[0], relay=True)
        wait_for(lambda: alice.figure("relayed_out_bytes") == 10, "the other one was sent")
    assert len(list((tmp_path / "coordinator" / "objects").rglob("relay/*"))) == 1


def test_the_coordinator_is_asked_last(home: Live, tmp_path: Path) -> None:
    alice, bob, carol = hidden("alice", home), hidden("bob", home), Site("carol")
    with closing(alice.exchange), closing(bob.exchange), closing(carol.exchange):
        bob.know(alice.peer(), carol.peer())
        carol.know(bob.peer())
        alice.exchange.offer(DIGEST, CONTENT, relay=True)
        carol.exchange.offer(DIGEST, CONTENT)
        wait_for(lambda: alice.figure("relayed_out_bytes") == len(CONTENT), "it is in the relay")
        assert bob.fetch(DIGEST, len(CONTENT), ("alice", "carol"), tmp_path / "blob").ok
        assert (bob.figure("relayed_in_bytes"), bob.figure("taken_bytes")) == (0, len(CONTENT))


def test_when_all_holders_fail_the_coordinator_may_have_it(home: Live, tmp_path: Path) -> None:
    alice, bob = hidden("alice", home), hidden("bob", home)
    with closing(alice.exchange), closing(bob.exchange), wicked("liar", gives(bytes(len(CONTENT)))) as liar:
        alice.exchange.offer(DIGEST, CONTENT, relay=True)
        wait_for(lambda: alice.figure("relayed_out_bytes") == len(CONTENT), "it is in the relay")
        bob.know(liar.peer())
        came = bob.fetch(DIGEST, len(CONTENT), ("liar", "gone"), tmp_path / "blob")
        assert (came.ok, came.lacking, came.silent) == (True, ("liar",), ("gone",))
        assert (tmp_path / "blob").read_bytes() == CONTENT


def test_what_is_nowhere_is_told_and_who_was_asked(home: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "SENDING_S", 0.3)
    alice, bob = hidden("alice", home), hidden("bob", home)
    with closing(alice.exchange), closing(bob.exchange):
        bob.know(alice.peer())
        came = bob.fetch(DIGEST, len(CONTENT), ("alice",), tmp_path / "blob")
        assert (came.ok, came.silent) == (False, ("alice",))
        assert "alice cannot be reached" in came.why


def test_more_than_one_wants_is_not_taken_from_the_coordinator_either(home: Live, tmp_path: Path) -> None:
    alice, bob = hidden("alice", home), hidden("bob", home)
    with closing(alice.exchange), closing(bob.exchange):
        alice.exchange.offer(DIGEST, CONTENT, relay=True)
        wait_for(lambda: alice.figure("relayed_out_bytes") == len(CONTENT), "it is in the relay")
        assert not bob.fetch(DIGEST, None, ("gone",), tmp_path / "blob", max_bytes=len(CONTENT) - 1).ok
        assert bob.fetch(DIGEST, None, ("gone",), tmp_path / "blob", max_bytes=len(CONTENT)).ok


def test_a_coordinator_that_is_away_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both for what is brought and for what is fetched; and what has come of it is not fetched again."""
    monkeypatch.setattr(relay, "WAITS", Waits(50_000, 5_000_000))
    port, folder = free_port(), tmp_path / "coordinator"
    url = f"http://127.0.0.1:{port}"
    with live(folder, http={"port": port}) as home:
        home.coordinator.create("wit", "witnessed", total_steps=10, min_clients=2)
        alice, bob = hidden("alice", home, url), hidden("bob", home, url)
    tried = 0
    put = RelayClient._put

    def counted(client: RelayClient, name: str, blob: Any) -> bool:
        nonlocal tried
        tried += 1
        return put(client, name, blob)

    monkeypatch.setattr(RelayClient, "_put", counted)
    with closing(alice.exchange), closing(bob.exchange):
        alice.exchange.offer(DIGEST, CONTENT, relay=True)
        wait_for(lambda: tried > 1, "it was tried in vain")
        with live(folder, http={"port": port}):
            wait_for(lambda: alice.figure("relayed_out_bytes") >= len(CONTENT), "it was brought")
            bob.know(alice.peer())
            assert bob.fetch(DIGEST, len(CONTENT), ("alice",), tmp_path / "blob").ok


def test_what_came_before_a_break_is_not_fetched_again(
    home: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "WAITS", Waits(50_000, 5_000_000))
    alice, bob = hidden("alice", home), hidden("bob", home)
    with closing(alice.exchange), closing(bob.exchange):
        alice.exchange.offer(DIGEST, CONTENT, relay=True)
        wait_for(lambda: alice.figure("relayed_out_bytes") == len(CONTENT), "it is in the relay")
        client = bob.exchange._relay
        assert client is not None
        add, broken = bob.exchange._figures.add, 0

        def breaks(name: str, count: int = 1) -> None:
            nonlocal broken
            add(name, count)
            if name == "relayed_in_bytes" and not broken and bob.figure(name) > 1_000_000:
                broken += 1
                raise ConnectionResetError("in the middle of it")

        monkeypatch.setattr(client._figures, "add", breaks)
        assert bob.fetch(DIGEST, len(CONTENT), ("gone",), tmp_path / "blob").ok
        assert broken == 1
        assert (tmp_path / "blob").read_bytes() == CONTENT
        assert bob.figure("relayed_in_bytes") < len(CONTENT) + 500_000

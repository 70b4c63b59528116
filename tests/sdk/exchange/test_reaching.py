"""Reaching all peers beforehand: in bounded time, a few at once, and the connections are kept."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sdk.exchange.sites import PATIENCE_S, QUICK, Site, made, sites, wait_for
from tests.sdk.live import free_port

from quoracy.core.witnessed.views import Peer
from quoracy.sdk.witnessed.exchange import reaching
from quoracy.sdk.witnessed.exchange.channel import Broken
from quoracy.sdk.witnessed.exchange.limits import Limits
from quoracy.sdk.witnessed.exchange.links import Links
from quoracy.trust.keys import MemberKey

CONTENT, DIGEST = made(1000)


class Tried:
    def __init__(self, site: Site, *peers: str) -> None:
        self._came = threading.Event()
        self.outcomes: list[dict[str, str]] = []
        site.exchange.reach(peers, self._done)

    def _done(self, unreached: dict[str, str]) -> None:
        self.outcomes.append(unreached)
        self._came.set()

    def wait(self) -> dict[str, str]:
        assert self._came.wait(PATIENCE_S), "nobody was told"
        return self.outcomes[0]


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("quoracy-reach")]


def gone(name: str) -> Peer:
    return Peer(name, 1, MemberKey.create().public, (f"127.0.0.1:{free_port()}",))


@pytest.fixture
def mute() -> Iterator[Peer]:
    """Takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield Peer("mute", 1, MemberKey.create().public, (f"127.0.0.1:{sock.getsockname()[1]}",))


def connections(site: Site) -> int:
    return len(site.exchange._giving._open)  # type: ignore[union-attr]


def test_all_are_reached_and_the_connection_is_there_when_something_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sites("alice", "bob", "carol") as (alice, bob, carol):
        bob.exchange.offer(DIGEST, CONTENT)
        assert Tried(alice, "bob", "carol").wait() == {}
        assert (connections(bob), connections(carol)) == (1, 1)
        monkeypatch.setattr(Links, "_dial", lambda *_: pytest.fail("it dials again"))
        assert Tried(alice, "bob", "carol").wait() == {}
        assert alice.fetch(DIGEST, 1000, ("bob",), tmp_path / "blob").ok


def test_who_is_not_there_or_is_somebody_else_is_named_and_the_others_are_reached() -> None:
    with sites("alice", "bob", "carol") as (alice, bob, carol):
        other = Peer("carol", 1, MemberKey.create().public, carol.exchange.addresses)
        alice.know(bob.peer(), other, gone("dave"))
        why = Tried(alice, "bob", "carol", "dave", "erin").wait()
        assert sorted(why) == ["carol", "dave", "erin"]
        assert "its key is" in why["carol"]
        assert "dave at 127.0.0.1:" in why["dave"]
        assert "not in the roster" in why["erin"]
        assert connections(bob) == 1


def test_nobody_is_reached_at_once() -> None:
    with sites("alice") as (alice,):
        assert Tried(alice).wait() == {}


def test_one_that_does_not_know_this_member_yet_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaching, "AGAIN_S", PATIENCE_S)
    with sites("alice", "bob", limits=Limits(reach_s=PATIENCE_S)) as (alice, bob):
        bob.know()
        tried = Tried(alice, "bob")
        wait_for(lambda: bob.figure("connections_refused") >= 1, "it was refused")
        bob.know(alice.peer())
        assert tried.wait() == {}
        assert connections(bob) == 1


def test_one_that_refuses_for_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaching, "AGAIN_S", 0.2)
    monkeypatch.setattr(reaching, "PAUSE_S", 0.05)
    with sites("alice", "bob", limits=Limits(reach_s=10 * PATIENCE_S)) as (alice, bob):
        bob.know()
        why = Tried(alice, "bob").wait()
        assert "alice is not in the roster of bob" in why["bob"]


def test_one_that_took_long_to_fail_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[str] = []

    def reach(_self: Links, member: str) -> None:
        tries.append(member)
        time.sleep(0.1)
        raise Broken("it did not answer")

    monkeypatch.setattr(Links, "reach", reach)
    monkeypatch.setattr(reaching, "AGAIN_S", 0.1)
    monkeypatch.setattr(reaching, "PAUSE_S", 0.0)
    with sites("alice") as (alice,):
        assert Tried(alice, "bob").wait() == {"bob": "it did not answer"}
    assert tries == ["bob"]


def test_one_that_says_nothing_is_waited_for_until_the_time_for_all_is_over(mute: Peer) -> None:
    limits = Limits(dial_s=10 * PATIENCE_S, reach_s=0.5)
    with sites("alice", "bob", limits=limits) as (alice, bob):
        alice.know(mute, bob.peer())
        assert Tried(alice, "mute", "bob").wait() == {"mute": "it did not answer in time"}
        assert connections(bob) == 1


def test_those_who_say_nothing_do_not_keep_one_that_is_there_from_being_tried(
    mute: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With as many of them as are tried at once: each has its own time."""
    monkeypatch.setattr(reaching, "AT_ONCE", 2)
    monkeypatch.setattr(reaching, "AGAIN_S", 0.0)
    silent = [Peer(f"mute{number}", 1, mute.key, mute.addresses) for number in range(4)]
    with sites("alice", "bob", limits=Limits(dial_s=0.2, reach_s=10 * PATIENCE_S)) as (alice, bob):
        alice.know(*silent, bob.peer())
        why = Tried(alice, *(peer.member for peer in silent), "bob").wait()
        assert sorted(why) == ["mute0", "mute1", "mute2", "mute3"]


def test_only_a_few_are_tried_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now, most, lock = 0, 0, threading.Lock()

    def reach(_self: Links, member: str) -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.01)
        with lock:
            now -= 1
        if member.endswith("7"):
            raise Broken(f"{member} is not there")

    monkeypatch.setattr(Links, "reach", reach)
    monkeypatch.setattr(reaching, "AGAIN_S", 0.1)
    monkeypatch.setattr(reaching, "PAUSE_S", 0.01)
    names = [f"m{number}" for number in range(100)]
    with sites("alice", limits=Limits(reach_s=PATIENCE_S)) as (alice,):
        assert sorted(Tried(alice, *names).wait()) == sorted(name for name in names if name.endswith("7"))
    assert 1 < most <= reaching.AT_ONCE


def test_a_newer_wish_replaces_the_one_before(mute: Peer) -> None:
    with sites("alice", "bob", limits=QUICK) as (alice, bob):
        alice.know(mute, bob.peer())
        first = Tried(alice, "mute")
        assert Tried(alice, "bob").wait() == {}
        wait_for(lambda: not threads(), "all threads are gone", 2 * PATIENCE_S)
        assert first.outcomes == []


def test_nothing_is_left_when_it_is_over_or_closed(mute: Peer) -> None:
    with sites("alice", "bob", limits=Limits(dial_s=0.5, reach_s=10 * PATIENCE_S)) as (alice, bob):
        alice.know(mute, bob.peer())
        assert Tried(alice, "bob").wait() == {}
        wait_for(lambda: not threads(), "its threads are gone")
        under_way = Tried(alice, "mute")
        wait_for(threads, "it is tried")
    wait_for(lambda: not threads(), "its threads are gone")
    assert under_way.outcomes == []
    assert Tried(alice, "bob").outcomes == []
    assert threads() == []

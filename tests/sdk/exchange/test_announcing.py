"""Announcements: small, to all, once, best effort."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tests.sdk.exchange.sites import PATIENCE_S, made, sites, wait_for, wicked

from quoracy.core.backoff import Waits
from quoracy.core.witnessed.views import Peer
from quoracy.sdk.witnessed.exchange import telling
from quoracy.sdk.witnessed.exchange.channel import Channel
from quoracy.sdk.witnessed.exchange.limits import Limits
from quoracy.sdk.witnessed.exchange.wire import MAX_ANNOUNCED, Get
from quoracy.trust.keys import MemberKey

PATIENT = Limits(dial_s=PATIENCE_S, answer_s=PATIENCE_S, take_s=PATIENCE_S)


@pytest.mark.timeout(240)
def test_thirty_two_members_tell_each_other() -> None:
    names = [f"m{number:02d}" for number in range(32)]
    with sites(*names, limits=PATIENT) as members:
        for member in members:
            member.exchange.announce(member.name.encode())
        wait_for(lambda: all(member.figure("told") == 31 for member in members), "all have told all", 4 * PATIENCE_S)
        for member in members:
            assert sorted(member.heard) == [(name, name.encode()) for name in names if name != member.name]


def test_the_same_is_heard_once_and_what_differs_each_time() -> None:
    with sites("alice", "bob") as (alice, bob):
        for payload in (b"one", b"one", b"two", b"one"):
            alice.exchange.announce(payload)
        wait_for(lambda: alice.figure("told") == 4, "all were told")
        assert bob.heard == [("alice", b"one"), ("alice", b"two")]
        assert (bob.figure("heard"), bob.figure("heard_before")) == (2, 2)
        bob.exchange.announce(b"one")
        wait_for(lambda: alice.heard == [("bob", b"one")], "from another it is another")


def test_the_largest_is_taken_and_a_larger_one_is_not() -> None:
    with sites("alice", "bob") as (alice, bob):
        alice.exchange.announce(bytes(MAX_ANNOUNCED))
        wait_for(lambda: bob.heard == [("alice", bytes(MAX_ANNOUNCED))], "it came")
        with pytest.raises(ValueError, match=f"payload = {MAX_ANNOUNCED + 1} bytes: at most {MAX_ANNOUNCED}"):
            alice.exchange.announce(bytes(MAX_ANNOUNCED + 1))


def test_those_who_are_not_there_do_not_hold_the_others_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """More silent ones than there are threads that tell; and each of them is asked once and then left alone."""
    monkeypatch.setattr(telling, "WAITS", Waits(600_000_000, 600_000_000))
    over = threading.Event()

    def silent(_channel: Channel, _get: Get) -> None:
        over.wait(PATIENCE_S)

    gone = [Peer(f"gone{number}", 1, MemberKey.create().public, ("127.0.0.1:9",)) for number in range(20)]
    quick = Limits(dial_s=1.0, answer_s=1.0)
    with sites("alice", "bob", limits=quick) as (alice, bob), wicked("mute", silent) as mute:
        alice.know(*gone, mute.peer(), bob.peer())
        for number in range(5):
            alice.exchange.announce(b"%d" % number)
        wait_for(lambda: len(bob.heard) == 5, "bob has heard")
        wait_for(lambda: alice.figure("not_told") == 21 * 5, "the others are given up")
        alice.exchange.announce(b"once more")
        assert alice.figure("not_told") == 21 * 6, "nobody tries"
        assert len(mute.gets) == 1
        over.set()


def test_who_comes_back_is_told_again(tmp_path: Path) -> None:
    with sites("alice", "bob") as (alice, bob):
        alice.know()
        bob.exchange.announce(b"nobody hears")
        wait_for(lambda: bob.figure("not_told") == 1, "bob was refused")
        alice.know(bob.peer())

        def again() -> bool:
            bob.exchange.announce(b"now")
            return alice.heard == [("bob", b"now")]

        wait_for(again, "after a pause it is heard")


def test_a_callback_that_fails_costs_one_connection_and_no_more() -> None:
    with sites("alice", "bob") as (alice, bob):
        said: list[bytes] = []

        def heard(_member: str, payload: bytes) -> None:
            said.append(payload)
            if payload == b"bad":
                raise RuntimeError("a bug of the caller")

        bob.exchange.on_announce(heard)
        alice.exchange.announce(b"bad")
        wait_for(lambda: alice.figure("not_told") == 1, "it was not taken")

        def again() -> bool:
            alice.exchange.announce(b"good")
            return b"good" in said

        wait_for(again, "the next one is")


def test_announcing_to_nobody_and_after_the_end_is_fine(tmp_path: Path) -> None:
    content, digest = made(10)
    with sites("alice") as (alice,):
        alice.exchange.announce(b"hello?")
        alice.exchange.offer(digest, content)
    alice.exchange.announce(b"anybody?")
    assert alice.figure("told") == 0

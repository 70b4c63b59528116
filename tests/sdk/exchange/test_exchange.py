"""Blobs between members: from memory and from files, whole and right or not at all."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from tests.sdk.exchange.sites import PATIENCE_S, Site, gives, made, sites, wait_for, wicked

from quoracy.core.errors import ConfigError
from quoracy.sdk.witnessed.exchange import open_exchange
from quoracy.sdk.witnessed.exchange.channel import Channel
from quoracy.sdk.witnessed.exchange.limits import STRETCH_BYTES, Limits
from quoracy.sdk.witnessed.exchange.port import Source
from quoracy.sdk.witnessed.exchange.wire import Get
from quoracy.trust.keys import MemberKey

SIZES = [0, 1, 100_000, STRETCH_BYTES - 1, STRETCH_BYTES, 2 * STRETCH_BYTES + 17]


@pytest.mark.parametrize("size_bytes", SIZES)
@pytest.mark.parametrize("known", [True, False], ids=["size known", "size not known"])
def test_a_blob_arrives_as_it_is(tmp_path: Path, size_bytes: int, known: bool) -> None:
    content, digest = made(size_bytes)
    with sites("alice", "bob") as (alice, bob):
        alice.exchange.offer(digest, content)
        came = bob.fetch(digest, size_bytes if known else None, ("alice",), tmp_path / "blob")
        assert (came.ok, came.why, came.lacking, came.silent) == (True, "", (), ())
        assert (tmp_path / "blob").read_bytes() == content
        assert bob.figure("taken_bytes") == alice.figure("given_bytes") == size_bytes
    assert [path.name for path in tmp_path.iterdir()] == ["blob"]


def test_memory_arrays_and_files_are_given_alike(tmp_path: Path) -> None:
    content, digest = made(300_000)
    array = np.frombuffer(content, np.float32).reshape(3, 25_000)
    file = tmp_path / "file"
    file.write_bytes(content)
    with sites("alice", "bob") as (alice, bob):
        given: tuple[Source, ...] = (content, memoryview(array.data), file)
        for number, source in enumerate(given):
            alice.exchange.offer(digest, source)
            assert bob.fetch(digest, len(content), ("alice",), tmp_path / str(number)).ok
            assert (tmp_path / str(number)).read_bytes() == content


def test_several_give_parts_of_one_blob_at_the_same_time(tmp_path: Path) -> None:
    """Each gives its first stretch when all three have been asked for one, and no sooner."""
    content, digest = made(12 * STRETCH_BYTES)
    together = threading.Barrier(3)
    begun: set[int] = set()

    def give(channel: Channel, get: Get) -> None:
        if threading.get_ident() not in begun:
            begun.add(threading.get_ident())
            together.wait(PATIENCE_S)
        gives(content)(channel, get)

    patient = Limits(slow_s=PATIENCE_S, answer_s=PATIENCE_S)
    with (
        sites("dave", limits=patient) as (dave,),
        wicked("alice", give) as alice,
        wicked("bob", give) as bob,
        wicked("carol", give) as carol,
    ):
        dave.know(alice.peer(), bob.peer(), carol.peer())
        assert dave.fetch(digest, len(content), ("alice", "bob", "carol"), tmp_path / "blob").ok
        assert (tmp_path / "blob").read_bytes() == content
        assert dave.figure("taken_bytes") == len(content)
        asked = sorted((get.offset, get.length) for giver in (alice, bob, carol) for get in giver.gets)
        assert asked == [(number * STRETCH_BYTES, STRETCH_BYTES) for number in range(12)], "each stretch once"


def test_nobody_named_means_everybody(tmp_path: Path) -> None:
    content, digest = made(1000)
    with sites("alice", "bob", "carol") as (alice, bob, carol):
        bob.exchange.offer(digest, content)
        came = carol.fetch(digest, len(content), (), tmp_path / "blob")
        assert came.ok
        assert set(came.lacking) <= {"alice"}
        assert alice.figure("given_bytes") == 0


def test_who_does_not_have_it_says_so_and_who_is_not_there_does_not(tmp_path: Path) -> None:
    content, digest = made(1000)
    with sites("alice", "bob", "carol") as (alice, bob, carol):
        alice.exchange.offer(digest, content)
        alice.exchange.withdraw(digest)
        bob.exchange.close()
        came = carol.fetch(digest, len(content), ("alice", "bob", "nobody"), tmp_path / "blob")
        assert (came.ok, set(came.lacking), set(came.silent)) == (False, {"alice"}, {"bob", "nobody"})
        assert "alice does not have it" in came.why
        assert "bob at 127.0.0.1:" in came.why
        assert "nobody is not in the roster" in came.why
    assert not (tmp_path / "blob").exists()


def test_a_file_that_is_gone_is_not_here(tmp_path: Path) -> None:
    content, digest = made(1000)
    (tmp_path / "file").write_bytes(content)
    with sites("alice", "bob") as (alice, bob):
        alice.exchange.offer(digest, tmp_path / "file")
        (tmp_path / "file").unlink()
        assert bob.fetch(digest, len(content), ("alice",), tmp_path / "blob").lacking == ("alice",)


def test_more_than_one_wants_to_take_is_not_taken(tmp_path: Path) -> None:
    content, digest = made(100_000)
    with sites("alice", "bob") as (alice, bob):
        alice.exchange.offer(digest, content)
        came = bob.fetch(digest, None, ("alice",), tmp_path / "blob", max_bytes=99_999)
        assert came.lacking == ("alice",)
        assert "at most 99999 are taken" in came.why
        assert bob.figure("taken_bytes") == 0


def test_a_second_wish_for_the_same_adds_holders(tmp_path: Path) -> None:
    content, digest = made(1000)
    with sites("alice", "bob", "carol") as (alice, bob, carol):
        bob.exchange.offer(digest, content)
        first = carol.ask(digest, len(content), ("alice",), tmp_path / "blob")
        second = carol.ask(digest, len(content), ("bob",), tmp_path / "blob")
        assert first.wait().ok or second.wait().ok, "unless the first was over when the second came"
        assert (tmp_path / "blob").read_bytes() == content
        del alice


def test_a_fetch_that_is_cancelled_tells_nobody(tmp_path: Path) -> None:
    content, digest = made(1000)
    wanted = threading.Event()

    def give(channel: Channel, get: Get) -> None:
        wanted.wait(PATIENCE_S)
        gives(content)(channel, get)

    with sites("bob") as (bob,), wicked("alice", give) as alice:
        bob.know(alice.peer())
        asking = bob.ask(digest, len(content), ("alice",), tmp_path / "never")
        wait_for(lambda: alice.gets, "it is under way")
        bob.exchange.cancel(digest)
        wanted.set()
        wait_for(lambda: not bob.exchange._links._busy, "it has ended")
        assert bob.fetch(digest, len(content), ("alice",), tmp_path / "blob").ok
        assert asking.outcomes == []
        assert not (tmp_path / "never").exists()


def test_closing_waits_for_nobody(tmp_path: Path) -> None:
    """Not even for a holder that has said nothing for a while; and its threads end."""
    content, digest = made(1000)
    patient = Limits(answer_s=10 * PATIENCE_S, slow_s=PATIENCE_S)
    with sites("bob", limits=patient) as (bob,), wicked("mute", lambda _channel, _get: None) as mute:
        bob.know(mute.peer())
        asking = bob.ask(digest, len(content), ("mute",), tmp_path / "never")
        wait_for(lambda: mute.gets, "it is under way")
        fetching = [thread for thread in threading.enumerate() if thread.name.startswith("quoracy-take")]
        bob.exchange.close()
        wait_for(lambda: not any(thread.is_alive() for thread in fetching), "nobody waits any more")
        assert asking.outcomes == []


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    content, digest = made(1000)
    with sites("alice", "bob") as (alice, bob):
        alice.exchange.offer(digest, content)
        came = bob.fetch(digest, len(content), ("alice",), tmp_path / "missing" / "blob")
        assert (came.ok, came.lacking, came.silent) == (False, (), ())
        assert "missing/blob" in came.why


def test_addresses_are_what_others_can_use() -> None:
    key = MemberKey.create()
    for listen, address, shown in (
        ("127.0.0.1:0", None, "127.0.0.1:"),
        ("", None, ""),
        ("127.0.0.1:0", "outside.example:7", "outside.example:7"),
        ("0.0.0.0:0", None, "127.0.0.1:"),
        ("[::1]:0", None, "[::1]:"),
    ):
        exchange = open_exchange("alice", key, listen, address, toward="127.0.0.1")
        assert ",".join(exchange.addresses).startswith(shown), listen
        assert bool(exchange.addresses) == bool(shown)
        exchange.close()


@pytest.mark.parametrize("listen", ["nowhere", "127.0.0.1:", "127.0.0.1:99999", "192.0.2.1:0", "127.0.0.1:x"])
def test_where_nobody_can_listen_is_told(listen: str) -> None:
    with pytest.raises(ConfigError, match=f"listen = '{listen}'"):
        open_exchange("alice", MemberKey.create(), listen)


def test_a_closed_exchange_gives_nothing_and_lets_its_port_go(tmp_path: Path) -> None:
    content, digest = made(1000)
    with sites("alice", "bob") as (alice, bob):
        alice.exchange.offer(digest, content)
        assert bob.fetch(digest, len(content), ("alice",), tmp_path / "one").ok
        alice.exchange.close()
        assert bob.fetch(digest, len(content), ("alice",), tmp_path / "two").silent == ("alice",)
        other = Site("carol", listen=alice.exchange.addresses[0])
        other.exchange.close()

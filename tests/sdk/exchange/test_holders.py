"""Holders that die, dawdle, lie or break off: the blob comes from the others, and who lied is named."""

from __future__ import annotations

import threading
from pathlib import Path

from tests.sdk.exchange.sites import (
    PATIENCE_S,
    QUICK,
    Site,
    gives,
    holder,
    lacks,
    made,
    sites,
    wait_for,
    wicked,
)

from quoracy.core.witnessed.views import Peer
from quoracy.sdk.witnessed.exchange.channel import Channel
from quoracy.sdk.witnessed.exchange.limits import STRETCH_BYTES, Limits
from quoracy.sdk.witnessed.exchange.links import TAKEN_BYTES
from quoracy.sdk.witnessed.exchange.wire import Get, Have
from quoracy.trust.keys import MemberKey

PATIENT = Limits(dial_s=10.0, answer_s=PATIENCE_S, take_s=PATIENCE_S, slow_s=PATIENCE_S)
"""Nobody is too slow."""


def changed(content: bytes, *places: int) -> bytes:
    wrong = bytearray(content)
    for place in places:
        wrong[place] ^= 1
    return bytes(wrong)


# -- death -----------------------------------------------------------------------------------------------------------


def test_a_holder_killed_in_the_middle_is_replaced_by_another(tmp_path: Path) -> None:
    content, digest = made(10 * STRETCH_BYTES + 5)
    source = tmp_path / "source"
    source.write_bytes(content)
    taker = Site("taker", "", PATIENT)
    with holder("a", source, taker, 0.01) as (dying, one), holder("b", source, taker, 0.01) as (_, two):
        taker.know(one, two)
        asking = taker.ask(digest, len(content), ("a", "b"), tmp_path / "blob")
        wait_for(lambda: taker.figure("taken_bytes") > STRETCH_BYTES, "it has begun")
        assert not asking.over()
        dying.kill()
        came = asking.wait()
        assert (came.ok, came.lacking, came.silent) == (True, (), ("a",))
        assert (tmp_path / "blob").read_bytes() == content
        assert taker.figure("taken_bytes") < len(content) + 2 * STRETCH_BYTES, "what came was not asked for again"
    taker.exchange.close()


def test_a_fetch_goes_on_where_an_earlier_one_ended(tmp_path: Path) -> None:
    """The only holder dies; when there is one again, only the rest is asked for."""
    content, digest = made(8 * STRETCH_BYTES)
    source = tmp_path / "source"
    source.write_bytes(content)
    before = Site("taker", "", PATIENT)
    with holder("a", source, before, 0.02) as (dying, peer):
        before.know(peer)
        asking = before.ask(digest, len(content), ("a",), tmp_path / "blob")
        wait_for(lambda: before.figure("taken_bytes") > 3 * STRETCH_BYTES, "some of it has come")
        dying.kill()
        assert asking.wait().silent == ("a",)
    before.exchange.close()
    kept = before.figure("taken_bytes")
    assert kept < len(content)
    after = Site("taker", "")
    with holder("a", source, after) as (_, peer):
        after.know(peer)
        assert after.fetch(digest, len(content), ("a",), tmp_path / "blob").ok
    after.exchange.close()
    assert (tmp_path / "blob").read_bytes() == content
    assert after.figure("taken_bytes") <= len(content) - kept // STRETCH_BYTES * STRETCH_BYTES + STRETCH_BYTES
    assert sorted(path.name for path in tmp_path.iterdir()) == ["blob", "source"]


def test_a_connection_that_breaks_is_made_anew(tmp_path: Path) -> None:
    content, digest = made(3 * STRETCH_BYTES)
    broken = threading.Event()

    def give(channel: Channel, get: Get) -> None:
        if get.offset >= STRETCH_BYTES and not broken.is_set():
            broken.set()
            channel.say(Have(get.length, len(content)), PATIENCE_S)
            channel.send(memoryview(content)[get.offset : get.offset + 300_000], PATIENCE_S)
            channel.close()
            return
        gives(content)(channel, get)

    with sites("taker", limits=PATIENT) as (taker,), wicked("a", give) as a:
        taker.know(a.peer())
        assert taker.fetch(digest, len(content), ("a",), tmp_path / "blob").ok
        assert (tmp_path / "blob").read_bytes() == content
        assert broken.is_set()
        assert taker.figure("connections_broken") == 1


def test_what_an_earlier_try_left_of_another_blob_is_not_taken_for_this_one(tmp_path: Path) -> None:
    content, digest = made(3 * STRETCH_BYTES)
    (tmp_path / ".blob.part").write_bytes(bytes(len(content)))
    head = made(5)[1] + len(content).to_bytes(8, "big")
    (tmp_path / ".blob.stretches").write_bytes(head + b"\1\1\1")
    with sites("taker", "a") as (taker, a):
        a.exchange.offer(digest, content)
        assert taker.fetch(digest, len(content), ("a",), tmp_path / "blob").ok
        assert (tmp_path / "blob").read_bytes() == content
        assert taker.figure("taken_bytes") == len(content), "without a detour"


def test_what_an_earlier_try_left_and_the_disk_lost_is_fetched_again_and_nobody_is_blamed(tmp_path: Path) -> None:
    content, digest = made(3 * STRETCH_BYTES)
    (tmp_path / ".blob.part").write_bytes(bytes(len(content)))
    (tmp_path / ".blob.stretches").write_bytes(digest + len(content).to_bytes(8, "big") + b"\1\0\0")
    with sites("taker", "a") as (taker, a):
        a.exchange.offer(digest, content)
        came = taker.fetch(digest, len(content), ("a",), tmp_path / "blob")
        assert (came.ok, came.lacking) == (True, ())
        assert (tmp_path / "blob").read_bytes() == content


def test_an_address_that_is_none_costs_nobody_but_its_owner(tmp_path: Path) -> None:
    content, digest = made(1000)
    nowhere = ("127.0.0.1:99999", "nonsense", "", ":", "a b:1", "[::1", "127.0.0.1:-5", "é" * 70 + ":7")
    with sites("taker", "b") as (taker, b):
        b.exchange.offer(digest, content)
        odd = Peer("odd", 1, MemberKey.create().public, nowhere)
        taker.know(odd, b.peer())
        came = taker.fetch(digest, len(content), ("odd",), tmp_path / "blob")
        assert came.silent == ("odd",)
        assert all(f"odd at {address}: " in came.why for address in nowhere)
        assert taker.fetch(digest, len(content), ("odd", "b"), tmp_path / "blob").ok
        taker.know(Peer("odd", 1, odd.key, (*nowhere, *b.exchange.addresses)))
        assert "its key is" in taker.fetch(digest, 1000, ("odd",), tmp_path / "blob").why, "all of them are tried"


# -- slowness --------------------------------------------------------------------------------------------------------


def stalls(content: bytes, after: int, until: threading.Event) -> object:
    def give(channel: Channel, get: Get) -> None:
        channel.say(Have(min(get.length, len(content) - get.offset), len(content)), PATIENCE_S)
        channel.send(memoryview(content)[get.offset : get.offset + after], PATIENCE_S)
        until.wait(PATIENCE_S)

    return give


def test_what_a_slow_holder_does_not_give_another_gives(tmp_path: Path) -> None:
    """Long before the slow one counts as gone; and what it gave so far is not asked for again."""
    content, digest = made(STRETCH_BYTES)
    over = threading.Event()
    quick = Limits(answer_s=PATIENCE_S, slow_s=0.1)
    with (
        sites("taker", "b", limits=quick) as (taker, b),
        wicked("a", stalls(content, TAKEN_BYTES + 100_000, over)) as a,
    ):  # type: ignore[arg-type]
        taker.know(a.peer(), b.peer())
        b.exchange.offer(digest, content)
        assert taker.fetch(digest, len(content), ("a", "b"), tmp_path / "blob").ok
        assert (tmp_path / "blob").read_bytes() == content
        assert taker.figure("taken_over") >= 1
        assert b.figure("given_bytes") < len(content)
        over.set()


def test_who_never_says_how_large_it_is_does_not_hold_the_fetch_up(tmp_path: Path) -> None:
    content, digest = made(1000)
    over = threading.Event()

    def silent(_channel: Channel, _get: Get) -> None:
        over.wait(PATIENCE_S)

    quick = Limits(answer_s=PATIENCE_S, slow_s=0.1)
    with sites("taker", "b", limits=quick) as (taker, b), wicked("a", silent) as a:
        taker.know(a.peer(), b.peer())
        b.exchange.offer(digest, content)
        assert taker.fetch(digest, None, ("a", "b"), tmp_path / "blob").ok
        over.set()


def test_a_slow_holder_is_better_than_none(tmp_path: Path) -> None:
    """Too slow, but the other one has nothing: it gets it from the slow one in the end."""
    content, digest = made(2_000_000)
    pause = threading.Event()

    def give(channel: Channel, get: Get) -> None:
        pause.wait(0.5)
        gives(content)(channel, get)

    quick = Limits(answer_s=PATIENCE_S, slow_s=0.05)
    with sites("taker", limits=quick) as (taker,), wicked("a", give) as a, wicked("b", lacks) as b:
        taker.know(a.peer(), b.peer())
        came = taker.fetch(digest, len(content), ("a", "b"), tmp_path / "blob")
        assert (came.ok, came.lacking) == (True, ("b",))
        assert (tmp_path / "blob").read_bytes() == content


# -- lies ------------------------------------------------------------------------------------------------------------


def test_the_only_holder_lies_and_is_named(tmp_path: Path) -> None:
    content, digest = made(2 * STRETCH_BYTES)
    with sites("taker") as (taker,), wicked("a", gives(changed(content, 77))) as a:
        taker.know(a.peer())
        came = taker.fetch(digest, len(content), ("a",), tmp_path / "blob")
        assert (came.ok, came.lacking) == (False, ("a",))
        assert "a gave other bytes than the digest says" in came.why
        assert not (tmp_path / "blob").exists()
        taker.fetch(digest, len(content), ("a",), tmp_path / "blob")
        assert taker.figure("taken_bytes") == 2 * len(content), "a later try takes nothing of it for true"


def test_one_of_three_lies_and_is_named_whoever_is_asked_first(tmp_path: Path) -> None:
    content, digest = made(12 * STRETCH_BYTES)
    wrong = changed(content, *range(0, len(content), STRETCH_BYTES))
    for names in (("a", "b", "c"), ("b", "a", "c"), ("c", "b", "a")):
        with sites("taker", "b", "c") as (taker, b, c), wicked("a", gives(wrong)) as a:
            taker.know(a.peer(), b.peer(), c.peer())
            for honest in (b, c):
                honest.exchange.offer(digest, content)
            into = tmp_path / "".join(names)
            came = taker.fetch(digest, len(content), names, into)
            assert a.gets, "it was asked for something"
            assert (came.ok, came.lacking) == (True, ("a",)), names
            assert into.read_bytes() == content
    assert sorted(path.name for path in tmp_path.iterdir()) == ["abc", "bac", "cba"]


def test_all_lie_and_all_are_named(tmp_path: Path) -> None:
    content, digest = made(6 * STRETCH_BYTES)
    with (
        sites("taker") as (taker,),
        wicked("a", gives(changed(content, *range(0, len(content), 1000)))) as a,
        wicked("b", gives(bytes(len(content)))) as b,
    ):
        taker.know(a.peer(), b.peer())
        came = taker.fetch(digest, len(content), ("a", "b"), tmp_path / "blob")
        assert (came.ok, set(came.lacking)) == (False, {"a", "b"})
    assert not (tmp_path / "blob").exists()


def test_who_lies_about_the_size_is_named_and_no_honest_one_is(tmp_path: Path) -> None:
    content, digest = made(100_000)
    for wrong in (content + b"more", content[:-1], b""):
        for names in (("a", "b"), ("b", "a")):
            with sites("taker", "b") as (taker, b), wicked("a", gives(wrong)) as a:
                taker.know(a.peer(), b.peer())
                b.exchange.offer(digest, content)
                came = taker.fetch(digest, None, names, tmp_path / "blob")
                assert came.ok, came
                assert set(came.lacking) <= {"a"}
                assert (tmp_path / "blob").read_bytes() == content
                if names[0] == "a":
                    assert came.lacking == ("a",)
                known = taker.fetch(digest, len(content), names, tmp_path / "known")
                assert known.ok
                assert set(known.lacking) <= {"a"}


def test_fewer_bytes_than_announced_are_no_blob(tmp_path: Path) -> None:
    content, digest = made(100_000)

    def give(channel: Channel, get: Get) -> None:
        channel.say(Have(10, len(content)), PATIENCE_S)
        channel.send(memoryview(content)[get.offset : get.offset + 10], PATIENCE_S)

    with sites("taker", limits=QUICK) as (taker,), wicked("a", give) as a:
        taker.know(a.peer())
        came = taker.fetch(digest, len(content), ("a",), tmp_path / "blob")
        assert came.lacking == ("a",)
        assert "a gives 10 of the 100000 bytes" in came.why

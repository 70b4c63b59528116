"""What the key-value port promises holds for each adapter."""

from __future__ import annotations

from itertools import count
from threading import Barrier, Thread
from time import monotonic

import pytest
from tests.stores.tcpserver import tcpstore_server
from torch.distributed import TCPStore

from quoracy.ports.keyvalue import MAX_KEY_BYTES, MAX_VALUE_BYTES, KeyValue, StoreLost
from quoracy.stores.keyvalue import MemoryKeyValue, Rack
from quoracy.stores.tcpstore import TcpStoreKeyValue
from quoracy.testing.expect import Together

PATIENCE_S = 20.0
_corner = count(1)


@pytest.fixture(scope="session")
def server():
    with tcpstore_server() as running:
        yield running


@pytest.fixture(scope="session")
def plain_server():
    """As torch had it before it used libuv: hangs up on who asks for a missing key, and wakes up nobody."""
    return TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, use_libuv=False)


@pytest.fixture(params=["memory", "tcpstore", "tcpstore without libuv"])
def opener(request):
    """Opens the same store once more with each call; all handles are closed at the end."""
    rack = Rack()
    opened: list[KeyValue] = []
    address = None
    if request.param == "tcpstore":
        server = request.getfixturevalue("server")
        address = (server.host, server.port)
    elif request.param == "tcpstore without libuv":
        address = ("127.0.0.1", request.getfixturevalue("plain_server").port)

    def open_one() -> KeyValue:
        opened.append(TcpStoreKeyValue(*address) if address else MemoryKeyValue(rack))
        return opened[-1]

    yield open_one
    for handle in opened:
        handle.close()


@pytest.fixture
def store(opener):
    return opener()


@pytest.fixture
def corner():
    """A key that no other test uses: the server is shared."""
    return f"corner-{next(_corner)}"


def test_of_a_missing_key_there_is_nothing(store, corner):
    assert store.get(corner) is None
    assert store.get_many([corner, f"{corner}/b", f"{corner}/c", corner]) == [None] * 4
    assert store.get_many([]) == []
    assert store.wait(corner, 0.0) is False
    assert store.delete(corner) is False


def test_the_first_creation_wins(opener, corner):
    one, other = opener(), opener()
    assert one.create(corner, b"first") == b"first"
    assert other.create(corner, b"second") == b"first"
    assert other.get(corner) == b"first"
    assert other.wait(corner, 0.0)


def test_of_racing_creations_one_wins(opener, corner):
    start = Barrier(6, timeout=PATIENCE_S)

    def race(me: int) -> bytes:
        handle = opener()
        start.wait()
        return handle.create(corner, b"%d" % me)

    with Together() as together:
        for me in range(6):
            together.call(race, me)
    assert len(set(together.results)) == 1


def test_a_creation_and_what_another_key_holds_afterwards(opener, corner):
    one, other = opener(), opener()
    beside = f"{corner}/beside"
    assert one.create_then_get(corner, b"first", beside) == (b"first", None)
    other.create(beside, b"x")
    assert other.create_then_get(corner, b"second", beside) == (b"first", b"x")
    assert one.create_then_get(f"{corner}/b", b"second", f"{corner}/b") == (b"second", b"second")


@pytest.mark.parametrize("awaits", ["", "awaited"])
def test_what_is_put_behind_is_there_when_other_keys_are_read(opener, corner, awaits):
    """And of those who come at once, one at least sees all of them."""

    def come(me: int) -> list[int]:
        handle = opener()
        lengths = []
        for i in range(20):
            mine = b"%d.%02d " % (me, i)
            there, nothing = handle.append_then_get(corner, mine, [corner, f"{corner}/x"], awaits)
            assert mine in there
            assert nothing is None
            lengths.append(len(there.split()))
        return lengths

    with Together() as together:
        for me in range(4):
            together.call(come, me)
    assert max(length for lengths in together.results for length in lengths) == 80
    assert sorted(opener().get(corner).split()) == [b"%d.%02d" % (me, i) for me in range(4) for i in range(20)]


def test_a_counter_is_read_as_a_number(store, corner):
    store.add(corner, 41)
    assert store.append_then_get(f"{corner}/list", b"x", [corner]) == [b"41"]


@pytest.mark.parametrize("which", ["a", "b"])
def test_whoever_waits_for_either_of_two_keys_is_told_which_has_come(opener, corner, which):
    store, other = opener(), opener()
    keys = [f"{corner}/a", f"{corner}/b"]
    began = monotonic()
    assert store.wait_either(*keys, 0.02) is None
    assert monotonic() - began >= 0.02
    with Together() as together:
        together.call(store.wait_either, *keys, PATIENCE_S)
        other.announce(f"{corner}/{which}")
        assert together.wait() == [f"{corner}/{which}"]
    assert monotonic() - began < PATIENCE_S / 2
    assert store.wait_either(*keys, PATIENCE_S) == f"{corner}/{which}", "it is there for whoever comes later"
    assert other.get(f"{corner}/{which}") is not None


def test_one_waits_for_other_keys_each_time_and_none_of_them_is_mixed_up(opener, corner):
    store, other = opener(), opener()
    for i in range(20):
        usual, turned = f"{corner}/usual/{i}", f"{corner}/turned/{i // 5}"
        store.append_then_get(f"{corner}/notes", b"x", [corner], usual)
        assert store.wait_either(usual, turned, 0.0) is None
        with Together() as together:
            together.call(store.wait_either, usual, turned, PATIENCE_S)
            other.announce(turned if i % 5 == 4 else usual)
            assert together.wait() == [turned if i % 5 == 4 else usual]
        if i % 3 == 0:
            assert store.wait_either(f"{corner}/nothing/{i}", f"{corner}/nothing", 0.0) is None


def test_what_came_before_anybody_waited_for_it_is_noticed_at_once(opener, corner):
    store, other = opener(), opener()
    other.announce(f"{corner}/a")
    assert other.wait(f"{corner}/a", PATIENCE_S)
    store.append_then_get(f"{corner}/notes", b"x", [corner], f"{corner}/a")
    assert store.wait_either(f"{corner}/a", f"{corner}/b", PATIENCE_S) == f"{corner}/a"
    assert store.wait_either(f"{corner}/c", f"{corner}/a", PATIENCE_S) == f"{corner}/a"


def test_a_fetch_ends_when_the_first_key_comes_and_reads_them_all(opener, corner):
    store, other = opener(), opener()
    keys = [corner, f"{corner}/b", f"{corner}/c"]
    other.create(keys[1], b"b")
    assert store.fetch(keys, 0.02) == [None, b"b", None]
    with Together() as together:
        together.call(store.fetch, keys, PATIENCE_S)
        for _ in range(20):
            assert other.swap(corner, b"a", b"b") is None
        other.create(corner, b"a")
        began = monotonic()
        assert together.wait() == [[b"a", b"b", None]]
    assert monotonic() - began < PATIENCE_S / 2


def test_a_swap_happens_only_from_what_is_expected(store, corner):
    store.create(corner, b"a")
    assert store.swap(corner, b"a", b"b") == b"b"
    assert store.swap(corner, b"a", b"c") == b"b"
    assert store.get(corner) == b"b"
    assert store.swap(corner, b"b", b"b") == b"b"


def test_a_swap_of_a_missing_key_creates_nothing(store, corner):
    assert store.swap(corner, b"a", b"b") is None
    assert store.swap(corner, b"a", b"a") is None
    assert store.get(corner) is None


def test_a_deleted_key_may_come_back(store, corner):
    store.create(corner, b"a")
    assert store.delete(corner) is True
    assert store.get(corner) is None
    assert store.create(corner, b"b") == b"b"


def test_a_counter_counts_everybody(opener, corner):
    def count_up() -> list[int]:
        handle = opener()
        return [handle.add(corner, 1) for _ in range(50)]

    with Together() as together:
        for _ in range(4):
            together.call(count_up)
    assert sorted(number for numbers in together.results for number in numbers) == list(range(1, 201))
    handle = opener()
    assert handle.add(corner, -200) == 0
    assert handle.delete(corner) is True
    assert handle.add(corner, 3) == 3


def test_any_bytes_come_back(store, corner):
    values = {f"{corner}/{i}": value for i, value in enumerate([b"\0", bytes(range(256)), bytes(MAX_VALUE_BYTES)])}
    for key, value in values.items():
        assert store.create(key, value) == value
    assert [store.get(key) for key in values] == list(values.values())
    assert store.get_many(list(values)) == list(values.values())
    missing = f"{corner}/x"
    assert store.get_many([*values, missing, corner]) == [*values.values(), None, None]


@pytest.mark.parametrize("key", ["", "x" * (MAX_KEY_BYTES + 1), "a b", "a\0", "ä", "a\n"])
def test_a_key_outside_the_limits_is_refused(store, key):
    for call in (
        lambda: store.get(key),
        lambda: store.get_many([key]),
        lambda: store.create(key, b"x"),
        lambda: store.create_then_get(key, b"x", "fine"),
        lambda: store.create_then_get("fine", b"x", key),
        lambda: store.append_then_get(key, b"x", ["fine"]),
        lambda: store.append_then_get("fine", b"x", [key]),
        lambda: store.announce(key),
        lambda: store.wait_either(key, "fine", 0.0),
        lambda: store.wait_either("fine", key, 0.0),
        lambda: store.fetch([key], 0.0),
        lambda: store.swap(key, b"x", b"y"),
        lambda: store.add(key, 1),
        lambda: store.delete(key),
        lambda: store.wait(key, 0.0),
    ):
        with pytest.raises(ValueError, match="a key is"):
            call()


@pytest.mark.parametrize("value", [b"", bytes(MAX_VALUE_BYTES + 1)], ids=["empty", "too large"])
def test_a_value_outside_the_limits_is_refused(store, corner, value):
    store.create(corner, b"a")
    for call in (lambda: store.create(corner, value), lambda: store.swap(corner, b"a", value)):
        with pytest.raises(ValueError, match="a value has"):
            call()
    assert store.get(corner) == b"a"


def test_a_wait_ends_when_the_key_comes(opener, corner):
    store, other = opener(), opener()
    with Together() as together:
        for _ in range(3):
            together.call(store.wait, corner, PATIENCE_S)
        other.create(corner, b"x")
        began = monotonic()
        assert together.wait() == [True] * 3
    assert monotonic() - began < PATIENCE_S / 2


def test_a_wait_ends_when_its_time_is_over(store, corner):
    began = monotonic()
    assert store.wait(corner, 0.05) is False
    assert 0.05 <= monotonic() - began < PATIENCE_S / 2


def test_whoever_asks_for_a_key_does_not_end_a_wait(opener, corner):
    store, other = opener(), opener()
    with Together() as together:
        together.call(store.wait, corner, PATIENCE_S)
        for _ in range(50):
            assert other.swap(corner, b"a", b"b") is None
            assert other.get(corner) is None
            assert other.wait(corner, 0.001) is False
        assert together.results == []
        other.create(corner, b"x")
        assert together.wait() == [True]


def test_a_wait_holds_up_nobody_else(store, corner):
    with Together() as together:
        together.call(store.wait, corner, PATIENCE_S)
        began = monotonic()
        for i in range(20):
            store.create(f"{corner}/{i}", b"x")
        assert monotonic() - began < PATIENCE_S / 2
        store.create(corner, b"x")
        assert together.wait() == [True]


def test_closing_ends_a_wait_and_everything_else(opener, corner):
    store = opener()
    failures: list[BaseException] = []

    def wait() -> None:
        try:
            store.wait(corner, PATIENCE_S)
        except ValueError as error:
            failures.append(error)

    thread = Thread(target=wait)
    thread.start()
    store.close()
    store.close()
    thread.join(PATIENCE_S)
    assert [str(error) for error in failures] == ["this store is closed"]
    for call in (
        lambda: store.get(corner),
        lambda: store.get_many([corner]),
        lambda: store.create(corner, b"x"),
        lambda: store.swap(corner, b"x", b"y"),
        lambda: store.add(corner, 1),
        lambda: store.delete(corner),
        lambda: store.wait(corner, 0.0),
    ):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_a_guard_looks_at_once_and_what_it_raises_is_told(store, corner):
    store.create(corner, b"me")
    seen = []
    store.guard(lambda look: seen.append(look(corner)))
    assert seen == [b"me"]

    def refuse(_):
        raise StoreLost("no")

    with pytest.raises(StoreLost, match="no"):
        store.guard(refuse)

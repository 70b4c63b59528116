"""What torch's TCPStore really does, as ``quoracy.stores.tcpstore`` relies on it. If one of these fails with another
version of torch, that adapter has to be looked at again."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from threading import Thread
from time import monotonic

import pytest
from tests.stopping import stop
from tests.stores.tcpserver import LIMIT_S, tcpstore_server
from torch.distributed import DistNetworkError, DistStoreError, TCPStore

PATIENCE = timedelta(seconds=30)


@pytest.fixture(scope="module")
def server():
    with tcpstore_server() as running:
        yield running


@pytest.fixture
def dial(server):
    return lambda: TCPStore(server.host, server.port, is_master=False, wait_for_workers=False, timeout=PATIENCE)


@pytest.fixture
def store(dial):
    return dial()


def test_compare_set_with_nothing_sets_if_absent(store):
    assert store.compare_set("absent", "", "a") == b"a"
    assert store.compare_set("absent", "", "b") == b"a"


def test_compare_set_of_a_missing_key_answers_what_was_expected_and_sets_nothing(store):
    assert store.compare_set("missing", "old", "new") == b"old"
    assert store.check(["missing"]) is False


def test_any_bytes_may_be_stored_and_compared(store):
    every = bytes(range(256))
    assert store.compare_set("bytes", "", every) == every
    assert store.compare_set("bytes", every, b"\0\1") == b"\0\1"
    assert store.get("bytes") == b"\0\1"
    assert store.multi_get(["bytes", "bytes"]) == [b"\0\1", b"\0\1"]


def test_the_empty_value_is_there_and_looks_missing(store):
    assert store.compare_set("empty", "", "") == b""
    assert store.check(["empty"]) is True
    assert store.compare_set("empty", "", "a") == b"a"


def test_a_deleted_key_is_gone(store):
    store.compare_set("deleted", "", "a")
    assert (store.delete_key("deleted"), store.delete_key("deleted"), store.check(["deleted"])) == (True, False, False)


def test_get_of_a_missing_key_blocks_until_the_time_is_over(store):
    store.set_timeout(timedelta(seconds=0.2))
    began = monotonic()
    with pytest.raises(DistStoreError, match="wait timeout after 200ms"):
        store.get("not there")
    with pytest.raises(DistStoreError):
        store.multi_get(["not there"])
    assert monotonic() - began >= 0.4
    assert store.check(["not there"]) is False


def test_whoever_asks_for_a_missing_key_wakes_up_those_who_wait(dial):
    waiter, store = dial(), dial()
    woken: list[bool] = []

    def wait() -> None:
        waiter.wait(["awaited"], timedelta(seconds=LIMIT_S))
        woken.append(True)

    thread = Thread(target=wait, daemon=True)
    thread.start()
    while thread.is_alive():
        store.compare_set("awaited", "x", "x")
        thread.join(0.01)
    assert woken == [True]
    assert store.check(["awaited"]) is False


@pytest.mark.parametrize("how", ["set", "append", "multi_set"])
def test_a_write_that_is_not_acknowledged_succeeds_where_nobody_has_got_it(how):
    """The server is stopped, and then killed. Who asks for an answer learns that there is none."""
    with tcpstore_server() as server:
        store, asking = (
            TCPStore(server.host, server.port, is_master=False, wait_for_workers=False, timeout=PATIENCE)
            for _ in range(2)
        )
        asking.set_timeout(timedelta(seconds=0.5))
        stop(server.popen.pid)
        began = monotonic()
        if how == "multi_set":
            store.multi_set(["lost"], ["value"])
        else:
            getattr(store, how)("lost", "value")
        assert monotonic() - began < PATIENCE.total_seconds() / 2, "it has waited for nobody"
        answer = Thread(target=_suppressed, args=(asking, "answered"), daemon=True)
        answer.start()
        answer.join(0.5)
        assert answer.is_alive(), "what is answered waits for the answer"
        server.kill()
        answer.join(LIMIT_S)
        assert not answer.is_alive()


def _suppressed(store: TCPStore, key: str) -> None:
    with suppress(DistNetworkError, DistStoreError):
        store.compare_set(key, "", "value")


def test_a_wait_holds_up_every_other_call_on_its_connection(dial):
    waiter, store = dial(), dial()
    thread = Thread(target=waiter.wait, args=(["held"], timedelta(seconds=LIMIT_S)), daemon=True)
    thread.start()
    for _ in range(1000):  # until the wait has begun
        other = Thread(target=waiter.check, args=(["anything"],), daemon=True)
        other.start()
        other.join(0.1)
        if other.is_alive():
            break
    assert other.is_alive()
    store.compare_set("held", "", "1")
    other.join(LIMIT_S)
    thread.join(LIMIT_S)
    assert not other.is_alive()


def test_adding_to_what_is_no_number_makes_the_server_hang_up(dial):
    store = dial()
    store.compare_set("word", "", "a")
    with pytest.raises(DistNetworkError):
        store.add("word", 1)
    with pytest.raises(DistNetworkError):
        store.check(["word"])
    assert dial().get("word") == b"a"


def test_a_value_of_eight_mebibytes_is_taken_and_a_larger_one_hangs_up(dial):
    store = dial()
    assert len(store.compare_set("large", "", bytes(8 << 20))) == 8 << 20
    with pytest.raises(DistNetworkError):
        store.compare_set("larger", "", bytes(9 << 20))
    dial().delete_key("large")

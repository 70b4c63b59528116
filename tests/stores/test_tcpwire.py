"""The wire by itself: what torch's own client stores it reads, and the other way round; and what does not answer."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import timedelta
from threading import Thread
from time import monotonic
from typing import Any

import pytest
from tests.stores.tcpserver import LIMIT_S, Server, tcpstore_server
from torch.distributed import TCPStore

from quoracy.stores import tcpwire as wire
from quoracy.stores.tcpwire import Failed, HungUp, Wire


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with tcpstore_server() as running:
        yield running


@pytest.fixture
def line(server: Server) -> Iterator[Wire]:
    opened = Wire(server.host, server.port, 5.0)
    yield opened
    opened.close()


@pytest.fixture
def torch(server: Server) -> Any:
    patience = timedelta(seconds=30)
    return TCPStore(server.host, server.port, is_master=False, wait_for_workers=False, timeout=patience)


def test_what_torch_stores_the_wire_reads(line: Wire, torch: Any) -> None:
    every = bytes(range(256))
    torch.compare_set("from torch", "", every)
    torch.add("counted", 41)
    assert line.ask(wire.multi_get(["from torch"]), wire.add("counted", 1)) == [[every], 42]
    assert line.ask(wire.check("from torch"), wire.check("nothing")) == [True, False]


def test_what_the_wire_stores_torch_reads(line: Wire, torch: Any) -> None:
    large = bytes(1 << 20)
    assert line.ask(wire.compare_set("from here", b"", b"\0\1"), wire.compare_set("large", b"", large)) == [
        b"\0\1",
        large,
    ]
    assert line.ask(wire.append("list", b"a"), wire.append("list", b"b"), wire.add("n", 1)) == [None, None, 1]
    assert [torch.get("from here"), torch.get("list"), torch.get("n")] == [b"\0\1", b"ab", b"1"]
    assert len(torch.get("large")) == 1 << 20
    assert line.ask(wire.delete("from here"), wire.delete("from here")) == [True, False]
    assert not torch.check(["from here"])


def test_missing_keys_are_read_as_nothing_and_wake_up_nobody(line: Wire, torch: Any, server: Server) -> None:
    line.ask(wire.compare_set("there", b"", b"x"))
    waiting = Wire(server.host, server.port, 5.0)
    woken: list[bool] = []
    thread = Thread(target=lambda: woken.append(waiting.wait("missing", LIMIT_S)))
    thread.start()
    for _ in range(50):
        assert line.ask(wire.multi_get(["missing", "there", "missing"])) == [[b"", b"x", b""]]
    assert woken == []
    torch.set("missing", "now")
    thread.join(LIMIT_S)
    assert woken == [True]
    waiting.close()


@pytest.mark.parametrize("timeout_s", [0.0, 0.02, 0.3])
def test_a_wait_that_is_over_leaves_the_connection_good(line: Wire, timeout_s: float) -> None:
    began_s = monotonic()
    assert line.wait("never", timeout_s) is False
    assert monotonic() - began_s >= timeout_s
    assert line.ask(wire.add(f"after {timeout_s}", 1)) == [1]
    line.ask(wire.compare_set("is there", b"", b"x"))
    assert line.wait("is there", 5.0) is True


def test_a_wait_may_be_begun_behind_other_questions_and_ends_with_one_byte_when_the_key_is_put(
    line: Wire, server: Server
) -> None:
    other = Wire(server.host, server.port, 5.0)
    assert line.ask(wire.add("asked before", 1), wire.begin_wait("begun")) == [1, None]
    assert not line.has_more()
    assert other.ask(wire.put("begun", b"x"), wire.check("begun")) == [None, True]
    assert line._ready(LIMIT_S)
    assert line.ask(wire.END_OF_WAIT, wire.add("asked before", 1)) == [b"\0", 2]
    other.close()


@pytest.mark.parametrize("comes", [True, False])
def test_a_wait_that_is_given_up_leaves_nothing_behind_whether_its_key_came_or_not(
    line: Wire, server: Server, comes: bool
) -> None:
    other = Wire(server.host, server.port, 5.0)
    key = f"given up {comes}"
    line.ask(wire.begin_wait(key))
    if comes:
        other.ask(wire.put(key, b"x"), wire.check(key))
    assert line.ask(wire.CANCEL_WAIT, wire.multi_get([key])) == [None, [b"x" if comes else b""]]
    other.ask(wire.put(key, b"y"), wire.check(key))
    assert line.ask(wire.multi_get([key])) == [[b"y"]]
    other.close()


def test_a_server_that_hangs_up_is_told_and_the_connection_is_of_no_use(line: Wire) -> None:
    line.ask(wire.compare_set("word", b"", b"word"))
    with pytest.raises(HungUp):
        line.ask(wire.add("word", 1))
    assert not line.good
    with pytest.raises(Failed, match="was lost before"):
        line.ask(wire.check("word"))


def test_whoever_waits_is_told_when_another_thread_hangs_up(line: Wire) -> None:
    told: list[Exception] = []

    def wait() -> None:
        try:
            line.wait("never", LIMIT_S)
        except Failed as failed:
            told.append(failed)

    thread = Thread(target=wait)
    thread.start()
    line.hang_up()
    thread.join(LIMIT_S)
    assert [type(error) for error in told] in ([HungUp], [Failed])


class Stranger:
    """Something that listens and is no TCPStore."""

    def __init__(self, says: bytes | None) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._thread = Thread(target=self._serve, args=(says,), daemon=True)
        self._thread.start()

    def _serve(self, says: bytes | None) -> None:
        self._met, _ = self._listening.accept()
        self._met.recv(100)
        if says is not None:
            self._met.sendall(says)

    def close(self) -> None:
        self._listening.close()
        self._thread.join(LIMIT_S)
        self._met.close()


@pytest.mark.parametrize(
    ("says", "why"), [(None, r"no answer within 0\.2 s"), (b"HTTP/1.1 400 Bad Request", "no TCPStore")]
)
def test_what_is_no_tcpstore_is_told_apart_in_time(says: bytes | None, why: str) -> None:
    stranger = Stranger(says)
    with pytest.raises(Failed, match=why):
        Wire("127.0.0.1", stranger.port, 0.2)
    stranger.close()


def test_a_closed_port_is_told_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(Failed, match="refused"):
        Wire("127.0.0.1", port, 5.0)

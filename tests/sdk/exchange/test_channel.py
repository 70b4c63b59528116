"""One connection by itself, in both directions: as the listener has it, and as the dialler does."""

from __future__ import annotations

import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from tests.sdk.exchange.sites import PATIENCE_S, made, wait_for

from quoracy.sdk.witnessed.exchange import wide
from quoracy.sdk.witnessed.exchange.channel import PIECE_BYTES, Broken, Channel
from quoracy.sdk.witnessed.exchange.wide import MANY_BYTES, WIDE_BYTES, WideChannel
from quoracy.sdk.witnessed.exchange.wire import to_dialler, to_listener
from quoracy.trust.keys import MemberKey
from quoracy.trust.pinned import dialling_context, listening_context

SOON_S = 0.3
MUCH, _ = made(3 * WIDE_BYTES + 17)


class End:
    """One of two: its channel, and a second hold on its socket, past TLS."""

    def __init__(self, channel: Channel, raw: socket.socket) -> None:
        self.channel = channel
        self.raw = raw

    def close(self) -> None:
        self.channel.close()
        self.raw.close()


Ends = tuple[End, End]
"""Who sends, and who takes."""


@pytest.fixture(params=["the dialler takes", "the listener takes"])
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = socket.create_connection(server.getsockname(), PATIENCE_S)
        here = server.accept()[0]
    raw_here, raw_there = (socket.socket(fileno=os.dup(sock.fileno())) for sock in (here, there))
    listener = End(Channel(here, listening_context(MemberKey.create()), to_listener, server=True), raw_here)
    dialler = End(WideChannel(there, dialling_context(), to_dialler, server=False), raw_there)
    with beside(lambda: listener.channel.greet(PATIENCE_S)):
        dialler.channel.greet(PATIENCE_S)
    yield (listener, dialler) if request.param == "the dialler takes" else (dialler, listener)
    listener.close()
    dialler.close()


@contextmanager
def beside(action: Callable[[], object]) -> Iterator[None]:
    """In another thread, which has ended in the end."""
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join(PATIENCE_S)
    assert not thread.is_alive()


def take(end: End, count: int) -> bytes:
    room = bytearray(count)
    end.channel.fill(memoryview(room), PATIENCE_S)
    return bytes(room)


def waiting_bytes(raw: socket.socket) -> int:
    try:
        return len(raw.recv(4096, socket.MSG_PEEK))
    except BlockingIOError:
        return 0


def test_what_one_sends_the_other_takes(ends: Ends) -> None:
    sender, taker = ends
    with beside(lambda: sender.channel.send(memoryview(MUCH), PATIENCE_S)):
        pieces = [take(taker, min(PIECE_BYTES, len(MUCH) - at)) for at in range(0, len(MUCH), PIECE_BYTES)]
    assert b"".join(pieces) == MUCH


def test_who_takes_widens_and_narrows_in_the_middle_of_what_comes(ends: Ends) -> None:
    sender, taker = ends
    came = bytearray()
    with beside(lambda: sender.channel.send(memoryview(MUCH), PATIENCE_S)):
        for at in range(0, len(MUCH), 100_000):
            if isinstance(taker.channel, WideChannel):
                taker.channel.widen(not at % 200_000)
            came += take(taker, min(100_000, len(MUCH) - at))
    assert came == MUCH


def test_a_wait_has_an_end_for_the_whole_and_not_for_each_byte(ends: Ends) -> None:
    """One sends a byte of a record now and then; the other waits no longer for that."""
    sender, taker = ends
    stop = threading.Event()
    left = deque(b"\x17\x03\x03\x40\x00" + bytes(100))

    def drip() -> None:
        while left and not stop.wait(SOON_S / 10):
            sender.raw.send(bytes([left.popleft()]))

    with beside(drip):
        with pytest.raises(Broken, match="did not answer in time"):
            taker.channel.fill(memoryview(bytearray(10)), SOON_S)
        stop.set()
    assert left, "it did not wait for the last of them"


def test_what_is_not_taken_is_not_waited_for(ends: Ends) -> None:
    sender, _ = ends

    def send_on() -> None:
        while True:
            sender.channel.send(memoryview(MUCH), SOON_S)

    with pytest.raises(Broken, match="did not take what it asked for in time"):
        send_on()


def test_who_is_cut_off_is_told_at_once_and_sends_nothing_past_tls(ends: Ends) -> None:
    _, taker = ends
    told = []

    def wait() -> None:
        with pytest.raises(Broken) as said:
            taker.channel.fill(memoryview(bytearray(1)), 10 * PATIENCE_S)
        told.append(str(said.value))

    with beside(wait):
        taker.channel.cut()
    assert told == ["it closed the connection"]
    with pytest.raises(Broken):
        taker.channel.send(memoryview(b"for nobody else"), PATIENCE_S)


def test_one_that_is_kept_is_of_use_while_nothing_comes(ends: Ends) -> None:
    sender, taker = ends
    assert taker.channel.quiet()
    for piece in (b"a", b"bc"):
        sender.channel.send(memoryview(piece), PATIENCE_S)
    whole = len(b"abc") + 2 * (5 + 17)  # each record has a head and a tail
    wait_for(lambda: waiting_bytes(taker.raw) == whole, "both records have come")
    assert not taker.channel.quiet(), "nothing has been read"
    for left in ("a record", "a byte of a record"):
        take(taker, 1)
        assert not taker.channel.quiet(), left
    take(taker, 1)
    assert taker.channel.quiet()
    sender.channel.close()
    wait_for(lambda: not taker.channel.quiet(), "it was closed")


def test_one_that_is_closed_says_so(ends: Ends) -> None:
    for end in ends:
        end.channel.close()
        with pytest.raises(Broken, match="closed"):
            end.channel.send(memoryview(b"late"), PATIENCE_S)
        with pytest.raises(Broken, match="closed"):
            end.channel.fill(memoryview(bytearray(1)), PATIENCE_S)


def test_a_wait_that_failed_holds_on_to_nothing(ends: Ends) -> None:
    """Some Pythons end the process when they tidy up a view that somebody else still holds."""
    _, taker = ends
    view = memoryview(bytearray(10))
    with pytest.raises(Broken) as said:
        taker.channel.fill(view, 0.0)
    view.release()
    assert "did not answer" in str(said.value)


def test_what_tls_says_for_itself_does_not_make_a_connection_useless(ends: Ends) -> None:
    """Such as an offer to take it up again later, or a new key."""
    _, dialler = sorted(ends, key=lambda end: isinstance(end.channel, WideChannel))
    wait_for(lambda: waiting_bytes(dialler.raw) > 0, "an offer has come")
    assert dialler.channel.quiet()
    assert waiting_bytes(dialler.raw) == 0


def test_the_encryption_is_the_quickest_there_is(ends: Ends) -> None:
    assert {end.channel._tls.get_cipher_name() for end in ends} == {"TLS_AES_128_GCM_SHA256"}
    assert {end.channel._tls.get_protocol_version_name() for end in ends} == {"TLSv1.3"}


def test_records_are_put_together_while_much_is_sent_and_not_afterwards(ends: Ends) -> None:
    sender, taker = ends
    with sender.channel.corked():
        assert sender.raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_CORK) == 1
        sender.channel.send(memoryview(MUCH[:PIECE_BYTES]), PATIENCE_S)
    assert sender.raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_CORK) == 0
    assert take(taker, PIECE_BYTES) == MUCH[:PIECE_BYTES]


def least(end: End) -> int:
    return end.raw.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT)


def test_who_takes_much_is_not_woken_for_little_and_for_the_end_all_the_same(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, taker = ends
    if not isinstance(taker.channel, WideChannel):
        taker, sender = ends
    monkeypatch.setattr(wide, "GATHER_MS", 1000 * PATIENCE_S)
    taker.channel.widen()  # type: ignore[attr-defined]
    room = memoryview(bytearray(len(MUCH)))

    def fill() -> None:
        for at in range(0, len(MUCH), 100_000):
            piece = room[at : at + 100_000]
            taker.channel.fill(piece, PATIENCE_S, len(MUCH) - at - len(piece))

    with beside(fill):
        wait_for(lambda: least(taker) == MANY_BYTES, "it waits for many")
        sender.channel.send(memoryview(MUCH), PATIENCE_S)
    assert room == MUCH
    sender.channel.send(memoryview(b"!"), PATIENCE_S)
    assert take(taker, 1) == b"!"


def test_who_sends_slowly_is_heard_as_soon_as_without_that(ends: Ends) -> None:
    """However much is to follow: what has come is taken."""
    sender, taker = ends
    room = bytearray(70_000)
    with beside(lambda: sender.channel.send(memoryview(MUCH[:70_000]), PATIENCE_S)):
        taker.channel.fill(memoryview(room), PATIENCE_S, more=len(MUCH))
    assert room == MUCH[:70_000]
    assert least(taker) == 1

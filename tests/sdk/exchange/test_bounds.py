"""Whoever floods, dawdles or talks nonsense takes up one place for a moment, and memory is bounded."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.sdk.exchange.sites import PATIENCE_S, QUICK, Site, made, sites, wait_for
from tests.sdk.exchange.test_pinning import dialled, introduced, met

from quoracy.sdk.witnessed.exchange.channel import Broken
from quoracy.sdk.witnessed.exchange.limits import MEMORY_BYTES, Limits
from quoracy.sdk.witnessed.exchange.wire import LENGTH, MAX_FRAME, Get, Have, Mine, No, Thanks

CONTENT, DIGEST = made(1000)
SHORT = Limits(dial_s=0.3, answer_s=5.0, take_s=0.5, idle_s=0.6, strangers=2, connections_each=2)


def raw(site: Site) -> socket.socket:
    host, _, port = site.exchange.addresses[0].rpartition(":")
    return socket.create_connection((host, int(port)), PATIENCE_S)


def strangers(site: Site) -> int:
    return len(site.exchange._giving._strangers)  # type: ignore[union-attr]


def test_who_connects_and_says_nothing_is_cut_off() -> None:
    with sites("alice", limits=SHORT) as (alice,), raw(alice) as line:
        assert line.recv(1) == b"", "it was closed"


def test_who_sends_a_byte_now_and_then_is_cut_off_all_the_same() -> None:
    """A handshake, and a message, have a time in which they must be whole."""
    with sites("alice", "bob", limits=SHORT) as (alice, bob):
        with raw(alice) as line:
            line.settimeout(PATIENCE_S)
            assert dripped(line), "in the handshake"
        channel = met(alice, bob)
        for byte in LENGTH.pack(100):
            channel.send(memoryview(bytes([byte])), PATIENCE_S)
        assert dripped(channel._sock), "in a message"
        channel.close()


def dripped(line: socket.socket) -> bool:
    """Bytes of a record that never ends; whether the other side gives up."""
    line.settimeout(PATIENCE_S)
    stop = threading.Event()

    def drip() -> None:
        try:
            line.sendall(b"\x16\x03\x01\x40\x00")
            while not stop.wait(0.05):
                line.sendall(b"\0")
        except OSError:
            return

    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    try:
        while line.recv(4096):
            pass
        return True
    except ConnectionError:
        return True
    finally:
        stop.set()
        thread.join(PATIENCE_S)


def test_who_is_idle_for_long_is_cut_off_and_the_next_fetch_connects_anew(tmp_path: Path) -> None:
    with sites("alice", "bob", limits=SHORT) as (alice, bob):
        alice.exchange.offer(DIGEST, CONTENT)
        assert bob.fetch(DIGEST, 1000, ("alice",), tmp_path / "one").ok
        wait_for(lambda: not alice.exchange._giving._open, "it was idle")  # type: ignore[union-attr]
        assert bob.fetch(DIGEST, 1000, ("alice",), tmp_path / "two").ok
        assert bob.figure("connections_broken") == 0


def test_who_does_not_take_what_it_asked_for_is_cut_off() -> None:
    content, digest = made(40_000_000)
    with sites("alice", "bob", limits=SHORT) as (alice, bob):
        alice.exchange.offer(digest, content)
        channel = met(alice, bob)
        channel.say(Get(digest, 0, len(content)), PATIENCE_S)
        wait_for(lambda: not alice.exchange._giving._open, "it was given up")  # type: ignore[union-attr]
        assert alice.figure("given_bytes") < len(content)
        channel.close()


@pytest.mark.parametrize(
    "body",
    [b"", b"\xc1", b"\x91\xa3get", b"\x94\xa3get\xc4\x01x\x00\x00", b"\xff" * 100, b"\x92\xa4mine\xc4\x00",
     b"\x91" * 5000, b"\x91\xa7no-such", b"\x92\xa3get\xd9\x02\xff\xfe"],
)  # fmt: skip
def test_what_nobody_understands_ends_the_connection(body: bytes) -> None:
    with sites("alice", "bob") as (alice, bob):
        channel = met(alice, bob)
        channel.send(memoryview(LENGTH.pack(len(body)) + body), PATIENCE_S)
        with pytest.raises(Broken):
            channel.hear(PATIENCE_S)
        channel.close()
        assert works(alice, bob)


def works(alice: Site, bob: Site) -> bool:
    channel = met(alice, bob)
    alice.exchange.offer(DIGEST, CONTENT)
    channel.say(Get(DIGEST, 990, 100), PATIENCE_S)
    answer = channel.hear(PATIENCE_S)
    channel.close()
    return bool(answer == Have(10, 1000))


def test_a_message_that_says_it_is_huge_is_not_waited_for() -> None:
    with sites("alice", "bob", limits=Limits(dial_s=10 * PATIENCE_S)) as (alice, bob):
        channel = met(alice, bob)
        channel.send(memoryview(LENGTH.pack(MAX_FRAME + 1)), PATIENCE_S)
        with pytest.raises(Broken, match="closed"):
            channel.hear(PATIENCE_S)
        channel.close()


def test_who_is_let_in_may_not_introduce_itself_again() -> None:
    with sites("alice", "bob") as (alice, bob):
        channel = met(alice, bob)
        channel.say(Mine("bob", "alice", b""), PATIENCE_S)
        with pytest.raises(Broken, match="closed"):
            channel.hear(PATIENCE_S)
        channel.close()


def test_bytes_beyond_the_end_are_none() -> None:
    with sites("alice", "bob") as (alice, bob):
        alice.exchange.offer(DIGEST, CONTENT)
        channel = met(alice, bob)
        channel.say(Get(DIGEST, 5000, 2**50), PATIENCE_S)
        assert channel.hear(PATIENCE_S) == Have(0, 1000)
        channel.close()


def test_strangers_take_up_few_places_and_members_get_in_beside_them(tmp_path: Path) -> None:
    limits = Limits(dial_s=PATIENCE_S, strangers=3)
    with sites("alice", "bob", limits=limits) as (alice, bob):
        alice.exchange.offer(DIGEST, CONTENT)
        held = [raw(alice) for _ in range(3)]
        wait_for(lambda: strangers(alice) == 3, "they are there")
        with raw(alice) as fourth:
            assert fourth.recv(1) == b""
        held.pop().close()
        wait_for(lambda: strangers(alice) == 2, "one has gone")
        assert bob.fetch(DIGEST, 1000, ("alice",), tmp_path / "blob").ok
        assert alice.figure("connections_refused") == 1
        for line in held:
            line.close()


def test_one_member_has_only_so_many_connections() -> None:
    with sites("alice", "bob", limits=SHORT) as (alice, bob):
        lines = [introduced(alice, bob) for _ in range(3)]
        assert [line.hear(PATIENCE_S) for line in lines] == [Thanks(), Thanks(), No("bob has 2 connections already")]
        for line in lines:
            line.close()


def test_the_socket_goes_with_the_connection() -> None:
    with sites("alice", limits=QUICK) as (alice,):
        for _ in range(20):
            line = dialled(alice).greet(PATIENCE_S)
            line.close()
        wait_for(lambda: strangers(alice) == 0, "all are gone")


MEASURED = """
import sys, threading
from pathlib import Path
from blake3 import blake3
from tests.sdk.exchange.sites import Site
from quoracy.sdk.witnessed.exchange.limits import STRETCH_BYTES

def peak():
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))

folder = Path(sys.argv[1])
size_bytes, found = int(sys.argv[2]), blake3()
with (folder / "source").open("wb") as file:
    for number in range(size_bytes // 2**20):
        piece = number.to_bytes(8, "big") * 2**17
        found.update(piece)
        file.write(piece)
givers = [Site("a"), Site("b"), Site("c")]
taker = Site("taker", "")
for giver in givers:
    giver.know(taker.peer())
    giver.exchange.offer(found.digest(), folder / "source")
taker.know(*(giver.peer() for giver in givers))
before = peak()
assert taker.fetch(found.digest(), size_bytes, ("a", "b", "c"), folder / "blob").ok
print(peak() - before)
for site in (*givers, taker):
    site.exchange.close()
"""


def test_memory_is_bounded_whatever_the_size_of_the_blob(tmp_path: Path) -> None:
    """Three that give and one that takes, in one process: together they stay below what one of them may need."""
    size_bytes = 4 * MEMORY_BYTES
    command = [sys.executable, "-c", MEASURED, str(tmp_path), str(size_bytes)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=100, cwd=Path(__file__).parents[3]
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < MEMORY_BYTES

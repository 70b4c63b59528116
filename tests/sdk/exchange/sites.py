"""Members that exchange blobs, for tests: real ones with real sockets in this process, one in a process of its own, and
one that does what it should not."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from blake3 import blake3
from tests.sdk.live import PATIENCE_S, Process, wait_for

from quoracy.core.witnessed.views import Peer, PeersShown
from quoracy.sdk.witnessed.exchange import DirectExchange, Fetched, open_exchange
from quoracy.sdk.witnessed.exchange.channel import Broken, Channel
from quoracy.sdk.witnessed.exchange.limits import Limits
from quoracy.sdk.witnessed.exchange.wire import Get, Have, Nonce, NotHere, Thanks, to_listener
from quoracy.trust.keys import MemberKey
from quoracy.trust.pinned import listening_context

QUICK = Limits(dial_s=5.0, answer_s=5.0, take_s=5.0, slow_s=0.2)
HOLDER = str(Path(__file__).with_name("holder.py"))


def made(size_bytes: int, seed: int = 1) -> tuple[bytes, bytes]:
    """Bytes, and their digest."""
    content = random.Random(seed).randbytes(size_bytes)
    return content, blake3(content).digest()


class Asking:
    """A fetch, and how it ended."""

    def __init__(self) -> None:
        self._came = threading.Event()
        self.outcomes: list[Fetched] = []

    def done(self, outcome: Fetched) -> None:
        self.outcomes.append(outcome)
        self._came.set()

    def wait(self) -> Fetched:
        assert self._came.wait(PATIENCE_S), "the fetch did not end"
        return self.outcomes[0]

    def over(self) -> bool:
        return self._came.is_set()


class Site:
    """One member."""

    def __init__(self, name: str, listen: str = "127.0.0.1:0", limits: Limits = QUICK) -> None:
        self.name = name
        self.key = MemberKey.create()
        self.exchange: DirectExchange = open_exchange(name, self.key, listen, limits=limits)
        self.heard: list[tuple[str, bytes]] = []
        self.exchange.on_announce(lambda member, payload: self.heard.append((member, payload)))

    def peer(self) -> Peer:
        return Peer(self.name, 1, self.key.public, self.exchange.addresses)

    def know(self, *peers: Peer) -> None:
        self.exchange.know(PeersShown(1, (self.peer(), *peers)))

    def ask(
        self, digest: bytes, size_bytes: int | None, holders: tuple[str, ...], into: Path, max_bytes: int = 2**40
    ) -> Asking:
        asking = Asking()
        self.exchange.fetch(digest, size_bytes, holders, into, asking.done, max_bytes=max_bytes)
        return asking

    def fetch(
        self, digest: bytes, size_bytes: int | None, holders: tuple[str, ...], into: Path, max_bytes: int = 2**40
    ) -> Fetched:
        return self.ask(digest, size_bytes, holders, into, max_bytes).wait()

    def figure(self, name: str) -> int:
        return self.exchange.figures()[name]


@contextmanager
def sites(*names: str, limits: Limits = QUICK) -> Iterator[list[Site]]:
    """They know each other."""
    there = [Site(name, limits=limits) for name in names]
    try:
        for site in there:
            site.know(*(other.peer() for other in there if other is not site))
        yield there
    finally:
        for site in there:
            site.exchange.close()


@contextmanager
def holder(name: str, path: Path, taker: Site, pause_s: float = 0.0) -> Iterator[tuple[Process, Peer]]:
    """In a process of its own: offers the file, and rests before each piece."""
    with Process(HOLDER, name, str(path), taker.name, taker.key.public.hex(), str(pause_s)) as process:
        told = process.hear("offers")
        yield process, Peer(name, 1, bytes.fromhex(told["key"]), (told["address"],))


class Wicked:
    """A listener whose key is in the roster and who lets everybody in; what it gives is up to the test."""

    def __init__(self, name: str, give: Callable[[Channel, Get], None]) -> None:
        self.name = name
        self.key = MemberKey.create()
        self.gets: list[Get] = []
        self._give = give
        self._context = listening_context(self.key)
        self._sock = socket.create_server(("127.0.0.1", 0))
        self._lines: list[Channel] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def peer(self) -> Peer:
        return Peer(self.name, 1, self.key.public, (f"127.0.0.1:{self._sock.getsockname()[1]}",))

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                channel = Channel(self._sock.accept()[0], self._context, to_listener, server=True)
                self._lines.append(channel)
                threading.Thread(target=self._serve, args=(channel,), daemon=True).start()

    def _serve(self, channel: Channel) -> None:
        with suppress(Broken):
            channel.greet(PATIENCE_S)
            channel.say(Nonce(bytes(32)), PATIENCE_S)
            channel.hear(PATIENCE_S)
            channel.say(Thanks(), PATIENCE_S)
            while True:
                request: Any = channel.hear(PATIENCE_S, PATIENCE_S)
                self.gets.append(request)
                self._give(channel, request)
        channel.close()

    def close(self) -> None:
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()
        for channel in self._lines:
            channel.cut()


@contextmanager
def wicked(name: str, give: Callable[[Channel, Get], None]) -> Iterator[Wicked]:
    there = Wicked(name, give)
    try:
        yield there
    finally:
        there.close()


def gives(content: bytes) -> Callable[[Channel, Get], None]:
    """These bytes, whatever their digest is."""

    def give(channel: Channel, get: Get) -> None:
        part = content[get.offset : get.offset + get.length]
        channel.say(Have(len(part), len(content)), PATIENCE_S)
        for at in range(0, len(part), 65536):
            channel.send(memoryview(part)[at : at + 65536], PATIENCE_S)

    return give


def lacks(channel: Channel, _get: Get) -> None:
    channel.say(NotHere(), PATIENCE_S)


__all__ = [
    "PATIENCE_S", "QUICK", "Asking", "Site", "Wicked", "gives", "holder", "lacks", "made", "sites", "wait_for",
    "wicked",
]  # fmt: skip

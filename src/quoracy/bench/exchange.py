"""One large blob from member to member, beside a plain copy of the same file over TCP between the same two processes.

The exchange encrypts, proves who is who, writes in stretches and checks the digest of the whole; the copy reads, sends,
receives and writes. Both go from file to file on this machine, by turns; the best of each is compared, since the
machine is shared.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
from blake3 import blake3

from quoracy.core.witnessed.views import Peer, PeersShown
from quoracy.sdk.witnessed.exchange import Fetched, open_exchange
from quoracy.trust.keys import MemberKey

SIZE_BYTES: Final = 256 * 1024 * 1024
TURNS: Final = 15
BUFFER_BYTES: Final = 1024 * 1024
PATIENCE_S: Final = 120.0


class Wish(msgspec.Struct, frozen=True):
    """What the other process is told."""

    path: str
    digest: bytes
    taker: bytes
    """Key of the member that will ask."""


class Given(msgspec.Struct, frozen=True):
    """What it answers."""

    key: bytes
    address: str
    plain_port: int


class Exchanged(msgspec.Struct, frozen=True):
    ratio: float
    """Throughput of the exchange, as a part of that of the copy."""
    against: str
    exchange_mb_per_s: float
    copy_mb_per_s: float


def measure_exchange(size_bytes: int = SIZE_BYTES, turns: int = TURNS) -> Exchanged:
    with tempfile.TemporaryDirectory(prefix="quoracy-bench-", dir=Path.cwd()) as scratch, _all_cores():
        folder = Path(scratch)
        source = folder / "source"
        digest = _written(source, size_bytes)
        key = MemberKey.create()
        with _giver(Wish(str(source), digest, key.public)) as given:
            fetches, copies = [], []
            exchange = open_exchange("taker", key, "")
            try:
                exchange.know(PeersShown(1, (Peer("giver", 1, given.key, (given.address,)),)))
                for _ in range(turns):
                    copies.append(_timed_copy(given.plain_port, folder / "copied", size_bytes))
                    done: list[Fetched] = []
                    came = threading.Event()

                    def on_done(outcome: Fetched, done: list[Fetched] = done, came: threading.Event = came) -> None:
                        done.append(outcome)
                        came.set()

                    began_s = time.perf_counter()
                    exchange.fetch(digest, size_bytes, ("giver",), folder / "fetched", on_done, max_bytes=size_bytes)
                    if not came.wait(PATIENCE_S) or not done[0].ok:
                        raise RuntimeError(f"the exchange did not get the blob: {done or 'no answer'}")
                    fetches.append(time.perf_counter() - began_s)
                    (folder / "fetched").unlink()
            finally:
                exchange.close()
    fetch_s, copy_s = min(fetches), min(copies)
    megabytes = size_bytes / 1e6
    fetched, copied = megabytes / fetch_s, megabytes / copy_s
    against = f"{fetched:,.0f} MB/s, plain copy {copied:,.0f} MB/s; best of {turns} by turns"
    return Exchanged(fetched / copied, against, fetched, copied)


def _written(path: Path, size_bytes: int) -> bytes:
    found, left = blake3(), size_bytes
    with path.open("wb") as file:
        while left:
            piece = secrets.token_bytes(min(left, BUFFER_BYTES))
            found.update(piece)
            file.write(piece)
            left -= len(piece)
    digest: bytes = found.digest()
    return digest


def _timed_copy(port: int, into: Path, size_bytes: int) -> float:
    """As well as one can do it in Python."""
    buffer = bytearray(BUFFER_BYTES)
    view, left = memoryview(buffer), size_bytes
    began_s = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port)) as line, into.open("wb", buffering=0) as file:
        while count := line.recv_into(buffer):
            file.write(view[:count])
            left -= count
    took_s = time.perf_counter() - began_s
    if left:
        raise RuntimeError(f"the copy ended {left} bytes before the file did")
    into.unlink()
    return took_s


@contextmanager
def _giver(wish: Wish) -> Iterator[Given]:
    """The other process."""
    command = [sys.executable, "-m", "quoracy.bench.exchange_giver", msgspec.json.encode(wish).decode()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:  # noqa: S603 - ourselves
        try:
            told = b"" if process.stdout is None else process.stdout.readline()
            if not told:
                raise RuntimeError("the other process ended without a word: see above")
            yield msgspec.json.decode(told, type=Given)
        finally:
            process.kill()


@contextmanager
def _all_cores() -> Iterator[None]:
    """Whatever was measured before: both processes may be on any core."""
    here = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(range(os.cpu_count() or 1)))
    try:
        yield
    finally:
        os.sched_setaffinity(0, here)

"""The store node: a journal, a snapshot and pulses on one simulated disk, asked over the network.

Writes happen one at a time: into the cache, sync, then the answer, which may be lost. A node that loses power forgets
what was not synced; whoever asked does not know, and must find out by the nonce.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from quoracy.core.snapshot import Snapshot
from quoracy.sim.disk import Disk
from quoracy.sim.network import Network
from quoracy.sim.world import MS, World

STORE = "store"


class Write(msgspec.Struct, frozen=True):
    n: int
    payload: bytes
    nonce: bytes


class WriteDone(msgspec.Struct, frozen=True):
    nonce: bytes


class WriteTaken(msgspec.Struct, frozen=True):
    nonce: bytes
    payload: bytes


class WriteFull(msgspec.Struct, frozen=True):
    nonce: bytes


class ReadAll(msgspec.Struct, frozen=True):
    ask: int


class ReadOne(msgspec.Struct, frozen=True):
    ask: int
    n: int


class ReadAnswer(msgspec.Struct, frozen=True):
    ask: int
    snapshot: Snapshot | None
    entries: list[bytes]


class KeepSnapshot(msgspec.Struct, frozen=True):
    snapshot: Snapshot


class KeepBeat(msgspec.Struct, frozen=True):
    key: str
    seq: int


class Look(msgspec.Struct, frozen=True):
    """A follower's poll: what is after entry ``after``, and who beats."""

    after: int


class Seen(msgspec.Struct, frozen=True):
    first: int
    entries: list[bytes]
    beats: dict[str, int]


class Store:
    def __init__(self, world: World, network: Network, run: str, durable: Callable[[int, bytes], None]) -> None:
        self._world = world
        self._network = network
        self._disk = Disk(run)
        self._durable = durable
        self.entries: list[bytes] = []
        self.snapshot: Snapshot | None = None
        self.full = False
        self.sync_us = (200, 3 * MS)
        self._beats: dict[str, int] = {}
        self._queue: deque[tuple[str, Write]] = deque()
        self._syncing = False
        self._life = 0
        self.fails_writing: Callable[[], None] | None = None
        """Called once in the middle of the next write: power is likeliest to be missed there."""
        network.attach(STORE, self.receive)

    def receive(self, source: str, message: Any) -> None:
        match message:
            case Write():
                self._queue.append((source, message))
                self._work()
            case ReadAll(ask=ask):
                start = 0 if self.snapshot is None else self.snapshot.n
                self._answer(source, ReadAnswer(ask, self.snapshot, self.entries[start:]))
            case ReadOne(ask=ask, n=n):
                self._answer(source, ReadAnswer(ask, None, self.entries[n - 1 : n]))
            case KeepSnapshot(snapshot=snapshot):
                if snapshot.n <= len(self.entries) and (self.snapshot is None or self.snapshot.n < snapshot.n):
                    self.snapshot = snapshot
            case KeepBeat(key=key, seq=seq):
                self._beats[key] = max(seq, self._beats.get(key, 0))
            case Look(after=after):
                news = self.entries[after : after + 64]
                self._answer(source, Seen(after + 1, news, dict(self._beats)))

    def _work(self) -> None:
        while self._queue and not self._syncing:
            source, write = self._queue.popleft()
            if write.n <= len(self.entries):
                self._answer(source, WriteTaken(write.nonce, self.entries[write.n - 1]))
            elif write.n > len(self.entries) + 1:
                self._world.note(STORE, lambda n=write.n: f"entry {n} would leave a gap")  # type: ignore[misc]
            elif self.full:
                self._answer(source, WriteFull(write.nonce))
            else:
                self._syncing = True
                self._disk.write(write.n, write.payload)
                sync_us = self._world.between(*self.sync_us)
                self._world.after(sync_us, self._synced, self._life, source, write)
                if self.fails_writing is not None:
                    self._world.after(self._world.between(0, sync_us), self.fails_writing)
                    self.fails_writing = None

    def _synced(self, life: int, source: str, write: Write) -> None:
        if life != self._life:
            return
        self._disk.sync()
        self._syncing = False
        self.entries.append(write.payload)
        self._durable(write.n, write.payload)
        self._world.note(STORE, lambda: f"entry {write.n} is durable, written by {source}")
        self._answer(source, WriteDone(write.nonce))
        self._work()

    def _answer(self, target: str, message: Any) -> None:
        self._network.send(STORE, target, message)

    def lose_power(self) -> None:
        self._life += 1
        self._network.detach(STORE)
        self._disk.lose_power(self._world.rng)
        self._queue.clear()
        self._syncing = False
        self._beats.clear()
        self._world.note(STORE, lambda: f"loses power at entry {len(self.entries)}")

    def restart(self) -> None:
        """What had reached the plate unacknowledged is part of the journal now, as it is on a real disk."""
        before = len(self.entries)
        self.entries = self._disk.recover()
        for n in range(before + 1, len(self.entries) + 1):
            self._durable(n, self.entries[n - 1])
        self._network.attach(STORE, self.receive)
        self._world.note(STORE, lambda: f"is back with {len(self.entries)} entries")

"""The only thing ranks share, and all that can go wrong with it: it is slow, it loses replies, it is out of reach, it
loses its memory.

Every operation happens at one instant. What varies is how long the request is under way before that, how long the reply
is after it, and whether either arrives. Entries that a snapshot covers are deleted; notes, which need not be durable,
may be lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quoracy.core import asks as ops
from quoracy.core.errors import Bug, EntriesGone
from quoracy.core.snapshot import Snapshot
from quoracy.ports.keyvalue import StoreLost
from quoracy.sim.world import World

Reply = Callable[[Any], None]
READ_LIMIT = 8
KEPT_TURNS = 2


class Store:
    def __init__(self, world: World, run: str, durable: Callable[[int, bytes], None]) -> None:
        self.operations = 0
        self.compactions = 0
        self.losses = 0
        """How often it has lost its memory: which store it is."""
        self._run = run
        self._world = world
        self._durable = durable
        self._watching: list[tuple[int, Reply]] = []
        self._awaiting: list[tuple[ops.Await, Reply]] = []
        self._how: dict[type[Any], Callable[[Any], Any]] = {
            ops.Load: self._load, ops.Read: self._read, ops.Append: self._append, ops.Save: self._save,
            ops.Beat: self._beat, ops.Beats: self._beats, ops.Arrive: self._arrive, ops.Arrivals: self._arrivals,
            ops.Tell: self._tell, ops.Post: self._post, ops.Collect: self._collect, ops.Discard: self._discard,
        }  # fmt: skip
        self._begin()

    def _begin(self) -> None:
        """With nothing in it."""
        self.last = 0
        self._entries: dict[int, bytes] = {}
        self._usual: set[int] = set()
        self._turned: set[int] = set()
        """What was told: the entries that are the usual ones, and those after which another one follows."""
        self._floor = 0
        """Entries up to here are deleted."""
        self._snapshot: Snapshot | None = None
        self._notes: dict[str, tuple[int, bytes]] = {}
        self._arrived: dict[int, list[bytes]] = {}
        """By turn. Whatever is asked twice is there twice."""
        self.miscount: dict[int, int] = {}
        """By turn, how many more the store says there are: the count is only a hint."""
        self._letters: dict[tuple[str, int], ops.Letter] = {}
        self._discarded: dict[str, int] = {}

    def lose(self) -> None:
        """Everything is gone, and whoever had a connection is told when it asks the next thing."""
        self.losses += 1
        waiting = [reply for _, reply in (*self._watching, *self._awaiting)]
        self._watching, self._awaiting = [], []
        self._begin()
        for reply in waiting:
            reply(StoreLost("the store has lost its memory"))

    def do(self, op: ops.Op, reply: Reply, known: int | None = None) -> None:
        """Now. A watch replies when there is something, or when its time is over; EntriesGone and StoreLost are
        replies too. ``known``: the store that is meant; another one does nothing."""
        if known not in (None, self.losses):
            reply(StoreLost(f"store {self.losses} answers, and not {known}"))
            return
        self.operations += 1
        if isinstance(op, ops.Watch):
            self._watch(op.after, op.timeout_us, reply)
            return
        if isinstance(op, ops.Await):
            self._await(op, reply)
            return
        try:
            result = self._how[type(op)](op)
        except EntriesGone as gone:
            result = gone
        reply(result)

    def forget_notes(self) -> None:
        self._notes.clear()
        self._arrived.clear()

    # -- journal ----------------------------------------------------------------------------------------------------

    def _load(self, _op: ops.Load) -> tuple[Snapshot | None, list[bytes]]:
        return self._snapshot, [self._entries[n] for n in range(self._floor + 1, self.last + 1)]

    def _read(self, op: ops.Read) -> list[bytes]:
        self._check_there(op.first)
        return [self._entries[n] for n in range(op.first, min(op.first + READ_LIMIT, self.last + 1))]

    def _check_there(self, n: int) -> None:
        if n <= self._floor:
            raise EntriesGone(self._run, n, self._floor + 1)

    def _append(self, op: ops.Append) -> ops.Written | ops.Taken:
        self._check_there(op.n)
        if op.n <= self.last:
            return ops.Taken(self._entries[op.n])
        if op.n != self.last + 1:
            raise Bug(f"entry {op.n} cannot follow entry {self.last}")
        self._entries[op.n] = op.payload
        self.last = op.n
        self._durable(op.n, op.payload)
        watching, self._watching = self._watching, []
        for after, reply in watching:
            if after < op.n:
                reply(op.n)
            else:
                self._watching.append((after, reply))
        return ops.Written()

    def _watch(self, after: int, timeout_us: int, reply: Reply) -> None:
        if self.last > after:
            reply(self.last)
            return
        waiting = (after, reply)
        self._watching.append(waiting)
        self._world.after(timeout_us, self._over, waiting)

    def _over(self, waiting: tuple[int, Reply]) -> None:
        if waiting in self._watching:
            self._watching.remove(waiting)
            waiting[1](self.last)

    def _await(self, op: ops.Await, reply: Reply) -> None:
        """Nobody who awaits the usual sees an entry before it is told of it, or its time is over."""
        waiting = (op, reply)
        self._awaiting.append(waiting)
        if not self._woken(waiting):
            self._world.after(op.timeout_us, self._await_over, waiting)

    def _woken(self, waiting: tuple[ops.Await, Reply]) -> bool:
        op, reply = waiting
        if op.after + 1 in self._usual:
            self._awaiting.remove(waiting)
            reply(ops.Usual())
        elif op.since in self._turned and self.last > op.after:
            self._awaiting.remove(waiting)
            reply(self.last)
        return waiting not in self._awaiting

    def _await_over(self, waiting: tuple[ops.Await, Reply]) -> None:
        if waiting in self._awaiting:
            self._awaiting.remove(waiting)
            waiting[1](self.last)

    def _tell(self, op: ops.Tell) -> None:
        if op.usual:
            self._usual.add(op.n)
            self._usual.discard(op.n - KEPT_TURNS)
        elif op.since is not None:
            self._turned.add(op.since)
        for waiting in list(self._awaiting):
            self._woken(waiting)

    def _save(self, op: ops.Save) -> None:
        if self._snapshot is not None and op.snapshot.n <= self._snapshot.n:
            return
        self.compactions += 1
        self._snapshot = op.snapshot
        for n in range(self._floor + 1, op.snapshot.n + 1):
            del self._entries[n]
        self._floor = op.snapshot.n

    # -- notes ------------------------------------------------------------------------------------------------------

    def _beat(self, op: ops.Beat) -> None:
        if op.seq >= self._notes.get(op.key, (0, b""))[0]:
            self._notes[op.key] = (op.seq, op.note)

    def _beats(self, _op: ops.Beats) -> list[bytes]:
        return [note for _, note in self._notes.values()]

    def _arrive(self, op: ops.Arrive) -> ops.Arrived:
        there = self._arrived.setdefault(op.turn, [])
        there.append(op.note)
        self._arrived.pop(op.turn - KEPT_TURNS, None)
        if op.read:
            self._check_there(op.known)
        count = len(there) + self.miscount.get(op.turn, 0)
        notes = list(there) if count >= op.wanted else []
        return ops.Arrived(count, notes, bool(self._letters), self._entries.get(op.known) if op.read else None)

    def _arrivals(self, op: ops.Arrivals) -> list[bytes]:
        return list(self._arrived.get(op.turn, []))

    # -- letters ----------------------------------------------------------------------------------------------------

    def _post(self, op: ops.Post) -> bool:
        slot = (op.letter.sender, op.letter.seq)
        if slot in self._letters or op.letter.seq <= self._discarded.get(op.letter.sender, 0):
            return False
        self._letters[slot] = op.letter
        return True

    def _collect(self, _op: ops.Collect) -> list[ops.Letter]:
        return [self._letters[slot] for slot in sorted(self._letters)]

    def _discard(self, op: ops.Discard) -> None:
        self._discarded[op.sender] = max(op.upto, self._discarded.get(op.sender, 0))
        for slot in [slot for slot in self._letters if slot[0] == op.sender and slot[1] <= op.upto]:
            del self._letters[slot]

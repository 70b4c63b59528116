"""A host inside every member, without I/O: whoever may append the next entry is whoever wins it.

Peers share nothing but a store: a journal, pulses (small notes under each peer's own key) and a mailbox. Each folds the
journal; each may decide what comes next; all adopt what is written. A peer asks its shell for one store operation at a
time: it is made of generators that yield operations and are sent the results. The simulator and the real drivers are
shells over the same code.

The rules:

- Winning is advancing. A decision is an entry, and there is one entry of each number. Nothing else has to follow for
  the others to go on, so a peer that dies between any two operations leaves nothing half done.
- What a peer proposes is decided on a copy of its fold, or only checked if nobody has commanded anything. If another
  entry came first, the copy is thrown away and that entry is folded.
- An append whose outcome is unknown is looked up by its nonce before anything else.
- Letters (joins, goodbyes) are written into the next entry by whoever writes it, refusals too, so that their senders
  learn of them. The fold knows each by its cause: a letter that is read twice counts once. Only who wrote the entry
  discards: it has folded all that the senders of those letters knew.
- A duty is a letter that is no command: something that one peer makes and all use, under a key that is created once.
- Most entries are what everybody expects: *the usual*, of which everybody knows what comes of it. Whoever has won with
  it says so. Those who wait go on when they are told, and read it with what they ask next: until then it is *unread*.
- Entries below a snapshot may be gone. Whoever needs one of them reads the journal anew, from the snapshot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from quoracy.core.asks import (
    DUTY,
    PAGE,
    Append,
    Arrivals,
    Arrive,
    Arrived,
    Await,
    Beats,
    Collect,
    Command,
    Discard,
    Letter,
    Load,
    Read,
    Save,
    Steps,
    Taken,
    Tell,
    Unread,
    Usual,
    Watch,
    Written,
)
from quoracy.core.batch import Batch, Full
from quoracy.core.codec import NO_DIGEST, Reader, digest
from quoracy.core.errors import Bug, EntriesGone, Refusal
from quoracy.core.journal import (
    MAX_ENTRY_BYTES,
    NONCE_BYTES,
    STATE_DIGEST_EVERY,
    CommandRefused,
    RunCreated,
    chain_seed,
)
from quoracy.core.machine import Collector, Event, Explanation
from quoracy.core.members import Cause, command_digest
from quoracy.core.run import Decided, Kinds, Run, fold

SNAPSHOT_EVERY: Final = 1000
"""Entries between two snapshots. The peer that wrote the entry saves; if it dies first, the next thousandth does."""
MAX_LOADS: Final = 20
"""Each of which found that what the snapshot needs was deleted meanwhile. No store is compacted that often."""

_command: Reader[Command] = Reader(Command, "letter")


class Peer:
    def __init__(
        self, me: str, secret: bytes, kinds: Kinds, created: RunCreated, snapshot_every: int = SNAPSHOT_EVERY
    ) -> None:
        """``created``: the run, if it is not there yet. ``secret``: random bytes of this process."""
        self.me = me
        self.kinds = kinds
        self.created = created
        self.run: Run | None = None
        self.collector: Collector | None = None
        self.now_us = 0
        """Monotonic time of this process: the shell sets it before it goes on with a result."""
        self.folding: Callable[[list[tuple[Cause | None, Event]]], None] | None = None
        """Called with what each entry holds, when it has been folded."""
        self.outdated: Callable[[Letter], bool] = lambda _duty: False
        """Whether nobody needs this duty's letter any more."""
        self.unread: Unread | None = None
        self._turned: int | None = None
        """The last entry that was not the usual one; None if this peer has not folded it."""
        self._secret = secret
        self._drawn = 0
        self._read_us = 0
        self._snapshot_every = snapshot_every
        self._signals: Reader[Any] = Reader(kinds.get(created.kind, created.rules).signals, "signal")
        self._events: Reader[Event] = Reader(kinds.get(created.kind, created.rules).events, "event")

    def draw(self, purpose: bytes) -> bytes:
        """Bytes that nobody else draws, and this peer never twice."""
        self._drawn += 1
        return digest(self._secret, purpose, self._drawn.to_bytes(8, "big"))

    def folded(self) -> tuple[Run, Collector]:
        if self.run is None or self.collector is None:
            raise Bug("a peer that has not read its journal")
        return self.run, self.collector

    # -- reading ----------------------------------------------------------------------------------------------------

    def load(self) -> Steps:
        """Read the journal; begin it if there is none. Others may compact it meanwhile."""
        for _ in range(MAX_LOADS):
            try:
                snapshot, entries = yield Load()
                if snapshot is None and not entries:
                    entries = [(yield from self._begin())]
            except EntriesGone as gone:
                why = gone
                continue
            base = None
            if snapshot is not None:
                base = Run.restore(self.kinds, self.created.run, snapshot.n, snapshot.root, snapshot.pages)
            self._adopt(fold(self.kinds, self.created.run, entries, base))
            return
        raise why

    def _begin(self) -> Steps:
        """-> entry 1, whoever wrote it."""
        run = Run.create(self.kinds, self.created)
        batch = Batch(run, 0, chain_seed(NO_DIGEST, 1), b"")
        batch.write(None, self.created)
        _, payload = batch.entry(self.me, self.draw(b"nonce")[:NONCE_BYTES])
        return (yield from self._append(1, payload))

    def _adopt(self, run: Run | None) -> None:
        if run is None:
            raise Bug("a journal without entries was read")
        self.run = run
        self.collector = run.kind.collector(run.machine, self.now_us)
        self._read_us = self.now_us
        self.unread = self._turned = None

    def catch_up(self, last: int | None = None) -> Steps:
        """Fold what others wrote, up to ``last`` if it is known. -> whether there was anything."""
        run, _ = self.folded()
        before = run.head.n
        yield from self.settle()
        while last is None or run.head.n < last:
            entries = yield Read(run.head.n + 1, PAGE if last is None else min(PAGE, last - run.head.n))
            if not entries:
                break
            for payload in entries:
                self._fold(payload)
        return run.head.n > before

    def _fold(self, payload: bytes, known_us: int | None = None) -> None:
        run, collector = self.folded()
        _, recorded = run.extend(payload)
        self._read_us = self.now_us if known_us is None else known_us
        events = [event for _, event in recorded]
        if not _judged(run, "was_usual", events):
            self._turned = run.head.n
        collector.committed(events, run.machine, self._read_us)
        if self.folding is not None:
            self.folding(recorded)

    def settle(self, payload: bytes | None = None) -> Steps:
        """Fold the entry that is unread, if there is one. ``payload``: as it was read just now."""
        if self.unread is None:
            return
        run, _ = self.folded()
        payload = self.unread.payload or payload
        if payload is None:
            found = yield Read(run.head.n + 1, 1)
            if not found:
                raise Bug(f"run {self.created.run!r}: entry {run.head.n + 1} was said to be there, and is not")
            payload = found[0]
        known_us, self.unread = self.unread.known_us, None
        self._fold(payload, known_us)
        if self._turned == run.head.n:
            raise Bug(f"run {self.created.run!r}: entry {run.head.n} was said to be the usual one, and is not")

    def await_entry(self, timeout_us: int) -> Steps:
        """Until somebody has written, or the time is over. -> whether somebody has."""
        run, _ = self.folded()
        last = yield Watch(run.head.n, timeout_us)
        return (yield from self.catch_up(last))

    def await_usual(self, timeout_us: int) -> Steps:
        """As ``await_entry``, for those who need not read the usual to go on."""
        run, _ = self.folded()
        if self._turned is None:
            return (yield from self.await_entry(timeout_us))
        found = yield Await(run.head.n, self._turned, timeout_us)
        if isinstance(found, Usual):
            self.unread = Unread(self.now_us)
            return True
        return (yield from self.catch_up(found))

    def look(self) -> Steps:
        """See what everybody's notes say now."""
        notes = yield Beats()
        self.observe(notes, self.now_us)

    def arrive(self, turn: int, note: bytes, wanted: int) -> Steps:
        """Leave a note, and read what is unread. -> Arrived"""
        known = self.folded()[0].head.n + (self.unread is not None)
        read = self.unread is not None and self.unread.payload is None
        arrived: Arrived = yield Arrive(turn, self.me, note, wanted, known, read)
        yield from self.settle(arrived.entry)
        return arrived

    def gather(self, turn: int) -> Steps:
        """See who has arrived."""
        notes = yield Arrivals(turn)
        self.observe(notes, self.now_us)

    def observe(self, notes: list[bytes], at_us: int) -> None:
        """Notes as they were read at that time. One that means nothing to this fold, such as an older life's, is
        passed over."""
        run, collector = self.folded()
        for note in notes:
            signal = self._signals.read(note)
            if not isinstance(signal, Refusal):
                collector.hear(signal, run.machine, at_us)

    # -- deciding ---------------------------------------------------------------------------------------------------

    def propose(self, look: bool = True) -> Steps:
        """Write the next entry: what is in the mailbox, and what is due. -> whether there is a new one now, whoever
        wrote it. ``look``: whether there may be anything in the mailbox."""
        yield from self.settle()
        letters: list[Letter] = (yield Collect()) if look else []
        duties = [letter for letter in letters if letter.sender.startswith(DUTY)]
        commands = [letter for letter in letters if not letter.sender.startswith(DUTY)]
        run, collector = self.folded()
        due = [] if commands else collector.due(run.machine, self.now_us)
        if not commands and not due:
            return False
        over: list[Letter] = []
        batch = None if commands else self._record_alone(due)
        if batch is None:
            batch = self._batch(self._copy())
            over = self._write_in(commands, batch)
            self._write_due(due or collector.due(batch.run.machine, self.now_us), batch)
        if not batch.recorded:
            return False
        _, payload = batch.entry(self.me, self.draw(b"nonce")[:NONCE_BYTES])
        there = yield from self._append(batch.n, payload)
        if there != payload:
            since = self._turned
            self._fold(there)
            if since is not None and self._turned == batch.n:  # whoever wrote it may not have known whom to tell
                yield Tell(batch.n, False, since)
            return True
        usual = not commands and _judged(run, "usual", due)
        yield Tell(batch.n, usual, self._turned)
        if usual and not duties and batch.n % self._snapshot_every:
            self.unread = Unread(self.now_us, payload)
            return True
        self._fold(payload)
        yield from self._tidy([*over, *(duty for duty in duties if self.outdated(duty))])
        return True

    def would(self, cause: Cause, event: Event) -> Decided | Refusal | Any:
        """What the fold as it is would answer."""
        return self._batch(self._copy()).decide(cause, event)

    def _batch(self, copy: Run) -> Batch:
        head = copy.head
        n = head.n + 1
        at_us = head.at_us + max(0, self.now_us - self._read_us)
        state = copy.state_digest() if n % STATE_DIGEST_EVERY == 0 else b""
        return Batch(copy, at_us, chain_seed(head.digest, n), state)

    def _copy(self) -> Run:
        run, _ = self.folded()
        saved = run.snapshot()
        return Run.restore(self.kinds, run.head.run, saved.n, saved.root, saved.pages)

    def _record_alone(self, due: list[Event]) -> Batch | None:
        """An entry with this one event in it, which is checked and not applied: it is folded when it was written. None
        if it takes more than that."""
        run, _ = self.folded()
        check = getattr(run.machine, "check", None)
        if check is None or len(due) != 1:
            return None
        if (refusal := check(due[0])) is not None:
            raise self._refused(due[0], refusal)
        batch = self._batch(run)
        batch.write(None, due[0])
        return batch if batch.size_bytes < MAX_ENTRY_BYTES // 2 else None

    def _write_due(self, due: list[Event], batch: Batch) -> None:
        for event in due:
            decided = batch.decide(None, event)
            if decided is Full.FULL:
                break
            if not isinstance(decided, Decided):
                raise self._refused(event, decided)

    def _refused(self, event: Event, answer: Any) -> Bug:
        return Bug(f"run {self.created.run!r}: {self.me} proposed {event}, which was answered {answer}")

    def _write_in(self, letters: list[Letter], batch: Batch) -> list[Letter]:
        """-> those that are done with once the entry is written. A letter that came before the one its sender wrote
        earlier waits, and so does what no longer fits."""
        over: list[Letter] = []
        for letter in letters:
            decided = self._write_one(letter, batch)
            if decided is Full.FULL:
                break
            if not (isinstance(decided, Refusal) and decided.code == "sequence_gap"):
                over.append(letter)
        return over

    def _write_one(self, letter: Letter, batch: Batch) -> Any:
        command = _command.read(letter.payload)
        if isinstance(command, Refusal):
            return command
        event = self._events.read(command.event)
        decided = event if isinstance(event, Refusal) else batch.decide(command.cause, event)
        joins = not isinstance(event, Refusal) and event.joins
        if isinstance(decided, Refusal) and not joins:
            said = command_digest(command.event if isinstance(event, Refusal) else event)
            kept = batch.decide(command.cause, CommandRefused(decided, said))
            return kept if kept is Full.FULL else decided
        return decided

    def _append(self, n: int, payload: bytes) -> Steps:
        """-> the entry that is there now, ours or not."""
        while True:
            outcome = yield Append(n, payload)
            if isinstance(outcome, Written):
                return payload
            if isinstance(outcome, Taken):
                return outcome.payload
            found = yield Read(n, 1)
            if found:
                return found[0]

    def _tidy(self, letters: list[Letter]) -> Steps:
        """We wrote the entry: what it consumed is discarded, and now and then a snapshot is kept. If we die before,
        whoever writes the next entry finds the same letters, answered, and discards them."""
        run, _ = self.folded()
        newest: dict[str, int] = {}
        for letter in letters:
            newest[letter.sender] = max(letter.seq, newest.get(letter.sender, 0))
        for sender, seq in newest.items():
            yield Discard(sender, seq)
        if run.head.n % self._snapshot_every == 0:
            yield Save(run.snapshot())

    def explain(self) -> Explanation:
        run, collector = self.folded()
        return collector.explain(run.machine, self.now_us)


def _judged(run: Run, how: str, events: list[Event]) -> bool:
    judge = getattr(run.machine, how, None)  # a kind need not have anything that is usual
    return judge is not None and bool(judge(events))

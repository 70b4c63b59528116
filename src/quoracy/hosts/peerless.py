"""The peerless host's shell: carries out what a peer asks of its store, and stops in time when there is none.

Everything blocks, in the caller's thread. An operation that fails is tried again, except an append whose outcome is
unknown, which the peer itself looks up. A rank whose operations have failed for ``times.stop_s`` stops by itself,
before the others give it up. A store that says something is broken for good is believed at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from quoracy.core import asks as ops
from quoracy.core.asks import Steps
from quoracy.core.errors import (
    EntriesGone,
    JournalBroken,
    JournalCorrupt,
    JournalError,
    JournalGap,
    JournalNewer,
    JournalOlder,
    OutcomeUnknown,
    QuoracyError,
)
from quoracy.core.peer import Peer
from quoracy.core.ranks.times import Times
from quoracy.hosts.carry import read_run
from quoracy.ports import Append, Appended, Beat, Journal, Letter, Mailbox, Pulse, Saved
from quoracy.ports.keyvalue import StoreLost
from quoracy.ports.meeting import Meeting
from quoracy.ports.pulse import Gathered, Gathering

PAUSE_S: Final = 0.05
"""Between two tries of an operation that failed at once."""
PLACE: Final = "attempt"
"""Where ranks arrive."""
FOR_GOOD: Final = (JournalBroken, JournalCorrupt, JournalNewer, JournalOlder, JournalGap)
"""Trying again would not help."""
_FIXES: Final = {
    "journal_full": "make room in the store, and start the rank again",
    "journal_broken": "see to the store, and start the rank again",
    "journal_corrupt": "see what quoracy journal verify says of it",
    "journal_newer": "use a newer Quoracy",
    "journal_older": "begin anew: with another run, or another store",
    "journal_gap": "the store has lost entries: restore it, or begin a new run",
}


class OutOfReach(QuoracyError):
    """The store does not answer, or not as it should, and this peer has stopped itself in time."""

    code = "unreachable"

    def __init__(self, why: str, fix: str, code: str = "unreachable") -> None:
        super().__init__(f"{why}; {fix}")
        self.why = why
        self.fix = fix
        self.code = code


def fix_of(error: QuoracyError) -> str:
    """What to do about a store that said this."""
    return _FIXES.get(error.code, "start the store, or mend the way to it, and start the rank again")


class Shared:
    """What peers have in common: three ports on one store. ``count`` counts operations, for those who measure."""

    def __init__(self, journal: Journal, pulse: Pulse, mailbox: Mailbox) -> None:
        self.journal = journal
        self.pulse = pulse
        self.mailbox = mailbox
        self.gathering: Gathering = pulse if isinstance(pulse, Gathering) else Gathered(pulse)
        self.meeting: Meeting | None = getattr(journal, "meeting", None)
        self.count = 0

    def close(self) -> None:
        for port in (self.journal, self.pulse, self.mailbox):
            port.close()


class Peerless:
    def __init__(self, shared: Shared, run: str, times: Times) -> None:
        self.shared = shared
        self.run = run
        self.times = times
        self.before: Callable[[ops.Op], None] | None = None
        self.after: Callable[[ops.Op], None] | None = None
        """Called around every operation; where tests kill the process."""
        self._failing_s: float | None = None
        """When the first of the operations began that have failed since the last that did not."""

    def drive(self, peer: Peer, steps: Steps, between: Callable[[], None] | None = None) -> Any:
        """Until the steps are done; returns what they return. ``between`` is called before each result is handed over,
        and between two tries: what was heard meanwhile, and whether to go on at all."""
        result: Any = None
        gone: EntriesGone | None = None
        self._failing_s = None
        while True:
            if between is not None:
                between()
            peer.now_us = time.monotonic_ns() // 1000
            try:
                op = steps.send(result) if gone is None else steps.throw(gone)
            except StopIteration as done:
                return done.value
            result, gone = None, None
            try:
                result = self.carry_out(op, between)
            except EntriesGone as error:
                gone = error

    def carry_out(self, op: ops.Op, between: Callable[[], None] | None = None) -> Any:
        """Try until it is done, or the time is over. Raises OutOfReach, EntriesGone for what can be read no more,
        and StoreLost."""
        while True:
            if self.before is not None:
                self.before(op)
            began_s = time.monotonic()
            try:
                result = self._once(op)
            except (EntriesGone, StoreLost):
                raise
            except OutcomeUnknown as error:
                if isinstance(op, ops.Append):
                    return ops.Unclear()
                self._failed(error, began_s)
            except FOR_GOOD as error:
                raise OutOfReach(f"the store failed: {error}", fix_of(error), error.code) from None
            except JournalError as error:
                self._failed(error, began_s)
            else:
                self._failing_s = None
                if self.after is not None:
                    self.after(op)
                return result
            time.sleep(min(PAUSE_S, self.times.op_s / 4))
            if between is not None:
                between()

    def _failed(self, error: JournalError, began_s: float) -> None:
        """Whoever waited for longer than the others do stood still itself. It has been given up, or will read that it
        has not: what failed meanwhile says nothing of the store as it is now."""
        now_s = time.monotonic()
        self._failing_s = began_s if self._failing_s is None else self._failing_s
        if now_s - self._failing_s > self.times.dead_s:
            self._failing_s = now_s
        self.check_reach(now_s - self._failing_s, str(error))

    def check_reach(self, silent_s: float, why: str) -> None:
        """Raises OutOfReach if the store has been silent for too long."""
        if silent_s < self.times.stop_s:
            return
        stops = f"the others give this rank up after {self.times.dead_s:g} s, so it stops now"
        fix = "start the store, or mend the way to it, and start the rank again"
        raise OutOfReach(f"no word from the store for {silent_s:.1f} s ({why}); {stops}", fix)

    def _once(self, op: ops.Op) -> Any:
        self.shared.count += 1
        return _HOW[type(op)](self, op)

    def _append(self, op: ops.Append) -> ops.Written | ops.Taken:
        (outcome,) = self.shared.journal.append([Append(self.run, op.n, op.payload)])
        return ops.Written() if isinstance(outcome, Appended) else ops.Taken(outcome.payload)

    def _watch(self, op: ops.Watch) -> int:
        return self.shared.journal.watch(self.run, op.after, op.timeout_us / 1e6)

    def _read(self, op: ops.Read) -> list[bytes]:
        return self.shared.journal.read(self.run, op.first, op.limit)

    def _load(self, _op: ops.Load) -> Any:
        return read_run(self.shared.journal, self.run)

    def _beat(self, op: ops.Beat) -> None:
        self.shared.pulse.beat(self.run, op.key, Beat(op.seq, op.note))

    def _beats(self, _op: ops.Beats) -> list[bytes]:
        return [beat.note for beat in self.shared.pulse.beats(self.run).values()]

    def _await(self, op: ops.Await) -> int | ops.Usual:
        """Where nobody can be told, whoever waits watches the journal."""
        journal, meeting, timeout_s = self.shared.journal, self.shared.meeting, op.timeout_us / 1e6
        if meeting is None:
            return journal.watch(self.run, op.after, timeout_s)
        began_s = time.monotonic()
        usual = meeting.wait(self.run, op.after, op.since, timeout_s)
        if usual:
            return ops.Usual()
        left_s = 0.0 if usual is None else timeout_s - (time.monotonic() - began_s)
        return journal.watch(self.run, op.after, left_s)

    def _tell(self, op: ops.Tell) -> None:
        if self.shared.meeting is not None:
            self.shared.meeting.tell(self.run, op.n, op.usual, op.since)

    def _arrive(self, op: ops.Arrive) -> ops.Arrived:
        meeting = self.shared.meeting
        if meeting is None:
            return ops.Arrived(self.shared.gathering.arrive(self.run, PLACE, op.turn, op.who, op.note))
        met = meeting.arrive(self.run, PLACE, op.turn, op.note, op.wanted, op.known, op.read)
        return ops.Arrived(met.count, met.notes, met.letters, met.entry)

    def _arrivals(self, op: ops.Arrivals) -> list[bytes]:
        return self.shared.gathering.arrivals(self.run, PLACE, op.turn)

    def _post(self, op: ops.Post) -> bool:
        return self.shared.mailbox.post(self.run, Letter(op.letter.sender, op.letter.seq, op.letter.payload))

    def _collect(self, _op: ops.Collect) -> list[ops.Letter]:
        found = self.shared.mailbox.collect(self.run)
        return [ops.Letter(letter.sender, letter.seq, letter.payload) for letter in found]

    def _discard(self, op: ops.Discard) -> None:
        self.shared.mailbox.discard(self.run, op.sender, op.upto)

    def _save(self, op: ops.Save) -> None:
        """What the snapshot covers is deleted: ranks live on, and their store may be somebody's memory."""
        journal, snapshot = self.shared.journal, op.snapshot
        journal.save_snapshot(self.run, Saved(snapshot.n, snapshot.root, snapshot.pages))
        journal.compact(self.run, snapshot.n, keep_segments=0)


_HOW: Final[dict[type[Any], Callable[[Peerless, Any], Any]]] = {
    ops.Append: Peerless._append, ops.Watch: Peerless._watch, ops.Await: Peerless._await, ops.Tell: Peerless._tell,
    ops.Read: Peerless._read, ops.Load: Peerless._load,
    ops.Save: Peerless._save, ops.Beat: Peerless._beat, ops.Beats: Peerless._beats, ops.Arrive: Peerless._arrive,
    ops.Arrivals: Peerless._arrivals, ops.Post: Peerless._post, ops.Collect: Peerless._collect,
    ops.Discard: Peerless._discard,
}  # fmt: skip

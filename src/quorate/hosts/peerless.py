"""The peerless host's shell: carries out what a peer asks of its store, and stops in time when there is none.

Everything blocks, in the caller's thread. An operation that fails is tried again, except an append whose outcome is
unknown, which the peer itself looks up. A rank whose operations have failed for ``times.stop_s`` stops by itself,
before the others give it up. A store that says something is broken for good is believed at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from quorate.core import peer as ops
from quorate.core.errors import (
    EntriesGone,
    JournalBroken,
    JournalCorrupt,
    JournalError,
    JournalGap,
    JournalNewer,
    OutcomeUnknown,
    QuorateError,
)
from quorate.core.peer import Peer, Steps
from quorate.core.ranks.times import Times
from quorate.core.snapshot import Snapshot
from quorate.hosts.carry import read_run
from quorate.ports import Append, Appended, Beat, Journal, Letter, Mailbox, Pulse, Saved
from quorate.ports.keyvalue import StoreLost

PAUSE_S: Final = 0.05
"""Between two tries of an operation that failed at once."""
FOR_GOOD: Final = (JournalBroken, JournalCorrupt, JournalNewer, JournalGap)
"""Trying again would not help."""
_FIXES: Final = {
    "journal_full": "make room in the store, and start the rank again",
    "journal_broken": "see to the store, and start the rank again",
    "journal_corrupt": "see what quorate journal verify says of it",
    "journal_newer": "use a newer Quorate",
    "journal_gap": "the store has lost entries: restore it, or begin a new run",
}


class OutOfReach(QuorateError):
    """The store does not answer, or not as it should, and this peer has stopped itself in time."""

    code = "unreachable"

    def __init__(self, why: str, fix: str, code: str = "unreachable") -> None:
        super().__init__(f"{why}; {fix}")
        self.why = why
        self.fix = fix
        self.code = code


def fix_of(error: QuorateError) -> str:
    """What to do about a store that said this."""
    return _FIXES.get(error.code, "start the store, or mend the way to it, and start the rank again")


class Shared:
    """What peers have in common: three ports on one store. ``count`` counts operations, for those who measure."""

    def __init__(self, journal: Journal, pulse: Pulse, mailbox: Mailbox) -> None:
        self.journal = journal
        self.pulse = pulse
        self.mailbox = mailbox
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
        self._failing_s = began_s if self._failing_s is None else self._failing_s
        self.check_reach(time.monotonic() - self._failing_s, str(error))

    def check_reach(self, silent_s: float, why: str) -> None:
        """Raises OutOfReach if the store has been silent for too long."""
        if silent_s < self.times.stop_s:
            return
        stops = f"the others give this rank up after {self.times.dead_s:g} s, so it stops now"
        fix = "start the store, or mend the way to it, and start the rank again"
        raise OutOfReach(f"no word from the store for {silent_s:.1f} s ({why}); {stops}", fix)

    def _once(self, op: ops.Op) -> Any:
        shared, run = self.shared, self.run
        shared.count += 1
        match op:
            case ops.Append(n=n, payload=payload):
                (outcome,) = shared.journal.append([Append(run, n, payload)])
                return ops.Written() if isinstance(outcome, Appended) else ops.Taken(outcome.payload)
            case ops.Watch(after=after, timeout_us=timeout_us):
                return shared.journal.watch(run, after, timeout_us / 1e6)
            case ops.Read(first=first, limit=limit):
                return shared.journal.read(run, first, limit)
            case ops.Load():
                return read_run(shared.journal, run)
            case ops.Save(snapshot=snapshot):
                return self._save(snapshot)
            case _:
                return self._post(op)

    def _post(self, op: ops.Op) -> Any:
        shared, run = self.shared, self.run
        match op:
            case ops.Beat(key=key, seq=seq, note=note):
                return shared.pulse.beat(run, key, Beat(seq, note))
            case ops.Beats():
                return [beat.note for beat in shared.pulse.beats(run).values()]
            case ops.Tally(turn=turn):
                return shared.pulse.tally(run, "attempt", turn)
            case ops.Post(letter=letter):
                return shared.mailbox.post(run, Letter(letter.sender, letter.seq, letter.payload))
            case ops.Collect():
                found = shared.mailbox.collect(run)
                return [ops.Letter(letter.sender, letter.seq, letter.payload) for letter in found]
            case ops.Discard(sender=sender, upto=upto):
                return shared.mailbox.discard(run, sender, upto)
        raise TypeError(f"no such operation: {op}")

    def _save(self, snapshot: Snapshot) -> None:
        """What the snapshot covers is deleted: ranks live on, and their store may be somebody's memory."""
        journal = self.shared.journal
        journal.save_snapshot(self.run, Saved(snapshot.n, snapshot.root, snapshot.pages))
        journal.compact(self.run, snapshot.n, keep_segments=0)

"""Meetings over a bare store: arriving is one trip, and being let go on is no more than a key that comes to exist.

    <run>/tally/<place>/notes/<turn>   the notes of one turn, one behind the other
    <run>/usual/<n>                    entry n is the usual one after n-1
    <run>/turned/<m>                   after entry m, which was not, another one follows that is not

Whoever waits for entry n has everything before it, so it waits for ``usual/<n>`` and for the one ``turned`` key that
can come. ``usual`` keys are removed by the first who comes in the next turn, or by whoever writes an entry that is not
the usual one; of ``turned`` keys, which are few, each handle leaves one behind.
"""

from __future__ import annotations

from collections.abc import Callable

from quoracy.ports import MAX_NOTE_BYTES
from quoracy.ports.meeting import Met
from quoracy.stores.keyvalue.entries import Entries
from quoracy.stores.keyvalue.marks import Marks
from quoracy.stores.keyvalue.notes import count_of, frame, kept_from, unframe
from quoracy.stores.keyvalue.session import Session
from quoracy.stores.keyvalue.steps import Announce, AppendThenGet, Delete, Steps
from quoracy.stores.limits import bounded, named, numbered


class KeyValueMeeting:
    def __init__(self, session: Session, entries: Callable[[str], Entries], learn: Callable[[str, int], int]) -> None:
        """``entries`` of a run, and ``learn`` that an entry of it is there: the journal's."""
        self._session = session
        self._entries = entries
        self._learn = learn
        self._of_runs: dict[str, Marks] = {}
        self._turned: dict[str, int] = {}
        """By run: the last ``turned`` key that this handle has announced, which goes with the next."""

    def arrive(self, run: str, place: str, turn: int, note: bytes, wanted: int, known: int, read: bool) -> Met:
        named(place, "a place")
        numbered(turn, 0, "a turn")
        bounded(note, 0, MAX_NOTE_BYTES, "a note")
        return self._session.run(self._arrive(self._entries(run), place, turn, note, wanted, known, read))

    def wait(self, run: str, after: int, since: int, timeout_s: float) -> bool | None:
        entries = self._entries(run)
        usual = entries.keys.usual(after + 1)
        found = self._session.wait_either(usual, entries.keys.turned(since), timeout_s)
        if found == usual:
            self._learn(run, after + 1)
        return None if found is None else found == usual

    def tell(self, run: str, n: int, usual: bool, since: int | None) -> None:
        entries = self._entries(run)
        self._session.run(entries.tell(n) if usual else self._tell_of_another(entries, n, since))

    # -- the algorithms -----------------------------------------------------------------------------------------------

    def _arrive(
        self, entries: Entries, place: str, turn: int, note: bytes, wanted: int, known: int, read: bool
    ) -> Steps[Met]:  # fmt: skip
        keys = entries.keys
        key, mine = keys.notes(place, turn), frame(note)
        asked = (key, keys.posted, keys.emptied, *(entries.watched(known, 1) if read else ()))
        there, posted, emptied, *entry = yield AppendThenGet(key, mine, asked, keys.usual(known + 1))
        there = there or mine
        if there == mine:  # nobody was here before
            yield Delete(keys.notes(place, kept_from(turn) - 1))
            yield Delete(keys.usual(known - 1))
        payload = None
        if read:
            (payload,) = entries.judged(known, entry[:1], entries.floor_of(entry[1])) or (None,)
        if payload is not None:
            self._learn(keys.run, known)
        count = count_of(there)
        letters = int(posted or 0) > self._marks(keys.run).read(emptied, keys.emptied)
        return Met(count, unframe(there) if count >= wanted else [], letters, payload)

    def _marks(self, run: str) -> Marks:
        known = self._of_runs.get(run)
        if known is None:
            known = self._of_runs[run] = Marks(run)
        return known

    def _tell_of_another(self, entries: Entries, n: int, since: int | None) -> Steps[None]:
        keys = entries.keys
        if since is not None:
            yield Announce(keys.turned(since))
            before = self._turned.get(keys.run)
            if before is not None:
                yield Delete(keys.turned(before))
            self._turned[keys.run] = since
        yield Delete(keys.usual(n - 1))

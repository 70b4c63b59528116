"""Beats over a bare store: one key each, replaced by compare-and-set.

Notes that are left at a place are one value for each turn: see ``notes``.

Whoever beats alone under its key needs one operation for each beat: it knows what is stored, since it stored it. Give a
pulse a connection of its own, so that a beat never waits behind a journal that is being read.
"""

from __future__ import annotations

from quoracy.ports import MAX_NOTE_BYTES, Beat
from quoracy.ports.keyvalue import KeyValue
from quoracy.stores.keyvalue.keys import Sealed, part
from quoracy.stores.keyvalue.notes import frame, kept_from, unframe
from quoracy.stores.keyvalue.roll import Roll
from quoracy.stores.keyvalue.session import PREFIX, Session
from quoracy.stores.keyvalue.steps import Add, AppendThenGet, Create, Delete, Get, GetMany, Step, Steps, Swap
from quoracy.stores.limits import bounded, named, numbered, run_name


class KeyValuePulse:
    def __init__(self, store: KeyValue, prefix: str = PREFIX, store_id: bytes | None = None) -> None:
        self._session = Session(store, prefix, store_id)
        self._rolls: dict[str, Roll] = {}
        self._mine: dict[tuple[str, str], bytes] = {}
        self._turns: dict[tuple[str, str], int] = {}

    def beat(self, run: str, key: str, beat: Beat) -> None:
        run_name(run)
        named(key, "a beater's key")
        numbered(beat.seq, 0, "a beat's sequence number")
        bounded(beat.note, 0, MAX_NOTE_BYTES, "a note")
        self._session.run(self._beat(run, key, beat))

    def beats(self, run: str) -> dict[str, Beat]:
        run_name(run)
        return self._session.run(self._beats(run))

    def forget(self, run: str, key: str) -> None:
        run_name(run)
        named(key, "a beater's key")
        self._session.run(self._forget(run, key))

    def tally(self, run: str, place: str, turn: int) -> int:
        run_name(run)
        named(place, "a place")
        numbered(turn, 0, "a turn")
        return self._session.run(self._tally(run, place, turn))

    def arrive(self, run: str, place: str, turn: int, who: str, note: bytes) -> int:
        run_name(run)
        named(place, "a place")
        named(who, "a comer's name")
        numbered(turn, 0, "a turn")
        bounded(note, 0, MAX_NOTE_BYTES, "a note")
        return self._session.run(self._arrive(run, place, turn, note))

    def arrivals(self, run: str, place: str, turn: int) -> list[bytes]:
        run_name(run)
        named(place, "a place")
        numbered(turn, 0, "a turn")
        return self._session.run(self._arrivals(run, place, turn))

    def close(self) -> None:
        self._session.close()

    def _beat(self, run: str, key: str, beat: Beat) -> Steps[None]:
        yield from self._roll(run).enter(key)
        place, sealed = self._place(run, key), Sealed("beat", run)
        wanted = sealed.seal(b"%d " % beat.seq + beat.note, name=key)
        found = self._mine.get((run, key))
        if found is not None and _decode(sealed.open(found, place, name=key)).seq > beat.seq:
            found = None  # a late one: whether it counts is for the store to say, which may have been told to forget
        while True:
            step: Step = Create(place, wanted) if found is None else Swap(place, found, wanted)
            found = yield step
            if found == wanted:
                self._mine[run, key] = wanted
                return
            if found is not None and _decode(sealed.open(found, place, name=key)).seq > beat.seq:
                return

    def _beats(self, run: str) -> Steps[dict[str, Beat]]:
        names = yield from self._roll(run).names()
        places = tuple(self._place(run, key) for key in names)
        values = yield GetMany(places)
        sealed = Sealed("beat", run)
        found = {
            key: _decode(sealed.open(value, place, name=key))
            for key, place, value in zip(names, places, values, strict=True)
            if value is not None
        }
        return dict(sorted(found.items()))

    def _forget(self, run: str, key: str) -> Steps[None]:
        self._mine.pop((run, key), None)
        yield Delete(self._place(run, key))

    def _tally(self, run: str, place: str, turn: int) -> Steps[int]:
        """A counter for each turn. Whoever comes first removes the one of the turn before, if it was there."""
        base = f"{self._session.keys(run).base}/tally/{part(place)}"
        count: int = yield Add(f"{base}/{turn}", 1)
        before = self._turns.get((run, place), turn)
        if before < turn and count == 1:
            yield Delete(f"{base}/{before}")
        self._turns[run, place] = max(before, turn)
        return count

    def _arrive(self, run: str, place: str, turn: int, note: bytes) -> Steps[int]:
        """Whoever comes first removes what is left of the turn before the last, in which nobody is interested any
        more."""
        keys = self._session.keys(run)
        key, mine = keys.notes(place, turn), frame(note)
        (there,) = yield AppendThenGet(key, mine, (key,))
        if there == mine:
            yield Delete(keys.notes(place, kept_from(turn) - 1))
        return len(unframe(there or mine))

    def _arrivals(self, run: str, place: str, turn: int) -> Steps[list[bytes]]:
        there = yield Get(self._session.keys(run).notes(place, turn))
        return unframe(there or b"")

    def _roll(self, run: str) -> Roll:
        return self._rolls.setdefault(run, Roll(f"{self._session.keys(run).base}/beaters", run))

    def _place(self, run: str, key: str) -> str:
        return f"{self._session.keys(run).base}/beat/{part(key)}"


def _decode(body: bytes) -> Beat:
    seq, _, note = body.partition(b" ")
    return Beat(int(seq), note)

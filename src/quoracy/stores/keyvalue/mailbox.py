"""Letters over a bare store.

A letter is one key, created once. Which letters of a sender wait, and up to where they were discarded, is one small
record per sender, changed by compare-and-set. It is the journal's floor again: discarding changes the record first and
deletes letters afterwards, and whoever creates or reads a letter looks at the record afterwards, so that a poster which
was paused brings nothing back.

A letter counts once the record names it, and is looked for once it was counted. A poster that dies before leaves a
letter that nobody sees, and a repeat of the post finishes it. Whoever collects and finds nothing need not look again
before the count has changed: that is one question instead of one for each sender. It also leaves a mark, so that nobody
else need look either.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

import msgspec

from quoracy.core.errors import JournalCorrupt
from quoracy.ports import MAX_LETTER_BYTES, Letter
from quoracy.ports.keyvalue import KeyValue
from quoracy.stores.keyvalue.keys import NONCE_BYTES, Sealed, part
from quoracy.stores.keyvalue.marks import Marks
from quoracy.stores.keyvalue.roll import Roll
from quoracy.stores.keyvalue.session import PREFIX, Session
from quoracy.stores.keyvalue.steps import Add, Create, Delete, Get, GetMany, Step, Steps, Swap
from quoracy.stores.limits import bounded, named, numbered, run_name


class Box(msgspec.Struct, frozen=True, array_like=True):
    """What waits of one sender: letters ``waiting``, in order; those up to ``discarded`` are gone."""

    discarded: int = 0
    waiting: tuple[int, ...] = ()

    def settled(self, seq: int) -> bool:
        return seq <= self.discarded or seq in self.waiting

    def with_letter(self, seq: int) -> Box:
        return Box(self.discarded, tuple(sorted((*self.waiting, seq))))

    def without(self, upto: int) -> Box:
        return Box(max(upto, self.discarded), tuple(seq for seq in self.waiting if seq > upto))


Change = Callable[[Box], Box]
_box = msgspec.msgpack.Decoder(Box)


class KeyValueMailbox:
    def __init__(self, store: KeyValue, prefix: str = PREFIX, store_id: bytes | None = None) -> None:
        self._session = Session(store, prefix, store_id)
        self._rolls: dict[str, Roll] = {}
        self._empty: dict[str, int] = {}
        """By run: how many had been posted before it was found empty."""

    def post(self, run: str, letter: Letter) -> bool:
        run_name(run)
        named(letter.sender, "a sender's name")
        numbered(letter.seq, 1, "a letter's sequence number")
        bounded(letter.payload, 0, MAX_LETTER_BYTES, "a letter")
        return self._session.run(self._post(_Slots(self._session, run, letter.sender), letter))

    def collect(self, run: str, limit: int = 1000) -> list[Letter]:
        run_name(run)
        numbered(limit, 0, "a limit")
        return self._session.run(self._collect(run, limit))

    def discard(self, run: str, sender: str, upto: int) -> None:
        run_name(run)
        named(sender, "a sender's name")
        numbered(upto, 0, "a letter's sequence number")
        self._session.run(self._discard(_Slots(self._session, run, sender), upto))

    def close(self) -> None:
        self._session.close()

    def _post(self, slots: _Slots, letter: Letter) -> Steps[bool]:
        seq = letter.seq
        yield from self._roll(slots.run).enter(letter.sender)
        mine = slots.seal(seq, secrets.token_bytes(NONCE_BYTES) + letter.payload)
        stored = yield Create(slots.letter(seq), mine)
        box = yield from slots.change(lambda box: box if box.settled(seq) else box.with_letter(seq))
        if seq <= box.discarded:
            yield Delete(slots.letter(seq))
            return False
        yield Add(self._session.keys(slots.run).posted, 1)
        return bool(stored == mine)

    def _collect(self, run: str, limit: int) -> Steps[list[Letter]]:
        posted = yield Add(self._session.keys(run).posted, 0)
        if not posted or self._empty.get(run) == posted:
            return []
        letters: list[Letter] = []
        senders = yield from self._roll(run).names()
        slots = [_Slots(self._session, run, sender) for sender in sorted(senders)]
        boxes = yield GetMany(tuple(each.record for each in slots))
        for each, found in zip(slots, boxes, strict=True):
            if len(letters) < limit and each.decode(found).waiting:
                letters += yield from each.letters(limit - len(letters))
        if not letters and limit:
            self._empty[run] = posted
            yield from Marks(run).lift(self._session.keys(run).emptied, posted)
        return letters

    def _discard(self, slots: _Slots, upto: int) -> Steps[None]:
        yield from self._roll(slots.run).enter(slots.sender)
        before = yield from slots.box()
        yield from slots.change(lambda box: box.without(upto))
        for seq in before.waiting:
            if seq <= upto:
                yield Delete(slots.letter(seq))

    def _roll(self, run: str) -> Roll:
        return self._rolls.setdefault(run, Roll(f"{self._session.keys(run).base}/senders", run))


class _Slots:
    """One sender's record and letters."""

    def __init__(self, session: Session, run: str, sender: str) -> None:
        base = session.keys(run).base
        self.run = run
        self.sender = sender
        self.record = f"{base}/box/{part(sender)}"
        self._letters = f"{base}/letter/{part(sender)}/"
        self._box = Sealed("box", run)
        self._letter = Sealed("letter", run)

    def letter(self, seq: int) -> str:
        return f"{self._letters}{seq}"

    def seal(self, seq: int, body: bytes) -> bytes:
        return self._letter.seal(body, seq, self.sender)

    def box(self) -> Steps[Box]:
        found = yield Get(self.record)
        return self.decode(found)

    def letters(self, limit: int) -> Steps[list[Letter]]:
        """The record is read again at the end: what was discarded meanwhile does not count, whatever was found."""
        box = yield from self.box()
        seqs = box.waiting[:limit]
        if not seqs:
            return []
        values = yield GetMany(tuple(map(self.letter, seqs)))
        after = yield from self.box()
        still = [(seq, value) for seq, value in zip(seqs, values, strict=True) if seq > after.discarded]
        return [Letter(self.sender, seq, self._payload(seq, value)) for seq, value in still]

    def change(self, changed: Change) -> Steps[Box]:
        """The record after the change, or as it is if the change changes nothing."""
        found: bytes | None = yield Get(self.record)
        while True:
            before = self.decode(found)
            after = changed(before)
            if after == before:
                return before
            wanted = self._box.seal(msgspec.msgpack.encode(after), name=self.sender)
            step: Step = Create(self.record, wanted) if found is None else Swap(self.record, found, wanted)
            found = yield step
            if found == wanted:
                return after

    def _payload(self, seq: int, value: bytes | None) -> bytes:
        if value is None:
            raise JournalCorrupt(self.run, 0, 0, f"letter {seq} of {self.sender!r} is missing", self.letter(seq))
        return self._letter.open(value, self.letter(seq), seq, self.sender)[NONCE_BYTES:]

    def decode(self, found: bytes | None) -> Box:
        return Box() if found is None else _box.decode(self._box.open(found, self.record, name=self.sender))

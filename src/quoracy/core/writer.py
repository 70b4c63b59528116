"""The writer: one entry on its way into the journal, whatever the store answers.

Every answer of a store leads to one of three verdicts, or to another try of the *same* entry:

- ``Landed``: it is in the journal, once;
- ``Lost``: another entry is in its place, for good;
- ``Failed``: this host must not write any more.

An unknown outcome is resolved by reading the entry and comparing nonces. If nothing is there the same bytes are
written again: should the first try still be under way somewhere, then whichever comes second finds its own nonce.
"""

from __future__ import annotations

import msgspec

from quoracy.core.batch import Batch
from quoracy.core.codec import said_s
from quoracy.core.errors import QuoracyError
from quoracy.core.journal import Entry, decode_entry
from quoracy.core.shell import Action, Append, Broken, Delayed, EntryRead, ReadEntry, Taken, Unknown, Written


class Flight(msgspec.Struct):
    batch: Batch
    entry: Entry
    payload: bytes
    began_us: int
    tries: int = 1
    retry_us: int | None = None
    why: str = ""

    def again(self) -> Append:
        self.retry_us = None
        return Append(self.entry.n, self.payload, self.entry.nonce)


class Landed(msgspec.Struct, frozen=True):
    flight: Flight


class Lost(msgspec.Struct, frozen=True):
    flight: Flight


class Failed(msgspec.Struct, frozen=True):
    code: str
    why: str


Verdict = Landed | Lost | Failed
Answer = Written | Taken | Unknown | Delayed | Broken | EntryRead


class Writer:
    def __init__(self, run: str, retry_us: int, max_tries: int) -> None:
        self._run = run
        self._retry_us = retry_us
        self._max_tries = max_tries
        self.flight: Flight | None = None

    def launch(self, batch: Batch, host: str, nonce: bytes, now_us: int) -> Append:
        entry, payload = batch.entry(host, nonce)
        self.flight = Flight(batch, entry, payload, now_us)
        return self.flight.again()

    def answered(self, answer: Answer, now_us: int) -> Verdict | Action | None:
        """What a store's answer means. None: an answer to something long past, or nothing to do yet."""
        flight = self.flight
        if isinstance(answer, Broken):
            return self._ended(Failed(answer.code, answer.why))
        if flight is None:
            return None
        if isinstance(answer, EntryRead):
            if answer.n != flight.entry.n:
                return None
            return flight.again() if answer.payload is None else self._compare(flight, answer.payload)
        if answer.nonce != flight.entry.nonce:
            return None
        match answer:
            case Written():
                return self._ended(Landed(flight))
            case Taken(payload=payload):
                return self._compare(flight, payload)
            case Unknown():
                why = "it is unknown whether it was written"
                return self._tired(flight, why, "outcome_unknown") or ReadEntry(flight.entry.n)
            case Delayed(why=why, code=code):
                flight.retry_us = now_us + self._retry_us
                return self._tired(flight, why, code)

    def due(self, now_us: int) -> Append | None:
        """The next try, when its time has come."""
        flight = self.flight
        if flight is None or flight.retry_us is None or now_us < flight.retry_us:
            return None
        return flight.again()

    def slow_for_us(self, now_us: int) -> int:
        return 0 if self.flight is None else now_us - self.flight.began_us

    def explain(self, now_us: int) -> str:
        if self.flight is None:
            return "nothing is being written"
        tries = f", try {self.flight.tries} of {self._max_tries}" if self.flight.tries > 1 else ""
        trouble = f": {self.flight.why}" if self.flight.why else ""
        return (
            f"entry {self.flight.entry.n} is being written ({said_s(self.slow_for_us(now_us))} so far{tries}){trouble}"
        )

    def _compare(self, flight: Flight, payload: bytes) -> Verdict:
        try:
            there = decode_entry(payload, self._run, flight.entry.n)
        except QuoracyError as error:
            return self._ended(Failed(error.code, str(error)))
        return self._ended(Landed(flight) if there.nonce == flight.entry.nonce else Lost(flight))

    def _tired(self, flight: Flight, why: str, code: str) -> Failed | None:
        flight.tries += 1
        flight.why = why
        if flight.tries <= self._max_tries:
            return None
        sentence = f"entry {flight.entry.n} could not be written in {self._max_tries} tries: {why}"
        failed = Failed(code, sentence)
        self._ended(failed)
        return failed

    def _ended(self, verdict: Verdict) -> Verdict:
        self.flight = None
        return verdict

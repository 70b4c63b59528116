"""Beats in etcd, one key each. A beat that is not newer than the one that is there is not written.

Whoever comes to a place writes a key of its own too, and etcd counts them in the same transaction."""

from __future__ import annotations

from threading import Lock
from uuid import uuid4

import msgspec

from quoracy.config.etcd_url import EtcdAddress
from quoracy.ports import MAX_NOTE_BYTES, Beat
from quoracy.stores.etcd.client import CALL_S, PATIENCE_S
from quoracy.stores.etcd.keys import digits, escaped
from quoracy.stores.etcd.store import Store
from quoracy.stores.etcd.words import KeyValue, Reach, delete, get, put, unchanged, under
from quoracy.stores.limits import bounded, named, numbered, run_name

_beat = msgspec.msgpack.Decoder(tuple[int, bytes])


class EtcdPulse:
    def __init__(
        self,
        url: str | EtcdAddress,
        *,
        ca: str = "",
        cert: str = "",
        key: str = "",
        call_s: float = CALL_S,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._store = Store(url, ca=ca, cert=cert, key=key, call_s=call_s, patience_s=patience_s)
        self._client, self._keys = self._store.client, self._store.keys
        self._seen: dict[bytes, tuple[int, int]] = {}
        """Sequence number and revision of each beat as we last knew it: mostly we are the only one who writes it."""
        self._lock = Lock()

    def beat(self, run: str, key: str, beat: Beat) -> None:
        self._client.check_open()
        place = self._place(run_name(run), named(key, "a beater's key"))
        numbered(beat.seq, 0, "a beat's sequence number")
        bounded(beat.note, 0, MAX_NOTE_BYTES, "a note")
        mine = put(place, self._keys.wrap(place, msgspec.msgpack.encode((beat.seq, beat.note))))
        with self._lock:
            seq, revision = self._seen.get(place, (0, 0))
        if seq > beat.seq:  # unless somebody has forgotten the key meanwhile
            seq, revision = self._there(run, self._client.read(Reach(place)).one(0))
        while seq <= beat.seq:
            written = self._client.write([unchanged(place, revision)], [mine], [get(Reach(place))])
            if written.succeeded:
                seq, revision = beat.seq, written.revision
                break
            seq, revision = self._there(run, written.found[0][0] if written.found[0] else None)
        with self._lock:
            self._seen[place] = (seq, revision)

    def beats(self, run: str) -> dict[str, Beat]:
        self._client.check_open()
        folder = self._keys.at("beats", escaped(run_name(run)), "")
        (found,) = self._client.read(under(folder)).found
        beats = {}
        for kv in found:
            seq, note = _beat.decode(self._keys.unwrap(kv.key, kv.value, run))
            beats[self._keys.last_step(kv.key).decode()] = Beat(seq, note)
        return dict(sorted(beats.items()))

    def forget(self, run: str, key: str) -> None:
        self._client.check_open()
        place = self._place(run_name(run), named(key, "a beater's key"))
        self._client.write([], [delete(Reach(place))])

    def tally(self, run: str, place: str, turn: int) -> int:
        """A key of its own for whoever comes, so that nobody has to try again because of somebody else."""
        return self._come(run, place, turn, uuid4().bytes, b"")

    def arrive(self, run: str, place: str, turn: int, who: str, note: bytes) -> int:
        bounded(note, 0, MAX_NOTE_BYTES, "a note")
        return self._come(run, place, turn, named(who, "a comer's name"), note)

    def _come(self, run: str, place: str, turn: int, who: bytes, note: bytes) -> int:
        """One transaction: the note, who has come so far, and away with what is left of turns before the last."""
        self._client.check_open()
        turns = self._turns(run, place)
        numbered(turn, 0, "a turn")
        folder = turns + digits(turn).encode() + b"/"
        key = folder + escaped(who).encode()
        wished = [put(key, self._keys.wrap(key, note)), get(under(folder)._replace(keys_only=True))]
        if turn > 1:
            wished.append(delete(Reach(turns, turns + digits(turn - 1).encode())))
        return len(self._client.write([], wished).found[1])

    def arrivals(self, run: str, place: str, turn: int) -> list[bytes]:
        self._client.check_open()
        folder = self._turns(run, place) + digits(numbered(turn, 0, "a turn")).encode() + b"/"
        (found,) = self._client.read(under(folder)).found
        return [self._keys.unwrap(kv.key, kv.value, run) for kv in found]

    def _turns(self, run: str, place: str) -> bytes:
        return self._keys.at("tallies", escaped(run_name(run)), escaped(named(place, "a place")), "")

    def close(self) -> None:
        self._store.close()

    def _place(self, name: bytes, beater: bytes) -> bytes:
        return self._keys.at("beats", escaped(name), escaped(beater))

    def _there(self, run: str, kv: KeyValue | None) -> tuple[int, int]:
        return (0, 0) if kv is None else (_beat.decode(self._keys.unwrap(kv.key, kv.value, run))[0], kv.mod_revision)

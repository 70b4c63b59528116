"""Beats in a file of their own, written without fsync: after a crash of the machine they are gone, and nobody minds.

A damaged ``pulse.db`` may simply be deleted while nobody uses it.
"""

from __future__ import annotations

from pathlib import Path

from quoracy.core.errors import JournalCorrupt
from quoracy.ports import MAX_NOTE_BYTES, Beat
from quoracy.stores.limits import bounded, named, numbered, run_name
from quoracy.stores.seal import seal
from quoracy.stores.sqlite.database import BUSY_TIMEOUT_S, Database
from quoracy.stores.sqlite.schema import PULSE


class SqlitePulse:
    def __init__(self, directory: str | Path, *, create: bool = True, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        self._database = Database(Path(directory), PULSE, create_missing=create, busy_timeout_s=busy_timeout_s)

    def beat(self, run: str, key: str, beat: Beat) -> None:
        name, beater = run_name(run), named(key, "a beater's key")
        numbered(beat.seq, 0, "a beat's sequence number")
        bounded(beat.note, 0, MAX_NOTE_BYTES, "a note")
        with self._database.write(len(beat.note)) as connection:
            connection.execute(
                "INSERT INTO beats VALUES (?, ?, ?, ?, ?) ON CONFLICT (run, beater) DO UPDATE SET"
                " seq = excluded.seq, note = excluded.note, seal = excluded.seal WHERE excluded.seq >= seq",
                (name, beater, beat.seq, beat.note, seal(b"beat", name, beater, beat.seq, beat.note)),
            )

    def beats(self, run: str) -> dict[str, Beat]:
        name = run_name(run)
        found: dict[str, Beat] = {}
        with self._database.read(run) as connection:
            for beater, seq, note, sealed in connection.execute(
                "SELECT beater, seq, note, seal FROM beats WHERE run = ? ORDER BY beater", (name,)
            ):
                good = isinstance(beater, bytes) and isinstance(seq, int) and isinstance(note, bytes)
                if not good or sealed != seal(b"beat", name, beater, seq, note):
                    what = f"the beat of {beater!r} is damaged: stop everyone who uses the file, then delete it"
                    raise JournalCorrupt(run, 0, 0, what, self._database.path.name)
                found[beater.decode()] = Beat(seq, note)
        return found

    def forget(self, run: str, key: str) -> None:
        name, beater = run_name(run), named(key, "a beater's key")
        with self._database.write() as connection:
            connection.execute("DELETE FROM beats WHERE run = ? AND beater = ?", (name, beater))

    def tally(self, run: str, place: str, turn: int) -> int:
        name, where = run_name(run), named(place, "a place")
        numbered(turn, 0, "a turn")
        with self._database.write() as connection:
            found = connection.execute(
                "INSERT INTO tallies VALUES (?, ?, ?, 1) ON CONFLICT (run, place) DO UPDATE SET"
                " count = CASE WHEN excluded.turn > turn THEN 1 ELSE count + 1 END, turn = excluded.turn"
                " WHERE excluded.turn >= turn RETURNING count",
                (name, where, turn),
            ).fetchone()
        return 0 if found is None else int(found[0])

    def close(self) -> None:
        self._database.close()

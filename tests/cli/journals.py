"""Real runs in real journals, ways to damage them, and what the command line says about them."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
from typer.testing import CliRunner

from quoracy.bench.load import RUN, Crew
from quoracy.cli import app
from quoracy.core.errors import CATALOG
from quoracy.core.journal import Entry
from quoracy.core.kinds import KINDS
from quoracy.core.run import fold
from quoracy.hosts import InlineHost
from quoracy.ports import Saved
from quoracy.stores import SqliteJournal
from quoracy.stores.seal import seal

runner = CliRunner()
CORRUPT = CATALOG["journal_corrupt"].exit
SAVED, ARCHIVED = 30, 20


def quoracy(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The real program."""
    command = [sys.executable, "-W", "error", "-c", "from quoracy.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def said(*arguments: object, ok: bool = True) -> Any:
    """The object that a verb prints as its last line."""
    result = runner.invoke(app, ["journal", *map(str, arguments), "--json"])
    found = json.loads(result.stdout.splitlines()[-1])
    assert (found["ok"], result.exit_code == 0) == (ok, ok), found
    return found


def build(directory: Path) -> SqliteJournal:
    """A run with a snapshot and two segments, and a second run beside it. Still open."""
    journal = SqliteJournal(directory)
    host, crew = InlineHost(journal, RUN), Crew(3)
    host.create("cluster", {})
    host.exchange(crew.join())
    host.exchange(crew.ready())
    while journal.last(RUN) < 45:
        host.exchange(crew.work())
        if journal.last(RUN) >= SAVED and journal.load_snapshot(RUN) is None:
            run = fold(KINDS, RUN, journal.read(RUN, 1, SAVED))
            assert run is not None
            saved = run.snapshot()
            journal.save_snapshot(RUN, Saved(saved.n, saved.root, saved.pages))
            journal.compact(RUN, 10)
            journal.compact(RUN, ARCHIVED)
    InlineHost(journal, "other").create("cluster", {})
    return journal


def entries(directory: Path, run: str = RUN, first: int = 1) -> list[bytes]:
    with closing(SqliteJournal(directory, create=False)) as journal:
        return journal.read(run, first)


def flip(file: Path, at: int | bytes) -> None:
    """One bit, at the offset or inside the bytes; in all copies of them, since SQLite leaves some behind."""
    content = bytearray(file.read_bytes())
    if isinstance(at, int):
        content[at] ^= 1
    else:
        damaged = bytearray(at)
        damaged[len(at) // 2] ^= 1
        assert at in content
        content = content.replace(at, damaged)
    file.write_bytes(content)


def flip_entry(directory: Path, n: int, run: str = RUN) -> None:
    payload = entries(directory, run)[n - 1]
    for file in (directory / "journal.db", *directory.rglob("*.qseg")):
        if payload[-40:] in file.read_bytes():
            flip(file, payload[-40:])
            return
    raise AssertionError(f"entry {n} is in no file")


def overwrite_entry(directory: Path, n: int, changes: dict[str, Any], run: str = RUN) -> None:
    """Another entry in its place, with a seal that fits: as a program with a fault might write it."""
    before = entries(directory, run)[n - 1]
    payload = msgspec.msgpack.encode(msgspec.structs.replace(msgspec.msgpack.decode(before, type=Entry), **changes))
    with closing(sqlite3.connect(directory / "journal.db")) as connection:
        sealed = seal(b"entry", run.encode(), n, payload)
        changed = connection.execute(
            "UPDATE entries SET payload = ?, seal = ? WHERE place = ((SELECT id FROM runs WHERE name = ?) << 40 | ?)",
            (payload, sealed, run.encode(), n),
        )
        assert changed.rowcount == 1
        connection.commit()

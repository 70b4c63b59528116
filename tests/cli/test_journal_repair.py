"""``quoracy journal repair``: saves what can be saved, says what cannot, and never destroys."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.cli.journals import (
    ARCHIVED,
    CORRUPT,
    SAVED,
    entries,
    flip,
    flip_entry,
    overwrite_entry,
    quoracy,
    runner,
    said,
)

from quoracy.bench.load import RUN, Crew
from quoracy.cli import app
from quoracy.core.errors import CATALOG
from quoracy.hosts import InlineHost
from quoracy.ports import Letter
from quoracy.stores import SqliteJournal, SqliteMailbox
from quoracy.stores.segment import scan
from quoracy.stores.sqlite.wal import Log

LAST = 45
PAGE = 4096


def content(directory: Path) -> dict[str, bytes]:
    """Every file with something in it, except locks and SQLite's shared memory."""
    return {
        str(file.relative_to(directory)): file.read_bytes()
        for file in directory.rglob("*")
        if file.is_file() and file.stat().st_size and file.suffix not in (".lock", ".db-shm")
    }


def root_page(directory: Path, table: str) -> int:
    with closing(sqlite3.connect(directory / "journal.db")) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    return int(page)


def wipe(directory: Path, *pages: int) -> None:
    with (directory / "journal.db").open("r+b") as file:
        for page in pages:
            file.seek((page - 1) * PAGE)
            file.write(bytes(PAGE))


def spoil_structure(directory: Path) -> None:
    """The counter of unused space on one page: SQLite complains, but every row is there."""
    flip(directory / "journal.db", (root_page(directory, "runs") - 1) * PAGE + 7)


def damage_snapshot(directory: Path) -> None:
    with closing(sqlite3.connect(directory / "journal.db")) as connection:
        connection.execute("UPDATE snapshots SET root = x'00'")
        connection.commit()


def damage_head(directory: Path) -> None:
    with closing(sqlite3.connect(directory / "journal.db")) as connection:
        connection.execute("UPDATE runs SET last = last - 3 WHERE id = 1")
        connection.commit()


NOTHING_LOST: dict[str, Callable[[Path], object]] = {
    "the structure": spoil_structure,
    "the snapshot": damage_snapshot,
    "where the run ends": damage_head,
    "the table of runs": lambda directory: wipe(directory, root_page(directory, "runs")),
    "the table of segments": lambda directory: wipe(directory, root_page(directory, "segments")),
    "the end of a segment": lambda directory: flip(next(directory.rglob("*-000000000010.qseg")), -1),
}


@pytest.mark.parametrize("damage", NOTHING_LOST.values(), ids=NOTHING_LOST.keys())
def test_damage_that_hits_no_entry_loses_nothing(whole: Path, copy: Path, damage: Callable[[Path], object]) -> None:
    damage(copy)
    assert said("verify", copy, ok=False)["damage"]["code"] == "journal_corrupt"
    before = content(copy)
    found = said("repair", copy)
    assert [plan["lost"] for plan in found["plans"]] == [None, None]
    assert found["repaired"] is True
    assert entries(copy) == entries(whole)
    assert entries(copy, "other") == entries(whole, "other")
    assert said("verify", copy)["damage"] is None
    assert before["journal.db"] == (copy / "journal.db.damaged-1").read_bytes(), "the damaged file is kept as it was"


ENTRIES_LOST: dict[str, tuple[Callable[[Path], object], int]] = {
    "one entry": (lambda directory: flip_entry(directory, 40), 39),
    "the last entry": (lambda directory: flip_entry(directory, LAST), LAST - 1),
    "the first entry behind the snapshot": (lambda directory: flip_entry(directory, SAVED + 1), SAVED),
    "a chain that does not fit": (lambda directory: overwrite_entry(directory, 40, {"prev": bytes(32)}), 39),
    "an entry of another content": (lambda directory: overwrite_entry(directory, 40, {"at_us": 10**12}), 40),
}


@pytest.mark.parametrize(("damage", "kept"), ENTRIES_LOST.values(), ids=ENTRIES_LOST.keys())
def test_what_cannot_be_had_is_cut_but_only_after_a_yes(
    whole: Path, copy: Path, damage: Callable[[Path], object], kept: int
) -> None:
    damage(copy)
    before = content(copy)
    told = quoracy("journal", "repair", copy)
    assert told.returncode == CORRUPT
    assert f"entries {kept + 1} to {LAST} were acknowledged and are LOST" in told.stdout
    assert "nothing was changed" in told.stdout
    assert content(copy) == before
    found = said("repair", copy, "--yes")
    (plan,) = [plan for plan in found["plans"] if plan["run"] == RUN]
    assert (plan["first"], plan["last"], plan["lost"]) == (1, kept, [kept + 1, LAST])
    assert entries(copy)[: min(kept, 39)] == entries(whole)[: min(kept, 39)]
    assert len(entries(copy)) == kept
    assert said("verify", copy)["damage"] is None
    assert before["journal.db"] == (copy / "journal.db.damaged-1").read_bytes()


@pytest.mark.parametrize(("damage", "_kept"), ENTRIES_LOST.values(), ids=ENTRIES_LOST.keys())
def test_an_export_brings_back_what_was_lost(
    whole: Path, copy: Path, exported: Path, damage: Callable[[Path], object], _kept: int
) -> None:
    damage(copy)
    found = said("repair", copy, "--from", exported)
    (plan,) = [plan for plan in found["plans"] if plan["run"] == RUN]
    assert plan["restored"] in ([40], [LAST], [SAVED + 1])
    assert (plan["lost"], plan["forgotten"]) == (None, None)
    assert entries(copy) == entries(whole)
    assert said("verify", copy)["damage"] is None


@pytest.mark.parametrize("destroy", [
    lambda directory: wipe(directory, 1),
    lambda directory: (directory / "journal.db").write_bytes(b"nothing left"),
    lambda directory: (directory / "journal.db").unlink(),
], ids=["its header", "all of it", "the file itself"])  # fmt: skip
def test_a_destroyed_database_is_made_again_from_an_export_and_the_segments(
    whole: Path, copy: Path, exported: Path, destroy: Callable[[Path], object]
) -> None:
    destroy(copy)
    assert runner.invoke(app, ["journal", "repair", str(copy), "--from", str(exported)]).exit_code == 0
    assert entries(copy) == entries(whole)
    assert said("verify", copy, RUN)["runs"][0]["archived"] == ARCHIVED


def test_a_destroyed_database_without_an_export_leaves_what_is_in_the_segments(whole: Path, copy: Path) -> None:
    (copy / "journal.db").write_bytes(b"nothing left")
    said("repair", copy, "--yes")
    assert entries(copy) == entries(whole)[:ARCHIVED]


def test_damaged_history_behind_a_snapshot_does_not_stop_the_run(whole: Path, copy: Path) -> None:
    flip_entry(copy, 5)
    assert quoracy("journal", "repair", copy).returncode == CORRUPT
    found = said("repair", copy, "--yes")
    (plan,) = [plan for plan in found["plans"] if plan["run"] == RUN]
    assert (plan["lost"], plan["forgotten"], plan["first"], plan["last"]) == (None, [1, 5], 6, LAST)
    assert entries(copy, first=6) == entries(whole)[5:]
    assert said("verify", copy, RUN)["runs"][0]["folded"] is True
    assert [file.name for file in copy.rglob("*.qseg*")].count("000000000001-000000000010.qseg.damaged-1") == 1


def test_a_damaged_segment_is_filled_from_an_export(whole: Path, copy: Path, exported: Path) -> None:
    flip_entry(copy, 5)
    found = said("repair", copy, "--from", exported)
    assert found["plans"][0]["restored"] == [5]
    assert entries(copy) == entries(whole)
    assert said("verify", copy)["damage"] is None


def test_commits_behind_a_damaged_frame_of_the_log_are_saved(crashed: Path, whole: Path, tmp_path: Path) -> None:
    """SQLite would have forgotten all of them."""
    copy = Path(shutil.copytree(crashed, tmp_path / "copy"))
    log = Log((copy / "journal.db-wal").read_bytes())
    flip(copy / "journal.db-wal", log.frame(log.count // 2).offset + 2000)
    before = content(copy)
    assert said("verify", copy, ok=False)["damage"]["where"] == "journal.db-wal"
    found = said("repair", copy)
    assert [(plan["last"], plan["lost"]) for plan in found["plans"]] == [(LAST, None), (1, None)]
    assert said("verify", copy)["damage"] is None
    assert (copy / "journal.db.damaged-1-wal").read_bytes() == before["journal.db-wal"]


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    which=st.sampled_from(["journal.db", "journal.db-wal", "*-000000000010.qseg", "*-000000000020.qseg"]),
    place=st.floats(0, 1, exclude_max=True),
    noise=st.binary(min_size=1, max_size=300),
)
def test_after_any_damage_a_repair_leaves_a_journal_that_verifies(
    crashed: Path, whole: Path, tmp_path: Path, which: str, place: float, noise: bytes
) -> None:
    shutil.rmtree(tmp_path / "copy", ignore_errors=True)
    copy = Path(shutil.copytree(crashed if which == "journal.db-wal" else whole, tmp_path / "copy"))
    file = next(copy.rglob(which))
    before = bytearray(file.read_bytes())
    offset = int(place * len(before))
    before[offset : offset + len(noise)] = noise[: len(before) - offset]
    file.write_bytes(before)
    found = runner.invoke(app, ["journal", "repair", str(copy), "--yes", "--json"])
    assert found.exit_code in (0, CATALOG["journal_newer"].exit), found.output
    if found.exit_code == 0:
        good = entries(crashed_original(crashed, tmp_path) if which == "journal.db-wal" else whole)
        first = said("verify", copy)["runs"][0]["first"] if said("verify", copy)["runs"] else 1
        left = entries(copy, first=first)
        assert left == good[first - 1 : first - 1 + len(left)]


def crashed_original(crashed: Path, tmp_path: Path) -> Path:
    """Opening it changes it, so a copy."""
    if not (tmp_path / "original").exists():
        shutil.copytree(crashed, tmp_path / "original")
    return tmp_path / "original"


def test_an_export_of_another_history_does_not_fit_and_is_not_used(copy: Path, tmp_path: Path) -> None:
    with closing(SqliteJournal(tmp_path / "stranger")) as journal:
        host, crew = InlineHost(journal, RUN), Crew(3)
        host.create("cluster", {})
        host.exchange(crew.join())
        while journal.last(RUN) < LAST:
            host.exchange(crew.work())
    said("export", tmp_path / "stranger", RUN, tmp_path / "stranger.qseg")
    flip_entry(copy, 40)
    found = said("repair", copy, "--from", tmp_path / "stranger.qseg", ok=False)
    assert (found["plans"][0]["restored"], found["plans"][0]["lost"]) == ([], [40, LAST])


def test_a_whole_journal_is_left_alone(copy: Path) -> None:
    before = content(copy)
    assert said("repair", copy)["repaired"] is False
    assert content(copy) == before


def test_a_second_repair_keeps_the_first_ones_files(copy: Path) -> None:
    flip_entry(copy, 40)
    said("repair", copy, "--yes")
    first = (copy / "journal.db.damaged-1").read_bytes()
    flip_entry(copy, 35)
    said("repair", copy, "--yes")
    assert (copy / "journal.db.damaged-1").read_bytes() == first
    assert (copy / "journal.db.damaged-2").exists()
    assert len(entries(copy)) == 34


def test_a_journal_that_is_being_served_is_not_repaired(copy: Path) -> None:
    with closing(SqliteJournal(copy)) as journal:
        assert journal.try_lock()
        flip_entry(copy, 40)
        before = content(copy)
        found = said("repair", copy, "--yes", ok=False)
        assert found["error"]["code"] == "journal_busy"
        assert content(copy) == before


def test_what_is_no_damage_is_not_repaired(copy: Path) -> None:
    overwrite_entry(copy, 40, {"state": bytes(32)})
    assert "no damage" in said("repair", copy, "--yes", ok=False)["error"]["what"]


def test_letters_and_a_host_go_on_after_a_repair(copy: Path) -> None:
    with closing(SqliteMailbox(copy)) as mailbox:
        mailbox.post(RUN, Letter("a", 1, b"one"))
        mailbox.post(RUN, Letter("a", 2, b"two"))
        mailbox.discard(RUN, "a", 1)
    flip_entry(copy, 40)
    said("repair", copy, "--yes")
    with closing(SqliteMailbox(copy)) as mailbox:
        assert mailbox.collect(RUN) == [Letter("a", 2, b"two")]
        assert mailbox.post(RUN, Letter("a", 1, b"again")) is False
    with closing(SqliteJournal(copy)) as journal:
        InlineHost(journal, RUN)
        assert journal.last(RUN) == 40
    assert said("verify", copy)["damage"] is None


def test_a_crash_in_the_middle_of_a_repair_does_not_lead_to_an_empty_journal(copy: Path) -> None:
    """The damaged files are aside, the new one is not in place yet."""
    (copy / "journal.db").rename(copy / "journal.db.damaged-1")
    shutil.rmtree(copy / "segments")
    with pytest.raises(Exception, match="repair it"):
        SqliteJournal(copy)


# -- single files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [1, 20, 60, 3000])
def test_a_torn_export_is_cut_at_its_last_whole_entry(exported: Path, tmp_path: Path, cut: int) -> None:
    file = tmp_path / "torn.qseg"
    file.write_bytes(exported.read_bytes()[:-cut])
    assert quoracy("journal", "verify", file).returncode == CORRUPT
    good = len(scan(file.read_bytes()).records)
    said("repair", file)
    assert said("verify", file)["entries"] == good > 0
    assert (tmp_path / "torn.qseg.damaged-1").read_bytes() == exported.read_bytes()[:-cut]


def test_a_damaged_export_is_cut_after_a_yes_or_filled_from_another(exported: Path, tmp_path: Path) -> None:
    file = tmp_path / "damaged.qseg"
    shutil.copy(exported, file)
    flip(file, scan(exported.read_bytes()).records[19].offset + 60)
    before = file.read_bytes()
    assert said("show", file, ok=False)["damage"]["entry"] == 20
    assert said("repair", file, ok=False)["plans"][0]["lost"] == [20, LAST]
    assert file.read_bytes() == before
    filled = tmp_path / "filled.qseg"
    shutil.copy(file, filled)
    assert said("repair", filled, "--from", exported)["plans"][0]["restored"] == [20]
    assert filled.read_bytes() == exported.read_bytes()
    said("repair", file, "--yes")
    assert said("verify", file)["entries"] == 19


def test_a_file_with_a_damaged_header_gets_it_back(exported: Path, tmp_path: Path) -> None:
    file = tmp_path / "damaged.qseg"
    shutil.copy(exported, file)
    flip(file, 14)
    assert said("verify", file, ok=False)["damage"]["offset"] == 0
    said("repair", file)
    assert file.read_bytes() == exported.read_bytes()


def test_a_newer_file_is_refused_not_repaired(exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quoracy.stores.segment.FORMAT", 2)
    said("export", exported, RUN, tmp_path / "newer.qseg")
    monkeypatch.undo()
    for verb in ("show", "verify", "repair"):
        result = quoracy("journal", verb, tmp_path / "newer.qseg")
        assert result.returncode == CATALOG["journal_newer"].exit
        assert "format 2, this Quoracy reads up to 1" in " ".join(result.stderr.split())

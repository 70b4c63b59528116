"""``quoracy journal`` on journals that are whole, and on journals that are really damaged."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.cli.journals import (
    ARCHIVED,
    CORRUPT,
    SAVED,
    build,
    entries,
    flip,
    flip_entry,
    overwrite_entry,
    quoracy,
    runner,
    said,
)

from quoracy.bench.load import RUN
from quoracy.cli import app
from quoracy.core.errors import CATALOG
from quoracy.core.kinds import KINDS
from quoracy.core.run import Kinds, fold
from quoracy.hosts import InlineHost
from quoracy.ports import Saved
from quoracy.stores import SqliteJournal
from quoracy.stores.seal import seal
from quoracy.stores.sqlite.entries import place_of

# -- show --------------------------------------------------------------------------------------------------------------


def test_show_prints_one_line_for_each_entry(whole: Path) -> None:
    result = quoracy("journal", "show", whole, RUN, "--limit", 5)
    lines = result.stdout.splitlines()
    assert result.returncode == 0
    assert [line.split()[0] for line in lines] == ["1", "2", "3", "4", "5", "..."]
    assert "RunCreated" in lines[0]
    assert "WorkerRegistered(member=worker-0000" in lines[1]


def test_show_prints_the_entries_that_were_asked_for(whole: Path) -> None:
    found = said("show", whole, RUN, "--from", 18, "--limit", 4)
    assert [entry["n"] for entry in found["entries"]] == [18, 19, 20, 21]
    assert (found["run"], found["kind"], found["first"], found["damage"]) == (RUN, "cluster 1", 1, None)
    assert found["entries"][1]["prev"] != found["entries"][0]["prev"]
    events = [event["name"] for entry in found["entries"] for event in entry["events"]]
    assert "WorkerLoading" in events
    everything = runner.invoke(app, ["journal", "show", str(whole), RUN, "--from", "18", "--limit", "4", "--events"])
    assert everything.output.count(" by worker-") == sum(name.startswith("Worker") for name in events)


def test_show_needs_no_name_if_there_is_one_run(whole: Path, exported: Path) -> None:
    assert said("show", exported)["run"] == RUN
    result = quoracy("journal", "show", whole)
    assert (result.returncode, result.stdout) == (CATALOG["config"].exit, "")
    assert f"say which of: {RUN}, other" in " ".join(result.stderr.split())


def test_show_of_a_run_that_is_not_there_says_which_are(whole: Path) -> None:
    result = quoracy("journal", "show", whole, "nobody")
    assert result.returncode == CATALOG["unknown_run"].exit
    assert f"there are: {RUN}, other" in " ".join(result.stderr.split())
    assert said("show", whole, "nobody", ok=False)["error"]["code"] == "unknown_run"


@pytest.mark.parametrize("place", ["nowhere", "a file"])
def test_show_of_something_else_says_what_to_name(tmp_path: Path, place: str) -> None:
    (tmp_path / "a file").write_text("hello")
    result = quoracy("journal", "show", tmp_path / place)
    assert result.returncode == CATALOG["config"].exit
    assert "the directory that holds journal.db" in " ".join(result.stderr.split())


def test_show_prints_a_damaged_journal_up_to_the_damage_and_names_it(copy: Path) -> None:
    flip_entry(copy, 25)
    result = quoracy("journal", "show", copy, RUN, "--from", 22)
    lines = result.stdout.splitlines()
    assert result.returncode == CORRUPT
    assert [line.split()[0] for line in lines] == ["22", "23", "24", "damaged:"]
    assert "entry 25, offset" in lines[-1]
    damage = said("show", copy, RUN, ok=False)["damage"]
    content = (copy / "journal.db").read_bytes()
    assert damage["entry"] == 25
    assert seal(b"entry", RUN.encode(), 25, b"") != content[damage["offset"] : damage["offset"] + 16]
    with closing(sqlite3.connect(copy / "journal.db")) as connection:
        (sealed,) = connection.execute("SELECT seal FROM entries WHERE place = ?", (place_of(1, 25),)).fetchone()
    assert content[damage["offset"] :].startswith(sealed)


def test_show_says_what_retention_deleted(copy: Path) -> None:
    with closing(SqliteJournal(copy)) as journal:
        journal.compact(RUN, ARCHIVED, keep_segments=1)
    result = runner.invoke(app, ["journal", "show", str(copy), RUN, "--limit", "1"])
    assert result.exit_code == 0
    assert "entries 1 to 10 were deleted" in result.output
    assert said("show", copy, RUN, "--limit", 1)["entries"][0]["n"] == 11


def test_show_reads_entries_of_a_kind_it_does_not_know(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quoracy.cli.journal_show.KINDS", Kinds(()))
    found = said("show", whole, RUN, "--limit", 2)
    assert found["kind"] == "cluster 1"
    assert found["entries"][0]["events"][0]["name"] == "run-created"


def test_show_works_beside_a_host_that_writes(tmp_path: Path) -> None:
    with closing(build(tmp_path)) as journal:
        assert said("show", tmp_path, RUN)["last"] == journal.last(RUN)
        InlineHost(journal, RUN)
        assert said("show", tmp_path, RUN)["last"] == journal.last(RUN)


# -- verify ------------------------------------------------------------------------------------------------------------


def test_verify_of_a_whole_journal_says_how_much_it_checked(whole: Path, exported: Path) -> None:
    found = said("verify", whole)
    run = found["runs"][0]
    assert (run["run"], run["kind"], run["first"], run["archived"]) == (RUN, "cluster 1", 1, ARCHIVED)
    assert (run["snapshot"], run["folded"]) == (SAVED, True)
    assert found["entries"] == run["last"] + found["runs"][1]["last"]
    assert found["events"] > found["entries"]
    assert found["damage"] is None
    assert said("verify", exported)["entries"] == run["last"]
    assert said("verify", next(whole.rglob("*-000000000020.qseg")))["runs"][0]["folded"] is False
    result = quoracy("journal", "verify", whole)
    assert result.returncode == 0
    assert result.stdout.splitlines()[-1].startswith(f"ok: {found['entries']} entries, {found['events']} events, ")


def test_verify_checks_a_run_whose_beginning_is_gone(copy: Path) -> None:
    with closing(SqliteJournal(copy)) as journal:
        journal.compact(RUN, ARCHIVED, keep_segments=1)
    run = said("verify", copy, RUN)["runs"][0]
    assert (run["first"], run["folded"]) == (11, True)
    flip(copy / "journal.db", entries(copy, first=26)[0][-40:])
    assert said("verify", copy, RUN, ok=False)["damage"]["entry"] == 26


WRONG = {
    "chain": (40, {"prev": bytes(32)}, 40, "the digest of the entry before does not fit", "journal_corrupt"),
    "content": (40, {"at_us": 10**12}, 41, "the digest of the entry before does not fit", "journal_corrupt"),
    "number": (40, {"n": 39}, 40, "says it is entry 39", "journal_corrupt"),
    "run": (40, {"run": "another"}, 40, "belongs to run 'another'", "journal_corrupt"),
    "time": (40, {"at_us": 0}, 40, "run time goes backwards", "journal_corrupt"),
    "host": (40, {"host": "stranger"}, 40, "stranger", "journal_corrupt"),
    "format": (40, {"format": 9}, 0, "has format 9", "journal_newer"),
    "state": (40, {"state": bytes(32)}, 0, "folds the journal differently", "fold_diverged"),
}


@pytest.mark.parametrize(("n", "changes", "entry", "what", "code"), WRONG.values(), ids=WRONG.keys())
def test_verify_names_an_entry_that_was_not_written_so(
    copy: Path, n: int, changes: dict[str, Any], entry: int, what: str, code: str
) -> None:
    overwrite_entry(copy, n, changes)
    damage = said("verify", copy, ok=False)["damage"]
    assert (damage["code"], damage["run"], damage["entry"]) == (code, RUN, entry)
    assert what in damage["what"]
    assert quoracy("journal", "verify", copy).returncode == CATALOG[code].exit


def test_verify_refuses_rules_it_does_not_have(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quoracy.cli.journal_verify.KINDS", Kinds(()))
    assert said("verify", whole, ok=False)["damage"]["code"] == "unknown_rules"


def test_verify_names_a_snapshot_that_is_not_the_state(copy: Path) -> None:
    with closing(SqliteJournal(copy)) as journal:
        run = fold(KINDS, RUN, journal.read(RUN, 1, SAVED + 1))
        assert run is not None
        run.head.address = "elsewhere"
        saved = run.snapshot()
        journal.save_snapshot(RUN, Saved(saved.n, saved.root, saved.pages))
    damage = said("verify", copy, ok=False)["damage"]
    assert (damage["entry"], damage["where"]) == (SAVED + 1, "the snapshot")
    assert "not the state" in damage["what"]


def test_verify_names_every_damaged_run_and_checks_the_others(copy: Path) -> None:
    flip_entry(copy, 1, "other")
    found = said("verify", copy, ok=False)
    assert [run["run"] for run in found["runs"]] == [RUN]
    assert [(damage["run"], damage["entry"]) for damage in found["damages"]] == [("other", 1)]
    flip_entry(copy, 5)
    found = said("verify", copy, ok=False)
    assert [(damage["run"], damage["entry"]) for damage in found["damages"]] == [(RUN, 5), ("other", 1)]
    assert "000000000001-000000000010.qseg" in found["damage"]["where"]


def test_verify_names_what_no_entry_depends_on(copy: Path) -> None:
    file = next(copy.rglob("*-000000000010.qseg"))
    flip(file, file.stat().st_size - 1)
    damage = said("verify", copy, ok=False)["damage"]
    assert "000000000010.qseg" in damage["where"]
    assert len(entries(copy)) > 40


def test_verify_names_a_missing_segment(copy: Path) -> None:
    next(copy.rglob("*-000000000010.qseg")).unlink()
    assert "missing" in said("verify", copy, ok=False)["damage"]["what"]


# -- export ------------------------------------------------------------------------------------------------------------


def test_an_export_holds_all_entries_and_replaces_nothing(whole: Path, exported: Path, tmp_path: Path) -> None:
    found = said("show", exported, "--limit", 1000)
    assert len(found["entries"]) == found["last"] == len(entries(whole))
    again = said("export", whole, RUN, exported, ok=False)
    assert "is there already" in again["error"]["what"]
    assert said("export", whole, "other", tmp_path / "new", "--force")["entries"] == 1
    assert said("export", exported, RUN, tmp_path / "again")["entries"] == found["last"]
    assert (tmp_path / "again").read_bytes() == exported.read_bytes()


def test_a_damaged_run_is_not_exported(copy: Path, tmp_path: Path) -> None:
    flip_entry(copy, 25)
    assert quoracy("journal", "export", copy, RUN, tmp_path / "file").returncode == CORRUPT
    assert list(tmp_path.glob("file*")) == []

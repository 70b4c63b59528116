"""History on disk: what a crash leaves, what damage costs, and that it is never in the way."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.stores.damage import often

from quoracy.core.errors import ConfigError, JournalFull, JournalNewer
from quoracy.ports import Bucket, Point, Tier
from quoracy.stores import SqliteSeries
from quoracy.stores.sqlite import series as sqlite_series

NOON_S = 1_700_000_000 // 3600 * 3600
SMALL = (Tier(1, 60), Tier(10, 600))


def points(seconds: int, name: str = "loss", subject: str = "") -> list[Point]:
    return [Point("r", name, subject, NOON_S + second, second / 4) for second in range(seconds)]


def seen(series: SqliteSeries, name: str = "loss", subject: str = "") -> list[Bucket]:
    return series.read("r", name, subject, NOON_S, NOON_S + 3599, 10_000)


def whole(directory: Path, fold: bool = True) -> Path:
    """A history that was closed properly, of a few pages."""
    with closing(SqliteSeries(directory)) as series:
        for i in range(8):
            series.write(points(300, "loss", f"w{i}"))
        if fold:
            series.tidy(NOON_S)
    return directory


@contextmanager
def said(directory: Path) -> Iterator[tuple[SqliteSeries, list[str]]]:
    told: list[str] = []
    with closing(SqliteSeries(directory, say=told.append)) as series:
        yield series, told


def works(series: SqliteSeries) -> None:
    assert series.write(points(3, "new")) == []
    assert [bucket.last for bucket in seen(series, "new")] == [0.0, 0.25, 0.5]


# -- damage --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"no database at all" * 1000, b"", b"SQLite format 3\0" + bytes(5000)])
def test_a_damaged_file_is_put_aside_and_begun_afresh(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "series.db").write_bytes(content)
    with said(tmp_path) as (series, told):
        works(series)
    assert len(told) == 1
    assert "series.db.aside-1" in told[0]
    assert (tmp_path / "series.db.aside-1").read_bytes() == content


def test_each_damaged_file_is_kept(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        (tmp_path / "series.db").write_bytes(b"%d" % number * 5000)
        with said(tmp_path) as (series, _):
            works(series)
        assert (tmp_path / f"series.db.aside-{number}").read_bytes() == b"%d" % number * 5000


def test_a_folder_in_its_place_is_put_aside_too(tmp_path: Path) -> None:
    (tmp_path / "series.db").mkdir()
    with said(tmp_path) as (series, told):
        works(series)
    assert len(told) == 1
    assert (tmp_path / "series.db.aside-1").is_dir()


def test_a_log_without_its_file_is_put_aside(tmp_path: Path) -> None:
    (tmp_path / "series.db-wal").write_bytes(b"left by somebody" * 500)
    with said(tmp_path) as (series, told):
        works(series)
    assert len(told) == 1


def test_a_file_that_says_nobody_may_write_it_is_put_aside(tmp_path: Path) -> None:
    """One byte of its head, and SQLite opens it all the same."""
    content = bytearray((whole(tmp_path) / "series.db").read_bytes())
    content[18] = 3
    (tmp_path / "series.db").write_bytes(content)
    with said(tmp_path) as (series, told):
        works(series)
    assert len(told) == 1


def test_gathered_points_that_are_damaged_are_put_aside(tmp_path: Path) -> None:
    whole(tmp_path, fold=False)
    with closing(sqlite3.connect(tmp_path / "series.db")) as connection:
        connection.execute("UPDATE fresh SET packed = substr(packed, 1, 100) || x'cf' || substr(packed, 102)")
        connection.commit()
    with said(tmp_path) as (series, told):
        assert seen(series, "loss", "w3") == []
        works(series)
    assert len(told) == 1


@pytest.mark.parametrize("wrong", ["count = 0", "high = 9e999", "last = x'00'", "low = 'low'"])
def test_a_bucket_that_holds_nonsense_is_put_aside(tmp_path: Path, wrong: str) -> None:
    whole(tmp_path)
    with closing(sqlite3.connect(tmp_path / "series.db")) as connection:
        connection.execute(f"UPDATE buckets SET {wrong} WHERE start % 7 = 0")
        connection.commit()
    with said(tmp_path) as (series, told):
        assert seen(series, "loss", "w3") == []
        works(series)
    assert len(told) == 1


def test_damage_that_shows_later_is_put_aside_then(tmp_path: Path) -> None:
    whole(tmp_path)
    with closing(sqlite3.connect(tmp_path / "series.db")) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'buckets'").fetchone()
    content = bytearray((tmp_path / "series.db").read_bytes())
    content[(page - 1) * 4096 : page * 4096] = b"\x55" * 4096
    (tmp_path / "series.db").write_bytes(content)
    with said(tmp_path) as (series, told):
        assert len(series.names("r")) == 8
        assert told == []
        assert seen(series, "loss", "w3") == []
        assert len(told) == 1
        assert series.names("r") == []
        works(series)
    assert (tmp_path / "series.db.aside-1").exists()


@often
@given(place=st.floats(0, 1, exclude_max=True), noise=st.binary(min_size=1, max_size=100), fold=st.booleans())
def test_whatever_is_damaged_history_goes_on(
    tmp_path_factory: pytest.TempPathFactory, place: float, noise: bytes, fold: bool
) -> None:
    directory = whole(tmp_path_factory.mktemp("damaged"), fold)
    content = bytearray((directory / "series.db").read_bytes())
    offset = int(place * len(content))
    content[offset : offset + len(noise)] = noise[: len(content) - offset]
    (directory / "series.db").write_bytes(content)
    try:
        series = SqliteSeries(directory)
    except (JournalNewer, ConfigError):
        return  # it says of itself that it is newer, or another program's
    with closing(series):
        for i in range(8):
            seen(series, "loss", f"w{i}")
        series.names("r")
        series.write(points(5, "new"))
        series.tidy(NOON_S)
        series.drop("r")
        series.write(points(5, "new"))
        assert seen(series, "new")


def test_a_newer_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    whole(tmp_path)
    with closing(sqlite3.connect(tmp_path / "series.db")) as connection:
        connection.execute("PRAGMA user_version = 2")
    before = (tmp_path / "series.db").read_bytes()
    with pytest.raises(JournalNewer, match="schema version 2, this Quoracy reads up to 1"):
        SqliteSeries(tmp_path)
    assert (tmp_path / "series.db").read_bytes() == before
    assert not list(tmp_path.glob("*aside*"))


def test_a_file_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "series.db")) as connection:
        connection.execute("CREATE TABLE songs (name TEXT)")
    before = (tmp_path / "series.db").read_bytes()
    with pytest.raises(ConfigError, match="belongs to another program"):
        SqliteSeries(tmp_path)
    assert (tmp_path / "series.db").read_bytes() == before


# -- crashes and full disks ----------------------------------------------------------------------------------------

WRITER = """
import sys
from quoracy.ports import Point
from quoracy.stores import SqliteSeries
series = SqliteSeries(sys.argv[1])
for second in range(200):
    series.write([Point("r", "loss", "", {noon} + second, second / 4)])
    print(second, flush=True)
"""


def test_what_was_written_is_there_after_a_kill(tmp_path: Path) -> None:
    script = WRITER.format(noon=NOON_S)
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        last = 0
        while last < 120:
            last = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
        last = int((process.stdout.read().split() or [b"%d" % last])[-1])
    with said(tmp_path) as (series, told):
        found = seen(series)
        assert [bucket.last for bucket in found][: last + 1] == [second / 4 for second in range(last + 1)]
        assert told == []
        works(series)


@pytest.mark.parametrize("fold_points", [1, 10_000])
def test_a_full_disk_writes_nothing_and_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fold_points: int
) -> None:
    monkeypatch.setattr(sqlite_series, "FOLD_POINTS", fold_points)
    with closing(SqliteSeries(tmp_path)) as series:
        series.write(points(3))
        writer = series._database._writer
        (pages,) = writer.execute("PRAGMA page_count").fetchone()
        writer.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(JournalFull):
            series.write(points(3000, "new"))
        assert series.names("r") == [("loss", "")]
        writer.execute("PRAGMA max_page_count = 100000")
        works(series)
        assert [bucket.count for bucket in seen(series)] == [1, 1, 1]


# -- room ----------------------------------------------------------------------------------------------------------


def test_a_bucket_takes_about_as_much_room_as_the_settings_say(tmp_path: Path) -> None:
    """Written as a server does, some points at a time, and numbers that do not round."""
    with closing(SqliteSeries(tmp_path)) as series:
        for start in range(0, 3600, 60):
            batch = [
                Point("r", "loss", f"w{i}", NOON_S + second + 0.123, 1 / (3 + second))
                for second in range(start, start + 60)
                for i in range(10)
            ]
            series.write(batch)
        series.tidy(NOON_S + 3600)
    with closing(sqlite3.connect(tmp_path / "series.db")) as connection:
        (buckets,) = connection.execute("SELECT count(*) FROM buckets").fetchone()
    assert buckets == 10 * (3600 + 360 + 60 + 6)
    assert 50 < (tmp_path / "series.db").stat().st_size / buckets < 80


def test_what_has_gathered_is_bounded(tmp_path: Path) -> None:
    with closing(SqliteSeries(tmp_path)) as series:
        for _ in range(5):
            series.write(points(3000))
            with closing(sqlite3.connect(tmp_path / "series.db")) as connection:
                (gathered,) = connection.execute("SELECT total(points) FROM fresh").fetchone()
            assert gathered < sqlite_series.FOLD_POINTS
        assert [bucket.count for bucket in seen(series)] == [5] * 3000


def test_what_was_dropped_before_it_was_moved_leaves_nothing(tmp_path: Path) -> None:
    with closing(SqliteSeries(tmp_path)) as series:
        series.write(points(10))
        series.drop("r")
        series.write(points(10, "new"))
        series.tidy(NOON_S)
    with closing(sqlite3.connect(tmp_path / "series.db")) as connection:
        orphans = "SELECT count(*) FROM buckets WHERE series NOT IN (SELECT id FROM series)"
        assert connection.execute(orphans).fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM series").fetchone() == (1,)


def test_buckets_of_other_settings_go(tmp_path: Path) -> None:
    with closing(SqliteSeries(tmp_path, tiers=(Tier(1, 60), Tier(30, 600)))) as series:
        series.write(points(120))
        series.tidy(NOON_S)
    with closing(SqliteSeries(tmp_path, tiers=SMALL)) as series:
        series.write(points(120))
        series.tidy(NOON_S)
    with closing(sqlite3.connect(tmp_path / "series.db")) as connection:
        widths = {width for (width,) in connection.execute("SELECT DISTINCT width FROM buckets")}
    assert widths == {1, 10}


@pytest.mark.parametrize(
    "tiers", [(), (Tier(0, 60),), (Tier(10, 5),), (Tier(2, 60), Tier(3, 90)), (Tier(1, 60), Tier(10, 30))]
)
def test_tiers_that_do_not_fit_together_are_refused(tmp_path: Path, tiers: Any) -> None:
    with pytest.raises(ValueError, match="tiers"):
        SqliteSeries(tmp_path, tiers=tiers)

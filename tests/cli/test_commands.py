"""The command line as people and scripts use it: exit codes, tables, one JSON object at the end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from quoracy.bench import BENCHES
from quoracy.cli import app
from quoracy.cli.sim import parse_seeds
from quoracy.core.cluster.collect import Collector
from quoracy.core.detector import Detector
from quoracy.core.errors import CATALOG, ConfigError
from quoracy.report import Measurement, Report

runner = CliRunner()


def quoracy(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from quoracy.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)


def test_sim_prints_one_object_as_its_last_line() -> None:
    result = quoracy("sim", "cluster", "--seeds", "1..4", "--json")
    assert result.returncode == 0
    said = json.loads(result.stdout.splitlines()[-1])
    assert said["command"] == "sim cluster --seeds 1..4"
    assert said["ok"] is True
    figures = {measurement["name"]: measurement for measurement in said["measurements"]}
    assert figures["lives"]["value"] == 4
    assert figures["violations"] == {
        "name": "violations", "value": 0, "unit": "seeds", "target": 0, "met": True, "against": "",
    }  # fmt: skip


def test_a_failing_seed_prints_its_transcript_and_how_to_replay_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = Detector.look
    monkeypatch.setattr(Detector, "look", lambda self, now_us: whole(self, now_us) and [])
    monkeypatch.setattr(Collector, "wake_us", lambda self: None)
    path = tmp_path / "life.txt"
    result = runner.invoke(app, ["sim", "cluster", "--seeds", "1..12", "--jobs", "1", "--transcript", str(path)])
    assert result.exit_code == 1
    assert "progress:" in result.output
    assert "replay it alone: quoracy sim cluster --seeds" in result.output
    lines = path.read_text().splitlines()
    assert "checker" in lines[-1]
    assert len(lines) > 100


def test_a_life_can_be_written_down(tmp_path: Path) -> None:
    path = tmp_path / "life.txt"
    result = runner.invoke(app, ["sim", "cluster", "--seeds", "3", "--transcript", str(path)])
    assert result.exit_code == 0
    assert "is durable" in path.read_text()


@pytest.mark.parametrize("text", ["", "x", "5..1", "-3", "1..", "1..2..3", "1..99999999"])
def test_bad_seeds_are_named_with_a_fix(text: str) -> None:
    with pytest.raises(ConfigError, match="--seeds"):
        parse_seeds(text)


def test_seeds_are_numbers_ranges_and_lists() -> None:
    assert parse_seeds("7") == [7]
    assert parse_seeds("1..3,9") == [1, 2, 3, 9]


def test_an_error_is_one_line_and_the_catalogs_exit_code() -> None:
    result = quoracy("sim", "clutser")
    assert result.returncode == CATALOG["config"].exit
    assert "kind = 'clutser': choose one of: cluster" in result.stderr.replace("\n", " ")
    assert "Traceback" not in result.stderr


def test_version_and_help_are_there() -> None:
    assert quoracy("--version").stdout.startswith("quoracy ")
    shown = quoracy("sim", "--help").stdout
    assert "quoracy sim cluster --seeds 1..500" in shown


def test_a_missed_target_is_not_ok(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Report("bench slow", measurements=[Measurement("speed", 1.0, "x", 2.0)])
    monkeypatch.setitem(BENCHES, "slow", lambda: slow)
    result = runner.invoke(app, ["bench", "slow", "--json"])
    assert result.exit_code == 1
    said = json.loads(result.stdout.splitlines()[-1])
    assert (said["ok"], said["measurements"][0]["met"]) == (False, False)


def test_a_met_target_is_ok_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = Report("bench quick", measurements=[Measurement("wait", 1.0, "ms", 2.0, "at most", "beside that")])
    monkeypatch.setitem(BENCHES, "quick", lambda: quick)
    result = runner.invoke(app, ["bench", "quick"])
    assert result.exit_code == 0
    assert "met" in result.output
    assert "beside that" in result.output


def test_bench_fold_measures_a_real_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    import quoracy.bench.fold as fold

    monkeypatch.setattr(fold, "EVENTS", 2_000)
    monkeypatch.setattr(fold, "TARGET_PER_S", 1)
    report = fold.bench_fold()
    assert [m.name for m in report.measurements] == ["fold_events_per_s", "fold_vs_decode"]
    assert report.ok()


def test_bench_journal_measures_a_real_journal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import quoracy.bench.journal as journal

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(journal, "SECONDS", 0.2)
    monkeypatch.setattr(journal, "OPEN_EVENTS", 2_000)
    names = {m.name: m.value for m in journal.bench_journal().measurements}
    assert names["journal_events_per_s"] > 0
    assert names["journal_open_s"] > 0

"""What ``quoracy demo federated`` and ``quoracy federated task`` show and write of rounds that were recorded."""

from __future__ import annotations

import importlib
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from quoracy.cli import app, federated
from quoracy.demo.beside import Beside
from quoracy.demo.federated import DIES, LATE, LIAR, ROUNDS, Outcome
from quoracy.learn.experiment import Settings
from quoracy.report import Measurement, Report

demo = importlib.import_module("quoracy.cli.demo")
BESIDE = Beside(0.95, 12_345, [(1.0, 0.7), (float(ROUNDS), 0.95)], 10, 0.1)
WHY = "tensor w0 is not finite"


def row(number: int) -> dict[str, Any]:
    dropped = [{"participant": LIAR, "why": WHY}] if number == 2 else []
    return {
        "round": number, "attempts": 1, "because": "all", "began_s": number, "closed_s": number + 0.5,
        "done_s": number + 0.75, "updates": 9, "samples": 1234, "admitted": [DIES, LATE], "dropped": dropped,
        "clipped": [],
        "metrics": {"loss": 1.0 / (number + 1)}, "evaluation": {"accuracy": 0.5 + 0.03 * number}, "weights": "0" * 64,
        "size_bytes": 1000,
    }  # fmt: skip


ROWS = [row(number) for number in range(ROUNDS)]
PEOPLE = [
    {"id": LIAR, "state": "Quarantined", "updates": 0, "refused": 3, "reason": WHY},
    {"id": DIES, "state": "Lost", "updates": 4, "refused": 0, "reason": "silent"},
    {"id": LATE, "state": "Done", "updates": 9, "refused": 0, "reason": ""},
]


def quoracy(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "160"})


# -- the demonstration ---------------------------------------------------------------------------------------------


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Report:
    """The demonstration's report; what it says on the way, and its outcome, are these."""
    report = Report("demo federated", 1.0, [Measurement("accuracy", 0.9, "of 1", 0.8)])

    def played(say: Any, samples: str) -> tuple[Report, Outcome]:
        say("the coordinator is killed", 5)
        return report, Outcome(samples, ROWS, PEOPLE, BESIDE)

    monkeypatch.setattr(demo, "demo_federated", played)
    return report


@pytest.mark.usefixtures("recorded")
def test_the_demo_draws_its_curve_and_names_who_took_part(tmp_path: Path) -> None:
    told = quoracy("demo", "federated", "--samples", "digits", "--plot", str(tmp_path / "demo.html"))
    assert told.exit_code == 0, told.output
    assert "in round  5: the coordinator is killed" in told.output
    assert "digits: accuracy per round" in told.output
    assert "one machine with all samples" in told.output
    lines = told.output.splitlines()
    assert any(line.startswith("│") and LIAR in line and "Quarantined" in line and WHY in line for line in lines)
    assert f"{LIAR}: {WHY}" in told.output
    page = (tmp_path / "demo.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "<svg" in page
    assert f"not counted: {LIAR}: {WHY}" in page


@pytest.mark.usefixtures("recorded")
def test_the_demos_curve_is_an_svg_if_its_name_says_so(tmp_path: Path) -> None:
    assert quoracy("demo", "federated", "--plot", str(tmp_path / "demo.svg")).exit_code == 0
    picture = (tmp_path / "demo.svg").read_text()
    assert picture.startswith("<svg")
    assert picture.count("<polyline") + picture.count("<path") >= 2


def test_the_demo_writes_its_curve_without_being_asked_and_says_where(
    recorded: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    recorded.failures.append("the liar was counted")
    told = quoracy("demo", "federated", "--json")
    written = tmp_path / "quoracy-demo-federated.html"
    assert "<svg" in written.read_text()
    shown = json.loads(told.stdout)
    assert f"the curve as a page: {written}" in shown["notes"]
    assert (shown["ok"], told.exit_code) == (False, 1)


# -- a task --------------------------------------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was asked of the task, and of the one machine beside it."""
    noted: list[Any] = []

    def run(settings: Settings, config: dict[str, Any], look: Any, _patience_s: float) -> list[dict[str, Any]]:
        noted.append((settings, config))
        look({"phase": "Standby", "round": -1, "history": []})
        look({"phase": "Round", "round": ROUNDS, "history": ROWS})
        return ROWS

    def beside(*given: Any) -> Beside:
        noted.append(given)
        return BESIDE

    monkeypatch.setattr(federated, "run_task", run)
    monkeypatch.setattr(federated, "beside", beside)
    return noted


TASK = ("federated", "task", "digits", "--participants", "6", "--per-round", "3", "--rounds", str(ROUNDS))


def test_a_task_has_a_bar_a_table_and_a_curve(asked: list[Any]) -> None:
    told = quoracy(*TASK, "--aggregation", "median", "--set", "count_min=3")
    assert told.exit_code == 0, told.output
    ((settings, config),) = asked
    assert (settings.samples, settings.parts) == ("digits", 6)
    assert (config["per_round"], config["aggregation"], config["count_min"]) == (3, {"rule": "median"}, 3)
    (bar,) = [line for line in told.output.splitlines() if f"{ROUNDS}/{ROUNDS}" in line]
    assert "digits, iid, median" in bar
    assert f"accuracy {ROWS[-1]['evaluation']['accuracy']:.3f}" in bar
    table = [line.split()[:3] for line in told.output.splitlines() if "750 ms" in line]
    assert table == [[str(number), "9", "1,234"] for number in range(ROUNDS - 10, ROUNDS)]
    assert "one machine" not in told.output


def test_a_task_is_shown_beside_one_machine_if_that_is_wished(asked: list[Any]) -> None:
    told = quoracy(*TASK, "--central", "--epochs", "2", "--batch-size", "5", "--lr", "0.25")
    assert told.exit_code == 0, told.output
    settings, rows, *rest = asked[1]
    assert (settings.samples, rows, rest) == ("digits", ROWS, [2, 5, 0.25])
    assert "on one machine, 12,345 samples: accuracy 0.950" in told.output
    assert json.loads(quoracy(*TASK, "--central", "--json").stdout)["value"] == {"rounds": ROWS, "central": 0.95}


@pytest.mark.usefixtures("asked")
def test_a_tasks_curves_are_written(tmp_path: Path) -> None:
    for name in ("curves.html", "curves.svg"):
        assert quoracy(*TASK, "--central", "--plot", str(tmp_path / name)).exit_code == 0
    page, picture = (tmp_path / "curves.html").read_text(), (tmp_path / "curves.svg").read_text()
    assert "loss (participants)" in page
    assert picture.startswith("<svg")
    assert "one machine" in picture

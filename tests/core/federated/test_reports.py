"""What participants reported is kept when a round is over, and bounded."""

from __future__ import annotations

import pytest
from tests.core.federated.study import OK, Study, studying, weights

from quoracy.core.federated import reports
from quoracy.core.federated.events import Array, RunStopped
from quoracy.core.federated.explain import over_shown
from quoracy.core.federated.reports import report_shown
from quoracy.core.federated.state import TrainingReport
from quoracy.core.kinds import KINDS
from quoracy.core.run import Run

METRICS = {"loss": 0.25, "confusion": Array((2, 2), [1.0, 2.0, 3.0, 4.0])}
HISTORY = {"loss": [0.5, 0.25]}


def kept(study: Study, name: str) -> list[TrainingReport]:
    return [report for report in study.task.reports if report.member == name]


def test_metrics_and_history_stay_when_the_round_is_over() -> None:
    study = studying("a", "b", rounds=2)
    study.update("a", metrics=METRICS, history=HISTORY)
    study.update("b", metrics={"loss": 0.75}, history={"loss": [1.0, 0.75]})
    study.aggregate()
    (report,) = kept(study, "a")
    assert (report.round, report.fate.value, report.samples) == (0, "Admitted", 10)
    shown = report_shown(report)
    assert (shown["metrics"], shown["history"]) == ({"loss": 0.25, "confusion": [[1.0, 2.0], [3.0, 4.0]]}, HISTORY)
    study.run_round("a", "b", metrics={"loss": 0.1})
    assert [report.round for report in kept(study, "a")] == [0, 1]


def test_arrays_of_one_shape_are_averaged_and_others_are_not() -> None:
    study = studying("a", "b")
    study.update("a", samples=10, metrics={"m": Array((2, 1), [0.0, 4.0]), "odd": Array((2, 1), [0.0, 0.0])})
    study.update("b", samples=30, metrics={"m": Array((2, 1), [4.0, 0.0]), "odd": Array((1, 2), [0.0, 0.0])})
    assert over_shown(study.task.history[0])["metrics"] == {"m": [[3.0], [1.0]]}


def test_a_mean_is_finite_whatever_is_averaged() -> None:
    study = studying("a", "b")
    study.update("a", samples=2**53, metrics={"up": 1e300, "both": [1e300, -1e300]})
    study.update("b", samples=2**53, metrics={"up": 1e300, "both": [-1e300, -1e300]})
    assert study.task.history[0].metrics == {"up": 1e300, "both": [0.0, -1e300]}


def test_also_of_what_does_not_count_and_why() -> None:
    study = studying("a", "b", "c", refused_max=2)
    study.offer("a", metrics=METRICS)
    study.judge("a", False, "nan in w")
    study.offer("b", history=HISTORY)
    study.order(RunStopped("enough"))
    fates = {name: [(report.fate.value, report.why) for report in kept(study, name)] for name in "abc"}
    assert fates == {
        "a": [("Refused", "nan in w")], "b": [("Dropped", "the run was stopped: enough")], "c": [],
    }  # fmt: skip


def test_initial_weights_are_no_training_and_no_update() -> None:
    study = Study(initial="")
    study.join("a", initial=True)
    study.update("a", metrics=METRICS)
    assert (study.task.number, study.who("a").updates, study.task.reports) == (0, 0, [])
    study.update("a", metrics=METRICS)
    assert (study.who("a").updates, len(study.task.reports)) == (1, 1)


def test_what_was_left_out_is_told_to_its_sender_and_kept() -> None:
    study = studying("a", "b")
    study.offer("a", metrics_digest=weights("m"), warnings=["metrics.x is left out: nan"])
    assert study.duty("admit").order["metrics_digest"] == weights("m")
    study.end(study.duty("admit"), OK | {"arrays": {"big": [30, 30]}, "metrics_bytes": 3600, "warnings": ["and y"]})
    (report,) = kept(study, "a")
    assert (report.digest, report.size_bytes, report.arrays) == (weights("m"), 3600, {"big": [30, 30]})
    assert report.warnings == ["metrics.x is left out: nan", "and y"]
    assert study.standing("a").warnings == report.warnings
    assert study.verdict("a") == (True, "")


@pytest.mark.parametrize("result", [{"arrays": 3}, {"arrays": {"x": 1}, "metrics_bytes": 1}, {"warnings": "x"}, {}])
def test_a_workshop_that_answers_strangely_breaks_no_fold(result: dict[str, object]) -> None:
    study = studying("a")
    study.offer("a", metrics_digest=weights("m"))
    study.end(study.duty("admit"), OK | result)
    assert kept(study, "a")[0].arrays == {}


def test_reports_are_bounded_and_the_oldest_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "MAX_BYTES", 4000)
    monkeypatch.setattr(reports, "LEFT_BYTES", 3000)
    study = studying("a", "b", rounds=40)
    for number in range(40):
        study.run_round("a", "b", history={"loss": [float(number)] * 20})
        task = study.task
        assert task.report_bytes == sum(report.kept_bytes for report in task.reports) <= 4000
        assert len(task.reports) + task.reports_gone == 2 * (number + 1)
        assert task.newest.keys() == {"a", "b"}
    assert study.task.reports_gone > 50
    assert study.task.reports[-1].round == 39


def test_one_report_is_bounded_and_says_what_is_in_the_journal_alone() -> None:
    study = studying("a", "b")
    study.update("a", metrics={"loss": 1.0}, history={f"m{n:02}": [float(n)] * 256 for n in range(32)})
    (report,) = kept(study, "a")
    assert report.kept_bytes <= reports.MAX_REPORT_BYTES + 1000
    assert 0 < len(report.history) < 32
    assert report.metrics == {"loss": 1.0}
    assert "are in the journal alone" in report.warnings[-1]


def test_a_snapshot_brings_them_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "MAX_BYTES", 2000)
    monkeypatch.setattr(reports, "LEFT_BYTES", 1500)
    study = studying("a", "b", rounds=30)
    for _ in range(20):
        study.run_round("a", "b", metrics=METRICS, history=HISTORY)
    run = study.hand.host.run
    assert run is not None
    saved = run.snapshot()
    again = Run.restore(KINDS, "demo", saved.n, saved.root, saved.pages).machine.task  # type: ignore[attr-defined]
    task = study.task
    assert task.reports_gone
    assert (again.reports, again.reports_gone) == (task.reports, task.reports_gone)
    assert again.report_bytes == task.report_bytes
    assert again.newest == task.newest


def test_a_page_with_everybody_has_the_last_training_in_a_line() -> None:
    study = studying("a", "b")
    history = {"accuracy": [0.1], "loss": [float(n) for n in range(100)]}
    study.update("a", metrics=METRICS | {f"m{n}": 1.0 for n in range(9)}, history=history, warnings=["x"])
    one, other = study.overview()["participants"]
    assert one["last"] == {
        "round": 0, "fate": "Admitted", "metrics": {"loss": 0.25, "m0": 1.0, "m1": 1.0, "m2": 1.0}, "curve": "loss",
        "epochs": [float(n) for n in range(68, 100)], "warnings": 1,
    }  # fmt: skip
    assert other["last"] is None

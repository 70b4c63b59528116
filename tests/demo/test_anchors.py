"""The judge of the anchors: it notices every claim that does not hold, and the command says so with its exit code."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.core.scribe import created
from typer.testing import CliRunner

from quoracy.cli import app, federated
from quoracy.core.kinds import KINDS
from quoracy.core.run import Run
from quoracy.demo import anchors
from quoracy.demo.anchors import (
    ALL,
    CLEAN,
    IID,
    LIED,
    REACHED,
    ROBUST,
    TRIED,
    TWO,
    WHOLE,
    Anchors,
    Curve,
    Experiment,
    decay,
    final,
    judge,
    rounds_to,
)
from quoracy.demo.beside import Beside
from quoracy.demo.task import TaskStopped, task_config
from quoracy.learn.experiment import Settings
from quoracy.plots import Plot, Series
from quoracy.report import Report

PATIENCE_S = 30.0
MEDIAN, TRIMMED, KRUM = ROBUST
CENTRAL = Beside(0.9, 3_600_000, [(1.0, 0.5), (30.0, 0.9)], 20, 0.05)


def curve(reaches: int, ends: float, rounds: int = 30) -> Curve:
    """Comes to the accuracy that is counted to in round ``reaches``, and ends as said."""
    return [REACHED - 0.1] * (reaches - 1) + [REACHED] * (rounds - reaches - 4) + [ends] * 5


def good() -> dict[str, Curve]:
    return {
        IID.name: curve(5, 0.895), TWO.name: curve(20, 0.85), WHOLE.name: curve(12, 0.86), LIED.name: [0.1] * 30,
        MEDIAN.name: curve(9, 0.865), TRIMMED.name: curve(9, 0.868), KRUM.name: curve(9, 0.852),
        CLEAN.name: curve(6, 0.88),
    }  # fmt: skip


@pytest.mark.parametrize("experiment", ALL, ids=lambda one: one.name)
def test_every_experiment_may_be_created(experiment: Experiment) -> None:
    config = task_config(experiment.settings(), experiment.config(experiment.rounds))
    Run.create(KINDS, created("federated", config))


@pytest.mark.parametrize("rule", ["krum", "multi_krum", "bulyan"])
def test_a_task_in_which_all_take_part_is_small_enough_to_be_compared(rule: str) -> None:
    config = task_config(Settings("digits", parts=1000), {"per_round": 0, "aggregation": {"rule": rule}})
    Run.create(KINDS, created("federated", config))


def missed(**changes: Curve) -> set[str]:
    experiments = {"iid": IID, "two": TWO, "whole": WHOLE, "lied": LIED, "median": MEDIAN, "krum": KRUM, "clean": CLEAN}
    curves = good() | {experiments[name].name: changed for name, changed in changes.items()}
    return missed_of(judge(curves, CENTRAL))


def missed_of(report: Report) -> set[str]:
    return {figure.name for figure in report.measurements if figure.met() is False}


def test_what_is_as_it_should_be_passes() -> None:
    assert judge(good(), CENTRAL).ok()
    assert missed() == set()


@pytest.mark.parametrize(
    ("changes", "noticed"),
    [
        ({"iid": curve(5, 0.8899)}, {"iid"}),
        ({"two": curve(4, 0.85)}, {"two_classes_each_rounds"}),
        ({"two": curve(5, 0.85)}, {"two_classes_each_rounds"}),
        ({"two": curve(20, 0.896)}, {"two_classes_each"}),
        ({"whole": curve(4, 0.86)}, {"batch_of_all_rounds"}),
        ({"whole": curve(12, 0.897)}, {"batch_of_all"}),
        ({"iid": curve(25, 0.895)}, {"two_classes_each_rounds", "batch_of_all_rounds"}),
        ({"lied": curve(9, 0.7)}, {"fedavg_lied_to"}),
        ({"krum": curve(9, 0.84)}, {"krum_lied_to"}),
        ({"median": [0.1] * 30}, {"median_lied_to"}),
        ({"clean": curve(6, 0.9)}, {"median_lied_to", "trimmed_mean_lied_to", "krum_lied_to"}),
    ],
    ids=lambda value: ",".join(sorted(value)) if isinstance(value, set | dict) else "",
)
def test_every_claim_that_does_not_hold_is_noticed(changes: dict[str, Curve], noticed: set[str]) -> None:
    assert missed(**changes) == noticed


def test_one_that_never_learns_comes_last_and_an_iid_that_does_not_is_noticed() -> None:
    never = [0.5] * 30
    assert missed(two=never, whole=never) == set()
    (shown,) = [
        m for m in judge(good() | {TWO.name: never}, CENTRAL).measurements if m.name == "two_classes_each_rounds"
    ]
    assert (shown.value, shown.against) == (31, "not reached in 30")
    assert missed(iid=never) >= {"iid", "iid_rounds"}


def test_rounds_are_counted_to_the_first_that_reaches_it() -> None:
    assert rounds_to([0.1, 0.8, 0.7, 0.9], 0.8) == 2
    assert rounds_to([0.1, 0.2], 0.8) == 3
    assert final([0.0] * 5 + [0.8, 0.9, 0.8, 0.9, 0.8]) == 0.84


def test_the_experiments_differ_in_what_is_compared_and_in_nothing_else() -> None:
    """But for the step: with all samples at once another one is best."""

    def plain(experiment: Experiment) -> dict[str, Any]:
        return experiment.config(300) | {"hyper": None, "hyper_steps": None}

    assert plain(IID) == plain(TWO) == plain(WHOLE)
    assert IID.config(300)["hyper"] == TWO.config(300)["hyper"]
    assert [WHOLE.batch_size, IID.batch_size, TWO.partition] == [0, 10, "classes:2"]
    assert {one.name: one.liars for one in ALL if one.liars} == dict.fromkeys(
        [LIED.name, *(r.name for r in ROBUST)], 20
    )
    assert {(one.lr, one.epochs, one.rounds) for one in (LIED, CLEAN, *ROBUST)} == {(0.1, 2, 100)}
    assert decay(300) == [(150, 0.5), (225, 0.2), (270, 0.05)]


class Pretended:
    """Tasks that are over when two of them are under way, and what they were asked for."""

    def __init__(self, fails: str = "") -> None:
        self.fails = fails
        self.met = threading.Barrier(2)
        self.wished: list[tuple[Settings, dict[str, Any]]] = []
        self.ended = 0

    def run(self, settings: Settings, config: dict[str, Any], progress: Any, _patience_s: float) -> Any:
        self.wished.append((settings, config))
        self.met.wait(PATIENCE_S)
        if self.fails and config["aggregation"]["rule"] == self.fails:
            raise TaskStopped("the run is Paused")
        try:
            until = time.monotonic() + PATIENCE_S
            while self.fails and time.monotonic() < until:
                progress({"rounds": config["rounds"], "round": 0})
        except TaskStopped:
            self.ended += 1
            raise
        return [{"samples": 600, "evaluation": {"accuracy": 0.9}}] * config["rounds"]


def test_all_are_run_two_at_a_time_and_beside_one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    pretended, compared = Pretended(), []

    def told(*given: Any) -> Beside:
        compared.append(given)
        return CENTRAL

    monkeypatch.setattr(anchors, "run_task", pretended.run)
    monkeypatch.setattr(anchors, "best_beside", told)
    found = anchors.run_anchors(lambda _name, _shown: None, 20)
    assert len(pretended.wished) == len(ALL)
    assert {config["rounds"] for _, config in pretended.wished} == {20}
    (given,) = compared
    assert (given[0], len(given[1]), given[3], given[4]) == (IID.settings(), 20, TRIED, decay(20))
    assert [len(plot.series) for plot in found.plots] == [4, 5]


def test_one_that_cannot_go_on_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    pretended = Pretended(fails="fedavg")
    monkeypatch.setattr(anchors, "run_task", pretended.run)
    monkeypatch.setattr(anchors, "ALL", (IID, LIED, *ROBUST))
    with pytest.raises(TaskStopped, match="Paused"):
        anchors.run_anchors(lambda _name, _shown: None)
    assert (len(pretended.wished), pretended.ended) == (2, 1)


@pytest.mark.parametrize("ends", [0.895, 0.7])
def test_the_command_draws_judges_and_exits_accordingly(
    ends: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(say: Any, rounds: int) -> Anchors:
        assert rounds == 7
        say(IID.name, {"rounds": 7, "round": 3})
        say(IID.name, None)
        say("one machine", {})
        say("one machine", None)
        plot = Plot("a", "rounds", "accuracy", [Series("x", [(1.0, 0.5), (2.0, 0.6)])])
        return Anchors(judge(good() | {IID.name: curve(5, ends)}, CENTRAL), [plot, plot])

    monkeypatch.setattr(federated, "run_anchors", told)
    done = CliRunner().invoke(app, ["federated", "anchors", "--out", str(tmp_path), "--rounds", "7", "--json"])
    assert done.exit_code == (0 if ends > 0.89 else 1), done.output
    assert json.loads(done.stdout.splitlines()[-1])["ok"] == (ends > 0.89)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["federated-anchors.svg", "federated-liars.svg"]

"""What federated learning is known to do, done again: real rounds on Fashion-MNIST, in pictures and in figures.

The net of McMahan and others (2017) with 199,210 parameters, a hundred participants of whom twenty are drawn in a
round. Two pictures: how the rounds compare with one machine that has all samples, and with participants who hold two
classes each, or make one step with all of their samples at once; and what each rule makes of it when every fifth
participant lies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from quorate.demo.task import Beside, beside, run_task
from quorate.learn.experiment import Settings
from quorate.plots import Plot, Series
from quorate.report import Measurement, Report

ROUNDS: Final = 100
PER_ROUND: Final = 20
PARTS: Final = 100
LIARS: Final = 20
LR: Final = 0.1
LR_CENTRAL: Final = 0.05
"""Each the best of a few that were tried: averaging twenty updates takes away noise, so participants may take larger
steps than one machine."""
DECAY: Final = ((0.5, 0.5), (0.75, 0.2), (0.9, 0.05))
"""After this share of the rounds, so much of the learning rate; for one machine as well."""
PATIENCE_S: Final = 1800.0
MARGIN_CENTRAL: Final = 0.01
MARGIN_ROBUST: Final = 0.03
COLLAPSED: Final = 0.5
CENTRAL: Final = "one machine with all samples"

Say = Callable[[str, dict[str, Any] | None], None]
"""Which experiment, and what its run shows; None when it is over."""


class Experiment(msgspec.Struct, frozen=True):
    name: str
    partition: str = "iid"
    batch_size: int = 10
    epochs: int = 5
    liars: int = 0
    aggregation: dict[str, Any] = {}
    """Empty: fedavg."""

    def settings(self) -> Settings:
        return Settings("fashion-mnist", self.partition, PARTS, 1, self.liars, "flip")

    def config(self, rounds: int) -> dict[str, Any]:
        steps = [{"round": number, "hyper": {"lr": LR * share}} for number, share in decay(rounds)]
        return {
            "rounds": rounds, "epochs": self.epochs, "per_round": PER_ROUND,
            "aggregation": self.aggregation or {"rule": "fedavg"},
            "hyper": {"lr": LR, "batch_size": self.batch_size}, "hyper_steps": steps,
        }  # fmt: skip


def decay(rounds: int) -> list[tuple[int, float]]:
    return [(round(part * rounds), share) for part, share in DECAY]


IID: Final = Experiment("IID, B = 10")
TWO: Final = Experiment("two classes each, B = 10", partition="classes:2")
WHOLE: Final = Experiment("IID, B = all", batch_size=0)
CLEAN: Final = Experiment("fedavg, nobody lies", epochs=2)
LIED: Final = Experiment("fedavg", epochs=2, liars=LIARS)
ROBUST: Final = (
    Experiment("median", epochs=2, liars=LIARS, aggregation={"rule": "median"}),
    Experiment("trimmed mean", epochs=2, liars=LIARS, aggregation={"rule": "trimmed_mean", "trim": 0.4}),
    Experiment("krum", epochs=2, liars=LIARS, aggregation={"rule": "krum", "byzantine": 8}),
)


class Anchors(msgspec.Struct, frozen=True):
    report: Report
    plots: list[Plot]


def run_anchors(say: Say, rounds: int = ROUNDS) -> Anchors:
    honest, lied = (IID, TWO, WHOLE), (LIED, *ROBUST, CLEAN)
    curves = {one.name: _run(one, say, rounds) for one in (*honest, *lied)}
    say(CENTRAL, {})
    reference = beside(IID.settings(), curves[IID.name], IID.epochs, IID.batch_size, LR_CENTRAL, decay(rounds))
    say(CENTRAL, None)
    drawn = [[Series(one.name, _points(curves[one.name])) for one in some] for some in (honest, lied)]
    drawn[0].append(Series(CENTRAL, reference.points))
    titles = ("Fashion-MNIST, 100 participants, 20 in a round", "every fifth participant lies")
    plots = [Plot(title, "rounds", "accuracy", series) for title, series in zip(titles, drawn, strict=True)]
    return Anchors(_judge({name: _accuracy(rows) for name, rows in curves.items()}, reference), plots)


def _run(one: Experiment, say: Say, rounds: int) -> list[dict[str, Any]]:
    rows = run_task(one.settings(), one.config(rounds), lambda shown: say(one.name, shown), PATIENCE_S)
    say(one.name, None)
    return rows


def _points(rows: list[dict[str, Any]]) -> list[tuple[float, float]]:
    return [(float(row["round"] + 1), row["evaluation"]["accuracy"]) for row in rows]


def _accuracy(rows: list[dict[str, Any]]) -> float:
    """Of the last five rounds: single ones are noisy."""
    last = [row["evaluation"]["accuracy"] for row in rows[-5:]]
    return float(sum(last) / len(last))


def _judge(accuracy: dict[str, float], reference: Beside) -> Report:
    report = Report("federated anchors")
    best = accuracy[IID.name]
    against = f"one machine, {reference.passes:,} samples: {reference.accuracy:.4f}"
    report.measurements = [
        Measurement("iid", _figure(best), "", _figure(reference.accuracy - MARGIN_CENTRAL), against=against),
        Measurement(
            "two_classes_each", _figure(accuracy[TWO.name]), "", _figure(best), "at most", "IID before non-IID"
        ),
        Measurement(
            "batch_of_all", _figure(accuracy[WHOLE.name]), "", _figure(best), "at most", "B = 10 before B = all"
        ),
        Measurement("fedavg_lied_to", _figure(accuracy[LIED.name]), "", COLLAPSED, "at most", "it collapses"),
    ]
    for one in ROBUST:
        name = f"{one.name.replace(' ', '_')}_lied_to"
        target = _figure(accuracy[CLEAN.name] - MARGIN_ROBUST)
        against = f"fedavg, nobody lies: {accuracy[CLEAN.name]:.4f}"
        report.measurements.append(Measurement(name, _figure(accuracy[one.name]), "", target, against=against))
    return report


def _figure(value: float) -> float:
    return round(value, 4)

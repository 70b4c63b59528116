"""What federated learning is known to do, done again: real rounds on Fashion-MNIST, in pictures and in figures.

The net of McMahan and others (2017) with 199,210 parameters, a hundred participants of whom twenty are drawn in a
round. Two pictures: how the rounds compare with one machine that has all samples, and with participants who hold two
classes each, or make one step with all of their samples at once; and what each rule makes of it when every fifth
participant lies. Orderings are judged twice, as in the paper: by how many rounds it takes to an accuracy, and by the
accuracy at the end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any, Final

import msgspec

from quoracy.demo.beside import Beside, best_beside
from quoracy.demo.task import TaskStopped, run_task
from quoracy.learn.experiment import Settings
from quoracy.plots import Plot, Series
from quoracy.report import Measurement, Report

PER_ROUND: Final = 20
PARTS: Final = 100
LIARS: Final = 20
DECAY: Final = ((0.5, 0.5), (0.75, 0.2), (0.9, 0.05))
"""After this share of the rounds, so much of the learning rate; for one machine as well."""
PATIENCE_S: Final = 3600.0
AT_ONCE: Final = 2
MARGIN_CENTRAL: Final = 0.01
MARGIN_ROBUST: Final = 0.03
COLLAPSED: Final = 0.5
REACHED: Final = 0.8
"""The accuracy to which rounds are counted: all of the honest ones come to it, but not all in time."""
CENTRAL: Final = "one machine with all samples"

Say = Callable[[str, dict[str, Any] | None], None]
"""Which experiment, and what its run shows; None when it is over."""
Curve = list[float]
"""Accuracy after each round."""


class Experiment(msgspec.Struct, frozen=True):
    """All that it is made of. The learning rates are each the best of a few that were tried, for one machine as for
    participants."""

    name: str
    rounds: int
    lr: float
    partition: str = "iid"
    batch_size: int = 10
    epochs: int = 1
    liars: int = 0
    aggregation: dict[str, Any] = {}
    """Empty: fedavg."""

    def settings(self) -> Settings:
        return Settings("fashion-mnist", self.partition, PARTS, 1, self.liars, "flip")

    def config(self, rounds: int) -> dict[str, Any]:
        steps = [{"round": number, "hyper": {"lr": self.lr * share}} for number, share in decay(rounds)]
        return {
            "rounds": rounds, "epochs": self.epochs, "per_round": PER_ROUND,
            "aggregation": self.aggregation or {"rule": "fedavg"},
            "hyper": {"lr": self.lr, "batch_size": self.batch_size}, "hyper_steps": steps,
        }  # fmt: skip


def decay(rounds: int) -> list[tuple[int, float]]:
    return [(round(part * rounds), share) for part, share in DECAY]


HONEST_ROUNDS: Final = 300
"""With one pass over their samples in each, participants do not drift apart; momentum makes up for the short way."""
MOMENTUM: Final = {"rule": "fedavgm", "momentum": 0.8}
IID: Final = Experiment("IID, B = 10", HONEST_ROUNDS, 0.05, aggregation=MOMENTUM)
TWO: Final = Experiment("two classes each, B = 10", HONEST_ROUNDS, 0.05, "classes:2", aggregation=MOMENTUM)
WHOLE: Final = Experiment("IID, B = all", HONEST_ROUNDS, 0.1, batch_size=0, aggregation=MOMENTUM)
HONEST: Final = (IID, TWO, WHOLE)
TRIED: Final = ((10, 0.05), (20, 0.05), (20, 0.1))
"""Batch sizes and learning rates of the one machine: the rounds are held against the best of them."""

LIED_ROUNDS: Final = 100
CLEAN: Final = Experiment("fedavg, nobody lies", LIED_ROUNDS, 0.1, epochs=2)
LIED: Final = Experiment("fedavg", LIED_ROUNDS, 0.1, epochs=2, liars=LIARS)
ROBUST: Final = tuple(
    Experiment(name, LIED_ROUNDS, 0.1, epochs=2, liars=LIARS, aggregation=aggregation)
    for name, aggregation in (
        ("median", {"rule": "median"}),
        ("trimmed mean", {"rule": "trimmed_mean", "trim": 0.4}),
        ("krum", {"rule": "krum", "byzantine": 8}),
    )
)
ALL: Final = (*HONEST, LIED, *ROBUST, CLEAN)


class Anchors(msgspec.Struct, frozen=True):
    report: Report
    plots: list[Plot]


def run_anchors(say: Say, at_most: int = HONEST_ROUNDS) -> Anchors:
    """``at_most`` so many rounds in each, for those who cannot wait."""
    began_s = time.monotonic()
    rows = _run_all(say, at_most)
    say(CENTRAL, {})
    steps = decay(len(rows[IID.name]))
    reference = best_beside(IID.settings(), rows[IID.name], IID.epochs, TRIED, steps)
    say(CENTRAL, None)
    curves = {name: [row["evaluation"]["accuracy"] for row in some] for name, some in rows.items()}
    drawn = [[Series(one.name, _points(curves[one.name])) for one in some] for some in (HONEST, ALL[len(HONEST) :])]
    drawn[0].append(Series(CENTRAL, reference.points))
    titles = ("Fashion-MNIST, 100 participants, 20 in a round", "every fifth participant lies")
    plots = [Plot(title, "rounds", "accuracy", series) for title, series in zip(titles, drawn, strict=True)]
    report = judge(curves, reference)
    report.seconds = time.monotonic() - began_s
    return Anchors(report, plots)


def _run_all(say: Say, at_most: int) -> dict[str, list[dict[str, Any]]]:
    """Two at a time: one trains while the other makes its model. None knows of another, so the curves are the same. If
    one cannot go on, the others are ended too."""
    stopped = threading.Event()
    pool = ThreadPoolExecutor(AT_ONCE)
    try:
        tasks = {one.name: pool.submit(_run, one, say, min(one.rounds, at_most), stopped) for one in ALL}
        done, _ = wait(tasks.values(), return_when=FIRST_EXCEPTION)
        for task in done:
            task.result()
        return {name: task.result() for name, task in tasks.items()}
    finally:
        stopped.set()
        pool.shutdown(cancel_futures=True)


def _run(one: Experiment, say: Say, rounds: int, stopped: threading.Event) -> list[dict[str, Any]]:
    def look(shown: dict[str, Any]) -> None:
        if stopped.is_set():
            raise TaskStopped(f"{one.name!r} was ended with the others")
        say(one.name, shown)

    rows = run_task(one.settings(), one.config(rounds), look, PATIENCE_S)
    say(one.name, None)
    return rows


def _points(curve: Curve) -> list[tuple[float, float]]:
    return [(float(number), accuracy) for number, accuracy in enumerate(curve, 1)]


def final(curve: Curve) -> float:
    """Over the last five rounds: single ones are noisy."""
    last = curve[-5:]
    return round(sum(last) / len(last), 4)


def rounds_to(curve: Curve, accuracy: float) -> int:
    """How many rounds it took; one more than there were if it never came to that."""
    return next((number for number, reached in enumerate(curve, 1) if reached >= accuracy), len(curve) + 1)


def judge(curves: dict[str, Curve], reference: Beside) -> Report:
    report = Report("federated anchors")
    best, took = final(curves[IID.name]), rounds_to(curves[IID.name], REACHED)
    within = round(reference.accuracy - MARGIN_CENTRAL, 4)
    how = f"B = {reference.batch_size}, lr {reference.lr:g}, the best of {len(TRIED)}"
    against = f"one machine, {reference.passes:,} samples, {how}: {reference.accuracy:.4f}"
    report.measurements = [
        Measurement("iid", best, "", within, against=against),
        Measurement("iid_rounds", took, "rounds", len(curves[IID.name]), "at most", f"to an accuracy of {REACHED}"),
    ]
    for name, one, what in (
        ("two_classes_each", TWO, "IID before non-IID"),
        ("batch_of_all", WHOLE, "B = 10 before all"),
    ):
        report.measurements += [
            Measurement(name, final(curves[one.name]), "", best, "at most", what),
            _later(name, rounds_to(curves[one.name], REACHED), took, len(curves[one.name])),
        ]
    report.measurements.append(
        Measurement("fedavg_lied_to", final(curves[LIED.name]), "", COLLAPSED, "at most", "it collapses")
    )
    clean = final(curves[CLEAN.name])
    for one in ROBUST:
        name, target = f"{one.name.replace(' ', '_')}_lied_to", round(clean - MARGIN_ROBUST, 4)
        against = f"fedavg, nobody lies: {clean:.4f}"
        report.measurements.append(Measurement(name, final(curves[one.name]), "", target, against=against))
    return report


def _later(name: str, rounds: int, than: int, of: int) -> Measurement:
    against = f"{rounds / than:.1f} times as many as IID with B = 10" if rounds <= of else f"not reached in {of}"
    return Measurement(f"{name}_rounds", rounds, "rounds", than + 1, against=against)

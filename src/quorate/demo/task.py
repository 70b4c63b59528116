"""A whole federated task on this machine: a real coordinator, and its participants in a few processes."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from quorate.core.errors import QuorateError
from quorate.launch import coordinating, crowds
from quorate.learn import mlp
from quorate.learn.experiment import EVALUATIONS, SIZES, Settings, source
from quorate.sdk.asking import Asker, rounds_over
from quorate.sdk.crowd_process import Wish

RUN: Final = "task"
PROCESSES: Final = 2
LOOK_S: Final = 0.1
BESIDE_POINTS: Final = 10
OVER: Final = ("Finished", "Stopped", "Paused")

Progress = Callable[[dict[str, Any]], None]
"""Called with what the run shows, a few times a second."""


class TaskStopped(QuorateError):
    """It did not come to its end: what it is, and what it waits for."""

    code = "still_waiting"


def run_task(settings: Settings, config: dict[str, Any], progress: Progress, patience_s: float) -> list[dict[str, Any]]:
    """The history: one row per round. Raises TaskStopped if it pauses, or takes too long."""
    config = {"clients": settings.parts, "evaluation": EVALUATIONS[settings.samples], "seed": settings.seed} | config
    with (
        tempfile.TemporaryDirectory(prefix="quorate-task-") as name,
        coordinating(Path(name)) as coordinator,
        Asker(coordinator.url) as asker,
        crowds(_wish(coordinator.url, Path(name), settings), PROCESSES),
    ):
        asker.ask("create", RUN, kind="federated", config=config)
        return _watch(asker, progress, time.monotonic() + patience_s)


def _wish(url: str, folder: Path, settings: Settings) -> Wish:
    """Liars come first, and are not asked for the initial weights."""
    members = {f"participant-{part:03d}": {"initial": part >= settings.liars} for part in range(settings.parts)}
    trainer = "quorate.learn.experiment:make"
    return Wish(url, RUN, members, f"file://{folder}/objects", trainer, msgspec.to_builtins(settings))


def _watch(asker: Asker, progress: Progress, deadline_s: float) -> list[dict[str, Any]]:
    while True:
        shown = asker.ask("show", RUN)
        if "phase" in shown:  # else the coordinator is just reading its journal
            progress(shown)
            if shown["phase"] in OVER:
                break
        if time.monotonic() > deadline_s:
            waits = shown["explanation"]["sentence"]
            raise TaskStopped(f"round {shown.get('round')} of {shown.get('rounds')} takes too long: {waits}")
        time.sleep(LOOK_S)
    if shown["phase"] != "Finished":
        raise TaskStopped(f"the run is {shown['phase']}: {shown['reason']}")
    return rounds_over(asker, RUN)


class Beside(msgspec.Struct, frozen=True):
    """The same model, trained on one machine that has all samples."""

    accuracy: float
    passes: int
    """Samples looked at: as many as all participants together."""
    points: list[tuple[float, float]]
    """Accuracy against rounds: after as many samples as those rounds had."""


def beside(
    settings: Settings,
    rows: list[dict[str, Any]],
    epochs: int,
    batch_size: int,
    lr: float,
    decay: Sequence[tuple[int, float]] = (),
) -> Beside:
    """What the rounds have to stand comparison with. ``decay``: from which round on the learning rate is which share of
    itself."""
    where = source(settings.samples)
    x, y = where.load("train")
    held_out = where.load("test")
    weights = mlp.initial(SIZES[settings.samples], settings.seed)
    passes = sum(row["samples"] for row in rows) * epochs
    points = []
    done = 0
    for part in range(1, BESIDE_POINTS + 1):
        upto = passes * part // BESIDE_POINTS
        share = min([share for number, share in decay if number <= len(rows) * (part - 1) / BESIDE_POINTS], default=1.0)
        trained = mlp.central(
            weights, x, y, passes=upto - done, batch_size=batch_size, lr=lr * share, seed=settings.seed + part
        )  # fmt: skip
        weights, done = trained.weights, upto
        points.append((len(rows) * part / BESIDE_POINTS, mlp.evaluate(weights, *held_out)["accuracy"]))
    return Beside(points[-1][1], passes, points)

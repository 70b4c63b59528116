"""A whole federated task on this machine: a real coordinator, and its participants in a few processes."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from quoracy.core.errors import QuoracyError
from quoracy.launch import coordinating, crowds, listing
from quoracy.launch.crowd_process import Wish
from quoracy.learn.experiment import EVALUATIONS, Settings
from quoracy.sdk.client.ask import Asker, rounds_over

RUN: Final = "task"
PROCESSES: Final = 2
LOOK_S: Final = 0.1
OVER: Final = ("Finished", "Stopped", "Paused")

Progress = Callable[[dict[str, Any]], None]
"""Called with what the run shows, a few times a second."""


class TaskStopped(QuoracyError):
    """It did not come to its end: what it is, and what it waits for."""

    code = "still_waiting"


def run_task(settings: Settings, config: dict[str, Any], progress: Progress, patience_s: float) -> list[dict[str, Any]]:
    """The history: one row per round. Raises TaskStopped if it pauses, or takes too long."""
    wished = task_config(settings, config)
    with (
        tempfile.TemporaryDirectory(prefix="quoracy-task-") as name,
        coordinating(Path(name), *listing(wished)) as coordinator,
        Asker(coordinator.url) as asker,
        crowds(_wish(coordinator.url, Path(name), settings), PROCESSES),
    ):
        asker.ask("create", RUN, kind="federated", config=wished)
        return _watch(asker, progress, time.monotonic() + patience_s)


def task_config(settings: Settings, config: dict[str, Any]) -> dict[str, Any]:
    """Nobody else will come, which is worth knowing where each is compared with each."""
    clients = config.get("clients")
    known: dict[str, Any] = {
        "clients": settings.parts, "seed": settings.seed, "evaluation": EVALUATIONS[settings.samples],
        "max_participants": max(settings.parts, clients) if isinstance(clients, int) else settings.parts,
    }  # fmt: skip
    return known | config


def _wish(url: str, folder: Path, settings: Settings) -> Wish:
    """Liars come first, and are not asked for the initial weights."""
    members = {f"participant-{part:03d}": {"initial": part >= settings.liars} for part in range(settings.parts)}
    trainer = "quoracy.learn.experiment:make"
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

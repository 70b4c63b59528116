"""One host per state of the federated tables, so that bad input can be tried in each of them."""

from __future__ import annotations

from collections.abc import Callable

from tests.core.byhand import Hand
from tests.core.federated.study import Study, studying

from quoracy.core.federated.events import RunPaused, RunStopped

Key = tuple[str, str]


def _study(*moves: str) -> Hand:
    """Participant v is drawn with w, which goes through these."""
    study = studying("v", rounds=1, evaluation="mine:score")
    for move in moves:
        _move(study, move)
    return study.hand


def _move(study: Study, move: str) -> None:
    match move:
        case "join":
            study.join("w")
        case "poison":
            study.refuse("w")
        case "leave":
            study.leave("w")
        case "silence":
            study.lose("w")
        case "stop":
            study.order(RunStopped("enough"))


def _drawn(*moves: str) -> Hand:
    study = studying("v", "w")
    for move in moves:
        _move(study, move)
    return study.hand


def _run(phase: str) -> Hand:
    study = studying("v", "w", clients=3 if phase == "Standby" else 2, rounds=1, evaluation="mine:score")
    if phase in ("Closing", "Evaluating", "Finished"):
        study.update("v", "w")
    if phase in ("Evaluating", "Finished"):
        study.aggregate()
    if phase == "Finished":
        study.end(study.duty("evaluate"), {"metrics": {}})
    if phase in ("Paused", "Stopped"):
        study.order(RunPaused() if phase == "Paused" else RunStopped())
    assert study.phase == phase
    return study.hand


PHASES = ("Standby", "Round", "Closing", "Evaluating", "Paused", "Finished", "Stopped")
SCENES: dict[Key, Callable[[], Hand]] = {
    **{("run", phase): (lambda phase=phase: _run(phase)) for phase in PHASES},  # type: ignore[misc]
    ("participant", "Absent"): _study,
    ("participant", "Waiting"): lambda: _study("join"),
    ("participant", "Training"): _drawn,
    ("participant", "Quarantined"): lambda: _drawn("poison"),
    ("participant", "Lost"): lambda: _drawn("silence"),
    ("participant", "Left"): lambda: _drawn("leave"),
    ("participant", "Done"): lambda: _drawn("stop", "leave"),
}

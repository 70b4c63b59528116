"""What a participant is shown. A view holds no memory of its own: it is computed from the task whenever it is sent."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from quoracy.core.codec import ready
from quoracy.core.federated.reports import warnings_of
from quoracy.core.federated.state import OVER, Fate, ParticipantState, Phase, Task, Verdict

STANDBY: Final = "STANDBY"
ROUND: Final = "ROUND"
FINISHED: Final = "FINISHED"


class Standing(msgspec.Struct, frozen=True):
    """Everything a participant needs to know: whether to train, on what, and what became of its last update."""

    incarnation: int
    state: str
    phase: str
    """STANDBY, ROUND or FINISHED, as far as this participant is concerned."""
    round: int
    """In a round: its number, -1 if the initial weights are wanted. Else the one that comes next."""
    ticket: int
    """The token of its update; 0 if it is not to train."""
    offered: bool
    """Its update of this round is being looked at."""
    rounds: int
    epochs: int
    epoch_base: int
    """Epochs trained before this round."""
    weights: str
    size_bytes: int
    hyper: dict[str, Any]
    verdict: Verdict | None
    reason: str
    warnings: list[str] = []
    """Metrics of the update that the verdict is on which were left out, and why."""


def phase_for(task: Task, member: str) -> tuple[str, int]:
    """What the heartbeat's answer carries."""
    if task.state in OVER:
        return FINISHED, task.number
    assignment = None if task.round is None else task.round.assignments.get(member)
    suspended = task.state in (Phase.ROUND, Phase.STANDBY, Phase.PAUSED)
    if assignment is None or not suspended or assignment.fate not in (Fate.TRAINING, Fate.OFFERED):
        return STANDBY, task.number
    return ROUND, task.number


def passing(task: Task) -> tuple[str, str]:
    """Where the run itself stands, and why it does not go on if so: for those who wait."""
    return task.state.value, task.reason if task.state in (Phase.STANDBY, Phase.PAUSED) else ""


def look(task: Task, topic: str, member: str) -> Any:
    participant = task.participants.get(member)
    if participant is None or topic != "standing":
        return None
    phase, number = phase_for(task, member)
    config = task.config
    assignment = None if phase != ROUND or task.round is None else task.round.assignments[member]
    quarantined = participant.state is ParticipantState.QUARANTINED
    return Standing(
        participant.incarnation, participant.state.value, phase, number,
        0 if assignment is None else assignment.ticket,
        assignment is not None and assignment.fate is Fate.OFFERED,
        config.rounds, config.epochs, max(0, number) * config.epochs, task.weights, task.size_bytes,
        config.hyper_at(max(0, number)) if phase == ROUND else {}, participant.verdict,
        participant.reason if quarantined or not task.reason else task.reason,
        [] if participant.verdict is None else warnings_of(task, member, participant.verdict.ticket),
    )  # fmt: skip


ready(Standing)

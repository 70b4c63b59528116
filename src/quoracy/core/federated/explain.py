"""A federated run in words and figures: what it is waiting for and why, and how the rounds went."""

from __future__ import annotations

from typing import Any

import msgspec

from quoracy.core.codec import said_s, seconds, us
from quoracy.core.detector import Detector
from quoracy.core.federated import drawing, rounds
from quoracy.core.federated.events import Beat
from quoracy.core.federated.measured import MOST, nested
from quoracy.core.federated.reports import newest_shown
from quoracy.core.federated.state import (
    OVER,
    Fate,
    Over,
    Participant,
    ParticipantState,
    Phase,
    Round,
    Task,
    count,
    least,
)
from quoracy.core.machine import Explanation, Wait
from quoracy.core.waits import heartbeat, joined, members_told, soon, stuck

HISTORY_SHOWN = 20
PARTICIPANTS_SHOWN = 1000


class Pulse(msgspec.Struct):
    """What a participant's last heartbeat said, for people; and when its training last moved."""

    beat: Beat
    progress_us: int


class Heard(msgspec.Struct, frozen=True):
    pulses: dict[str, Pulse]
    detector: Detector
    since_us: int
    """When the present wait began, on this host's clock."""


def explain(task: Task, heard: Heard, now_us: int) -> Explanation:
    if task.state in OVER:
        return Explanation(f"the run is over after {max(0, task.number)} rounds: {task.reason or 'all rounds'}")
    if task.state is Phase.PAUSED:
        return Explanation(f"paused before round {max(0, task.number)} is done: {task.reason}; resume it to go on")
    phase, members = _phase_wait(task, heard, now_us), _silent(task, heard, now_us)
    return Explanation(joined([*map(_sentence, phase), *members_told(members)]), (*phase, *members))


def _phase_wait(task: Task, heard: Heard, now_us: int) -> list[Wait]:
    waited_us = max(0, now_us - heard.since_us)
    match task.state:
        case Phase.STANDBY:
            gone, out = drawing.absent(task)
            slow = set() if task.round is None else {a.member for a in task.round.having(Fate.DROPPED)}
            left_us = max(0, us(task.config.standby_max_s) - waited_us)
            why = drawing.why_not_begin(task) or "it can begin"
            if out:
                why += f"; quarantined: {drawing.few(out)}"
            missing = tuple(sorted({*gone, *slow}))
            return [Wait(f"standby before {_next(task)}: {why}", missing, waited_us, left_us, "it pauses")]
        case Phase.ROUND if task.round is not None:
            return [_round_wait(task, task.round, waited_us)]
        case Phase.CLOSING:
            updates = len(task.history[-1].admitted)
            return [Wait(f"round {task.number}: {updates} updates are aggregated", (), waited_us, None, "")]
        case Phase.EVALUATING:
            return [Wait(f"round {task.number}: the new model is evaluated", (), waited_us, None, "")]
    return []


def _next(task: Task) -> str:
    return "the initial weights" if task.number < 0 else f"round {task.number}"


def _round_wait(task: Task, round_: Round, waited_us: int) -> Wait:
    standing = count(task, round_)
    open_us = waited_us + round_.spent_us
    training = sorted(assignment.member for assignment in round_.having(Fate.TRAINING))
    done = f"{standing.admitted} of {round_.target} updates are in"
    if standing.offered:
        done += f", {standing.offered} are being looked at"
    if round_.number < 0:
        done = "they are being looked at" if standing.offered else "they are awaited"
    min_us, max_us = us(task.config.time_min_s), us(task.config.time_max_s)
    then, end_us = "the others are replaced", max_us
    if open_us < min_us and rounds.why_close(task, round_, standing, min_us):
        then, end_us = "it closes, since time_min_s is over", min_us
    elif standing.offered and open_us >= max_us:
        enough = standing.admitted >= least(task, round_)
        then = "it closes without those" if enough else "those are given up and replaced"
        end_us = rounds.patience_us(task)
    elif standing.admitted + standing.offered >= least(task, round_):
        then = "it closes with those it has"
    return Wait(f"{round_.called()}: {done}", tuple(training), open_us, max(0, end_us - open_us), then)


def _silent(task: Task, heard: Heard, now_us: int) -> list[Wait]:
    """Those who have missed a heartbeat and more, and those who are stuck."""
    waits = []
    for member in sorted(task.here):
        silent_us = heard.detector.silent_us(member, now_us) or 0
        if silent_us >= 2 * us(task.config.heartbeat_interval_s):
            waits.append(heartbeat(member, silent_us, us(task.config.heartbeat_timeout_s)))
        elif stuck_us := stuck_for_us(task.here[member], task, heard, now_us):
            waits.append(stuck(member, stuck_us))
    return waits


def stuck_for_us(participant: Participant, task: Task, heard: Heard, now_us: int) -> int:
    pulse = heard.pulses.get(participant.id)
    if pulse is None or participant.state is not ParticipantState.TRAINING:
        return 0
    still_us = now_us - max(pulse.progress_us, heard.since_us)
    return still_us if still_us >= us(task.config.stuck_after_s) else 0


def _sentence(wait: Wait) -> str:
    whom = f", waits for {drawing.few(list(wait.missing))}" if wait.missing else ""
    left = "" if wait.left_us is None else f"; {wait.then} {soon(wait.left_us)}"
    return f"{wait.what}{whom} ({said_s(wait.waited_us)} so far{left})"


def overview(task: Task, heard: Heard, now_us: int) -> dict[str, Any]:
    """For the command line and the dashboard: plain values, times in seconds."""
    shown = sorted(task.participants.values(), key=lambda p: (p.id not in task.here, p.seat))[:PARTICIPANTS_SHOWN]
    open_round = None
    if task.round is not None:
        standing = count(task, task.round)
        open_round = {
            "number": task.round.number, "attempt": task.round.attempt, "target": task.round.target,
            "admitted": standing.admitted, "offered": standing.offered, "training": standing.training,
            "away": sorted(task.tally.away),
            "assignments": {a.member: a.fate.value for a in task.round.assignments.values()},
        }  # fmt: skip
    return {
        "phase": task.state.value,
        "round": task.number,
        "rounds": task.config.rounds,
        "clients": task.config.clients,
        "here": len(task.here),
        "reason": task.reason,
        "weights": task.weights,
        "open": open_round,
        "participants": [_participant(participant, task, heard, now_us) for participant in shown],
        "history": [over_shown(over) for over in task.history[-HISTORY_SHOWN:]],
    }


def _participant(participant: Participant, task: Task, heard: Heard, now_us: int) -> dict[str, Any]:
    pulse = heard.pulses.get(participant.id)
    silent_us = heard.detector.silent_us(participant.id, now_us)
    shown: dict[str, Any] = {
        "id": participant.id, "state": participant.state.value, "incarnation": participant.incarnation,
        "seat": participant.seat, "trained": participant.trained, "updates": participant.updates,
        "refused": participant.refused, "losses": participant.losses, "reason": participant.reason,
        "labels": participant.labels, "silent_s": None if silent_us is None else seconds(silent_us),
        "last": newest_shown(task, participant.id),
        "stuck_s": seconds(stuck_for_us(participant, task, heard, now_us)),
    }  # fmt: skip
    if pulse is not None:
        finite = {name: value for name, value in pulse.beat.metrics.items() if abs(value) <= MOST}
        shown |= {"progress": pulse.beat.progress, "epoch": pulse.beat.epoch, "metrics": finite}
    return shown


def over_shown(over: Over) -> dict[str, Any]:
    counts = {member: samples for member, _, samples in over.admitted} if over.clipped else {}
    return {
        "round": over.number, "attempts": over.attempts, "because": over.because,
        "began_s": seconds(over.began_us), "closed_s": seconds(over.closed_us), "done_s": seconds(over.done_us),
        "updates": len(over.admitted), "samples": sum(samples for _, _, samples in over.admitted),
        "admitted": [member for member, _, _ in over.admitted],
        "dropped": [{"participant": member, "why": why} for member, why in over.dropped],
        "clipped": [
            {"participant": member, "claimed": claimed, "counted": counts[member]} for member, claimed in over.clipped
        ],
        "metrics": {name: nested(value) for name, value in over.metrics.items()}, "evaluation": over.evaluation,
        "weights": over.weights, "size_bytes": over.size_bytes,
    }  # fmt: skip

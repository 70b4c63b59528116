"""A federated run in words and figures: what it is waiting for and why, and how the rounds went.

Only those who are missing are named, each with what is known of it. What is said to happen is the first thing that ends
the wait if nobody comes: a loss after which the round closes or somebody is replaced, or one of the round's times.
"""

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
    Count,
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
from quoracy.core.waits import STILL, Silence, are_lost, few, joined, more, soon, stuck, stuck_told

HISTORY_SHOWN = 20
PARTICIPANTS_SHOWN = 1000
EXAMINED = "to be examined"


class Pulse(msgspec.Struct):
    """What a participant's last heartbeat said, for people; and when its training last moved."""

    beat: Beat
    progress_us: int


class Heard(msgspec.Struct, frozen=True):
    pulses: dict[str, Pulse]
    detector: Detector
    since_us: int
    """When the present wait began, on this host's clock."""
    began_us: int
    """When this collector began."""
    found: frozenset[str]
    """Those whom it found then: it gave each of them a fresh time-out."""


class Sight:
    """All that an explanation is made of."""

    def __init__(self, task: Task, heard: Heard, now_us: int) -> None:
        self.task = task
        self.heard = heard
        self.now_us = now_us
        self.waited_us = max(0, now_us - heard.since_us)
        interval_s = task.config.heartbeat_interval_s
        self.silence = Silence(heard.detector, interval_s, now_us, heard.began_us, heard.found)

    def whom(self, members: list[str]) -> str:
        return self.silence.whom(members, self._does, self._still_us)

    def _does(self, member: str) -> tuple[int, str]:
        is_stuck = stuck_for_us(self.task.participants[member], self.task, self.heard, self.now_us)
        return (0, STILL) if is_stuck else (1, "training")

    def _still_us(self, member: str) -> int:
        pulse = self.heard.pulses.get(member)
        if pulse is None:
            return -1
        still_us = self.now_us - max(pulse.progress_us, self.heard.since_us)
        return still_us if pulse.beat.progress or still_us >= us(self.task.config.stuck_after_s) else -1


def explain(task: Task, heard: Heard, now_us: int) -> Explanation:
    if task.state in OVER:
        return Explanation(f"the run is over after {max(0, task.number)} rounds: {task.reason or 'all rounds'}")
    if task.state is Phase.PAUSED:
        return Explanation(f"paused before round {max(0, task.number)} is done: {task.reason}; resume it to go on")
    sight = Sight(task, heard, now_us)
    sentence, wait = _phase(sight)
    named = set(wait.missing) & task.here.keys()
    silent = sight.silence.waits(sorted(task.here), named)
    still = _stuck(sight)
    told = sight.silence.told([one for one in silent if one.missing[0] not in named])
    told += stuck_told([one for one in still if one.missing[0] not in named])
    return Explanation(joined([sentence, *told]), (wait, *silent, *still))


def _phase(sight: Sight) -> tuple[str, Wait]:
    task = sight.task
    if task.state is Phase.ROUND and task.round is not None:
        return _round(task.round, sight)
    if task.state is Phase.STANDBY:
        return _standby(sight)
    if task.state is Phase.CLOSING:
        updates = len(task.history[-1].admitted)
        what = f"{updates} updates are aggregated"
        awaited = f"the aggregation of {updates} {'update' if updates == 1 else 'updates'}"
    else:
        what, awaited = "the new model is evaluated", "the evaluation of the new model"
    then = "" if task.pausing is None else f"; then it pauses: {task.pausing}"
    sentence = f"round {task.number} waits for {awaited}, {said_s(sight.waited_us)} so far{then}"
    return sentence, Wait(f"round {task.number}: {what}", (), sight.waited_us, None, "")


# -- standby -------------------------------------------------------------------------------------------------------


def _standby(sight: Sight) -> tuple[str, Wait]:
    task, config = sight.task, sight.task.config
    gone, out = drawing.absent(task)
    why = drawing.why_not_begin(task) or "it can begin"
    also = f"; quarantined: {few(out)}" if out else ""
    left_us = max(0, us(config.standby_max_s) - sight.waited_us)
    name = "the initial weights" if task.number < 0 else f"round {task.number}"
    wait = Wait(f"standby before {name}: {why}{also}", tuple(gone), sight.waited_us, left_us, "it pauses")
    round_ = task.round or Round(task.number, drawing.target(task), 0)
    if not drawing.why_not_begin(task):  # the collector has not looked since
        wait = Wait(wait.what, (), sight.waited_us, 0, "it begins")
        return f"{round_.called()} begins at any moment ({len(task.here)} are registered)", wait
    waits = "is suspended and waits" if task.round is not None and task.round.attempt else "waits"
    sentence = f"{round_.called()} {waits} for {_lacking(round_, sight)}{_absent(gone, out, task)})"
    return f"{sentence}, {said_s(sight.waited_us)} so far; it pauses {soon(left_us)}", wait


def _lacking(round_: Round, sight: Sight) -> str:
    """How many must come, and in parentheses that are left open, why."""
    task = sight.task
    standing, needed = count(task, round_), least(task, round_)
    here, clients = len(task.here), task.config.clients
    if here < clients:
        lacking = more(clients - here, "participant")
        if needed <= standing.reachable and standing.training:
            lacking += f", or for updates of {few(sorted(task.tally.training))}"
        return f"{lacking} ({here} of clients = {clients} are registered"
    if task.number < 0:
        return f"a participant that can give them ({here} are registered"
    can = len(drawing.eligible(task))
    return f"{more(needed - standing.reachable - can, 'participant')} ({can} of the {here} registered can step in"


def _absent(gone: list[str], out: list[str], task: Task) -> str:
    """Those who could change that, each with the reason why it does not."""
    slow = [] if task.round is None else sorted(a.member for a in task.round.having(Fate.DROPPED))
    lost = [member for member in gone if task.participants[member].state is ParticipantState.LOST]
    left = [member for member in gone if member not in set(lost)]
    groups = (("lost", lost), ("left", left), ("timed out", slow), ("quarantined", out))
    return "".join(f"; {what}: {few(names)}" for what, names in groups if names)


# -- a round -------------------------------------------------------------------------------------------------------


def _round(round_: Round, sight: Sight) -> tuple[str, Wait]:
    task = sight.task
    standing = count(task, round_)
    open_us = sight.waited_us + round_.spent_us
    training = sorted(task.tally.training)
    most_us, min_us = us(task.config.time_max_s), us(task.config.time_min_s)
    hoped = Count(standing.admitted + standing.offered, 0, standing.training)
    """With all that is examined, which takes a moment unless the store is away."""
    enough = rounds.why_close(task, round_, hoped, max(open_us, min_us)) != ""
    if standing.offered and enough and open_us >= min_us:
        hoped, training = standing, []
        whom = f"{standing.offered} {'update' if standing.offered == 1 else 'updates'} {EXAMINED}"
    elif enough:
        training, whom = [], ""
    else:
        whom = sight.whom(training)
    if open_us >= most_us:
        hoped = standing
    left_us, then = _end(round_, hoped, open_us, sight)
    wait = Wait(f"{round_.called()}: {_done(round_, standing)}", tuple(training), open_us, left_us, then)
    awaited = f"waits for {whom}" if whom else "has what it waits for" if enough else "has lost too many"
    if enough and open_us < min_us:
        awaited = f"waits until time_min_s = {task.config.time_min_s:g} is over"
    said = Count(standing.admitted, 0, 0) if whom.endswith(EXAMINED) else standing
    done = "" if round_.number < 0 else f" ({_done(round_, said)})"
    return f"{round_.called()}{done} {awaited}, {said_s(open_us)} so far; {then} {soon(left_us)}", wait


def _done(round_: Round, standing: Count) -> str:
    if round_.number < 0:
        return "they are being examined" if standing.offered else "they are awaited"
    done = f"{standing.admitted} of {round_.target} updates are in"
    if standing.offered:
        done += f", {standing.offered} {'is' if standing.offered == 1 else 'are'} being examined"
    return done


def _end(round_: Round, standing: Count, open_us: int, sight: Sight) -> tuple[int, str]:
    """The first thing that ends the wait if nobody sends an update, and when: losses, one after the other, or one of
    the round's times. Follows what the collector does."""
    task = sight.task
    losses = sight.silence.losses(task.tally.training)
    times_us = (us(task.config.time_min_s), us(task.config.time_max_s), rounds.patience_us(task))
    moments = sorted({0, *(left_us for left_us, _ in losses), *(max(0, time_us - open_us) for time_us in times_us)})
    lost = 0
    for left_us in moments:
        before = lost
        while lost < len(losses) and losses[lost][0] <= left_us:
            lost += 1
        left = Count(standing.admitted, standing.offered, standing.training - lost)
        if _goes_on(round_, left, open_us + left_us, sight):
            continue
        gone = [member for _, member in losses[:lost]]
        who = f"{are_lost(gone)} and " if lost > before else ""
        return left_us, who + _follows(round_, left, gone, open_us + left_us, sight)
    return moments[-1], "it closes"


def _goes_on(round_: Round, standing: Count, open_us: int, sight: Sight) -> bool:
    """Whether nothing follows for the collector when the round stands like this and has been open for so long."""
    task = sight.task
    if rounds.why_close(task, round_, standing, open_us) or standing.reachable < least(task, round_):
        return False
    return open_us < us(task.config.time_max_s) or _in_time(standing, open_us, task) >= least(task, round_)


def _in_time(standing: Count, open_us: int, task: Task) -> int:
    return standing.admitted + (0 if open_us >= rounds.patience_us(task) else standing.offered)


def _follows(round_: Round, standing: Count, lost: list[str], open_us: int, sight: Sight) -> str:
    """What the collector does then, when these are lost."""
    task = sight.task
    if rounds.why_close(task, round_, standing, open_us):
        return f"it closes with {standing.admitted} {'update' if standing.admitted == 1 else 'updates'}"
    if standing.reachable < least(task, round_):
        replaced = "is replaced" if len(lost) == 1 else "are replaced"
        return _replaced(replaced if lost else "others step in", standing.reachable, len(lost), sight)
    slow = sorted(task.tally.training - set(lost))
    out = [f"{few(slow)} {'times' if len(slow) == 1 else 'time'} out"] if slow else []
    if standing.offered and open_us >= rounds.patience_us(task):
        one = standing.offered == 1
        out.append(
            f"the {'update that is' if one else 'updates that are'} not examined {'is' if one else 'are'} dropped"
        )
    one = len(slow) == 1 and len(out) == 1
    replaced = "is replaced" if one else "are replaced"
    return f"{', '.join(out)} and {_replaced(replaced, _in_time(standing, open_us, task), len(lost), sight)}"


def _replaced(replaced: str, reachable: int, lost: int, sight: Sight) -> str:
    """The round is suspended; it goes on at once if enough are registered and can step in."""
    task = sight.task
    round_ = task.round
    if round_ is None:
        return ""
    lacking = max(
        task.config.clients - (len(task.here) - lost), least(task, round_) - reachable - len(drawing.eligible(task))
    )
    return replaced if lacking <= 0 else f"it waits for {more(lacking, 'participant')}"


# -- participants --------------------------------------------------------------------------------------------------


def _stuck(sight: Sight) -> list[Wait]:
    return [
        stuck(member, stuck_us)
        for member in sorted(sight.task.here)
        if not sight.silence.is_long(member)
        if (stuck_us := stuck_for_us(sight.task.here[member], sight.task, sight.heard, sight.now_us))
    ]


def stuck_for_us(participant: Participant, task: Task, heard: Heard, now_us: int) -> int:
    pulse = heard.pulses.get(participant.id)
    if pulse is None or participant.state is not ParticipantState.TRAINING:
        return 0
    still_us = now_us - max(pulse.progress_us, heard.since_us)
    return still_us if still_us >= us(task.config.stuck_after_s) else 0


# -- figures -------------------------------------------------------------------------------------------------------


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

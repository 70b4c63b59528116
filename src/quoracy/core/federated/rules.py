"""What the rows of the participant's table check and change."""

from __future__ import annotations

from quoracy.core.dice import Cup
from quoracy.core.errors import Refusal
from quoracy.core.federated import reports
from quoracy.core.federated.events import (
    ParticipantJoined,
    ParticipantLeft,
    ParticipantLost,
    ParticipantReadmitted,
    UpdateOffered,
)
from quoracy.core.federated.measured import numbers_of
from quoracy.core.federated.state import (
    HERE,
    OPEN_TO_UPDATES,
    OVER,
    Assignment,
    Fate,
    Participant,
    ParticipantState,
    Task,
    Verdict,
)
from quoracy.core.machine import DONE, Applied, Duty, DutyEnded, Event, View

S = ParticipantState
MAX_WHY = 240
MAX_RETRY_S = 60.0

# -- coming and going ----------------------------------------------------------------------------------------------


def check_room(task: Task, participant: Participant, _event: ParticipantJoined, _at_us: int) -> Refusal | None:
    if len(task.here) >= task.config.max_participants and participant.state not in HERE:
        why = f"{len(task.here)} participants are here and max_participants = {task.config.max_participants}"
        retry_s = min(task.config.heartbeat_timeout_s, MAX_RETRY_S)  # by then whoever is dead has made room
        return Refusal("come_later", why, f"try again in {retry_s:.15g} s, or raise max_participants", retry_s)
    return None


def pick_join(task: Task, participant: Participant, _event: Event, _at_us: int) -> ParticipantState:
    """Back at its old place, if that is still to be filled: only what is not done has to be done again."""
    mine = _assignment(task, participant)
    return S.TRAINING if mine is not None and mine.fate in (Fate.TRAINING, Fate.OFFERED) else S.WAITING


def do_join(task: Task, participant: Participant, event: ParticipantJoined, at_us: int, _cup: Cup) -> Applied:
    if participant.seat == 0:
        task.seats += 1
        participant.seat = task.seats
    participant.incarnation = event.supersedes + 1
    participant.since_us = at_us
    participant.labels = event.labels
    participant.initial = event.initial
    participant.reason = ""
    task.participants[participant.id] = participant
    task.place(participant, pick_join(task, participant, event, at_us))
    result = {
        "seat": participant.seat,
        "heartbeat_interval_s": task.config.heartbeat_interval_s,
        "heartbeat_timeout_s": task.config.heartbeat_timeout_s,
    }
    return Applied(result, (View("standing", (participant.id,)),))


def pick_leave(task: Task, _participant: Participant, _event: Event, _at_us: int) -> ParticipantState:
    return S.DONE if task.state in OVER else S.LEFT


def do_leave(task: Task, participant: Participant, event: ParticipantLeft, at_us: int, _cup: Cup) -> Applied:
    return _end(task, participant, pick_leave(task, participant, event, at_us), event.reason, at_us)


def do_lose(task: Task, participant: Participant, event: ParticipantLost, at_us: int, _cup: Cup) -> Applied:
    participant.losses += 1
    return _end(task, participant, S.LOST, event.reason, at_us)


def _end(task: Task, participant: Participant, state: ParticipantState, reason: str, at_us: int) -> Applied:
    participant.since_us = at_us
    participant.reason = reason
    task.place(participant, state)
    return Applied(None, (View("standing", (participant.id,)),))


def do_readmit(task: Task, participant: Participant, _event: ParticipantReadmitted, at_us: int, _cup: Cup) -> Applied:
    """Its place is free until it joins: it has ended when it was told."""
    participant.refused = 0
    return _end(task, participant, S.LEFT, "an operator lets it back in", at_us)


# -- updates -------------------------------------------------------------------------------------------------------


def _assignment(task: Task, participant: Participant) -> Assignment | None:
    return None if task.round is None else task.round.assignments.get(participant.id)


def check_offer(task: Task, participant: Participant, event: UpdateOffered, _at_us: int) -> Refusal | None:
    """Of this round and by this ticket, once."""
    if told_before(participant, event):
        return None
    mine = _assignment(task, participant)
    if task.round is None or mine is None or task.state not in OPEN_TO_UPDATES:
        return _late(task, participant, event)
    if event.round != task.round.number or event.ticket != mine.ticket:
        return _late(task, participant, event)
    if mine.fate is Fate.OFFERED and mine.offer is not None and event.digest != mine.offer.digest:
        why = f"{participant.called()} has offered other weights for round {event.round}, which are being looked at"
        return Refusal("contradiction", why, "wait for the verdict")
    if mine.fate not in (Fate.TRAINING, Fate.OFFERED):
        return _late(task, participant, event)
    if event.samples < 1 and event.round >= 0:
        return Refusal("malformed", "samples = 0: an update of nothing weighs nothing", "train on at least one sample")
    measured = (*event.metrics.values(), *event.history.values())
    if any(number != number for value in measured for number in numbers_of(value)):
        return Refusal("malformed", "a metric is not a number", "leave it out")
    return None


def _late(task: Task, participant: Participant, event: UpdateOffered) -> Refusal:
    stands = task.state.value if task.round is None else f"at {task.round.called()}"
    known = participant.verdict
    void = known is not None and (known.round, known.ticket) == (event.round, event.ticket) and not known.admitted
    because = f" ({known.why})" if known is not None and void else ""
    update = f"an update for round {event.round} with ticket {event.ticket}"
    why = f"{update} comes while the run is {stands}: not counted{because}"
    return Refusal("late_update", why, "ask for the assignment that counts now")


def do_offer(task: Task, participant: Participant, event: UpdateOffered, at_us: int, cup: Cup) -> Applied:
    if told_before(participant, event):
        return remind(task, participant, event, at_us, cup)
    mine = _assignment(task, participant)
    if mine is None or task.round is None or mine.fate is Fate.OFFERED:
        return DONE
    task.mark(mine, Fate.OFFERED)
    mine.offer = event
    order = {
        "round": event.round, "ticket": event.ticket, "participant": participant.id, "digest": event.digest,
        "size_bytes": event.size_bytes, "reference": task.weights, "norm_bound": task.config.norm_bound,
        "max_update_bytes": task.config.max_update_bytes, "metrics_digest": event.metrics_digest,
        "max_metrics_bytes": task.config.max_metrics_bytes,
    }  # fmt: skip
    return Applied(None, (Duty("admit", order),))


def check_repeat(task: Task, participant: Participant, event: UpdateOffered, _at_us: int) -> Refusal | None:
    return None if told_before(participant, event) else _late(task, participant, event)


def told_before(participant: Participant, event: UpdateOffered) -> bool:
    """A new life may not know that its update counts, or why not: told again, it is reminded, whatever it does now."""
    known = participant.verdict
    return known is not None and (known.round, known.ticket, known.digest) == (event.round, event.ticket, event.digest)


def remind(_task: Task, participant: Participant, _event: Event, _at_us: int, _cup: Cup) -> Applied:
    return Applied(None, (View("standing", (participant.id,)),))


# -- verdicts ------------------------------------------------------------------------------------------------------


def concerns(task: Task, event: DutyEnded) -> Participant | None:
    """Whose update was looked at; None if nobody waits for that any more."""
    order = event.duty.order
    participant = task.participants.get(str(order.get("participant")))
    mine = None if participant is None else _assignment(task, participant)
    if participant is None or mine is None or task.round is None or mine.offer is None:
        return None
    same = (order.get("round"), order.get("ticket"), order.get("digest")) == (
        task.round.number, mine.ticket, mine.offer.digest,
    )  # fmt: skip
    return participant if same and mine.fate is Fate.OFFERED else None


def admitted(event: DutyEnded) -> bool:
    return bool((event.result or {}).get("ok"))


def pick_verdict(task: Task, participant: Participant, event: DutyEnded, _at_us: int) -> ParticipantState:
    if admitted(event):
        return S.WAITING
    return S.QUARANTINED if participant.refused + 1 >= task.config.refused_max else S.WAITING


def keep_state(task: Task, participant: Participant, event: DutyEnded, at_us: int) -> ParticipantState:
    """Of one that is gone: what it left behind counts all the same, and poison is held against it."""
    picked = pick_verdict(task, participant, event, at_us)
    return picked if picked is S.QUARANTINED else participant.state


def do_verdict(task: Task, participant: Participant, event: DutyEnded, at_us: int, _cup: Cup) -> Applied:
    mine = _assignment(task, participant)
    result = event.result or {}
    if mine is None or mine.offer is None or task.round is None:
        return DONE
    ok = admitted(event)
    why = "" if ok else str(result.get("why", "it could not be looked at"))[:MAX_WHY]
    here = participant.state in HERE
    state = pick_verdict(task, participant, event, at_us) if here else keep_state(task, participant, event, at_us)
    task.mark(mine, Fate.ADMITTED if ok else Fate.REFUSED)
    mine.why = why
    norm = result.get("norm")
    mine.norm = float(norm) if ok and isinstance(norm, float | int) else 0.0
    participant.verdict = Verdict(task.round.number, mine.ticket, mine.offer.digest, ok, why)
    participant.since_us = at_us
    reports.keep(task, task.round, mine, result, at_us)
    if ok:
        participant.trained = task.round.number
        participant.updates += task.round.number >= 0  # weights to begin with are no update
    else:
        participant.refused += 1
        participant.reason = why
    task.place(participant, state)
    return Applied(None, (View("standing", (participant.id,)),))


# -- being drawn, and being let go ---------------------------------------------------------------------------------


def do_train(_task: Task, participant: Participant, _event: Event, at_us: int, _cup: Cup) -> Applied:
    participant.since_us = at_us
    return DONE


def do_release(_task: Task, participant: Participant, _event: Event, at_us: int, _cup: Cup) -> Applied:
    """Its round goes on without it; what became of its update is said where the round lets it go."""
    participant.since_us = at_us
    return DONE

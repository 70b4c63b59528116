"""A fleet in words: what it is waiting for, who is missing, and what happens when if they stay away.

Only those who are missing are named, each with what is known of it: silent, stopped, paused, at another barrier, stuck,
or at work. What is said to happen is the first thing that ends the wait: the loss of all who are missing, if that comes
before the barrier's deadline.

Alive but stuck is told apart from dead: a worker whose heartbeats go on while its training does not move, and which
stands at no barrier, is named as stuck. It is not given up for that; it may be compiling.
"""

from __future__ import annotations

from quoracy.core.cluster.heard import Gathering, Heard
from quoracy.core.cluster.state import Fleet, Phase, Worker, WorkerState
from quoracy.core.cluster.tangles import Tangle, tangles
from quoracy.core.codec import said_s, us
from quoracy.core.machine import Explanation, Wait
from quoracy.core.waits import (
    LATE,
    NAMES_SHOWN,
    SENTENCES_TOLD,
    SILENT_ALONE,
    few,
    heartbeat,
    joined,
    listed,
    silent_told,
    soon,
    stuck,
    stuck_told,
)

HALTS = frozenset({"stopped by a signal", "stopped by a debugger", "waits for a disk"})
"""What heartbeats say, among the words of their ``task``, of a process that the kernel does not let go on."""
PAUSED = "paused by an operator"
ABORTED = "it is aborted for all"
DOING = {
    WorkerState.IDLE: "idle",
    WorkerState.LOADING_DATA: "loading data",
    WorkerState.TRAINING: "training",
    WorkerState.CHECKPOINTING: "checkpointing",
    WorkerState.RECOVERING: "recovering since the roll-back",
}


class Sight:
    """All that an explanation is made of."""

    def __init__(self, fleet: Fleet, heard: Heard, now_us: int) -> None:
        self.fleet = fleet
        self.heard = heard
        self.now_us = now_us
        self.stands = heard.stands_at()
        """By seat: at which barrier a worker stands, or at one of them."""
        interval_us = us(fleet.config.heartbeat_interval_s)
        self.late_us = int(LATE * interval_us)
        self.silence_us = 2 * interval_us
        self.timeout_us = us(fleet.config.heartbeat_timeout_s)

    def silent_us(self, worker: Worker) -> int:
        return self.heard.detector.silent_us(worker.id, self.now_us) or 0

    def lost_in_us(self, worker: Worker) -> int:
        return max(0, self.timeout_us - self.silent_us(worker))

    def is_unheard(self, worker: Worker) -> bool:
        """Since this coordinator has begun: it gave everybody a fresh time-out."""
        return self.heard.is_unheard(worker.seat, worker.id, self.now_us)

    def stays_away(self, worker: Worker) -> bool:
        """Whether its loss is what to expect of one that a barrier waits for."""
        return self.silent_us(worker) >= self.late_us or self.is_unheard(worker)


def explain(fleet: Fleet, heard: Heard, now_us: int) -> Explanation:
    if fleet.state is Phase.CLOSED:
        return Explanation(f"the run is over: {fleet.reason or 'it was stopped'}")
    sight = Sight(fleet, heard, now_us)
    circles, others = tangles(heard.gatherings.values())
    told = [_circle(tangle, sight) for tangle in circles]
    told += [_barrier(gathering, sight, detailed=i < SENTENCES_TOLD) for i, gathering in enumerate(others)]
    awaited = {name for _, wait in told for name in wait.missing}
    silent, still = _silent(sight, awaited), _stuck(sight)
    sentences = [sentence for sentence, _ in told]
    sentences += _silent_told([wait for wait in silent if wait.missing[0] not in awaited], sight)
    sentences += stuck_told([wait for wait in still if wait.missing[0] not in awaited])
    waits = [*(wait for _, wait in told), *silent, *still]
    return Explanation(joined(sentences or [_at_rest(sight)]), tuple(waits))


# -- barriers ------------------------------------------------------------------------------------------------------


def _barrier(gathering: Gathering, sight: Sight, *, detailed: bool) -> tuple[str, Wait]:
    fleet = sight.fleet
    missing = [fleet.taking_part[s] for s in sorted(fleet.taking_part.keys() - gathering.arrivals.keys())]
    waited_us = sight.now_us - gathering.since_us
    lacking = fleet.config.barrier_min - len(fleet.taking_part)
    left_us, then = _end(gathering, missing, sight)
    what = f"barrier {gathering.name}" + (f": {too_few(fleet)}" if lacking > 0 else "")
    wait = Wait(what, tuple(worker.id for worker in missing), waited_us, left_us, then)
    if not detailed:
        return "", wait
    steps = set(gathering.steps.values())
    at = f" (step {steps.pop()})" if len(steps) == 1 else ""
    whom = _whom(missing, sight)
    if lacking > 0:
        more = f"{lacking} more {'worker' if lacking == 1 else 'workers'} ({too_few(fleet)}{_not_yet(sight, '; ')})"
        whom = f"{whom} and {more}" if whom else more
    end = f"{then} {soon(left_us)}"
    if len(steps) > 1:
        end += f", or when it is full: the steps differ ({by_step(gathering.steps, fleet)})"
    return f"barrier {gathering.name}{at} waits for {whom}, {said_s(waited_us)} so far; {end}", wait


def _end(gathering: Gathering, missing: list[Worker], sight: Sight) -> tuple[int, str]:
    """The first thing that ends the wait if nobody comes, and when: losses, one after the other, or the deadline."""
    fleet = sight.fleet
    deadline_us = max(0, gathering.deadline_us - sight.now_us)
    part, least = len(fleet.taking_part), fleet.config.barrier_min
    if part < least:
        return deadline_us, ABORTED
    silent = [worker for worker in missing if sight.stays_away(worker)]
    silent.sort(key=lambda worker: (sight.lost_in_us(worker), worker.seat))
    for lost, worker in enumerate(silent, 1):
        left_us = sight.lost_in_us(worker)
        if left_us > deadline_us:
            break
        who = f"{few([worker.id for worker in silent[:lost]])} {'is' if lost == 1 else 'are'} lost"
        if part - lost < least:
            return left_us, f"{who} and {ABORTED} ({part - lost} of barrier_min = {least} take part)"
        if lost == len(missing):
            return left_us, f"{who} and the others go on"
    return deadline_us, ABORTED


def _whom(missing: list[Worker], sight: Sight) -> str:
    """Names with what is known of them, those with the same remark together, the worst first."""
    groups: dict[tuple[int, str], list[Worker]] = {}
    for worker in missing:
        groups.setdefault(_does(worker, sight), []).append(worker)
    several = len(missing) > 1
    said = []
    for (_, remark), workers in sorted(groups.items(), key=lambda group: group[0]):
        alone = remark == SILENT and len(workers) <= SILENT_ALONE
        together = [[worker] for worker in sorted(workers, key=sight.lost_in_us)] if alone else [workers]
        said += [f"{few([w.id for w in some])} ({_remark(remark, some, several, sight)})" for some in together]
    return listed(said)


UNHEARD, SILENT, STUCK, MOVES = "unheard", "silent", "stuck", "moves"


def _does(worker: Worker, sight: Sight) -> tuple[int, str]:
    """How bad it is, and what to say of it."""
    pulse = sight.heard.pulses.get(worker.id)
    if sight.is_unheard(worker):
        return 0, UNHEARD
    if sight.silent_us(worker) >= sight.late_us:
        return 1, SILENT
    words = set(pulse.beat.task.split("; ")) if pulse is not None and pulse.beat.task else set()
    if halt := words & HALTS:
        return 2, halt.pop()
    if PAUSED in words or is_paused(worker):
        return 3, PAUSED
    if (name := sight.stands.get(worker.seat)) is not None:
        return 4, f"stands at barrier {name}"
    if stuck_for_us(worker, sight.fleet, sight.heard, sight.stands, sight.now_us):
        return 5, STUCK
    return (6, DOING[worker.state]) if pulse is None or not pulse.beat.progress else (7, MOVES + DOING[worker.state])


def _remark(remark: str, workers: list[Worker], several: bool, sight: Sight) -> str:
    """``several``: the loss of one of them is not the end of the wait, so it is told here."""
    if remark in (UNHEARD, SILENT):
        longest = max(workers, key=sight.silent_us)
        up_to = "up to " if len(workers) > 1 else ""
        lost = f", {'the first is ' if up_to else ''}lost {soon(sight.lost_in_us(longest))}" if several else ""
        if remark == UNHEARD:
            return f"not heard since the coordinator started {said_s(sight.silent_us(longest))} ago{lost}"
        return f"silent for {up_to}{said_s(sight.silent_us(longest))}{lost}"
    if remark != STUCK and not remark.startswith(MOVES):
        return remark
    still_us = sight.now_us - min(sight.heard.pulses[worker.id].progress_us for worker in workers)
    if remark == STUCK:
        return f"alive but stuck: no progress for {said_s(still_us)}"
    doing = remark.removeprefix(MOVES)
    return doing if len(workers) > 1 else f"{doing}, last progress {said_s(still_us)} ago"


def _circle(tangle: Tangle, sight: Sight) -> tuple[str, Wait]:
    """Barriers that wait for each other: none of them is ever released, unless another thread of somebody comes."""
    fleet = sight.fleet
    names = [gathering.name for gathering in tangle.gatherings]
    missing = [worker for seat, worker in sorted(fleet.taking_part.items()) if seat not in tangle.at_all]
    waited_us = sight.now_us - min(gathering.since_us for gathering in tangle.gatherings)
    left_us, then = max(0, min(g.deadline_us for g in tangle.gatherings) - sight.now_us), f"the first {ABORTED[3:]}"
    silent = [worker for worker in missing if sight.stays_away(worker)]
    first = min(silent, key=sight.lost_in_us, default=None)
    if first is not None and sight.lost_in_us(first) <= left_us:
        left_us, then = sight.lost_in_us(first), f"{first.id} is lost"
    what = f"barriers {few(names)}: they wait for each other"
    wait = Wait(what, tuple(worker.id for worker in missing), waited_us, left_us, then)
    stand = listed(_standing(tangle, fleet))
    nowhere = [worker for worker in missing if worker.seat not in tangle.at_any]
    also = f"; all of them wait for {_whom(nowhere, sight)}" if nowhere else ""
    fix = "to go on, drop one (quoracy run drop-barrier); every worker must call all of them in the same order"
    circle = f"barriers {few(names)} wait for each other, {said_s(waited_us)} so far: {stand}{also}"
    return f"{circle}; {then} {soon(left_us)}; {fix}", wait


def _standing(tangle: Tangle, fleet: Fleet) -> list[str]:
    """Who stands at which barrier of the circle and is missing at another one."""
    said: list[str] = []
    for gathering in tangle.gatherings[:NAMES_SHOWN]:
        seats = [seat for seat in gathering.arrivals if seat not in tangle.at_all and seat in fleet.by_seat]
        verb = "" if said else "stands " if len(seats) == 1 else "stand "
        said.append(f"{few([fleet.by_seat[seat].id for seat in seats])} {verb}at {gathering.name}")
    return said


# -- workers -------------------------------------------------------------------------------------------------------


def _silent(sight: Sight, awaited: set[str]) -> list[Wait]:
    """Those who have missed a heartbeat and more: people want to know before it is a loss."""
    return [
        heartbeat(worker.id, silent_us, sight.timeout_us)
        for _, worker in sorted(sight.fleet.by_seat.items())
        if (silent_us := sight.silent_us(worker)) >= sight.late_us
        if silent_us >= sight.silence_us or worker.id in awaited
    ]


def _silent_told(waits: list[Wait], sight: Sight) -> list[str]:
    if not waits:
        return []
    fleet = sight.fleet
    unheard: list[Wait] = []
    silent: list[Wait] = []
    for wait in waits:
        (unheard if sight.is_unheard(fleet.workers[wait.missing[0]]) else silent).append(wait)
    sentences = [*silent_told(unheard, "the coordinator started"), *silent_told(silent)]
    part = sum(fleet.workers[wait.missing[0]].seat in fleet.taking_part for wait in waits)
    stay, least = len(fleet.taking_part) - part, fleet.config.barrier_min
    if 1 < least <= len(fleet.taking_part) and stay < least:
        more = f"{least - stay} more {'worker' if least - stay == 1 else 'workers'}"
        sentences[-1] += f"; barriers then wait for {more} (barrier_min = {least})"
    return sentences


def _stuck(sight: Sight) -> list[Wait]:
    fleet, waits = sight.fleet, []
    for _, worker in sorted(fleet.by_seat.items()):
        still_us = stuck_for_us(worker, fleet, sight.heard, sight.stands, sight.now_us)
        if still_us and sight.silent_us(worker) < sight.silence_us:
            waits.append(stuck(worker.id, still_us))
    return waits


def stuck_for_us(worker: Worker, fleet: Fleet, heard: Heard, stands: dict[int, str], now_us: int) -> int:
    """How long its training has not moved, if that is too long; 0 if it is not stuck."""
    pulse = heard.pulses.get(worker.id)
    if pulse is None or worker.seat not in fleet.taking_part or worker.seat in stands or is_paused(worker):
        return 0
    still_us = now_us - pulse.progress_us
    return still_us if still_us >= us(fleet.config.stuck_after_s) else 0


def is_paused(worker: Worker) -> bool:
    return worker.order is not None and worker.order.command == "pause"


def _at_rest(sight: Sight) -> str:
    """Nothing is awaited that ends by itself: who holds things up all the same?"""
    fleet = sight.fleet
    here, part, least = len(fleet.by_seat), len(fleet.taking_part), fleet.config.barrier_min
    if not here:
        lost = sum(worker.state is WorkerState.FAILED for worker in fleet.workers.values())
        gone = f" any more (lost: {lost}, left: {len(fleet.workers) - lost})" if fleet.workers else ""
        return f"no worker is here{gone}: waits for one to register"
    held = [worker.id for _, worker in sorted(fleet.taking_part.items()) if is_paused(worker)]
    if held and len(held) == part:
        them = "it" if len(held) == 1 else "them"
        return f"an operator has paused {few(held)}: waits for an operator to resume {them}"
    if not part:
        return f"no worker takes part in barriers: {_not_yet(sight)}"
    notes = [f"an operator has paused {few(held)}"] if held else []
    fallen = [w.id for _, w in sorted(fleet.taking_part.items()) if w.state is WorkerState.RECOVERING]
    if fallen:
        notes.append(f"{few(fallen)} {'recovers' if len(fallen) == 1 else 'recover'} since the roll-back")
    if here > part:
        notes.append(_not_yet(sight))
    if part < least:
        more = f"{least - part} more {'worker' if least - part == 1 else 'workers'}"
        notes.append(f"barriers wait for {more}: barrier_min = {least}")
    elif part == least > 1:
        notes.append(f"the next loss stops barriers: barrier_min = {least}")
    return "; ".join([f"waits for nobody (workers here: {here}, taking part in barriers: {part})", *notes])


def _not_yet(sight: Sight, before: str = "") -> str:
    """Those who are here and whom no barrier waits for, with the reason."""
    fleet = sight.fleet
    if len(fleet.by_seat) == len(fleet.taking_part):
        return ""
    outside = [fleet.by_seat[seat] for seat in sorted(fleet.by_seat.keys() - fleet.taking_part.keys())]
    setting_up = [worker.id for worker in outside if worker.state is WorkerState.INITIALIZING]
    recovering = [worker.id for worker in outside if worker.state is WorkerState.RECOVERING]
    said = []
    if setting_up:
        said.append(f"{few(setting_up)} {'has' if len(setting_up) == 1 else 'have'} not reported ready")
    if recovering:
        one = len(recovering) == 1
        said.append(f"{few(recovering)} {'recovers and has' if one else 'recover and have'} not reported idle")
    return before + listed(said) if said else ""


# -- words ---------------------------------------------------------------------------------------------------------


def too_few(fleet: Fleet) -> str:
    return f"{len(fleet.taking_part)} of barrier_min = {fleet.config.barrier_min} take part"


def by_step(steps: dict[int, int], fleet: Fleet) -> str:
    ids: dict[int, list[str]] = {}
    for seat, step in steps.items():
        if seat in fleet.by_seat:
            ids.setdefault(step, []).append(fleet.by_seat[seat].id)
    return "; ".join(f"{few(names)} at step {step}" for step, names in sorted(ids.items()))

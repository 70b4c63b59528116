"""What the rows of the run's table check and change: rounds begin, are suspended, close, and become one model.

Never early: a round is closed only if it has what it waits for, by the run's own time. Never without end: who takes too
long is replaced, who cannot be replaced is waited for only so long, and then the run says who is missing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from quoracy.core.codec import said_s, us
from quoracy.core.dice import Cup, Dice
from quoracy.core.errors import Refusal
from quoracy.core.federated import reports
from quoracy.core.federated.config import EarlyStop
from quoracy.core.federated.drawing import eligible, target, wanted, why_not_begin
from quoracy.core.federated.events import (
    Metrics,
    RoundBegan,
    RoundClosed,
    RoundSuspended,
    RunPaused,
    RunStopped,
    StandbyExpired,
)
from quoracy.core.federated.measured import MOST, numbers_of, shape_of, shaped
from quoracy.core.federated.samples import counted, samples_bound
from quoracy.core.federated.state import (
    Assignment,
    Count,
    Fate,
    Over,
    Phase,
    Round,
    Task,
    Verdict,
    count,
    least,
    most,
)
from quoracy.core.machine import DONE, Applied, Duty, DutyEnded, Event, View

SEED_BYTES = 16
MAX_WHY = 240
DIGEST = re.compile("[0-9a-f]{64}")

# -- beginning -----------------------------------------------------------------------------------------------------


def check_begin(task: Task, _run: Task, event: RoundBegan, _at_us: int) -> Refusal | None:
    if event.round != task.number:
        why = f"the next round is {task.number}, not {event.round}"
        return Refusal("round_early", why, "begin that one")
    why = why_not_begin(task)
    return Refusal("round_early", why, "wait for more") if why else None


def do_begin(task: Task, _run: Task, _event: RoundBegan, at_us: int, cup: Cup) -> Applied:
    """Draws from the config's seed alone: neither a crash nor who serves changes who takes part."""
    if task.round is None:
        task.round = Round(task.number, target(task), at_us)
    round_ = task.round
    round_.attempt += 1
    round_.since_us = at_us
    dice = Dice(cup.run, "select", round_.attempt, task.number + 1, task.config.seed.to_bytes(SEED_BYTES, "big"))
    drawn = eligible(task).draw(dice, max(0, wanted(task, round_) - count(task, round_).reachable))
    for member in drawn:
        task.tickets += 1
        _let_go(round_, member)
        task.assign(round_, Assignment(member, task.tickets))
    _enter(task, at_us)
    return Applied({"selected": drawn}, (View("standing", tuple(drawn)),))


def _let_go(round_: Round, member: str) -> None:
    """Its place was lost, and may be filled again."""
    lost = round_.assignments.pop(member, None)
    if lost is not None:
        round_.let_go.append((member, lost.why))


def _enter(task: Task, at_us: int, reason: str = "") -> None:
    """A phase begins."""
    task.since_us = at_us
    task.reason = reason


# -- suspending ----------------------------------------------------------------------------------------------------


def check_suspend(task: Task, _run: Task, event: RoundSuspended, at_us: int) -> Refusal | None:
    round_ = task.round
    if round_ is None or event.round != round_.number:
        return Refusal("round_early", f"round {event.round} is not open", "look again")
    standing = count(task, round_)
    if event.overdue:
        if round_.open_us(at_us) < us(task.config.time_max_s):
            why = f"{round_.called()} is open for {said_s(round_.open_us(at_us))}"
            return Refusal("round_early", why, f"wait until time_max_s = {task.config.time_max_s:g}")
        if event.unseen and round_.open_us(at_us) < patience_us(task):
            why = f"{round_.called()} is open for {said_s(round_.open_us(at_us))}"
            return Refusal("round_early", why, "wait for what is being looked at, twice time_max_s")
        if standing.admitted + (0 if event.unseen else standing.offered) >= least(task, round_):
            return Refusal("contradiction", f"{round_.called()} has enough updates", "close it")
    elif standing.reachable >= least(task, round_):
        why = f"{round_.called()} can still have {standing.reachable} updates and needs {least(task, round_)}"
        return Refusal("round_early", why, "wait for them")
    return None


def do_suspend(task: Task, _run: Task, event: RoundSuspended, at_us: int, _cup: Cup) -> Applied:
    round_ = task.round
    if round_ is None:
        return DONE
    open_us = round_.open_us(at_us)
    overdue = round_.having(Fate.TRAINING) if event.overdue else []
    for assignment in overdue:
        _drop(task, round_, assignment, f"not done within {said_s(open_us)}", at_us)
    if event.overdue and event.unseen:
        unseen = round_.having(Fate.OFFERED)
        for assignment in unseen:
            _drop(task, round_, assignment, f"could not be looked at within {said_s(open_us)}", at_us)
        overdue += unseen
    round_.spent_us = 0 if event.overdue else open_us
    _enter(task, at_us, event.reason)
    members = sorted(assignment.member for assignment in overdue)
    return Applied({"overdue": members}, (View("standing", tuple(members)),))


def _drop(task: Task, round_: Round, assignment: Assignment, why: str, at_us: int) -> None:
    """It does not count, and its sender learns why, also if it is away now."""
    task.mark(assignment, Fate.DROPPED)
    assignment.why = why[:MAX_WHY]
    digest = "" if assignment.offer is None else assignment.offer.digest
    verdict = Verdict(round_.number, assignment.ticket, digest, False, assignment.why)
    task.participants[assignment.member].verdict = verdict
    reports.keep(task, round_, assignment, {}, at_us)


def check_expired(task: Task, _run: Task, _event: StandbyExpired, at_us: int) -> Refusal | None:
    if at_us - task.since_us < us(task.config.standby_max_s):
        why = f"in standby for {said_s(at_us - task.since_us)}"
        return Refusal("round_early", why, f"wait until standby_max_s = {task.config.standby_max_s:g}")
    return None


def do_pause(task: Task, _run: Task, event: StandbyExpired | RunPaused, at_us: int, _cup: Cup) -> Applied:
    if task.state is Phase.ROUND and task.round is not None:
        task.round.spent_us = task.round.open_us(at_us)
    _enter(task, at_us, event.reason or "an operator paused it")
    return Applied(None, (View("standing", tuple(sorted(task.here))),))


def do_pause_later(task: Task, _run: Task, event: RunPaused, _at_us: int, _cup: Cup) -> Applied:
    task.pausing = event.reason or "an operator paused it"
    return DONE


def pick_resumed(task: Task, _run: Task, _event: Event, _at_us: int) -> Phase:
    """Where it was: what failed is tried again."""
    over = _undone(task)
    if over is None:
        return Phase.STANDBY
    return Phase.EVALUATING if over.weights else Phase.CLOSING


def do_resume(task: Task, _run: Task, _event: Event, at_us: int, _cup: Cup) -> Applied:
    """Who took too long gets another chance: an operator has looked at it."""
    task.pausing = None
    _enter(task, at_us)
    if task.round is not None:
        task.round.spent_us = 0
        for assignment in task.round.having(Fate.DROPPED):
            _let_go(task.round, assignment.member)
    over = _undone(task)
    if over is None:
        return Applied(None, (View("standing", tuple(sorted(task.here))),))
    return Applied(None, (_evaluate(task) if over.weights else _aggregate(task),))


def _undone(task: Task) -> Over | None:
    """A round that is closed, and has not become a model yet that counts."""
    last = task.history[-1] if task.history else None
    return last if last is not None and last.number == task.number else None


def _aggregate(task: Task) -> Duty:
    over = task.history[-1]
    order = {
        "round": over.number, "updates": [list(update) for update in over.admitted], "previous": task.weights,
        "aggregation": msgspec.to_builtins(task.config.aggregation), "state": task.optimizer,
    }  # fmt: skip
    return Duty("aggregate", order)


def _evaluate(task: Task) -> Duty:
    order = {"round": task.number, "weights": task.weights, "evaluation": task.config.evaluation}
    return Duty("evaluate", order)


def do_cancel_pause(task: Task, _run: Task, _event: Event, _at_us: int, _cup: Cup) -> Applied:
    task.pausing = None
    return DONE


def do_stop(task: Task, _run: Task, event: RunStopped, at_us: int, _cup: Cup) -> Applied:
    _enter(task, at_us, event.reason or "an operator stopped it")
    if (round_ := task.round) is not None:
        for assignment in round_.having(Fate.TRAINING, Fate.OFFERED):
            _drop(task, round_, assignment, f"the run was stopped: {task.reason}", at_us)
    return Applied(None, (View("standing", tuple(sorted(task.here))),))


# -- closing -------------------------------------------------------------------------------------------------------


def patience_us(task: Task) -> int:
    """Updates that are being looked at are waited for, as long again as a round may take: their senders have done their
    part, but a store that is away must not hold a round for ever."""
    return 2 * us(task.config.time_max_s)


def why_close(task: Task, round_: Round, standing: Count, open_us: int) -> str:
    """Why the round may close now; empty if it may not."""
    config = task.config
    if round_.number >= 0 and open_us < us(config.time_min_s):
        return ""
    if standing.admitted >= most(task, round_):
        if round_.number < 0:
            return "all that it waits for"
        return f"{standing.admitted} updates, as many as it is meant to have"
    if standing.admitted < least(task, round_) or (standing.offered and open_us < patience_us(task)):
        return ""
    if not standing.training and not standing.offered:
        return f"{standing.admitted} updates, and nobody who is here trains any more"
    if open_us >= us(config.time_max_s):
        return f"{standing.admitted} updates when time_max_s = {config.time_max_s:g} was over"
    return ""


def check_close(task: Task, _run: Task, event: RoundClosed, at_us: int) -> Refusal | None:
    round_ = task.round
    if round_ is None or event.round != round_.number:
        return Refusal("round_early", f"round {event.round} is not open", "look again")
    standing = count(task, round_)
    if not why_close(task, round_, standing, round_.open_us(at_us)):
        why = f"{round_.called()} has {standing.admitted} of at least {least(task, round_)} updates"
        return Refusal("round_early", why, "wait for them, or for the time to be over")
    if event.samples_bound != (bound := bound_of(task, round_)):
        why = f"samples_bound = {event.samples_bound}, and the updates of {round_.called()} make it {bound}"
        return Refusal("contradiction", why, "close it with that")
    return None


def bound_of(task: Task, round_: Round) -> int:
    """What no claim of samples counts above, among the updates that are admitted now; 0 if none does."""
    if round_.number < 0:
        return 0
    claims = [mine.offer.samples for mine in round_.having(Fate.ADMITTED) if mine.offer is not None]
    return samples_bound(claims, task.config.samples_max) if claims else 0


def pick_closed(_task: Task, _run: Task, event: RoundClosed, _at_us: int) -> Phase:
    return Phase.STANDBY if event.round < 0 else Phase.CLOSING


def do_close(task: Task, _run: Task, event: RoundClosed, at_us: int, _cup: Cup) -> Applied:
    round_ = task.round
    if round_ is None:
        return DONE
    late = round_.having(Fate.TRAINING, Fate.OFFERED)
    for assignment in late:
        _drop(task, round_, assignment, f"late: {round_.called()} closed with {event.reason}", at_us)
    admitted = sorted(round_.having(Fate.ADMITTED), key=lambda assignment: assignment.member)
    concerned = View("standing", tuple(sorted(assignment.member for assignment in late)))
    offers = [assignment.offer for assignment in admitted if assignment.offer is not None]
    _enter(task, at_us)
    if round_.number < 0:
        task.weights, task.size_bytes = offers[0].digest, offers[0].size_bytes
        task.number = 0
        return Applied(None, (concerned,))
    dropped = [*round_.let_go, *((a.member, a.why) for a in round_.having(Fate.DROPPED, Fate.REFUSED))]
    bound = event.samples_bound
    updates = [(offer.member, offer.digest, counted(offer.samples, bound)) for offer in offers]
    clipped = [(offer.member, offer.samples) for offer in offers if offer.samples > counted(offer.samples, bound)]
    metrics = weighted([(counted(offer.samples, bound), offer.metrics) for offer in offers])
    over = Over(round_.number, round_.attempt, round_.began_us, at_us, event.reason, updates, dropped, metrics)
    over.clipped = clipped
    task.history.append(over)
    return Applied(None, (concerned, _aggregate(task)))


def weighted(parts: list[tuple[int, Metrics]]) -> Metrics:
    """The mean of each metric, weighted by samples, where all who sent it did so in the same shape."""
    mean: Metrics = {}
    for name in sorted({name for _, metrics in parts for name in metrics}):
        sent = [(samples, metrics[name]) for samples, metrics in parts if name in metrics]
        total = sum(samples for samples, _ in sent)
        shape = shape_of(sent[0][1])
        if total and all(shape_of(value) == shape for _, value in sent):
            rows = [numbers_of(value) for _, value in sent]
            counts = [samples for samples, _ in sent]
            mean[name] = shaped(shape, [_mean(column, counts, total) for column in zip(*rows, strict=True)])
    return mean


def _mean(numbers: Sequence[float], counts: list[int], total: int) -> float:
    """By samples. Where the sum would be too large for a float, which the mean of such numbers never is, of shares."""
    pairs = list(zip(counts, numbers, strict=True))
    found = sum(samples * number for samples, number in pairs) / total
    return found if abs(found) <= MOST else sum(samples / total * number for samples, number in pairs)


# -- one model -----------------------------------------------------------------------------------------------------


def failed(event: DutyEnded) -> str:
    """Why there is nothing to go on with; what is no proper answer is a failure too."""
    result = event.result or {}
    if "failed" in result:
        return str(result["failed"] or "no reason was given")[:MAX_WHY]
    if event.duty.what == "aggregate":
        proper = _hex(result.get("weights")) and (not result.get("state") or _hex(result["state"]))
        return "" if proper else "what came back names no weights"
    return "" if isinstance(result.get("metrics"), dict) else "what came back has no metrics"


def _hex(value: object) -> bool:
    return isinstance(value, str) and DIGEST.fullmatch(value) is not None


def pick_aggregated(task: Task, _run: Task, event: DutyEnded, at_us: int) -> Phase:
    if event.duty.what != "aggregate":
        return Phase.CLOSING
    if failed(event):
        return Phase.PAUSED
    if task.config.evaluation:
        return Phase.EVALUATING
    return _pick_next(task, {}, at_us)


def do_aggregated(task: Task, _run: Task, event: DutyEnded, at_us: int, _cup: Cup) -> Applied:
    """The new model is what it is from here on; an evaluation changes nothing in it."""
    if event.duty.what != "aggregate":
        return DONE
    if why := failed(event):
        _enter(task, at_us, f"round {task.number} could not be aggregated: {why}")
        return Applied(None, (View("standing", tuple(sorted(task.here))),))
    result = event.result or {}
    over = task.history[-1]
    size_bytes = result.get("size_bytes")
    task.weights, task.size_bytes = str(result["weights"]), size_bytes if isinstance(size_bytes, int) else 0
    task.optimizer = str(result.get("state") or "")
    over.weights, over.size_bytes = task.weights, task.size_bytes
    if task.config.evaluation:
        _enter(task, at_us)
        return Applied(None, (_evaluate(task),))
    return _go_on(task, {}, at_us)


def pick_evaluated(task: Task, _run: Task, event: DutyEnded, at_us: int) -> Phase:
    if event.duty.what != "evaluate":
        return Phase.EVALUATING
    return Phase.PAUSED if failed(event) else _pick_next(task, _measured(event), at_us)


def do_evaluated(task: Task, _run: Task, event: DutyEnded, at_us: int, _cup: Cup) -> Applied:
    if event.duty.what != "evaluate":
        return DONE
    if why := failed(event):
        _enter(task, at_us, f"round {task.number} could not be evaluated: {why}")
        return Applied(None, (View("standing", tuple(sorted(task.here))),))
    task.history[-1].evaluation = _measured(event)
    return _go_on(task, _measured(event), at_us)


def _measured(event: DutyEnded) -> dict[str, float]:
    metrics = (event.result or {}).get("metrics", {})
    return {str(name): float(value) for name, value in metrics.items() if isinstance(value, float | int)}


def _pick_next(task: Task, evaluation: dict[str, float], _at_us: int) -> Phase:
    if task.number + 1 >= task.config.rounds or _stops(task, evaluation)[0]:
        return Phase.FINISHED
    return Phase.STANDBY if task.pausing is None else Phase.PAUSED


def _go_on(task: Task, evaluation: dict[str, float], at_us: int) -> Applied:
    phase = _pick_next(task, evaluation, at_us)
    stops, task.best, task.stale = _stops(task, evaluation)
    task.history[-1].done_us = at_us
    task.number += 1
    if phase is Phase.FINISHED:
        early = task.config.early_stop
        why = f"{early.metric} did not become better for {early.patience} rounds" if stops else "all rounds"
        _enter(task, at_us, why)
    else:
        _enter(task, at_us, task.pausing or "")
        task.pausing = None
    return Applied(None, (View("standing", tuple(sorted(task.here))),)) if phase is not Phase.STANDBY else DONE


def _stops(task: Task, evaluation: dict[str, float]) -> tuple[bool, float | None, int]:
    """Whether to stop early, and the best so far with the rounds since. What is not a number is never better."""
    early = task.config.early_stop
    if not early.metric:
        return False, task.best, task.stale
    value = evaluation.get(early.metric, task.history[-1].metrics.get(early.metric))
    if not isinstance(value, float | int):
        return False, task.best, task.stale
    if value == value and (task.best is None or _better(early, value, task.best)):
        return False, value, 0
    return task.stale + 1 >= early.patience, task.best, task.stale + 1


def _better(early: EarlyStop, value: float, best: float) -> bool:
    return value > best + early.min_delta if early.better == "higher" else value < best - early.min_delta

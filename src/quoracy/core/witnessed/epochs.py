"""Epochs: when one begins, who takes part, when the model is with all of them, and how it ends.

Kept here:

- An epoch begins when enough have come (``init_min_clients`` for the first, ``min_clients`` later) and have been there
  for ``waiting_extra_s``. Those who have waited longest take part, ``max_clients`` at most; the others stay Pending.
- Rounds begin when all have the model, or when the time for it is over; who has not has to catch up. A model that
  nobody at all has, several times in a row, is given up: whoever named its hash was wrong, or lied. So is a checkpoint
  that nobody can load, but later: an object store may be away for a while.
- A pause or a stop that is asked for in a round lets it be sealed and its model be kept.
- Nobody waits for ever, but while members are missing and while the run is paused; and both say so.
"""

from __future__ import annotations

from quoracy.core.codec import said_s, us
from quoracy.core.dice import Cup
from quoracy.core.errors import Refusal
from quoracy.core.machine import DONE, Applied, Event
from quoracy.core.witnessed import checkpoint, evidence
from quoracy.core.witnessed.events import CooldownEnded, RunPaused, RunStopped, WarmupBegan, WarmupEnded
from quoracy.core.witnessed.state import (
    EPOCH,
    EPOCHS_KEPT,
    Course,
    EpochPast,
    Member,
    MemberState,
    Phase,
    Place,
    with_state,
)

S = MemberState
OVER = "the run ended"
BARREN = 3
"""After so many warm-ups in a row in which nobody had the model, not even those who said so, there is no such model."""
BARREN_STORED = 6
"""The same where it should be in the object store."""


# -- waiting for members -------------------------------------------------------------------------------------------


def least(course: Course) -> int:
    """So many must be there before an epoch begins."""
    return course.config.min_clients if course.epochs else course.config.least_first


def pending(course: Course) -> list[Member]:
    """Those who have waited longest first."""
    return sorted((m for m in course.here.values() if m.state is S.PENDING), key=lambda m: (m.since_us, m.seat))


def notice(course: Course, at_us: int) -> None:
    """Since when the least are there."""
    enough = course.state is Phase.WAITING and len(course.here) >= least(course)
    if not enough:
        course.met_us = -1
    elif course.met_us < 0:
        course.met_us = at_us


def check_warmup_began(course: Course, _run: Course, event: WarmupBegan, at_us: int) -> Refusal | None:
    if event.epoch != course.epoch:
        return Refusal("round_early", f"the next epoch is {course.epoch}, not {event.epoch}", "look again")
    if course.met_us < 0:
        why = f"{len(course.here)} of at least {least(course)} members are there"
        return Refusal("round_early", why, "wait for more")
    if at_us - course.met_us < us(course.config.waiting_extra_s):
        why = f"there are enough members for {said_s(at_us - course.met_us)}"
        return Refusal("round_early", why, f"wait until waiting_extra_s = {course.config.waiting_extra_s:g}")
    return None


def do_warmup_began(course: Course, _run: Course, _event: WarmupBegan, at_us: int, _cup: Cup) -> Applied:
    chosen = [member.id for member in pending(course)[: course.config.max_clients]]
    course.moving = dict.fromkeys(sorted(chosen), (S.WARMING, ""))
    course.took_part = sorted(chosen)
    course.began_us = at_us
    course.first_step = course.step
    course.number = 0
    course.newest = None
    course.newest_holders = []
    enter(course, at_us)
    return DONE


def enter(course: Course, at_us: int, reason: str = "") -> None:
    """A phase begins."""
    course.since_us = at_us
    course.met_us = -1
    course.reason = reason


# -- warm-up -------------------------------------------------------------------------------------------------------


def loaded(course: Course, event: WarmupEnded) -> tuple[bytes, list[str]]:
    """The model that is right, and who has it."""
    model = course.place.model or evidence.majority(report.model for report in event.loaded)
    return model, sorted(report.member for report in event.loaded if model and report.model == model)


def check_warmup_ended(course: Course, _run: Course, event: WarmupEnded, at_us: int) -> Refusal | None:
    if event.epoch != course.epoch:
        return Refusal("round_early", f"epoch {course.epoch} warms up, not {event.epoch}", "look again")
    warming = {member.id for member in with_state(course, S.WARMING)}
    if (refusal := evidence.reports(course, event.loaded, warming)) is not None:
        return refusal
    if any(report.step != course.place.step for report in event.loaded):
        return Refusal("wrong_step", f"a report is about another step than {course.place.step}", "leave it out")
    if event.late:
        spent_us = at_us - course.since_us
        if spent_us >= us(course.config.warmup_s):
            return None
        why = f"epoch {course.epoch} has warmed up for {said_s(spent_us)}"
        return Refusal("round_early", why, f"wait until warmup_s = {course.config.warmup_s:g}")
    missing = len(warming) - len(event.loaded)
    if missing and len(warming) >= course.config.min_clients:
        return Refusal("round_early", f"{missing} members have not loaded the model", "wait for them")
    return None


def pick_warmup_ended(course: Course, _run: Course, event: WarmupEnded, _at_us: int) -> Phase:
    _, ready = loaded(course, event)
    return Phase.TRAIN if len(ready) >= course.config.min_clients else Phase.WAITING


def do_warmup_ended(course: Course, run: Course, event: WarmupEnded, at_us: int, _cup: Cup) -> Applied:
    model, ready = loaded(course, event)
    if pick_warmup_ended(course, run, event, at_us) is Phase.WAITING:
        few = f"{len(ready)} have the model of step {course.place.step}, min_clients = {course.config.min_clients}"
        course.reason = few if model or not event.loaded else f"no majority for one initial model: {few}"
        course.barren = 0 if ready else course.barren + 1
        if course.barren >= (BARREN_STORED if course.older and course.place == course.stored else BARREN):
            course.barren = 0
            checkpoint.nowhere(course)
        end(course, Phase.WAITING, at_us)
        return DONE
    course.barren = 0
    late = "had not loaded the model when the first round began"
    warming = [member.id for member in with_state(course, S.WARMING)]
    course.moving = {name: ((S.IN_STEP, "") if name in set(ready) else (S.RESYNCING, late)) for name in warming}
    if not course.place.model:
        _name(course, model)
    checkpoint.agree(course, course.step, model)
    lives = [(name, course.here[name].incarnation) for name in ready]
    course.newest, course.newest_holders = Place(checkpoint.P2P, course.step, model), lives
    if course.place.source == checkpoint.P2P:
        course.holders = sorted({*course.holders, *lives})
    enter(course, at_us)
    return DONE


def _name(course: Course, model: bytes) -> None:
    """The first model's hash, now that it is known."""
    place = course.place
    course.place = Place(place.source, place.step, model, place.digest, place.size_bytes)
    if course.stored.step == place.step:
        course.stored = course.place


# -- the end of an epoch ---------------------------------------------------------------------------------------------


def after_epoch(course: Course, step: int) -> Phase:
    """What follows an epoch that ends with this step."""
    total = course.config.total_steps
    if course.stopping is not None or (total and step >= total):
        return Phase.FINISHED
    return Phase.WAITING if course.pausing is None else Phase.PAUSED


def check_cooldown_ended(course: Course, _run: Course, event: CooldownEnded, at_us: int) -> Refusal | None:
    if event.epoch != course.epoch:
        return Refusal("round_early", f"epoch {course.epoch} cools down, not {event.epoch}", "look again")
    spent_us = at_us - course.since_us
    if checkpoint.done(course) or (event.late and not checkpoint.voters(course)):
        return None
    if event.late and spent_us >= us(course.config.cooldown_s):
        return None
    why = f"no checkpoint is confirmed, and epoch {course.epoch} has cooled down for {said_s(spent_us)}"
    return Refusal("round_early", why, f"wait for it, or until cooldown_s = {course.config.cooldown_s:g}")


def pick_cooldown_ended(course: Course, _run: Course, _event: CooldownEnded, _at_us: int) -> Phase:
    return after_epoch(course, course.step if checkpoint.usable(course) else course.stored.step)


def do_cooldown_ended(course: Course, run: Course, event: CooldownEnded, at_us: int, _cup: Cup) -> Applied:
    phase = pick_cooldown_ended(course, run, event, at_us)
    if not checkpoint.usable(course):
        step = course.step
        checkpoint.fall_back(course)
        course.reason = f"no model of step {step} was agreed on: back to step {course.step}"
    end(course, phase, at_us)
    return DONE


def end(course: Course, phase: Phase, at_us: int) -> None:
    """The epoch is over; everybody who is here waits for the next one, or is done. ``course.reason`` says why."""
    if course.number:
        _archive(course, at_us)
    out = {name: move for name, move in course.moving.items() if move[0] is S.REMOVED}
    target = S.DONE if phase is Phase.FINISHED else S.PENDING
    course.moving = {m.id: (target, "") for m in with_state(course, *S) if m.state is not target} | out
    course.epoch += course.state in EPOCH
    course.number = 0
    course.storing = None
    course.newest = None
    course.newest_holders = []
    enter(course, at_us, _why(course, phase))
    if phase is not Phase.WAITING:
        course.pausing = None
    if phase is Phase.FINISHED:
        course.account.close(OVER)


def _why(course: Course, phase: Phase) -> str:
    if phase is Phase.PAUSED and course.pausing is not None:
        return course.pausing
    if phase is Phase.FINISHED and course.stopping is not None:
        return course.stopping
    return course.reason


def _archive(course: Course, at_us: int) -> None:
    account = course.account
    past = EpochPast(
        course.epoch, course.began_us, at_us, course.first_step, course.step, course.number, tuple(course.took_part),
        course.place, account.applied_in_all, account.skipped_in_all, account.moved, account.waiting_in_all,
        course.reason,
    )  # fmt: skip
    course.epochs.append(past)
    del course.epochs[:-EPOCHS_KEPT]


# -- operators -----------------------------------------------------------------------------------------------------


def do_pause(course: Course, _run: Course, event: RunPaused, at_us: int, _cup: Cup) -> Applied:
    """Before the first round of an epoch: at once."""
    course.pausing = event.reason or "an operator paused it"
    end(course, Phase.PAUSED, at_us)
    return DONE


def do_pause_later(course: Course, _run: Course, event: RunPaused, _at_us: int, _cup: Cup) -> Applied:
    course.pausing = event.reason or "an operator paused it"
    return DONE


def do_resume(course: Course, _run: Course, _event: Event, at_us: int, _cup: Cup) -> Applied:
    enter(course, at_us)
    return DONE


def do_cancel_pause(course: Course, _run: Course, _event: Event, _at_us: int, _cup: Cup) -> Applied:
    course.pausing = None
    return DONE


def do_stop(course: Course, _run: Course, event: RunStopped, at_us: int, _cup: Cup) -> Applied:
    course.stopping = event.reason or "an operator stopped it"
    end(course, Phase.FINISHED, at_us)
    return DONE


def do_stop_later(course: Course, _run: Course, event: RunStopped, _at_us: int, _cup: Cup) -> Applied:
    course.stopping = event.reason or "an operator stopped it"
    return DONE

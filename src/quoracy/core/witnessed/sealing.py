"""A round is sealed: what counts, who is in step, who gets a strike, and what comes next.

Kept here:

- A round is sealed early only if every elected witness that is in step attested all results, they are a quorum of all
  elected, every member in step holds what is sealed, and has said which model it has. It is sealed late only when the
  time for witnesses is over, or nobody of the roster is in step any more.
- Sealed is, for each assignment, its result if a quorum of the elected witnesses holds it and it was trained on the
  model that most have. Applied in the order of the assignments.
- Most is more than half of the reports. Who reports another model, or none when it is late, has to catch up. Reports
  without a majority roll the run back. Without any report nothing is sealed, and the epoch ends.
- Who catches up and has the model that was agreed on for one of the last steps is in step from the next round on.
- Not sealed is not lost: those batches wait for the next round.
- Strikes, unless so few attested that it cannot be told whose fault it was: for work that fewer than a quorum hold, and
  for a witness in step that did not attest. A good round takes them all back; too many in a row and the member is out.
- That most of the others report a member as inactive is weighed against the same evidence: with a strike in this round
  it is out at once, without one the reports count for nothing.
"""

from __future__ import annotations

import msgspec

from quoracy.core.codec import said_s, us
from quoracy.core.dice import Cup
from quoracy.core.errors import Refusal
from quoracy.core.machine import DONE, Applied
from quoracy.core.witnessed import checkpoint, epochs, evidence, rounds, rules
from quoracy.core.witnessed.account import cut, tried
from quoracy.core.witnessed.committee import count
from quoracy.core.witnessed.events import RoundSealed
from quoracy.core.witnessed.state import (
    KEPT,
    ROUNDS_KEPT,
    Claimed,
    Course,
    Member,
    MemberState,
    Past,
    Phase,
    Place,
    Round,
    Sealed,
    with_state,
)

S = MemberState


class Outcome(msgspec.Struct):
    """What the evidence says, worked out once."""

    claims: evidence.Masks
    """Of the elected witnesses."""
    holding: evidence.Masks
    """Of everybody in step."""
    held: list[int]
    """By how many witnesses each result is held."""
    needed: int
    model: bytes
    """That most have; empty if there is none."""
    split: bool
    """There are reports, and no majority."""
    positions: list[int]
    """What counts, in the order in which it is applied."""
    said: dict[str, tuple[int, bytes]]
    """Step and model, by member."""
    inactive: dict[str, int]
    """By how many others each is reported as inactive."""
    strikes: dict[str, str]
    """Who has done badly, and how. Whose fault it was cannot be told: nobody."""
    praised: list[str]
    moving: dict[str, tuple[MemberState, str]]
    because: str
    """Why the epoch ends; empty if it goes on."""
    phase: Phase


def judge(course: Course, event: RoundSealed, at_us: int) -> Outcome | Refusal:
    """Asked by check, pick and do; worked out by the first of them."""
    if course.judged is not None and course.judged[0] is event:
        return course.judged[1]  # type: ignore[no-any-return]
    outcome = _judge(course, event, at_us)
    course.judged = (event, outcome)
    return outcome


def _judge(course: Course, event: RoundSealed, at_us: int) -> Outcome | Refusal:
    round_ = course.round
    if round_ is None or (event.epoch, event.round) != (round_.epoch, round_.number):
        return Refusal("round_early", f"round {event.round} of epoch {event.epoch} is not open", "look again")
    claims = evidence.masks(course, round_, event.attested, round_.witnesses)
    if isinstance(claims, Refusal):
        return claims
    others = evidence.masks(course, round_, event.holding, set(round_.roster) - set(round_.witnesses))
    if isinstance(others, Refusal):
        return others
    may = {member.id for member in with_state(course, S.IN_STEP, S.RESYNCING)}
    if (refusal := evidence.reports(course, event.models, may)) is not None:
        return refusal
    inactive = evidence.reported_inactive(course, round_, event.inactive)
    if isinstance(inactive, Refusal):
        return inactive
    said = {report.member: (report.step, report.model) for report in event.models}
    votes = [model for member, (step, model) in said.items() if member in course.in_step and step == round_.step]
    model = evidence.majority(votes)
    held = evidence.counts(claims.values(), len(round_.results))
    needed = evidence.quorum(course, round_)
    positions = [
        work.result
        for work in round_.works
        if work.result >= 0 and held[work.result] >= needed and model and round_.results[work.result].base == model
    ]
    outcome = Outcome(
        claims, claims | others, held, needed, model, bool(votes) and not model, positions, said, inactive, {}, [], {},
        "", Phase.TRAIN,
    )  # fmt: skip
    _weigh(course, round_, outcome)
    _place(course, round_, outcome)
    _next(course, outcome, at_us)
    return outcome


def _weigh(course: Course, round_: Round, outcome: Outcome) -> None:
    """Strikes and praise for those in step who had something to do."""
    if len(outcome.claims) < outcome.needed:
        return
    good: dict[str, None] = {}
    for member in round_.witnesses:
        if member not in course.in_step:
            continue
        if member in outcome.claims:
            good[member] = None
        else:
            outcome.strikes[member] = "was a witness and did not attest"
    for work in round_.works:
        if work.member not in course.in_step:
            continue
        held = outcome.held[work.result] if work.result >= 0 else 0
        if held >= outcome.needed:
            good[work.member] = None
        elif work.result < 0:
            outcome.strikes[work.member] = "its work was not done in time"
        else:
            elected = len(round_.witnesses)
            outcome.strikes[work.member] = f"its work was held by {held} of {elected} witnesses, not {outcome.needed}"
    outcome.praised = [member for member in good if member not in outcome.strikes]


def _place(course: Course, round_: Round, outcome: Outcome) -> None:
    """Who is in step, who has to catch up, who is out."""
    others = len(course.in_step) - 1
    agreed = dict(course.agreed) | ({round_.step: outcome.model} if outcome.model else {})
    for name, member in sorted(course.in_step.items()):
        strikes = member.strikes + 1 if name in outcome.strikes else 0
        if strikes > course.config.strikes_max:
            why = f"{strikes} bad rounds in a row, the last one because it {_verb(outcome.strikes[name])}"
            outcome.moving[name] = (S.REMOVED, why)
        elif strikes and rules.enough_accuse(by := outcome.inactive.get(name, 0), others):
            why = f"{by} of {others} others report it as inactive, and so it is: it {_verb(outcome.strikes[name])}"
            outcome.moving[name] = (S.REMOVED, why)
        elif outcome.model and name not in outcome.said:
            outcome.moving[name] = (S.RESYNCING, f"did not say which model it has at step {round_.step}")
        elif outcome.model and outcome.said[name] != (round_.step, outcome.model):
            outcome.moving[name] = (S.RESYNCING, f"has another model than most at step {round_.step}")
    for member in with_state(course, S.RESYNCING):
        step, model = outcome.said.get(member.id, (-1, b""))
        if model and agreed.get(step) == model:
            outcome.moving[member.id] = (S.IN_STEP, "")


def _verb(strike: str) -> str:
    return strike if strike.startswith("was") else f"failed: {strike}"


def _next(course: Course, outcome: Outcome, at_us: int) -> None:
    step = course.step + bool(outcome.positions)
    if outcome.split:
        outcome.because = f"no majority for one model of step {course.step}"
        outcome.phase = epochs.after_epoch(course, course.stored.step)
        return
    leaving = sum(state is not S.IN_STEP for name, (state, _) in outcome.moving.items() if name in course.in_step)
    coming = sum(state is S.IN_STEP for state, _ in outcome.moving.values())
    in_step = len(course.in_step) - leaving + coming
    outcome.because = _why_over(course, outcome, step, in_step, at_us)
    outcome.phase = Phase.COOLDOWN if outcome.because else Phase.TRAIN


def _why_over(course: Course, outcome: Outcome, step: int, in_step: int, at_us: int) -> str:
    """Why the epoch ends with this round; empty if it goes on."""
    config = course.config
    if config.total_steps and step >= config.total_steps:
        return f"total_steps = {config.total_steps} is reached"
    if course.stopping is not None:
        return course.stopping
    if len(outcome.claims) < outcome.needed:
        return f"{len(outcome.claims)} witnesses attested, {outcome.needed} are needed"
    if not outcome.model:
        return "nobody said which model it has"
    if in_step < config.min_clients:
        return f"{in_step} members are in step, min_clients = {config.min_clients}"
    if course.pausing is not None:
        return course.pausing
    if config.rounds_per_epoch and course.number + 1 >= config.rounds_per_epoch:
        return f"rounds_per_epoch = {config.rounds_per_epoch} are over"
    if config.epoch_s and at_us - course.began_us >= us(config.epoch_s):
        return f"epoch_s = {config.epoch_s:g} are over"
    return ""


# -- the row -------------------------------------------------------------------------------------------------------


def check_seal(course: Course, _run: Course, event: RoundSealed, at_us: int) -> Refusal | None:
    course.judged = None
    outcome = judge(course, event, at_us)
    round_ = course.round
    if isinstance(outcome, Refusal) or round_ is None:
        course.judged = None
        return outcome if isinstance(outcome, Refusal) else None
    refusal = _too_late(course, round_, at_us) if event.late else _too_early(course, round_, outcome)
    if refusal is not None:
        course.judged = None
    return refusal


def _too_late(course: Course, round_: Round, at_us: int) -> Refusal | None:
    spent_us = at_us - round_.ended_us
    if spent_us >= us(course.config.round_witness_s) or rounds.deserted(course):
        return None
    why = f"{round_.called()} has waited for witnesses for {said_s(spent_us)}"
    return Refusal("round_early", why, f"wait until round_witness_s = {course.config.round_witness_s:g}")


def _too_early(course: Course, round_: Round, outcome: Outcome) -> Refusal | None:
    everything = (1 << len(round_.results)) - 1
    here = [member for member in round_.witnesses if member in course.in_step]
    short = [member for member in here if outcome.claims.get(member, -1) != everything]
    if short or len(outcome.claims) < outcome.needed:
        why = f"{len(short)} of the witnesses in step have not attested all results, or fewer than {outcome.needed} are"
        return Refusal("no_quorum", why, "wait for their attestations, or until the time is over")
    sealed = sum(1 << position for position in outcome.positions)
    lacking = [member for member in course.in_step if outcome.holding.get(member, 0) & sealed != sealed]
    silent = [member for member in course.in_step if outcome.said.get(member, (-1, b""))[0] != round_.step]
    unheard = [member for member in course.in_step if member not in outcome.holding]
    if lacking or silent or unheard:
        many = len({*lacking, *silent, *unheard})
        why = f"{many} members in step do not hold all results, or have not said which model they have"
        return Refusal("round_early", why, "wait for them, or until the time is over")
    return None


def pick_sealed(course: Course, _run: Course, event: RoundSealed, at_us: int) -> Phase:
    outcome = judge(course, event, at_us)
    return course.state if isinstance(outcome, Refusal) else outcome.phase


def do_seal(course: Course, _run: Course, event: RoundSealed, at_us: int, _cup: Cup) -> Applied:
    outcome, round_ = judge(course, event, at_us), course.round
    course.judged = None
    if isinstance(outcome, Refusal) or round_ is None:
        return DONE
    back = _book(course, round_, outcome)
    _remember(course, round_, outcome, event, back, at_us)
    _tell(course, round_, outcome)
    course.moving = dict(outcome.moving)
    course.round = None
    course.missing = 0
    course.number += 1
    course.since_us = at_us
    if outcome.model:
        checkpoint.agree(course, round_.step, outcome.model)
        course.newest = Place(checkpoint.P2P, round_.step, outcome.model)
        agreeing = [name for name, said in outcome.said.items() if said == (round_.step, outcome.model)]
        course.newest_holders = sorted((name, course.here[name].incarnation) for name in agreeing)
        course.retold |= {member.id: None for member in with_state(course, S.RESYNCING)}
    course.step += bool(outcome.positions)
    course.reason = outcome.because
    if outcome.phase is Phase.COOLDOWN:
        course.storing = None
    elif outcome.phase is not Phase.TRAIN:
        checkpoint.fall_back(course)
        course.reason = f"{outcome.because}: back to step {course.step}"
        epochs.end(course, outcome.phase, at_us)
    return DONE


def _book(course: Course, round_: Round, outcome: Outcome) -> int:
    """Each batch of the round is applied, or waits again, or is skipped. Returns how many are not applied."""
    counted = set(outcome.positions)
    fair = len(outcome.claims) >= outcome.needed and not outcome.split
    back = 0
    for work in round_.works:
        if work.result in counted:
            course.account.apply(work.batches)
            continue
        back += count(work.batches)
        failed = work.attempt if fair else work.attempt - 1
        course.account.retry(tried(cut(round_.spans, work.batches), failed), course.config.attempts_max)
    return back


def _remember(course: Course, round_: Round, outcome: Outcome, event: RoundSealed, back: int, at_us: int) -> None:
    sealed = [round_.results[position] for position in outcome.positions]
    everything = sum(1 << position for position in outcome.positions)
    all_hold = all(outcome.holding.get(member, 0) & everything == everything for member in course.in_step)
    size = (len(round_.results) + 7) // 8
    claims = [
        Claimed(name, course.in_step[name].incarnation, mask.to_bytes(size, "little"))
        for name, mask in sorted(outcome.claims.items())
    ]
    past = Past(
        round_.epoch, round_.number, round_.step, round_.seed, outcome.model, round_.results, outcome.positions, claims,
        all_hold,
    )  # fmt: skip
    course.past = trimmed([*course.past, past])
    samples = sum(result.samples for result in sealed)
    loss = sum(result.samples * result.loss for result in sealed) / samples if samples else 0.0
    figures = Sealed(
        round_.step, round_.epoch, round_.number, bool(sealed), loss, samples, len(round_.results),
        sum(count(result.batches) for result in sealed), back, round_.late or event.late,
        round_.ended_us - round_.began_us, at_us - round_.ended_us, at_us, outcome.model, outcome.split,
    )  # fmt: skip
    course.sealed.append(figures)
    del course.sealed[:-ROUNDS_KEPT]


def trimmed(past: list[Past]) -> list[Past]:
    """The last few that were applied, and not many more that were not."""
    while sum(bool(one.positions) for one in past) > KEPT:
        del past[next(i for i, one in enumerate(past) if one.positions)]
    while len(past) > 2 * KEPT:
        del past[next(i for i, one in enumerate(past) if not one.positions)]
    return past


def _tell(course: Course, round_: Round, outcome: Outcome) -> None:
    """Scores, strikes and praise."""
    elected = len(round_.witnesses)
    for work in round_.works:
        if (member := course.in_step.get(work.member)) is not None:
            member.held, member.elected = (outcome.held[work.result] if work.result >= 0 else 0), elected
    for name, why in outcome.strikes.items():
        _strike(course, course.in_step[name], why)
    for name in outcome.praised:
        if (member := course.in_step[name]).strikes:
            member.strikes = 0
            member.reason = ""
            course.retold[name] = None


def _strike(course: Course, member: Member, why: str) -> None:
    member.strikes += 1
    member.reason = why
    course.retold[member.id] = None

"""A round's training: it begins with a draw, work moves on when its member is gone, it ends with a quorum or in time.

Kept here:

- Each round has a roster that never changes: those in step when it began. All draws come from a fresh seed.
- Training ends early only if every assignment has a result that a quorum of the *elected* witnesses attested. It ends
  late only when its time is over, or when nobody of the roster is in step any more.
- A lost member's work goes to another in the same round if there is time enough for it, else it waits for the next;
  also if it has committed to a result that nobody has (see ``reopening``).
- The time it may take follows what rounds take, between a floor and ``round_train_max_s``; after a round that was too
  long it doubles.
"""

from __future__ import annotations

from quoracy.core.codec import said_s, us
from quoracy.core.dice import SEED_BYTES, Cup, Dice
from quoracy.core.errors import Refusal
from quoracy.core.machine import DONE, Applied
from quoracy.core.witnessed import evidence
from quoracy.core.witnessed.account import cut
from quoracy.core.witnessed.attestation import BLOOM
from quoracy.core.witnessed.committee import FASTEST, FIRST_ATTEMPT, count, draw, relative
from quoracy.core.witnessed.events import ResultCommitted, TrainEnded
from quoracy.core.witnessed.state import TIMED, Course, Given, Member, Round, Work
from quoracy.core.witnessed.views import RoundShown

LEAST_US = 1000
"""Nobody is timed more exactly than that: an entry may hold the beginning of a round and a result of it."""
PACE_US = 10**9
"""Paces are batches in so many microseconds."""


# -- beginning -----------------------------------------------------------------------------------------------------


def begin(course: Course, at_us: int, cup: Cup) -> None:
    """The next round, with those who are in step now."""
    config = course.config
    seed = _seed(cup.dice("round", course.epoch, course.number))
    roster = tuple(sorted(course.in_step))
    members = [course.in_step[member] for member in roster]
    speeds = relative([m.pace for m in members]) if config.speed_weighted else (FASTEST,) * len(roster)
    spans = course.account.take(config.batches_at(course.step))
    course.allowed_us = allowed_us(course)
    round_ = Round(
        course.epoch, course.number, course.step, seed, roster, tuple(m.incarnation for m in members), speeds, spans,
        config.witness_nodes, (), at_us, course.allowed_us, [],
    )  # fmt: skip
    drawn = draw(cup.run, shown(course, round_))
    lives = dict(zip(roster, round_.lives, strict=True))
    round_.witnesses = drawn.witnesses
    round_.works = [
        Work(mine.index, FIRST_ATTEMPT, mine.member, lives[mine.member], mine.batches, at_us)
        for mine in drawn.assignments
    ]
    course.round = round_
    course.missing = len(round_.works)


def _seed(dice: Dice) -> bytes:
    return b"".join(dice.word().to_bytes(8, "big") for _ in range(SEED_BYTES // 8))


def shown(course: Course, round_: Round) -> RoundShown:
    """All that the draws come from."""
    batches = tuple((span.first, span.end) for span in round_.spans)
    return RoundShown(
        course.state.value, round_.epoch, round_.number, round_.step, round_.seed, round_.roster, round_.speeds,
        batches, round_.witness_nodes, tuple(round_.moved), 0, course.reason,
    )  # fmt: skip


def usual_us(course: Course) -> int:
    """How long the training of a round takes: the median of the last few."""
    times_us = sorted(course.times_us)
    return times_us[(len(times_us) - 1) // 2] if times_us else us(course.config.round_train_max_s) // 2


def allowed_us(course: Course) -> int:
    """How long the next round's may take."""
    config = course.config
    most_us = us(config.round_train_max_s)
    if not config.adaptive_deadline or not course.times_us:
        return most_us
    wanted_us = max(us(config.deadline_floor_s), 3 * usual_us(course))
    if course.overran:
        wanted_us = max(wanted_us, 2 * course.allowed_us)
    return min(most_us, wanted_us)


# -- results -------------------------------------------------------------------------------------------------------


def check_commit(course: Course, member: Member, event: ResultCommitted, _at_us: int) -> Refusal | None:
    """Of the open round, by whose assignment it is, once."""
    round_ = course.round
    if round_ is None or (event.epoch, event.round) != (round_.epoch, round_.number):
        stands = course.state.value if round_ is None else f"at {round_.called()}"
        return _late(f"a result for round {event.round} of epoch {event.epoch} comes while the run is {stands}")
    if event.assignment >= len(round_.works):
        return _late(f"{round_.called()} has {len(round_.works)} assignments, and none has index {event.assignment}")
    work = round_.works[event.assignment]
    if (work.member, work.incarnation, work.attempt) != (member.id, member.incarnation, event.attempt):
        which = f"assignment {work.index} is attempt {work.attempt} of {work.member}"
        return _late(f"{which}, not attempt {event.attempt} of {member.id} (incarnation {member.incarnation})")
    if work.result >= 0:
        if round_.results[work.result].digest == event.digest:
            return None
        why = f"{member.id} has committed to another result for assignment {work.index}"
        return Refusal("contradiction", why, "send what it committed to")
    samples = count(work.batches) * course.config.batch_size
    if event.samples != samples:
        why = f"samples = {event.samples}: {count(work.batches)} batches have {samples}"
        return Refusal("malformed", why, "train on the whole assignment")
    if any(result.digest == event.digest for result in round_.results):
        why = f"another result of {round_.called()} has the digest {event.digest.hex()[:8]}..."
        return Refusal("contradiction", why, "commit to your own work")
    return None


def _late(why: str) -> Refusal:
    return Refusal("late_result", why, "look at the round again: do what is yours in it, or wait for the next")


def do_commit(course: Course, member: Member, event: ResultCommitted, at_us: int, cup: Cup) -> Applied:
    round_ = course.round
    if round_ is None or round_.works[event.assignment].result >= 0:
        return DONE  # said before
    work = round_.works[event.assignment]
    work.result = len(round_.results)
    filters = course.config.attestation == BLOOM
    salt = _seed(cup.dice("salt", round_.epoch, round_.number)) if filters else b""
    round_.results.append(
        Given(
            work.index, work.attempt, member.id, event.digest, event.size_bytes, event.base, event.samples, event.loss,
            work.batches, salt,
        )
    )  # fmt: skip
    course.missing -= 1
    batches = count(work.batches)
    course.account.trained += batches
    if work.attempt == FIRST_ATTEMPT:
        _time(member, batches, at_us - work.began_us)
    return DONE


def _time(member: Member, batches: int, took_us: int) -> None:
    """A moving average. One round makes nobody much faster: it may be a mistake, or a lie."""
    pace = max(1, batches * PACE_US // max(LEAST_US, took_us))
    member.pace = max(1, (3 * member.pace + min(pace, 4 * member.pace)) // 4) if member.pace else pace


# -- work that moves -----------------------------------------------------------------------------------------------


def move_on(course: Course, at_us: int, cup: Cup) -> None:
    """What those who are gone had to do goes to others, if time is left for it. Else it waits for the next round."""
    round_ = course.round
    if round_ is None or not course.missing:
        return
    left_us = round_.allowed_us - (at_us - round_.began_us)
    if left_us < usual_us(course):
        return
    dice = cup.dice("move", round_.epoch, round_.number)
    speeds = dict(zip(round_.roster, round_.speeds, strict=True))
    for work in round_.works:
        if work.result >= 0 or is_there(course, work) or not may_try(course, round_, work):
            continue
        busy = {other.member for other in round_.works if other.result < 0 and is_there(course, other)}
        candidates = sorted(course.in_step.keys() - busy) or sorted(course.in_step)
        if not candidates:
            return
        drawn = dice.below(sum(speeds[member] for member in candidates))
        for member in candidates:
            drawn -= speeds[member]
            if drawn < 0:
                break
        work.member, work.incarnation = member, course.in_step[member].incarnation
        work.attempt += 1
        work.began_us = at_us
        round_.moved = [*(m for m in round_.moved if m[0] != work.index), (work.index, work.attempt, member)]
        course.account.moved += count(work.batches)


def is_there(course: Course, work: Work) -> bool:
    """Whether its member is there to do it, or to give its result."""
    member = course.in_step.get(work.member)
    return member is not None and member.incarnation == work.incarnation


def may_try(course: Course, round_: Round, work: Work) -> bool:
    tries = max(span.tries for span in cut(round_.spans, work.batches))
    return tries + work.attempt < course.config.attempts_max


# -- ending --------------------------------------------------------------------------------------------------------


def deserted(course: Course) -> bool:
    """Nobody is left to wait for."""
    return not course.in_step


def check_train_ended(course: Course, _run: Course, event: TrainEnded, at_us: int) -> Refusal | None:
    round_ = course.round
    if round_ is None or (event.epoch, event.round) != (round_.epoch, round_.number):
        return Refusal("round_early", f"round {event.round} of epoch {event.epoch} is not open", "look again")
    said = evidence.masks(course, round_, event.attested, round_.witnesses)
    if isinstance(said, Refusal):
        return said
    if event.late:
        spent_us = at_us - round_.began_us
        if spent_us >= round_.allowed_us or deserted(course):
            return None
        why = f"{round_.called()} has trained for {said_s(spent_us)} of {said_s(round_.allowed_us)}"
        return Refusal("round_early", why, "wait until the time is over")
    if course.missing:
        why = f"{course.missing} of the {len(round_.works)} assignments of {round_.called()} have no result"
        return Refusal("round_early", why, "wait for them")
    needed = evidence.quorum(course, round_)
    held = evidence.counts(said.values(), len(round_.results))
    short = [i for i, witnesses in enumerate(held) if witnesses < needed]
    if short:
        why = f"{len(short)} results of {round_.called()} are attested by fewer than {needed} witnesses"
        return Refusal("no_quorum", f"{why} of {len(round_.witnesses)}", "wait for their attestations")
    return None


def do_train_ended(course: Course, _run: Course, event: TrainEnded, at_us: int, _cup: Cup) -> Applied:
    round_ = course.round
    if round_ is None:
        return DONE
    round_.ended_us = at_us
    round_.late = event.late
    course.overran = event.late
    course.times_us = [*course.times_us, at_us - round_.began_us][-TIMED:]
    course.since_us = at_us
    return DONE

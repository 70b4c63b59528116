"""A result that was committed and died with its maker: its work is done again, in the same round.

Kept here:

- Only the result of one who is gone is given up, and only if everybody in step has said, with the result in the list it
  spoke of, that it does not hold it. The words are in the event, so that everybody who folds it sees the same.
- What is given up never counts, also if somebody turns out to have it after all: what is sealed for an assignment is
  the result of its newest attempt. It stays in the list, where nobody's place shifts, and nobody is asked to hold it.
- The work then moves on like any other that its member has left undone: at once if there is time for it.
"""

from __future__ import annotations

from quoracy.core.dice import Cup
from quoracy.core.errors import Refusal
from quoracy.core.machine import DONE, Applied
from quoracy.core.witnessed import evidence, rounds
from quoracy.core.witnessed.events import MAX_RESULTS, WorkReopened
from quoracy.core.witnessed.state import Course, Round, Work
from quoracy.core.witnessed.tally import Tally


def due(course: Course, round_: Round, tally: Tally) -> WorkReopened | None:
    """The first work that is to be done again. Cheap while all of the roster are there."""
    if len(course.in_step) == len(round_.roster) or len(tally.masks) < len(course.in_step):
        return None
    words = [tuple(some[name] for name in sorted(some)) for some in (tally.attested, tally.holding)]
    for work in round_.works:
        if work.result < 0 or any(mask >> work.result & 1 for mask in tally.masks.values()):
            continue
        event = WorkReopened(round_.epoch, round_.number, work.index, work.attempt, *words)
        if check_reopened(course, course, event, course.at_us) is None:
            return event
    return None


def check_reopened(course: Course, _run: Course, event: WorkReopened, _at_us: int) -> Refusal | None:
    round_ = course.round
    if round_ is None or (event.epoch, event.round) != (round_.epoch, round_.number):
        return Refusal("round_early", f"round {event.round} of epoch {event.epoch} is not open", "look again")
    work = round_.works[event.assignment] if event.assignment < len(round_.works) else None
    if work is None or work.attempt != event.attempt or work.result < 0:
        why = f"assignment {event.assignment} of {round_.called()} has no result of attempt {event.attempt}"
        return Refusal("contradiction", why, "look again")
    if rounds.is_there(course, work):
        why = f"{work.member}, whose work assignment {work.index} is, is in step and can give its result"
        return Refusal("contradiction", why, "fetch it from there")
    full = len(round_.works) + len(round_.forsaken) >= MAX_RESULTS
    if full or not rounds.may_try(course, round_, work):
        why = f"assignment {work.index} was tried too often, or the round's list of results is full"
        return Refusal("contradiction", why, f"leave it; attempts_max = {course.config.attempts_max}")
    return _check_words(course, round_, work, event)


def _check_words(course: Course, round_: Round, work: Work, event: WorkReopened) -> Refusal | None:
    """Everybody in step has looked for it, in vain."""
    claims = evidence.masks(course, round_, event.attested, round_.witnesses)
    if isinstance(claims, Refusal):
        return claims
    others = evidence.masks(course, round_, event.holding, set(round_.roster) - set(round_.witnesses))
    if isinstance(others, Refusal):
        return others
    known = {one.member: one.known for one in (*event.attested, *event.holding)}
    silent = [name for name in course.in_step if known.get(name, 0) <= work.result]
    if silent:
        why = f"{len(silent)} members in step have not said whether they hold the result of assignment {work.index}"
        return Refusal("no_quorum", why, "wait for them")
    holders = [name for name, mask in (claims | others).items() if mask >> work.result & 1]
    if holders:
        why = f"{len(holders)} members hold the result of assignment {work.index}, {min(holders)} for one"
        return Refusal("contradiction", why, "fetch it from them")
    return None


def do_reopened(course: Course, _run: Course, event: WorkReopened, at_us: int, cup: Cup) -> Applied:
    round_ = course.round
    if round_ is None:
        return DONE
    work = round_.works[event.assignment]
    round_.forsaken = [*round_.forsaken, work.result]
    work.result = -1
    course.missing += 1
    rounds.move_on(course, at_us, cup)
    return DONE

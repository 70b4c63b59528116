"""A witnessed run in words: what it is waiting for, who is missing, and what happens if they stay away.

Only those who are missing are named, each with what is known of it. What is said to happen is the first thing that ends
the wait if nobody comes: a loss with what follows from it, or the end of the phase's time. A witness that is gone stays
elected, but nobody waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from quoracy.core.codec import said_s, us
from quoracy.core.detector import Detector
from quoracy.core.machine import Explanation, Wait
from quoracy.core.waits import STILL, Silence, are_lost, few, joined, more, soon, stuck, stuck_told
from quoracy.core.witnessed import checkpoint, epochs, evidence, rounds
from quoracy.core.witnessed.complaints import Complaints
from quoracy.core.witnessed.events import Beat, ModelAgreed, Report
from quoracy.core.witnessed.state import (
    TAKING_PART,
    Course,
    Member,
    MemberState,
    Phase,
    Round,
    Storing,
    with_state,
)
from quoracy.core.witnessed.tally import Tally

S = MemberState
GONE = (S.LOST, S.LEFT, S.REMOVED)
AGAIN = "it waits for members again"
OUT_OF_TIME = "waits until its time is over"
_LACKS = {"no attestation": 0, "not all results": 1, "no model hash": 2}
"""What somebody lacks who is in the group with this index."""


class Pulse(msgspec.Struct):
    """What a member's last heartbeat said, for people; and when its training last moved."""

    beat: Beat
    progress_us: int


class Heard(msgspec.Struct, frozen=True):
    """What the collector knows beside the machine."""

    pulses: dict[str, Pulse]
    detector: Detector
    since_us: int
    """When the present wait began, on this host's clock."""
    drawn_us: int
    """When the one who stores the checkpoint was drawn."""
    loaded: dict[str, Report]
    tally: Tally
    complaints: Complaints
    began_us: int
    """When this collector began."""
    found: frozenset[str]
    """Those whom it found then: it gave each of them a fresh time-out."""


class Sight:
    """All that an explanation is made of."""

    def __init__(self, course: Course, heard: Heard, now_us: int) -> None:
        self.course = course
        self.heard = heard
        self.now_us = now_us
        self.waited_us = max(0, now_us - heard.since_us)
        interval_s = course.config.heartbeat_interval_s
        self.silence = Silence(heard.detector, interval_s, now_us, heard.began_us, heard.found)

    def left_us(self, whole_s: float) -> int:
        return max(0, us(whole_s) - self.waited_us)

    def whom(self, members: Sequence[str], doing: Callable[[str], str]) -> str:
        """``doing``: what to say of one that is neither silent nor stuck."""

        def does(member: str) -> tuple[int, str]:
            return (0, STILL) if self._stuck_us(member) else (1, doing(member))

        return self.silence.whom(members, does, lambda member: self._stuck_us(member) or -1)

    def _stuck_us(self, member: str) -> int:
        return stuck_for_us(self.course.members[member], self.course, self.heard, self.now_us)


Told = tuple[str, list[Wait]]
"""A sentence, and what it is about."""


def explain(course: Course, heard: Heard, now_us: int) -> Explanation:
    if course.state is Phase.FINISHED:
        return Explanation(f"the run is over after {course.step} steps: {course.reason}")
    if course.state is Phase.PAUSED:
        return Explanation(f"paused after {course.step} steps: {course.reason}; resume it to go on")
    sight = Sight(course, heard, now_us)
    sentence, waits = _phase(sight)
    awaited = {name for wait in waits for name in wait.missing if name in course.here}
    silent = sight.silence.waits(sorted(course.here), awaited)
    still = _stuck(sight)
    named = awaited if len(waits) < 2 or course.state is not Phase.TRAIN else set(waits[0].missing)
    told = sight.silence.told([wait for wait in silent if wait.missing[0] not in named])
    told += stuck_told([wait for wait in still if wait.missing[0] not in named])
    return Explanation(joined([sentence, *told]), (*waits, *silent, *still))


def _phase(sight: Sight) -> Told:
    course = sight.course
    match course.state:
        case Phase.WAITING:
            return _waiting(sight)
        case Phase.WARMUP:
            return _warmup(sight)
        case Phase.TRAIN if course.round is not None:
            return _training(course.round, sight)
        case Phase.WITNESS if course.round is not None:
            return _witnessing(course.round, sight)
        case _ if course.storing is None:
            return _agreeing(sight)
        case _:
            return _storing(course.storing, sight)


# -- before the rounds ---------------------------------------------------------------------------------------------


def _waiting(sight: Sight) -> Told:
    course, here, least = sight.course, len(sight.course.here), epochs.least(sight.course)
    why = f" ({course.reason})" if course.reason else ""
    also = f"; {course.reason}" if course.reason else ""
    name = "min_clients" if course.epochs else "init_min_clients"
    if course.met_us < 0:
        what = f"epoch {course.epoch}: {here} of {name} = {least} members are there{why}"
        gone, said = _gone(course)
        waits = f"waits for {more(least - here, 'member')} ({here} of {name} = {least} are there{said}{also})"
        wait = Wait(what, gone, sight.waited_us, None, "")
        return f"epoch {course.epoch} {waits}, {said_s(sight.waited_us)} so far", [wait]
    left_us, then = sight.left_us(course.config.waiting_extra_s), "it begins"
    losses = sight.silence.losses(course.here)
    spare = here - least
    if len(losses) > spare and losses[spare][0] <= left_us:
        left_us = losses[spare][0]
        then = f"{are_lost([name for _, name in losses[: spare + 1]])} and it waits for {more(1, 'member')}"
    what = f"epoch {course.epoch}: {here} members are there, more may come{why}"
    waits = f"waits until waiting_extra_s = {course.config.waiting_extra_s:g} is over ({here} members are there{also})"
    sentence = f"epoch {course.epoch} {waits}, {said_s(sight.waited_us)} so far; {then} {soon(left_us)}"
    return sentence, [Wait(what, (), sight.waited_us, left_us, then)]


def _gone(course: Course) -> tuple[tuple[str, ...], str]:
    """Those who were here and may come back; and in words, also those who may not."""
    away = [member for _, member in sorted(course.members.items()) if member.state in GONE]
    out = [member.id for member in away if member.ejected]
    groups = [(state, [m.id for m in away if m.state is state and not m.ejected]) for state in GONE]
    said = [f"; {state.value.lower()}: {few(names)}" for state, names in groups if names]
    said += [f"; ejected: {few(out)}"] if out else []
    return tuple(sorted(name for _, names in groups for name in names)), "".join(said)


def _warmup(sight: Sight) -> Told:
    course, least = sight.course, sight.course.config.min_clients
    warming = [member.id for member in with_state(course, S.WARMING)]
    missing = tuple(name for name in warming if name not in sight.heard.loaded)
    have = f"{len(warming) - len(missing)} of {len(warming)} have the model of step {course.place.step}"
    left_us = sight.left_us(course.config.warmup_s)
    enough = len(warming) - len(missing) >= least
    then = f"the first round begins without {_them(missing)}" if enough else AGAIN
    here, lacking = len(warming), len(missing)
    losses = sight.silence.losses(warming)
    for lost, (lost_us, name) in enumerate(losses, 1):
        if lost_us > left_us:
            break
        lacking -= name not in sight.heard.loaded
        if here - lost < least or not lacking:
            follows = AGAIN if here - lost < least else "the first round begins"
            left_us, then = lost_us, f"{are_lost([gone for _, gone in losses[:lost]])} and {follows}"
            break
    if not missing:
        left_us, then = 0, "the first round begins"
    whom = sight.whom(missing, lambda _: "loading the model") or "the first round"
    warms_up = f"epoch {course.epoch} warms up ({have}, {course.place.source}) and waits for {whom}"
    what = f"epoch {course.epoch} warms up: {have} ({course.place.source})"
    wait = Wait(what, missing, sight.waited_us, left_us, then)
    return f"{warms_up}, {said_s(sight.waited_us)} so far; {then} {soon(left_us)}", [wait]


# -- a round -------------------------------------------------------------------------------------------------------


def _training(round_: Round, sight: Sight) -> Told:
    """First the results, then their attestations: who has still to commit is told alone, since witnesses cannot attest
    what is not there."""
    course = sight.course
    told = [_results(round_, sight)] if course.missing else []
    needed = evidence.quorum(course, round_)
    held = sight.heard.tally.held_by()
    short = sum(work.result >= 0 and held[work.result] < needed for work in round_.works)
    if short or not course.missing:
        told.append(_attestations(round_, short, needed, sight))
    (sentence, first), *_ = told
    end = f"{said_s(sight.waited_us)} so far; {first.then} {soon(first.left_us or 0)}{_afterwards(course)}"
    return f"{sentence}, {end}", [wait for _, wait in told]


def _attestations(round_: Round, short: int, needed: int, sight: Sight) -> tuple[str, Wait]:
    course = sight.course
    witnesses = [name for name in round_.witnesses if name in course.in_step]
    missing = tuple(sorted(name for name in witnesses if name not in sight.heard.tally.complete))
    quorum = f"a quorum of {needed} of {len(round_.witnesses)} witnesses"
    lack = f"{short} {'result lacks' if short == 1 else 'results lack'} {quorum}"
    then = f"it goes on without {'that result' if short == 1 else 'those results'}"
    left_us = max(0, round_.allowed_us - sight.waited_us)
    wait = Wait(f"{round_.called()}: {lack}", missing, sight.waited_us, left_us, then)
    if not short:  # the collector has not looked since
        wait = Wait(wait.what, (), sight.waited_us, 0, "it goes on")
        return f"{round_.called()} has a quorum for every result", wait
    if len(witnesses) < needed:
        return f"{round_.called()} ({lack}, and {len(witnesses)} {_is(witnesses)} here) {OUT_OF_TIME}", wait
    return f"{round_.called()} ({lack}) waits for attestations of {sight.whom(missing, _alive)}", wait


def _results(round_: Round, sight: Sight) -> tuple[str, Wait]:
    """Those that are not committed."""
    course = sight.course
    left_us = max(0, round_.allowed_us - sight.waited_us)
    open_ = [work for work in round_.works if work.result < 0]
    gone = [str(work.index) for work in open_ if not rounds.is_there(course, work)]
    done = f"{len(round_.works) - len(open_)} of {len(round_.works)} results are committed"
    if gone:
        noun = "assignment" if len(gone) == 1 else "assignments"
        done += f", {noun} {few(gone)} {_is(gone)} left for the next round"
    owners = tuple(sorted({work.member for work in open_ if rounds.is_there(course, work)}))
    then = f"it goes on without {_their(owners)} results" if owners else "it goes on"
    losses = sight.silence.losses(course.in_step)
    first_us = next((lost_us for lost_us, name in losses if name in owners), left_us + 1)
    lost = [name for lost_us, name in losses if lost_us <= first_us]
    if first_us <= left_us and len(lost) == len(course.in_step):
        left_us, then = first_us, f"{are_lost(lost)} and the round ends"
    elif first_us <= left_us and not gone and left_us - first_us >= rounds.usual_us(course):
        who = [name for name in lost if name in owners]
        mine = [work for work in open_ if work.member in who]
        if all(rounds.may_try(course, round_, work) for work in mine):
            whose = "its work goes to another member" if len(who) == 1 else "their work goes to others"
            left_us, then = first_us, f"{are_lost(who)} and {whose}"
    whom = f"waits for the results of {sight.whom(owners, lambda _: 'training')}" if owners else OUT_OF_TIME
    wait = Wait(f"{round_.called()}: {done}", owners, sight.waited_us, left_us, then)
    return f"{round_.called()} ({done}) {whom}", wait


def _witnessing(round_: Round, sight: Sight) -> Told:
    course, tally = sight.course, sight.heard.tally
    left_us, early = _sealed(sight)
    witnesses = tuple(sorted(n for n in round_.witnesses if n in course.in_step and n not in tally.complete))
    lacking = tuple(sorted(n for n in course.in_step if n not in tally.complete and n not in round_.witnesses))
    silent = tuple(sorted(name for name in course.in_step if name not in tally.models))
    attested = f"{len(tally.attested)} of {len(round_.witnesses)} witnesses have attested"
    groups = (
        (attested, witnesses, f"it is sealed without {_them(witnesses)}"),
        ("all results", lacking, "they fetch them later"),
        (f"the hash of the model of step {round_.step}", silent, "they have to catch up"),
    )
    waits = [
        Wait(f"{round_.called()}: {what}", names, sight.waited_us, left_us, early or end)
        for what, names, end in groups
        if names
    ]
    lack = {name: [word for word, names in _LACKS.items() if name in groups[names][1]] for name in course.in_step}
    missing = sorted(name for name, words in lack.items() if words)
    whom = sight.whom(missing, lambda name: ", ".join(lack[name]))
    then = early or f"it is sealed without {_them(missing)}"
    if not missing and len(tally.attested) >= tally.needed:  # the collector has not looked since
        left_us = 0
    if not missing:
        then = "it is sealed"
        whom = f"a quorum of witnesses ({attested}, and the others are gone)" if left_us else "its seal"
        waits = [Wait(f"{round_.called()}: a quorum of witnesses", (), sight.waited_us, left_us, then)]
    late = ", and who has sent no model hash has to catch up" if silent and not early else ""
    sentence = f"{round_.called()} waits for {whom}, {said_s(sight.waited_us)} so far; {then} {soon(left_us)}{late}"
    return sentence + _afterwards(course), waits


def _sealed(sight: Sight) -> tuple[int, str]:
    """When the round is sealed if nobody says anything more; and why, if all are lost who are missing before its time
    is over."""
    course, tally = sight.course, sight.heard.tally
    left_us = sight.left_us(course.config.round_witness_s)
    here = set(course.in_step)
    missing = {name for name in here if name not in tally.complete or name not in tally.models}
    losses = sight.silence.losses(here)
    for lost, (lost_us, name) in enumerate(losses, 1):
        if lost_us > left_us:
            break
        here.discard(name)
        missing.discard(name)
        attested = sum(witness in here for witness in tally.attested)
        if not here or (not missing and attested >= tally.needed):
            return lost_us, f"{are_lost([gone for _, gone in losses[:lost]])} and it is sealed"
    return left_us, ""


def _afterwards(course: Course) -> str:
    if course.stopping is not None:
        return f"; the run ends after this round: {course.stopping}"
    return "" if course.pausing is None else f"; it pauses after this round: {course.pausing}"


# -- the end of an epoch -------------------------------------------------------------------------------------------


def _agreeing(sight: Sight) -> Told:
    """Which model the epoch has ended with."""
    course, models = sight.course, sight.heard.tally.models
    voters = checkpoint.voters(course)
    missing = tuple(name for name in voters if name not in models)
    what = f"epoch {course.epoch} cools down ({course.reason}): the hash of the model of step {course.step}"
    left_us, then = sight.left_us(course.config.cooldown_s), f"it goes back to step {course.stored.step}"
    said = tuple(models[name] for name in sorted(models) if models[name].step == course.step)
    losses = sight.silence.losses(missing)
    if checkpoint.outcome(course, ModelAgreed(course.step, said)):
        left_us = max(0, checkpoint.patience_us(course) - sight.waited_us)
        then = "the model that most of them have is taken"
        if missing and len(losses) == len(missing) and losses[-1][0] <= left_us:
            left_us, then = losses[-1][0], f"{are_lost(missing)} and {then}"
    elif missing and len(losses) == len(voters) and losses[-1][0] <= left_us:
        left_us, then = losses[-1][0], f"{are_lost(missing)} and {then}"
    whom = f"the model hash of {sight.whom(missing, _alive)}" if missing else "a majority for one model"
    sentence = f"epoch {course.epoch} cools down ({course.reason}) and waits for {whom} at step {course.step}"
    wait = Wait(what, missing, sight.waited_us, left_us, then)
    return f"{sentence}, {said_s(sight.waited_us)} so far; {then} {soon(left_us)}", [wait]


def _storing(storing: Storing, sight: Sight) -> Told:
    course = sight.course
    what = f"epoch {course.epoch} cools down ({course.reason}): the checkpoint of step {course.step}"
    drawn_us = max(0, sight.now_us - sight.heard.drawn_us)
    over_us, over = sight.left_us(course.config.cooldown_s), "it goes on with the model that the members have"
    end = Wait("cooling down", (), sight.waited_us, over_us, over)
    missing = (storing.member,) if storing.member in course.here else ()
    if not storing.member:  # it is stored already, and the collector has not looked since
        return f"epoch {course.epoch} cools down ({course.reason}) and ends at any moment", [end]
    retry_us = max(0, us(course.config.checkpoint_retry_s) - drawn_us)
    left_us, then = retry_us if missing else 0, "another one is drawn"
    for lost_us, name in sight.silence.losses(missing):
        if lost_us <= left_us:
            left_us, then = lost_us, f"{name} is lost and another one is drawn"
    if over_us < left_us:
        left_us, then = over_us, over
    whom = sight.whom(missing, _alive) or storing.member
    waits = f"waits for {whom} to store the checkpoint of step {course.step}"
    sentence = f"epoch {course.epoch} cools down ({course.reason}) and {waits}, {said_s(drawn_us)} so far"
    also = "" if then is over else f"; if none is stored, {over} {soon(over_us)}"
    return f"{sentence}; {then} {soon(left_us)}{also}", [Wait(what, missing, drawn_us, left_us, then), end]


# -- members -------------------------------------------------------------------------------------------------------


def _is(members: Sequence[str]) -> str:
    return "is" if len(members) == 1 else "are"


def _them(members: Sequence[str]) -> str:
    return few(members) if len(members) == 1 else "them"


def _their(members: Sequence[str]) -> str:
    return "its" if len(members) == 1 else "their"


def _alive(_member: str) -> str:
    return "alive"


def _stuck(sight: Sight) -> list[Wait]:
    course = sight.course
    return [
        stuck(name, stuck_us)
        for name in sorted(course.here)
        if not sight.silence.is_long(name)
        if (stuck_us := stuck_for_us(course.here[name], course, sight.heard, sight.now_us))
    ]


def stuck_for_us(member: Member, course: Course, heard: Heard, now_us: int) -> int:
    pulse = heard.pulses.get(member.id)
    if pulse is None or member.state not in TAKING_PART:
        return 0
    still_us = now_us - max(pulse.progress_us, heard.since_us)
    return still_us if still_us >= us(course.config.stuck_after_s) else 0

"""Where the model is: initial, stored, or with the members; and what happens when it is nowhere any more.

Kept here: the place from which an epoch begins always names a step together with the weights of that step. In Cooldown
the members' reports decide which model the epoch ended with (a majority), and one of those who have it, drawn, stores
it; another is drawn when nothing comes. If at the end nothing was agreed on, or later nobody is left who has it, the
run falls back to the last stored checkpoint *and its step*, and the batches applied since wait again: never a newer
step with older weights.

That something is stored is the word of one member. So only those may say it who were drawn for it, the coordinator
looks for it where it can, and the checkpoints before are remembered: from one that nobody can load, warm-up after
warm-up, the run goes back to the one before, and lastly to the model it began with.
"""

from __future__ import annotations

from quoracy.core.codec import said_s, us
from quoracy.core.dice import Cup
from quoracy.core.errors import Refusal
from quoracy.core.machine import DONE, Applied
from quoracy.core.witnessed import evidence
from quoracy.core.witnessed.config import Config
from quoracy.core.witnessed.events import CheckpointStored, ModelAgreed
from quoracy.core.witnessed.state import KEPT, Course, Member, MemberState, Phase, Place, Storing, alive, with_state
from quoracy.core.witnessed.views import Pointer

S = MemberState
P2P = "p2p"
STORED = "stored"
HOLDERS_SHOWN = 16
"""Enough to fetch from several at once, and few enough to be told to everybody."""
OLDER_KEPT = 3
"""Checkpoints that are remembered beside the last one: the first of all, and the newest of the others."""


def first_place(config: Config) -> Place:
    """The model to begin with. Its hash is known when the first members have it."""
    return Place(STORED, 0, b"", bytes.fromhex(config.initial)) if config.initial else Place("initial", 0)


def load_of(course: Course, member: Member) -> Pointer | None:
    """Which model a member should have; None if there is nothing for it to get."""
    if member.state is S.WARMING:
        return _pointer(course, course.place, course.holders, member)
    if member.state is S.RESYNCING and course.newest is not None:
        holders = alive(course, course.newest_holders)
        return _pointer(course, course.newest, course.newest_holders, member) if holders else None
    if member.state is S.DONE and course.place.model:
        return _pointer(course, course.place, [], member)  # so that it knows whether it has what the run ended with
    return None


def _pointer(course: Course, place: Place, lives: list[tuple[str, int]], member: Member) -> Pointer:
    """From the members while some have it, also if it is stored: that is for when none of them gives it. Not the same
    holders for everybody, or all would ask the same few."""
    holders = [one for one in alive(course, lives) if one != member.id]
    shift = member.seat % len(holders) if holders else 0
    shown = (holders[shift:] + holders[:shift])[:HOLDERS_SHOWN]
    source = P2P if holders else place.source
    return Pointer(source, place.step, place.model, place.digest, place.size_bytes, tuple(shown))


def agree(course: Course, step: int, model: bytes) -> None:
    course.agreed = [*(one for one in course.agreed if one[0] != step), (step, model)][-KEPT:]


def agreed_at(course: Course, step: int) -> bytes:
    return next((model for of, model in course.agreed if of == step), b"")


# -- falling back --------------------------------------------------------------------------------------------------


def usable(course: Course) -> bool:
    """Whether an epoch can begin from where the model is."""
    place = course.place
    return place.step == course.step and (place.source != P2P or bool(alive(course, course.holders)))


def fall_back(course: Course) -> None:
    """To the last stored checkpoint and its step."""
    course.place = course.stored
    course.holders = []
    course.keepers = []
    course.step = course.stored.step
    course.agreed = [(course.step, course.stored.model)] if course.stored.model else []
    course.account.roll_back()
    course.roll_backs += 1


def nowhere(course: Course) -> None:
    """Nobody can load the model that was agreed on: there is no such model. The hash of the first one is for the next
    warm-up to name; from any other one falls back, and from a checkpoint to the one before."""
    step = course.place.step
    if course.place.source == P2P:
        fall_back(course)
        course.reason = f"nobody has the model of step {step}: back to step {course.step}"
    elif course.older:
        course.stored = course.older.pop()
        course.account.give_up()
        fall_back(course)
        course.reason = f"nobody can load the checkpoint of step {step}: back to step {course.step}"
    elif step == 0:
        course.place = course.stored = first_place(course.config)
        course.agreed = []
        course.reason = "nobody has the first model that was agreed on: the next to load it decide"


def holders_gone(course: Course, at_us: int) -> None:
    """Before an epoch has begun its rounds: the model may have gone with the last who had it."""
    if course.place.source == STORED and course.holders and not alive(course, course.holders):
        course.holders = []
        course.retold |= {member.id: None for member in with_state(course, S.WARMING)}
    if course.state not in (Phase.WAITING, Phase.WARMUP, Phase.PAUSED) or usable(course):
        return
    step = course.step
    fall_back(course)
    course.reason = f"nobody is left who has the model of step {step}: back to step {course.step}"
    if course.state is Phase.WARMUP:
        course.since_us = at_us
        course.first_step = course.step
        course.retold |= {member.id: None for member in with_state(course, S.WARMING)}


# -- agreeing ------------------------------------------------------------------------------------------------------


def patience_us(course: Course) -> int:
    """How long those who have not said which model they have are waited for in Cooldown."""
    return min(us(course.config.round_witness_s), us(course.config.cooldown_s) // 2)


def voters(course: Course) -> list[str]:
    """Those in step; if there are none, those who were in this epoch and may have the model still."""
    late = [member.id for member in with_state(course, S.RESYNCING) if member.stepped == course.epoch]
    return sorted(course.in_step) or late


def outcome(course: Course, event: ModelAgreed) -> bytes:
    """The model that the reports agree on; empty if they do not. What was agreed before is not put to the vote."""
    known, may = agreed_at(course, course.step), set(voters(course))
    said = [report.model for report in event.models if report.member in may]
    return (known if known in said else b"") if known else evidence.majority(said)


def check_agreed(course: Course, _run: Course, event: ModelAgreed, at_us: int) -> Refusal | None:
    if event.step != course.step:
        return Refusal("wrong_step", f"the epoch ended with step {course.step}, not {event.step}", "look again")
    may = {member.id for member in with_state(course, S.IN_STEP, S.RESYNCING)}
    if (refusal := evidence.reports(course, event.models, may)) is not None:
        return refusal
    if any(report.step != course.step for report in event.models):
        return Refusal("wrong_step", f"a report is about another step than {course.step}", "leave it out")
    model = outcome(course, event)
    if not model:
        return Refusal("no_quorum", f"no majority for one model of step {course.step}", "wait for more reports")
    if course.storing is not None:
        return _check_again(course, course.storing, model, at_us)
    silent = set(voters(course)) - {report.member for report in event.models}
    if silent and not (event.late and at_us - course.since_us >= patience_us(course)):
        why = f"{len(silent)} members have not said which model they have"
        return Refusal("round_early", why, f"wait for them, or {said_s(patience_us(course))}")
    return None


def _check_again(course: Course, storing: Storing, model: bytes, at_us: int) -> Refusal | None:
    """The same again draws another one to store it."""
    if model != course.place.model or not storing.member:
        return Refusal("contradiction", f"the model of step {course.step} was agreed on before", "go on with that")
    here = alive(course, [(storing.member, storing.incarnation)])
    if here and at_us - storing.drawn_us < us(course.config.checkpoint_retry_s):
        why = f"{storing.member} was asked {said_s(at_us - storing.drawn_us)} ago to store the model"
        return Refusal("round_early", why, f"wait until checkpoint_retry_s = {course.config.checkpoint_retry_s:g}")
    return None


def do_agreed(course: Course, _run: Course, event: ModelAgreed, at_us: int, cup: Cup) -> Applied:
    model = outcome(course, event)
    before = course.storing
    if course.place.step != course.step or course.place.source != STORED:
        course.place = Place(P2P, course.step, model)
    course.holders = sorted((report.member, report.incarnation) for report in event.models if report.model == model)
    agree(course, course.step, model)
    drawn, draws = "", 0 if before is None else before.draws
    course.keepers = [] if before is None else course.keepers
    if course.config.checkpoint == STORED and course.place.source == P2P:
        lives = [m for m, _ in course.holders]
        others = [member for member in lives if before is None or member != before.member] or lives
        drawn = cup.dice("store", course.epoch, draws).choose(others)
        course.keepers = sorted({*course.keepers, (drawn, dict(course.holders)[drawn])})
    course.storing = Storing(drawn, dict(course.holders).get(drawn, 0), at_us, draws + 1)
    course.retold |= {m: None for m in (drawn, "" if before is None else before.member) if m in course.members}
    return DONE


# -- storing -------------------------------------------------------------------------------------------------------


def check_stored(course: Course, member: Member, event: CheckpointStored, _at_us: int) -> Refusal | None:
    place = course.place
    if (place.step, place.model) != (event.step, event.model) or not place.model:
        why = f"the model of step {event.step} is not the one that counts now, of step {place.step}"
        return Refusal("checkpoint_late", why, "drop it")
    if (member.id, member.incarnation) not in course.keepers:
        why = f"{member.id} was not drawn to store the model of step {event.step}"
        return Refusal("not_yours", why, "store it when your standing asks for it")
    if event.seen == "missing":
        why = f"there is no file {event.digest.hex()[:12]} of {event.size_bytes} bytes in the object store of the run"
        return Refusal("object_missing", why, "store it there, and say so then")
    return None


def do_stored(course: Course, _member: Member, event: CheckpointStored, _at_us: int, _cup: Cup) -> Applied:
    if course.place.source != P2P:
        return DONE  # it is there already
    course.older.append(course.stored)
    course.place = course.stored = Place(STORED, event.step, event.model, event.digest, event.size_bytes)
    course.account.keep()
    if len(course.older) > OLDER_KEPT:
        del course.older[1]
        course.account.forget(0)
    return DONE


def done(course: Course) -> bool:
    """Whether Cooldown has what it waits for."""
    if course.place.source != P2P and course.place.step == course.step:
        return True
    return course.config.checkpoint == "none" and course.storing is not None

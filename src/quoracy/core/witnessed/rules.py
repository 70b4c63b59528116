"""What the rows of the member's table check and change: coming, going, and being found out.

Liars are out at once, and for good: an operator has to let them back in. Proven is a lie by the liar's own words, which
are in the journal or signed: another result than it committed to, a result that it attested and then says it misses, or
one that it attested and that most of the others cannot get from it. Where attestations are Bloom filters, which claim
some things by chance, what was attested proves nothing: who does not deliver is out for the epoch, and may come back.
"""

from __future__ import annotations

from quoracy.core.dice import Cup
from quoracy.core.errors import Refusal
from quoracy.core.machine import DONE, Applied, Event
from quoracy.core.witnessed.attestation import BITMAP, positions
from quoracy.core.witnessed.events import (
    MemberJoined,
    MemberLeft,
    MemberLost,
    MemberReadmitted,
    MemberRemoved,
    ResultVoided,
    TwoFacedShown,
)
from quoracy.core.witnessed.state import (
    HERE,
    ROUNDS,
    Course,
    Given,
    Member,
    MemberState,
    Past,
    Phase,
)

S = MemberState


# -- coming and going ----------------------------------------------------------------------------------------------


def check_join(course: Course, member: Member, event: MemberJoined, at_us: int) -> Refusal | None:
    """Nobody without a key: what a member commits to is signed, or nothing could be proven."""
    if not event.key:
        why = f"key is empty, and members of a witnessed run sign what they commit to: {member.called()} cannot"
        return Refusal("malformed", why, "join with an Ed25519 key; the SDK makes one by itself")
    if member.ejected:
        why = f"{member.called()} was proven to lie: {member.reason}"
        return Refusal("ejected", why, "ask an operator to let it back in")
    waiting = sum(one.state is S.PENDING for one in course.here.values())
    if pick_join(course, member, event, at_us) is S.PENDING and member.state not in HERE:
        most = course.config.max_clients
        if waiting >= most:
            return Refusal("come_later", f"{waiting} members wait and max_clients = {most}", "try again in a while")
    return None


def pick_join(course: Course, member: Member, _event: Event, _at_us: int) -> MemberState:
    """Who was in the epoch that is under way comes back into it; everybody else waits for the next one."""
    if member.epoch != course.epoch or member.state is S.REMOVED:
        return S.PENDING
    if course.state is Phase.WARMUP:
        return S.WARMING
    return S.RESYNCING if course.state in ROUNDS else S.PENDING


def do_join(course: Course, member: Member, event: MemberJoined, at_us: int, _cup: Cup) -> Applied:
    target = pick_join(course, member, event, at_us)
    if target is S.PENDING:
        member.epoch = -1  # or it would be back in this epoch with its next life
        member.strikes = 0  # in the same epoch they stay: going and coming back does not make up for bad rounds
    if member.seat == 0:
        course.seats += 1
        member.seat = course.seats
    member.incarnation = event.supersedes + 1
    member.key, member.addresses, member.labels = event.key, event.addresses, event.labels
    member.stepped = -1
    course.members[member.id] = member
    course.settle(member, target, at_us, "")
    now = target is not S.PENDING or course.state in (Phase.WAITING, Phase.PAUSED)
    config = course.config
    result = {
        "status": "accepted" if now else "pending",
        "epoch": course.epoch if now else course.epoch + 1,
        "seat": member.seat,
        "heartbeat_interval_s": config.heartbeat_interval_s,
        "heartbeat_timeout_s": config.heartbeat_timeout_s,
        "attestation": config.attestation,
        "bloom_false_positives": config.bloom_false_positives,
    }
    return Applied(result)


def do_leave(course: Course, member: Member, event: MemberLeft, at_us: int, _cup: Cup) -> Applied:
    course.settle(member, S.LEFT, at_us, event.reason)
    return DONE


def do_lose(course: Course, member: Member, event: MemberLost, at_us: int, _cup: Cup) -> Applied:
    member.losses += 1
    course.settle(member, S.LOST, at_us, event.reason)
    return DONE


def do_readmit(course: Course, member: Member, _event: MemberReadmitted, at_us: int, _cup: Cup) -> Applied:
    """Its place is free until it joins: it has ended when it was told."""
    member.ejected = False
    course.settle(member, S.LEFT, at_us, "an operator lets it back in")
    return DONE


# -- being moved with others ---------------------------------------------------------------------------------------


def pick_moved(course: Course, member: Member, _event: Event, _at_us: int) -> MemberState:
    """Where the run's step takes it."""
    return course.moving[member.id][0] if member.id in course.moving else member.state


def do_moved(course: Course, member: Member, _event: Event, at_us: int, _cup: Cup) -> Applied:
    if member.id in course.moving:
        target, reason = course.moving[member.id]
        if target is S.WARMING:
            member.epoch = course.epoch
        if target is S.REMOVED:
            member.strikes = 0
        course.settle(member, target, at_us, reason)
    return DONE


# -- liars ---------------------------------------------------------------------------------------------------------


def eject(course: Course, member: Member, at_us: int, reason: str) -> Applied:
    member.ejected = True
    member.strikes = 0
    course.settle(member, S.REMOVED, at_us, reason)
    return DONE


def committed(course: Course, epoch: int, number: int, assignment: int, attempt: int) -> Given | None:
    """What the journal says was the result, as far back as is remembered."""
    lists = [past.results for past in course.past if (past.epoch, past.number) == (epoch, number)]
    if course.round is not None and (course.round.epoch, course.round.number) == (epoch, number):
        lists.append(course.round.results)
    found = (one for some in lists for one in some if (one.assignment, one.attempt) == (assignment, attempt))
    return next(found, None)


def check_two_faced(course: Course, accused: Member, event: TwoFacedShown, _at_us: int) -> Refusal | None:
    """The signature was checked before, with the key of the accused."""
    given = committed(course, event.epoch, event.round, event.assignment, event.attempt)
    if given is None or given.member != accused.id:
        why = f"{accused.id} has committed to nothing for assignment {event.assignment} of round {event.round}"
        return Refusal("contradiction", f"{why}, or it is too long ago", "show it within a few rounds")
    if given.digest == event.digest and given.base == event.base:
        return Refusal("contradiction", f"{accused.id} signed what it committed to", "show another result")
    return None


def do_two_faced(course: Course, accused: Member, event: TwoFacedShown, at_us: int, _cup: Cup) -> Applied:
    where = f"assignment {event.assignment} in round {event.round} of epoch {event.epoch}"
    return eject(course, accused, at_us, f"signed two results for {where}, as {event.member} showed")


def is_exact(course: Course) -> bool:
    """Whether an attestation says what its maker meant and no more. A Bloom filter claims some things by chance, so
    what it claims proves nothing."""
    return course.config.attestation == BITMAP


def claimed(past: Past, member: Member) -> set[int]:
    """What this life attested of a round's list."""
    masks = [one.mask for one in past.claims if (one.member, one.incarnation) == (member.id, member.incarnation)]
    return {position for mask in masks for position in positions(int.from_bytes(mask, "little"))}


def check_accused(course: Course, accused: Member, event: MemberRemoved, _at_us: int) -> Refusal | None:
    """More than half of the others in step, and each only for something that it attested and that counts."""
    others = course.in_step.keys() - {accused.id}
    by = {one.member for one in event.accusations}
    if len(by) != len(event.accusations) or not by <= others or not enough_accuse(len(by), len(others)):
        why = f"{len(by)} accuse {accused.id}; more than half of the {len(others)} others in step have to, and two"
        return Refusal("no_quorum", why, "wait for more")
    for one in event.accusations:
        if not has_attested(course, accused, one.step, one.result):
            why = f"{accused.id} has not attested result {one.result} of step {one.step}"
            return Refusal("contradiction", why, f"leave out the word of {one.member}")
    return None


def has_attested(course: Course, member: Member, step: int, result: int) -> bool:
    """Whether this life attested what was sealed at this place for this step, in this epoch."""
    for past in course.past:
        if (past.epoch, past.step) == (course.epoch, step) and result < len(past.positions):
            return past.positions[result] in claimed(past, member)
    return False


def enough_accuse(by: int, others: int) -> bool:
    """Never one alone, as where there are only two: its word against the other's proves nothing."""
    return by >= 2 and 2 * by > others


def do_accused(course: Course, accused: Member, event: MemberRemoved, at_us: int, _cup: Cup) -> Applied:
    """A filter may have claimed it by chance: then the member is out for this epoch only."""
    reason = event.reason or "does not deliver what it attested"
    if is_exact(course):
        return eject(course, accused, at_us, reason)
    accused.strikes = 0
    course.settle(accused, S.REMOVED, at_us, reason)
    return DONE


def check_voided(course: Course, _run: Course, event: ResultVoided, _at_us: int) -> Refusal | None:
    """Only of the newest sealed round, before anybody could apply it, and only if nobody in step has it."""
    past = newest(course)
    if past is None or event.step != past.step or past.step + 1 != course.step:
        return Refusal("wrong_step", f"step {event.step} is not the last one that was sealed", "look again")
    if event.result >= len(past.positions) or event.result in past.voided:
        why = f"step {event.step} has {len(past.positions)} results, and {event.result} is none of them, or void"
        return Refusal("contradiction", why, "look again")
    if any(step > past.step for step, _ in course.agreed):
        return Refusal("contradiction", f"most have the model of step {course.step}: they had it", "leave it")
    if len(set(event.missing_for)) != len(event.missing_for) or set(event.missing_for) != course.in_step.keys():
        have = sorted(course.in_step.keys() - set(event.missing_for))
        why = f"{len(have)} members in step do not say that they miss result {event.result} of step {event.step}"
        return Refusal("no_quorum", why, "fetch it from them")
    return None


def newest(course: Course) -> Past | None:
    """The round that was applied last, in this epoch."""
    return next((past for past in reversed(course.past) if past.positions and past.epoch == course.epoch), None)


def do_voided(course: Course, _run: Course, event: ResultVoided, _at_us: int, _cup: Cup) -> Applied:
    past = newest(course)
    if past is None:
        return DONE
    past.voided = [*past.voided, event.result]
    position = past.positions[event.result]
    course.account.void(past.results[position].batches)
    for name in sorted(event.missing_for):
        if is_exact(course) and position in claimed(past, course.in_step[name]):
            course.moving[name] = (S.REMOVED, f"attested result {event.result} of step {event.step}, and misses it")
    return DONE


def do_ejected(course: Course, member: Member, _event: ResultVoided, at_us: int, _cup: Cup) -> Applied:
    return eject(course, member, at_us, course.moving[member.id][1])

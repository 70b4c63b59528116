"""After the store has lost its memory: the ranks that are left begin the run anew, where it stood, in an empty one.

Everything a store knew is gone, except what ranks remember: each knows the newest record it has adopted. A majority of
the members of the newest record that anybody who is there remembers may begin anew. Two majorities of one record have a
member in common; whoever is in the minority cannot know what the others have decided meanwhile, waits for a while, and
then ends and says so.

A store may be lost again before all of that majority have seen the new beginning. So the first record needs a majority
of them too: whichever majority of them comes together in yet another store, one of it knows that there was one. What
this does not cover is a newer record without most of them, of which they do not know: docs/ranks.md says so.

The run goes on in a new *generation*, with a new journal: no member is in, and all who are there join again. What was
decided after the newest record that the majority remembers is lost, like the steps that were taken on it; who took them
is told to take over the others' model, because it joins. Tokens carry the generation, so that nothing from before is
taken for something of now.
"""

from __future__ import annotations

from typing import Any

import msgspec

from quoracy.core import asks as ops
from quoracy.core.asks import Steps
from quoracy.core.codec import Reader, encode, said_s, us
from quoracy.core.errors import Refusal, Refused
from quoracy.core.members import Counter, MemberId
from quoracy.core.ranks.part import TOO_FEW_FIX, Part, Stage
from quoracy.core.ranks.state import majority

CLAIM = "#"
"""Behind a rank's key: where it says what it remembers."""


class Claim(msgspec.Struct, frozen=True, array_like=True, tag="rank-claim"):
    """What a rank remembers of a run whose store was lost."""

    rank: MemberId
    generation: Counter
    attempt: Counter
    number: Counter
    members: list[MemberId]


_claim: Reader[Claim] = Reader(Claim, "claim")


def begin_anew(part: Part) -> Steps:
    """In an empty store. Returns when the run has begun there, by whomever; the rank has to join it. Raises Refused if
    too few are there, or if somebody has begun another run under this name."""
    part.stage = Stage.JOINING
    part.incarnation = 0
    mine = _remembered(part)
    began_us = part.peer.now_us
    patience_us = part.times.patience_us()
    count = 0
    while True:
        count += 1
        yield ops.Beat(part.peer.me + CLAIM, count, encode(mine))
        snapshot, entries = yield ops.Load()
        if entries or snapshot is not None:
            yield from _enter(part, mine)
            return
        notes: list[bytes] = yield ops.Beats()
        claims = _claims(notes, mine)
        newest = max(claims, key=lambda claim: (claim.generation, claim.attempt, claim.number))
        here = sorted({claim.rank for claim in claims}, key=int)
        waited_us = part.peer.now_us - began_us
        if _is_record(newest):
            here = [rank for rank in here if rank in newest.members]
            needed, waits_us = majority(newest.members), 0
        else:
            needed, waits_us = part.crew.needed(), part.times.dead_us()
            newest = msgspec.structs.replace(newest, members=here)
        if len(here) >= needed and waited_us >= waits_us:
            part.peer.created = _successor(part, newest)
            yield from _enter(part, mine)
            return
        if waited_us > patience_us:
            raise Refused(_too_few(newest, here, needed, patience_us))
        yield ops.Watch(0, us(part.times.wait_s()))


def _remembered(part: Part) -> Claim:
    """A record that was the usual one counts, also if nobody can read it any more."""
    me, crew, config = part.peer.me, part.crew, part.crew.config
    if part.peer.unread is not None:
        return Claim(me, config.generation, crew.attempt + 1, crew.number + 1, crew.names_of_members())
    members = crew.log[-1].members if crew.log else config.began_members
    return Claim(me, config.generation, crew.attempt, crew.number, members or [rank.id for rank in crew.here()] or [me])


def _is_record(claim: Claim) -> bool:
    """Whether it comes from a record. A rank that joined and has read none knows neither who was in nor how far the
    run had come. If nobody there remembers one, they need to be as many as at the first beginning, and give those who
    may remember one the time to come."""
    return claim.generation > 0 or claim.attempt > 0


def _claims(notes: list[bytes], mine: Claim) -> list[Claim]:
    """Its own is among them, also if the store should have lost it."""
    read = [_claim.read(note) for note in notes]
    return [mine, *(claim for claim in read if isinstance(claim, Claim) and claim.rank != mine.rank)]


def _successor(part: Part, newest: Claim) -> Any:
    run, _ = part.peer.folded()
    went_on = {
        "generation": newest.generation + 1, "began_attempt": newest.attempt, "began_number": newest.number,
        "began_members": newest.members,
    }  # fmt: skip
    return msgspec.structs.replace(part.peer.created, config=run.head.config | went_on)


def _enter(part: Part, mine: Claim) -> Steps:
    """Read the run that is there now. It may be of the generation that this rank remembers, if it has seen a beginning
    of it and no record: nothing has come of that one."""
    least = mine.generation + bool(part.crew.log)
    yield from part.peer.load()
    found = part.crew.config.generation
    if found < max(1, least):
        why = f"in the new store the run begins with generation {found}, and this rank remembers {mine.generation}"
        raise Refused(Refusal("store_lost", why, "choose another name for the run, or start every rank afresh"))


def _too_few(newest: Claim, here: list[str], needed: int, patience_us: int) -> Refusal:
    why = (
        f"the store has lost its memory, and of the members of attempt {newest.attempt} ({', '.join(newest.members)}) "
        f"only {', '.join(here) or 'nobody'} came within {said_s(patience_us)}; {needed} are needed to begin anew"
    )
    return Refusal("store_lost", why, TOO_FEW_FIX)

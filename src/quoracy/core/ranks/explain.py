"""Ranks in words: what the attempt waits for, who is missing, and what happens when if they stay away.

Only those who are missing are named. An attempt has no deadline: it ends when every member has arrived or is lost. So
what is said to happen is the loss of the last one that is missing, if all of them are silent; as long as one of them is
alive there is no time-out, and that is said. The loss of any other is in the record that ends the attempt; until then a
rank whose time is over is not waited for, and counts again when it is heard.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from quoracy.core.codec import said_s, seconds
from quoracy.core.detector import Detector
from quoracy.core.machine import Explanation, Wait
from quoracy.core.ranks.state import Crew, Phase, Rank
from quoracy.core.ranks.times import BEAT_SHARE
from quoracy.core.waits import Silence, are_lost, few, joined, more, soon

LATE_BEATS = 2
"""A third of the time-out without a beat makes a rank silent: one may be lost, and is seen a look later."""


class Heard(msgspec.Struct, frozen=True):
    """What the collector knows beside the machine."""

    arrived: Collection[int]
    """Seats."""
    gone: Collection[int]
    """Seats of those who are silent for longer than they may be."""
    detector: Detector
    since_us: int
    """When the attempt began, on this observer's clock."""
    decider: str
    """Who looks: it does not give itself up."""


def explain(crew: Crew, heard: Heard, now_us: int) -> Explanation:
    if crew.state is Phase.CLOSED:
        return Explanation(f"the run is over: {crew.reason or 'it was stopped'}")
    beat_s = seconds(heard.detector.timeout_us) / BEAT_SHARE
    silence = Silence(heard.detector, beat_s, now_us, noun="rank ", late=LATE_BEATS)
    waited_us = now_us - heard.since_us
    members = crew.members()
    sentence, wait = _attempt(crew, members, heard, silence, waited_us) if members else _forming(crew, heard, waited_us)
    others = [rank.id for rank in sorted(crew.here(), key=Rank.number) if rank.id != heard.decider]
    silent = silence.waits(others, ())
    told = silence.told([one for one in silent if one.missing[0] not in wait.missing])
    return Explanation(joined([sentence, *told]), (wait, *silent))


def _forming(crew: Crew, heard: Heard, waited_us: int) -> tuple[str, Wait]:
    coming = crew.coming(True, heard.gone)
    what = f"{len(coming)} of {crew.needed()} ranks are there to begin"
    lacking, why = crew.needed() - len(coming), f"{len(coming)} of {crew.needed()} are there"
    missing: tuple[str, ...] = ()
    whom = more(lacking, "rank") if lacking > 0 else "its first record"
    if short := crew.short(coming):
        here = {rank.id for rank in coming}
        missing = tuple(rank for rank in crew.config.began_members if rank not in here)
        what += f", and {short} more are needed of those who were in before the store was lost"
        whom = f"{short} more of {few([f'rank {name}' for name in missing])}"
        why += "; a majority of those is needed who were in before the store was lost"
    return f"the run waits for {whom} to begin ({why}), {said_s(waited_us)} so far", Wait(
        what, missing, waited_us, None, ""
    )


def _attempt(crew: Crew, members: list[Rank], heard: Heard, silence: Silence, waited_us: int) -> tuple[str, Wait]:
    missing = [rank for rank in members if rank.seat not in heard.arrived]
    awaited = [rank for rank in missing if rank.seat not in heard.gone]
    name, arrived = f"attempt {crew.attempt + 1} of iteration {crew.number}", len(members) - len(missing)
    what = f"{name}: {arrived} of {len(members)} arrived"
    so_far = f"{said_s(waited_us)} so far"
    if not awaited:
        going_on, needed = _going_on(crew, members, heard, set(heard.gone)), crew.needed()
        if going_on < needed:
            why = f"{going_on} would go on and {needed} are needed"
            out = tuple(rank.id for rank in crew.here() if rank.seat in heard.gone)
            silent = f"; silent for longer than t_dead_s: {few(silence.names(out))}" if out else ""
            wait = Wait(f"{what}, {why}", out, waited_us, None, "")
            return f"{name} waits for {more(needed - going_on, 'rank')} ({why}{silent}), {so_far}", wait
        all_ = "all have arrived" if not missing else f"all have arrived but {few([f'rank {r.id}' for r in missing])}"
        return f"{name} waits for its record ({all_}), {so_far}", Wait(what, (), waited_us, None, "")
    names = tuple(rank.id for rank in missing)
    losses = silence.losses(rank for rank in names if rank != heard.decider)
    whom = silence.whom(names, lambda rank: (0, "this rank") if rank == heard.decider else (1, "alive"), _never)
    sentence = f"{name} ({arrived} of {len(members)} ranks have arrived) waits for {whom}, {so_far}"
    lost = {rank for _, rank in losses}
    if alive := [rank for rank in names if rank not in lost]:
        they = f"{few(silence.names(alive))} {'is' if len(alive) == 1 else 'are'}"
        return f"{sentence}; there is no time-out while {they} alive", Wait(what, names, waited_us, None, "")
    left_us = losses[-1][0]
    gone = {rank.seat for rank in members if rank.id != heard.decider and silence.lost_in_us(rank.id) <= left_us}
    lacking = crew.needed() - _going_on(crew, members, heard, gone)
    who = silence.names(rank for _, rank in losses)
    then = f"{are_lost(who)} and the others go on"
    if lacking > 0:
        then = f"{few(who)} {'counts' if len(who) == 1 else 'count'} as lost and it waits for {more(lacking, 'rank')}"
    return f"{sentence}; {then} {soon(left_us)}", Wait(what, names, waited_us, left_us, then)


def _never(_rank: str) -> int:
    """Beats do not say whether the training moves."""
    return -1


def _going_on(crew: Crew, members: list[Rank], heard: Heard, gone: Collection[int]) -> int:
    """How many, if these are given up and nobody else comes."""
    stay = [rank.seat for rank in members if rank.seat in heard.arrived and rank.seat not in gone]
    return len(stay) + len(crew.coming(not stay, gone))

"""The rules of ranks: what each event needs, and what it changes. ``table`` says when they apply."""

from __future__ import annotations

from quoracy.core.dice import Cup
from quoracy.core.errors import Refusal
from quoracy.core.machine import DONE, Applied, Event, View
from quoracy.core.ranks.events import AttemptDecided, RankJoined, RankLeft, RunStopped
from quoracy.core.ranks.state import REMEMBERED, Crew, Decision, Phase, Rank, RankState

# -- ranks ---------------------------------------------------------------------------------------------------------


def check_rank(crew: Crew, _rank: Rank, event: RankJoined, _at_us: int) -> Refusal | None:
    """A rank is a number, written in one way."""
    text, most = event.member, crew.config.max_ranks
    if text.isascii() and text.isdecimal() and len(text) <= 4 and str(int(text)) == text and int(text) < most:
        return None
    why = f"rank {text!r} is no number from 0 to {most - 1}"
    return Refusal("malformed", why, "choose a free rank, or create the run with a larger max_ranks")


def do_join(crew: Crew, rank: Rank, event: RankJoined, _at_us: int, _cup: Cup) -> Applied:
    """A new life has a new seat, whatever became of the old one."""
    crew.seats += 1
    known = crew.last_iteration(rank)
    rank.last_iteration = _last_before_the_loss(crew, rank) if known is None else known
    rank.incarnation = event.supersedes + 1
    rank.seat = crew.seats
    rank.since = crew.attempt
    rank.address = event.address
    rank.reason = ""
    crew.ranks[event.member] = rank
    result = {"seat": rank.seat, "attempt": crew.attempt, "number": crew.number, "t_dead_s": crew.config.t_dead_s}
    return Applied(result, (View("iteration", (rank.id,)),))


def _last_before_the_loss(crew: Crew, rank: Rank) -> int | None:
    """Of a rank that this store has not seen: those who were in when the run began anew were at that number."""
    return crew.config.began_number if rank.id in crew.config.began_members else None


def pick_join(crew: Crew, _rank: Rank, event: RankJoined, _at_us: int) -> RankState:
    """As long as nothing was tried there is nothing to learn."""
    return RankState.LEARNING if event.learner and crew.attempt else RankState.WAITING


def do_ready(crew: Crew, rank: Rank, _event: Event, _at_us: int, _cup: Cup) -> Applied:
    rank.since = crew.attempt
    return DONE


def do_leave(crew: Crew, rank: Rank, event: RankLeft, _at_us: int, _cup: Cup) -> Applied:
    rank.last_iteration = crew.last_iteration(rank)
    rank.since = crew.attempt
    rank.reason = event.reason
    return DONE


# -- attempts ------------------------------------------------------------------------------------------------------


def check_decided(crew: Crew, _run: Crew, event: AttemptDecided, _at_us: int) -> Refusal | None:
    """A record accounts for every member, and its outcome follows from it. Whether the gone were rightly given up
    nobody can check: a false suspicion costs them work and nobody safety."""
    if event.number != crew.number:
        why = f"iteration {event.number} was not tried; {crew.number} was"
        return Refusal("contradiction", why, "read the journal, then decide again")
    members, here = crew.seats_of_members(), crew.seated().keys()
    arrived, gone = set(event.arrived), {seat for seat, _ in event.gone}
    if not gone and arrived == members and len(event.arrived) == len(arrived):  # nearly always
        return _check_votes(event, arrived) or _check_outcome(crew, event) or _check_enough(crew, event)
    if len(arrived) + len(gone) < len(event.arrived) + len(event.gone) or arrived & gone:
        return Refusal("contradiction", "the record names a seat twice", "name each rank once")
    if not arrived <= members or not gone <= here:
        strange = sorted(arrived - members | gone - here)
        return Refusal("contradiction", f"seats {strange} are not in it", "read the journal, then decide again")
    if missing := sorted(members - arrived - gone):
        why = f"seats {missing} have neither arrived nor been given up"
        return Refusal("barrier_early", why, "wait until everybody has arrived or is given up")
    return _check_votes(event, arrived) or _check_outcome(crew, event) or _check_enough(crew, event)


def _check_votes(event: AttemptDecided, arrived: set[int]) -> Refusal | None:
    if not set(event.against) <= arrived or len(event.waits_us) not in (0, len(event.arrived)):
        return Refusal("contradiction", "against and waits_us do not fit arrived", "name only those who arrived")
    return None


def _check_outcome(crew: Crew, event: AttemptDecided) -> Refusal | None:
    right = outcome_of(crew, event.arrived, event.against)
    if event.outcome == right:
        return None
    why = f"the outcome is {right}, not {event.outcome}"
    return Refusal("contradiction", why, "let it follow from who arrived and who said no")


def _check_enough(crew: Crew, event: AttemptDecided) -> Refusal | None:
    come = coming(crew, event)
    if crew.enough(event.arrived, come):
        return None
    why = f"{len(event.arrived) + len(come)} would go on and {crew.needed()} are needed"
    if short := crew.short(come):
        why = f"{short} more are needed of those who were in before the store was lost"
    return Refusal("barrier_early", why, "wait for others to come")


def outcome_of(crew: Crew, arrived: list[int], against: list[int]) -> str:
    if crew.state is Phase.FORMING or not arrived:
        return "formed"
    return "repeated" if against else "committed"


def coming(crew: Crew, event: AttemptDecided) -> list[Rank]:
    """Whom the record counts in."""
    return crew.coming(not event.arrived, {seat for seat, _ in event.gone})


def do_decide(crew: Crew, _run: Crew, event: AttemptDecided, at_us: int, _cup: Cup) -> Applied:
    by_seat = crew.seated()
    came = coming(crew, event)
    for seat, _ in event.gone:
        by_seat[seat].last_iteration = crew.last_iteration(by_seat[seat])
    crew.attempt += 1
    crew.number += event.outcome == "committed"
    gone = []
    for seat, reason in event.gone:
        rank = by_seat[seat]
        rank.state, rank.reason, rank.since = RankState.LOST, reason, crew.attempt
        gone.append((rank.id, reason))
    for rank in came:
        rank.state, rank.since = RankState.MEMBER, crew.attempt
    if gone or came:
        crew.changed()
    longest_us = max(event.waits_us, default=0)
    crew.log.append(
        Decision(
            crew.attempt, event.number, event.outcome, event.decider, crew.names_of_members(),
            [by_seat[seat].id for seat in event.against], gone, [rank.id for rank in came], at_us, longest_us,
            by_seat[event.arrived[-1]].id if event.arrived else "",
        )
    )  # fmt: skip
    del crew.log[:-REMEMBERED]
    told = (*crew.names_here(), *(who for who, _ in gone)) if gone else crew.names_here()
    return Applied({"attempt": crew.attempt, "number": crew.number}, (View("iteration", told),))


def do_stop(crew: Crew, _run: Crew, event: RunStopped, _at_us: int, _cup: Cup) -> Applied:
    crew.reason = event.reason
    return Applied(None, (View("iteration", tuple(rank.id for rank in crew.here())),))

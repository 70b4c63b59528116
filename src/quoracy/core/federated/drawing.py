"""Who is to train: whom a round may draw, how many it wants, and why it cannot begin."""

from __future__ import annotations

from math import ceil

import msgspec

from quoracy.core.dice import Dice
from quoracy.core.federated.state import Fate, Participant, ParticipantState, Round, Task, count, least

NAMES_SHOWN = 5


class Pool(msgspec.Struct, frozen=True):
    """Who may be drawn now, in order of id. The second only when the first are too few: their update for this round was
    refused, and ``refused_max`` allows them to try again. Who took too long does not get another place in this round,
    until an operator resumes the run."""

    fresh: list[str]
    again: list[str]

    def __len__(self) -> int:
        return len(self.fresh) + len(self.again)

    def draw(self, dice: Dice, wanted: int) -> list[str]:
        drawn = dice.sample(self.fresh, min(wanted, len(self.fresh)))
        return sorted(drawn + dice.sample(self.again, min(wanted - len(drawn), len(self.again))))


def eligible(task: Task) -> Pool:
    taken = {} if task.round is None else task.round.assignments
    waiting = [p for p in task.here.values() if p.state is ParticipantState.WAITING]
    fresh = [p for p in waiting if p.id not in taken]
    again = [p for p in waiting if p.id in taken and taken[p.id].fate is Fate.REFUSED]
    if task.number < 0:
        givers = [p for p in fresh if p.initial] or [p for p in again if p.initial]
        return Pool([p.id for p in sorted(givers, key=_seat)[:1]], [])
    return Pool(sorted(p.id for p in fresh), sorted(p.id for p in again))


def _seat(participant: Participant) -> int:
    return participant.seat


def target(task: Task) -> int:
    if task.round is not None:
        return task.round.target
    if task.number < 0:
        return 1
    return max(task.config.per_round or len(task.here), task.config.count_min)


def why_not_begin(task: Task) -> str:
    """Empty: a round can begin, or go on. One that has all it needs goes on, whoever has gone since."""
    config = task.config
    round_ = task.round or Round(task.number, target(task), 0)
    standing = count(task, round_)
    if task.round is not None and standing.admitted + standing.offered >= least(task, round_):
        return ""
    if len(task.here) < config.clients:
        return f"{len(task.here)} of clients = {config.clients} are registered"
    can = eligible(task)
    if standing.reachable + len(can) < least(task, round_):
        if task.number < 0:
            return "none of those registered can give the initial weights"
        missing = least(task, round_) - standing.reachable
        return f"{round_.called()} needs {missing} more, and {len(can)} of those registered can step in"
    return ""


def missing(task: Task) -> str:
    """Why no round begins, and who could change that."""
    gone, out = absent(task)
    slow = [] if task.round is None else sorted(a.member for a in task.round.having(Fate.DROPPED))
    groups = (("gone", gone), ("took too long", slow), ("quarantined", out))
    return "; ".join([why_not_begin(task), *(f"{what}: {few(names)}" for what, names in groups if names)])


def absent(task: Task) -> tuple[list[str], list[str]]:
    """Those who may come back, and those who may not."""
    away = sorted((p for p in task.participants.values() if p.id not in task.here), key=lambda p: p.id)
    out = [p.id for p in away if p.state is ParticipantState.QUARANTINED]
    return [p.id for p in away if p.state not in (ParticipantState.QUARANTINED, ParticipantState.DONE)], out


def wanted(task: Task, round_: Round) -> int:
    """How many are to train. Fifty and a tenth more of them are 55, whatever a float makes of it."""
    return 1 if round_.number < 0 else ceil(round_.target * (1 + task.config.over_select) - 1e-9)


def few(names: list[str]) -> str:
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more

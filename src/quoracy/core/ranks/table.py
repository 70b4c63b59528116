"""The tables of ranks: the run and each rank. What is not listed here cannot happen."""

from __future__ import annotations

from quoracy.core.machine import Choose, Event, Ignore, Refuse, Row, Table, To
from quoracy.core.ranks import rules
from quoracy.core.ranks.events import AttemptDecided, RankJoined, RankLeft, RankReady, RunStopped
from quoracy.core.ranks.state import Phase, RankState

S = RankState
RANK_EVENTS: tuple[type[Event], ...] = (RankJoined, RankReady, RankLeft)
RUN_EVENTS: tuple[type[Event], ...] = (*RANK_EVENTS, AttemptDecided, RunStopped)
HERE = (S.WAITING, S.LEARNING, S.MEMBER)

_over = Refuse("member_gone", "this life is over", "join again to begin a new one")
_unknown = Refuse("unknown_member", "nobody has taken that rank", "join first")

_rank: dict[tuple[RankState, type[Event]], Row] = {
    **{
        (state, RankJoined): Choose(rules.pick_join, (S.WAITING, S.LEARNING), why, rules.do_join, rules.check_rank)
        for state, why in (
            (S.ABSENT, "takes the rank"),
            (S.LOST, "returns"),
            (S.LEFT, "returns"),
            (S.WAITING, "supersedes its older life"),
            (S.LEARNING, "supersedes its older life"),
            (S.MEMBER, "supersedes its older life, whose seat is void at once"),
        )
    },
    (S.LEARNING, RankReady): To(S.WAITING, "holds the model: the next record counts it in", rules.do_ready),
    (S.WAITING, RankReady): Ignore("it waits for the next record already"),
    (S.MEMBER, RankReady): Ignore("it is counted in already"),
    **{(state, RankLeft): To(S.LEFT, "said goodbye", rules.do_leave) for state in HERE},
    (S.LEFT, RankLeft): Ignore("it is there already"),
    (S.LOST, RankLeft): Refuse("member_gone", "it was given up before it left", "nothing: it is gone"),
    **{(state, RankReady): _over for state in (S.LOST, S.LEFT)},
    **{(S.ABSENT, event): _unknown for event in (RankReady, RankLeft)},
}

_closed = Refuse("run_closed", "nothing more can happen in it", "leave; to go on, create a new run")
_decided = To(
    Phase.RUNNING, "the record of an attempt: whoever wrote it, all adopt it", rules.do_decide, rules.check_decided
)
_run: dict[tuple[Phase, type[Event]], Row] = {
    **{(phase, event): Ignore("goes on to the rank's table") for phase in Phase for event in RANK_EVENTS},
    (Phase.FORMING, AttemptDecided): _decided,
    (Phase.RUNNING, AttemptDecided): _decided,
    **{(phase, RunStopped): To(Phase.CLOSED, "an operator ended it", rules.do_stop) for phase in Phase},
    (Phase.CLOSED, RunStopped): Ignore("it is there already"),
    **{(Phase.CLOSED, event): _closed for event in (RankJoined, RankReady, AttemptDecided)},
}

RUN = Table("run", Phase, RUN_EVENTS, Phase.FORMING, _run)
RANK = Table("rank", RankState, RANK_EVENTS, RankState.ABSENT, _rank)
TABLES = (RUN, RANK)

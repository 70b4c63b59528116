"""The tables of a federated run: the run and its participants. What is not listed here cannot happen.

Every event passes the run's table first, which says whether it may happen now; those that concern participants then
move each of them by the participant's table.
"""

from __future__ import annotations

from collections.abc import Iterable

from quoracy.core.federated import rounds, rules
from quoracy.core.federated.events import (
    ParticipantJoined,
    ParticipantLeft,
    ParticipantLost,
    ParticipantReadmitted,
    RoundBegan,
    RoundClosed,
    RoundSuspended,
    RunPaused,
    RunResumed,
    RunStopped,
    StandbyExpired,
    UpdateOffered,
)
from quoracy.core.federated.state import ParticipantState, Phase
from quoracy.core.machine import Choose, DutyEnded, Event, Ignore, Refuse, Row, Table, To

S = ParticipantState
P = Phase
OF_PARTICIPANTS: tuple[type[Event], ...] = (
    ParticipantJoined, ParticipantLeft, ParticipantLost, UpdateOffered, ParticipantReadmitted,
)  # fmt: skip
PARTICIPANT_EVENTS: tuple[type[Event], ...] = (*OF_PARTICIPANTS, RoundBegan, RoundSuspended, RoundClosed, DutyEnded)
RUN_EVENTS: tuple[type[Event], ...] = (*PARTICIPANT_EVENTS, StandbyExpired, RunPaused, RunResumed, RunStopped)

Rows = dict[tuple[ParticipantState, type[Event]], Row]


def _each(states: Iterable[ParticipantState], event: type[Event], row: Row) -> Rows:
    return {(state, event): row for state in states}


_ALL = tuple(S)
_HERE = (S.WAITING, S.TRAINING)
_GONE = (S.LOST, S.LEFT, S.DONE)
_gone = Refuse("member_gone", "this life is over", "join again to begin a new one")
_unknown = Refuse("unknown_member", "nobody of that id has joined", "join first")
_shut = Refuse("quarantined", "its updates were refused too often", "ask an operator to let it back in")
_joins = (S.WAITING, S.TRAINING)

_participant: Rows = {
    # Joining: back at the old place, if the round still waits for it there.
    (S.ABSENT, ParticipantJoined): Choose(rules.pick_join, _joins, "comes", rules.do_join, rules.check_room),
    **_each(_GONE, ParticipantJoined, Choose(rules.pick_join, _joins, "returns", rules.do_join, rules.check_room)),
    **_each(_HERE, ParticipantJoined, Choose(rules.pick_join, _joins, "supersedes its older life", rules.do_join)),
    (S.QUARANTINED, ParticipantJoined): _shut,
    # Going.
    **_each(_HERE, ParticipantLeft, Choose(rules.pick_leave, (S.LEFT, S.DONE), "says goodbye", rules.do_leave)),
    **_each((S.LEFT, S.DONE), ParticipantLeft, Ignore("it is gone already")),
    (S.QUARANTINED, ParticipantLeft): Ignore("it is out already"),
    (S.LOST, ParticipantLeft): _gone,
    **_each(_HERE, ParticipantLost, To(S.LOST, "its heartbeats stayed away", rules.do_lose)),
    **_each((*_GONE, S.QUARANTINED), ParticipantLost, _gone),
    # Updates.
    (S.TRAINING, UpdateOffered): To(S.TRAINING, "has trained", rules.do_offer, rules.check_offer),
    (S.WAITING, UpdateOffered): To(S.WAITING, "was told before", rules.remind, rules.check_repeat),
    **_each(_GONE, UpdateOffered, _gone),
    (S.QUARANTINED, UpdateOffered): _shut,
    # Verdicts.
    (S.TRAINING, DutyEnded): Choose(
        rules.pick_verdict, (S.WAITING, S.QUARANTINED), "its update counts, or not", rules.do_verdict
    ),
    **{
        (state, DutyEnded): Choose(
            rules.keep_state, (state, S.QUARANTINED), "what it left behind counts, or not", rules.do_verdict
        )
        for state in (S.WAITING, *_GONE)
    },
    (S.QUARANTINED, DutyEnded): Ignore("it is out already"),
    (S.ABSENT, DutyEnded): Ignore("it never came"),
    # Rounds.
    (S.WAITING, RoundBegan): To(S.TRAINING, "is drawn", rules.do_train),
    **_each([s for s in _ALL if s is not S.WAITING], RoundBegan, Ignore("it cannot be drawn")),
    (S.TRAINING, RoundSuspended): To(S.WAITING, "took too long, and is let go", rules.do_release),
    **_each([s for s in _ALL if s is not S.TRAINING], RoundSuspended, Ignore("it does not train")),
    (S.TRAINING, RoundClosed): To(S.WAITING, "the round went on without it", rules.do_release),
    **_each([s for s in _ALL if s is not S.TRAINING], RoundClosed, Ignore("it does not train")),
    # Back from quarantine.
    (S.QUARANTINED, ParticipantReadmitted): To(S.LEFT, "may join again", rules.do_readmit),
    **_each([*_HERE, *_GONE], ParticipantReadmitted, Ignore("it is not in quarantine")),
    # Strangers.
    **_each((S.ABSENT,), ParticipantLeft, _unknown),
    **_each((S.ABSENT,), ParticipantLost, _unknown),
    **_each((S.ABSENT,), UpdateOffered, _unknown),
    **_each((S.ABSENT,), ParticipantReadmitted, _unknown),
}

_closed = Refuse("run_closed", "nothing more can happen in it", "leave; to go on, create a new run")
_on = Ignore("goes on to the participant's table")
_ACTIVE = (P.STANDBY, P.ROUND, P.CLOSING, P.EVALUATING, P.PAUSED)
_no_round = Refuse("round_early", "no round is open", "wait until one is")
_open_round = Refuse("round_early", "a round is under way", "wait until it is over")
_stop = To(P.STOPPED, "an operator ended it", rounds.do_stop)
_later = "pauses when the model is made"

_run: dict[tuple[Phase, type[Event]], Row] = {
    **{(phase, event): _on for phase in _ACTIVE for event in OF_PARTICIPANTS},
    **{(phase, event): _closed for phase in (P.FINISHED, P.STOPPED) for event in RUN_EVENTS},
    **{(phase, event): _on for phase in (P.FINISHED, P.STOPPED) for event in (ParticipantLeft, ParticipantLost)},
    **{(phase, DutyEnded): Ignore("nobody needs it any more") for phase in (P.FINISHED, P.STOPPED)},
    **{(phase, RunStopped): Ignore("it is over already") for phase in (P.FINISHED, P.STOPPED)},
    # Beginning, and taking up again.
    (P.STANDBY, RoundBegan): To(P.ROUND, "enough are registered", rounds.do_begin, rounds.check_begin),
    **{(phase, RoundBegan): _open_round for phase in (P.ROUND, P.CLOSING, P.EVALUATING)},
    (P.PAUSED, RoundBegan): Refuse("round_early", "the run is paused", "resume it"),
    # Suspending.
    (P.ROUND, RoundSuspended): To(P.STANDBY, "too few are left", rounds.do_suspend, rounds.check_suspend),
    **{(phase, RoundSuspended): _no_round for phase in _ACTIVE if phase is not P.ROUND},
    (P.STANDBY, StandbyExpired): To(P.PAUSED, "nobody came for too long", rounds.do_pause, rounds.check_expired),
    **{(phase, StandbyExpired): _open_round for phase in _ACTIVE if phase is not P.STANDBY},
    # Closing.
    (P.ROUND, RoundClosed): Choose(
        rounds.pick_closed, (P.CLOSING, P.STANDBY), "has what it waits for; the initial weights need no aggregation",
        rounds.do_close, rounds.check_close,
    ),
    **{(phase, RoundClosed): _no_round for phase in _ACTIVE if phase is not P.ROUND},
    (P.CLOSING, DutyEnded): Choose(
        rounds.pick_aggregated, (P.CLOSING, P.EVALUATING, P.STANDBY, P.PAUSED, P.FINISHED), "there is a new model",
        rounds.do_aggregated,
    ),
    (P.EVALUATING, DutyEnded): Choose(
        rounds.pick_evaluated, (P.EVALUATING, P.STANDBY, P.PAUSED, P.FINISHED), "it is known how good it is",
        rounds.do_evaluated,
    ),
    **{(phase, DutyEnded): _on for phase in (P.STANDBY, P.ROUND, P.PAUSED)},
    # Operators.
    **{(phase, RunPaused): To(P.PAUSED, "an operator paused it", rounds.do_pause) for phase in (P.STANDBY, P.ROUND)},
    (P.CLOSING, RunPaused): To(P.CLOSING, _later, rounds.do_pause_later),
    (P.EVALUATING, RunPaused): To(P.EVALUATING, _later, rounds.do_pause_later),
    (P.PAUSED, RunPaused): Ignore("it is paused already"),
    (P.PAUSED, RunResumed): Choose(
        rounds.pick_resumed, (P.STANDBY, P.CLOSING, P.EVALUATING), "an operator lets it go on", rounds.do_resume
    ),
    **{(phase, RunResumed): To(phase, "goes on anyway", rounds.do_cancel_pause) for phase in (P.CLOSING, P.EVALUATING)},
    **{(phase, RunResumed): Ignore("it is not paused") for phase in (P.STANDBY, P.ROUND)},
    **{(phase, RunStopped): _stop for phase in _ACTIVE},
}  # fmt: skip

RUN = Table("run", Phase, RUN_EVENTS, Phase.STANDBY, _run)
PARTICIPANT = Table("participant", ParticipantState, PARTICIPANT_EVENTS, ParticipantState.ABSENT, _participant)
TABLES = (RUN, PARTICIPANT)

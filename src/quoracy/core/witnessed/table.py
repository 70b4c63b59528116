"""The tables of a witnessed run: the run and its members. What is not listed here cannot happen.

Every event passes the run's table first, which says whether it may happen now. Where it takes members is worked out
there; each of them is then moved by the member's table.
"""

from __future__ import annotations

from collections.abc import Iterable

from quoracy.core.machine import Choose, Event, Ignore, Refuse, Row, Table, To
from quoracy.core.witnessed import checkpoint, epochs, reopening, rounds, rules, sealing
from quoracy.core.witnessed.events import (
    CheckpointStored,
    CooldownEnded,
    MemberJoined,
    MemberLeft,
    MemberLost,
    MemberReadmitted,
    MemberRemoved,
    ModelAgreed,
    ResultCommitted,
    ResultVoided,
    RoundSealed,
    RunPaused,
    RunResumed,
    RunStopped,
    TrainEnded,
    TwoFacedShown,
    WarmupBegan,
    WarmupEnded,
    WorkReopened,
)
from quoracy.core.witnessed.state import MemberState, Phase

S = MemberState
P = Phase
OF_ONE: tuple[type[Event], ...] = (
    MemberJoined, MemberLeft, MemberLost, ResultCommitted, CheckpointStored, TwoFacedShown, MemberRemoved,
    MemberReadmitted,
)  # fmt: skip
OF_ALL: tuple[type[Event], ...] = (
    WarmupBegan, WarmupEnded, RoundSealed, ResultVoided, CooldownEnded, RunPaused, RunStopped,
)  # fmt: skip
MEMBER_EVENTS: tuple[type[Event], ...] = (*OF_ONE, *OF_ALL)
RUN_EVENTS: tuple[type[Event], ...] = (*MEMBER_EVENTS, TrainEnded, WorkReopened, ModelAgreed, RunResumed)

Rows = dict[tuple[MemberState, type[Event]], Row]


def _each(states: Iterable[MemberState], event: type[Event], row: Row) -> Rows:
    return {(state, event): row for state in states}


_TAKES_PART = (S.WARMING, S.IN_STEP, S.RESYNCING)
_HERE = (S.PENDING, *_TAKES_PART)
_gone = Refuse("member_gone", "this life is over", "join again to begin a new one")
_unknown = Refuse("unknown_member", "nobody of that id has joined", "join first")
_over = Refuse("run_closed", "nothing more can happen in it", "leave; to go on, create a new run")
_no_work = Refuse("late_result", "it has nothing to train now", "wait for the round in which it has")
_kept = "what was agreed on is in the object store"
_late_kept = Refuse("checkpoint_late", "no model is being kept now", "drop it")
_superseding = "supersedes its older life"
_ENDS = (S.PENDING, S.DONE)
_aside = Ignore("it does not take part")


def _moves(targets: tuple[MemberState, ...], why: str) -> Choose:
    return Choose(rules.pick_moved, targets, why, rules.do_moved)


_member: Rows = {
    # Coming. Who was in the epoch catches up in it, everybody else waits for the next one.
    (S.ABSENT, MemberJoined): To(S.PENDING, "comes", rules.do_join, rules.check_join),
    **_each((S.LEFT, S.LOST), MemberJoined, Choose(
        rules.pick_join, (S.PENDING, S.WARMING, S.RESYNCING), "returns", rules.do_join, rules.check_join
    )),
    (S.REMOVED, MemberJoined): To(
        S.PENDING, "may try again in the next epoch, unless it lied", rules.do_join, rules.check_join
    ),
    **{(state, MemberJoined): To(state, _superseding, rules.do_join, rules.check_join)
       for state in (S.PENDING, S.WARMING)},
    **_each((S.IN_STEP, S.RESYNCING), MemberJoined, Choose(
        rules.pick_join, (S.RESYNCING, S.PENDING), _superseding, rules.do_join, rules.check_join
    )),
    (S.DONE, MemberJoined): _over,
    # Going.
    **_each(_HERE, MemberLeft, To(S.LEFT, "says goodbye", rules.do_leave)),
    **_each((S.LEFT, S.DONE, S.REMOVED), MemberLeft, Ignore("it is gone already")),
    (S.LOST, MemberLeft): _gone,
    (S.ABSENT, MemberLeft): _unknown,
    **_each(_HERE, MemberLost, To(S.LOST, "its heartbeats stayed away", rules.do_lose)),
    **_each((S.LEFT, S.LOST, S.REMOVED, S.DONE), MemberLost, _gone),
    (S.ABSENT, MemberLost): _unknown,
    # Results and checkpoints.
    (S.IN_STEP, ResultCommitted): To(S.IN_STEP, "has trained", rounds.do_commit, rounds.check_commit),
    **_each((S.PENDING, S.WARMING, S.RESYNCING, S.DONE), ResultCommitted, _no_work),
    **_each((S.LEFT, S.LOST, S.REMOVED), ResultCommitted, _gone),
    (S.ABSENT, ResultCommitted): _unknown,
    **{(state, CheckpointStored): To(state, _kept, checkpoint.do_stored, checkpoint.check_stored)
       for state in (S.PENDING, S.IN_STEP, S.RESYNCING, S.DONE)},
    (S.WARMING, CheckpointStored): _late_kept,
    **_each((S.LEFT, S.LOST, S.REMOVED), CheckpointStored, _gone),
    (S.ABSENT, CheckpointStored): _unknown,
    # Liars.
    **_each((*_HERE, S.LEFT, S.LOST, S.REMOVED), TwoFacedShown,
            To(S.REMOVED, "signed two results for one assignment", rules.do_two_faced, rules.check_two_faced)),
    (S.DONE, TwoFacedShown): _over,
    (S.ABSENT, TwoFacedShown): _unknown,
    **_each((S.IN_STEP, S.RESYNCING), MemberRemoved,
            To(S.REMOVED, "does not deliver what it attested", rules.do_accused, rules.check_accused)),
    **_each((S.PENDING, S.WARMING), MemberRemoved, Refuse("contradiction", "it has attested nothing", "leave it")),
    **_each((S.LEFT, S.LOST, S.REMOVED, S.DONE), MemberRemoved, _gone),
    (S.ABSENT, MemberRemoved): _unknown,
    (S.IN_STEP, ResultVoided): To(S.REMOVED, "attested what it misses", rules.do_ejected),
    **_each([s for s in S if s is not S.IN_STEP], ResultVoided, _aside),
    (S.REMOVED, MemberReadmitted): To(S.LEFT, "may join again", rules.do_readmit),
    **_each([s for s in S if s not in (S.REMOVED, S.ABSENT)], MemberReadmitted, Ignore("it may join anyway")),
    (S.ABSENT, MemberReadmitted): _unknown,
    # Epochs and rounds. Only those are moved whom it concerns.
    (S.PENDING, WarmupBegan): To(S.WARMING, "takes part in the epoch", rules.do_moved),
    **_each([s for s in S if s is not S.PENDING], WarmupBegan, _aside),
    (S.WARMING, WarmupEnded): _moves(
        (S.IN_STEP, S.RESYNCING, S.PENDING), "has the model, or must catch up, or too few have it"
    ),
    **_each([s for s in S if s is not S.WARMING], WarmupEnded, _aside),
    (S.IN_STEP, RoundSealed): _moves(
        (S.RESYNCING, S.REMOVED, *_ENDS), "must catch up, or had too many bad rounds, or a roll-back ends the epoch"
    ),
    (S.RESYNCING, RoundSealed): _moves((S.IN_STEP, *_ENDS), "has caught up, or a roll-back ends the epoch"),
    (S.PENDING, RoundSealed): To(S.DONE, "a roll-back ends the run", rules.do_moved),
    **_each([s for s in S if s not in (S.IN_STEP, S.RESYNCING, S.PENDING)], RoundSealed, _aside),
    **_each((S.IN_STEP, S.RESYNCING), CooldownEnded, _moves(_ENDS, "waits for the next epoch, or is done")),
    (S.PENDING, CooldownEnded): To(S.DONE, "is done", rules.do_moved),
    **_each([s for s in S if s not in (S.IN_STEP, S.RESYNCING, S.PENDING)], CooldownEnded, _aside),
    # Operators.
    (S.WARMING, RunPaused): To(S.PENDING, "waits for the next epoch", rules.do_moved),
    **_each([s for s in S if s is not S.WARMING], RunPaused, _aside),
    **_each((S.PENDING, S.WARMING), RunStopped, To(S.DONE, "is done", rules.do_moved)),
    **_each([s for s in S if s not in (S.PENDING, S.WARMING)], RunStopped, _aside),
}  # fmt: skip

_on = Ignore("goes on to the member's table")
_no_round = Refuse("round_early", "no round is open", "wait until one is")
_not_now = Refuse("round_early", "it is at another point", "look again")
_training = Refuse("round_early", "the round trains", "wait until its training has ended")
_late_work = Refuse("late_result", "results are taken while a round trains", "drop it; its batches are not lost")
_later = "when the round is sealed and its model kept"
_OPEN = [phase for phase in P if phase is not P.FINISHED]
_AFTER = (P.WAITING, P.PAUSED, P.FINISHED)

_run: dict[tuple[Phase, type[Event]], Row] = {
    **{(phase, event): _on for phase in _OPEN for event in OF_ONE},
    **{(P.FINISHED, event): _over for event in RUN_EVENTS},
    **{(P.FINISHED, event): _on for event in (MemberLeft, CheckpointStored)},
    (P.FINISHED, RunStopped): Ignore("it is over already"),
    **{(phase, CheckpointStored): _late_kept for phase in (P.WARMUP, P.TRAIN, P.WITNESS)},
    **{(phase, ResultCommitted): _late_work for phase in _OPEN if phase is not P.TRAIN},
    # An epoch begins.
    (P.WAITING, WarmupBegan): To(
        P.WARMUP, "enough have come", epochs.do_warmup_began, epochs.check_warmup_began
    ),
    **{(phase, WarmupBegan): _not_now for phase in _OPEN if phase is not P.WAITING},
    (P.WARMUP, WarmupEnded): Choose(
        epochs.pick_warmup_ended, (P.TRAIN, P.WAITING), "all have the model, or time is over",
        epochs.do_warmup_ended, epochs.check_warmup_ended,
    ),
    **{(phase, WarmupEnded): _not_now for phase in _OPEN if phase is not P.WARMUP},
    # Rounds.
    (P.TRAIN, TrainEnded): To(
        P.WITNESS, "a quorum has seen all results, or time is over", rounds.do_train_ended, rounds.check_train_ended
    ),
    **{(phase, TrainEnded): _no_round for phase in _OPEN if phase is not P.TRAIN},
    (P.TRAIN, WorkReopened): To(
        P.TRAIN, "who had done it is gone, and nobody has its result", reopening.do_reopened, reopening.check_reopened
    ),
    **{(phase, WorkReopened): _no_round for phase in _OPEN if phase is not P.TRAIN},
    (P.WITNESS, RoundSealed): Choose(
        sealing.pick_sealed, (P.TRAIN, P.COOLDOWN, *_AFTER), "what counts is decided; without a majority it rolls back",
        sealing.do_seal, sealing.check_seal,
    ),
    (P.TRAIN, RoundSealed): _training,
    **{(phase, RoundSealed): _no_round for phase in _OPEN if phase not in (P.TRAIN, P.WITNESS)},
    **{(phase, ResultVoided): To(phase, "nobody has it any more", rules.do_voided, rules.check_voided)
       for phase in (P.TRAIN, P.WITNESS, P.COOLDOWN)},
    **{(phase, ResultVoided): _not_now for phase in (P.WAITING, P.WARMUP, P.PAUSED)},
    # The end of an epoch.
    (P.COOLDOWN, ModelAgreed): To(
        P.COOLDOWN, "most have the same model", checkpoint.do_agreed, checkpoint.check_agreed
    ),
    **{(phase, ModelAgreed): _not_now for phase in _OPEN if phase is not P.COOLDOWN},
    (P.COOLDOWN, CooldownEnded): Choose(
        epochs.pick_cooldown_ended, _AFTER, "the model is kept, or time is over",
        epochs.do_cooldown_ended, epochs.check_cooldown_ended,
    ),
    **{(phase, CooldownEnded): _not_now for phase in _OPEN if phase is not P.COOLDOWN},
    # Operators.
    **{(phase, RunPaused): To(P.PAUSED, "an operator paused it", epochs.do_pause) for phase in (P.WAITING, P.WARMUP)},
    **{(phase, RunPaused): To(phase, f"pauses {_later}", epochs.do_pause_later)
       for phase in (P.TRAIN, P.WITNESS, P.COOLDOWN)},
    (P.PAUSED, RunPaused): Ignore("it is paused already"),
    (P.PAUSED, RunResumed): To(P.WAITING, "an operator lets it go on", epochs.do_resume),
    **{(phase, RunResumed): To(phase, "goes on anyway", epochs.do_cancel_pause)
       for phase in (P.TRAIN, P.WITNESS, P.COOLDOWN)},
    **{(phase, RunResumed): Ignore("it is not paused") for phase in (P.WAITING, P.WARMUP)},
    **{(phase, RunStopped): To(P.FINISHED, "an operator stopped it", epochs.do_stop)
       for phase in (P.WAITING, P.WARMUP, P.PAUSED)},
    **{(phase, RunStopped): To(phase, f"stops {_later}", epochs.do_stop_later)
       for phase in (P.TRAIN, P.WITNESS, P.COOLDOWN)},
}  # fmt: skip

RUN = Table("run", Phase, RUN_EVENTS, Phase.WAITING, _run)
MEMBER = Table("member", MemberState, MEMBER_EVENTS, MemberState.ABSENT, _member)
TABLES = (RUN, MEMBER)

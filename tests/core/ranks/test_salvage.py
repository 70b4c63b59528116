"""A store that has lost its memory: a majority begins anew where the run stood, a minority ends and says so."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.ranks.deck import RUN, Boat, Sailor

from quoracy.core import asks as ops
from quoracy.core.asks import Steps
from quoracy.core.errors import ConfigError, Refused
from quoracy.core.journal import RunCreated
from quoracy.core.kinds import PEERLESS
from quoracy.core.ranks.salvage import begin_anew
from quoracy.core.ranks.times import PATIENCE
from quoracy.core.run import Run
from quoracy.sim.ranks.store import Store


def lose_store(boat: Boat) -> None:
    boat.entries = []
    boat.store = Store(boat.world, RUN, lambda _n, payload: boat.entries.append(payload))


def come_back(sailor: Sailor) -> Steps:
    yield from begin_anew(sailor.part)
    return (yield from sailor.part.join())


def back_together(boat: Boat, sailors: list[Sailor]) -> None:
    for sailor in sailors:
        sailor.go(come_back(sailor))
    boat.until(lambda: not any(sailor.busy for sailor in sailors))


def test_a_majority_goes_on_where_the_run_stood() -> None:
    boat = Boat()
    sailors = boat.board(0, 1, 2)
    for _ in range(5):
        turns = boat.all_vote(*sailors)
    before = turns[0]
    lose_store(boat)
    back_together(boat, sailors[:2])
    after = sailors[0].turn
    assert (after.generation, after.number, after.joined) == (1, before.number, True)
    assert after.attempt > before.attempt - 1
    assert after.token() > before.token()
    turns = boat.all_vote(*sailors[:2])
    assert turns[0].number == before.number + 1


def test_all_of_them_meet_again_in_one_journal() -> None:
    boat = Boat()
    sailors = boat.board(0, 1, 2, 3)
    boat.all_vote(*sailors)
    lose_store(boat)
    back_together(boat, sailors)
    boat.sail(lambda: {tuple(sailor.turn.members) for sailor in sailors if not sailor.busy} == {("0", "1", "2", "3")})
    assert {sailor.part.crew.config.generation for sailor in sailors} == {1}


def test_one_that_has_read_no_record_does_not_begin_before_those_who_have() -> None:
    """It joined before the others, and slept until the store was lost: it knows of nobody but itself."""
    boat = Boat()
    newcomer = boat.sailor(0)
    newcomer.go(newcomer.part.join())
    boat.pass_s(0.002)
    newcomer.frozen = True
    others = boat.board(1, 2, 3)
    for _ in range(3):
        turns = boat.all_vote(*others)
    assert newcomer.part.crew.log == []
    lose_store(boat)
    newcomer.frozen = newcomer.busy = False
    newcomer.go(come_back(newcomer))
    boat.pass_s(0.5)
    assert boat.entries == [], "it waits for those who may remember more"
    back_together(boat, others)
    assert {(sailor.turn.generation, sailor.turn.number) for sailor in others} == {(1, turns[0].number)}
    boat.sail(lambda: not newcomer.busy)
    assert newcomer.turn.number >= turns[0].number


def test_what_only_a_minority_remembers_is_lost_and_its_rank_takes_over_the_model() -> None:
    boat = Boat()
    ahead, *others = sailors = boat.board(0, 1, 2)
    boat.all_vote(*sailors)
    for sailor in others:
        sailor.go(sailor.part.vote(True))
    boat.pass_s(0.01)
    for sailor in others:
        sailor.frozen = True
    ahead.go(ahead.part.vote(True))
    boat.until(lambda: not ahead.busy)
    remembered = others[0].part.crew.number
    assert ahead.turn.number == remembered + 1
    lose_store(boat)
    for sailor in others:
        sailor.frozen, sailor.busy = False, False
    back_together(boat, others)
    assert {sailor.turn.number for sailor in others} == {remembered}
    ahead.go(come_back(ahead))
    boat.sail(lambda: not ahead.busy)
    assert ahead.turn.joined
    assert ahead.turn.donors == ["1", "2"]


def test_a_minority_waits_and_then_ends_saying_who_is_missing() -> None:
    boat = Boat()
    sailors = boat.board(0, 1, 2, 3)
    boat.all_vote(*sailors)
    lose_store(boat)
    back_together(boat, sailors[:2])
    for sailor in sailors[:2]:
        assert isinstance(sailor.error, Refused)
        assert sailor.error.code == "store_lost"
        assert "only 0, 1 came" in str(sailor.error)
        assert "3 are needed" in str(sailor.error)
    assert boat.entries == []


def test_those_who_come_later_make_the_majority() -> None:
    boat = Boat()
    sailors = boat.board(0, 1, 2)
    boat.all_vote(*sailors)
    lose_store(boat)
    sailors[0].go(come_back(sailors[0]))
    boat.pass_s(1.0)
    assert boat.entries == []
    sailors[2].go(come_back(sailors[2]))
    boat.until(lambda: not sailors[0].busy and not sailors[2].busy)
    assert sailors[0].turn.generation == 1


def test_the_newest_record_counts_and_not_the_first_that_is_told() -> None:
    """Rank 2 slept through some attempts and remembers older members: its majority is nobody's."""
    boat = Boat()
    sailors = boat.board(0, 1, 2)
    boat.all_vote(*sailors)
    sailors[2].frozen = True
    for sailor in sailors[:2]:
        sailor.go(sailor.part.vote(True))
    boat.until(lambda: not sailors[0].busy and not sailors[1].busy)
    assert sailors[0].turn.members == ["0", "1"]
    lose_store(boat)
    sailors[2].frozen = False
    sailors[2].busy = False
    newest = sailors[0].part.crew.attempt
    back_together(boat, [sailors[0], sailors[2]])
    assert isinstance(sailors[0].error, Refused)
    back_together(boat, sailors[:2])
    assert sailors[0].part.crew.config.began_attempt == newest


def test_the_first_record_after_a_loss_needs_a_majority_of_those_who_were_in() -> None:
    """One alone could decide, and be forgotten by the others if that store is lost as well."""
    boat = Boat()
    sailors = boat.board(0, 1, 2)
    boat.all_vote(*sailors)
    stood = sailors[0].turn.attempt - 1
    lose_store(boat)
    sailors[1].go(come_back(sailors[1]))
    boat.pass_s(0.01)
    sailors[1].frozen = True
    sailors[0].go(come_back(sailors[0]))
    boat.pass_s(PATIENCE * boat.dead_s - 0.1)
    assert sailors[0].busy
    assert (sailors[0].part.crew.attempt, sailors[0].part.crew.config.began_members) == (stood, ["0", "1", "2"])
    assert "the run waits for 1 more of rank 1, rank 2 to begin" in sailors[0].peer.explain().sentence
    sailors[1].thaw()
    boat.until(lambda: not sailors[0].busy and not sailors[1].busy)
    assert sailors[0].turn.members == ["0", "1"]


@pytest.mark.parametrize("learner", [False, True])
def test_those_who_are_left_of_a_new_beginning_wait_and_then_end_saying_who_is_missing(learner: bool) -> None:
    """A majority began anew and has died since, so nobody can make up for it: also not newcomers, however many."""
    boat = Boat()
    sailors = boat.board(0, 1, 2, 3)
    boat.all_vote(*sailors)
    lose_store(boat)
    for sailor in sailors[1:]:
        sailor.before = lambda op, dying=sailor: dying.kill() if isinstance(op, ops.Post) else None
        sailor.go(come_back(sailor))
    boat.until(lambda: len(boat.entries) > 0 and not any(sailor.alive for sailor in sailors[1:]))
    left, newcomer = boat.sailor(0, learner=learner), boat.sailor(7)
    for sailor in (left, newcomer):
        sailor.go(sailor.part.join())
    boat.pass_s(PATIENCE * boat.dead_s - 0.1)
    if learner:
        assert left.turn.index < 0
        left.go(left.part.ready())
        boat.pass_s(PATIENCE * boat.dead_s - 0.1)
    assert left.busy
    boat.pass_s(1.0)
    for sailor in (left, newcomer):
        assert isinstance(sailor.error, Refused)
        assert sailor.error.code == "store_lost"
        assert "of those who were in before (0, 1, 2, 3) only 0 joined again" in str(sailor.error)
        assert "2 more are needed to go on" in str(sailor.error)


def test_nobody_ends_who_waits_for_others_in_a_run_that_has_lost_nothing() -> None:
    boat = Boat(form_members=2)
    alone = boat.sailor(0)
    alone.go(alone.part.join())
    boat.pass_s(3 * PATIENCE * boat.dead_s)
    assert alone.busy
    boat.board(1)
    boat.until(lambda: not alone.busy)
    assert alone.turn.members == ["0", "1"]


def test_one_that_saw_a_beginning_from_which_nothing_came_is_in_the_next() -> None:
    boat = Boat()
    sailors = boat.board(0, 1, 2)
    boat.all_vote(*sailors)
    lose_store(boat)
    sailors[1].go(come_back(sailors[1]))
    boat.pass_s(0.01)
    sailors[1].frozen = True
    sailors[0].go(come_back(sailors[0]))
    boat.pass_s(1)
    sailors[0].frozen = True
    boat.pass_s(1)
    lose_store(boat)
    for sailor in sailors[:2]:
        sailor.busy = sailor.frozen = False
    back_together(boat, sailors[1:])
    assert {sailor.part.crew.config.generation for sailor in sailors} == {1}
    sailors[0].go(come_back(sailors[0]))
    boat.sail(lambda: not sailors[0].busy)
    assert sailors[0].turn.members == ["0", "1", "2"]


def test_one_that_slept_through_two_losses_joins_what_it_finds() -> None:
    boat = Boat()
    *others, sleeper = sailors = boat.board(0, 1, 2)
    boat.all_vote(*sailors)
    for _ in range(2):
        lose_store(boat)
        back_together(boat, others)
        boat.all_vote(*others)
    sleeper.go(come_back(sleeper))
    boat.sail(lambda: not sleeper.busy)
    assert (sleeper.turn.generation, sleeper.turn.joined, sleeper.turn.members) == (2, True, ["0", "1", "2"])


def test_another_run_under_the_name_is_not_mistaken_for_this_one() -> None:
    boat = Boat()
    sailors = boat.board(0, 1)
    boat.all_vote(*sailors)
    lose_store(boat)
    boat.board(5)
    back_together(boat, sailors)
    assert all(isinstance(sailor.error, Refused) and sailor.error.code == "store_lost" for sailor in sailors)


@pytest.mark.parametrize("config", [{"began_attempt": 3}, {"began_number": 3}, {"began_members": ["0"]}])
def test_a_first_generation_cannot_begin_in_the_middle(config: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="first generation"):
        Run.create(PEERLESS, RunCreated(RUN, "ranks", 1, config, seeding="chain"))

"""Every row of the tables, and every rule of a record."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.core.ranks.deck import Deck

from quoracy.core.errors import ConfigError, Refusal
from quoracy.core.journal import RunCreated
from quoracy.core.kinds import PEERLESS
from quoracy.core.machine import Choose, Ignore, Refuse, To
from quoracy.core.members import Cause
from quoracy.core.ranks.events import AttemptDecided, RankJoined, RankLeft, RankReady, RunStopped
from quoracy.core.ranks.state import REMEMBERED, Phase, RankState
from quoracy.core.ranks.table import RANK, RUN
from quoracy.core.run import Decided, Run

OPERATOR = Cause("@op", 0, 1)


def in_state(state: RankState) -> Deck:
    """Rank 1 is in this state; rank 0 is in."""
    deck = Deck(0)
    if state is RankState.ABSENT:
        return deck
    deck.join(1, learner=state is RankState.LEARNING)
    if state in (RankState.MEMBER, RankState.LOST):
        deck.decide()
    if state is RankState.LOST:
        deck.decide(gone=(1,))
    if state is RankState.LEFT:
        deck.say(1)
    assert deck.rank(1).state is state
    return deck


def happens(deck: Deck, event: Any) -> Any:
    """To rank 1, past the roster: the tables alone decide."""
    return deck.machine.apply(event, deck.run.head.at_us, None)


def of_rank_1(deck: Deck, sort: type[Any]) -> Any:
    if sort is RankJoined:
        return deck.joining(1)[1]
    return sort("1", deck.machine.incarnation_of("1"))


@pytest.mark.parametrize(("state", "event"), list(RANK.rows), ids=lambda x: getattr(x, "value", None) or x.__name__)
def test_every_row_of_a_rank(state: RankState, event: type[Any]) -> None:
    deck = in_state(state)
    row = RANK.rows[state, event]
    before = deck.run.snapshot().root
    answer = happens(deck, of_rank_1(deck, event))
    match row:
        case Refuse(code=code):
            assert isinstance(answer, Refusal)
            assert answer.code == code
            assert deck.run.snapshot().root == before
        case Ignore():
            assert not isinstance(answer, Refusal)
            assert deck.run.snapshot().root == before
        case To(target=target):
            assert deck.rank(1).state is target
        case Choose(targets=targets):
            assert deck.rank(1).state in targets


@pytest.mark.parametrize(("phase", "event"), list(RUN.rows), ids=lambda x: getattr(x, "value", None) or x.__name__)
def test_every_row_of_the_run(phase: Phase, event: type[Any]) -> None:
    deck = Deck() if phase is Phase.FORMING else Deck(0)
    deck.join(1)
    if phase is Phase.CLOSED:
        deck.scribe.write((OPERATOR, RunStopped("enough")))
    assert deck.crew.state is phase
    if event is AttemptDecided:
        answer = happens(deck, deck.record())
    else:
        answer = happens(deck, RunStopped("enough") if event is RunStopped else of_rank_1(deck, event))
    row = RUN.rows[phase, event]
    if isinstance(row, Refuse):
        assert isinstance(answer, Refusal)
        assert answer.code == row.code
        assert deck.crew.state is phase
    else:
        assert not isinstance(answer, Refusal)
        assert deck.crew.state is (row.target if isinstance(row, To) else phase)


# -- records -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"arrived": [1, 2]}, "barrier_early"),
        ({"arrived": [1, 2], "gone": []}, "barrier_early"),
        ({"arrived": [], "outcome": "formed"}, "barrier_early"),
        ({"arrived": [1, 2, 3, 3]}, "contradiction"),
        ({"gone": [(3, "silent")]}, "contradiction"),
        ({"arrived": [1, 2, 3, 9]}, "contradiction"),
        ({"gone": [(9, "silent")]}, "contradiction"),
        ({"number": 1}, "contradiction"),
        ({"outcome": "repeated"}, "contradiction"),
        ({"outcome": "formed"}, "contradiction"),
        ({"against": [2]}, "contradiction"),
        ({"against": [9], "outcome": "repeated"}, "contradiction"),
        ({"waits_us": [1, 2]}, "contradiction"),
    ],
    ids=str,
)
def test_a_record_that_cannot_be_is_refused_and_changes_nothing(changes: dict[str, Any], code: str) -> None:
    deck = Deck(0, 1, 2)
    assert deck.refused(None, replace(deck.record(), **changes)) == code
    assert isinstance(deck.scribe.decide(None, deck.record()), Decided)


def test_a_refused_record_names_who_is_missing() -> None:
    deck = Deck(0, 1, 2)
    answer: Any = deck.scribe.decide(None, replace(deck.record(), arrived=[1], gone=[(3, "silent")]))
    assert answer.why == "seats [2] have neither arrived nor been given up"


def test_no_member_can_write_a_record_and_nobody_but_an_operator_stops_the_run() -> None:
    deck = Deck(0)
    assert deck.refused(Cause("0", 1, 1), deck.record()) == "not_yours"
    assert deck.refused(Cause("0", 1, 1), RunStopped("enough")) == "not_yours"


def test_attempts_always_grow_and_the_number_only_on_a_commit() -> None:
    deck = Deck(0, 1)
    seen = [(deck.crew.attempt, deck.crew.number)]
    for against in ((), (1,), (0, 1), ()):
        deck.decide(against=against)
        seen.append((deck.crew.attempt, deck.crew.number))
    assert seen == [(1, 0), (2, 1), (3, 1), (4, 1), (5, 2)]
    assert [d.outcome for d in deck.crew.log] == ["formed", "committed", "repeated", "repeated", "committed"]


def test_a_single_no_repeats_the_iteration_and_is_remembered() -> None:
    deck = Deck(0, 1, 2)
    deck.decide(against=(1,))
    assert deck.crew.number == 0
    assert deck.crew.log[-1].against == ["1"]


def test_the_no_of_one_that_is_given_up_does_not_count() -> None:
    deck = Deck(0, 1)
    deck.decide(gone=(1,))
    assert deck.crew.number == 1
    assert (deck.state(1), deck.rank(1).reason) == ("Lost", "silent")
    assert deck.crew.log[-1].gone == [("1", "silent")]


def test_a_new_life_voids_the_seat_of_the_old_one_at_once() -> None:
    deck = Deck(0, 1)
    old = deck.rank(1).seat
    deck.join(1)
    assert deck.members() == ["0"]
    assert deck.rank(1).seat != old
    assert deck.refused(None, deck.record(arrived=[*deck.seats(0), old])) == "contradiction"
    deck.decide()
    assert deck.members() == ["0", "1"]
    assert deck.crew.log[-1].came == ["1"]


def test_the_old_life_can_say_nothing_any_more() -> None:
    deck = Deck(0, 1)
    farewell = deck.said(1)
    deck.join(1)
    assert deck.refused(*farewell) == "superseded"


def test_a_learner_is_counted_in_when_it_is_ready_and_not_before() -> None:
    deck = Deck(0)
    deck.join(1, learner=True)
    deck.decide()
    assert (deck.state(1), deck.members()) == ("Learning", ["0"])
    deck.ready(1)
    assert (deck.state(1), deck.members()) == ("Waiting", ["0"])
    deck.decide()
    assert deck.members() == ["0", "1"]


def test_before_the_first_attempt_there_is_nothing_to_learn() -> None:
    deck = Deck()
    deck.join(0, learner=True)
    assert deck.state(0) == "Waiting"


def test_when_nobody_is_left_to_learn_from_learners_begin_with_the_rest() -> None:
    deck = Deck(0)
    deck.join(1, learner=True)
    deck.decide(gone=(0,))
    assert deck.members() == ["1"]
    assert deck.crew.log[-1].outcome == "formed"


def test_one_that_waits_can_be_given_up_and_is_not_counted_in() -> None:
    deck = Deck(0)
    deck.join(1, 2)
    deck.join(3, learner=True)
    deck.decide(gone=(1, 3))
    assert deck.members() == ["0", "2"]
    assert (deck.state(1), deck.state(3)) == ("Lost", "Lost")


def test_below_min_members_nobody_goes_on() -> None:
    deck = Deck(0, 1, 2, min_members=2)
    assert deck.refused(None, deck.record(gone=(1, 2))) == "barrier_early"
    deck.join(3)
    deck.decide(gone=(1, 2))
    assert deck.members() == ["0", "3"]


def test_one_that_is_given_up_while_it_waits_does_not_make_enough() -> None:
    deck = Deck(0, 1, min_members=2)
    deck.join(2)
    assert deck.refused(None, deck.record(gone=(1, 2))) == "barrier_early"


def test_so_many_must_come_before_the_first_attempt_and_fewer_may_go_on() -> None:
    deck = Deck(form_members=3)
    deck.join(0, 1)
    assert deck.refused(None, deck.record()) == "barrier_early"
    deck.join(2)
    deck.decide()
    deck.decide(gone=(0, 2))
    assert deck.members() == ["1"]


def test_members_are_in_order_of_rank_and_not_of_text() -> None:
    assert Deck(10, 9, 2).members() == ["2", "9", "10"]


@pytest.mark.parametrize("rank", ["-1", "01", "x", "4", "1024", "²", "1.0", "99999"])
def test_a_rank_is_a_number_below_max_ranks_written_in_one_way(rank: str) -> None:
    deck = Deck(0, max_ranks=4)
    answer: Any = deck.scribe.decide(*deck.joining(rank))
    assert answer.code == "malformed"


def test_after_the_end_ranks_can_leave_and_nothing_else() -> None:
    deck = Deck(0, 1)
    deck.scribe.write((OPERATOR, RunStopped("enough")))
    assert deck.refused(None, deck.record()) == "run_closed"
    assert deck.refused(*deck.joining(2)) == "run_closed"
    assert deck.refused(*deck.said(0, RankReady)) == "run_closed"
    deck.say(0, RankLeft, "done")
    assert deck.rank(0).reason == "done"
    assert deck.machine.look("iteration", "1").closed


def test_so_many_decisions_are_remembered() -> None:
    deck = Deck(0)
    for _ in range(REMEMBERED + 5):
        deck.decide()
    assert len(deck.crew.log) == REMEMBERED
    assert deck.crew.log[-1].attempt == deck.crew.attempt


def test_the_log_says_who_was_last_and_how_long_others_waited() -> None:
    deck = Deck(0, 1)
    deck.scribe.write((None, deck.record(arrived=deck.seats(1, 0), waits_us=[700, 0], decider="1")))
    decision = deck.crew.log[-1]
    assert (decision.last_to_come, decision.longest_wait_us, decision.decider) == ("0", 700, "1")


def test_what_a_rank_is_shown() -> None:
    deck = Deck(0, 2)
    deck.join(1, learner=True)
    shown = deck.machine.look("iteration", "2")
    assert (shown.attempt, shown.number, shown.members, shown.learners, shown.index) == (2, 0, ["0", "2"], ["1"], 1)
    assert deck.machine.look("iteration", "1").index == -1
    assert deck.machine.look("iteration", "7") is None
    assert (deck.machine.topics("1"), deck.machine.topics("7")) == (["iteration"], [])


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"min_members": 5, "max_ranks": 4}, "min_members"),
        ({"form_members": 5, "max_ranks": 4}, "form_members"),
        ({"form_members": 2, "min_members": 3}, "form_members"),
        ({"min_members": 0}, "min_members"),
        ({"t_dead_s": 0.01}, "t_dead_s"),
        ({"t_deda_s": 30.0}, "t_deda_s"),
    ],
    ids=str,
)
def test_settings_that_cannot_be_are_refused_by_name(config: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        Run.create(PEERLESS, RunCreated("demo", "ranks", 1, config))


# -- the last iteration of a rank ----------------------------------------------------------------------------------


def last(deck: Deck, *ranks: int) -> list[int | None]:
    return [deck.crew.last_iteration(deck.rank(rank)) for rank in ranks]


def test_all_who_go_on_are_at_the_new_iteration_as_soon_as_it_is_decided() -> None:
    deck = Deck(0, 1, began_number=42, began_attempt=50, generation=1)
    assert last(deck, 0, 1) == [42, 42]
    deck.decide()
    assert last(deck, 0, 1) == [43, 43]
    deck.decide(against=(1,))
    assert last(deck, 0, 1) == [43, 43], "repeated: they are at it again"


def test_a_rank_that_went_is_where_it_was_last_named() -> None:
    deck = Deck(0, 1, 2)
    deck.decide()
    deck.decide(gone=(1,))
    deck.say(2)
    deck.decide()
    assert last(deck, 0, 1, 2) == [3, 1, 2]


def test_a_rank_that_was_never_counted_in_has_no_last_iteration() -> None:
    deck = Deck(0)
    deck.join(1)
    deck.join(2, learner=True)
    deck.say(1)
    assert last(deck, 1, 2) == [None, None]


def test_a_new_life_knows_the_last_iteration_of_the_old_one() -> None:
    """What a rank that is started again asks for first: where was I?"""
    deck = Deck(0, 1)
    deck.decide()
    deck.join(1)
    assert last(deck, 1) == [1], "it superseded a life that was in"
    deck.decide(gone=(1,))
    assert last(deck, 1) == [1], "given up before it was counted in"
    deck.join(1)
    deck.decide()
    assert last(deck, 0, 1) == [3, 3]


def test_last_iterations_survive_a_snapshot() -> None:
    deck = Deck(0, 1)
    deck.decide()
    deck.say(1)
    deck.decide()
    saved = deck.run.snapshot()
    machine: Any = Run.restore(PEERLESS, "demo", saved.n, saved.root, saved.pages).machine
    assert [machine.crew.last_iteration(machine.crew.ranks[rank]) for rank in "01"] == [2, 1]


def test_after_the_loss_of_a_store_those_who_were_in_are_where_the_run_stood() -> None:
    deck = Deck(generation=1, began_attempt=50, began_number=42, began_members=["0", "1"])
    deck.join(0, 2)
    assert last(deck, 0, 2) == [42, None]

"""A result that was committed and that nobody has: its maker is gone, and its work is done again in the same round."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.core.witnessed.camp import LOST_S, Camp, code, training

from quoracy.core.members import Accepted
from quoracy.core.witnessed import reopening
from quoracy.core.witnessed.committee import count
from quoracy.core.witnessed.events import Attested, TrainEnded, WorkReopened
from quoracy.core.witnessed.state import Work
from quoracy.core.witnessed.views import RESULTS, ROUND

SLOW: dict[str, Any] = {"round_train_max_s": 100.0, "round_witness_s": 10.0, "adaptive_deadline": False}


def all_but(work: Work, camp: Camp) -> list[int]:
    return [position for position in range(len(camp.round.results)) if position != work.result]


def died(*names: str, **config: Any) -> tuple[Camp, Work]:
    """All have committed; d is gone, and nobody got what it made."""
    camp = training(*(names or ("a", "b", "c", "d")), **(SLOW | config))
    camp.hash()
    camp.commit()
    (work,) = camp.works("d")
    camp.hold("a", "b", "c", positions=all_but(work, camp))
    return camp, work


def reopened(camp: Camp) -> list[WorkReopened]:
    return camp.all_events(WorkReopened)


@pytest.mark.parametrize("how", ["leave", "lose", "rejoin"])
def test_its_work_goes_to_another_at_once_and_the_round_ends_without_waiting_for_its_time(how: str) -> None:
    camp, work = died()
    batches, began_us = work.batches, camp.hand.now_us
    if how == "lose":
        camp.pass_s(LOST_S, "d")
    else:
        camp.leave("d") if how == "leave" else camp.join("d")
    assert (work.result, work.attempt, work.batches) == (-1, 2, batches)
    assert work.member in ("a", "b", "c")
    assert camp.course.account.moved == count(batches)
    assert [v.moved for t, v in camp.told["a"] if t == ROUND][-1] == ((work.index, 2, work.member),)
    camp.commit()
    assert len([v for t, v in camp.told["a"] if t == RESULTS][-1].results) == 5
    camp.hold("a", "b", "c", positions=[place for place in range(5) if camp.round.results[place].member != "d"])
    assert camp.course.number == 1  # with what is given up missing everywhere
    past = camp.course.past[0]
    assert [past.results[position].member for position in past.positions].count("d") == 0
    assert sorted(past.results[position].assignment for position in past.positions) == [0, 1, 2, 3]
    assert camp.account()[:1] == (8,)
    assert not camp.course.sealed[0].late
    assert camp.hand.now_us - began_us < 100_000_000


def test_not_before_everybody_in_step_has_looked_for_it() -> None:
    camp = training("a", "b", "c", "d", **SLOW)
    camp.commit()
    (work,) = camp.works("d")
    camp.leave("d")
    camp.hold("a", "b", positions=all_but(work, camp))
    assert not reopened(camp)
    camp.hold("c", positions=[], known=work.result)  # it speaks of a list that has it not
    assert not reopened(camp)
    camp.hold("c", positions=all_but(work, camp))
    assert [event.assignment for event in reopened(camp)] == [work.index]


def test_those_who_are_no_witnesses_are_asked_too() -> None:
    camp, work = died(witness_nodes=2, min_clients=2)
    others = [name for name in camp.round.roster if name not in camp.round.witnesses and name != "d"]
    camp.hold(others[0])  # it has everything
    camp.leave("d")
    assert not reopened(camp)
    camp.hold(others[0], positions=all_but(work, camp))
    assert len(reopened(camp)) == 1


def test_who_has_it_gives_it_to_the_others() -> None:
    camp, work = died()
    camp.hold("b")
    camp.leave("d")
    assert (work.result >= 0, work.member) == (True, "d")
    camp.hold()
    assert camp.course.number == 1
    assert "d" in [one.member for one in camp.course.past[0].results]
    assert camp.account()[:1] == (8,)


def test_as_long_as_its_maker_is_there_it_is_waited_for() -> None:
    camp, work = died()
    camp.hold("d")
    assert (reopened(camp), work.attempt) == ([], 1)


def test_what_turns_up_after_all_does_not_count() -> None:
    """Who attests it late holds it, and yet nobody applies it: what counts is the newest attempt."""
    camp, work = died()
    (given,) = [place for place, one in enumerate(camp.round.results) if one.member == "d"]
    camp.leave("d")
    camp.hold("a", "b", "c")
    camp.commit()
    camp.hold("a", "b", "c")
    past = camp.course.past[0]
    assert given not in past.positions
    assert len(past.positions) == 4
    assert work.attempt == 2


def test_late_too_it_does_not_count() -> None:
    """The second one is not done in time: the first, which all have by now, was given up before."""
    camp, work = died()
    camp.leave("d")
    camp.hold("a", "b", "c")
    camp.pass_s(110.0)
    assert len(camp.course.past[0].positions) == 3
    assert camp.course.past[0].results[3].digest
    assert camp.round.spans[0].tries == 2
    assert camp.account() == (8 - count(work.batches), 8, 0, 0)


def test_without_time_enough_it_waits_for_the_next_round_like_all_that_is_undone() -> None:
    camp, work = died(round_train_max_s=50.0)
    batches = work.batches
    camp.pass_s(26.0)
    camp.leave("d")
    assert (work.result, work.attempt, work.member) == (-1, 1, "d")
    camp.pass_s(24.0)
    camp.hold("a", "b", "c")
    assert camp.course.number == 1
    assert [(span.first, span.end) for span in camp.round.spans][: len(batches)] == list(batches)
    assert len(camp.course.past[0].positions) == 3


def test_what_was_tried_too_often_is_not_given_to_another() -> None:
    camp, work = died(attempts_max=1)
    camp.leave("d")
    assert (reopened(camp), work.attempt, work.result >= 0) == ([], 1, True)
    camp.pass_s(100.0)
    camp.hold("a", "b", "c", positions=all_but(work, camp))
    camp.pass_s(10.0)
    assert camp.course.account.reasons == {"failed 1 times": count(work.batches)}


def test_nor_when_the_list_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reopening, "MAX_RESULTS", 4)
    camp, work = died()
    camp.leave("d")
    assert (reopened(camp), work.attempt) == ([], 1)


def test_several_at_once_and_one_after_the_other() -> None:
    camp = training(*"abcde", **SLOW)
    camp.hash()
    camp.commit()
    works = [camp.works(name)[0] for name in "de"]
    have = [place for place in range(5) if place not in {work.result for work in works}]
    camp.hold("a", "b", "c", positions=have)
    camp.leave("e")
    camp.leave("d")
    assert [work.attempt for work in works] == [2, 2]
    first = works[0].member
    camp.commit(first)
    (made,) = [place for place in range(5, len(camp.round.results)) if camp.round.results[place].member == first][:1]
    left = [name for name in "abc" if name != first]
    camp.commit(*left)
    camp.leave(first)  # with one that nobody has
    camp.hold(*left, positions=[place for place in range(len(camp.round.results)) if place != made])
    again = next(work for work in works if made in camp.round.forsaken and work.attempt == 3)
    assert again.member in left
    camp.commit()
    camp.pass_s(100.0)
    camp.hold()
    camp.pass_s(10.0)
    assert sum(camp.account()) == camp.course.account.next_batch


def test_the_fold_reads_the_words_anew() -> None:
    camp = training("a", "b", "c", "d", **SLOW)
    camp.commit()
    (work,) = camp.works("d")
    (mine,) = camp.works("a")
    bits = camp.held("a", all_but(work, camp))["held"]
    words = tuple(Attested(name, 1, 4, bits) for name in "abc")
    good = WorkReopened(0, 0, work.index, 1, words, ())
    replace = msgspec.structs.replace
    assert camp.propose(good).code == "contradiction"  # d is there
    camp.leave("d")
    whole = Attested("c", 1, 4, camp.held("c")["held"])
    for wrong, refused in (
        (replace(good, round=1), "round_early"),
        (replace(good, epoch=1), "round_early"),
        (replace(good, assignment=9), "contradiction"),
        (replace(good, attempt=2), "contradiction"),
        (replace(good, assignment=mine.index), "contradiction"),
        (replace(good, attested=words[:2]), "no_quorum"),
        (replace(good, attested=(*words[:2], replace(words[2], incarnation=2))), "no_quorum"),
        (replace(good, attested=(*words, words[0])), "contradiction"),
        (replace(good, attested=(*words[:2], Attested("c", 1, 0, b""))), "no_quorum"),
        (replace(good, attested=words[:2], holding=words[2:]), "no_quorum"),
        (replace(good, attested=(*words[:2], whole)), "contradiction"),
    ):
        assert camp.propose(wrong).code == refused, wrong
    camp.hold("a", "b", "c", positions=all_but(work, camp))
    assert reopened(camp) == [good]
    assert camp.propose(good).code == "contradiction"  # once


def test_a_filter_that_has_it_not_says_so_too() -> None:
    camp, work = died(attestation="bloom", bloom_false_positives=0.000_001)
    camp.leave("d")
    assert work.attempt == 2
    camp.commit()
    given = [place for place in range(5) if camp.round.results[place].member != "d"]
    camp.hold("a", "b", "c", positions=given)
    assert camp.course.number == 1
    assert len(camp.course.past[0].positions) == 4


def test_training_does_not_end_early_without_the_second_result() -> None:
    camp, work = died()
    camp.leave("d")
    camp.hold("a", "b", "c", positions=all_but(work, camp))
    words = tuple(Attested(name, 1, 4, camp.held(name)["held"]) for name in "abc")
    assert camp.propose(TrainEnded(0, 0, words)).code == "round_early"
    assert "3 of 4 results are committed" in camp.explain().sentence
    current = camp.overview()["current"]
    assert (current["results"], current["short_of_quorum"]) == (3, [])


def test_another_host_goes_on_with_it() -> None:
    camp, work = died()
    camp.leave("d")
    other = camp.takeover()
    assert other.round.forsaken == [3]
    assert other.course.missing == 1
    other.hash("a", "b", "c")
    other.commit()
    other.hold("a", "b", "c", positions=[0, 1, 2, 4])
    assert other.course.number == 1
    assert len(other.course.past[0].positions) == 4
    assert work.attempt == 2


def test_its_older_life_cannot_commit_again() -> None:
    camp, work = died()
    camp.join("d")
    assert code(camp.try_commit("d", work, attempt=1)) == "late_result"
    assert isinstance(camp.try_commit(work.member, work), Accepted)

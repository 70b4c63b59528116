"""A round's training: whose it is, when it ends, what moves, how long it may take, and who gets how much."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.witnessed.camp import LOST_S, Camp, camping, code, model, training

from quoracy.core.codec import us
from quoracy.core.members import Accepted
from quoracy.core.witnessed.attestation import bitmap
from quoracy.core.witnessed.committee import count, draw
from quoracy.core.witnessed.events import Attest, Attested, Holds, TrainEnded
from quoracy.core.witnessed.rounds import allowed_us
from quoracy.core.witnessed.views import ROUND, RoundShown

SLOW: dict[str, Any] = {"round_train_max_s": 100.0, "round_witness_s": 10.0, "adaptive_deadline": False}
"""Longer than it takes to give somebody up."""


def attested(camp: Camp, *names: str, known: int | None = None) -> tuple[Attested, ...]:
    known = len(camp.round.results) if known is None else known
    lives = [(name, camp.machine.incarnation_of(name)) for name in names]
    return tuple(Attested(name, life, known, bitmap(range(known), known)) for name, life in lives)


# -- roster and draws ----------------------------------------------------------------------------------------------


def test_a_round_keeps_its_roster_and_nobodys_place_shifts_when_one_is_lost() -> None:
    camp = training("a", "b", "c", "d", **SLOW)
    before = (camp.round.roster, camp.round.witnesses, [work.index for work in camp.round.works], camp.round.seed)
    camp.pass_s(LOST_S, "b")
    camp.leave("c")
    assert camp.states() == {"a": "InStep", "b": "Lost", "c": "Left", "d": "InStep"}
    assert (camp.round.roster, camp.round.witnesses, [w.index for w in camp.round.works], camp.round.seed) == before
    shown: RoundShown = camp.machine.look(ROUND, "a")
    assert shown.roster == ("a", "b", "c", "d")


def test_members_draw_for_themselves_what_the_coordinator_has_drawn() -> None:
    camp = training("a", "b", "c", "d", witness_nodes=2, min_clients=2, **SLOW)
    camp.pass_s(LOST_S, "b")
    shown: RoundShown = camp.machine.look(ROUND, "a")
    drawn = draw("demo", shown)
    assert drawn.witnesses == camp.round.witnesses
    mine = [(work.index, work.attempt, work.member, work.batches) for work in camp.round.works]
    assert [(a.index, a.attempt, a.member, a.batches) for a in drawn.assignments] == mine
    assert any(attempt == 2 for _, attempt, _, _ in mine)


def test_each_round_has_a_fresh_seed() -> None:
    camp = training("a", "b")
    seeds = set()
    for _ in range(10):
        seeds.add(camp.round.seed)
        camp.turn()
    assert len(seeds) == 10
    assert {len(seed) for seed in seeds} == {16}


def test_the_samples_of_a_round_follow_the_ramp() -> None:
    camp = training("a", "b", batch_size=2, global_batch_size_start=8, global_batch_size_end=16, ramp_steps=2)
    sizes = []
    for _ in range(4):
        sizes.append(sum(count(work.batches) for work in camp.round.works))
        camp.turn()
    assert sizes == [4, 6, 8, 8]


# -- results -------------------------------------------------------------------------------------------------------


def test_only_the_owner_commits_once_for_the_round_that_is_open() -> None:
    camp = training("a", "b", **SLOW)
    (mine,) = camp.works("a")
    assert code(camp.try_commit("b", mine)) == "late_result"
    assert code(camp.try_commit("a", mine, attempt=2)) == "late_result"
    assert code(camp.try_commit("a", mine, round=1)) == "late_result"
    assert code(camp.try_commit("a", mine, epoch=1)) == "late_result"
    assert code(camp.try_commit("a", mine, assignment=2)) == "late_result"
    assert code(camp.try_commit("a", mine, samples=3)) == "malformed"
    assert code(camp.try_commit("a", mine, loss=float("nan"))) == "malformed"
    assert camp.round.results == []
    assert isinstance(camp.try_commit("a", mine), Accepted)
    again = camp.try_commit("a", mine)
    assert isinstance(again, Accepted)
    assert len(camp.round.results) == 1
    assert code(camp.try_commit("a", mine, mark="another")) == "contradiction"
    (theirs,) = camp.works("b")
    assert code(camp.try_commit("b", theirs, digest=camp.round.results[0].digest)) == "contradiction"


def test_results_are_shown_once_all_are_committed_and_not_with_each() -> None:
    camp = training("a", "b", "c", **SLOW)
    camp.commit("a", "b")
    assert [topic for topic, _ in camp.told.get("a", [])] == []
    camp.commit("c")
    assert [topic for topic, _ in camp.told["a"]] == ["results"]
    (shown,) = [value for topic, value in camp.told["a"] if topic == "results"]
    assert [result.assignment for result in shown.results] == [result.assignment for result in camp.round.results]


# -- ending --------------------------------------------------------------------------------------------------------


def test_training_ends_early_only_when_a_quorum_of_the_elected_attested_every_result() -> None:
    camp = training("a", "b", "c", "d", **SLOW)
    camp.commit("a", "b", "c")
    camp.hold("a", "b", "c", "d")
    assert camp.phase == "RoundTrain"
    refusal = camp.propose(TrainEnded(0, 0, attested(camp, *"abcd")))
    assert (refusal.code, refusal.why) == ("round_early", "1 of the 4 assignments of round 0 of epoch 0 have no result")
    camp.commit("d")
    camp.hold("a", "b")
    assert camp.phase == "RoundTrain"
    refusal = camp.propose(TrainEnded(0, 0, attested(camp, *"ab")))
    assert (refusal.code, "fewer than 3 witnesses of 4" in refusal.why) == ("no_quorum", True)
    camp.hold("c")
    assert camp.phase == "RoundWitness"


def test_every_single_result_needs_its_quorum() -> None:
    camp = training("a", "b", "c", **SLOW)
    camp.commit()
    camp.hold("a", positions=[0, 1])
    camp.hold("b", positions=[1, 2])
    assert camp.phase == "RoundTrain"  # result 1 has two, the others one
    camp.hold("c", positions=[0])
    assert camp.phase == "RoundTrain"  # result 2 has one
    camp.hold("c", positions=[0, 2])
    assert camp.phase == "RoundWitness"


def test_the_newest_word_of_a_witness_counts() -> None:
    camp = training("a", "b", "c", **SLOW)
    camp.commit()
    camp.hold("a")
    camp.hold("a", positions=[])
    camp.hold("b")
    assert camp.phase == "RoundTrain"
    camp.hold("a")
    assert camp.phase == "RoundWitness"


def test_a_lost_witness_stays_elected_so_that_the_quorum_does_not_shrink() -> None:
    camp = training("a", "b", "c", "d", **SLOW)
    camp.commit()
    camp.hold("a")
    camp.pass_s(LOST_S, "b", "c")
    camp.hold("a", "d")
    assert (camp.phase, len(camp.course.in_step)) == ("RoundTrain", 2)
    refusal = camp.propose(TrainEnded(0, 0, attested(camp, "a", "d")))
    assert (refusal.code, "fewer than 3 witnesses of 4" in refusal.why) == ("no_quorum", True)


def test_who_is_gone_takes_its_attestation_along() -> None:
    camp = training("a", "b", "c", "d", **SLOW)
    camp.commit()
    camp.hold("a", "b")
    camp.pass_s(LOST_S, "b")
    camp.hold("c")
    assert camp.phase == "RoundTrain"
    camp.hold("d")
    assert camp.phase == "RoundWitness"


def test_the_evidence_is_read_anew_by_the_fold() -> None:
    camp = training("a", "b", "c", "d", "e", witness_nodes=3, min_clients=3, global_batch_size_start=10, **SLOW)
    camp.commit()
    one, two, three = camp.round.witnesses
    other = next(name for name in "abcde" if name not in camp.round.witnesses)
    good = attested(camp, one, two)
    cases: list[tuple[tuple[Attested, ...], str]] = [
        (attested(camp, one, other), "no_quorum"),
        ((good[0], good[0]), "contradiction"),
        ((good[0], Attested(two, 2, 5, good[1].held)), "no_quorum"),
        ((good[0], Attested("nobody", 1, 5, good[1].held)), "no_quorum"),
        ((good[0], Attested(two, 1, 6, good[1].held)), "contradiction"),
        ((good[0], Attested(two, 1, 5, b"\xff\xff")), "malformed"),
        ((good[0], Attested(two, 1, 5, b"\xff")), "malformed"),
        ((good[0], Attested(three, 1, 4, b"\x0f")), "no_quorum"),
    ]
    for said, refused in cases:
        assert camp.propose(TrainEnded(0, 0, said)).code == refused, said
    assert camp.propose(TrainEnded(0, 1, good)).code == "round_early"
    camp.leave(two)
    assert camp.propose(TrainEnded(0, 0, good)).code == "no_quorum"


def test_only_elected_witnesses_attest_and_the_others_say_what_they_hold() -> None:
    camp = training("a", "b", "c", witness_nodes=1, **SLOW)
    camp.commit()
    (witness,) = camp.round.witnesses
    other = next(name for name in "abc" if name != witness)
    assert code(camp.tell(Attest(other, 1, **camp.held(other)))) == "not_yours"
    assert camp.tell(Holds(other, 1, **camp.held(other))) is not None
    assert camp.phase == "RoundTrain"
    camp.hold(witness)
    assert camp.phase == "RoundWitness"


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({"epoch": 1}, "wrong_step"), ({"round": 1}, "wrong_step"), ({"known": 4}, "contradiction"),
        ({"held": b""}, "malformed"), ({"held": b"\xff"}, "malformed"), ({"held": b"\0\0"}, "malformed"),
    ],
)  # fmt: skip
def test_an_attestation_that_cannot_be_is_refused_by_name(changes: dict[str, Any], refused: str) -> None:
    camp = training("a", "b", "c", **SLOW)
    camp.commit()
    assert code(camp.tell(Attest("a", 1, **(camp.held("a") | changes)))) == refused
    camp.hold("b")
    assert camp.phase == "RoundTrain"


def test_filters_attest_too_and_a_saturated_one_does_not() -> None:
    camp = training("a", "b", "c", attestation="bloom", **SLOW)
    camp.commit()
    said = camp.held("a")
    saturated = Attest("a", 1, **(said | {"held": b"\xff" * len(said["held"])}))
    assert code(camp.tell(saturated)) == "saturated"
    copied = camp.held("b") | {"held": said["held"]}
    camp.tell(Attest("b", 1, **copied))
    assert camp.phase == "RoundTrain"  # another's filter, salted for another
    camp.hold("a", "b")
    assert camp.phase == "RoundWitness"
    evidence = camp.all_events(TrainEnded)[0].attested
    assert {one.member for one in evidence} == {"a", "b"}
    assert len(evidence[0].held) > 1


def test_late_means_that_the_time_is_over_by_the_runs_own_clock() -> None:
    camp = training("a", "b", **SLOW)
    camp.hash()
    camp.commit("a")
    camp.pass_s(99.0)
    assert camp.propose(TrainEnded(0, 0, (), True)).code == "round_early"
    assert camp.phase == "RoundTrain"
    camp.pass_s(1.0)
    assert (camp.phase, camp.round.late) == ("RoundWitness", True)
    assert ("results", 1) in [(t, len(v.results)) for t, v in camp.told["b"] if t == "results"]


def test_when_nobody_is_left_in_step_nobody_is_waited_for() -> None:
    camp = training("a", "b", **SLOW)
    camp.commit("a")
    camp.leave("a")
    assert camp.phase == "RoundTrain"
    camp.join("b")
    assert camp.all_events(TrainEnded)[0].late
    assert (camp.phase, camp.course.epoch) == ("Warmup", 1)
    assert camp.account() == (0, 0, 8, 0)


# -- work that moves -----------------------------------------------------------------------------------------------


def test_a_lost_members_work_goes_to_another_in_the_same_round_with_the_next_attempt() -> None:
    camp = training("a", "b", "c", **SLOW)
    (work,) = camp.works("c")
    batches = work.batches
    camp.commit("b")
    camp.pass_s(LOST_S, "c")
    assert (work.member, work.attempt, work.batches) == ("b", 2, batches)  # b has nothing else to do
    assert camp.round.moved == [(work.index, 2, "b")]
    assert camp.course.account.moved == count(batches)
    assert [v.moved for t, v in camp.told["a"] if t == ROUND][-1] == ((work.index, 2, "b"),)
    assert code(camp.try_commit("b", work, attempt=1)) == "late_result"
    camp.commit("b", "a")
    camp.hold()
    camp.hash()
    assert (camp.course.step, camp.account()) == (1, (8, 8, 0, 0))


@pytest.mark.parametrize("how", ["leave", "lose", "rejoin"])
def test_whatever_takes_a_member_away_its_work_moves(how: str) -> None:
    camp = training("a", "b", "c", **SLOW)
    (work,) = camp.works("c")
    if how == "leave":
        camp.leave("c")
    elif how == "lose":
        camp.pass_s(LOST_S, "c")
    else:
        camp.join("c")
    assert work.member in ("a", "b")
    assert work.attempt == 2
    assert camp.states()["c"] == {"leave": "Left", "lose": "Lost", "rejoin": "Resyncing"}[how]


def test_without_time_enough_the_work_waits_for_the_next_round_and_goes_first_there() -> None:
    camp = training("a", "b", "c", round_train_max_s=50.0, round_witness_s=10.0, adaptive_deadline=False)
    (work,) = camp.works("c")
    lost = work.batches
    camp.pass_s(25.0)
    camp.commit("a", "b")
    camp.hash()
    camp.wait_us(1)
    camp.leave("c")
    assert (work.member, work.attempt) == ("c", 1)
    camp.pass_s(25.0)
    camp.hold()
    assert camp.course.number == 1
    assert [(span.first, span.end) for span in camp.round.spans][: len(lost)] == list(lost)
    assert camp.round.spans[0].tries == 1
    assert camp.account() == (8 - count(lost), 8, 0, 0)


def test_time_enough_is_what_rounds_take() -> None:
    camp = training("a", "b", "c", "d", **SLOW)
    for _ in range(3):
        camp.pass_s(10.0)
        camp.turn()
    (work,) = camp.works("d")
    camp.pass_s(89.0)
    camp.leave("d")
    assert work.attempt == 2  # eleven seconds are left, and ten are enough
    (mine,) = [w for w in camp.round.works if w.member == "c" and w.attempt == 1]
    camp.pass_s(2.0)
    camp.leave("c")
    assert mine.attempt == 1


def test_moved_work_goes_to_the_fast_more_often() -> None:
    got = {"a": 0, "b": 0}
    for turn in range(150):
        camp = training("a", "b", "c", seed=turn, **SLOW)
        camp.who("a").pace, camp.who("b").pace = 900, 100
        camp.round.speeds = (900, 100, 1000)
        camp.commit("a", "b")
        (work,) = camp.works("c")
        camp.leave("c")
        got[work.member] += 1
    assert got["a"] > 3 * got["b"] > 0


def test_a_batch_that_brings_everybody_down_does_not_go_round_for_ever() -> None:
    camp = training(*"abcdef", attempts_max=3, global_batch_size_start=6, **SLOW)
    work = camp.round.works[0]
    for _ in range(2):
        camp.leave(work.member)
    assert work.attempt == 3
    owner = work.member
    camp.leave(owner)
    assert (work.member, work.attempt) == (owner, 3)  # that was the last try


# -- how long, and how much ----------------------------------------------------------------------------------------


def took(camp: Camp, *seconds: float) -> None:
    """Rounds whose training takes so long."""
    for span in seconds:
        camp.pass_s(span)
        camp.turn()


def test_the_deadline_follows_what_rounds_take_between_floor_and_maximum() -> None:
    camp = training("a", "b", round_train_max_s=100.0, deadline_floor_s=5.0, rounds_per_epoch=100)
    assert camp.round.allowed_us == us(100)
    took(camp, 10.0)
    assert camp.round.allowed_us == us(30)
    took(camp, 1.0, 1.0)
    assert camp.round.allowed_us == us(5)  # three times the median of 10, 1, 1 is 3: the floor
    took(camp, *[4.0] * 4)
    assert camp.round.allowed_us == us(12)
    for _ in range(8):
        camp.course.times_us = [us(50)] * 8
    assert allowed_us(camp.course) == us(100)


def test_after_a_round_that_was_too_long_the_deadline_doubles() -> None:
    camp = training("a", "b", "c", round_train_max_s=100.0, deadline_floor_s=2.0, strikes_max=100, round_witness_s=1.0)
    took(camp, *[1.0] * 8)
    assert camp.round.allowed_us == us(3)
    allowed = []
    for _ in range(6):
        camp.hash()
        camp.commit("a", "b")
        camp.pass_s(camp.round.allowed_us / 1e6, pace_s=0.5)
        assert camp.round.late
        camp.hold()
        allowed.append(camp.round.allowed_us / 1e6)
    assert allowed == [6, 12, 24, 48, 96, 100]
    camp.course.times_us = [us(1)] * 8
    camp.turn()
    assert camp.round.allowed_us == us(3)


def test_a_deadline_that_does_not_adapt_is_the_maximum() -> None:
    camp = training("a", "b", round_train_max_s=100.0, adaptive_deadline=False)
    took(camp, 1.0, 1.0)
    assert camp.round.allowed_us == us(100)


def slow_and_fast(**config: Any) -> Camp:
    camp = training("a", "b", "c", global_batch_size_start=30, rounds_per_epoch=100, **config)
    for _ in range(6):
        camp.hash()
        camp.pass_s(1.0)
        camp.commit("a", "b")
        camp.pass_s(3.0)
        camp.commit("c")
        camp.hold()
    return camp


def test_the_slow_get_fewer_batches() -> None:
    camp = slow_and_fast(round_train_max_s=100.0)
    sizes = {work.member: count(work.batches) for work in camp.round.works}
    assert sizes["c"] < sizes["a"] / 2
    assert sum(sizes.values()) == 30
    assert camp.round.speeds[2] < 500 <= max(camp.round.speeds) == 1000


def test_unless_they_are_not_to_be_weighed() -> None:
    camp = slow_and_fast(round_train_max_s=100.0, speed_weighted=False)
    assert {count(work.batches) for work in camp.round.works} == {10}


def test_who_was_never_timed_gets_the_median() -> None:
    camp = camping("a", "b", "c", "d", global_batch_size_start=30)
    for name, pace in (("a", 100), ("b", 0), ("c", 400), ("d", 300)):
        camp.who(name).pace = pace
    camp.load()
    assert camp.round.speeds == (250, 750, 1000, 750)


def test_a_pace_is_a_moving_average_of_batches_per_time() -> None:
    camp = training("a", "b", **SLOW)
    camp.pass_s(4.0)
    camp.commit("a")
    assert camp.who("a").pace == 1000  # four batches in four seconds: a thousand in a thousand seconds
    camp.pass_s(4.0)
    camp.commit("b")
    assert camp.who("b").pace == 500
    camp.hold()
    camp.hash()
    size = count(camp.works("b")[0].batches)
    camp.pass_s(2.0)
    camp.commit("b")
    assert camp.who("b").pace == (3 * 500 + size * 500) // 4


def test_one_quick_round_makes_nobody_much_faster() -> None:
    """Or one that commits to nothing at once would be given everything."""
    camp = training("a", "b", **SLOW)
    camp.pass_s(4.0)
    camp.commit("a")
    camp.commit("b")
    camp.hold()
    camp.hash()
    camp.commit("a")
    assert camp.who("a").pace == (3 * 1000 + 4 * 1000) // 4


def test_work_that_was_moved_is_not_timed() -> None:
    camp = training("a", "b", "c", **SLOW)
    camp.pass_s(4.0)
    camp.commit("a")
    before = camp.who("a").pace
    camp.leave("c")
    assert len(camp.works("a")) == 2
    camp.commit("a")
    assert camp.who("a").pace == before


def test_a_model_of_another_step_is_no_base() -> None:
    """The base is checked when the round is sealed: whoever trained on another model has to catch up."""
    camp = training("a", "b", "c", **SLOW)
    camp.commit("a", "b")
    camp.commit("c", base=model(7))
    camp.hold()
    camp.hash()
    assert camp.course.step == 1
    assert {result.member for result in camp.course.past[-1].results} == {"a", "b", "c"}
    sealed = {camp.course.past[-1].results[i].member for i in camp.course.past[-1].positions}
    assert sealed == {"a", "b"}

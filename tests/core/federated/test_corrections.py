"""What the classic protocol got wrong, each as a test."""

from __future__ import annotations

import pytest
from tests.core.federated.study import Study, code, studying, weights

from quoracy.core.errors import Refusal
from quoracy.core.federated.events import ParticipantJoined, ParticipantLost, RoundClosed, RunPaused, RunResumed
from quoracy.core.journal import DutyDone
from quoracy.core.members import Accepted, Cause
from quoracy.core.shell import DutyFinished


def test_1_a_participant_is_given_up_when_its_time_is_exceeded_and_not_a_moment_earlier() -> None:
    study = studying("a", "b", count_min=1)
    for _ in range(14):
        study.beat("b")
        study.hand.tick(1_000_000)
    study.beat("b")
    study.hand.tick(1_000_000)
    assert study.who("a").state.value == "Training"
    study.hand.tick(1)
    study.hand.land_all()
    assert study.who("a").state.value == "Lost"
    (lost,) = study.all_events(ParticipantLost)
    assert lost.silent_us == 15_000_001


def test_1_an_update_is_a_sign_of_life_like_any_other() -> None:
    study = studying("a", "b", time_min_s=100.0, time_max_s=200.0)
    study.pass_s(10.0, "a")
    study.offer("a")
    study.pass_s(15.0, "a")
    assert study.who("a").state.value == "Training"
    study.pass_s(1.0, "a")
    assert study.who("a").state.value == "Lost"


def test_1_a_new_life_is_not_given_up_for_the_silence_of_the_old_one() -> None:
    """It joins after the old one's time was over, and before anybody looked."""
    study = studying("a", "b", count_min=1)
    study.pass_s(14.0, "a")
    study.hand.now_us += 1_500_000
    study.join("a")
    assert study.all_events(ParticipantLost) == []
    study.pass_s(14.0, "a")
    assert (study.who("a").state.value, study.who("a").incarnation) == ("Training", 2)
    study.pass_s(2.0, "a")
    assert study.who("a").state.value == "Lost"


def test_3_an_update_of_an_older_round_is_refused_as_late_and_says_so() -> None:
    study = studying("a", "b")
    ticket = study.round.assignments["a"].ticket
    study.run_round("a", "b")
    assert study.task.number == 1
    late = study.offer("a", ticket=ticket, number=0, digest=weights("other"))
    assert isinstance(late, Refusal)
    assert late.code == "late_update"
    assert f"round 0 with ticket {ticket}" in late.why
    assert study.fates() == {"a": "Training", "b": "Training"}


def test_3_an_update_with_another_ticket_is_refused() -> None:
    study = studying("a", "b")
    other = study.round.assignments["b"].ticket
    assert code(study.offer("a", ticket=other)) == "late_update"
    assert code(study.offer("a", ticket=0)) == "late_update"
    assert study.fates() == {"a": "Training", "b": "Training"}


def test_3_a_repeated_update_counts_once_whoever_repeats_it() -> None:
    study = studying("a", "b")
    study.offer("a")
    assert isinstance(study.offer("a"), Accepted)
    study.join("a")
    assert isinstance(study.offer("a"), Accepted)
    assert len(study.duties) == 1
    study.judge("a")
    assert isinstance(study.offer("a"), Accepted)
    assert study.who("a").updates == 1
    study.update("b")
    assert [member for member, _, _ in study.task.history[0].admitted] == ["a", "b"]


def test_3_a_repeat_is_recognised_also_when_the_next_round_is_under_way() -> None:
    study = studying("a", "b")
    ticket = study.round.assignments["a"].ticket
    study.run_round("a", "b")
    study.join("a")
    study.told.clear()
    again = study.offer("a", ticket=ticket, number=0, digest=weights("a0"))
    assert isinstance(again, Accepted)
    assert study.told["a"][-1].verdict.admitted
    assert study.fates() == {"a": "Training", "b": "Training"}
    assert study.duties == []


def test_3_other_weights_for_a_ticket_that_is_being_looked_at_are_refused() -> None:
    study = studying("a", "b")
    study.offer("a", weights("one"))
    assert code(study.offer("a", weights("two"))) == "contradiction"
    study.judge("a")
    assert code(study.offer("a", weights("two"))) == "late_update"
    study.update("b")
    assert study.task.history[0].admitted[0] == ("a", weights("one"), 10)


def test_4_with_a_smaller_count_min_the_round_closes_without_the_dead_one() -> None:
    study = studying("a", "b", "c", count_min=2)
    study.update("a", "b")
    assert study.phase == "Round"
    study.lose("c")
    assert study.phase == "Closing"
    assert [who for who, _, _ in study.task.history[0].admitted] == ["a", "b"]
    ((who, why),) = study.task.history[0].dropped
    assert who == "c"
    assert "late" in why


def test_4_without_one_the_run_waits_so_long_and_then_pauses_and_names_the_dead_one() -> None:
    study = studying("a", "b", "c", standby_max_s=60.0)
    study.update("a", "b")
    study.lose("c")
    assert study.phase == "Standby"
    study.pass_s(59.0)
    assert study.phase == "Standby"
    study.pass_s(1.0)
    assert study.phase == "Paused"
    assert study.task.reason == "2 of clients = 3 are registered; gone: c"


def test_4_one_that_is_alive_and_never_done_is_replaced() -> None:
    study = studying("a", "b", "c", "d", clients=4, per_round=3, time_max_s=100.0, seed=1)
    slow, *others = study.training()
    study.update(*others)
    (spare,) = {"a", "b", "c", "d"} - {slow, *others}
    study.pass_s(100.0)
    assert study.phase == "Round"
    assert study.training() == [spare]
    assert study.who(slow).state.value == "Waiting"
    assert study.verdict(slow) == (False, "not done within 100.0 s")
    study.update(spare)
    assert study.phase == "Closing"


def test_4_one_that_dies_and_comes_back_again_and_again_does_not_hold_the_round_open() -> None:
    """Every time it is taken up the round is as old as it was."""
    study = studying("a", "b", time_max_s=100.0, standby_max_s=30.0)
    study.update("a")
    for _ in range(7):
        study.lose("b")
        if study.phase != "Standby" or study.fates()["b"] == "Dropped":
            break
        study.join("b")
    assert study.fates()["b"] == "Dropped"
    study.join("b")
    study.pass_s(30.0)
    assert study.phase == "Paused"
    assert "took too long: b" in study.task.reason


def test_5_a_restarted_participant_takes_its_old_place() -> None:
    study = studying("a", "b")
    ticket = study.round.assignments["a"].ticket
    study.join("a")
    assert study.who("a").incarnation == 2
    assert (study.standing("a").ticket, study.standing("a").phase) == (ticket, "ROUND")
    study.update("a", "b")
    assert len(study.task.history[0].admitted) == 2


def test_5_one_that_was_given_up_takes_its_old_place_and_the_round_goes_on() -> None:
    study = studying("a", "b")
    ticket = study.round.assignments["a"].ticket
    study.update("b")
    study.lose("a")
    assert study.phase == "Standby"
    study.join("a")
    assert study.phase == "Round"
    assert study.round.attempt == 2
    assert study.standing("a").ticket == ticket
    study.update("a")
    assert study.phase == "Closing"


@pytest.mark.parametrize("how", ["restart", "lost", "left"])
def test_5_one_whose_update_is_being_looked_at_has_nothing_to_train_again(how: str) -> None:
    study = studying("a", "b", time_min_s=100.0)
    study.offer("a")
    if how == "lost":
        study.lose("a")
    elif how == "left":
        study.leave("a")
    study.join("a")
    assert study.standing("a").offered
    study.judge("a")
    assert study.who("a").state.value == "Waiting"
    assert study.standing("a").phase == "STANDBY"
    study.update("b")
    study.pass_s(100.0)
    assert [who for who, _, _ in study.task.history[0].admitted] == ["a", "b"]


def test_5_the_older_process_changes_nothing_any_more() -> None:
    study = studying("a", "b")
    study.join("a")
    assert code(study.beat("a", incarnation=1)) == "superseded"
    assert code(study.offer("a", incarnation=1)) == "superseded"
    assert study.fates()["a"] == "Training"


@pytest.mark.parametrize("when", ["before the verdict", "after the verdict"])
def test_6_the_last_finisher_dropping_out_does_not_hang_the_round(when: str) -> None:
    study = studying("a", "b")
    study.update("a")
    study.offer("b")
    if when == "before the verdict":
        study.lose("b")
        assert study.phase == "Round"
        study.judge("b")
    else:
        study.judge("b")
        study.lose("b")
    assert study.phase == "Closing"
    study.aggregate()
    assert study.task.number == 1


def test_6_a_round_that_was_complete_when_it_was_paused_goes_on_whoever_has_gone() -> None:
    study = studying("a", "b", rounds=1)
    study.update("a")
    study.offer("b")
    study.order(RunPaused())
    study.judge("b")
    study.lose("a", "b")
    study.order(RunResumed())
    assert study.phase == "Closing"
    study.aggregate()
    assert study.phase == "Finished"


def test_6_two_last_finishers_do_not_aggregate_twice() -> None:
    """Their verdicts come within one entry."""
    study = studying("a", "b", "c", count_min=2, count_max=2)
    study.update("a")
    study.offer("b")
    study.offer("c")
    first, second = study.duty("admit", "b"), study.duty("admit", "c")
    study.hand.call("d", Cause("d", 0, 0), ParticipantJoined("d", 0, bytes(16)))
    for duty in (first, second):
        study.hand.report(DutyFinished(duty.entry, duty.index, {"ok": True}))
    study._at_rest([])
    assert sum(isinstance(event, DutyDone) for event in study.events()) == 2
    assert len(study.all_events(RoundClosed)) == 1
    assert [duty.what for duty in study.duties].count("aggregate") == 1
    study.aggregate()
    assert study.task.number == 1


def test_6_a_verdict_after_the_close_changes_nothing() -> None:
    study = studying("a", "b", "c", count_min=2, count_max=2)
    study.offer("c")
    study.update("a", "b")
    assert study.phase == "Closing"
    study.judge("c")
    assert [who for who, _, _ in study.task.history[0].admitted] == ["a", "b"]
    assert study.who("c").updates == 0
    assert study.verdict("c")[1].startswith("late: round 0 closed with 2 updates")


def test_6_a_duty_that_is_reported_twice_is_done_once() -> None:
    study = studying("a", "b")
    study.offer("a")
    duty = study.duty("admit", "a")
    study.end(duty, {"ok": True})
    before = study.n
    study.end(duty, {"ok": False, "why": "second thoughts"})
    assert study.n == before
    assert study.fates()["a"] == "Admitted"


def test_the_time_out_is_the_one_that_participants_are_told() -> None:
    study = Study(heartbeat_interval_s=2.0, heartbeat_timeout_s=6.0)
    answer = study.try_join("a")
    assert isinstance(answer, Accepted)
    assert answer.result == {"incarnation": 1, "seat": 1, "heartbeat_interval_s": 2.0, "heartbeat_timeout_s": 6.0}

"""When a round closes, when it is suspended, and what survives that."""

from __future__ import annotations

import pytest
from tests.core.federated.study import Study, code, studying

from quoracy.core.federated.drawing import eligible
from quoracy.core.federated.events import (
    ParticipantReadmitted,
    RoundBegan,
    RoundClosed,
    RoundSuspended,
    RunPaused,
    RunResumed,
    StandbyExpired,
)
from quoracy.core.federated.state import least, most
from quoracy.core.members import Cause


def test_by_default_a_round_waits_for_all_it_has_drawn_and_closes_with_the_last() -> None:
    study = studying("a", "b", "c")
    study.update("a", "b")
    study.pass_s(1000.0, pace_s=5.0)
    assert study.phase == "Round"
    study.update("c")
    assert study.phase == "Closing"
    assert study.task.history[0].because == "3 updates, as many as it is meant to have"


def test_no_round_begins_before_so_many_are_registered() -> None:
    study = studying("a", "b", clients=3)
    assert study.phase == "Standby"
    assert study.standing("a").phase == "STANDBY"
    study.join("c")
    assert study.phase == "Round"
    assert study.events()[-1] == RoundBegan(0)


def test_all_who_are_registered_take_part_also_more_than_are_needed() -> None:
    study = studying("a", "b", "c", clients=2)
    assert study.training() == ["a", "b"]
    study.run_round("a", "b")
    assert study.training() == ["a", "b", "c"]


def test_with_count_min_it_closes_at_time_max_with_those_it_has() -> None:
    study = studying("a", "b", "c", count_min=2, time_max_s=50.0)
    study.update("a", "b")
    study.pass_s(49.0)
    assert study.phase == "Round"
    study.pass_s(1.0)
    assert study.phase == "Closing"
    assert study.task.history[0].because == "2 updates when time_max_s = 50 was over"
    assert study.verdict("c")[1].startswith("late: round 0 closed with 2 updates when time_max_s")
    assert study.who("c").state.value == "Waiting"


def test_at_time_max_an_update_that_is_being_looked_at_is_waited_for() -> None:
    study = studying("a", "b", "c", count_min=2, time_max_s=50.0)
    study.update("a")
    study.offer("b")
    study.pass_s(60.0)
    assert study.phase == "Round"
    study.judge("b")
    assert study.phase == "Closing"


def test_at_time_max_an_update_that_turns_out_bad_leaves_too_few_and_others_are_wanted() -> None:
    study = studying("a", "b", "c", count_min=2, time_max_s=50.0)
    study.update("a")
    study.offer("b")
    study.pass_s(60.0)
    study.judge("b", ok=False)
    assert study.phase == "Standby"
    assert study.fates() == {"a": "Admitted", "b": "Refused", "c": "Dropped"}


def test_with_count_max_it_closes_at_once_and_the_rest_is_late() -> None:
    study = studying("a", "b", "c", count_max=2)
    study.offer("a")
    study.update("b")
    assert study.phase == "Round"
    study.update("c")
    assert study.phase == "Closing"
    assert [who for who, _, _ in study.task.history[0].admitted] == ["b", "c"]
    assert [who for who, _ in study.task.history[0].dropped] == ["a"]


def test_count_max_alone_is_also_what_is_enough() -> None:
    """Those beyond it may go: nobody waits for them."""
    study = studying("a", "b", "c", count_max=2)
    study.lose("c")
    assert study.phase == "Round"
    assert (least(study.task, study.round), most(study.task, study.round)) == (2, 2)
    study.update("a", "b")
    assert study.phase == "Closing"


def test_a_count_max_that_nobody_can_reach_does_not_hold_the_round_open() -> None:
    study = studying("a", "b", count_max=10)
    study.update("a", "b")
    assert study.phase == "Closing"
    assert study.task.history[0].because == "2 updates, and nobody who is here trains any more"


def test_between_count_min_and_count_max_it_waits_for_more() -> None:
    study = studying("a", "b", "c", count_min=1, count_max=2)
    study.update("a")
    assert study.phase == "Round"
    study.update("b")
    assert study.phase == "Closing"


def test_no_round_closes_before_time_min_even_if_all_are_done() -> None:
    study = studying("a", "b", time_min_s=30.0)
    study.update("a", "b")
    study.pass_s(29.0)
    assert study.phase == "Round"
    study.pass_s(1.0)
    assert study.phase == "Closing"


def test_with_time_min_more_than_count_max_may_come() -> None:
    study = studying("a", "b", "c", count_min=1, count_max=1, time_min_s=30.0)
    study.update("a", "b")
    study.pass_s(30.0)
    assert len(study.task.history[0].admitted) == 2


def test_nobody_trains_any_more_but_one_is_being_looked_at() -> None:
    study = studying("a", "b", "c", count_min=2)
    study.update("a", "b")
    study.offer("c")
    assert study.phase == "Round"
    study.judge("c")
    assert len(study.task.history[0].admitted) == 3


def test_an_operator_who_resumes_gives_the_round_all_its_time_again() -> None:
    study = studying("a", "b", time_max_s=50.0)
    study.pass_s(40.0)
    study.order(RunPaused())
    assert study.round.spent_us == 40_000_000
    study.order(RunResumed())
    study.pass_s(49.0)
    assert study.fates() == {"a": "Training", "b": "Training"}
    study.pass_s(1.0)
    assert study.fates() == {"a": "Dropped", "b": "Dropped"}


def test_time_spent_before_a_suspension_counts() -> None:
    study = studying("a", "b", count_min=2, time_max_s=50.0, standby_max_s=500.0)
    study.pass_s(30.0)
    study.leave("b")
    assert (study.phase, study.round.spent_us) == ("Standby", 30_000_000)
    study.pass_s(100.0)
    study.join("b")
    study.pass_s(19.0)
    assert study.fates() == {"a": "Training", "b": "Training"}
    study.pass_s(1.0)
    assert study.fates() == {"a": "Dropped", "b": "Dropped"}
    assert study.round.spent_us == 0


def test_time_in_which_the_coordinator_stood_still_does_not_count() -> None:
    study = studying("a", "b", count_min=2, time_max_s=50.0)
    study.pass_s(40.0)
    study.hand.tick(30_000_000)
    study.hand.land_all()
    study.pass_s(9.0)
    assert study.phase == "Round"
    study.pass_s(2.0)
    assert study.fates() == {"a": "Dropped", "b": "Dropped"}


# -- standby -------------------------------------------------------------------------------------------------------


def test_a_dropout_leads_to_standby_and_what_was_admitted_survives() -> None:
    study = studying("a", "b", "c")
    study.update("a")
    study.lose("b")
    (suspended,) = study.all_events(RoundSuspended)
    assert suspended.reason == "2 of at least 3 updates can still come; gone: b"
    assert (study.phase, study.fates()["a"]) == ("Standby", "Admitted")
    assert study.standing("c").phase == "ROUND"
    study.update("c")
    assert (study.phase, study.fates()["c"]) == ("Standby", "Admitted")
    study.join("b")
    assert (study.phase, study.training()) == ("Round", ["b"])
    study.update("b")
    assert len(study.task.history[0].admitted) == 3
    assert study.task.history[0].attempts == 2


def test_a_verdict_in_standby_counts() -> None:
    study = studying("a", "b", "c")
    study.offer("a")
    study.lose("b")
    assert study.phase == "Standby"
    study.judge("a")
    assert study.fates()["a"] == "Admitted"


def test_somebody_else_may_step_in_and_the_lost_one_may_still_come_back() -> None:
    study = studying("a", "b", "c")
    study.lose("b")
    study.join("d")
    assert study.training() == ["a", "b", "c", "d"]
    study.join("b")
    study.update("a", "b", "c")
    assert study.phase == "Closing"
    assert [who for who, _ in study.task.history[0].dropped] == ["d"]


def test_one_that_left_in_the_middle_is_waited_for_like_one_that_was_lost() -> None:
    study = studying("a", "b")
    study.leave("b")
    assert study.phase == "Standby"
    study.join("b")
    assert study.training() == ["a", "b"]


def test_everybody_lost_and_everybody_back() -> None:
    study = studying("a", "b", "c")
    study.update("a")
    study.lose("a", "b", "c")
    assert (study.phase, study.task.here) == ("Standby", {})
    study.join("c", "b")
    assert study.phase == "Standby"
    study.join("a")
    assert (study.phase, study.training()) == ("Round", ["b", "c"])


def test_standby_lasts_at_most_so_long_also_before_the_first_round() -> None:
    study = studying("a", clients=2, standby_max_s=20.0)
    study.pass_s(19.0)
    assert study.phase == "Standby"
    study.pass_s(1.0)
    (expired,) = study.all_events(StandbyExpired)
    assert (study.phase, expired.reason) == ("Paused", "1 of clients = 2 are registered")


def test_the_clock_of_standby_begins_anew_when_an_operator_resumes() -> None:
    """Also if pause and resumption are in one entry: the machine would call an expiry early and the host fail."""
    study = studying("a", clients=2, standby_max_s=20.0)
    study.pass_s(15.0)
    study.hand.order(ParticipantReadmitted("a"))
    study.hand.order(RunPaused())
    study.hand.order(RunResumed())
    study._at_rest([])
    assert study.events() == [RunPaused(), RunResumed()]
    study.pass_s(19.0)
    assert study.phase == "Standby"
    study.pass_s(1.0)
    assert study.phase == "Paused"


def test_who_took_too_long_is_named_and_gets_another_place_when_an_operator_resumes() -> None:
    study = studying("a", "b", time_max_s=50.0, standby_max_s=20.0)
    study.update("a")
    first = study.round.assignments["b"].ticket
    study.pass_s(70.0)
    assert study.phase == "Paused"
    assert study.task.reason == "round 0 needs 1 more, and 0 of those registered can step in; took too long: b"
    study.order(RunResumed())
    assert study.training() == ["b"]
    assert study.round.assignments["b"].ticket > first
    study.update("b")
    assert [who for who, _, _ in study.task.history[0].admitted] == ["a", "b"]
    assert study.task.history[0].dropped == [("b", "not done within 50.0 s")]


def test_an_old_ticket_is_worth_nothing_when_there_is_a_new_one() -> None:
    study = studying("a", "b", time_max_s=50.0, standby_max_s=20.0)
    old = study.round.assignments["b"].ticket
    study.pass_s(70.0)
    study.order(RunResumed())
    assert code(study.offer("b", ticket=old)) == "late_update"


def test_nobody_waits_is_no_reason_to_draw_those_who_had_their_place() -> None:
    study = studying("a", "b", time_max_s=50.0)
    study.pass_s(50.0)
    assert study.phase == "Standby"
    assert len(eligible(study.task)) == 0


# -- nothing comes early, whoever says so --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (RoundClosed(0, "now"), "round 0 has 0 of at least 2 updates"),
        (RoundClosed(1, "now"), "round 1 is not open"),
        (RoundSuspended(0, "now"), "round 0 can still have 2 updates and needs 2"),
        (RoundSuspended(0, "now", True), "round 0 is open for"),
        (RoundSuspended(1, "now"), "round 1 is not open"),
        (RoundBegan(0), "a round is under way"),
        (StandbyExpired("now"), "a round is under way"),
    ],
)
def test_a_host_cannot_hurry_a_round(event: RoundClosed, said: str) -> None:
    study = studying("a", "b")
    before = study.state()
    assert said in study.propose(event).why
    assert study.state() == before


def test_a_host_cannot_replace_those_who_take_long_when_there_are_enough() -> None:
    study = studying("a", "b", "c", count_min=2, time_max_s=5.0)
    study.offer("a")
    study.offer("b")
    study.pass_s(7.0)
    assert "has enough updates" in study.propose(RoundSuspended(0, "now", True)).why


def test_only_the_next_round_begins() -> None:
    study = studying("a", clients=2)
    for event, said in (
        (RoundBegan(1), "the next round is 0"),
        (RoundBegan(0), "1 of clients = 2"),
        (StandbyExpired("now"), "in standby for"),
    ):
        assert said in study.propose(event).why


def test_members_cannot_do_what_the_host_does() -> None:
    study = studying("a", "b")
    answer = study._call("a", Cause("a", 1, 1), RoundClosed(0, "enough"))
    assert code(answer) == "not_yours"


@pytest.mark.parametrize("standby_max_s", [2.0, 8.0, 600.0])
def test_a_host_that_looks_only_when_it_is_due_sees_a_window_end_with_nobody_here(standby_max_s: float) -> None:
    """Waiting for the end of a window is no stall, however long: downtime counts zero, waiting does not."""
    study = studying("a", clients=2, standby_max_s=standby_max_s, heartbeat_interval_s=1.0, heartbeat_timeout_s=10.0)
    study.leave("a")
    began_us = study.hand.now_us
    while study.phase == "Standby" and study.hand.now_us - began_us < 2 * standby_max_s * 1_000_000:
        wake_us = study.collector.wake_us()
        assert wake_us is not None
        study.wait_us(wake_us - study.hand.now_us)
    assert study.phase == "Paused"
    assert study.hand.now_us - began_us == pytest.approx(standby_max_s * 1_000_000, abs=100_000)


@pytest.mark.parametrize("again", [False, True], ids=["created", "served again"])
def test_a_run_to_which_nobody_comes_pauses_too(again: bool) -> None:
    """No join, no heartbeat: nothing wakes the host but the end of the wait itself."""
    study = Study(clients=2, standby_max_s=600.0)
    if again:
        study = study.takeover()
    began_us = study.hand.now_us
    while study.phase == "Standby" and study.hand.now_us - began_us < 1_200_000_000:
        wake_us = study.hand.host.wake_us()
        assert wake_us is not None
        study.wait_us(max(0, wake_us - study.hand.now_us))
    assert (study.phase, study.task.reason) == ("Paused", "0 of clients = 2 are registered")
    assert study.hand.now_us - began_us == pytest.approx(600_000_000, abs=100_000)


def test_an_update_that_cannot_be_looked_at_does_not_hold_a_round_for_ever() -> None:
    """The store is away, or somebody has made its object unreadable."""
    study = studying("a", "b", "c", count_min=2, time_max_s=100.0)
    study.update("a", "b")
    study.offer("c")
    study.pass_s(195.0, pace_s=5.0)
    assert study.phase == "Round"
    study.pass_s(10.0, pace_s=5.0)
    assert study.phase == "Closing"
    assert [member for member, _, _ in study.task.history[0].admitted] == ["a", "b"]
    assert study.verdict("c")[0] is False
    study.judge("c")
    assert study.verdict("c")[0] is False


def test_too_few_that_could_be_looked_at_are_told_so_and_replaced() -> None:
    study = studying("a", "b", clients=2, time_max_s=100.0, standby_max_s=50.0)
    study.update("a")
    study.offer("b")
    study.join("c")
    study.pass_s(205.0, pace_s=5.0)
    assert study.fates() == {"a": "Admitted", "b": "Dropped", "c": "Training"}
    assert "could not be looked at within" in study.verdict("b")[1]
    study.update("c")
    assert study.phase == "Closing"


def test_a_host_cannot_hurry_what_is_being_looked_at() -> None:
    study = studying("a", "b", time_max_s=100.0)
    study.offer("a")
    study.offer("b")
    study.pass_s(150.0, pace_s=5.0)
    before = study.state()
    assert "is open for" in study.propose(RoundSuspended(0, "now", True, True)).why
    assert study.state() == before

"""The course of a run: initial weights, aggregation, evaluation, early stop, pauses, the end."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.federated.study import INITIAL, Study, code, studying, weights

from quoracy.core.federated.events import ParticipantReadmitted, RunPaused, RunResumed, RunStopped
from quoracy.core.members import Accepted

# -- initial weights -----------------------------------------------------------------------------------------------


def unborn(*givers: str, others: tuple[str, ...] = (), **config: Any) -> Study:
    study = Study(initial="", clients=len(givers) + len(others), **config)
    study.join(*others)
    study.join(*givers, initial=True)
    return study


def test_given_weights_need_no_round_of_their_own() -> None:
    study = studying("a")
    assert (study.task.number, study.standing("a").weights) == (0, INITIAL)


def test_the_first_participant_that_can_gives_the_initial_weights() -> None:
    study = unborn("c", "b", others=("a",))
    assert (study.phase, study.task.number, study.training()) == ("Round", -1, ["c"])
    standing = study.standing("c")
    assert (standing.phase, standing.round, standing.weights, standing.epoch_base) == ("ROUND", -1, "", 0)
    assert study.standing("b").phase == "STANDBY"
    study.offer("c", samples=0)
    assert study.duty("admit").order["reference"] == ""
    study.judge("c")
    assert (study.task.weights, study.task.number) == (weights("c-1"), 0)
    assert study.training() == ["a", "b", "c"]
    assert study.standing("a").weights == weights("c-1")
    assert study.task.history == []


def test_the_round_for_the_initial_weights_has_no_window_of_its_own() -> None:
    study = unborn("a", "b", time_min_s=100.0, count_min=2, over_select=1.0, per_round=2)
    assert study.training() == ["a"]
    study.update("a")
    assert study.task.number == 0


@pytest.mark.parametrize("how", ["lost", "left", "refused"])
def test_if_the_giver_fails_the_next_one_gives(how: str) -> None:
    study = unborn("a", "b", others=("c",))
    if how == "refused":
        study.refuse("a")
    else:
        study.lose("a") if how == "lost" else study.leave("a")
    assert study.phase == "Standby"
    study.join("d")
    assert (study.phase, study.training()[-1]) == ("Round", "b")
    study.update("b")
    assert study.task.weights == weights("b-1")


def test_a_giver_that_comes_back_takes_its_place_and_the_first_of_the_two_counts() -> None:
    study = unborn("a", "b", others=("c",))
    study.lose("a")
    study.join("d")
    study.join("a", initial=True)
    assert study.training() == ["a", "b"]
    study.update("a")
    assert study.task.weights == weights("a-1")
    assert study.verdict("b")[1].startswith("late: the round for the initial weights closed")


def test_if_none_can_give_the_run_says_so_and_pauses() -> None:
    study = unborn(others=("a", "b"), standby_max_s=10.0)
    assert study.phase == "Standby"
    assert "waits for a participant that can give them (2 are registered)" in study.explain().sentence
    study.pass_s(10.0)
    assert study.phase == "Paused"
    assert study.task.reason == "none of those registered can give the initial weights"
    study.join("c", initial=True)
    study.order(RunResumed())
    assert study.training() == ["c"]


def test_a_giver_that_may_try_again_does_so_when_nobody_else_can() -> None:
    study = unborn("a", others=("b",), refused_max=2)
    study.refuse("a")
    assert study.training() == ["a"]
    study.refuse("a")
    assert study.who("a").state.value == "Quarantined"
    study.order(ParticipantReadmitted("a"))
    study.join("a", initial=True)
    study.update("a")
    assert study.task.number == 0


# -- one model -----------------------------------------------------------------------------------------------------


def test_what_is_aggregated_is_in_order_of_participants_with_their_samples() -> None:
    study = studying("a", "b", aggregation={"rule": "fedavgm", "momentum": 0.5})
    study.update("b", samples=7)
    study.update("a", samples=3)
    assert study.duty("aggregate").order == {
        "round": 0, "updates": [["a", weights("a0"), 3], ["b", weights("b0"), 7]], "previous": INITIAL,
        "aggregation": {"rule": "fedavgm", "server_lr": 1.0, "momentum": 0.5}, "state": "",
    }  # fmt: skip
    assert study.phase == "Closing"
    study.aggregate("new", state=weights("s1"))
    over = study.task.history[0]
    assert (study.task.weights, over.weights, over.size_bytes) == (weights("new"), weights("new"), 100)
    study.update("a", "b")
    assert study.duty("aggregate").order["state"] == weights("s1")
    assert study.duty("aggregate").order["previous"] == weights("new")


def test_after_all_rounds_it_is_finished_and_everybody_hears_of_it() -> None:
    study = studying("a", "b", rounds=2)
    study.run_round("a", "b")
    study.run_round("a", "b")
    assert (study.phase, study.task.reason, study.task.number) == ("Finished", "all rounds", 2)
    assert study.told["a"][-1].phase == "FINISHED"
    assert study.told["b"][-1].phase == "FINISHED"
    assert isinstance(study.leave("a"), Accepted)
    assert study.who("a").state.value == "Done"
    assert code(study.try_join("a")) == "run_closed"
    study.lose("b")
    assert study.who("b").state.value == "Lost"
    assert study.phase == "Finished"


def test_participants_may_come_and_go_while_the_model_is_made() -> None:
    study = studying("a", "b")
    study.update("a", "b")
    study.lose("a", "b")
    study.join("c")
    assert study.phase == "Closing"
    study.aggregate()
    assert (study.phase, study.task.number) == ("Standby", 1)
    study.join("a")
    assert study.training() == ["a", "c"]


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"failed": "disk full"}, "disk full"),
        ({"failed": ""}, "no reason was given"),
        (None, "what came back names no weights"),
        ({"weights": "nonsense"}, "what came back names no weights"),
        ({"weights": 7}, "what came back names no weights"),
        ({"weights": "a" * 64, "state": "nonsense"}, "what came back names no weights"),
    ],
)
def test_an_aggregation_that_fails_pauses_the_run_and_is_tried_again_on_resumption(result: Any, said: str) -> None:
    study = studying("a", "b")
    study.update("a", "b")
    study.end(study.duty("aggregate"), result)
    assert study.phase == "Paused"
    assert study.task.reason == f"round 0 could not be aggregated: {said}"
    assert study.told["a"][-1].reason == study.task.reason
    study.order(RunResumed())
    assert study.phase == "Closing"
    study.aggregate()
    assert (study.phase, study.task.number, len(study.task.history)) == ("Round", 1, 1)


def test_a_size_that_is_no_number_is_not_known() -> None:
    study = studying("a")
    study.update("a")
    study.aggregate(size_bytes=None, state=None)
    assert (study.task.size_bytes, study.task.optimizer) == (0, "")


# -- evaluation ----------------------------------------------------------------------------------------------------


def test_a_new_model_is_evaluated_before_the_next_round() -> None:
    study = studying("a", evaluation="mine:score", rounds=2)
    study.run_round("a")
    assert study.phase == "Evaluating"
    order = study.duty("evaluate").order
    assert order == {"round": 0, "weights": weights("g1"), "evaluation": "mine:score"}
    study.end(study.duty("evaluate"), {"metrics": {"accuracy": 0.5, "note": "strange"}})
    assert study.phase == "Round"
    assert study.task.history[0].evaluation == {"accuracy": 0.5}
    study.run_round("a")
    study.end(study.duty("evaluate"), {"metrics": {}})
    assert study.phase == "Finished"


@pytest.mark.parametrize("result", [{"failed": "no such module"}, None, {}, {"metrics": 3}])
def test_an_evaluation_that_fails_pauses_the_run_and_only_it_is_tried_again(result: Any) -> None:
    study = studying("a", evaluation="mine:score")
    study.run_round("a")
    study.end(study.duty("evaluate"), result)
    assert study.phase == "Paused"
    assert study.task.reason.startswith("round 0 could not be evaluated: ")
    study.order(RunResumed())
    assert (study.phase, [duty.what for duty in study.duties]) == ("Evaluating", ["evaluate"])
    study.end(study.duty("evaluate"), {"metrics": {"accuracy": 0.5}})
    assert (study.phase, study.task.number) == ("Round", 1)


def scored(study: Study, *values: float) -> int:
    """Rounds until it is over, or all of these."""
    for done, value in enumerate(values):
        if study.phase == "Finished":
            return done
        study.run_round("a")
        study.end(study.duty("evaluate"), {"metrics": {"score": value}})
    return len(values)


@pytest.mark.parametrize(
    ("early", "values", "rounds"),
    [
        ({"patience": 2}, (1.0, 2.0, 2.0, 1.5, 9.0), 4),
        ({"patience": 2}, (1.0, 1.0, 2.0, 2.0, 3.0), 5),
        ({"patience": 1}, (1.0, 1.0, 9.0), 2),
        ({"patience": 1, "min_delta": 0.5}, (1.0, 1.4, 9.0), 2),
        ({"patience": 1, "better": "lower"}, (3.0, 2.0, 2.0, 1.0), 3),
        ({"patience": 1, "better": "lower", "min_delta": 0.5}, (3.0, 2.6, 1.0), 2),
        ({"patience": 2}, (float("nan"), 1.0, 2.0, float("nan"), 1.0, 9.0), 5),
    ],
)
def test_a_run_stops_when_nothing_has_become_better_for_so_many_rounds(
    early: dict[str, Any], values: tuple[float, ...], rounds: int
) -> None:
    study = studying("a", evaluation="mine:score", rounds=50, early_stop={"metric": "score"} | early)
    assert scored(study, *values) == rounds
    if rounds < len(values):
        assert study.phase == "Finished"
        assert study.task.reason == f"score did not become better for {early['patience']} rounds"


def test_without_an_evaluation_the_participants_metric_is_looked_at() -> None:
    study = studying("a", rounds=50, early_stop={"metric": "loss", "patience": 1, "better": "lower"})
    study.run_round("a", metrics={"loss": 1.0})
    study.run_round("a")
    study.run_round("a", metrics={"loss": [1.0]})
    assert study.phase == "Round"
    study.run_round("a", metrics={"loss": 1.0})
    assert study.phase == "Finished"


# -- operators -----------------------------------------------------------------------------------------------------


def test_a_paused_round_takes_updates_in_and_goes_on_where_it_was() -> None:
    study = studying("a", "b")
    study.offer("a")
    study.order(RunPaused("lunch"))
    assert (study.phase, study.task.reason) == ("Paused", "lunch")
    assert study.told["b"][-1].reason == "lunch"
    study.judge("a")
    study.update("b")
    study.pass_s(5000.0, pace_s=5.0)
    assert study.phase == "Paused"
    assert isinstance(study.order(RunPaused()), Accepted)
    study.order(RunResumed())
    assert study.phase == "Closing"


def test_a_pause_of_standby_stops_its_clock() -> None:
    study = studying("a", clients=2, standby_max_s=20.0)
    study.order(RunPaused())
    study.join("b")
    study.pass_s(100.0)
    assert (study.phase, study.task.reason) == ("Paused", "an operator paused it")
    study.order(RunResumed())
    assert study.phase == "Round"


def test_a_pause_while_the_model_is_made_waits_for_it() -> None:
    study = studying("a", evaluation="mine:score")
    study.update("a")
    study.order(RunPaused("lunch"))
    assert study.phase == "Closing"
    study.aggregate()
    assert study.phase == "Evaluating"
    study.end(study.duty("evaluate"), {"metrics": {}})
    assert (study.phase, study.task.reason, study.task.number) == ("Paused", "lunch", 1)
    study.order(RunResumed())
    assert (study.phase, study.task.number) == ("Round", 1)


@pytest.mark.parametrize("phase", ["Closing", "Evaluating"])
def test_a_resumption_takes_such_a_pause_back(phase: str) -> None:
    study = studying("a", evaluation="mine:score")
    study.update("a")
    if phase == "Evaluating":
        study.aggregate()
    assert study.phase == phase
    study.order(RunPaused())
    study.order(RunResumed())
    if phase == "Closing":
        study.aggregate()
    study.end(study.duty("evaluate"), {"metrics": {}})
    assert study.phase == "Round"


def test_a_pause_before_the_last_model_is_made_ends_with_the_run() -> None:
    study = studying("a", rounds=1)
    study.update("a")
    study.order(RunPaused())
    study.aggregate()
    assert study.phase == "Finished"


def test_a_pause_and_a_failure_together_are_one_pause() -> None:
    study = studying("a")
    study.update("a")
    study.order(RunPaused("lunch"))
    study.end(study.duty("aggregate"), {"failed": "disk full"})
    assert "disk full" in study.task.reason
    study.order(RunResumed())
    study.aggregate()
    assert (study.phase, study.task.number) == ("Round", 1)


@pytest.mark.parametrize("phase", ["Standby", "Round", "Closing", "Evaluating", "Paused"])
def test_a_run_can_be_stopped_at_any_time_and_nothing_happens_in_it_afterwards(phase: str) -> None:
    study = studying("a", clients=2 if phase == "Standby" else 1, evaluation="mine:score")
    if phase in ("Closing", "Evaluating"):
        study.update("a")
    if phase == "Evaluating":
        study.aggregate()
    if phase == "Paused":
        study.order(RunPaused())
    assert study.phase == phase
    study.order(RunStopped("enough"))
    assert (study.phase, study.task.reason, study.told["a"][-1].phase) == ("Stopped", "enough", "FINISHED")
    for duty in list(study.duties):
        study.end(duty, {"weights": "a" * 64, "metrics": {}, "ok": True})
    assert study.phase == "Stopped"
    assert study.hand.host.run is not None
    assert study.hand.host.run.duties == {}
    assert code(study.try_join("b")) == "run_closed"
    assert code(study.order(RunResumed())) == "run_closed"
    assert isinstance(study.order(RunStopped()), Accepted)
    study.leave("a")
    assert study.who("a").state.value == "Done"


@pytest.mark.parametrize("phase", ["Standby", "Round"])
def test_resuming_what_is_not_paused_changes_nothing(phase: str) -> None:
    study = studying("a", clients=2 if phase == "Standby" else 1)
    assert isinstance(study.order(RunResumed()), Accepted)
    assert study.phase == phase

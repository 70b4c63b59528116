"""In words: what is awaited, who is missing, and what happens when."""

from __future__ import annotations

from typing import Any

from tests.core.federated.study import Study, studying

from quoracy.core.codec import builtins
from quoracy.core.federated.events import RunPaused, RunStopped


def sentence(study: Study) -> str:
    return study.explain().sentence


def test_standby_says_how_many_are_there_who_is_gone_and_when_it_pauses() -> None:
    study = studying("a", "b", clients=3)
    study.pass_s(10.0)
    assert sentence(study) == (
        "standby before round 0: 2 of clients = 3 are registered (10.0 s so far; it pauses in 10 min)"
    )
    study.join("c")
    study.lose("c")
    (wait,) = study.explain().waits
    assert wait.missing == ("c",)
    assert sentence(study) == (
        "standby before round 0: 2 of clients = 3 are registered, waits for c (0 ms so far; it pauses in 10 min)"
    )


def test_standby_before_the_initial_weights_says_so() -> None:
    study = studying("a", clients=2, initial="")
    assert sentence(study).startswith("standby before the initial weights: 1 of clients = 2")


def test_standby_with_enough_people_of_whom_none_can_step_in_names_those_who_were_too_slow() -> None:
    study = studying("a", "b", time_max_s=20.0)
    study.update("a")
    study.pass_s(20.0)
    assert sentence(study) == (
        "standby before round 0: round 0 needs 1 more, and 0 of those registered can step in, waits for b "
        "(0 ms so far; it pauses in 10 min)"
    )


def test_a_round_says_who_still_trains_and_what_happens_then() -> None:
    study = studying("a", "b", "c", "d", count_min=2, time_max_s=100.0)
    study.update("a")
    study.pass_s(10.0)
    assert sentence(study) == (
        "round 0: 1 of 4 updates are in, waits for b, c, d (10.0 s so far; the others are replaced in 90.0 s)"
    )
    study.offer("b")
    assert sentence(study) == (
        "round 0: 1 of 4 updates are in, 1 are being looked at, waits for c, d "
        "(10.0 s so far; it closes with those it has in 90.0 s)"
    )


def test_a_round_that_waits_for_a_verdict_after_its_time_says_how_long_it_still_does() -> None:
    study = studying("a", "b", "c", count_min=2, time_max_s=20.0)
    study.update("a")
    study.offer("b")
    study.pass_s(25.0)
    assert sentence(study) == (
        "round 0: 1 of 3 updates are in, 1 are being looked at, waits for c "
        "(25.0 s so far; those are given up and replaced in 15.0 s)"
    )
    study.pass_s(14.0)
    assert study.phase == "Round"
    study.pass_s(1.0)
    assert (study.phase, study.fates()["b"]) == ("Standby", "Dropped")


def test_a_round_with_enough_that_waits_for_a_verdict_after_its_time_says_when_it_closes() -> None:
    study = studying("a", "b", "c", count_min=1, time_max_s=20.0)
    study.update("a")
    study.offer("b")
    study.pass_s(25.0)
    assert sentence(study).endswith("waits for c (25.0 s so far; it closes without those in 15.0 s)")
    study.pass_s(15.0)
    assert study.phase == "Closing"


def test_a_round_that_waits_only_for_its_time_says_when_that_is_over() -> None:
    study = studying("a", "b", time_min_s=60.0, time_max_s=100.0)
    study.update("a", "b")
    study.pass_s(10.0)
    assert sentence(study) == (
        "round 0: 2 of 2 updates are in (10.0 s so far; it closes, since time_min_s is over in 50.0 s)"
    )


def test_a_round_that_was_taken_up_again_counts_what_was_before() -> None:
    study = studying("a", "b", time_max_s=100.0)
    study.pass_s(10.0)
    study.leave("b")
    study.pass_s(30.0)
    study.join("b")
    study.pass_s(5.0)
    assert "(15.0 s so far; the others are replaced in 85.0 s)" in sentence(study)


def test_many_names_are_not_all_told() -> None:
    study = studying(*"abcdefgh")
    assert "waits for a, b, c, d, e and 3 more" in sentence(study)
    assert study.explain().waits[0].missing == tuple("abcdefgh")


def test_one_that_has_not_been_heard_for_a_while_is_named_with_what_it_has_left() -> None:
    study = studying("a", "b")
    study.pass_s(10.0, "b")
    assert sentence(study).endswith(". b has sent no heartbeat for 10.0 s; it is lost in 5.0 s")
    study.beat("b")
    assert "heartbeat" not in sentence(study)


def test_one_that_is_alive_but_does_not_move_is_named() -> None:
    study = studying("a", stuck_after_s=30.0)
    study.beat("a")
    study.pass_s(29.0)
    assert "stuck" not in sentence(study)
    study.pass_s(2.0)
    assert sentence(study).endswith(". a is alive but stuck: no progress for 31.0 s")
    study.beat("a", progress=2)
    assert "stuck" not in sentence(study)


def test_closing_and_evaluating_say_what_is_done_to_how_many() -> None:
    study = studying("a", "b", evaluation="mine:score")
    study.update("a", "b")
    assert sentence(study) == "round 0: 2 updates are aggregated (0 ms so far)"
    study.aggregate()
    assert sentence(study) == "round 0: the new model is evaluated (0 ms so far)"


def test_a_pause_says_why_and_what_to_do() -> None:
    study = studying("a", "b", standby_max_s=10.0)
    study.update("a")
    study.lose("b")
    study.pass_s(10.0)
    assert sentence(study) == (
        "paused before round 0 is done: 1 of clients = 2 are registered; gone: b; resume it to go on"
    )
    study = studying("a", initial="", clients=2)
    study.order(RunPaused())
    assert sentence(study) == "paused before round 0 is done: an operator paused it; resume it to go on"


def test_the_end_says_how_many_rounds_there_were_and_why_there_are_no_more() -> None:
    study = studying("a", rounds=2)
    study.run_round("a")
    study.run_round("a")
    assert sentence(study) == "the run is over after 2 rounds: all rounds"
    study = studying("a", initial="", clients=2)
    study.order(RunStopped())
    assert sentence(study) == "the run is over after 0 rounds: an operator stopped it"


def test_all_who_are_stuck_are_one_sentence() -> None:
    study = studying(*"abcdefghijkl", stuck_after_s=1.0)
    for name in "abcdefghijkl":
        study.beat(name, progress=1)
    study.pass_s(5.0)
    stuck = "a, b, c, d, e and 7 more are alive but stuck: no progress for up to 5.0 s"
    assert sentence(study).endswith(f". {stuck}")
    assert len(study.explain().waits) == 13


def test_the_overview_shows_the_run_its_round_its_people_and_what_is_over() -> None:
    study = studying("a", "b", "c", count_min=2, count_max=2, rounds=2)
    study.update("a", metrics={"loss": 1.0})
    study.offer("c")
    study.update("b", metrics={"loss": 2.0})
    study.aggregate()
    study.pass_s(2.0)
    study.beat("a", progress=4, epoch=1, metrics={"loss": 0.5, "gradient": float("nan"), "step": float("-inf")})
    shown: dict[str, Any] = builtins(study.overview())
    assert (shown["phase"], shown["round"], shown["rounds"], shown["here"]) == ("Round", 1, 2, 3)
    assert shown["open"]["assignments"] == {"a": "Training", "b": "Training", "c": "Training"}
    assert (shown["open"]["training"], shown["open"]["away"]) == (3, [])
    (over,) = shown["history"]
    assert (over["updates"], over["samples"], over["admitted"]) == (2, 20, ["a", "b"])
    assert over["dropped"][0]["participant"] == "c"
    assert over["metrics"] == {"loss": 1.5}
    first = shown["participants"][0]
    assert (first["id"], first["state"], first["updates"], first["silent_s"]) == ("a", "Training", 1, 0.0)
    assert (first["progress"], first["epoch"], first["metrics"]) == (4, 1, {"loss": 0.5})


def test_nobody_waits_for_one_in_quarantine_and_everybody_learns_that_it_is_there() -> None:
    study = studying("a", "b")
    study.offer("a")
    study.refuse("a")
    assert study.phase == "Standby"
    said = study.explain()
    assert "1 of clients = 2 are registered; quarantined: a" in said.sentence
    assert said.waits[0].missing == ()
    study.pass_s(600.0, pace_s=5.0)
    assert study.phase == "Paused"
    assert study.task.reason.endswith("quarantined: a")

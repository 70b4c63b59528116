"""Federated rounds with real processes: the demonstration, and whole tasks on this machine."""

from __future__ import annotations

from typing import Any

import pytest

from quoracy.core.errors import ConfigError
from quoracy.demo import demo_federated, federated
from quoracy.demo.beside import Beside, beside, best_beside
from quoracy.demo.federated import DIES, LATE, LIAR, ROUNDS, Outcome, Participants, Story, _judge
from quoracy.demo.task import TaskStopped, run_task
from quoracy.launch.crowds import _deal
from quoracy.learn.experiment import Settings, make, source
from quoracy.report import Report

QUICK = {"rounds": 3, "epochs": 2, "heartbeat_interval_s": 1.0, "heartbeat_timeout_s": 10.0}


def test_the_federated_demo_survives_its_misfortunes() -> None:
    said: list[str] = []
    report, outcome = demo_federated(lambda what, _done: said.append(what), "digits")
    assert report.failures == []
    assert missed(report) - {"demo_s"} == set()
    assert [row["round"] for row in outcome.rows] == list(range(ROUNDS))
    why = [dropped["why"] for row in outcome.rows for dropped in row["dropped"] if dropped["participant"] == LIAR]
    assert [part in text for part, text in zip(("not finite", "has shape", "moves the model"), why, strict=True)] == [
        True, True, True,
    ]  # fmt: skip
    assert sum("killed" in what for what in said) == 2


@pytest.mark.soak("integrations")
@pytest.mark.timeout(300)
def test_the_federated_demo_with_pictures_of_clothes() -> None:
    """Of its package: ten participants with 6,000 pictures each, and the larger net."""
    report, outcome = demo_federated(lambda _what, _done: None, "auto")
    assert outcome.samples == "fashion-mnist"
    assert report.failures == []
    assert missed(report) - {"demo_s"} == set()
    assert outcome.rows[0]["size_bytes"] > 4 * 199_210
    assert max(row["samples"] for row in outcome.rows) >= 48_000


def missed(report: Report) -> set[str]:
    return {figure.name for figure in report.measurements if figure.met() is False}


class Told:
    recovered_s = 1.0
    kills = 1


def judge(kills: int = 1, took_s: float = 30.0, **changes: Any) -> Report:
    people: dict[str, dict[str, Any]] = {
        LIAR: {"id": LIAR, "state": "Quarantined", "updates": 0, "losses": 0},
        DIES: {"id": DIES, "state": "Lost", "updates": 3, "losses": 1},
        LATE: {"id": LATE, "state": "Done", "updates": 5, "losses": 0},
    }
    told: dict[str, dict[str, Any]] = {LIAR: {"ended": "quarantined"}, DIES: {}, LATE: {"ended": "finished"}}
    for name, change in changes.items():
        who = {"liar": LIAR, "dies": DIES, "late": LATE}[name.partition("_")[0]]
        (told if name.endswith("_told") else people)[who] |= change
    rows = [{"updates": 8, "samples": 10, "evaluation": {"accuracy": 0.9}}] * ROUNDS
    story: Any = Told()
    story.kills = kills
    outcome = Outcome("digits", rows, list(people.values()), Beside(0.91, 100, [], 10, 0.1))
    return _judge(story, outcome, told, ROUNDS, took_s)


def judged(**changes: Any) -> list[str]:
    return judge(**changes).failures


def test_the_judge_of_the_demo_believes_nothing() -> None:
    assert judged() == []
    assert "is Waiting" in judged(liar={"state": "Waiting"})[0]
    assert "it was told" in judged(liar_told={"ended": "finished"})[0]
    assert "1 updates of it were counted" in judged(liar={"updates": 1})[0]
    assert "does not say that it was lost" in judged(dies={"losses": 0})[0]
    assert "no update of it was counted" in judged(late={"updates": 0})[0]
    assert "did not see the end" in judged(late_told={"ended": "member_gone"})[0]


def test_the_demo_claims_that_the_coordinator_was_killed_and_how_long_it_took() -> None:
    assert judge().ok()
    assert missed(judge(kills=0)) == {"coordinator_killed"}
    assert missed(judge(took_s=60.1)) == {"demo_s"}
    assert judge(took_s=60.1).seconds == 60.1


def test_a_task_runs_to_its_end_and_twice_the_same() -> None:
    looked: list[int] = []
    settings = Settings("digits", "classes:3", 6, seed=3)
    rows = run_task(settings, QUICK | {"per_round": 3}, lambda shown: looked.append(shown["round"]), 60.0)
    assert [row["round"] for row in rows] == [0, 1, 2]
    assert [row["updates"] for row in rows] == [3, 3, 3]
    assert looked[-1] == 3
    again = run_task(settings, QUICK | {"per_round": 3}, lambda _: None, 60.0)
    assert [row["weights"] for row in again] == [row["weights"] for row in rows]
    assert [row["admitted"] for row in again] == [row["admitted"] for row in rows]


def test_a_demo_that_takes_too_long_says_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = {"round": 1, "phase": "Round", "open": None, "explanation": {"sentence": "waits for participant-2"}}
    monkeypatch.setattr(federated, "GIVE_UP_S", 0.1)
    monkeypatch.setattr(Story, "_look", lambda _self: shown)
    story = Story(None, Participants("tcp://127.0.0.1:1", "digits"), lambda _what, _done: None)  # type: ignore[arg-type]
    with pytest.raises(TaskStopped, match="round 1 of 14: waits for participant-2"):
        story.play()


def test_a_demo_whose_participants_do_not_come_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(federated, "PARTICIPANTS", 1)
    monkeypatch.setattr(federated, "CONFIG", federated.CONFIG | {"standby_max_s": 0.2})
    with pytest.raises(TaskStopped, match="the run is Paused: 0 of clients = 7 are registered"):
        demo_federated(lambda _what, _done: None, "digits")


def test_a_task_that_cannot_go_on_says_why() -> None:
    config = QUICK | {"clients": 5, "standby_max_s": 0.5}
    with pytest.raises(TaskStopped, match=r"Paused: \d of clients = 5 are registered"):
        run_task(Settings("digits", parts=4), config, lambda _: None, 60.0)


def test_liars_are_averaged_in_and_outvoted() -> None:
    """One in three; a median does not mind."""
    settings = Settings("digits", parts=9, liars=3)
    config = QUICK | {"rounds": 5, "epochs": 5}
    averaged = run_task(settings, config, lambda _: None, 60.0)[-1]["evaluation"]["accuracy"]
    median = run_task(settings, config | {"aggregation": {"rule": "median"}}, lambda _: None, 60.0)
    assert median[-1]["evaluation"]["accuracy"] > averaged + 0.2


def test_one_whose_training_fails_leaves_and_says_why() -> None:
    """A learning rate that leads nowhere."""
    config = QUICK | {"clients": 3, "standby_max_s": 8.0, "hyper": {"lr": 1e35}}
    seen: list[dict[str, Any]] = []
    with pytest.raises(TaskStopped, match="Paused: 0 of clients = 3 are registered"):
        run_task(Settings("digits", parts=3), config, seen.append, 60.0)
    assert {one["state"] for one in seen[-1]["participants"]} == {"Left"}
    assert all("training ran away" in one["reason"] for one in seen[-1]["participants"])


def test_what_liars_have_led_astray_is_sent_back_as_it_came() -> None:
    train = make({"samples": "digits", "parts": 3, "liars": 1})

    class Work:
        hyper = {"lr": 1e35}
        epochs, epoch_base = 1, 0

    weights, _, _, _ = train("p-1", None, Work())
    sent, samples, metrics, _ = train("p-1", weights, Work())
    assert all((sent[name] == weights[name]).all() for name in weights)
    assert (samples, metrics) == (481, {})


def test_one_machine_looks_at_as_many_samples() -> None:
    rows = [{"samples": 1442}, {"samples": 1442}]
    found = beside(Settings("digits"), rows, epochs=3, batch_size=10, lr=0.1)
    assert found.passes == 6 * 1442
    assert found.points[-1] == (2.0, found.accuracy)
    assert found.accuracy > 0.8


def test_one_machine_lowers_its_learning_rate_when_the_rounds_do() -> None:
    rows = [{"samples": 1442}] * 4
    stops = beside(Settings("digits"), rows, epochs=3, batch_size=10, lr=0.1, decay=[(2, 1e-9)])
    at = dict(stops.points)
    assert at[2.0] > 0.8
    assert {accuracy for number, accuracy in stops.points if number >= 2.0} == {at[2.0]}
    assert len({accuracy for number, accuracy in stops.points if number <= 2.0}) > 1


def test_rounds_are_held_against_the_best_that_one_machine_can_do() -> None:
    rows = [{"samples": 1442}] * 2
    tried = ((10, 1e-9), (10, 0.1), (1442, 1e-9))
    found = best_beside(Settings("digits"), rows, 3, tried)
    assert (found.batch_size, found.lr) == (10, 0.1)
    assert found == beside(Settings("digits"), rows, 3, 10, 0.1)


def test_everybody_is_dealt_to_one_process() -> None:
    members: dict[str, dict[str, Any]] = {f"p-{i}": {} for i in range(5)}
    assert [sorted(hand) for hand in _deal(members, 2)] == [["p-0", "p-2", "p-4"], ["p-1", "p-3"]]
    assert len(_deal(members, 9)) == 5


def test_an_experiment_names_what_it_does_not_know() -> None:
    with pytest.raises(ConfigError, match="samples = 'cifar': choose one of: fashion-mnist, digits"):
        source("cifar")
    with pytest.raises(ConfigError, match="partition"):
        make({"samples": "digits", "partition": "halves"})

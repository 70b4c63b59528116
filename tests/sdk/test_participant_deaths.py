"""Participants as real processes against a real coordinator: killed, stopped, held up and doubled. One fact a test."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.sdk.live import RUN, LiveServer, Process, alive, heartbeat_process, heartbeat_processes, script, wait_for

from quoracy.sdk.federated.arrays import load

ROOT = str(Path(__file__).parents[2])
QUICK = {"heartbeat_interval_s": 0.1, "heartbeat_timeout_s": 1.0, "stuck_after_s": 0.5, "rounds": 2, "clients": 2}


class Fed(LiveServer):
    """Two participants, two rounds."""

    def __init__(self, folder: Path, **config: Any) -> None:
        super().__init__(folder, kind="federated", config=QUICK | config)
        self.objects = folder / "objects"

    def start_participant(self, name: str, what: str = "told", *arguments: Any, **env: str) -> Process:
        return script(what, self.url, name, *arguments, file="partakers.py", env=env | {"PYTHONPATH": ROOT})

    def shown(self, member: str) -> dict[str, Any]:
        found = [one for one in self.ask("show")["participants"] if one["id"] == member]
        return found[0] if found else {}

    def updates(self) -> list[list[str]]:
        """Whose updates count, round by round."""
        return [over["admitted"] for over in self.ask("show")["history"]]

    def model(self) -> dict[str, Any]:
        digest = self.ask("show")["weights"]
        return load(self.objects / RUN / "blobs" / digest).arrays


@pytest.fixture
def fed(tmp_path: Path) -> Iterator[Fed]:
    with Fed(tmp_path) as live:
        yield live


def finish(*participants: Process) -> list[list[Any]]:
    """Let them train to the end; how they say it went."""
    for participant in participants:
        for _ in range(4):
            participant.tell("done")
    return [participant.hear("summary") for participant in participants]


# -- heartbeats ----------------------------------------------------------------------------------------------------


def test_correction_8_heartbeats_go_on_while_the_training_holds_the_gil_beyond_the_time_out(fed: Fed) -> None:
    with fed.start_participant("p1") as one, fed.start_participant("p2") as two:
        one.hear("trains")
        two.hear("trains")
        one.tell("gil 2.5")
        wait_for(lambda: fed.shown("p1").get("stuck_s"), "the coordinator sees that nothing moves")
        assert fed.shown("p1")["state"] == "Training"
        assert one.hear("held") > 2.0, "twice the time-out of heartbeats"
        assert [summary[1] for summary in finish(one, two)] == [2, 2]
    assert (fed.shown("p1")["losses"], fed.shown("p1")["incarnation"]) == (0, 1)


def test_progress_and_metrics_reach_the_coordinator_and_end_being_stuck(fed: Fed) -> None:
    with fed.start_participant("p1") as one, fed.start_participant("p2") as two:
        one.hear("trains")
        two.hear("trains")
        wait_for(lambda: fed.shown("p1")["stuck_s"], "it does nothing")
        one.tell("progress")
        one.hear("moved")
        wait_for(lambda: not fed.shown("p1")["stuck_s"], "it moved")


# -- the participant dies ------------------------------------------------------------------------------------------


def test_correction_5_a_participant_killed_in_training_resumes_its_place_and_is_counted_once(fed: Fed) -> None:
    with fed.start_participant("p1") as one, fed.start_participant("p2") as two:
        one.hear("trains")
        two.hear("trains")
        beats = heartbeat_process(one.pid)
        one.kill()
        one.wait()
        wait_for(lambda: not alive(beats), "its heartbeat process is gone")
        with fed.start_participant("p1") as again:
            assert again.hear("trains")[0] == 0, "the same round, from its beginning"
            summaries = finish(again, two)
            assert [summary[:2] for summary in summaries] == [[2, 2], [2, 2]]
    assert fed.updates() == [["p1", "p2"], ["p1", "p2"]]
    assert fed.shown("p1")["incarnation"] == 2


def test_a_participant_that_was_given_up_and_started_again_resumes_its_place(fed: Fed) -> None:
    with fed.start_participant("p1") as one, fed.start_participant("p2") as two:
        one.hear("trains")
        two.hear("trains")
        one.kill()
        one.wait()
        wait_for(lambda: fed.shown("p1")["state"] == "Lost", "the coordinator gives it up")
        wait_for(lambda: fed.ask("show")["phase"] == "Standby", "too few are left")
        two.tell("done")
        wait_for(lambda: fed.shown("p2")["updates"] == 1, "what was admitted survives the standby")
        with fed.start_participant("p1") as again:
            assert again.hear("trains")[0] == 0
            finish(again, two)
            assert [round_ for topic, (round_, _) in _trained(two)] == [0, 1], "who was done does not train again"
    assert fed.updates() == [["p1", "p2"], ["p1", "p2"]]


def _trained(participant: Process) -> list[Any]:
    return [(topic, value) for topic, value in participant.said if topic == "trains"]


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_participant_killed_around_its_upload_trains_again_and_is_counted_once(fed: Fed, where: str) -> None:
    with fed.start_participant("p1", "held_up", where) as one, fed.start_participant("p2", "plain") as two:
        one.hear(where)
        assert fed.updates() == []
        one.kill()
        one.wait()
        with fed.start_participant("p1", "plain") as again:
            assert again.hear("summary")[:2] == [2, 2]
            assert two.hear("summary")[:2] == [2, 2]
    assert fed.updates() == [["p1", "p2"], ["p1", "p2"]]
    assert np.all(fed.model()["a"] == 2.0), "one step a round, not two"


def test_a_participant_killed_after_its_offer_does_not_train_that_round_again(fed: Fed) -> None:
    with fed.start_participant("p1") as one, fed.start_participant("p2") as two:
        one.hear("trains")
        two.hear("trains")
        one.tell("done")
        wait_for(lambda: fed.shown("p1")["updates"] == 1, "its update was admitted")
        one.kill()
        one.wait()
        with fed.start_participant("p1") as again:
            two.tell("done")
            assert again.hear("trains")[0] == 1, "the next round is its first"
            finish(again, two)
    assert fed.updates() == [["p1", "p2"], ["p1", "p2"]]
    assert np.all(fed.model()["b"] == 2.0)


def test_a_participant_stopped_beyond_the_time_out_comes_back_and_offers_what_it_has_trained(fed: Fed) -> None:
    with fed.start_participant("p1") as one, fed.start_participant("p2") as two:
        one.hear("trains")
        two.hear("trains")
        beats = heartbeat_process(one.pid)
        for pid in (one.pid, beats):
            os.kill(pid, signal.SIGSTOP)
        wait_for(lambda: fed.shown("p1")["state"] == "Lost", "the coordinator gives it up")
        for pid in (beats, one.pid):
            os.kill(pid, signal.SIGCONT)
        wait_for(lambda: fed.shown("p1")["state"] == "Training", "it is back at its place")
        assert finish(one, two)[0][:2] == [2, 2], "it has trained each round once"
    assert fed.updates() == [["p1", "p2"], ["p1", "p2"]]
    assert (fed.shown("p1")["losses"], fed.shown("p1")["incarnation"]) == (1, 2)


def test_a_heartbeat_process_killed_in_training_is_replaced_in_the_same_life_and_the_update_counts_once(
    fed: Fed,
) -> None:
    with fed.start_participant("p1") as one, fed.start_participant("p2") as two:
        one.hear("trains")
        two.hear("trains")
        beats = heartbeat_process(one.pid)
        os.kill(beats, signal.SIGKILL)
        wait_for(lambda: heartbeat_processes(one.pid) not in ([], [beats]), "another one is there")
        one.tell("done")
        wait_for(lambda: fed.shown("p1")["state"] == "Waiting", "its update was admitted")
        beats = heartbeat_process(one.pid)
        os.kill(beats, signal.SIGKILL)
        assert finish(one, two)[0][:2] == [2, 2]
    assert fed.updates() == [["p1", "p2"], ["p1", "p2"]]
    assert (fed.shown("p1")["losses"], fed.shown("p1")["incarnation"]) == (0, 1)


# -- the coordinator dies ------------------------------------------------------------------------------------------


def test_a_coordinator_killed_in_the_middle_of_a_round_costs_no_training(fed: Fed) -> None:
    with fed.start_participant("p1") as one, fed.start_participant("p2") as two:
        one.hear("trains")
        two.hear("trains")
        one.tell("done")
        wait_for(lambda: fed.shown("p1")["state"] == "Waiting", "its update was admitted")
        fed.kill()
        two.tell("done")
        fed.start()
        assert [summary[:2] for summary in finish(one, two)] == [[2, 2], [2, 2]]
    assert fed.updates() == [["p1", "p2"], ["p1", "p2"]]
    assert np.all(fed.model()["a"] == 2.0)


def test_a_participant_waits_for_a_coordinator_that_is_not_there_yet(tmp_path: Path) -> None:
    server = Fed(tmp_path, clients=1, rounds=1)
    with server.start_participant("p1", "plain") as one:
        what, _, text = one.hear("news")
        assert (what, "tries on" in text) == ("unreachable", True)
        with server:
            assert one.hear("summary")[:2] == [1, 1]


# -- going ---------------------------------------------------------------------------------------------------------


def test_a_newer_process_of_the_same_id_ends_the_older_which_says_so(fed: Fed) -> None:
    with fed.start_participant("p1") as one:
        wait_for(lambda: fed.shown("p1").get("state") == "Waiting", "it has joined")
        with fed.start_participant("p1") as newer:
            trained, admitted, refused, ended, reason = one.hear("summary")
            assert (trained, admitted, refused, ended) == (0, 0, [], "superseded")
            assert "incarnation 2" in reason
            assert one.wait() == 0
            with fed.start_participant("p2") as two:  # not before: a round with the older one would have begun
                assert [summary[1] for summary in finish(newer, two)] == [2, 2]


def test_sigterm_between_rounds_leaves_properly(fed: Fed) -> None:
    with fed.start_participant("p1") as one:
        wait_for(lambda: fed.shown("p1").get("state") == "Waiting", "it waits for others")
        one.kill(signal.SIGTERM)
        assert one.hear("summary")[3] == "drained"
        assert one.wait() == 0
    assert fed.shown("p1")["state"] == "Left"
    assert fed.shown("p1")["reason"] == "drained after SIGTERM"


def test_sigterm_in_training_lets_it_finish_and_the_update_counts(fed: Fed) -> None:
    with fed.start_participant("p1") as one, fed.start_participant("p2") as two:
        one.hear("trains")
        two.hear("trains")
        one.kill(signal.SIGTERM)
        one.tell("done")
        trained, admitted, _, ended, _ = one.hear("summary")
        assert (trained, admitted, ended) == (1, 1, "drained")
        two.tell("done")
        wait_for(lambda: fed.updates() == [["p1", "p2"]], "the round closes with it")


def test_sigterm_in_a_training_that_takes_too_long_hands_the_place_back_within_drain_s(fed: Fed) -> None:
    with fed.start_participant("p1", "told", 0.3) as one, fed.start_participant("p2") as two:
        one.hear("trains")
        two.hear("trains")
        one.kill(signal.SIGTERM)
        wait_for(lambda: fed.shown("p1")["state"] == "Left", "it has left, in the middle of its training")
        one.tell("progress")
        trained, admitted, _, ended, reason = one.hear("summary")
        assert (trained, admitted, ended) == (0, 0, "drained"), "progress raised, and ended the training"
        assert "drain_s" in reason


def test_a_training_that_fails_leaves_and_says_why(fed: Fed) -> None:
    with fed.start_participant("p1") as one, fed.start_participant("p2") as two:
        one.hear("trains")
        two.hear("trains")
        one.tell("fail")
        assert one.wait() == 1
        wait_for(lambda: fed.shown("p1")["state"] == "Left", "it has left")
    assert fed.shown("p1")["reason"] == "failed with ValueError: the disk is on fire"


def test_sigterm_in_an_upload_that_does_not_end_hands_the_place_back(fed: Fed) -> None:
    with fed.start_participant("p1", "held_up", "before", 0.3) as one, fed.start_participant("p2", "plain"):
        one.hear("before")
        one.kill(signal.SIGTERM)
        wait_for(lambda: fed.shown("p1")["state"] == "Left", "it has left, in the middle of its upload")
        one.tell("go on")
        assert one.hear("summary")[3] == "drained"


def test_a_heartbeat_process_killed_in_an_upload_is_replaced(fed: Fed) -> None:
    with fed.start_participant("p1", "held_up", "before") as one, fed.start_participant("p2", "plain") as two:
        one.hear("before")
        beats = heartbeat_process(one.pid)
        os.kill(beats, signal.SIGKILL)
        wait_for(lambda: heartbeat_processes(one.pid) not in ([], [beats]), "another one is there")
        for _ in range(2):
            one.tell("go on")
        assert [participant.hear("summary")[:2] for participant in (one, two)] == [[2, 2], [2, 2]]
    assert (fed.shown("p1")["losses"], fed.shown("p1")["incarnation"]) == (0, 1)

"""Workers as real processes against a real coordinator: killed, stopped, held up and doubled. One fact a test."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sdk.live import RUN, LiveServer, alive, heartbeat_process, heartbeat_processes, script, wait_for
from tests.stopping import stop

import quoracy


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LiveServer]:
    with LiveServer(tmp_path) as live:
        yield live


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[LiveServer]:
    """Starting a process may take longer than the quick time-out allows a worker to be silent, on a busy machine."""
    with LiveServer(tmp_path, config={"heartbeat_timeout_s": 20.0}) as live:
        yield live


# -- alive, stuck, dead --------------------------------------------------------------------------------------------


def test_heartbeats_go_on_while_the_training_holds_the_gil_beyond_the_time_out(server: LiveServer) -> None:
    with script("hold_gil", server.url, "w1", 2.5) as training:
        training.hear("in")
        stuck = wait_for(lambda: server.worker("w1").get("stuck_s"), "the coordinator sees that nothing moves")
        assert stuck >= 0.5
        assert "alive but stuck" in server.explain()
        assert training.hear("held") > 2.0, "twice the time-out of heartbeats"
        assert training.hear("passed") == 1, "it is still its first life"
    assert server.worker("w1")["losses"] == 0


def test_a_stopped_training_is_alive_but_stuck_and_says_that_it_is_stopped(server: LiveServer) -> None:
    with script("stand_by", server.url, "w1") as training:
        training.hear("in")
        training.kill(signal.SIGSTOP)
        wait_for(lambda: "stopped by a signal" in server.worker("w1").get("task", ""), "heartbeats say it")
        wait_for(lambda: server.worker("w1")["stuck_s"] > 1.5, "longer than the time-out of heartbeats")
        assert server.worker("w1")["silent_s"] < 1.0
        training.kill(signal.SIGCONT)
        training.tell("barrier")
        assert training.hear("passed") == [0, 1]


def test_a_training_that_works_is_not_stuck(server: LiveServer) -> None:
    with script("stand_by", server.url, "w1") as training:
        training.hear("in")
        wait_for(lambda: server.worker("w1")["stuck_s"], "it does nothing")
        training.tell("progress")
        training.hear("moved")
        wait_for(lambda: not server.worker("w1")["stuck_s"], "it moved")


def test_a_killed_training_takes_its_heartbeat_process_along_and_is_lost(server: LiveServer) -> None:
    with script("stand_by", server.url, "w1") as training:
        training.hear("in")
        beats = heartbeat_process(training.pid)
        training.kill()
        training.wait()
        wait_for(lambda: not alive(beats), "its heartbeat process is gone")
        wait_for(lambda: server.worker("w1")["state"] == "Failed", "the coordinator gives it up")
    assert "no sign of life" in server.worker("w1")["reason"], "it did not leave: there is something to recover"


def test_a_child_that_outlives_a_killed_training_keeps_no_heartbeat_process_alive(server: LiveServer) -> None:
    with script("forked_and_dead", server.url, "w1") as training:
        child, _ = training.hear("child")
        beats = heartbeat_process(training.pid)
        training.kill()
        training.wait()
        wait_for(lambda: not alive(beats), "its heartbeat process is gone")
        assert alive(child)
        os.kill(child, signal.SIGKILL)


def test_even_a_stopped_heartbeat_process_ends_with_its_training(server: LiveServer) -> None:
    with script("stand_by", server.url, "w1") as training:
        training.hear("in")
        beats = heartbeat_process(training.pid)
        stop(beats)
        training.kill()
        training.wait()
        wait_for(lambda: not alive(beats), "its heartbeat process is gone")


def test_signals_for_the_training_leave_the_heartbeat_process_alone(server: LiveServer) -> None:
    with script("stand_by", server.url, "w1") as training:
        training.hear("in")
        beats = heartbeat_process(training.pid)
        assert os.getpgid(beats) != os.getpgid(training.pid), "Ctrl-C at the terminal does not reach it"
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(beats, number)
        training.tell("barrier")
        assert training.hear("passed") == [0, 1]
        assert heartbeat_processes(training.pid) == [beats]


@pytest.mark.parametrize("call", ["barrier", "next_step", "progress", "report", "training"])
def test_one_declared_dead_while_it_computes_learns_it_at_its_next_call_and_rejoins(
    server: LiveServer, call: str
) -> None:
    with script("declared_dead", server.url, "w1", call) as training:
        training.hear("in")
        beats = heartbeat_process(training.pid)
        stop(beats)
        wait_for(lambda: server.worker("w1")["state"] == "Failed", "the coordinator gives it up")
        os.kill(beats, signal.SIGCONT)
        training.tell("go on")
        assert training.hear("learnt", "again") is None, "the next call of any sort"
        assert training.hear("again") == [0, 2]


@pytest.mark.soak("faults")
@pytest.mark.timeout(180)
def test_heartbeats_go_on_while_the_gil_is_held_for_a_minute(server: LiveServer) -> None:
    with script("hold_gil", server.url, "w1", 60) as training:
        training.hear("in")
        wait_for(lambda: server.worker("w1")["stuck_s"] > 55, "it is alive but stuck", 90)
        assert training.hear("passed") == 1
    assert server.worker("w1")["losses"] == 0


# -- the heartbeat process dies ------------------------------------------------------------------------------------


def test_a_killed_heartbeat_process_is_replaced_in_the_same_life(patient: LiveServer) -> None:
    with script("stand_by", patient.url, "w1") as training, script("stand_by", patient.url, "w2") as other:
        training.hear("in")
        other.hear("in")
        for step in range(3):
            beats = heartbeat_process(training.pid)
            os.kill(beats, signal.SIGKILL)
            wait_for(lambda old=beats: not alive(old), "it is dead")  # type: ignore[misc]
            training.tell("barrier")
            other.tell("barrier")
            assert training.hear("passed") == [step, 1]
            assert other.hear("passed") == [step, 1]
            assert len(heartbeat_processes(training.pid)) == 1, "the dead one was reaped"
    assert patient.worker("w1")["losses"] == 0


def test_a_heartbeat_process_killed_while_its_training_waits_at_a_barrier_is_replaced_there(
    patient: LiveServer,
) -> None:
    with script("stand_by", patient.url, "w1") as training, script("stand_by", patient.url, "w2") as other:
        training.hear("in")
        other.hear("in")
        training.tell("barrier")
        wait_for(lambda: patient.worker("w1")["waits"], "it stands there")
        beats = heartbeat_process(training.pid)
        os.kill(beats, signal.SIGKILL)
        wait_for(lambda: heartbeat_processes(training.pid) not in ([beats], []), "another one is there")
        other.tell("barrier")
        assert training.hear("passed") == [0, 1]


def test_a_training_that_only_reports_progress_notices_a_dead_heartbeat_process(patient: LiveServer) -> None:
    with script("busy", patient.url, "w1") as training:
        pid = training.hear("in")
        beats = heartbeat_process(pid)
        os.kill(beats, signal.SIGKILL)
        wait_for(lambda: heartbeat_processes(pid) not in ([beats], []), "another one is there")


# -- the coordinator dies ------------------------------------------------------------------------------------------


def test_a_barrier_goes_on_across_a_killed_coordinator(server: LiveServer) -> None:
    with script("stand_by", server.url, "w1") as training, script("stand_by", server.url, "w2") as other:
        training.hear("in")
        other.hear("in")
        training.tell("barrier")
        wait_for(lambda: server.worker("w1")["waits"], "it stands there")
        server.restart()
        other.tell("barrier")
        assert training.hear("passed") == [0, 1], "the same life"
        assert other.hear("passed") == [0, 1]


def test_workers_stay_in_step_while_the_coordinator_is_killed_again_and_again(server: LiveServer) -> None:
    with (
        script("steps", server.url, "w1", 150, 0.005) as one,
        script("steps", server.url, "w2", 150, 0.005) as two,
        script("async_steps", server.url, "w3", 150) as three,
    ):
        workers = (one, two, three)
        for worker in workers:
            worker.hear("in")
        for _ in range(3):
            for worker in workers:
                while worker.hear("passed") % 25:
                    pass
            server.restart()
        for worker in workers:
            worker.hear("out")
    passed = [[value for topic, value in worker.said if topic == "passed"] for worker in workers]
    assert all(steps == list(range(steps[0], steps[0] + 150)) for steps in passed), "each once, and in order"
    assert not [line for worker in workers for line in worker.said if line[0] in ("setback", "aborted")]


def test_a_coordinator_that_drains_is_found_again(server: LiveServer) -> None:
    with script("stand_by", server.url, "w1") as training:
        training.hear("in")
        server.kill(signal.SIGTERM)
        server.start()
        training.tell("barrier")
        assert training.hear("passed") == [0, 1]


def test_a_coordinator_that_stands_still_is_noticed_and_called_again(server: LiveServer) -> None:
    """Half open: the connection stays, nobody answers."""
    with script("stand_by", server.url, "w1") as training:
        training.hear("in")
        server.stop_for_a_while()
        training.tell("barrier")
        wait_for(lambda: _dials(server.port) >= 2, "it hangs up and dials again")
        server.go_on()
        assert training.hear("passed") == [0, 1]


def _dials(port: int) -> int:
    """Connections that wait in the backlog of the listening socket: those that nobody accepts."""
    mark = f":{port:04X} "
    lines = Path("/proc/net/tcp").read_text().splitlines()
    (listening,) = [line.split() for line in lines if mark in line[:24] and line.split()[3] == "0A"]
    return int(listening[4].partition(":")[2], 16)


# -- two under one name --------------------------------------------------------------------------------------------


def test_of_two_processes_with_one_id_the_older_is_superseded_and_does_not_fight_back(server: LiveServer) -> None:
    with script("stand_by", server.url, "w1") as older, script("stand_by", server.url, "w2") as witness:
        assert older.hear("in") == 1
        witness.hear("in")
        with script("stand_by", server.url, "w1") as newer:
            assert newer.hear("in") == 2
            older.tell("barrier")
            name, code, _ = older.hear("raised")
            assert (name, code) == ("Superseded", "superseded")
            for step in range(3):
                newer.tell("barrier")
                witness.tell("barrier")
                assert newer.hear("passed") == [step, 2], "nobody has taken the id back"
            older.tell("barrier")
            assert older.hear("raised")[0] == "Superseded", "for good"
            older.tell("leave")
            older.hear("out")
            assert server.worker("w1")["incarnation"] == 2


def test_the_older_one_learns_it_even_if_it_waits_at_a_barrier_while_the_coordinator_is_restarted(
    server: LiveServer,
) -> None:
    with script("stand_by", server.url, "w1") as older, script("stand_by", server.url, "w2") as witness:
        older.hear("in")
        witness.hear("in")
        older.tell("barrier")
        wait_for(lambda: server.worker("w1")["waits"], "it stands there")
        beats = heartbeat_process(older.pid)
        stop(beats)
        with script("stand_by", server.url, "w1") as newer:
            assert newer.hear("in") == 2
            server.restart()
            os.kill(beats, signal.SIGCONT)
            assert older.hear("raised")[0] == "Superseded"


# -- given up ------------------------------------------------------------------------------------------------------


def test_one_that_was_given_up_begins_a_new_life_and_goes_on_where_the_others_are(server: LiveServer) -> None:
    with script("steps", server.url, "w1", 10**6, 0.01) as one, script("steps", server.url, "w2", 10**6, 0.01) as two:
        one.hear("passed")
        beats = heartbeat_process(one.pid)
        stop(beats)
        one.kill(signal.SIGSTOP)
        wait_for(lambda: server.worker("w1")["state"] == "Failed", "its heartbeats stay away")
        before = two.hear("passed")
        os.kill(beats, signal.SIGCONT)
        one.kill(signal.SIGCONT)
        name, why = one.hear("setback")
        assert name == "GivenUp"
        assert "no sign of life" in why
        assert one.hear("passed") > before
        assert server.worker("w1")["incarnation"] == 2


def test_a_script_that_ends_without_a_word_leaves_all_the_same(server: LiveServer) -> None:
    with script("careless", server.url, "w1") as training:
        training.hear("in")
        assert training.wait() == 0
    assert (server.worker("w1")["state"], server.worker("w1")["reason"]) == ("Left", "its process ended")


# -- SIGTERM -------------------------------------------------------------------------------------------------------


def test_sigterm_lets_the_step_under_way_count_then_leaves_then_tells_the_script(server: LiveServer) -> None:
    with script("drained", server.url, "w1") as training, script("stand_by", server.url, "w2") as other:
        training.hear("in")
        other.hear("in")
        training.tell("go")
        training.hear("arrives")
        wait_for(lambda: server.worker("w1")["waits"], "it stands there")
        training.kill(signal.SIGTERM)
        other.tell("barrier")
        assert other.hear("passed") == [0, 1], "the step counts for all"
        assert training.hear("draining")[0] == 0
        assert training.wait() == 0
        assert server.worker("w1")["state"] == "Left"
        assert "SIGTERM" in server.worker("w1")["reason"]
        other.tell("barrier")
        assert other.hear("passed") == [1, 1], "nobody waits for it"


def test_sigterm_during_a_step_is_acted_upon_at_the_next_barrier(server: LiveServer) -> None:
    with script("drained", server.url, "w1") as training:
        training.hear("in")
        training.kill(signal.SIGTERM)
        training.tell("go")
        assert training.hear("draining")[0] == 0
        assert training.wait() == 0


def test_a_barrier_that_does_not_open_in_time_is_left_after_sigterm(server: LiveServer) -> None:
    with script("drained", server.url, "w1", 0.3) as training, script("stand_by", server.url, "w2") as other:
        training.hear("in")
        other.hear("in")
        training.tell("go")
        training.hear("arrives")
        training.kill(signal.SIGTERM)
        step, why = training.hear("draining")
        assert step is None
        assert "did not open within 0.3 s" in why
        wait_for(lambda: server.worker("w1")["state"] == "Left", "it has left")


def test_a_second_sigterm_ends_the_process_at_once(server: LiveServer) -> None:
    with script("drained", server.url, "w1") as training, script("stand_by", server.url, "w2") as other:
        training.hear("in")
        other.hear("in")
        training.tell("go")
        training.hear("arrives")
        training.kill(signal.SIGTERM)

        def ended_by_another() -> bool:
            """Signals do not queue: one that comes before the first was handled is none."""
            training.kill(signal.SIGTERM)
            return training.ended()

        wait_for(ended_by_another, "a second one ends it")
        assert training.wait() == -signal.SIGTERM


def test_an_async_script_drains_as_well(server: LiveServer) -> None:
    with script("stand_by", server.url, "w2") as other:
        other.hear("in")
        with script("async_drained", server.url, "w1") as training:
            wait_for(lambda: server.worker("w1").get("waits"), "it stands there")
            training.kill(signal.SIGTERM)
            other.tell("barrier")
            assert training.hear("draining") == 0
            assert training.wait() == 0
            assert server.worker("w1")["state"] == "Left"


# -- forks ---------------------------------------------------------------------------------------------------------


def test_a_forked_child_may_not_use_its_parents_worker(server: LiveServer) -> None:
    with script("forked", server.url, "w1") as training:
        code, why = training.hear("child")
        assert code == "not_yours"
        assert "belongs to process" in why
        assert training.hear("child") == "not_yours"
        assert training.hear("passed") == 0, "the parent's worker is not harmed"
        assert training.wait() == 0


# -- elsewhere -----------------------------------------------------------------------------------------------------


def test_a_coordinator_that_does_not_serve_sends_workers_to_the_one_that_does(tmp_path: Path) -> None:
    with (
        LiveServer(tmp_path) as serving,
        LiveServer(tmp_path, follows=True) as following,
        quoracy.connect(following.url, run=RUN, member="w1") as worker,
    ):
        assert worker.barrier("step", 0).released
        assert serving.worker("w1")["state"] == "Training"


def test_workers_find_the_coordinator_that_took_over(tmp_path: Path) -> None:
    with LiveServer(tmp_path) as first, LiveServer(tmp_path, follows=True) as second:
        both = f"{first.url},{second.url}"
        with quoracy.connect(both, run=RUN, member="w1") as worker:
            worker.barrier("step", 0)
            first.kill()
            assert worker.barrier("step", 1).generation == 2
            assert worker.incarnation == 1
            assert second.worker("w1")["state"] == "Training"

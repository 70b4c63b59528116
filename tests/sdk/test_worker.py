"""What a script that blocks can do, and what it is told. A real coordinator on a thread, real heartbeat processes."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.live import PATIENCE_S, QUICK, RUN, free_port, heartbeat_processes, wait_for
from tests.stopping import stop

import quoracy
from quoracy.coordinator import Coordinator
from quoracy.sdk.client import driver


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    with Coordinator(tmp_path_factory.mktemp("coordinator"), store="memory") as running:
        yield running


class Stage:
    """A run of its own for each test, and threads to wait in."""

    def __init__(self, coordinator: Coordinator, run: str) -> None:
        self.coordinator = coordinator
        self.run = run
        self.url = coordinator.url
        self._threads = ThreadPoolExecutor(8)
        coordinator.create(run, **QUICK)

    def connect(self, member: str = "w1", **settings: Any) -> quoracy.Worker:
        return quoracy.connect(self.url, self.run, member, **settings)

    def later(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> Future[Any]:
        return self._threads.submit(call, *arguments, **named)

    def ask(self, what: str, **arguments: Any) -> Any:
        return self.coordinator.ask(what, self.run, **arguments)

    def shown(self, member: str = "w1") -> dict[str, Any]:
        found = [worker for worker in self.coordinator.show(self.run)["workers"] if worker["id"] == member]
        return found[0] if found else {}

    def stands(self, member: str = "w1") -> None:
        wait_for(lambda: self.shown(member).get("waits"), f"{member} stands at a barrier")


@pytest.fixture
def stage(coordinator: Coordinator, request: pytest.FixtureRequest) -> Iterator[Stage]:
    made = Stage(coordinator, request.node.name[:128])
    yield made
    made._threads.shutdown()


# -- the plain case ------------------------------------------------------------------------------------------------


def test_three_lines_keep_a_script_in_step(stage: Stage) -> None:
    with stage.connect() as worker:
        for step in range(worker.next_step("step"), 5):
            passage = worker.barrier("step", step)
    assert (passage.generation, passage.order, passage.of, passage.step) == (5, 0, 1, 4)
    assert (stage.shown()["state"], stage.shown()["reason"]) == ("Left", "done")


def test_two_arrive_in_an_order_and_are_released_together(stage: Stage) -> None:
    with stage.connect("w1") as one, stage.connect("w2") as two:
        waiting = stage.later(one.barrier, "step", 0)
        stage.stands("w1")
        assert not waiting.done()
        late = two.barrier("step", 0)
        early = waiting.result(PATIENCE_S)
    assert (early.order, late.order, late.of, early.generation) == (0, 1, 2, late.generation)


def test_a_late_joiner_begins_where_the_others_are(stage: Stage) -> None:
    with stage.connect("w1") as one:
        for step in range(3):
            one.barrier("step", step)
        with stage.connect("w2") as two:
            assert two.next_step("step") == 3
            waiting = stage.later(one.barrier, "step", 3)
            assert two.barrier("step", 3).of == 2
            waiting.result(PATIENCE_S)


def test_a_barrier_at_different_steps_is_aborted_for_both_and_says_who_stood_where(stage: Stage) -> None:
    with stage.connect("w1") as one, stage.connect("w2") as two:
        waiting = stage.later(one.barrier, "step", 4)
        stage.stands("w1")
        with pytest.raises(quoracy.BarrierAborted, match="w2 at step 7") as aborted:
            two.barrier("step", 7)
        assert "w1 at step 4" in aborted.value.reason
        assert not aborted.value.passage.released
        with pytest.raises(quoracy.BarrierAborted):
            waiting.result(PATIENCE_S)
        assert one.next_step("step") == two.next_step("step") == 0


def test_barriers_of_different_names_do_not_mix(stage: Stage) -> None:
    with stage.connect() as worker:
        assert worker.barrier("step", 0).generation == 1
        assert worker.barrier("epoch", 0).generation == 1
        assert (worker.next_step("step"), worker.next_step("epoch"), worker.next_step("other")) == (1, 1, 0)


def test_several_threads_use_one_worker(stage: Stage) -> None:
    with stage.connect("w1") as one, stage.connect("w2") as two:
        names = [f"b{number}" for number in range(4)]
        waiting = [stage.later(one.barrier, name, 0) for name in names]
        for name in names:
            two.barrier(name, 0)
        assert [future.result(PATIENCE_S).barrier for future in waiting] == names


def test_a_numpy_like_step_is_a_step_and_nonsense_is_named(stage: Stage) -> None:
    class Like:
        def __index__(self) -> int:
            return 0

    with stage.connect() as worker:
        assert worker.barrier("step", Like()).step == 0  # type: ignore[arg-type]
        for step in (-1, 1.5, 2**60):
            with pytest.raises(quoracy.ConfigError, match="step"):
                worker.barrier("step", step)  # type: ignore[arg-type]
        with pytest.raises(quoracy.ConfigError, match="barrier"):
            worker.barrier("", 0)


# -- patience ------------------------------------------------------------------------------------------------------


def test_an_impatient_call_still_stands_there_and_the_next_one_goes_on_with_it(stage: Stage) -> None:
    with stage.connect("w1") as one, stage.connect("w2") as two:
        with pytest.raises(quoracy.BarrierTimeout, match="still stands there"):
            one.barrier("step", 0, timeout_s=0.05)
        with pytest.raises(quoracy.Rejected, match="still stands at barrier step at step 0"):
            one.barrier("step", 1)
        assert two.barrier("step", 0).of == 2, "it was counted"
        assert one.barrier("step", 0).order == 0
        waiting = stage.later(one.barrier, "step", 1)
        assert two.barrier("step", 1).of == 2
        assert waiting.result(PATIENCE_S).step == 1


def test_a_barrier_is_bounded_by_the_runs_own_deadline(coordinator: Coordinator) -> None:
    coordinator.create("short", **QUICK | {"barrier_deadline_s": 0.3})
    with (
        quoracy.connect(coordinator.url, "short", "w1") as one,
        quoracy.connect(coordinator.url, "short", "w2"),
        pytest.raises(quoracy.BarrierAborted, match="missing: w2"),
    ):
        one.barrier("step", 0)


def test_a_coordinator_that_stays_away_ends_the_wait_with_its_story(tmp_path: Path) -> None:
    with Coordinator(tmp_path, store="memory") as running:
        running.create(RUN, **QUICK)
        worker = quoracy.connect(running.url, RUN, "w1", give_up_s=0.3)
        url = running.url
    with pytest.raises(quoracy.Unreachable, match=r"longer than give_up_s = 0\.3 \(tried \d+ times in") as unreachable:
        worker.barrier("step", 0)
    assert url in str(unreachable.value)
    worker.close()
    assert heartbeat_processes(worker._pid) == []


# -- states --------------------------------------------------------------------------------------------------------


def test_states_are_in_the_journal_when_the_call_returns(stage: Stage) -> None:
    with stage.connect() as worker:
        assert worker.state == "Idle"
        for report, state in (
            (worker.loading, "LoadingData"),
            (worker.training, "Training"),
            (worker.checkpointing, "Checkpointing"),
            (worker.idle, "Idle"),
        ):
            report()
            assert stage.shown()["state"] == state


def test_a_state_that_cannot_follow_is_refused_with_a_way_out(stage: Stage) -> None:
    with stage.connect() as worker:
        with pytest.raises(quoracy.Rejected, match="checkpoint while training") as rejected:
            worker.checkpointing()
        assert rejected.value.code == "wrong_state"
        worker.loading()
        worker.training()


def test_heartbeats_carry_what_was_reported(stage: Stage) -> None:
    with stage.connect(gpus=2, labels={"zone": "a"}) as worker:
        worker.report(step=7, epoch=3, task="warming up", gpu=0.5)
        shown = wait_for(lambda: stage.shown() if stage.shown().get("step") == 7 else None, "the next heartbeat")
        assert (shown["epoch"], shown["task"], shown["gpu"], shown["gpus"]) == (3, "warming up", 0.5, 2)
        assert shown["progress"] >= 1
        worker.report(epoch=4)
        wait_for(lambda: stage.shown()["epoch"] == 4 and stage.shown()["step"] == 7, "the step stays")
        worker.barrier("step", 8)
        wait_for(lambda: stage.shown()["step"] == 8, "a barrier is a report as well")
        with pytest.raises(quoracy.ConfigError, match="gpu"):
            worker.report(gpu=2.0)


def test_without_auto_the_script_says_when_it_is_ready(stage: Stage) -> None:
    with stage.connect(auto=False) as worker:
        assert stage.shown()["state"] == "Initializing"
        with pytest.raises(quoracy.Rejected, match="Initializing"):
            worker.barrier("step", 0)
        worker.ready()
        assert worker.state == "Idle"
        assert worker.barrier("step", 0).released


def test_a_life_after_one_that_ended_badly_has_to_recover(stage: Stage) -> None:
    with stage.connect(auto=False) as older:
        older.ready()
        with stage.connect(auto=False) as worker:
            worker.ready()
            assert worker.recovering
            worker.recovered()
            assert not worker.recovering
            assert worker.barrier("step", 0).released
        with pytest.raises(quoracy.Superseded):
            older.barrier("step", 0)


# -- orders --------------------------------------------------------------------------------------------------------


def test_orders_reach_the_script_once_and_soon(stage: Stage) -> None:
    with stage.connect() as worker:
        stage.ask("order", command="checkpoint", arguments={"tag": "best"})
        (order,) = wait_for(worker.orders, "the order")
        assert (order.command, order.arguments) == ("checkpoint", {"tag": "best"})
        assert worker.orders() == []


def test_orders_go_to_the_callback_if_there_is_one(stage: Stage) -> None:
    heard: list[str] = []
    with stage.connect(on_order=lambda order: heard.append(order.command)) as worker:
        stage.ask("order", command="reconfigure", arguments={"lr": 0.1})
        for step in range(1000):
            worker.barrier("step", step)
            if heard:
                break
        assert heard == ["reconfigure"]
        assert worker.orders() == []


def test_pause_holds_the_barrier_and_resume_lets_it_go(stage: Stage) -> None:
    with stage.connect() as worker:
        stage.ask("order", command="pause")
        wait_for(worker.orders, "the order")
        waiting = stage.later(worker.barrier, "step", 0)
        wait_for(lambda: "paused" in stage.shown()["task"], "heartbeats say so")
        assert not waiting.done()
        assert stage.coordinator.show(stage.run)["barriers"][0]["step"] == 0, "the barrier itself was passed"
        stage.ask("order", command="resume")
        assert waiting.result(PATIENCE_S).step == 0


def test_stop_raises_in_the_middle_of_a_barrier_after_leaving(stage: Stage) -> None:
    with stage.connect("w1") as one, stage.connect("w2") as two:
        waiting = stage.later(one.barrier, "step", 0)
        stage.stands("w1")
        stage.ask("order", command="stop", member="w1", arguments={"reason": "too slow"})
        with pytest.raises(quoracy.Stopped, match="too slow"):
            waiting.result(PATIENCE_S)
        assert (stage.shown("w1")["state"], stage.shown("w1")["reason"]) == ("Left", "stopped by an operator too slow")
        assert two.barrier("step", 0).of == 1
        with pytest.raises(quoracy.Stopped):
            one.barrier("step", 0)


# -- setbacks and ends ---------------------------------------------------------------------------------------------


def test_a_roll_back_is_raised_once_and_the_next_call_recovers(stage: Stage) -> None:
    with stage.connect("w1") as one, stage.connect("w2") as two:
        for step in range(3):
            waiting = stage.later(one.barrier, "step", step)
            two.barrier("step", step)
            waiting.result(PATIENCE_S)
        waiting = stage.later(one.barrier, "step", 3)
        stage.stands("w1")
        stage.ask("roll-back", reason="the loss exploded")
        with pytest.raises(quoracy.RolledBack, match="the loss exploded") as rolled_back:
            waiting.result(PATIENCE_S)
        assert rolled_back.value.fence == 1
        assert one.recovering
        with pytest.raises(quoracy.Setback):
            wait_for(lambda: two.next_step("step") < 0, "never: it raises")
        assert (one.next_step("step"), two.next_step("step")) == (0, 0)
        waiting = stage.later(one.barrier, "step", 0)
        assert (two.barrier("step", 0).of, two.next_step("step")) == (2, 1)
        waiting.result(PATIENCE_S)


def test_a_stopped_run_ends_every_call(stage: Stage) -> None:
    with stage.connect("w1") as one, stage.connect("w2"):
        waiting = stage.later(one.barrier, "step", 0)
        stage.stands("w1")
        stage.ask("stop", reason="enough")
        with pytest.raises(quoracy.RunClosed, match="enough"):
            waiting.result(PATIENCE_S)
        with pytest.raises(quoracy.RunClosed):
            one.loading()
        with pytest.raises(quoracy.Ended):
            one.next_step("step")


def test_a_closed_worker_says_so(stage: Stage) -> None:
    worker = stage.connect()
    worker.close()
    worker.close()
    with pytest.raises(quoracy.Closed):
        worker.barrier("step", 0)
    with pytest.raises(quoracy.Closed):
        worker.progress()
    assert heartbeat_processes(worker._pid) == []


def test_closing_in_one_thread_ends_the_wait_in_another(stage: Stage) -> None:
    with stage.connect("w1") as one, stage.connect("w2"):
        waiting = stage.later(one.barrier, "step", 0)
        stage.stands("w1")
        one.close()
        with pytest.raises(quoracy.Closed):
            waiting.result(PATIENCE_S)


def test_a_script_that_fails_leaves_with_its_reason(stage: Stage) -> None:
    with pytest.raises(ZeroDivisionError), stage.connect():
        _ = 1 // 0
    assert stage.shown()["state"] == "Left"
    assert "failed with ZeroDivisionError" in stage.shown()["reason"]


def test_errors_survive_a_pickle_and_have_a_code_a_sentence_and_a_fix(stage: Stage) -> None:
    with stage.connect() as worker:
        with pytest.raises(quoracy.Rejected) as rejected:
            worker.checkpointing()
        stage.ask("stop", reason="enough")
        with pytest.raises(quoracy.RunClosed) as closed:
            wait_for(lambda: worker.next_step("step") < 0, "never: it raises")
    for error in (rejected.value, closed.value):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), again.code, again.fix) == (type(error), str(error), error.code, error.fix)


# -- the heartbeat process -----------------------------------------------------------------------------------------


def test_a_heartbeat_process_that_stands_still_is_replaced_in_the_same_incarnation(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quoracy.sdk.client.supervisor.LOOK_S", 1.5)
    coordinator.create("still", **QUICK | {"heartbeat_timeout_s": 30.0})
    with quoracy.connect(coordinator.url, "still", "w1") as worker:
        stopped = worker._heartbeats.pid
        assert stopped is not None
        wait_for(lambda: worker._memory.loops() > 0, "it has begun")
        stop(stopped)
        wait_for(lambda: worker.state and worker._heartbeats.pid != stopped, "another one is there")
        assert worker.barrier("step", 0).released
        assert worker.incarnation == 1


def test_a_read_that_was_interrupted_loses_nothing(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C at the worst moment: what was read is gone, and nobody has seen it."""

    def interrupted(sock: socket.socket, size: int) -> bytes:
        read = receive(sock, size)
        if not isinstance(read, bytes):
            return read
        monkeypatch.undo()
        raise KeyboardInterrupt

    with stage.connect() as worker:
        receive = driver.receive
        monkeypatch.setattr(driver, "receive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            worker.barrier("step", 0)
        assert worker.barrier("step", 0).generation == 1
        worker.loading()
        assert worker.barrier("step", 1).generation == 2
        assert worker.incarnation == 1


def test_heartbeat_processes_that_die_again_and_again_are_not_started_for_ever(stage: Stage) -> None:
    with stage.connect("w1") as one, stage.connect("w2"):
        waiting = stage.later(one.barrier, "step", 0)
        while not waiting.done():
            with contextlib.suppress(ProcessLookupError):
                if (pid := one._heartbeats.pid) is not None:
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        with pytest.raises(quoracy.HeartbeatProcessFailed, match="died 6 times"):
            waiting.result(PATIENCE_S)


# -- coming in -----------------------------------------------------------------------------------------------------


def test_nobody_at_the_address_is_said_with_address_tries_reason_and_fix() -> None:
    url = f"tcp://127.0.0.1:{free_port()}"
    began = time.monotonic()
    with pytest.raises(quoracy.Unreachable) as unreachable:
        quoracy.connect(url, RUN, "w1", connect_timeout_s=1.0)
    assert time.monotonic() - began < 5
    for part in (url, "tried ", "Connection refused", "quoracy serve"):
        assert part in str(unreachable.value)
    assert unreachable.value.code == "unreachable"


def test_somebody_who_accepts_and_never_answers_is_nobody() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(quoracy.Unreachable, match="for 1 s"):
            quoracy.connect(url, RUN, "w1", connect_timeout_s=1.0)


def test_a_coordinator_that_comes_a_little_later_is_found(tmp_path: Path) -> None:
    port = free_port()

    def begin() -> None:
        with Coordinator(tmp_path, port=port, store="memory") as running:
            running.create(RUN, **QUICK)
            joined.wait(PATIENCE_S)

    joined = threading.Event()
    timer = threading.Timer(0.3, begin)
    timer.start()
    try:
        with quoracy.connect(f"tcp://127.0.0.1:{port}", RUN, "w1") as worker:
            assert worker.barrier("step", 0).released
    finally:
        joined.set()
        timer.join()


def test_a_run_that_does_not_exist_is_named_at_once(stage: Stage) -> None:
    with pytest.raises(quoracy.Rejected, match="there is no run 'nope'") as rejected:
        quoracy.connect(stage.url, "nope", "w1")
    assert rejected.value.code == "unknown_run"


def test_a_full_fleet_is_said_at_once(coordinator: Coordinator) -> None:
    coordinator.create("small", **QUICK | {"max_workers": 1})
    with (
        quoracy.connect(coordinator.url, "small", "w1"),
        pytest.raises(quoracy.Rejected, match="max_workers = 1") as rejected,
    ):
        quoracy.connect(coordinator.url, "small", "w2")
    assert rejected.value.code == "fleet_full"


def test_a_false_token_is_not_tried_twice(stage: Stage) -> None:
    with pytest.raises(quoracy.AccessDenied) as denied:
        quoracy.connect(stage.url, stage.run, "w1", token="qrt1_member_nonsense.nonsense")
    assert denied.value.code == "bad_token"
    assert "quoracy token new" in denied.value.fix


def test_sigterm_is_only_handled_where_it_takes_nothing_away(stage: Stage) -> None:
    mine: Callable[[int, Any], None] = lambda _number, _frame: None  # noqa: E731
    before = signal.signal(signal.SIGTERM, mine)
    try:
        with stage.connect("w1"):
            assert signal.getsignal(signal.SIGTERM) is mine
        with stage.connect("w2", handle_sigterm=True):
            assert signal.getsignal(signal.SIGTERM) is not mine
        assert signal.getsignal(signal.SIGTERM) is mine, "given back"
        with pytest.raises(quoracy.ConfigError, match="handle_sigterm"):
            stage.later(stage.connect, "w3", handle_sigterm=True).result(PATIENCE_S)
        with stage.later(stage.connect, "w4").result(PATIENCE_S) as other:
            other.drain()
            with pytest.raises(quoracy.Draining) as draining:
                other.barrier("step", 0)
            assert draining.value.passage is not None
            assert other.draining
        with stage.connect("w5") as one, stage.connect("w6") as two:
            one.drain()
            waiting = stage.later(two.barrier, "step", 9)
            with pytest.raises(quoracy.Draining, match="different steps") as draining:
                one.barrier("step", 3)
            assert draining.value.passage is None, "that step does not count"
            with pytest.raises(quoracy.BarrierAborted):
                waiting.result(PATIENCE_S)
    finally:
        signal.signal(signal.SIGTERM, before)

"""The worker that awaits: the same facts as for the one that blocks, where waiting differs."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from tests.sdk.live import QUICK, free_port, heartbeat_process, heartbeat_processes

import quoracy
from quoracy.coordinator import Coordinator


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    with Coordinator(tmp_path_factory.mktemp("coordinator"), store="memory") as running:
        yield running


@pytest.fixture
def run(coordinator: Coordinator, request: pytest.FixtureRequest) -> str:
    name: str = request.node.name[:128]
    coordinator.create(name, **QUICK)
    return name


def shown(coordinator: Coordinator, run: str, member: str = "w1") -> dict[str, Any]:
    (found,) = [worker for worker in coordinator.show(run)["workers"] if worker["id"] == member]
    return found


async def keep_on(worker: quoracy.AsyncWorker) -> None:
    """Barrier after barrier, until something is raised."""
    for _ in range(10_000):
        await worker.barrier("step", await worker.next_step("step"))


def test_three_lines_keep_a_script_in_step(coordinator: Coordinator, run: str) -> None:
    async def script() -> int:
        async with quoracy.connect_async(coordinator.url, run, "w1") as worker:
            for step in range(await worker.next_step("step"), 5):
                passage = await worker.barrier("step", step)
        return passage.generation

    assert asyncio.run(script()) == 5
    assert shown(coordinator, run)["state"] == "Left"


def test_two_in_one_loop_are_released_together_and_states_are_durable(coordinator: Coordinator, run: str) -> None:
    async def script() -> None:
        one = await quoracy.connect_async(coordinator.url, run, "w1")
        two = await quoracy.connect_async(coordinator.url, run, "w2")
        await one.loading()
        await one.training()
        await one.checkpointing()
        await one.idle()
        early, late = await asyncio.gather(one.barrier("step", 0), two.barrier("step", 0))
        assert {early.order, late.order} == {0, 1}
        await one.close()
        await one.close()
        async with two:
            assert (await two.barrier("step", 1)).of == 1
        with pytest.raises(quoracy.Closed):
            await one.barrier("step", 1)

    asyncio.run(script())


def test_the_loop_is_free_while_a_worker_waits(coordinator: Coordinator, run: str) -> None:
    async def script() -> None:
        async with (
            quoracy.connect_async(coordinator.url, run, "w1") as one,
            quoracy.connect_async(coordinator.url, run, "w2") as two,
        ):
            waiting = asyncio.ensure_future(one.barrier("step", 0))
            for _ in range(100):
                await asyncio.sleep(0)
            assert not waiting.done()
            await two.barrier("step", 0)
            await waiting

    asyncio.run(script())


def test_a_cancelled_call_still_stands_there_and_the_next_one_goes_on_with_it(
    coordinator: Coordinator, run: str
) -> None:
    async def script() -> None:
        async with (
            quoracy.connect_async(coordinator.url, run, "w1") as one,
            quoracy.connect_async(coordinator.url, run, "w2") as two,
        ):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(one.barrier("step", 0), 0.05)
            with pytest.raises(quoracy.BarrierTimeout):
                await one.barrier("step", 0, timeout_s=0.05)
            assert (await two.barrier("step", 0)).of == 2
            assert (await one.barrier("step", 0)).order == 0

    asyncio.run(script())


def test_orders_pause_and_stop(coordinator: Coordinator, run: str) -> None:
    async def script() -> None:
        heard: list[str] = []
        settings = {"on_order": lambda order: heard.append(order.command)}
        async with quoracy.connect_async(coordinator.url, run, "w1", **settings) as worker:
            coordinator.ask("order", run, command="pause")
            waiting = asyncio.ensure_future(worker.barrier("step", 0))
            while "paused" not in (await asyncio.to_thread(shown, coordinator, run)).get("task", ""):
                await asyncio.sleep(0.005)
            assert not waiting.done()
            coordinator.ask("order", run, command="resume")
            assert (await waiting).released
            coordinator.ask("order", run, command="stop")
            with pytest.raises(quoracy.Stopped):
                await keep_on(worker)
            assert heard == ["pause", "resume", "stop"]

    asyncio.run(script())
    assert shown(coordinator, run)["reason"] == "stopped by an operator"


def test_a_roll_back_and_a_closed_run_are_raised(coordinator: Coordinator, run: str) -> None:
    async def script() -> None:
        async with quoracy.connect_async(coordinator.url, run, "w1") as worker:
            await worker.barrier("step", 0)
            coordinator.ask("roll-back", run, reason="the loss exploded")
            with pytest.raises(quoracy.RolledBack, match="the loss exploded"):
                await keep_on(worker)
            assert worker.recovering
            assert await worker.next_step("step") == 0
            coordinator.ask("stop", run, reason="enough")
            with pytest.raises(quoracy.RunClosed):
                await keep_on(worker)

    asyncio.run(script())


def test_without_auto_the_script_says_when_it_is_ready(coordinator: Coordinator, run: str) -> None:
    async def script() -> None:
        async with quoracy.connect_async(coordinator.url, run, "w1", auto=False) as worker:
            await worker.ready()
            await worker.barrier("step", 0)
            async with quoracy.connect_async(coordinator.url, run, "w1", auto=False) as newer:
                await newer.ready()
                assert newer.recovering
                await newer.recovered()
                await newer.barrier("step", 1)
                with pytest.raises(quoracy.Superseded):
                    await worker.barrier("step", 1)

    asyncio.run(script())


def test_a_killed_heartbeat_process_is_replaced_in_the_same_life(coordinator: Coordinator, run: str) -> None:
    async def script() -> None:
        async with quoracy.connect_async(coordinator.url, run, "w1") as worker:
            for step in range(3):
                beats = heartbeat_process(os.getpid())
                os.kill(beats, signal.SIGKILL)
                await worker.barrier("step", step)
                assert worker.incarnation == 1

    asyncio.run(script())
    assert heartbeat_processes(os.getpid()) == []


def test_nobody_at_the_address_is_said(coordinator: Coordinator) -> None:
    async def script() -> None:
        with pytest.raises(quoracy.Unreachable, match="Connection refused"):
            await quoracy.connect_async(f"tcp://127.0.0.1:{free_port()}", "run", "w1", connect_timeout_s=1.0)
        with pytest.raises(quoracy.Rejected, match="there is no run 'nope'"):
            async with quoracy.connect_async(coordinator.url, "nope", "w1"):
                pass

    asyncio.run(script())
    assert heartbeat_processes(os.getpid()) == []


def test_a_script_that_fails_leaves_with_its_reason(coordinator: Coordinator, run: str) -> None:
    async def script() -> None:
        async with quoracy.connect_async(coordinator.url, run, "w1"):
            raise ZeroDivisionError("by zero")

    with pytest.raises(ZeroDivisionError):
        asyncio.run(script())
    assert shown(coordinator, run)["reason"] == "failed with ZeroDivisionError: by zero"

"""A participant in an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.sdk.live import PATIENCE_S

import quoracy
from quoracy.coordinator import Coordinator

Weights = dict[str, Any]
START = {"a": np.zeros(3, np.float32)}


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    with Coordinator(tmp_path) as running:
        yield running


def test_a_trainer_that_awaits_runs_in_the_loop(coordinator: Coordinator, tmp_path: Path) -> None:
    coordinator.create("run", "federated", rounds=2)

    async def main() -> quoracy.Summary:
        loop = asyncio.get_running_loop()

        async def train(weights: Weights, task: quoracy.Task) -> tuple[Weights, int, None]:
            assert asyncio.get_running_loop() is loop
            await asyncio.sleep(0)
            weights["a"] += 1
            return weights, 1, None

        under_way = quoracy.participate_async(
            coordinator.url, train, "run", participant="p1", initial=START, cache=tmp_path / "cache"
        )
        return await asyncio.wait_for(under_way, PATIENCE_S)

    summary = asyncio.run(main())
    assert (summary.trained, summary.admitted, summary.ended) == (2, 2, "finished")


def test_a_cancelled_participant_leaves_properly(coordinator: Coordinator, tmp_path: Path) -> None:
    coordinator.create("run", "federated", clients=2)

    def state() -> str:
        found = coordinator.show("run")["participants"]
        return str(found[0]["state"]) if found else ""

    async def main() -> None:
        task = asyncio.ensure_future(
            quoracy.participate_async(
                coordinator.url, lambda w, t: (w, 1, {}), "run", participant="p1", cache=tmp_path / "cache"
            )
        )
        while await asyncio.to_thread(state) != "Waiting":
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert state() == "Left"

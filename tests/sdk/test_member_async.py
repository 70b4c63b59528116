"""A member of a witnessed run in an event loop."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.sdk.live import PATIENCE_S

import quoracy
from quoracy.coordinator import Coordinator

SMALL = {"init_min_clients": 1, "min_clients": 1, "total_steps": 4, "rounds_per_epoch": 2, "warmup_s": 5.0}


def test_a_member_trains_a_whole_run_while_the_loop_goes_on(tmp_path: Path) -> None:
    turns = 0

    async def beside() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0.005)

    async def main(url: str) -> quoracy.MemberSummary:
        other = asyncio.create_task(beside())
        under_way = quoracy.join_async(
            url, "digits", "one", member="m1", identity=tmp_path / "m1.key", cache=tmp_path / "cache"
        )
        summary = await asyncio.wait_for(under_way, PATIENCE_S)
        other.cancel()
        return summary

    with Coordinator(tmp_path / "data", http={"port": 0}) as coordinator:
        coordinator.create("one", "witnessed", **SMALL)
        summary = asyncio.run(main(coordinator.url))
    assert (summary.ended, summary.step) == ("finished", 4)
    assert turns > 10

"""``participate_async``: the same participant, for programs with an event loop.

A trainer that is a coroutine function runs in the event loop, any other one in the participant's own thread, so that a
training that computes for minutes does not hold up the loop.
"""

from __future__ import annotations

import asyncio
from typing import Any

from quoracy.core.errors import ConfigError
from quoracy.sdk.client.aio import take_part_async
from quoracy.sdk.federated.api import prepare
from quoracy.sdk.federated.task import Summary


async def participate_async(
    url: str | None = None, train: Any = None, run: str | None = None, **options: Any
) -> Summary:
    """See ``participate``, whose options these are. Cancelled, it leaves as after SIGTERM: a training under way has
    ``drain_s`` to end, and nothing of it is lost."""
    if not callable(train):
        raise ConfigError("train", train, "a function: train(weights, task) -> (weights, samples, metrics)")
    loop = asyncio.get_running_loop()

    def call(*given: Any) -> Any:
        returned = train(*given)
        if not asyncio.iscoroutine(returned):
            return returned
        return asyncio.run_coroutine_threadsafe(returned, loop).result()

    summary: Summary = await take_part_async(prepare, url, call, run, **options)
    return summary

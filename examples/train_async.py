"""The same loop for scripts that await: other work goes on while the worker stands at the barrier.

quoracy serve & quoracy run create demo
python examples/train_async.py --run demo
"""

from __future__ import annotations

import argparse
import asyncio

import quoracy


async def fetch(batches: asyncio.Queue[int]) -> None:
    """Something that must not wait for barriers, such as the next batches."""
    for number in range(10**9):
        await batches.put(number)


async def train(worker: quoracy.AsyncWorker, batches: asyncio.Queue[int], steps: int) -> None:
    step = await worker.next_step("step")
    while step < steps:
        await batches.get()
        try:
            passage = await worker.barrier("step", step)
        except (quoracy.Setback, quoracy.BarrierAborted) as error:
            print(f"{worker.member}: {error}", flush=True)
            step = await worker.next_step("step")
            continue
        step = passage.step + 1


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--url", default=None, help="tcp://host:port of the coordinator")
    parser.add_argument("--run", default="demo")
    parser.add_argument("--steps", type=int, default=100)
    told = parser.parse_args()
    batches: asyncio.Queue[int] = asyncio.Queue(maxsize=4)
    fetching = asyncio.create_task(fetch(batches))
    async with quoracy.connect_async(told.url, told.run) as worker:
        await train(worker, batches, told.steps)
        print(f"{worker.member}: {told.steps} steps, {batches.qsize()} batches ahead", flush=True)
    fetching.cancel()


if __name__ == "__main__":
    asyncio.run(main())

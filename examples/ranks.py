"""Equal processes in step, with no coordinator: start several of these, each with a rank of its own, on one store.

python examples/ranks.py sqlite:///tmp/run 0 &
python examples/ranks.py sqlite:///tmp/run 1 &
python examples/ranks.py sqlite:///tmp/run 2
"""

from __future__ import annotations

import asyncio
import sys

import quoracy


def train(store: str, rank: int, steps: int) -> int:
    committed = 0
    with quoracy.ranks(store, run="demo", rank=rank, t_dead_s=5.0) as ranks:
        for it in ranks.iterations():
            if it.number >= steps:
                break
            # compute gradients, and add them up with those of it.members, under the name it.group
            if it.vote(ok=True):
                committed += 1  # optimizer.step()
    return committed


def train_awaiting(store: str, rank: int, steps: int) -> int:
    async def train() -> int:
        committed = 0
        async with quoracy.ranks_async(store, run="demo", rank=rank, t_dead_s=5.0) as ranks:
            async for it in ranks.iterations():
                if it.number >= steps:
                    break
                committed += await it.vote()
        return committed

    return asyncio.run(train())


def tell(news: quoracy.News) -> None:
    if news.decision is not None and news.decision.gone:
        print(news.text)


def learn(store: str, rank: int, steps: int) -> list[int]:
    """Comes late and has to fetch the model, for which nobody waits."""
    with quoracy.ranks(store, run="demo", rank=rank, learner=True, on_news=tell) as ranks:
        for it in ranks.iterations():
            if it.learner:
                # download the model from one of it.donors, then:
                it.ready()
            elif it.number >= steps:
                break
            else:
                it.vote()
        return it.members


if __name__ == "__main__":
    print(train(sys.argv[1], int(sys.argv[2]), 1000), "iterations")

"""Keeps training processes in step: start several of these, under any names, against one coordinator.

quoracy serve &
quoracy run create demo
python examples/in_step.py tcp://127.0.0.1:7700 1000
"""

import sys

import quoracy


def train(url: str, steps: int) -> int:
    with quoracy.connect(url, run="demo") as worker:
        for step in range(worker.next_step("step"), steps):
            # train
            worker.barrier("step", step)
        return worker.rank


if __name__ == "__main__":
    train(sys.argv[1], int(sys.argv[2]))

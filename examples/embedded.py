"""A coordinator inside a Python program, with a worker in the same program."""

import sys

import quorate
from quorate.coordinator import Coordinator


def main(folder: str) -> str:
    with Coordinator(folder=folder) as coordinator:
        coordinator.create("demo", barrier_min=1)
        with quorate.connect(coordinator.url, run="demo") as worker:
            worker.barrier("step", 0)
            return coordinator.explain("demo")


if __name__ == "__main__":
    print(main(sys.argv[1]))

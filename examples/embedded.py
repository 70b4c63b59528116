"""A coordinator inside a Python program, with a worker in the same program."""

import sys

import quoracy
from quoracy.coordinator import Coordinator


def main(folder: str) -> str:
    with Coordinator(folder=folder) as coordinator:
        coordinator.create("demo", barrier_min=1)
        with quoracy.connect(coordinator.url, run="demo") as worker:
            worker.barrier("step", 0)
            return coordinator.explain("demo")


if __name__ == "__main__":
    print(main(sys.argv[1]))

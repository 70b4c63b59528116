"""Data-parallel training in plain Python, kept in step by a barrier. Any number of workers, which may come and go.

    quoracy serve &
    quoracy run create demo
    python examples/train.py --run demo &      # start as many as you like, whenever you like; kill any of them
    python examples/train.py --run demo

Every worker fits y = a x + b to points of its own. In each step it writes its gradient into a folder that all can
reach, stands at the barrier, reads all gradients, and takes the same step as everybody else. Whoever comes late,
or comes back, loads the weights of the step before. A real training would exchange tensors in another way; what it asks
of Quoracy is the same: "is everybody here?"
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from pathlib import Path

import quoracy

Weights = tuple[float, float]
RATE = 0.2


def points(member: str, count: int = 50) -> list[tuple[float, float]]:
    """What this worker has measured. Nobody else ever sees it."""
    dice = random.Random(member)  # noqa: S311 - an example
    xs = [dice.uniform(-1, 1) for _ in range(count)]
    return [(x, 3 * x + 1 + dice.gauss(0, 0.01)) for x in xs]


def gradient(weights: Weights, measured: list[tuple[float, float]]) -> Weights:
    a, b = weights
    errors = [(a * x + b - y, x) for x, y in measured]
    return (2 * sum(e * x for e, x in errors) / len(errors), 2 * sum(e for e, _ in errors) / len(errors))


def write(path: Path, value: Weights) -> None:
    """There whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}")
    unfinished.write_text(json.dumps(value))
    unfinished.rename(path)


def read(path: Path, patience_s: float = 10.0) -> Weights:
    """Waits for it: those who were here before write the weights as soon as they have passed the barrier."""
    deadline = time.monotonic() + patience_s
    while not path.exists():
        if time.monotonic() > deadline:
            raise FileNotFoundError(path)
        time.sleep(0.01)
    first, second = json.loads(path.read_text())
    return first, second


def load(folder: Path, step: int) -> Weights:
    """The weights with which this step begins."""
    return (0.0, 0.0) if step == 0 else read(folder / f"weights-{step - 1}.json")


def train(worker: quoracy.Worker, folder: Path, steps: int) -> Weights:
    measured = points(worker.member)
    step = worker.next_step("step")
    weights = load(folder, step)
    while step < steps:
        write(folder / f"gradients-{step}" / f"{worker.member}.json", gradient(weights, measured))
        try:
            worker.barrier("step", step)
        except (quoracy.Setback, quoracy.BarrierAborted) as error:
            print(f"{worker.member}: {error}", flush=True)
            step = worker.next_step("step")
            weights = load(folder, step)
            continue
        gradients = [read(path) for path in sorted((folder / f"gradients-{step}").glob("*.json"))]
        down = [sum(part) / len(gradients) for part in zip(*gradients, strict=True)]
        weights = (weights[0] - RATE * down[0], weights[1] - RATE * down[1])
        write(folder / f"weights-{step}.json", weights)
        step += 1
    return weights


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--url", default=None, help="tcp://host:port of the coordinator")
    parser.add_argument("--run", default="demo")
    parser.add_argument("--member", default=None, help="who this is, across restarts")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--folder", type=Path, default=Path("weights"), help="one that all workers can reach")
    told = parser.parse_args()
    try:
        with quoracy.connect(told.url, told.run, told.member) as worker:
            a, b = train(worker, told.folder, told.steps)
            print(f"{worker.member}: y = {a:.4f} x + {b:.4f}", flush=True)
    except quoracy.Draining as error:
        print(f"drained: {error}", flush=True)


if __name__ == "__main__":
    main()

"""``python -m quoracy.demo.participant URL NAME SAMPLES PART OF MANNER``: a participant of the demonstration.

``MANNER``: honest; slow, which takes its time from the third round on; or poison, which sends nothing but lies, each
time another. How it ended is printed as one JSON object.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import msgspec

import quoracy
from quoracy.demo.federated import RUN, SEED
from quoracy.learn import mlp
from quoracy.learn.experiment import SIZES, lied, source
from quoracy.learn.partition import partitions

SLOW_FROM, SLOW_S = 2, 1.5
LIES = ("nan", "shape", "scale")


def main(url: str, name: str, samples: str, part: int, parts: int, manner: str) -> None:
    where = source(samples)
    x, y = where.load("train", partitions("iid", where.labels("train"), parts, SEED)[part])
    told: list[str] = []

    def train(weights: dict[str, Any], task: quoracy.Task) -> tuple[dict[str, Any], int, dict[str, float]]:
        if manner == "slow" and task.round >= SLOW_FROM:
            time.sleep(SLOW_S)
        trained = mlp.train(
            weights, x, y, epochs=task.epochs, batch_size=task.hyper["batch_size"], lr=task.hyper["lr"], seed=part,
            epoch_base=task.epoch_base,
        )  # fmt: skip
        new = trained.weights
        if manner == "poison":
            new = lied(LIES[len(told) % len(LIES)], weights, new, part)  # type: ignore[arg-type]
            told.append("a lie")
        return new, len(x), {"loss": trained.losses[-1]}

    ended: dict[str, Any] = {}
    try:
        summary = quoracy.participate(
            url, train, run=RUN, participant=name, check=manner != "poison",
            initial=(lambda: mlp.initial(SIZES[samples], SEED)) if manner == "honest" else None,
        )  # fmt: skip
        ended = {"ended": summary.ended, "admitted": summary.admitted, "refused": summary.refused}
    except quoracy.QuoracyError as error:
        ended = {"ended": error.code, "why": str(error)}
    sys.stdout.write(msgspec.json.encode(ended).decode() + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), sys.argv[6])

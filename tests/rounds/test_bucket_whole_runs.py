"""Whole runs with the SDK's own participants and weights in S3: the same bytes as on a local disk, round by round.

The rules are such that keep a state: what one round puts into the bucket the next one has to read from there.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from blake3 import blake3
from tests.doors.talk import RUN
from tests.objects.weed import VARIABLES, Weed, opened_at
from tests.rounds.party import KEYS
from tests.sdk.live import PATIENCE_S

import quoracy
from quoracy.coordinator import Coordinator
from quoracy.ports import Objects
from quoracy.sdk.federated import weights as depot

ROUNDS = 4
SAMPLES = {"north": 30, "south": 10, "west": 7}
Weights = dict[str, Any]


def start() -> Weights:
    return {"a": np.linspace(-1, 1, 600, dtype=np.float32).reshape(20, 30), "steps": np.zeros((), np.int64)}


def train(weights: Weights, task: quoracy.Task) -> tuple[Weights, int, dict[str, float]]:
    """Everybody pulls in a direction of their own: the same one in every run."""
    pull = np.random.Generator(np.random.PCG64([task.round, SAMPLES[task.participant]])).random((20, 30), np.float32)
    weights["a"] -= task.hyper["lr"] * (weights["a"] - pull)
    weights["steps"] += SAMPLES[task.participant]
    return weights, SAMPLES[task.participant], {"loss": float(np.mean(weights["a"]))}


def played(folder: Path, rule: str, objects: str) -> list[tuple[str, str]]:
    """Digests of the model and of what the rule kept, of each round."""
    settings: dict[str, Any] = {"workshop.modules": [__name__]} | ({"store.objects": objects} if objects else {})
    with Coordinator(folder=folder, **settings) as coordinator, ThreadPoolExecutor(len(SAMPLES)) as threads:
        coordinator.create(
            RUN, "federated", clients=len(SAMPLES), rounds=ROUNDS, aggregation={"rule": rule}, hyper={"lr": 0.25},
            evaluation=f"{__name__}:evaluate",
        )  # fmt: skip

        def take_part(name: str) -> quoracy.Summary:
            return quoracy.participate(
                coordinator.url, train, RUN, participant=name, initial=start, weights="store", cache=folder / name
            )

        summaries = list(threads.map(take_part, SAMPLES, timeout=2 * PATIENCE_S))
        assert [(s.admitted, s.refused, s.ended) for s in summaries] == [(ROUNDS, (), "finished")] * len(SAMPLES)
        entries = coordinator.ask("journal", RUN, limit=1000)["entries"]
    done = [event for entry in entries for event in entry["events"] if event["type"] == "duty-done"]
    made = [event["result"] for event in done if "weights" in (event["result"] or {})]
    return [(str(result["weights"]), str(result["state"])) for result in made]


def evaluate(weights: Weights, _task: Any) -> dict[str, float]:
    return {"mean": float(weights["a"].mean())}


def check(store: Objects, made: list[tuple[str, str]]) -> None:
    """Everything is there under its digest, and under the names for people."""
    for model, state in made:
        for digest in (model, state):
            assert blake3(store.get(KEYS.blob(digest), 100_000)).hexdigest() == digest
    for number, (model, _) in enumerate(made):
        assert blake3(store.get(KEYS.model(number + 1), 100_000)).hexdigest() == model
        for name in SAMPLES:
            assert store.head(KEYS.update(number, name)) is not None


@pytest.mark.parametrize("rule", ["fedavgm", "fedadam"])
def test_whole_runs_in_s3_come_to_the_same_bytes_as_on_a_disk(
    rule: str, weed: Weed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, secret in VARIABLES.items():
        monkeypatch.setenv(name, secret)
    uploads: list[str] = []
    whole = depot.StoreWeights.upload

    def noted(self: depot.StoreWeights, path: Path, digest: str) -> None:
        uploads.append(digest)
        whole(self, path, digest)

    monkeypatch.setattr(depot.StoreWeights, "upload", noted)
    url = weed.url()
    here = played(tmp_path / "here", rule, "")
    on_disk = set(uploads)
    uploads.clear()
    there = played(tmp_path / "there", rule, url)
    assert here == there
    assert len({state for _, state in there}) == ROUNDS, "every round has put another state into the bucket"
    assert set(uploads) == on_disk, "participants went to the store themselves, with the same updates"
    assert len(on_disk) == ROUNDS * len(SAMPLES) + 1
    check(opened_at(url), there)
    assert not (tmp_path / "there" / "objects").exists()

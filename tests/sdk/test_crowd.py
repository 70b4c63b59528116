"""Many participants in one process: what one of them does wrong is its own affair, and the round goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.sdk.live import PATIENCE_S

from quoracy.coordinator import Coordinator
from quoracy.launch.crowd import Crowd, Fate
from quoracy.launch.crowd_process import Hands, Wish
from quoracy.sdk.client.address import parse_address

NAMES = ("good-1", "good-2", "odd")
CONFIG = {"clients": 3, "rounds": 2, "count_min": 2, "heartbeat_interval_s": 0.1, "heartbeat_timeout_s": 5.0}


def make(arguments: dict[str, Any]) -> Any:
    """Trainers that add one, and an odd one that does in the last round what it was told."""

    def train(member: str, weights: Any, work: Any) -> Any:
        if weights is None:
            return {"a": np.zeros(3, np.float32)}, 0, {}, {}
        metrics, samples = {"loss": 0.5}, 10
        if member == "odd" and work.round == 1:
            if "raises" in arguments:
                raise ValueError(arguments["raises"])
            metrics["loss"] = float(arguments.get("loss", 0.5))
            samples = int(arguments.get("samples", 10))
        return {"a": weights["a"] + np.float32(1)}, samples, metrics, {}

    return train


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    with Coordinator(tmp_path_factory.mktemp("coordinator")) as running:
        yield running


def together(coordinator: Coordinator, run: str, scratch: Path, **arguments: Any) -> dict[str, Fate]:
    coordinator.create(run, "federated", **CONFIG)
    store = str(coordinator.ask("weights", run)["store"])
    members = {name: {"initial": name == "good-1"} for name in NAMES}
    wish = Wish(coordinator.url, run, members, store, "tests.sdk.test_crowd:make", arguments)
    address = parse_address(coordinator.url)
    assert address is not None

    async def hold() -> dict[str, Fate]:
        crowd = Crowd([address], run, members, Hands(wish, scratch).serve)
        async with asyncio.timeout(PATIENCE_S):
            return await crowd.run()

    return asyncio.run(hold())


def went(coordinator: Coordinator, run: str) -> list[int]:
    """How many updates each round had."""
    return [row["updates"] for row in coordinator.show(run)["history"]]


@pytest.mark.parametrize("loss", ["nan", "inf", "1e301"])
def test_a_metric_that_is_no_number_costs_the_metric_and_not_the_update(
    coordinator: Coordinator, tmp_path: Path, loss: str
) -> None:
    run = f"loss-{loss}"
    fates = together(coordinator, run, tmp_path, loss=loss)
    assert went(coordinator, run) == [3, 3]
    assert [fates[name].admitted for name in NAMES] == [2, 2, 2]
    first, second = coordinator.ask("reports", run, member="odd")["rounds"]
    assert (first["metrics"], first["warnings"]) == ({"loss": 0.5}, [])
    assert (second["metrics"], second["fate"]) == ({}, "Admitted")
    assert "metrics.loss is left out" in second["warnings"][0]


def test_one_whose_offer_cannot_be_taken_is_out_and_the_rounds_go_on(
    coordinator: Coordinator, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fates = together(coordinator, "nothing", tmp_path, samples=0)
    assert went(coordinator, "nothing") == [3, 2]
    assert [fates[name].admitted for name in NAMES] == [2, 2, 1]
    ended = fates["odd"].ended
    assert ended is not None
    assert (ended.code, ended.why[:11]) == ("malformed", "samples = 0")
    assert [record.getMessage() for record in caplog.records if "odd is out: samples = 0" in record.getMessage()]


def test_one_whose_training_fails_leaves_and_the_rounds_go_on(coordinator: Coordinator, tmp_path: Path) -> None:
    fates = together(coordinator, "raises", tmp_path, raises="the disk is full")
    assert went(coordinator, "raises") == [3, 2]
    assert fates["odd"].admitted == 1
    (odd,) = [one for one in coordinator.show("raises")["participants"] if one["id"] == "odd"]
    assert (odd["state"], odd["reason"]) == ("Left", "its training failed: the disk is full")

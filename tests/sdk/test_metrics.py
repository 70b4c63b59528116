"""What a training measures itself: from ``report`` over the shared memory and the heartbeat to what people see."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.live import QUICK, wait_for

import quoracy
from quoracy.coordinator import Coordinator
from quoracy.core.cluster import explain
from quoracy.core.cluster.events import Heartbeat
from quoracy.core.errors import ConfigError
from quoracy.sdk.client import vitals
from quoracy.sdk.client.memory import _METRICS, Memory
from quoracy.sdk.client.metrics import MAX_METRICS, check_metrics, check_number
from quoracy.sdk.cluster import client

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    with Coordinator(tmp_path_factory.mktemp("coordinator"), store="memory") as running:
        yield running


def shown(coordinator: Coordinator, run: str) -> dict[str, Any]:
    (worker,) = coordinator.show(run)["workers"]
    metrics: dict[str, Any] = worker.get("metrics", {})
    return metrics


# -- a worker ------------------------------------------------------------------------------------------------------


def test_metrics_are_shown_and_stay_until_they_are_reported_again(coordinator: Coordinator) -> None:
    coordinator.create("stay", **QUICK)
    with quoracy.connect(coordinator.url, "stay", "w1") as worker:
        worker.report(step=3, loss=0.5, lr=1e-4)
        wait_for(lambda: shown(coordinator, "stay") == {"loss": 0.5, "lr": 1e-4}, "both are seen")
        worker.report(loss=0.25, accuracy=1)
        expected = {"loss": 0.25, "lr": 1e-4, "accuracy": 1.0}
        wait_for(lambda: shown(coordinator, "stay") == expected, "one has changed")


def test_metrics_of_a_worker_that_awaits(coordinator: Coordinator) -> None:
    coordinator.create("awaits", **QUICK)

    async def train() -> None:
        async with quoracy.connect_async(coordinator.url, "awaits", "w1") as worker:
            worker.report(loss=2.5)
            await asyncio.to_thread(wait_for, lambda: shown(coordinator, "awaits") == {"loss": 2.5}, "it is seen")

    asyncio.run(train())


def test_a_number_that_is_not_finite_is_left_out_until_it_is(
    coordinator: Coordinator, caplog: pytest.LogCaptureFixture
) -> None:
    """A loss that overflows for a step, as with half precision, must neither end the training nor its heartbeats."""
    coordinator.create("overflows", **QUICK)
    with quoracy.connect(coordinator.url, "overflows", "w1") as worker, caplog.at_level(logging.WARNING, "quoracy"):
        worker.report(loss=1.0, lr=0.5)
        wait_for(lambda: shown(coordinator, "overflows") == {"loss": 1.0, "lr": 0.5}, "both are seen")
        for wrong in (float("nan"), float("inf"), -float("inf"), 1e301):
            worker.report(loss=wrong)
        wait_for(lambda: shown(coordinator, "overflows") == {"lr": 0.5}, "the loss is left out")
        worker.report(loss=0.75)
        wait_for(lambda: shown(coordinator, "overflows") == {"loss": 0.75, "lr": 0.5}, "the loss is back")
        assert worker.incarnation == 1
    told = [record.getMessage() for record in caplog.records]
    assert told == ["loss of w1 is nan: left out until it is finite"]


@pytest.mark.parametrize(
    ("metrics", "field", "fix"),
    [
        ({"two words": 1.0}, "metric", "a letter, then"),
        ({"": 1.0}, "metric", "a letter, then"),
        ({"x" * 65: 1.0}, "metric", "a letter, then"),
        ({"verlust-é": 1.0}, "metric", "a letter, then"),
        ({"loss": "much"}, "loss", "a number"),
        ({"loss": None}, "loss", "a number"),
        ({"loss": [1.0, 2.0]}, "loss", "a number"),
        ({f"m{i}": 1.0 for i in range(17)}, "metrics", "at most 16"),
    ],
)
def test_what_is_no_metric_is_refused_at_once(
    coordinator: Coordinator, metrics: dict[str, Any], field: str, fix: str
) -> None:
    if "refused" not in {run["run"] for run in coordinator.ask("runs")}:
        coordinator.create("refused", **QUICK)
    with quoracy.connect(coordinator.url, "refused", "w1") as worker:
        worker.report(good=1.0)
        with pytest.raises(ConfigError, match=fix) as caught:
            worker.report(**metrics)
        assert caught.value.field == field
        worker.report(good=2.0)
        wait_for(lambda: shown(coordinator, "refused").get("good") == 2.0, "the others go on")
        assert shown(coordinator, "refused") == {"good": 2.0}


def test_sixteen_names_and_no_more_also_one_by_one() -> None:
    known: frozenset[str] = frozenset()
    for i in range(MAX_METRICS):
        known = check_metrics([f"m{i}"], known)
    assert check_metrics(["m3"], known) == known
    with pytest.raises(ConfigError, match="these are 17"):
        check_metrics(["one_more"], known)


def test_whatever_becomes_a_number_is_one() -> None:
    class Tensor:
        def __float__(self) -> float:
            return 0.5

    class Many:
        def __float__(self) -> float:
            raise RuntimeError("only one element tensors can be converted")

    assert [check_number("x", value) for value in (1, 2.5, True, Tensor())] == [1.0, 2.5, 1.0, 0.5]
    for value in (Many(), 10**400, object()):
        with pytest.raises(ConfigError, match="a number"):
            check_number("x", value)


# -- memory ------------------------------------------------------------------------------------------------------


def test_the_largest_metrics_fit_into_memory_beside_everything_else() -> None:
    largest = {f"{'x' * 62}{i:02d}": 1e300 / 3 for i in range(MAX_METRICS)}
    with closing(Memory.create()) as memory:
        memory.name_task("😀" * 128)
        memory.loop()
        memory.progress(5)
        memory.report(7, 8, 0.5)
        memory.measure(largest)
        assert memory.read_metrics() == largest
        assert (memory.loops(), memory.read_progress(), memory.read_report()) == (1, 5, (7, 8, 0.5))
        assert memory.read_task() == "😀" * 128


def test_metrics_that_are_being_written_are_read_as_they_were() -> None:
    with closing(Memory.create()) as memory, closing(other_side(memory)) as beside:
        assert beside.read_metrics() == {}
        memory.measure({"loss": 1.0})
        assert beside.read_metrics() == {"loss": 1.0}
        for offset in range(40):
            before = memory._bytes[_METRICS + offset]
            memory._bytes[_METRICS + offset] ^= 0x55
            assert beside.read_metrics() in ({"loss": 1.0}, {})
            memory._bytes[_METRICS + offset] = before
        memory.measure({"lr": 2.0}, without=["loss"])
        assert beside.read_metrics() == {"lr": 2.0}


def test_a_reader_never_sees_half_of_it() -> None:
    with closing(Memory.create()) as memory, closing(other_side(memory)) as beside:
        done = threading.Event()
        seen: list[dict[str, float]] = []

        def read() -> None:
            while not done.is_set():
                if metrics := dict(beside.read_metrics()):
                    seen.append(metrics)

        reader = threading.Thread(target=read)
        reader.start()
        i = 0
        while i < 20_000 or len(seen) <= 10:  # until the reader has had its turn, however busy the machine is
            memory.measure({"a": float(i), "b" * (1 + i % 60): float(i)}, without=["b" * (1 + (i - 1) % 60)])
            i += 1
        done.set()
        reader.join()
        assert all(len(metrics) == 2 and len(set(metrics.values())) == 1 for metrics in seen)


def other_side(memory: Memory) -> Memory:
    """The same memory, as the heartbeat process sees it."""
    return Memory(os.dup(memory.fd))


def test_metrics_are_the_last_field_of_a_heartbeat() -> None:
    """A member of an earlier time sends none."""
    assert Heartbeat.__struct_fields__[-1] == "metrics"
    assert Heartbeat("w", 1, 1).metrics == {}


def test_the_example_shows_what_it_measures(coordinator: Coordinator) -> None:
    coordinator.create("demo", **QUICK)
    script = [sys.executable, "-W", "error", str(ROOT / "examples" / "measured.py"), coordinator.url, "1000000000"]
    with subprocess.Popen(script) as process:
        try:

            def measured() -> dict[str, Any]:
                workers = coordinator.show("demo")["workers"]
                return workers[0].get("metrics", {}) if workers else {}

            wait_for(lambda: measured().keys() == {"loss", "learning_rate"}, "its metrics are seen")
        finally:
            process.kill()


def test_docs_name_the_limit() -> None:
    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert f"at most {MAX_METRICS} names" in text


def test_what_a_heartbeat_says_of_a_halted_training_is_what_explain_looks_for() -> None:
    assert set(vitals.STOPPED.values()) == explain.HALTS
    assert client.PAUSED == explain.PAUSED

"""How long a federated round takes if there is nothing to train: what is left is ours.

A round begins, its participants fetch the model, write an update and have it on disk, it is examined and journaled, all
of them become the next model, which is written too, and the next round begins. From one beginning to the next is what
is measured; the middle of several. Up to ten participants are processes of their own, each with the SDK and its
heartbeat process; a hundred are in four processes.

Weights go two ways. Participants on the coordinator's machine share the folder of its object store, and no byte crosses
a socket: that is ``round_ms``. Those on other machines fetch and bring them through the coordinator's HTTP API: that is
``http_round_ms``, where every participant has a cache of its own, so that it fetches the model itself, over a socket,
and its update comes back over another. That is the one to hold beside others.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from quoracy.bench.crowd import percentile
from quoracy.launch import coordinating, crowds
from quoracy.launch.crowd_process import Wish
from quoracy.learn.mlp import ONE_THREAD
from quoracy.report import Measurement, Report
from quoracy.sdk.client.ask import Asker, rounds_over

Way = Literal["folder", "http"]
RUN: Final = "bench"
MEGABYTE: Final = 1_000_000
WARM: Final = 2
"""Rounds that are not counted: programs are loaded in them."""
PROCESSES: Final = 4
ALONE: Final = 10
"""Up to so many participants have a process each."""
PATIENCE_S: Final = 240.0


class Case(msgspec.Struct, frozen=True):
    size_mb: int
    participants: int
    rounds: int
    target_ms: float | None = None
    way: Way = "folder"

    @property
    def name(self) -> str:
        prefix = "http_" if self.way == "http" else ""
        return f"{prefix}round_ms_{self.size_mb}mb_{self.participants}"


CASES: Final = (
    Case(1, 2, 20),
    Case(1, 10, 20, 100.0),
    Case(1, 100, 8),
    Case(50, 10, 5, 3000.0),
    Case(1, 10, 20, 50.0, "http"),
    Case(50, 10, 5, 1300.0, "http"),
)


def bench_rounds() -> Report:
    began_s = time.monotonic()
    report = Report("bench rounds")
    for case in CASES:
        periods_ms = measure(case)
        middle = round(percentile(periods_ms, 0.5), 1)
        slowest = round(max(periods_ms), 1)
        moved = f"; {2 * case.participants * case.size_mb} MB over sockets in each" if case.way == "http" else ""
        against = f"{len(periods_ms)} rounds, the slowest {slowest:g} ms{moved}"
        report.measurements.append(Measurement(case.name, middle, "ms", case.target_ms, "at most", against))
    report.notes.append(
        "everything on two cores: coordinator, its workshop, and all participants. round_ms: they share the folder of "
        "the object store. http_round_ms: each fetches the model and brings its update through the HTTP API; uploads "
        "are on disk before they are acknowledged."
    )
    report.seconds = time.monotonic() - began_s
    return report


def measure(case: Case) -> list[float]:
    """Milliseconds from each beginning of a round to the next."""
    with (
        tempfile.TemporaryDirectory(prefix="quoracy-bench-", dir=Path.cwd()) as name,
        coordinating(Path(name)) as coordinator,
        Asker(coordinator.url) as asker,
    ):
        config = {"clients": case.participants, "rounds": case.rounds + WARM + 1}
        asker.ask("create", RUN, kind="federated", config=config)
        with _participants(case, coordinator.url, Path(name)):
            rows = _rounds(asker)
    begins = [row["began_s"] for row in rows]
    return [1000 * (after - before) for before, after in zip(begins[WARM:], begins[WARM + 1 :], strict=False)]


def _rounds(asker: Asker) -> list[dict[str, Any]]:
    deadline_s = time.monotonic() + PATIENCE_S
    while (phase := (shown := asker.ask("show", RUN)).get("phase")) != "Finished":
        if time.monotonic() > deadline_s or phase in ("Paused", "Stopped"):
            waits = shown["explanation"]["sentence"]
            raise TimeoutError(f"{phase}, round {shown.get('round')}: {waits}")
        time.sleep(0.25)
    return rounds_over(asker, RUN)


@contextlib.contextmanager
def _participants(case: Case, url: str, folder: Path) -> Iterator[None]:
    names = [f"participant-{number:03d}" for number in range(case.participants)]
    size_bytes = case.size_mb * MEGABYTE
    if case.participants > ALONE:
        if case.way == "http":
            raise ValueError(f"participants = {case.participants}: at most {ALONE} through the HTTP API")
        members: dict[str, dict[str, Any]] = {name: {"initial": True} for name in names}
        wish = Wish(
            url, RUN, members, f"file://{folder}/objects", "quoracy.bench.nothing:make", {"size_bytes": size_bytes}
        )
        with crowds(wish, PROCESSES):
            yield
        return
    processes = []
    try:
        for name in names:
            cache = str(folder / f"cache-{name}") if case.way == "http" else ""
            command = [sys.executable, "-m", "quoracy.bench.nothing", url, RUN, name, str(size_bytes), cache]
            processes.append(subprocess.Popen(command, env=os.environ | ONE_THREAD))  # noqa: S603 - ourselves
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()

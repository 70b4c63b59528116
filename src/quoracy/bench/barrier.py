"""How long a barrier takes end to end, durable: from the last arrival sent to the last release received.

A hundred and a thousand workers, each with a connection of its own, all in one process on the other core; everybody
arrives at once, so the last one's time holds the reading of all. Beside it, in the same run: the coordinator's own
share, its commits, and bare fsyncs in the same place.

Then, if torch is installed, beside a barrier on ``torch.distributed.TCPStore``: in turns, and with both the last one
comes when all others stand there, since a client of a TCPStore has to wait for its ``add`` and cannot arrive at once.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from quoracy.bench.crowd import SETTLE_S, WARM, Crowd, child, clock, create_run, on_other_core, percentile
from quoracy.bench.journal import fsyncs_us
from quoracy.bench.tcpstore import has_torch, tcpstore_barrier_ms
from quoracy.report import Measurement, Report
from quoracy.version import INSTALL_TORCH

SIZES = {100: 300, 1000: 60}
"""Workers, and how many barriers they pass."""
TARGETS_MS = {100: 10.0, 1000: 100.0}
PEER_WORKERS = 100
PEER_ROUNDS = 150
TURNS = 3
QUIET = 0.1
"""Beside the peer the tenth percentile counts: others share this machine, and a hundred threads suffer from them more
than one loop does. In a quiet moment both show what they can."""


class Passed(NamedTuple):
    times_ms: list[float]
    commits_ms: list[float]
    own_ms: list[float]
    """The server's share: from the last arrival read to the last release written."""


def bench_barrier() -> Report:
    on_other_core()
    report = Report("bench barrier")
    with tempfile.TemporaryDirectory(prefix="quoracy-bench-", dir=Path.cwd()) as folder:
        fsync_ms = [us / 1000 for us in fsyncs_us(Path(folder) / "fsync")]
    for size, rounds in SIZES.items():
        passed, target = measure("sqlite", size, rounds), TARGETS_MS[size]
        beside = f"its own commits p99 {percentile(passed.commits_ms, 0.99):.2f} ms, "
        beside += f"bare fsync p99 {percentile(fsync_ms, 0.99):.2f} ms"
        own = "last arrival read to last release written, in the server"
        report.measurements += [
            Measurement(f"barrier_{size}_p50_ms", _at(passed.times_ms, 0.5), "ms"),
            Measurement(f"barrier_{size}_p99_ms", _at(passed.times_ms, 0.99), "ms", target, "at most", beside),
            Measurement(f"barrier_{size}_server_p50_ms", _at(passed.own_ms, 0.5), "ms"),
            Measurement(f"barrier_{size}_server_p99_ms", _at(passed.own_ms, 0.99), "ms", None, "at most", own),
        ]
        report.notes.append(_limit(size, passed))
    _beside_tcpstore(report)
    return report


def _limit(size: int, passed: Passed) -> str:
    whole, commit, own = (percentile(times_ms, 0.5) for times_ms in passed)
    return (
        f"{size} workers, medians: of {whole:.2f} ms {own:.2f} are the server's, from the last arrival read. "
        f"{commit:.2f} of these are the durable commit, before which nobody is told; the rest is the interpreter, "
        "which decides about the arrivals, and encodes and writes the releases, a system call each. Before that the "
        "server reads the other arrivals, and after it the clients' process reads the releases."
    )


def _beside_tcpstore(report: Report) -> None:
    if not has_torch():
        report.notes.append(f"torch is not installed, so there is no TCPStore to measure beside: {INSTALL_TORCH}")
        return
    times: dict[str, list[float]] = {"memory": [], "sqlite": [], "peer": []}
    for _ in range(TURNS):
        for store in ("memory", "sqlite"):
            times[store] += measure(store, PEER_WORKERS, PEER_ROUNDS, SETTLE_S).times_ms
        times["peer"] += tcpstore_barrier_ms(PEER_WORKERS, PEER_ROUNDS)
    for name, store, target, what in (
        ("barrier_vs_tcpstore", "memory", 1.0, "journal in memory"),
        ("barrier_vs_tcpstore_durable", "sqlite", 2.0, "journal fsynced"),
    ):
        ratio = percentile(times[store], QUIET) / percentile(times["peer"], QUIET)
        against = f"{what}: {_quiet(times[store])}; TCPStore, which keeps nothing: {_quiet(times['peer'])}"
        report.measurements.append(Measurement(name, round(ratio, 2), "x", target, "at most", against))
    report.notes.append(
        f"Beside TCPStore: {PEER_WORKERS} clients on one core, each server alone on the other, {TURNS} turns of "
        f"{PEER_ROUNDS} barriers each; the last one arrives when all others stand there. Tenth percentiles are "
        "compared. TCPStore's clients are threads in C++ that are woken one by one, ours are one loop in Python."
    )


def _quiet(times_ms: list[float]) -> str:
    return f"p10 {percentile(times_ms, QUIET):.2f} ms, p50 {percentile(times_ms, 0.5):.2f} ms"


def _at(times_ms: list[float], share: float) -> float:
    return round(percentile(times_ms, share), 2)


def measure(store: str, size: int, rounds: int, settle_s: float = 0.0) -> Passed:
    """``settle_s``: before the last one arrives, for all others to stand there."""
    with child(store) as server:
        create_run(server.address(), max_workers=size, barrier_min=size, heartbeat_timeout_s=600.0)
        crowd = Crowd(server.address(), size)
        try:
            times = [_barrier(crowd, step, settle_s) * 1000 for step in range(WARM + rounds)][WARM:]
        finally:
            crowd.close()
        measured = server.stop()
    commits_ms, own_ms = ([us / 1000 for us in measured[what][-rounds:]] for what in ("commits_us", "own_us"))
    return Passed(times, commits_ms, own_ms)


def _barrier(crowd: Crowd, step: int, settle_s: float) -> float:
    *others, (last, arrival) = [(link, link.arrival(step)) for link in crowd.links]
    for link, message in others:
        link.socket.send(message)
    if settle_s:
        time.sleep(settle_s)
    began = clock()
    last.socket.send(arrival)
    missing = len(crowd.links)
    while missing:
        for fd, _ in crowd.poll.poll(10.0):
            missing -= crowd.by_fd[fd].replies()
    return clock() - began

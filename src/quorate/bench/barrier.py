"""How long a barrier takes end to end, durable: from the last arrival sent to the last release received.

A hundred and a thousand workers, each with a connection of its own, all in one process on the other core. Beside it, in
the same run: the coordinator's own commits, bare fsyncs in the same place, the same barrier with a journal in memory,
and, if torch is installed, a barrier on ``torch.distributed.TCPStore``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

from quorate.bench.crowd import Crowd, child, clock, create_run, on_other_core, percentile
from quorate.bench.journal import fsyncs_us
from quorate.bench.tcpstore import tcpstore_barrier_ms
from quorate.report import Measurement, Report

SIZES = {100: 300, 1000: 60}
"""Workers, and how many barriers they pass."""
WARM = 10
TARGETS_MS = {100: 10.0, 1000: 100.0}


class Passed(NamedTuple):
    times_ms: list[float]
    commits_ms: list[float]


def bench_barrier() -> Report:
    on_other_core()
    report = Report("bench barrier")
    with tempfile.TemporaryDirectory(prefix="quorate-bench-", dir=Path.cwd()) as folder:
        fsync_ms = [us / 1000 for us in fsyncs_us(Path(folder) / "fsync")]
    durable = {}
    for size, rounds in SIZES.items():
        passed = durable[size] = measure("sqlite", size, rounds)
        target = TARGETS_MS[size]
        p99 = percentile(passed.times_ms, 0.99)
        beside = f"its own commits p99 {percentile(passed.commits_ms, 0.99):.2f} ms, "
        beside += f"bare fsync p99 {percentile(fsync_ms, 0.99):.2f} ms"
        report.measurements += [
            Measurement(f"barrier_{size}_p50_ms", round(percentile(passed.times_ms, 0.5), 2), "ms"),
            Measurement(f"barrier_{size}_p99_ms", round(p99, 2), "ms", target, "at most", beside),
        ]
    in_memory = measure("memory", 100, SIZES[100])
    memory_p50 = percentile(in_memory.times_ms, 0.5)
    report.measurements.append(Measurement("barrier_100_memory_p50_ms", round(memory_p50, 2), "ms"))
    peer = tcpstore_barrier_ms(100, 200)
    if peer is None:
        report.notes.append(
            "torch is not installed, so there is no TCPStore to measure beside: pip install 'quorate[torch]'"
        )
    else:
        peer_p50 = percentile(peer, 0.5)
        beside = f"TCPStore p50 {peer_p50:.2f} ms, p99 {percentile(peer, 0.99):.2f} ms"
        durable_p50 = percentile(durable[100].times_ms, 0.5)
        report.measurements += [
            Measurement("barrier_vs_tcpstore_memory", round(memory_p50 / peer_p50, 2), "x", 1.0, "at most", beside),
            Measurement("barrier_vs_tcpstore_durable", round(durable_p50 / peer_p50, 2), "x", 2.0, "at most", beside),
        ]
    report.notes.append(
        "Each release is journaled and fsynced before anyone is told. The rest is reading as many arrivals and writing "
        "as many releases, one system call each."
    )
    return report


def measure(store: str, size: int, rounds: int) -> Passed:
    with child(store) as server:
        create_run(server.address(), max_workers=size, barrier_min=size, heartbeat_timeout_s=600.0)
        crowd = Crowd(server.address(), size)
        try:
            times = [_barrier(crowd, step) * 1000 for step in range(WARM + rounds)][WARM:]
        finally:
            crowd.close()
        commits_ms = [us / 1000 for us in server.stop()["commits_us"]]
    return Passed(times, commits_ms[-rounds:])


def _barrier(crowd: Crowd, step: int) -> float:
    arrivals = [(link, link.arrival(step)) for link in crowd.links]
    *others, (last, arrival) = arrivals
    for link, message in others:
        link.socket.send(message)
    began = clock()
    last.socket.send(arrival)
    missing = len(crowd.links)
    while missing:
        for fd, _ in crowd.poll.poll(10.0):
            missing -= crowd.by_fd[fd].replies()
    return clock() - began

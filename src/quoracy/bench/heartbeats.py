"""How many heartbeats a second one core takes over TCP: open loop, 300 connections, one message per write.

Open loop: heartbeats are sent when they are due, whether or not earlier ones were answered, and a late answer counts
from when the heartbeat was due. The offered rate is raised until answers take too long; the last rate that held counts.
There is no highest step: it ends where the server, or whoever sends, is at its end. Which of them it was is told by how
busy the server's core was at the rate that did not hold; if it was not, the figure is a lower bound, and says so.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from statistics import median
from typing import NamedTuple

from quoracy.bench.crowd import Beats, Child, Crowd, child, clock, create_run, on_other_core, percentile
from quoracy.report import Measurement, Report
from quoracy.trust.ca import create_authority

CONNECTIONS = 300
SECONDS = 2.0
STEP = 10_000
"""Heartbeats a second, from each rate to the next."""
BUSY = 0.9
"""Of a core: from here on it is the server that is at its end."""
SLOW_MS = 20.0
TRIES = 3
"""Of each rate: on a shared machine one slow moment of somebody else must not decide."""


STEADY = 20_000
TURNS = 3


class Held(NamedTuple):
    per_s: float
    p50_ms: float
    p99_ms: float
    core_share: float = 0.0
    """Of the server's core."""


class Highest(NamedTuple):
    held: Held
    broke: Held
    """The rate above it: the best of its tries."""

    @property
    def against(self) -> str:
        busy = f"{self.broke.core_share:.0%} of the server's core at the next step"
        return f"the limit: {busy}" if self.broke.core_share >= BUSY else f"at least: {busy}, the sender was the limit"


def bench_heartbeats() -> Report:
    on_other_core()
    with child("memory") as server:
        plain = _highest(server, None)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = create_authority(folder, ["localhost"])
        with child("memory", tls={"cert": made.server.cert, "key": made.server.key}) as server:
            secured = _highest(server, Path(made.authority.cert))
    beside = _beside_idle_doors()
    note = (
        f"{CONNECTIONS} connections, one message per write, every heartbeat answered; server alone on one core. "
        f"Beside idle doors: what a heartbeat costs the server's core at {STEADY:,}/s, without and with the gRPC and "
        "HTTP doors, in turns. "
        "The limit is the interpreter: per heartbeat one read, one decode, the collector, one encode, one write. By a "
        "profile four fifths are our own Python, spread over all of these, and a fifth is the loop."
    )
    return Report(
        "bench heartbeats",
        measurements=[
            Measurement(
                "tcp_heartbeats_per_s", round(plain.held.per_s), "heartbeats/s", 30_000, "at least", plain.against
            ),
            Measurement("tcp_heartbeat_p50_ms", round(plain.held.p50_ms, 2), "ms"),
            Measurement("tcp_heartbeat_p99_ms", round(plain.held.p99_ms, 2), "ms", SLOW_MS, "at most", "at that rate"),
            Measurement(
                "tcp_rate_beside_idle_doors", round(beside, 3), "×", 0.9, "at least", "without the other doors"
            ),
            Measurement(
                "tls_heartbeats_per_s", round(secured.held.per_s), "heartbeats/s", None, "at least", secured.against
            ),
            Measurement("tls_heartbeat_p99_ms", round(secured.held.p99_ms, 2), "ms", None, "at most", "at that rate"),
        ],
        notes=[note],
    )


def _highest(server: Child, ca: Path | None) -> Highest:
    """The highest offered rate that was kept up with."""
    create_run(server.address(), ca, heartbeat_timeout_s=60.0)
    crowd = Crowd(server.address(), CONNECTIONS, ca)
    beats = {link.name: link.beats() for link in crowd.links}

    def offer(rate: int) -> Held:
        began_s, before_s = clock(), server.cpu_s()
        held = _offer(crowd, beats, rate)
        return held._replace(core_share=(server.cpu_s() - before_s) / (clock() - began_s))

    try:
        return climb(offer)
    finally:
        crowd.close()


def climb(offer: Callable[[int], Held]) -> Highest:
    """Step by step, until one does not hold."""
    best = Held(0.0, 0.0, 0.0)
    for rate in count(STEP, STEP):
        tried: list[Held] = []
        while len(tried) < TRIES:
            tried.append(offer(rate))
            if tried[-1].p99_ms <= SLOW_MS and tried[-1].per_s >= 0.97 * rate:
                break
        else:
            return Highest(best, max(tried))
        best = tried[-1]
    raise AssertionError("steps do not end")


def _beside_idle_doors() -> float:
    """How much of the rate is left when the other doors are open and nobody comes: the cost of a heartbeat without
    them, over its cost with them. By the processor's clock, since the rate itself moves with the machine's mood."""
    closed = {"enabled": False}
    with child("memory", grpc=closed, http=closed) as alone, child("memory") as beside:
        costs: dict[Child, list[float]] = {alone: [], beside: []}
        crowds = {}
        for server in costs:
            create_run(server.address(), None, heartbeat_timeout_s=60.0)
            crowds[server] = Crowd(server.address(), CONNECTIONS)
        beats = {server: {link.name: link.beats() for link in crowd.links} for server, crowd in crowds.items()}
        for _ in range(TURNS):
            for server, crowd in crowds.items():
                before_s = server.cpu_s()
                held = _offer(crowd, beats[server], STEADY)
                costs[server].append((server.cpu_s() - before_s) / max(held.per_s, 1.0))
        for crowd in crowds.values():
            crowd.close()
    return median(costs[alone]) / median(costs[beside])


def _offer(crowd: Crowd, beats: dict[str, Beats], rate: int) -> Held:
    latencies: list[float] = []
    began = clock()
    due, step, sent = began, 1.0 / rate, 0
    links, by_fd, poll = crowd.links, crowd.by_fd, crowd.poll
    end = began + SECONDS
    while (now := clock()) < end or any(link.waiting for link in links):
        while due <= now and due < end:
            link = links[sent % len(links)]
            link.waiting.append(due)
            link.socket.send(beats[link.name].next())
            sent += 1
            due += step
        for fd, _ in poll.poll(0 if now < end else 0.1):
            link = by_fd[fd]
            replies = link.replies()
            now = clock()
            latencies += [now - link.waiting.popleft() for _ in range(min(replies, len(link.waiting)))]
        if now > end + 5.0:
            break
    answered = len(latencies) / max(clock() - began, SECONDS)
    return Held(answered, percentile(latencies, 0.5) * 1000, percentile(latencies, 0.99) * 1000)

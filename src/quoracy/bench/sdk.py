"""What a training script sees of the SDK: real processes that call ``quoracy.connect`` and ``worker.barrier``.

Eight scripts stand at barriers back to back, and every call counts as its caller sees it: of a run with the journal in
memory, of one that fsyncs it, of ``torch.distributed`` with gloo, and of a counter on a TCPStore. They take turns, in
the same eight processes, and of each figure the median of the turns is told. Coordinators are real ones (``quoracy
serve``), and nobody is tied to a core: eight processes and a server share the machine as they please.

Then what comes before the first barrier, in processes that have imported ``quoracy`` and nothing else: importing it,
connecting alone and eight at once; what the heartbeat process needs; and a coordinator that is killed under a thousand
members (``storm``).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec

from quoracy.bench.crowd import percentile
from quoracy.bench.storm import restart_storm
from quoracy.bench.tcpstore import has_torch
from quoracy.launch.coordinator import Coordinator, coordinating
from quoracy.report import Measurement, Report
from quoracy.sdk.client.ask import Asker
from quoracy.version import INSTALL_TORCH

SCRIPTS = 8
TURNS = 5
WARM, ROUNDS = 50, 1000
IMPORTS = 11
RUN = "bench"
SERVERS = (
    "quoracy.doors", "quoracy.hosts", "quoracy.stores", "quoracy.coordinator", "quoracy.launch", "quoracy.cli",
    "quoracy.bench", "quoracy.sim", "uvicorn", "uvloop", "starlette", "httptools", "grpc", "prometheus_client", "typer",
    "rich",
)  # fmt: skip
"""What only servers and the command line need."""
IMPORT = """
import sys, time, numpy
began = time.perf_counter()
import quoracy
quoracy.connect
took_s = time.perf_counter() - began
import msgspec
sys.stdout.write(msgspec.json.encode([took_s * 1000, sorted(sys.modules)]).decode())
"""
TORCH = {"GLOO_SOCKET_IFNAME": "lo", "TORCH_CPP_LOG_LEVEL": "ERROR", "RES_OPTIONS": "timeout:1 attempts:1"}
"""gloo stays on this machine, as everything here does. torch looks up names whenever it dials."""


class Script:
    """A process that does as it is told, one thing at a time."""

    def __init__(self) -> None:
        command = [sys.executable, "-P", str(Path(__file__).with_name("sdk_script.py"))]
        self.process = subprocess.Popen(  # noqa: S603 - ourselves
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | TORCH
        )

    def give(self, do: str, **arguments: Any) -> None:
        if self.process.stdin is None:
            raise RuntimeError("a process started with pipes has none")
        self.process.stdin.write(msgspec.json.encode({"do": do} | arguments) + b"\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        if self.process.stdout is None:
            raise RuntimeError("a process started with pipes has none")
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"a script ended before its work was done: {self.process.wait()}")
        return msgspec.json.decode(line)

    def do(self, do: str, **arguments: Any) -> Any:
        self.give(do, **arguments)
        return self.answer()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@contextlib.contextmanager
def scripts(number: int) -> Iterator[list[Script]]:
    """All of them have imported what they need."""
    with contextlib.ExitStack() as stack:
        started = []
        for _ in range(number):
            started.append(Script())
            stack.callback(started[-1].close)
        for script in started:
            script.answer()
        yield started


class Turn(NamedTuple):
    p50_ms: float
    p99_ms: float


def bench_sdk() -> Report:
    report = Report("bench sdk")
    with (
        tempfile.TemporaryDirectory(prefix="quoracy-bench-", dir=Path.cwd()) as folder,
        contextlib.ExitStack() as stack,
    ):
        servers = {}
        for store in ("memory", "sqlite"):
            place = Path(folder) / store
            place.mkdir()
            servers[store] = stack.enter_context(coordinating(place, "--store", store))
        barriers(report, servers)
        connecting(report, servers["sqlite"])
    importing(report)
    restart_storm(report)
    return report


# -- barriers -------------------------------------------------------------------------------------------------------


def barriers(report: Report, servers: dict[str, Coordinator]) -> None:
    with contextlib.ExitStack() as stack:
        eight = stack.enter_context(scripts(SCRIPTS))
        for store, server in servers.items():
            create(server, store, barrier_min=SCRIPTS)
            together(eight, "connect", name=store, url=server.url, run=store, member="script-{}")
        names, torch = list(servers), ""
        if has_torch():
            names += ["gloo", "tcpstore"]
            host, port = stack.enter_context(tcpstore())
            torch = together(eight, "gloo", name="gloo", host=host, port=port, rank="{}", size=SCRIPTS)[0]["torch"]
            together(eight, "tcpstore", name="tcpstore", host=host, port=port, size=SCRIPTS)
        turns = take_turns(eight, names)
    report_barriers(report, turns, torch)


def take_turns(eight: list[Script], names: list[str]) -> dict[str, list[Turn]]:
    turns: dict[str, list[Turn]] = {name: [] for name in names}
    for _ in range(TURNS):
        for name in names:
            answers = together(eight, "barriers", name=name, warm=WARM, rounds=ROUNDS)
            times_ms = [ms for answer in answers for ms in answer["ms"]]
            turns[name].append(Turn(percentile(times_ms, 0.5), percentile(times_ms, 0.99)))
    return turns


def report_barriers(report: Report, turns: dict[str, list[Turn]], torch: str) -> None:
    """``torch``: its version; empty if it is not installed."""
    p50_ms = {name: median(turn.p50_ms for turn in taken) for name, taken in turns.items()}
    p99_ms = {name: median(turn.p99_ms for turn in taken) for name, taken in turns.items()}
    for name, ending, what in (
        ("memory", "", "journal in memory"),
        ("sqlite", "_durable", "journal fsynced"),
        ("gloo", "_gloo", "torch.distributed.barrier, which keeps nothing"),
        ("tcpstore", "_tcpstore", "a counter on a TCPStore, which keeps nothing"),
    ):
        if name not in turns:
            continue
        all_ms = ", ".join(f"{turn.p50_ms:.2f}" for turn in turns[name])
        report.measurements += [
            Measurement(
                f"sdk_barrier_8_p50_ms{ending}", round(p50_ms[name], 3), "ms", against=f"{what}; by turn: {all_ms}"
            ),
            Measurement(f"sdk_barrier_8_p99_ms{ending}", round(p99_ms[name], 3), "ms"),
        ]
    if not torch:
        report.notes.append(f"torch is not installed, so there is no peer to measure beside: {INSTALL_TORCH}")
        return
    for figure, ours, peer, target in (
        ("sdk_vs_tcpstore_8", "memory", "tcpstore", 2.3),
        ("sdk_vs_gloo_8", "sqlite", "gloo", 0.3),
    ):
        beside = f"medians {p50_ms[ours]:.2f} and {p50_ms[peer]:.2f} ms"
        ratio = round(p50_ms[ours] / p50_ms[peer], 2)
        report.measurements.append(Measurement(figure, ratio, "x", target, "at most", beside))
    report.notes.append(
        f"Barriers: the same {SCRIPTS} processes, {TURNS} turns of {ROUNDS} calls for each in alternation, back to "
        f"back, beside torch {torch}. Whoever comes last to a counter need not wait, and counts as well."
    )


# -- before the first barrier ---------------------------------------------------------------------------------------


def connecting(report: Report, server: Coordinator) -> None:
    alone, slowest, all_ms, megabytes = [], [], [], []
    for turn in range(TURNS):
        for number in (1, SCRIPTS):
            run = f"connect-{turn}-{number}"
            create(server, run)
            with scripts(number) as fresh:
                answers = together(fresh, "connect", name="c", url=server.url, run=run, member="script-{}")
                times_ms = [answer["ms"] for answer in answers]
                if number == 1:
                    alone.append(times_ms[0])
                    megabytes.append(memory_mb(fresh[0].do("heartbeat_process", name="c")["pid"]))
                else:
                    slowest.append(max(times_ms))
                    all_ms += times_ms
                together(fresh, "close")
    pss_mb = median(pss for pss, _ in megabytes)
    own_mb = median(own for _, own in megabytes)
    report.measurements += [
        Measurement("connect_ms", round(median(alone), 1), "ms", 50.0, "at most", _listed(alone)),
        Measurement(
            "connect_ms_8", round(median(slowest), 1), "ms", 100.0, "at most",
            f"the slowest of {SCRIPTS}; all of them: median {median(all_ms):.1f}; slowest by turn: {_listed(slowest)}",
        ),
        Measurement(
            "heartbeat_process_mb", round(pss_mb, 1), "MB", 16.0, "at most",
            f"PSS over TCP, beside one training; {own_mb:.1f} of it are its alone",
        ),
    ]  # fmt: skip


def memory_mb(pid: int) -> tuple[float, float]:
    """Proportional and private."""
    return rollup_mb(Path(f"/proc/{pid}/smaps_rollup").read_text())


def rollup_mb(text: str) -> tuple[float, float]:
    """Of the text of a ``smaps_rollup``: what is shared counts for each of those who share it by its part."""
    rows = dict(line.split(":", 1) for line in text.splitlines() if line.endswith("kB"))
    kilobytes = {name: int(value.split()[0]) for name, value in rows.items()}
    return kilobytes["Pss"] * 1024 / 1e6, (kilobytes["Private_Clean"] + kilobytes["Private_Dirty"]) * 1024 / 1e6


def importing(report: Report) -> None:
    times_ms, modules = [], set()
    for _ in range(IMPORTS):
        command = [sys.executable, "-c", IMPORT]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=60)  # noqa: S603 - ourselves
        took_ms, imported = msgspec.json.decode(done.stdout, type=tuple[float, list[str]])
        times_ms.append(took_ms)
        modules |= set(imported)
    report.measurements.append(
        Measurement(
            "import_ms", round(median(times_ms), 1), "ms", 50.0, "at most",
            f"import quoracy and quoracy.connect, in {IMPORTS} processes that had imported numpy",
        )
    )  # fmt: skip
    if found := of_servers(modules):
        report.failures.append(f"import quoracy; quoracy.connect imports what only servers need: {', '.join(found)}")


def of_servers(modules: set[str]) -> list[str]:
    return [name for name in SERVERS if name in modules]


# -- processes ------------------------------------------------------------------------------------------------------


def together(many: list[Script], do: str, **arguments: Any) -> list[Any]:
    """All of them at once. ``{}`` in an argument stands for the number of the script, alone as a number."""
    for number, script in enumerate(many):
        own = {name: _numbered(value, number) for name, value in arguments.items()}
        script.give(do, **own)
    return [script.answer() for script in many]


def _numbered(value: Any, number: int) -> Any:
    if value == "{}":
        return number
    return value.replace("{}", str(number)) if isinstance(value, str) else value


def create(server: Coordinator, run: str, **config: Any) -> None:
    with Asker(server.url) as asker:
        asker.ask("create", run, config=config)


@contextlib.contextmanager
def tcpstore() -> Iterator[tuple[str, int]]:
    command = [sys.executable, "-m", "quoracy.stores.tcpstore", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE)  # noqa: S603 - ourselves
    try:
        if server.stdout is None:
            raise RuntimeError("a process started with pipes has none")
        yield "127.0.0.1", int(server.stdout.readline().decode().strip().rpartition(":")[2])
    finally:
        server.kill()
        server.communicate()


def _listed(times_ms: list[float]) -> str:
    return ", ".join(f"{ms:.1f}" for ms in times_ms)

"""A coordinator is killed under a thousand members over TLS and started again: nobody is lost, all beat again soon.

Every member has two connections, as a training with its heartbeat process has: a session, silent while the training
computes, and heartbeats. Few processes drive them all, with the connections and sessions of the SDK. When all beat
again the trainings call the SDK, and their sessions come back too; by then every member must be what it was.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from quoracy.bench.storm_crowd import Told, Wish, now_us
from quoracy.launch.coordinator import Coordinator, coordinating
from quoracy.report import Measurement, Report
from quoracy.sdk.client.address import Address
from quoracy.sdk.client.ask import Asker
from quoracy.trust.ca import create_authority

MEMBERS = 1000
PROCESSES = 2
TIMEOUT_S = 30.0
"""Of heartbeats, as a run has it that says nothing about it."""
RUN = "storm"
PROGRAM = "from quoracy.bench.storm_crowd import main; main()"


class Crowd:
    """A process with members in it."""

    def __init__(self, wish: Wish) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._say(msgspec.json.encode(wish))

    def _say(self, line: bytes) -> None:
        if self._process.stdin is None:
            raise RuntimeError("a process started with pipes has none")
        self._process.stdin.write(line + b"\n")
        self._process.stdin.flush()

    def give(self, order: str) -> None:
        self._say(order.encode())

    def told(self) -> Told:
        if self._process.stdout is None:
            raise RuntimeError("a process started with pipes has none")
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"members ended before their work was done: {self._process.wait()}")
        return msgspec.json.decode(line, type=Told)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def restart_storm(report: Report) -> None:
    with tempfile.TemporaryDirectory(prefix="quoracy-bench-", dir=Path.cwd()) as name:
        folder = Path(name)
        made = create_authority(folder / "trust", ["localhost"])
        config = folder / "quoracy.toml"
        config.write_text(f'[tls]\ncert = "{made.server.cert}"\nkey = "{made.server.key}"\n')
        with coordinating(folder, "--config", str(config)) as server:
            ca = str(made.authority.cert)
            with _asker(server, ca) as asker:
                asker.ask("create", RUN, config={"heartbeat_timeout_s": TIMEOUT_S, "max_workers": MEMBERS})
            with _crowds(server, ca) as crowds:
                storm(report, server, ca, crowds)


def storm(report: Report, server: Coordinator, ca: str, crowds: list[Crowd]) -> None:
    began_us = now_us()
    _told(crowds)
    joined_s = (now_us() - began_us) / 1e6
    killed_us = now_us()
    server.kill()
    server.start()
    listens_s = (now_us() - killed_us) / 1e6
    back = _ordered(crowds, f"beat {killed_us}")
    back_s = (max(told.at_us for told in back) - killed_us) / 1e6
    time.sleep(max(0.0, listens_s + TIMEOUT_S - (now_us() - killed_us) / 1e6))  # whoever is lost is lost by now
    called_us = now_us()
    called = _ordered(crowds, "call")
    called_s = (now_us() - called_us) / 1e6
    unwell = [why for told in called for why in told.unwell]
    with _asker(server, ca) as asker:
        lost = len(lost_members(asker.ask("show", RUN)))
    report.measurements += [
        Measurement(
            "restart_storm_lost", max(lost, len(unwell)), "members", 0, "at most",
            f"of {MEMBERS} over TLS, a time-out of {TIMEOUT_S:g} s after the restart",
        ),
        Measurement(
            "restart_storm_back_s", round(back_s, 2), "s", TIMEOUT_S / 3, "at most",
            f"kill -9 to the last member that beats again; the coordinator listened after {listens_s:.2f} s",
        ),
    ]  # fmt: skip
    report.notes.append(
        f"Restart storm: {MEMBERS} members with two connections each, in {PROCESSES} processes, were there after "
        f"{joined_s:.1f} s. Heartbeats come back spread over a quarter of the time-out, {TIMEOUT_S / 4:g} s. Then all "
        f"sessions came back within {called_s:.1f} s."
    )
    report.failures += unwell[:3]


def lost_members(shown: dict[str, Any]) -> list[str]:
    """Of a run as it is shown: those who are not in their first incarnation, idle, and nothing else."""
    well = {w["id"] for w in shown["workers"] if w["state"] == "Idle" and w["incarnation"] == 1}
    return [name for name in _names() if name not in well]


def _names() -> list[str]:
    return [f"member-{number:04d}" for number in range(MEMBERS)]


@contextlib.contextmanager
def _crowds(server: Coordinator, ca: str) -> Iterator[list[Crowd]]:
    with contextlib.ExitStack() as stack:
        crowds = []
        for number in range(PROCESSES):
            crowds.append(Crowd(Wish(Address("localhost", server.port), ca, RUN, _names()[number::PROCESSES])))
            stack.callback(crowds[-1].close)
        yield crowds


def _ordered(crowds: list[Crowd], order: str) -> list[Told]:
    for crowd in crowds:
        crowd.give(order)
    return _told(crowds)


def _told(crowds: list[Crowd]) -> list[Told]:
    return [crowd.told() for crowd in crowds]


def _asker(server: Coordinator, ca: str) -> Asker:
    return Asker(f"tcps://localhost:{server.port}", ca=ca)

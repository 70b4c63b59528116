"""Ten thousand participants in one process, registered and heartbeating, against a coordinator on a core of its own.

Each is a real participant, with its own connection and the logic of the SDK. The run is paused while they come. When
all have registered they are held for a while, in which nobody may be lost; then it is resumed, a few rounds are played
with twenty of them drawn each time, and all go home.
"""

from __future__ import annotations

import asyncio
import resource
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import uvloop

from quoracy.bench.crowd import Child, child, on_other_core, percentile
from quoracy.launch.crowd import Crowd
from quoracy.launch.crowd_process import Hands, Wish
from quoracy.report import Measurement, Report
from quoracy.sdk.client.address import Address
from quoracy.sdk.client.ask import Asker

RUN: Final = "bench"
PARTICIPANTS: Final = 10_000
HELD_S: Final = 20.0
ROUNDS: Final = 3
PER_ROUND: Final = 20
TOGETHER: Final = 64
"""So many are let in at a time: whoever comes when others still wait for their greeting waits as well."""
PATIENCE_S: Final = 240.0
SPARE: Final = 200
UNLIMITED: Final = {
    "messages_per_s": 10_000_000, "burst_messages": 10_000_000, "max_connections": PARTICIPANTS + SPARE,
    "max_connections_per_identity": PARTICIPANTS + SPARE,
}  # fmt: skip


def bench_participants(participants: int = PARTICIPANTS) -> Report:
    on_other_core()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    began_s = time.monotonic()
    with child(limits=UNLIMITED) as started, Asker(started.url) as asker:
        config = {
            "clients": participants, "per_round": PER_ROUND, "rounds": ROUNDS, "max_participants": participants,
            "standby_max_s": 600.0,
        }  # fmt: skip
        asker.ask("create", RUN, kind="federated", config=config)
        asker.ask("pause", RUN, reason="until all are here")
        store = asker.ask("weights", RUN)["store"]
        with tempfile.TemporaryDirectory(prefix="quoracy-bench-") as scratch:
            report = uvloop.run(_held(started, store, Path(scratch), participants))
    report.seconds = time.monotonic() - began_s
    return report


async def _held(started: Child, store: str, scratch: Path, participants: int) -> Report:
    names = [f"participant-{number:05d}" for number in range(participants)]
    wish = Wish(started.url, RUN, {}, store, "quoracy.bench.nothing:make", {"size_bytes": 4096})
    hands = Hands(wish, scratch)
    members = {name: {"initial": True} for name in names}
    crowd = Crowd([Address(*started.address())], RUN, members, hands.serve, together=TOGETHER)
    began_s = time.monotonic()
    running = asyncio.create_task(crowd.run())
    registering = await _until(started, participants)
    registered_s = time.monotonic() - began_s
    cpu_s, held_s = started.cpu_s(), time.monotonic()
    await asyncio.sleep(HELD_S)
    share = (started.cpu_s() - cpu_s) / (time.monotonic() - held_s)
    rss_mb = started.rss_mb()
    held = await _ask(started, "show")
    await _ask(started, "resume")
    await asyncio.wait({running}, timeout=PATIENCE_S)
    crowd.stop()  # who is still there then is missing in the figures
    fates = await running
    ended = sum(fate.ended is not None for fate in fates.values())
    shown = await _ask(started, "show")
    took_ms = sorted(1000 * (row["done_s"] - row["began_s"]) for row in shown["history"])
    report = Report("bench participants")
    if not took_ms:
        report.failures.append(f"no round was played: {shown['explanation']['sentence']}")
    report.measurements = [
        Measurement("registered", registering["here"], "participants", participants),
        Measurement("still_here", held["here"], "participants", participants, against=f"after {HELD_S:.0f} s"),
        Measurement("written_meanwhile", held["entry"] - registering["entry"], "entries", 0, "at most", "nobody went"),
        Measurement(f"rss_mb_{participants}_participants", round(rss_mb), "MB", against="the coordinator's process"),
        Measurement("register_s", round(registered_s, 1), "s", against="all of them at once"),
        Measurement("core_share", round(share, 3), "of a core", against=f"{participants // 5} heartbeats a second"),
        Measurement("rounds", len(took_ms), "rounds", ROUNDS, against=f"{PER_ROUND} drawn of all, in each"),
        Measurement("round_ms", round(percentile(took_ms, 0.5)), "ms", against="4 KB, nothing to train"),
        Measurement("saw_the_end", ended, "participants", participants),
    ]
    return report


async def _until(started: Child, participants: int) -> dict[str, Any]:
    """All are here; or those who are, when patience is at its end."""
    deadline_s = time.monotonic() + PATIENCE_S
    while (shown := await _ask(started, "show"))["here"] < participants and time.monotonic() < deadline_s:
        await asyncio.sleep(0.5)
    return shown


async def _ask(started: Child, what: str) -> dict[str, Any]:
    def ask() -> dict[str, Any]:
        with Asker(started.url) as asker:
            told: dict[str, Any] = asker.ask(what, RUN)
            return told

    return await asyncio.to_thread(ask)

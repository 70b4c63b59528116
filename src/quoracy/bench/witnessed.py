"""How fast witnessed rounds go if there is nothing to train: what is left is ours.

Members are connections, in a few processes, with the logic of the SDK; each round they commit, attest, hold and report
their models, all of it checked and journaled with fsync by a coordinator on a core of its own. What members exchange
with each other does not pass the coordinator; how fast that is, is measured by itself, beside a plain copy over TCP.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from quoracy.bench.crowd import Child, child, on_other_core, percentile
from quoracy.bench.exchange import measure_exchange
from quoracy.bench.witness_seen import Seen, Wish
from quoracy.report import Measurement, Report
from quoracy.sdk.client.ask import Asker

RUN: Final = "bench"
PROCESSES: Final = 2
WARM: Final = 5
"""Rounds that are not counted: programs are loaded in them."""
PATIENCE_S: Final = 240.0
ROUNDS: Final = {4: 200, 32: 150, 128: 60}
EPOCH_MEMBERS: Final = 256
RATE: Final = 20.0
LATENCY_MS: Final = 50.0
BYTES: Final = 4096.0
EPOCH_S: Final = 1.0
SHARE: Final = 0.5
MIDDLE: Final = 32
SIZES: Final = (1_000, 1_000_000)
"""Of results."""
ALIKE: Final = 1.05


def bench_witnessed() -> Report:
    began_s = time.monotonic()
    on_other_core()
    report = Report("bench witnessed")
    for members, rounds in ROUNDS.items():
        report.measurements += _rounds(members, rounds)
    report.measurements.append(_sizes(MIDDLE, ROUNDS[MIDDLE]))
    report.measurements += [_epoch_change("none"), _epoch_change("stored")]
    exchanged = measure_exchange()
    report.measurements.append(
        Measurement("exchange_vs_tcp_copy", round(exchanged.ratio, 2), "x", SHARE, against=exchanged.against)
    )
    report.notes.append("members with TLS, checked by BLAKE3, file to file; the copy is plain TCP, file to file")
    report.seconds = time.monotonic() - began_s
    return report


def _config(members: int, **more: Any) -> dict[str, Any]:
    return {
        "min_clients": members, "max_clients": members, "waiting_extra_s": 0.0, "batch_size": 1,
        "global_batch_size_start": members, "checkpoint": "none", "rounds_per_epoch": 1_000_000,
        "warmup_s": 60.0,
    } | more  # fmt: skip


def _seen(members: int, rounds: int, size_bytes: int = SIZES[-1]) -> tuple[Seen, float]:
    """And bytes over the coordinator's wires, for a member and a round."""
    with child() as started:
        with Asker(started.url) as asker:
            asker.ask("create", RUN, kind="witnessed", config=_config(members, total_steps=rounds + WARM))
        seen = _played(started, members, size_bytes)
    return seen, (seen.in_bytes + seen.out_bytes) / members / (rounds + WARM)


def _sizes(members: int, rounds: int) -> Measurement:
    """Whether the coordinator's traffic depends on how large results are."""
    few, many = (_seen(members, rounds, size_bytes)[1] for size_bytes in SIZES)
    against = f"{SIZES[1]:,} bytes a result, {many:.0f} bytes; {SIZES[0]:,} a result, {few:.0f}"
    name = f"coordinator_bytes_large_vs_small_{members}"
    return Measurement(name, round(many / few, 3), "x", ALIKE, "at most", against)


def _rounds(members: int, rounds: int) -> list[Measurement]:
    seen, traffic = _seen(members, rounds)
    began = seen.began_us
    counted = [step for step in sorted(began) if step >= WARM]
    rate = (len(counted) - 1) / ((began[counted[-1]] - began[counted[0]]) / 1e6)
    waits_ms = [(began[step + 1] - seen.attested_us[step]) / 1000 for step in counted if step + 1 in began]
    middle = members == MIDDLE
    against = f"{len(counted)} rounds"
    return [
        Measurement(f"rounds_per_s_{members}", round(rate, 1), "rounds/s", RATE if middle else None, against=against),
        Measurement(f"attested_to_next_round_p50_ms_{members}", round(percentile(waits_ms, 0.5), 2), "ms"),
        Measurement(f"attested_to_next_round_p99_ms_{members}", round(percentile(waits_ms, 0.99), 2), "ms",
                    LATENCY_MS if middle else None, "at most", against="last attestation sent to last member shown"),
        Measurement(f"coordinator_bytes_per_member_round_{members}", round(traffic), "bytes", BYTES if middle else None,
                    "at most", against="both directions, joining and heartbeats included"),
    ]  # fmt: skip


def _epoch_change(checkpoint: str) -> Measurement:
    """From the end of an epoch to the first round of the next, the slowest of a few. ``checkpoint``: whether one has to
    be stored meanwhile; it is small, so that what is measured is the waiting for it and not its size."""
    epochs, rounds = 4, 2
    config = _config(EPOCH_MEMBERS, total_steps=epochs * rounds, rounds_per_epoch=rounds, checkpoint=checkpoint)
    with child() as started:
        with Asker(started.url) as asker:
            asker.ask("create", RUN, kind="witnessed", config=config)
        seen = _played(started, EPOCH_MEMBERS)
    changes_s = [
        (seen.epoch_us[epoch + 1] - ended_us) / 1e6
        for epoch, ended_us in seen.cooled_us.items()
        if epoch + 1 in seen.epoch_us
    ]
    against = f"the slowest of {len(changes_s)}, last member shown"
    name = f"epoch_change_{EPOCH_MEMBERS}_members{'_stored' if checkpoint == 'stored' else ''}_s"
    target = None if checkpoint == "stored" else EPOCH_S
    return Measurement(name, round(max(changes_s, default=99.0), 3), "s", target, "at most", against)


def _played(started: Child, members: int, size_bytes: int = SIZES[-1]) -> Seen:
    """Until the run is over."""
    names = [f"member-{number:03d}" for number in range(members)]
    host, port = started.address()
    objects = str(started.folder / "objects")
    wishes = [
        Wish(host, port, RUN, names[number::PROCESSES], size_bytes=size_bytes, objects=objects)
        for number in range(PROCESSES)
    ]
    with _crowds(wishes) as processes:
        seen = [_told(process) for process in processes]
    return _merged(seen)


@contextlib.contextmanager
def _crowds(wishes: list[Wish]) -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    try:
        for wish in wishes:
            command = [sys.executable, "-m", "quoracy.bench.witness_crowd", msgspec.json.encode(wish).decode()]
            started.append(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 - ourselves
            )
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()


def _told(process: subprocess.Popen[bytes]) -> Seen:
    """Its input stays open until it has ended: at the end of that it would stop."""
    if process.stdout is None:
        raise RuntimeError("a process started with pipes has none")
    told = process.stdout.readline()
    if not told:
        raise RuntimeError("members ended without a word: see above")
    return msgspec.json.decode(told, type=Seen)


def _merged(seen: list[Seen]) -> Seen:
    """The clock is the same in all processes of a machine."""
    whole = Seen()
    for one in seen:
        whole.in_bytes += one.in_bytes
        whole.out_bytes += one.out_bytes
        for mine, theirs in (
            (whole.attested_us, one.attested_us), (whole.began_us, one.began_us), (whole.epoch_us, one.epoch_us),
        ):  # fmt: skip
            for step, at_us in theirs.items():
                mine[step] = max(mine.get(step, 0), at_us)
        for epoch, at_us in one.cooled_us.items():
            whole.cooled_us[epoch] = min(whole.cooled_us.get(epoch, at_us), at_us)
    return whole

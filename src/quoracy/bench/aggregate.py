"""How fast updates become a model, and in how much memory, beside plain numpy over the same files.

Times are of the whole aggregation: reading, merging, rounding, checking, writing, and the digest. What it is measured
beside only reads and computes. Both run in turn, in one thread but for BLAS and for a thread that writes and digests
large models, with the files in the system's cache.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from quoracy.core.errors import ConfigError
from quoracy.core.federated.aggregation import Aggregation, Bulyan, FedAvg, Krum, Median, TrimmedMean
from quoracy.learn import Update, aggregate, load, save
from quoracy.learn.slices import width
from quoracy.report import Measurement, Report

UPDATES: Final = 20
LARGE: Final = 25_000_000
SMALL: Final = 2_500_000
"""Numbers of float32 in a model: 100 MB and 10 MB."""
NEEDED_BYTES: Final = 3 * 10**9
REPEATS: Final = 5
LIES: Final = 3
SLICES: Final = 2
"""How many slices of float64 of all updates a robust rule may take: its rows in float32, float64 of them for distances,
and a quarter more for what comes of it. A slice has half a million numbers, or as many as half a model where there are
very many updates: it does not grow with the model, and hardly with their number."""
Array = NDArray[Any]


def bench_aggregate() -> Report:
    place = os.environ.get("TMPDIR", "/tmp")  # noqa: S108
    if shutil.disk_usage(place).free < NEEDED_BYTES:
        raise ConfigError("TMPDIR", place, f"a folder with {NEEDED_BYTES / 1e9:.0f} GB free: the updates are 2 GB")
    with TemporaryDirectory(prefix="quoracy-bench-", dir=place) as folder:
        averaged = _averaging(Path(folder))
    with TemporaryDirectory(prefix="quoracy-bench-", dir=place) as folder:
        robust, gram = _robust(Path(folder))
    memory = (
        "Memory: how far the private memory (RssAnon) of a process of its own rises above where it stood before, "
        "looked at about every millisecond, in models. Pages of the mapped updates are the system's, which drops them "
        "as it likes."
    )
    beside = (
        "The robust rules read everything in slices of half a million numbers; beside them numpy holds all updates at "
        "once. Krum and Bulyan are measured beside each pair's difference, squared and summed; beside one product of "
        f"float32 matrices Krum would be {gram:.2f}, with float64 against float32."
    )
    return Report("bench aggregate", measurements=[*averaged, *robust], notes=[memory, beside])


def _averaging(folder: Path) -> list[Measurement]:
    updates = _make(folder, LARGE)
    ours_s, plain_s = _in_turn(FedAvg(), updates, plain_fedavg)
    peak = _peak(FedAvg(), updates)
    beside = f"{ours_s:.2f} s beside {plain_s:.2f} s, {UPDATES} of {LARGE * 4 / 1e6:.0f} MB"
    return [
        Measurement("fedavg_vs_numpy", round(ours_s / plain_s, 3), "of numpy's time", 1.25, "at most", beside),
        Measurement("fedavg_peak_models", round(peak, 3), "models", 1.5, "at most", f"{peak * LARGE * 4 / 1e6:.1f} MB"),
    ]


def _robust(folder: Path) -> tuple[list[Measurement], float]:
    updates = _make(folder, SMALL)
    rules: list[tuple[str, Aggregation, Callable[[list[Update]], Array]]] = [
        ("median", Median(), plain_median),
        ("trimmed_mean", TrimmedMean(2), plain_trimmed_mean),
        ("krum", Krum(LIES), plain_krum),
        ("bulyan", Bulyan(LIES), plain_bulyan),
    ]
    size_bytes = updates[0].path.stat().st_size
    room_mb = round(SLICES * 8 * UPDATES * width(UPDATES, size_bytes) / 1e6, 2)
    found: list[Measurement] = []
    krum_s = 0.0
    for name, settings, plain in rules:
        ours_s, plain_s = _in_turn(settings, updates, plain)
        peak_mb = _peak(settings, updates) * size_bytes / 1e6
        beside = f"{ours_s:.2f} s beside {plain_s:.2f} s"
        found += [
            Measurement(f"{name}_vs_numpy", round(ours_s / plain_s, 3), "of numpy's time", 1.0, "at most", beside),
            Measurement(f"{name}_peak_mb", round(peak_mb, 2), "MB", room_mb, "at most", "two slices of float64"),
        ]
        krum_s = ours_s if name == "krum" else krum_s
    gram_s = min(_timed(lambda: _products(_stacked(updates))) for _ in range(REPEATS))
    return found, krum_s / gram_s


def _make(folder: Path, size: int) -> list[Update]:
    """Updates that are near each other, as honest ones are, in a few tensors. On the disk before anything is measured,
    or the system would slow down whoever writes next."""
    dice = np.random.default_rng(1)
    layers = {f"layer{n}/kernel": dice.standard_normal((1000, size // 5000), np.float32) for n in range(5)}
    updates = []
    for number in range(UPDATES):
        path = folder / f"u{number:02}"
        noise = dice.standard_normal(size // 5000, np.float32)
        save(path, {name: layer + noise for name, layer in layers.items()}, sync=True)
        updates.append(Update(f"u{number:02}", path, 500 + 10 * number))
    return updates


def _ours(settings: Aggregation, updates: list[Update], out: Path) -> None:
    aggregate(settings, updates, updates[0].path, None, out)


# -- plain numpy -----------------------------------------------------------------------------------------------------


def plain_fedavg(updates: list[Update]) -> dict[str, Array]:
    """One update after the other, mapped, in float32."""
    samples = sum(update.samples for update in updates)
    total: dict[str, Array] = {}
    for update in updates:
        share = np.float32(update.samples / samples)
        for name, array in load(update.path).items():
            if name in total:
                total[name] += share * array
            else:
                total[name] = share * array
    return total


def _stacked(updates: list[Update]) -> Array:
    return np.stack([np.concatenate([a.reshape(-1) for a in load(update.path).values()]) for update in updates])


def plain_median(updates: list[Update]) -> Array:
    return np.asarray(np.median(_stacked(updates), axis=0))


def plain_trimmed_mean(updates: list[Update]) -> Array:
    return np.asarray(np.sort(_stacked(updates), axis=0)[2:-2].mean(axis=0))


def _distances(rows: Array) -> Array:
    squared = np.full((len(rows), len(rows)), np.inf)
    for one in range(len(rows)):
        for other in range(one):
            squared[one, other] = squared[other, one] = ((rows[one] - rows[other]) ** 2).sum()
    return squared


def _products(rows: Array) -> Array:
    """The same from one product of matrices, as one who knows would write it."""
    moved = rows - rows[0]
    products = moved @ moved.T
    norms = np.diagonal(products)
    return np.asarray(norms[:, None] + norms[None, :] - 2 * products)


def _best(squared: Array) -> int:
    nearest = max(len(squared) - LIES - 2, 1)
    return int(np.sort(squared, axis=1)[:, :nearest].sum(axis=1).argmin())


def plain_krum(updates: list[Update]) -> Array:
    rows = _stacked(updates)
    return np.asarray(rows[_best(_distances(rows))])


def plain_bulyan(updates: list[Update]) -> Array:
    rows = _stacked(updates)
    squared, left = _distances(rows), list(range(len(rows)))
    chosen = [left.pop(_best(squared[np.ix_(left, left)])) for _ in range(len(rows) - 2 * LIES)]
    kept = rows[chosen]
    median = np.sort(kept, axis=0)[(len(kept) - 1) // 2]
    nearest = np.argsort(np.abs(kept - median), axis=0)[: len(kept) - 2 * LIES]
    return np.asarray(np.take_along_axis(kept, nearest, axis=0).mean(axis=0))


# -- measuring -------------------------------------------------------------------------------------------------------


def _in_turn(
    settings: Aggregation, updates: list[Update], plain: Callable[[list[Update]], object]
) -> tuple[float, float]:
    """The best of a few, one after the other, so that a busy minute of the machine falls on both. Every result goes
    into a new folder, as in a run; to throw the last one away is not part of it."""
    times = []
    for _ in range(REPEATS):
        with TemporaryDirectory(dir=updates[0].path.parent) as out:
            ours_s = _timed(lambda out=out: _ours(settings, updates, Path(out)))  # type: ignore[misc]
        times.append((ours_s, _timed(lambda: plain(updates))))
    return min(one for one, _ in times), min(other for _, other in times)


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _peak(settings: Aggregation, updates: list[Update]) -> float:
    """Peak memory in models, of a process of its own."""
    wish = msgspec.json.encode([settings, [(u.participant, str(u.path), u.samples) for u in updates]]).decode()
    told = subprocess.run(  # noqa: S603
        [sys.executable, "-c", "from quoracy.bench.aggregate import measure_peak; measure_peak()", wish],
        stdout=subprocess.PIPE,
        check=True,
        timeout=600,
    )
    return int(told.stdout) / updates[0].path.stat().st_size


def measure_peak() -> None:
    """In the process of its own: prints by how many bytes its private memory rose."""
    settings, plain = msgspec.json.decode(sys.argv[1], type=tuple[Aggregation, list[tuple[str, str, int]]])
    updates = [Update(participant, Path(path), samples) for participant, path, samples in plain]
    seen = [_private_bytes()]
    with TemporaryDirectory(dir=updates[0].path.parent) as folder:
        work = Thread(target=_ours, args=(settings, updates, Path(folder)))
        work.start()
        while work.is_alive():
            seen.append(_private_bytes())
            work.join(0.001)
    sys.stdout.write(f"{max(seen) - seen[0]}\n")


def _private_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))

"""Where the samples of a batch come from: sets that are at hand, and files. The other one is ``door``.

A file holds arrays by name, with one row for each sample: ``x`` and ``y``, say. Those whose names end in ``_test`` are
held out from training, under the name before that.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from quoracy.core.errors import ConfigError
from quoracy.learn import digits, fashion, tensors
from quoracy.learn.header import BadTensors
from quoracy.learn.witnessed.batches import ranges_of, rows
from quoracy.learn.witnessed.door import DoorSource, Fetch
from quoracy.learn.witnessed.packing import pack
from quoracy.learn.witnessed.trainer import Samples, Source

HELD_OUT: Final = "_test"
BATCHES: Final = "batches"


class ArraySource:
    """Arrays in memory, or mapped. ``ready`` makes of chosen rows what a trainer gets."""

    def __init__(
        self,
        arrays: Samples,
        held_out: Samples | None,
        *,
        seed: int,
        batch_size: int,
        ready: Callable[[Samples], Samples] = dict,
    ) -> None:
        self.count = _count(arrays, "samples")
        if held_out:
            _count(held_out, f"samples that are held out (names ending in {HELD_OUT})")
        self._arrays, self._held_out, self._ready = arrays, held_out, ready
        self.seed, self.batch_size = seed, batch_size

    def samples(self, batch_ids: Sequence[int]) -> Samples:
        chosen = rows(batch_ids, self.batch_size, self.count, self.seed)
        return self._ready({name: array[chosen] for name, array in self._arrays.items()})

    def held_out(self) -> Samples | None:
        return self._ready(self._held_out) if self._held_out else None


def digits_source(seed: int, batch_size: int) -> ArraySource:
    """1,442 handwritten digits, which come with the package, and 355 held out."""
    (x, y), (x_test, y_test) = digits.load("train"), digits.load("test")
    return ArraySource({"x": x, "y": y}, {"x": x_test, "y": y_test}, seed=seed, batch_size=batch_size)


def fashion_source(seed: int, batch_size: int) -> ArraySource:
    """60,000 pictures of clothes, from Debian's package, and 10,000 held out. Kept as bytes: a quarter of the room."""
    small = {part: _as_bytes(*fashion.load(part)) for part in ("train", "test")}
    return ArraySource(small["train"], small["test"], seed=seed, batch_size=batch_size, ready=_as_floats)


def file_source(path: Path, seed: int, batch_size: int) -> ArraySource:
    """``.npz``, or ``.safetensors``, which is mapped and may be larger than memory. Raises ConfigError."""
    try:
        if path.suffix == ".npz":
            with np.load(path) as file:
                arrays = {name: file[name] for name in file.files}
        else:
            arrays = tensors.load(path)
    except (OSError, ValueError, BadTensors, zipfile.BadZipFile) as error:
        raise ConfigError("data.location", str(path), f"cannot be read: {error}") from None
    train = {name: array for name, array in arrays.items() if not name.endswith(HELD_OUT)}
    test = {name.removesuffix(HELD_OUT): array for name, array in arrays.items() if name.endswith(HELD_OUT)}
    return ArraySource(train, test or None, seed=seed, batch_size=batch_size)


def open_source(
    kind: str,
    location: str,
    *,
    seed: int,
    batch_size: int,
    fetch: Fetch | None = None,
    held_out: Callable[[], bytes | None] | None = None,
) -> Source | None:
    """As the run's settings name it (``data``). None where they name none: the trainer brings its own. ``fetch`` and
    ``held_out`` bring the bytes of kind door."""
    if kind == "door":
        if fetch is None:
            raise ConfigError("data.kind", kind, "samples behind the coordinator's door need somebody who fetches them")
        return DoorSource(fetch, batch_size=batch_size, held_out=held_out)
    if kind != "local":
        raise ConfigError("data.kind", kind, "one of: local, door")
    if not location:
        return None
    if location in NAMED:
        return NAMED[location](seed, batch_size)
    path = Path(location)
    if path.suffix not in (".npz", ".safetensors"):
        fix = f"one of: {', '.join(NAMED)}, or a file that ends in .npz or .safetensors"
        raise ConfigError("data.location", location, fix)
    return file_source(path, seed, batch_size)


def packed(source: Source, batch_ids: Sequence[int]) -> bytes:
    """What the door answers with when these batches are asked for."""
    ranges = ",".join(f"{first}-{end}" for first, end in ranges_of(batch_ids))
    return pack(source.samples(batch_ids), {BATCHES: ranges})


def packed_held_out(source: Source) -> bytes | None:
    samples = source.held_out()
    return None if samples is None else pack(samples)


NAMED: Final[dict[str, Callable[[int, int], ArraySource]]] = {"digits": digits_source, "fashion": fashion_source}


def _count(arrays: Samples, what: str) -> int:
    sizes = {name: len(array) if array.ndim else -1 for name, array in arrays.items()}
    if not sizes or min(sizes.values()) < 1 or len(set(sizes.values())) > 1:
        raise ConfigError(what, sizes, "arrays by name, each with the same number of rows, at least one")
    return next(iter(sizes.values()))


def _as_bytes(
    x: np.ndarray[tuple[int, ...], np.dtype[np.float32]], y: np.ndarray[tuple[int, ...], np.dtype[np.int64]]
) -> Samples:
    return {"x": np.rint(x * np.float32(255)).astype(np.uint8), "y": y.astype(np.uint8)}


def _as_floats(samples: Samples) -> Samples:
    pixels = np.multiply(samples["x"], np.float32(1 / 255), dtype=np.float32)
    return {"x": pixels, "y": samples["y"].astype(np.int64)}

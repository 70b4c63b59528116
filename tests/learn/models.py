"""Small models in files, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quoracy.core.federated.aggregation import Aggregation
from quoracy.learn import Aggregated, Update, aggregate, load, save

Arrays = Mapping[str, NDArray[Any]]


def update(folder: Path, participant: str, arrays: Arrays, samples: int = 1, **options: Any) -> Update:
    path = folder / f"{participant}.safetensors"
    save(path, arrays, **options)
    return Update(participant, path, samples)


def split(vector: NDArray[Any], shapes: list[tuple[int, ...]]) -> dict[str, NDArray[Any]]:
    """One vector as tensors t0, t1 and so on of these shapes, in float32."""
    arrays, start = {}, 0
    for number, shape in enumerate(shapes):
        size = int(np.prod(shape))
        arrays[f"t{number}"] = vector[start : start + size].reshape(shape).astype(np.float32)
        start += size
    return arrays


def joined(path: Path) -> NDArray[np.float64]:
    """All tensors of such a file as one vector again."""
    arrays = load(path)
    flat = [arrays[f"t{number}"].reshape(-1) for number in range(len(arrays))]
    return np.concatenate(flat).astype(np.float64)


def made(
    folder: Path, settings: Aggregation, updates: list[Update], previous: Arrays, state: Path | None = None
) -> Aggregated:
    """Aggregate in a folder of its own."""
    save(folder / "previous", previous)
    out = folder / f"out{len(list(folder.glob('out*')))}"
    out.mkdir()
    return aggregate(settings, updates, folder / "previous", state, out)

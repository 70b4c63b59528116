"""Fashion-MNIST: 60,000 pictures of clothes to train on and 10,000 held out, 28 x 28 pixels, ten classes.

Too large to come with the package. Debian has it as one of its own, ``dataset-fashion-mnist``; a folder with the same
four files does as well.
"""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from quoracy.core.errors import ConfigError

FEATURES: Final = 784
CLASSES: Final = 10
VARIABLE: Final = "QUORACY_FASHION_MNIST"
DEBIAN: Final = Path("/usr/share/datasets/fashion-mnist")
INSTALL: Final = (
    "install Debian's package (apt-get install dataset-fashion-mnist), or set "
    f"{VARIABLE} to a folder with the four files of Fashion-MNIST, *-ubyte.gz"
)
NAMES: Final = {"train": "train", "test": "t10k"}
SIZES: Final = {"train": 60_000, "test": 10_000}
UNSIGNED_BYTES: Final = 8
"""The type of the elements, as the third byte of an IDX file says it."""

Part = Literal["train", "test"]


def folder() -> Path:
    """Where the files are looked for."""
    return Path(os.environ.get(VARIABLE) or DEBIAN)


def available() -> bool:
    return all(_path(part, kind).is_file() for part in NAMES for kind in ("images-idx3", "labels-idx1"))


def labels(part: Part) -> npt.NDArray[np.int64]:
    """The class of each. Reads the small file only: enough to cut the set into partitions."""
    return _read(_path(part, "labels-idx1"), (SIZES[part],)).astype(np.int64)


def load(
    part: Part, rows: npt.NDArray[np.int64] | None = None
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Pixels from 0 to 1, one picture a row, and its class. ``rows``: only these, in this order; the others are never
    made into floats, which would be 188 MB."""
    pixels = _read(_path(part, "images-idx3"), (SIZES[part], 28, 28)).reshape(-1, FEATURES)
    classes = labels(part)
    if rows is not None:
        pixels, classes = pixels[rows], classes[rows]
    return np.multiply(pixels, np.float32(1 / 255), dtype=np.float32), classes


def _path(part: str, kind: str) -> Path:
    return folder() / f"{NAMES[part]}-{kind}-ubyte.gz"


def _read(path: Path, shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """An IDX file: two zeros, the type, the number of dimensions, each of them in four bytes, and the elements."""
    try:
        content = gzip.decompress(path.read_bytes())
    except FileNotFoundError:
        raise ConfigError(VARIABLE, str(path.parent), f"there is no {path.name}; {INSTALL}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(VARIABLE, str(path.parent), f"{path.name} cannot be read ({error}); {INSTALL}") from None
    head = bytes((0, 0, UNSIGNED_BYTES, len(shape))) + b"".join(size.to_bytes(4, "big") for size in shape)
    if not content.startswith(head) or len(content) != len(head) + int(np.prod(shape)):
        wanted = " x ".join(map(str, shape))
        raise ConfigError(VARIABLE, str(path.parent), f"{path.name} is not {wanted} bytes in an IDX file; {INSTALL}")
    return np.frombuffer(content, dtype=np.uint8, offset=len(head)).reshape(shape)

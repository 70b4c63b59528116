"""Arrays as the file that they would be: the same bytes, from anywhere in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quoracy.learn import BadTensors, digest_of, save
from quoracy.learn.packed import Packed
from quoracy.learn.tensors import CHUNK_BYTES


def arrays() -> dict[str, Any]:
    drawn = np.random.Generator(np.random.PCG64(3))
    return {
        "half": drawn.random((3, 5)).astype(np.float16),
        "short": drawn.random(7, dtype=np.float32),
        "turned": drawn.random((4, 6), dtype=np.float32).T,
        "pairs": drawn.random(3) + 1j * drawn.random(3).astype(np.complex64),
        "whole": np.arange(5, dtype=np.int64),
        "truth": np.array([True, False]),
        "nothing": np.zeros((0, 4), np.float32),
        "one": np.float64(2.5),
    } | {"pairs": (drawn.random(3) + 1j * drawn.random(3)).astype(np.complex64)}


def test_the_bytes_are_those_of_the_file_from_wherever_they_are_asked_for(tmp_path: Path) -> None:
    codes = {"short": "BF16"}
    digest = save(tmp_path / "file", arrays(), codes=codes)
    packed = Packed(arrays(), codes)
    content = (tmp_path / "file").read_bytes()
    assert (packed.digest, packed.size_bytes) == (digest, len(content))
    for begin in range(len(content) + 1):
        assert b"".join(packed.pieces(begin)) == content[begin:], begin


def test_a_large_one_comes_in_pieces(tmp_path: Path) -> None:
    large = {"w": np.arange(2 * CHUNK_BYTES + 5, dtype=np.float32)}
    digest = save(tmp_path / "file", large)
    packed = Packed(large)
    assert packed.digest == digest == digest_of(tmp_path / "file")
    assert max(len(piece) for piece in packed.pieces()) == 4 * CHUNK_BYTES
    assert b"".join(packed.pieces(9_000_001)) == (tmp_path / "file").read_bytes()[9_000_001:]


def test_what_has_no_place_in_a_file_is_told() -> None:
    with pytest.raises(BadTensors, match="tensor 'w' is of <U1, which has no place in a file"):
        Packed({"w": np.array(["a"])})

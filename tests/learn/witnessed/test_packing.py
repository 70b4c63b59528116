"""Arrays as bytes: what the safetensors library writes is read, and the other way round."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from tests.learn.witnessed.some import half_precision, same, turned, weights

from quoracy.learn.header import BadTensors
from quoracy.learn.witnessed.packing import pack, unpack

SOME: dict[str, Any] = {
    **weights(), "mask": np.array([True, False]), "none": np.zeros((0, 2), np.int16), "one": np.array(7, np.int64),
}  # fmt: skip


def test_what_is_packed_is_a_safetensors_file_and_comes_back() -> None:
    blob = pack(SOME, {"why": "test"})
    assert same(safetensors.numpy.load(blob), SOME)
    arrays, metadata = unpack(blob)
    assert same(arrays, SOME)
    assert metadata == {"why": "test"}
    assert not any(array.flags.writeable for array in arrays.values())


def test_what_the_library_writes_is_read() -> None:
    assert same(unpack(safetensors.numpy.save(SOME))[0], SOME)


def test_the_order_and_the_lie_of_arrays_do_not_matter() -> None:
    other = {name: array.astype(array.dtype.newbyteorder(">")) for name, array in turned(SOME).items()}
    assert pack(other) == pack(SOME)


def test_what_has_no_place_in_a_file_is_named() -> None:
    with pytest.raises(BadTensors, match="tensor 'z' is of complex128"):
        pack({"z": np.zeros(1, np.complex128)})


@pytest.mark.parametrize(
    ("blob", "said"),
    [(b"", "no file of tensors"), (b"PK\x03\x04" + bytes(20), "a zip archive"), (pack(SOME)[:-1], "the file has")],
)
def test_what_is_no_file_is_refused_in_words(blob: bytes, said: str) -> None:
    with pytest.raises(BadTensors, match=said):
        unpack(blob)


def test_a_type_that_numpy_does_not_have_is_refused_by_name() -> None:
    with pytest.raises(BadTensors, match="tensor 'h' is of BF16"):
        unpack(half_precision())


@given(st.binary(max_size=300))
def test_garbage_is_refused_and_nothing_else(blob: bytes) -> None:
    try:
        unpack(blob)
    except BadTensors:
        return
    raise AssertionError("that was no garbage")

"""Files of tensors: what others write can be read, what we write others can read, and what is broken is refused."""

from __future__ import annotations

import io
import json
import os
import struct
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import blake3
import numpy as np
import pytest
import safetensors
import safetensors.numpy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file as save_torch

from quoracy.learn import BadTensors, TensorFile, digest_of, load, save
from quoracy.learn.dtypes import DTYPES, is_finite, narrow, widen
from quoracy.learn.header import MAX_HEADER_BYTES, Layout, difference
from quoracy.learn.tensors import TensorWriter

NUMPY = [np.dtype(dtype.stored) for dtype in DTYPES.values() if dtype.in_numpy]
SOME: dict[str, Any] = {
    "b/kernel": np.arange(12, dtype=np.float32).reshape(3, 4),
    "a/mask": np.array([True, False, True]),
    "scalar": np.array(7, np.int64),
    "empty": np.zeros((0, 5), np.float16),
    "ä": np.array([1.5]),
}


def file(header: Any, body: bytes = b"", pad: bool = True) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    text += b" " * (-len(text) % 8) * pad
    return struct.pack("<Q", len(text)) + text + body


def entry(dtype: str = "F32", shape: Any = (1,), begin: Any = 0, end: Any = 4) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def read(path: Path) -> dict[str, Any]:
    """Through slices of three, in each of the three ways."""
    found, mapped, anew = _read(path), _read(path, mapped=True), _read(path, held=False)
    for name, array in found.items():
        assert array.tobytes() == mapped[name].tobytes() == anew[name].tobytes()
    return found


def _read(path: Path, **way: bool) -> dict[str, Any]:
    found = {}
    with TensorFile(path, **way) as tensors:
        for spec in tensors.specs:
            out = np.empty(spec.size, spec.dtype.works_as)
            for start in range(0, spec.size, 3):
                tensors.read_into(spec, start, out[start : start + 3])
            found[spec.name] = out.view("<c8" if spec.dtype.code == "C64" else out.dtype).reshape(spec.shape)
    return found


@st.composite
def arrays(draw: Any) -> dict[str, Any]:
    names = draw(st.lists(st.text("abcß/.0", min_size=1, max_size=6), unique=True, max_size=5))
    made = {}
    for name in names:
        dtype = draw(st.sampled_from(NUMPY))
        shape = draw(st.lists(st.integers(0, 4), max_size=3).map(tuple))
        size = int(np.prod(shape)) * dtype.itemsize
        plain = draw(st.binary(min_size=size, max_size=size))
        whole = np.frombuffer(plain, np.uint8) % 2 if dtype.kind == "b" else np.frombuffer(plain, dtype)
        made[name] = whole.astype(dtype).reshape(shape)
    return made


@given(arrays())
def test_we_write_the_same_bytes_as_the_library(made: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "ours"
        digest = save(path, made)
        assert path.read_bytes() == safetensors.numpy.save(made)
        assert digest == blake3.blake3(path.read_bytes()).hexdigest() == digest_of(path)


@given(arrays())
def test_what_the_library_writes_is_read_as_it_is(made: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "theirs"
        safetensors.numpy.save_file(made, path)
        mapped, sliced = load(path), read(path)
    assert mapped.keys() == sliced.keys() == made.keys()
    for key, array in made.items():
        assert mapped[key].dtype == array.dtype
        assert mapped[key].tobytes() == array.tobytes()
        with np.errstate(invalid="ignore"):
            assert np.array_equal(sliced[key], array.astype(sliced[key].dtype), equal_nan=True)


def test_the_order_in_which_arrays_are_given_does_not_matter(tmp_path: Path) -> None:
    backwards = dict(reversed(SOME.items()))
    assert save(tmp_path / "a", SOME, metadata={"x": "1", "y": "2"}, sync=True) == save(
        tmp_path / "b", backwards, metadata={"y": "2", "x": "1"}
    )
    with TensorFile(tmp_path / "a") as tensors:
        assert tensors.metadata == {"x": "1", "y": "2"}


def test_arrays_of_any_order_and_byte_order_are_written_as_they_are_meant(tmp_path: Path) -> None:
    wide = np.arange(12, dtype=">f4").reshape(3, 4)
    save(tmp_path / "a", {"t": wide.T, "u": wide[:, ::2]})
    assert load(tmp_path / "a")["t"].tolist() == wide.T.tolist()
    assert load(tmp_path / "a")["u"].tolist() == wide[:, ::2].tolist()


def test_numbers_without_a_place_in_a_file_are_refused(tmp_path: Path) -> None:
    for array in (np.zeros(1, complex), np.array(["x"]), np.zeros(1, "M8[s]")):
        with pytest.raises(BadTensors, match="tensor 'w' is of"):
            save(tmp_path / "a", {"w": array})


def test_mapped_arrays_outlive_the_file_and_cannot_be_written(tmp_path: Path) -> None:
    save(tmp_path / "a", SOME)
    with TensorFile(tmp_path / "a") as tensors:
        kernel = tensors.array("b/kernel")
    with pytest.raises(ValueError, match="read-only"):
        kernel[0, 0] = 1
    (tmp_path / "a").unlink()
    assert kernel.tolist() == SOME["b/kernel"].tolist()
    with pytest.raises(ValueError, match="is closed"):
        tensors.array("b/kernel")


# -- BF16 ------------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(width=32), min_size=1, max_size=20))
def test_bf16_is_rounded_as_torch_rounds_it(numbers: list[float]) -> None:
    given = np.array(numbers, np.float32)
    wanted = torch.from_numpy(given.copy()).bfloat16()
    stored = narrow(given, DTYPES["BF16"])
    back = np.empty_like(given)
    widen(stored, DTYPES["BF16"], back)
    assert np.array_equal(back, wanted.float().numpy(), equal_nan=True)
    assert is_finite(stored, DTYPES["BF16"]) == bool(torch.isfinite(wanted).all())


def test_bf16_from_torch_is_read_as_float32(tmp_path: Path) -> None:
    layer = torch.randn(6, 3).bfloat16()
    save_torch({"w": layer}, tmp_path / "theirs")
    assert np.array_equal(load(tmp_path / "theirs")["w"], layer.float().numpy())
    assert np.array_equal(read(tmp_path / "theirs")["w"], layer.float().numpy())
    save(tmp_path / "ours", load(tmp_path / "theirs"), codes={"w": "BF16"})
    assert digest_of(tmp_path / "ours") == digest_of(tmp_path / "theirs")


@pytest.mark.parametrize("code", ["I8", "U8", "I32", "I64", "U64"])
def test_integers_are_rounded_and_stay_within_their_type(code: str) -> None:
    bounds = np.iinfo(np.dtype(DTYPES[code].stored))
    stored = narrow(np.array([-1e30, 1e30, 2.5, 3.5, 2.4999]), DTYPES[code])
    assert stored.tolist() == [bounds.min, bounds.max, 2, 4, 2]


def test_a_truth_value_that_is_neither_counts_as_true(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(file({"m": entry("BOOL", (3,), 0, 3)}, b"\x00\x01\x07"))
    assert read(tmp_path / "a")["m"].tolist() == [0.0, 1.0, 1.0]


# -- layouts ---------------------------------------------------------------------------------------------------------

LAYOUT: Layout = {"a": ("F32", (2, 3)), "b": ("I8", ())}


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        (LAYOUT, ""),
        ({"a": ("F32", (2, 3))}, "tensor 'b' is missing"),
        ({**LAYOUT, "aa": ("F32", (1,))}, "tensor 'aa' is not in the model"),
        ({"a": ("F32", (3, 2)), "b": ("I16", ())}, "tensor 'a' has shape (3, 2), the model's is (2, 3)"),
        ({"a": ("F32", (2, 3)), "b": ("I16", ())}, "tensor 'b' has type I16, the model's is I8"),
    ],
)
def test_the_first_difference_of_two_layouts_is_named(layout: Layout, said: str) -> None:
    assert difference(layout, LAYOUT) == said


# -- what is broken --------------------------------------------------------------------------------------------------


def zipped() -> bytes:
    into = io.BytesIO()
    np.savez(into, w=np.zeros(3))
    assert zipfile.is_zipfile(into)
    return into.getvalue()


def saved() -> bytes:
    into = io.BytesIO()
    np.save(into, np.zeros(3))
    return into.getvalue()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "0 bytes are too few"),
        (b"12345678", "8 bytes are too few"),
        (b"\x80\x04\x95" + bytes(50), "this is a pickle, which can run any code when it is read; send safetensors"),
        (b"(dp0\nS'w'\np1\n.", "this is a pickle in text form"),
        (zipped(), "this is a zip archive, such as torch.save and numpy.savez write"),
        (saved(), "this is a numpy array"),
        (b"\x89HDF\r\n\x1a\n" + bytes(50), "this is an HDF5 file"),
        (b'{"weights": [1, 2, 3]}', "this is JSON or text"),
        (b"\xff" * 100, "not safetensors: the header would have 18446744073709551615 bytes, at most 92"),
        (file(b"{}" + b" " * MAX_HEADER_BYTES), f"at most {MAX_HEADER_BYTES} are"),
        (file(b"[]      "), "does not begin with {"),
        (file(b"{\xff}"), "the header is not JSON"),
        (file(b'{"a":' * 5000), "the header is not JSON"),
        (file(b'{"a": 1' + b"0" * 5000 + b"}"), "the header is not JSON"),
        (file(b"{} x"), "the header is not JSON"),
        (file(b'{"a": {}, "a": {}}'), "the header has 'a' twice"),
        (file({"__metadata__": {"x": 1}}), "__metadata__ is not texts"),
        (file({"a": 5}), "is not described by"),
        (file({"a": {**entry(), "more": 1}}, bytes(4)), "is not described by"),
        (file({"a": {"dtype": "F32", "shape": [1]}}), "is not described by"),
        (file({"": entry()}, bytes(4)), "a tensor's name is"),
        (file({"a\n": entry()}, bytes(4)), "a tensor's name is"),
        (file({"a" * 1025: entry()}, bytes(4)), "a tensor's name is"),
        (file(b'{"\\ud800": {}}'), "a tensor's name is"),
        (file({"a": entry("F8_E8M0", (4,))}, bytes(4)), "has type 'F8_E8M0', which is not calculated with; send"),
        (file({"a": entry("F4", (8,))}, bytes(4)), "has type 'F4'"),
        (file({"a": {**entry(), "dtype": ["F32"]}}, bytes(4)), "which is not calculated with"),
        (file({"a": entry(shape=[-1])}, bytes(4)), "has no shape"),
        (file({"a": entry(shape=[1.0])}, bytes(4)), "has no shape"),
        (file({"a": entry(shape=[True])}, bytes(4)), "has no shape"),
        (file({"a": entry(shape=[1] * 33)}, bytes(4)), "has no shape"),
        (file({"a": {**entry(), "shape": {}}}, bytes(4)), "has no shape"),
        (file({"a": {**entry(), "data_offsets": [0]}}, bytes(4)), "has no begin and end"),
        (file({"a": entry(begin=-4, end=0)}, bytes(4)), "has no begin and end"),
        (file({"a": entry(end="4")}, bytes(4)), "has no begin and end"),
        (file({"a": entry(begin=4, end=0)}, bytes(4)), "tensor 'a' needs 4 bytes and has -4"),
        (file({"a": entry(shape=[2])}, bytes(4)), "tensor 'a' needs 8 bytes and has 4"),
        (file({"a": entry(shape=[2**40, 2**40, 0], end=0)}), "no machine has room for"),
        (file({"a": entry(shape=[2**61])}, bytes(4)), "no machine has room for"),
        (file({"a": entry(begin=4, end=8)}, bytes(8)), "the header and tensor 'a' leave a hole of 4 bytes"),
        (file({"a": entry(), "b": entry(begin=8, end=12)}, bytes(12)), "'a' and tensor 'b' leave a hole of 4 bytes"),
        (file({"a": entry(), "b": entry()}, bytes(4)), "tensor 'a' and tensor 'b' overlap"),
        (file({"a": entry(shape=[2], end=8), "b": entry(begin=4, end=8)}, bytes(8)), "'a' and tensor 'b' overlap"),
        (file({"a": entry()}, bytes(3)), "ends at byte 76, the file has 75"),
        (file({"a": entry()}, bytes(5)), "ends at byte 76, the file has 77"),
        (file({}, bytes(1)), "the header ends at byte 16, the file has 17"),
        (file({"a": entry()}, bytes(4), pad=False), "which is no multiple of 8"),
        (file({"a": entry("U8", (1,), 0, 1), "b": entry(begin=1, end=5)}, bytes(5)), "which is no multiple of its 4"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)  # fmt: skip
def test_what_is_no_file_of_tensors_is_refused_by_what_it_is(content: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(BadTensors) as refused:
        TensorFile(tmp_path / "a")
    assert why in str(refused.value)
    assert len(str(refused.value)) < 1200


def test_what_is_no_file_at_all_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(BadTensors, match="not a file"):
            TensorFile(path)


def test_a_file_that_is_cut_short_while_it_is_read_is_an_error_and_no_crash(tmp_path: Path) -> None:
    save(tmp_path / "a", {"w": np.zeros(100_000)})
    with TensorFile(tmp_path / "a") as tensors:
        os.truncate(tmp_path / "a", 5000)
        with pytest.raises(BadTensors, match="the file ends at byte 5000: it has been cut short"):
            tensors.read_into(tensors.by_name["w"], 0, np.empty(100_000))


def test_a_file_is_not_finished_before_all_its_numbers_are_there(tmp_path: Path) -> None:
    with TensorWriter(tmp_path / "a", {"w": ("F32", (4,))}) as writer:
        writer.write("w", 2, np.zeros(2, np.float32))
        with pytest.raises(AssertionError, match="lacks 8 bytes"):
            writer.close()


VALID = safetensors.numpy.save(SOME)
HEADER = 8 + int.from_bytes(VALID[:8], "little")
changes = st.lists(st.tuples(st.integers(0, HEADER - 1), st.integers(0, 255)), max_size=4)
WORDS = ["F32", "BF16", "a", "dtype", "shape", "data_offsets", "__metadata__", 0, 1, 4, 8, 12, -1, 2**64]
KEYS = st.sampled_from(["a", "b", "dtype", "shape", "data_offsets"])
nested = st.recursive(
    st.sampled_from(WORDS), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner), max_leaves=9
)
place = st.integers(0, 24)
entries = st.builds(entry, st.sampled_from([*DTYPES, "X"]), st.lists(st.integers(0, 3), max_size=2), place, place)
headers = st.dictionaries(st.sampled_from(["a", "b", "__metadata__"]), nested | entries)


def looked_at(content: bytes) -> None:
    """Refused, or sound: then every number lies in the file, is read, and the library finds the same."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "a"
        path.write_bytes(content)
        try:
            tensors = TensorFile(path)
        except BadTensors:
            return
        with tensors:
            assert all(0 <= spec.begin <= spec.end <= len(content) for spec in tensors.specs)
            names = [spec.name for spec in tensors.specs]
        assert set(read(path)) == set(load(path)) == set(names)
        with safetensors.safe_open(path, "np") as theirs:
            assert set(theirs.keys()) == set(names)
            assert [theirs.get_slice(n).get_shape() for n in names] == [list(tensors.by_name[n].shape) for n in names]


@settings(max_examples=300)
@given(changes, st.integers(0, len(VALID)), st.booleans())
def test_a_damaged_file_is_refused_or_sound(wrong: list[tuple[int, int]], length: int, cut: bool) -> None:
    content = bytearray(VALID)
    for place, value in wrong:
        content[place] = value
    looked_at(bytes(content[:length] if cut else content))


@settings(max_examples=300)
@given(headers, st.integers(0, 48), st.booleans())
def test_any_header_is_refused_or_sound(header: dict[str, Any], size: int, pad: bool) -> None:
    looked_at(file(header, bytes(size), pad))

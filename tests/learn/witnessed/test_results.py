"""A result is decoded as what it is the result of, or refused by the name of what is wrong."""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import numpy as np
import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load
from tests.learn.witnessed.some import ABOUT, LAYOUT, result, same, turned, weights

from quoracy.learn.witnessed.encodings import Encoding, Int8, Plain, TopK
from quoracy.learn.witnessed.packing import pack, unpack
from quoracy.learn.witnessed.results import About, BadResult, batches_said, decode, encode, layout_of, size_bytes
from quoracy.learn.witnessed.trainer import Result

ALL: list[Encoding] = [Plain(), TopK(0.1), Int8(64)]


def blob(encoding: Encoding | None = None, **changes: Any) -> bytes:
    return encode(result(), msgspec.structs.replace(ABOUT, **changes), encoding or Plain(), LAYOUT)


@pytest.mark.parametrize("encoding", ALL)
def test_a_result_arrives_with_its_samples_and_loss(encoding: Encoding) -> None:
    made = result()
    got = decode(encode(made, ABOUT, encoding, LAYOUT), ABOUT, encoding, LAYOUT)
    assert (got.samples, got.loss, got.arrays.keys()) == (24, made.loss, made.arrays.keys())
    wanted = {
        name: encoding.decode(name, array.shape, encoding.encode(name, array)) for name, array in made.arrays.items()
    }
    assert same(got.arrays, wanted)
    if encoding.name == "plain":
        assert same(got.arrays, made.arrays)


@pytest.mark.parametrize("encoding", ALL)
def test_the_same_result_is_the_same_blob(encoding: Encoding) -> None:
    made = result()
    other = Result(turned(made.arrays), made.samples, made.loss)
    assert encode(other, ABOUT, encoding, LAYOUT) == encode(made, ABOUT, encoding, LAYOUT)


def test_the_blob_is_a_safetensors_file_with_every_field_in_its_header() -> None:
    made = blob()
    assert same(load(made), result().arrays)
    (length,) = struct.unpack("<Q", made[:8])
    assert msgspec.json.decode(made[8 : 8 + length])["__metadata__"] == {
        "run": "run", "epoch": "3", "round": "4", "assignment": "5", "attempt": "1", "member": "m5",
        "batches": "10-12,20-21", "base": bytes(range(32)).hex(), "samples": "24", "encoding": "plain", "loss": "100.5",
    }  # fmt: skip


CHANGES: dict[str, Any] = {
    "run": "other", "epoch": 4, "round": 5, "assignment": 6, "attempt": 2, "member": "m6", "batches": ((10, 13),),
    "base": bytes(32),
}  # fmt: skip


@pytest.mark.parametrize("field", CHANGES)
def test_a_result_of_something_else_is_refused_by_the_field_and_has_another_digest(field: str) -> None:
    other = blob(**{field: CHANGES[field]})
    with pytest.raises(BadResult, match=f"^{field} is "):
        decode(other, ABOUT, Plain(), LAYOUT)
    assert blake3(other).digest() != blake3(blob()).digest()


def test_every_field_is_looked_at() -> None:
    """A field that somebody adds to what a result is about needs a row above."""
    assert {*CHANGES, "samples"} == set(About.__struct_fields__)


def test_who_claims_more_samples_than_the_batches_have_would_weigh_more() -> None:
    boast = msgspec.structs.replace(ABOUT, samples=2400)
    made = encode(result(samples=2400), boast, Plain(), LAYOUT)
    with pytest.raises(BadResult, match="samples is '2400', it should be '24'"):
        decode(made, ABOUT, Plain(), LAYOUT)


def test_a_result_in_another_encoding_is_refused() -> None:
    with pytest.raises(BadResult, match="encoding is 'int8', it should be 'plain'"):
        decode(blob(Int8(64)), ABOUT, Plain(), LAYOUT)


def test_another_share_or_another_block_is_another_layout() -> None:
    with pytest.raises(BadResult, match="tensor 'a/index' has shape"):
        decode(blob(TopK(0.2)), ABOUT, TopK(0.1), LAYOUT)
    with pytest.raises(BadResult, match="tensor 'a/scale' has shape"):
        decode(blob(Int8(10)), ABOUT, Int8(64), LAYOUT)


def test_a_blob_says_itself_which_batches_it_is_of() -> None:
    assert batches_said(blob()) == ABOUT.batches


@pytest.mark.parametrize("said", ["", "1", "1-2,", "2-1", "3-3", "0x1-2", "-1-2", "1-9999999999999999", "٣-٤"])
def test_batches_that_are_none_are_refused(said: str) -> None:
    with pytest.raises(BadResult, match="batches is"):
        batches_said(pack(weights(), {"batches": said}))
    with pytest.raises(BadResult, match="batches is"):
        decode(pack(weights(), ABOUT.metadata("plain") | {"batches": said, "loss": "0.5"}), ABOUT, Plain(), LAYOUT)


# -- by hand -------------------------------------------------------------------------------------------------------


def forged(arrays: dict[str, Any], encoding: Encoding | None = None, **fields: str | None) -> bytes:
    metadata: dict[str, Any] = ABOUT.metadata((encoding or Plain()).name) | {"loss": "0.5"} | fields
    return pack(arrays, {name: value for name, value in metadata.items() if value is not None})


def spoiled(name: str, value: Any) -> dict[str, Any]:
    return {**weights(), name: value}


def test_a_blob_forged_well_is_one() -> None:
    assert decode(forged(weights()), ABOUT, Plain(), LAYOUT).loss == 0.5


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (forged(weights(), epoch=None), "epoch is missing"),
        (forged(weights(), loss=None), "loss is ''"),
        (forged(weights(), loss="nan"), "loss is 'nan'"),
        (forged(weights(), loss="1e999"), "loss is '1e999'"),
        (forged(weights(), loss="0.50"), "loss is '0.50'"),
        (forged(weights(), loss="a lot"), "loss is 'a lot'"),
        (forged(weights(), extra="x"), "there is no field 'extra'"),
        (forged(spoiled("a", np.zeros((5, 7), np.float32))), "tensor 'a' has shape"),
        (forged(spoiled("a", np.zeros((7, 5)))), "tensor 'a' has type F64"),
        (forged(spoiled("z", np.zeros(1, np.float32))), "tensor 'z' is not in the model"),
        (forged({n: a for n, a in weights().items() if n != "b"}), "tensor 'b' is missing"),
        (forged(spoiled("b", np.array([1, np.nan, 2], np.float32))), "tensor 'b' holds 1 numbers that are infinite"),
        (forged(spoiled("b", np.array([np.inf, np.nan, 2], np.float32))), "tensor 'b' holds 2 numbers"),
        (b"", "no file of tensors"),
        (b"\x80\x04 this is something else entirely", "a pickle"),
        (forged(weights())[:-1], "the file has"),
        (forged(weights()) + b"\0", "the file has"),
        (struct.pack("<Q", 10) + b"{" * 10, "the header cannot be read"),
        (struct.pack("<Q", 16) + b'{"__metadata__":1' + b"}" * 9, "the header cannot be read"),
    ],
)
def test_a_forged_blob_is_refused_in_words(made: bytes, said: str) -> None:
    with pytest.raises(BadResult, match=said):
        decode(made, ABOUT, Plain(), LAYOUT)


def test_there_is_one_way_to_write_a_result() -> None:
    """The same result with another digest would be a second face of the same work."""
    made = blob()
    (length,) = struct.unpack("<Q", made[:8])
    header = made[8 : 8 + length]
    loose = struct.pack("<Q", length + 8) + header + b" " * 8 + made[8 + length :]
    assert same(unpack(loose)[0], result().arrays)
    with pytest.raises(BadResult, match="not written as that of a result is"):
        decode(loose, ABOUT, Plain(), LAYOUT)


@pytest.mark.parametrize(
    ("encoding", "part", "value"),
    [(TopK(0.1), "b/value", np.array([np.inf], np.float32)), (Int8(64), "b/scale", np.array([np.nan], np.float32)),
     (Int8(64), "b/scale", np.array([3e38], np.float32)), (Int8(64), "b/scale", np.array([-1], np.float32)),
     (TopK(0.1), "b/index", np.array([3], np.uint32))],
)  # fmt: skip
def test_parts_that_decode_to_no_number_are_refused(encoding: Encoding, part: str, value: Any) -> None:
    parts: dict[str, Any] = {}
    for name, array in weights().items():
        parts |= encoding.encode(name, array)
    assert parts[part].shape == value.shape
    assert decode(forged(parts, encoding), ABOUT, encoding, LAYOUT).samples == 24
    with pytest.raises(BadResult, match="tensor 'b"):
        decode(forged({**parts, part: value}, encoding), ABOUT, encoding, LAYOUT)


@pytest.mark.parametrize("encoding", ALL)
@settings(max_examples=200)
@given(place=st.integers(0, 10**6), bit=st.integers(0, 7), short=st.booleans())
def test_a_damaged_blob_is_refused_or_another_result_and_nothing_else(
    encoding: Encoding, place: int, bit: int, short: bool
) -> None:
    layout = {name: LAYOUT[name] for name in ("a", "b")}
    small = Result({name: weights()[name] for name in layout}, 24, 0.5)
    damaged = bytearray(encode(small, ABOUT, encoding, layout))
    if short:
        del damaged[place % len(damaged) :]
    else:
        damaged[place % len(damaged)] ^= 1 << bit
    try:
        got = decode(bytes(damaged), ABOUT, encoding, layout)
    except BadResult:
        return
    assert all(np.isfinite(array).all() for array in got.arrays.values())


# -- what a trainer must not return --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (Result(spoiled("b", np.array([1, 2, np.nan])), 24), "tensor 'b' holds 1 numbers"),
        (Result(spoiled("b", np.array([1, 2, 1e60])), 24), "tensor 'b' holds 1 numbers"),
        (Result(spoiled("b", [1.0, 2.0, 3.0]), 24), "tensor 'b' is a list"),
        (Result(spoiled("b", np.array(["1", "2", "3"])), 24), "tensor 'b' is a ndarray"),
        (Result(spoiled("b", np.ones(4)), 24), "tensor 'b' has shape"),
        (Result(spoiled("z", np.ones(4)), 24), "tensor 'z' is not in the model"),
        (Result(weights(), 23), "samples is 23, these batches have 24"),
        (Result(weights(), 24, float("inf")), "loss is inf: the model has run away"),
        (Result(weights(), 24, float("nan")), "loss is nan: the model has run away"),
    ],
)
def test_what_a_trainer_returns_is_looked_at_before_anybody_is_told(made: Result, said: str) -> None:
    with pytest.raises(BadResult, match=said):
        encode(made, ABOUT, Plain(), LAYOUT)


def test_numbers_of_another_type_are_made_single() -> None:
    made = Result(spoiled("b", np.array([1, 2, 3])) | {"c": np.ones(1, np.float64)}, 24)
    got = decode(encode(made, ABOUT, Plain(), LAYOUT), ABOUT, Plain(), LAYOUT)
    assert (got.arrays["b"].dtype.str, got.arrays["b"].tolist()) == ("<f4", [1, 2, 3])


# -- sizes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ALL)
@pytest.mark.parametrize("loss", [0.0, -1.7976931348623157e299, 1 / 3, 5e-324])
def test_no_result_is_larger_than_it_can_be(encoding: Encoding, loss: float) -> None:
    made = encode(Result(weights(), 24, loss), ABOUT, encoding, LAYOUT)
    limit = size_bytes(ABOUT, encoding, LAYOUT)
    assert len(made) <= limit <= len(made) + 64


def test_what_is_trained_is_all_but_the_optimizer_s_memory_and_buffers() -> None:
    model = {**weights(), "optimizer/momentum/a": np.zeros(35, np.float32), "buffer/mean": np.zeros(3, np.int64)}
    assert layout_of(model) == LAYOUT


def test_tensors_without_numbers_are_carried_along() -> None:
    layout = {"a": ("F32", (2,)), "none": ("F32", (0, 3))}
    made = Result({"a": np.ones(2, np.float32), "none": np.zeros((0, 3), np.float32)}, 24)
    for encoding in ALL:
        got = decode(encode(made, ABOUT, encoding, layout), ABOUT, encoding, layout)
        assert got.arrays["none"].shape == (0, 3)

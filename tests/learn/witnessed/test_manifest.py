"""A model is its hash: whatever is another model has another one, and what is fetched is checked tensor by tensor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file
from tests.learn.witnessed.some import same, turned, weights

from quoracy.learn.header import BadTensors
from quoracy.learn.tensors import digest_of, save
from quoracy.learn.witnessed.manifest import (
    MAX_MANIFEST_BYTES,
    BadModel,
    Manifest,
    assemble,
    check_weights,
    load_checkpoint,
    load_weights,
    manifest_of,
    model_hash,
    read_manifest,
    read_tensor,
    save_checkpoint,
    tensor_bytes,
)


def model() -> dict[str, Any]:
    return {**weights(), "optimizer/step": np.array([3], np.int64), "empty": np.zeros((0, 4), np.float32)}


def test_the_hash_is_that_of_the_sorted_list_of_names_types_shapes_and_digests() -> None:
    """Said once more, in the words of the protocol: another program must come to the same."""
    made = model()
    listed = [
        [
            name,
            {"f4": "F32", "i8": "I64"}[made[name].dtype.str[1:]],
            made[name].shape,
            blake3(made[name].tobytes()).digest(),
        ]
        for name in sorted(made, key=str.encode)
    ]
    packed = msgspec.msgpack.encode(listed)
    assert manifest_of(made).packed == packed
    assert model_hash(made) == blake3(packed).digest()


def test_the_hash_does_not_depend_on_order_or_on_how_arrays_lie() -> None:
    made = model()
    other = turned(made)
    other["a"] = np.repeat(other["a"], 2, axis=0)[::2].astype(">f4")
    assert model_hash(other) == model_hash(made)


@pytest.mark.parametrize(
    "change",
    [
        lambda w: w.update(a=np.nextafter(w["a"], np.float32(9))),
        lambda w: w.update(a=w["a"].reshape(5, 7)),
        lambda w: w.update(a=w["a"].view(np.int32)),
        lambda w: w.update({"optimizer/step": np.array([4], np.int64)}),
        lambda w: w.update(e=w.pop("a")),
        lambda w: w.pop("c"),
        lambda w: w.update(empty=np.zeros((0, 5), np.float32)),
        lambda w: w.update(b=-w["b"]),
    ],
)
def test_whatever_is_changed_changes_the_hash(change: Any) -> None:
    made = model()
    before = manifest_of(made)
    change(made)
    assert model_hash(made) != before.model
    with pytest.raises(BadModel, match="tensor '"):
        check_weights(made, before)


def test_the_hash_tells_0_from_minus_0() -> None:
    assert model_hash({"a": np.zeros(1)}) != model_hash({"a": -np.zeros(1)})


def test_weights_that_are_the_model_are_let_through() -> None:
    check_weights(model(), manifest_of(model()))


# -- from others ---------------------------------------------------------------------------------------------------


def test_a_newcomer_has_the_same_model_tensor_by_tensor() -> None:
    made = model()
    sent = manifest_of(made)
    manifest = read_manifest(sent.packed, sent.model)
    assert manifest.size_bytes == sum(array.nbytes for array in made.values())
    got = assemble(manifest, lambda entry: tensor_bytes(made[entry.name]))
    assert same(got, made)
    assert all(array.flags.writeable for array in got.values())


@given(st.sampled_from(sorted(model())), st.integers(0, 10**6), st.integers(0, 7))
def test_a_tensor_with_one_wrong_bit_is_refused_by_its_name(name: str, place: int, bit: int) -> None:
    made = model()
    manifest = manifest_of(made)
    spoiled = bytearray(tensor_bytes(made[name]))
    if spoiled:
        spoiled[place % len(spoiled)] ^= 1 << bit
    else:
        spoiled += b"\0"
    with pytest.raises(BadModel, match=f"tensor '{name}'"):
        assemble(manifest, lambda entry: bytes(spoiled) if entry.name == name else tensor_bytes(made[entry.name]))


def test_a_tensor_that_is_too_short_is_refused_before_it_is_hashed() -> None:
    (entry,) = manifest_of({"a": np.ones(3, np.float32)}).entries
    with pytest.raises(BadModel, match="tensor 'a' has 11 bytes, the agreed model's has 12"):
        read_tensor(entry, bytes(11))


def test_a_manifest_of_another_model_is_refused() -> None:
    with pytest.raises(BadModel, match=f"agreed is {bytes(32).hex()}"):
        read_manifest(manifest_of(model()).packed, bytes(32))


DIGEST = bytes(32)


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ([["b", "F32", [1], DIGEST], ["a", "F32", [1], DIGEST]], "sorted"),
        ([["a", "F32", [1], DIGEST], ["a", "F32", [2], DIGEST]], "twice"),
        ([["a", "F32", [1], DIGEST, 0]], "sorted, and nothing more"),
        ([["a", "F31", [1], DIGEST]], "tensor 'a' of F31"),
        ([["a", "BF16", [1], DIGEST]], "tensor 'a' of BF16"),
        ([["a", "F32", [2**40, 2**40], DIGEST]], "cannot be held in memory"),
        ([["a", "F32", [-1], DIGEST]], "cannot be read"),
        ([["a", "F32", [1], DIGEST[1:]]], "cannot be read"),
        ([["", "F32", [1], DIGEST]], "cannot be read"),
        ([["a", "F32", [1] * 33, DIGEST]], "cannot be read"),
        ("a", "cannot be read"),
    ],
)  # fmt: skip
def test_a_manifest_that_only_its_hash_speaks_for_is_looked_at(listed: Any, said: str) -> None:
    blob = msgspec.msgpack.encode(listed)
    with pytest.raises(BadModel, match=said):
        read_manifest(blob, blake3(blob).digest())


def test_a_manifest_has_a_bound() -> None:
    with pytest.raises(BadModel, match=f"at most {MAX_MANIFEST_BYTES}"):
        read_manifest(bytes(MAX_MANIFEST_BYTES + 1), bytes(32))


@given(st.binary(max_size=200))
def test_garbage_is_refused_in_words(blob: bytes) -> None:
    try:
        found = read_manifest(blob, blake3(blob).digest())
    except BadModel:
        return
    assert found.packed == blob


def test_a_type_without_a_place_in_a_file_is_named() -> None:
    with pytest.raises(BadTensors, match="tensor 'z' is of complex128"):
        manifest_of({"z": np.zeros(1, np.complex128)})


def test_a_model_of_nothing_has_a_hash_too() -> None:
    empty = Manifest(())
    assert read_manifest(empty.packed, empty.model).entries == ()


# -- checkpoints ---------------------------------------------------------------------------------------------------


def test_a_checkpoint_is_the_model_and_anybody_s_tools_read_it(tmp_path: Path) -> None:
    made = model()
    path = tmp_path / "model.safetensors"
    digest, size_bytes, saved = save_checkpoint(path, made)
    assert saved == model_hash(made)
    assert (digest.hex(), size_bytes) == (digest_of(path), path.stat().st_size)
    got = load_checkpoint(path, saved)
    assert same(got, made)
    assert all(array.flags.writeable for array in got.values())
    assert same(load_file(path), made)


def test_the_same_model_makes_the_same_file_whoever_stores_it(tmp_path: Path) -> None:
    made = model()
    assert save_checkpoint(tmp_path / "one", made) == save_checkpoint(tmp_path / "other", turned(made))


def test_a_checkpoint_of_another_model_is_refused_whatever_it_calls_itself(tmp_path: Path) -> None:
    made = model()
    agreed = model_hash(made)
    made["b"][0] += 1
    save(tmp_path / "liar", made, metadata={"model": agreed.hex()})
    with pytest.raises(BadModel, match=f"is model {model_hash(made).hex()}, agreed is {agreed.hex()}"):
        load_checkpoint(tmp_path / "liar", agreed)
    assert same(load_weights(tmp_path / "liar"), made)


def test_a_file_that_is_none_or_not_whole_is_refused(tmp_path: Path) -> None:
    (tmp_path / "none").write_bytes(b"\x80\x04 a pickle")
    with pytest.raises(BadTensors, match="a pickle"):
        load_weights(tmp_path / "none")
    save_checkpoint(tmp_path / "cut", model())
    whole = (tmp_path / "cut").read_bytes()
    (tmp_path / "cut").write_bytes(whole[:-1])
    with pytest.raises(BadTensors, match="the file has"):
        load_checkpoint(tmp_path / "cut", bytes(32))


def test_bf16_is_refused_by_the_tensor_s_name(tmp_path: Path) -> None:
    save(tmp_path / "half", {"a": np.ones(2, np.float32)}, codes={"a": "BF16"})
    with pytest.raises(BadModel, match="tensor 'a' is of BF16"):
        load_weights(tmp_path / "half")

"""What a model is, in one hash: names, types, shapes and the digest of every tensor, the optimizer's memory among them.

The manifest is a list, sorted by name and written in one way only. Its BLAKE3 is the *model hash*, and the manifest
itself is a blob of that address; each tensor is a blob under its own digest. Whoever knows the hash can take the
manifest from anybody, and each tensor from anybody else, and check every one of them by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import numpy as np
from blake3 import blake3
from msgspec import Meta

from quoracy.core.codec import encode
from quoracy.learn.dtypes import CODES, DTYPES
from quoracy.learn.header import MAX_DIMENSIONS, MAX_NAME, BadTensors
from quoracy.learn.tensors import TensorFile, save
from quoracy.learn.witnessed.packing import Array, code_of, stored
from quoracy.learn.witnessed.trainer import Weights

MAX_TENSORS: Final = 65_536
MAX_MANIFEST_BYTES: Final = 16 * 1024 * 1024
MODEL: Final = "model"
"""Under this name a stored checkpoint says what it is."""

Size = Annotated[int, Meta(ge=0, lt=2**48)]


class BadModel(BadTensors):
    """Not the model that was agreed on. Names the tensor, where it is one."""


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One tensor: what it is, and the address of its bytes."""

    name: Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
    dtype: Annotated[str, Meta(max_length=8)]
    shape: Annotated[tuple[Size, ...], Meta(max_length=MAX_DIMENSIONS)]
    digest: Annotated[bytes, Meta(min_length=32, max_length=32)]

    @property
    def size_bytes(self) -> int:
        return math.prod(self.shape) * DTYPES[self.dtype].size_bytes


class Manifest:
    """The tensors of a model. Make it with ``manifest_of`` or ``read_manifest``."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries = tuple(sorted(entries, key=lambda entry: entry.name.encode()))

    @cached_property
    def packed(self) -> bytes:
        """The blob."""
        return encode(self.entries)

    @cached_property
    def model(self) -> bytes:
        """The model hash, and the address of the blob."""
        return blake3(self.packed).digest()

    @property
    def size_bytes(self) -> int:
        """Of all tensors together."""
        return sum(entry.size_bytes for entry in self.entries)


def tensor_bytes(array: Array) -> memoryview:
    """What is hashed and sent: C order, little-endian. No copy where the array lies so already."""
    plain = stored(array)
    return plain.reshape(-1).view(np.uint8).data if plain.size else memoryview(b"")


def manifest_of(weights: Weights) -> Manifest:
    return Manifest(
        Entry(name, code_of(name, array), array.shape, blake3(tensor_bytes(array)).digest())
        for name, array in weights.items()
    )


def model_hash(weights: Weights) -> bytes:
    return manifest_of(weights).model


def read_manifest(blob: bytes, model: bytes) -> Manifest:
    """From somebody else. Raises BadModel unless it is the one of this hash, whole and written as it must be."""
    if len(blob) > MAX_MANIFEST_BYTES:
        raise BadModel(f"the manifest has {len(blob)} bytes, at most {MAX_MANIFEST_BYTES} are read")
    if (found := blake3(blob).digest()) != model:
        raise BadModel(f"the manifest is that of model {found.hex()}, agreed is {model.hex()}")
    try:
        manifest = Manifest(_decode_entries(blob))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadModel(f"the manifest of model {model.hex()} cannot be read: {str(error)[:200]}") from None
    names = {entry.name for entry in manifest.entries}
    if len(names) != len(manifest.entries):
        raise BadModel(f"the manifest of model {model.hex()} has a tensor twice")
    for entry in manifest.entries:
        if entry.dtype not in CALCULATED or math.prod(max(size, 1) for size in entry.shape) >= 2**60:
            raise BadModel(
                f"tensor {entry.name!r} of {entry.dtype[:8]} and shape {entry.shape} cannot be held in memory"
            )
    if manifest.packed != blob:
        raise BadModel(f"the manifest of model {model.hex()} is not written as a manifest is: sorted, and nothing more")
    return manifest


def read_tensor(entry: Entry, blob: bytes | bytearray | memoryview) -> Array:
    """One tensor from somebody else, as an array that may be written to. Raises BadModel, naming the tensor."""
    if len(blob) != entry.size_bytes:
        raise BadModel(f"tensor {entry.name!r} has {len(blob)} bytes, the agreed model's has {entry.size_bytes}")
    if (found := blake3(blob).digest()) != entry.digest:
        raise BadModel(f"tensor {entry.name!r} has digest {found.hex()}, the agreed model's is {entry.digest.hex()}")
    return np.frombuffer(blob, np.uint8).copy().view(DTYPES[entry.dtype].stored).reshape(entry.shape)


def assemble(manifest: Manifest, get: Callable[[Entry], bytes | bytearray | memoryview]) -> Weights:
    """All tensors, each checked as it comes. ``get`` brings the bytes of one."""
    return {entry.name: read_tensor(entry, get(entry)) for entry in manifest.entries}


def check_weights(weights: Weights, wanted: Manifest) -> None:
    """Raises BadModel, naming the first tensor by which these weights are another model."""
    have = {entry.name: entry for entry in manifest_of(weights).entries}
    need = {entry.name: entry for entry in wanted.entries}
    for name in sorted(have.keys() | need.keys()):
        if name not in have:
            raise BadModel(f"tensor {name!r} is missing")
        if name not in need:
            raise BadModel(f"tensor {name!r} is not in the agreed model")
        if have[name] != need[name]:
            found, agreed = have[name], need[name]
            raise BadModel(f"tensor {name!r} is {_said(found)}, the agreed model's is {_said(agreed)}")


def save_checkpoint(path: Path, weights: Weights) -> tuple[bytes, int, bytes]:
    """Write the model as a safetensors file; returns its digest, its size in bytes, and the model hash. The same model
    makes the same file, whoever writes it."""
    model = model_hash(weights)
    digest = save(
        path, {name: stored(array) for name, array in weights.items()}, metadata={MODEL: model.hex()}, sync=True
    )
    return bytes.fromhex(digest), path.stat().st_size, model


def load_checkpoint(path: Path, model: bytes) -> Weights:
    """Read the stored model of this hash, as arrays that may be written to. Raises BadTensors for a file that is none,
    BadModel for one that is another model, whatever it calls itself."""
    weights = load_weights(path)
    if (found := model_hash(weights)) != model:
        raise BadModel(f"the checkpoint is model {found.hex()}, agreed is {model.hex()}")
    return weights


def load_weights(path: Path) -> Weights:
    """Read a model nobody has agreed on yet, such as one to begin with."""
    with TensorFile(path, mapped=True) as file:
        for spec in file.specs:
            if spec.dtype.code not in CALCULATED:
                code = spec.dtype.code
                raise BadModel(f"tensor {spec.name!r} is of {code}, which numpy does not have; store it as F32")
        return {spec.name: np.array(file.array(spec.name)) for spec in file.specs}


CALCULATED: Final = frozenset(CODES.values())
_decoder: Final = msgspec.msgpack.Decoder(Annotated[tuple[Entry, ...], Meta(max_length=MAX_TENSORS)])


def _decode_entries(blob: bytes) -> tuple[Entry, ...]:
    entries: Any = _decoder.decode(blob)
    found: tuple[Entry, ...] = entries
    return found


def _said(entry: Entry) -> str:
    return f"{entry.dtype} of shape {entry.shape} with digest {entry.digest.hex()}"

"""A result as one blob: a safetensors file whose header says what it is the result of.

The blob's BLAKE3 is what a member commits to, so every field of the header is part of the commitment. Whoever decodes
knows all of them beforehand, from the journal, and holds each against what the blob says: a result of another round, of
another member or for another model is refused by the name of the field.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import numpy as np

from quoracy.learn.header import MAX_HEADER_BYTES, METADATA, BadTensors, Layout, build, difference, kind_of
from quoracy.learn.witnessed.batches import Ranges
from quoracy.learn.witnessed.encodings import Encoding
from quoracy.learn.witnessed.packing import layout_of_arrays, pack, unpack
from quoracy.learn.witnessed.trainer import BUFFER, OPTIMIZER, Array, Result, Weights

LOSS: Final = "loss"
MAX_LOSS: Final = 1e300
MAX_LOSS_CHARS: Final = 32
SHOWN: Final = 100
BATCHES: Final = re.compile(r"[0-9]{1,15}-[0-9]{1,15}(,[0-9]{1,15}-[0-9]{1,15})*")


class BadResult(BadTensors):
    """Not the result it should be. Names the field or the tensor."""


class About(msgspec.Struct, frozen=True):
    """What a result is the result of."""

    run: str
    epoch: int
    round: int
    assignment: int
    attempt: int
    member: str
    batches: Ranges
    base: bytes
    """Hash of the model it was trained on."""
    samples: int
    """In all of these batches. A member that claims more would weigh more."""

    def metadata(self, encoding: str) -> dict[str, str]:
        return {
            "run": self.run,
            "epoch": str(self.epoch),
            "round": str(self.round),
            "assignment": str(self.assignment),
            "attempt": str(self.attempt),
            "member": self.member,
            "batches": ",".join(f"{first}-{end}" for first, end in self.batches),
            "base": self.base.hex(),
            "samples": str(self.samples),
            "encoding": encoding,
        }


def layout_of(weights: Weights) -> Layout:
    """What a result for this model holds: its tensors, but not the optimizer's memory and not its buffers."""
    trained = {name: array for name, array in weights.items() if not name.startswith((OPTIMIZER, BUFFER))}
    return {name: ("F32", array.shape) for name, array in trained.items()}


def encoded_layout(encoding: Encoding, layout: Layout) -> Layout:
    parts: Layout = {}
    for name, (_, shape) in layout.items():
        parts |= encoding.layout(name, shape)
    return parts


def size_bytes(about: About, encoding: Encoding, layout: Layout) -> int:
    """As large as such a blob can be: anything larger need not be fetched."""
    longest = about.metadata(encoding.name) | {LOSS: "0" * MAX_LOSS_CHARS}
    header, specs = build(encoded_layout(encoding, layout), longest)
    return specs[-1].end if specs else len(header)


def encode(result: Result, about: About, encoding: Encoding, layout: Layout) -> bytes:
    """Raises BadResult for what a trainer must not return, naming the tensor."""
    numbers = {name: _number32(name, array) for name, array in result.arrays.items()}
    found = difference({name: ("F32", array.shape) for name, array in numbers.items()}, layout)
    if found:
        raise BadResult(f"{found}: a result has a tensor for each that is trained, under its name and of its shape")
    if result.samples != about.samples:
        raise BadResult(f"samples is {result.samples}, these batches have {about.samples}")
    loss = float(result.loss)
    if not abs(loss) <= MAX_LOSS:
        raise BadResult(f"loss is {loss}: the model has run away; a smaller learning rate, or clipping")
    parts: dict[str, Array] = {}
    for name, array in numbers.items():
        _check_finite(name, array)
        parts |= encoding.encode(name, array)
    return pack(parts, about.metadata(encoding.name) | {LOSS: repr(loss)})


def decode(blob: bytes | memoryview, about: About, encoding: Encoding, layout: Layout) -> Result:
    """From somebody else. The arrays are not to be changed. Raises BadResult, naming what is wrong.

    All but the loss is known, so the header can only be one: it is built and compared, which is quicker than to look
    into what came, and leaves one way to write a result."""
    whole = memoryview(blob).cast("B")
    metadata = _metadata(whole)
    loss = _check_fields(metadata, about.metadata(encoding.name))
    wanted = encoded_layout(encoding, layout)
    header, specs = build(wanted, metadata)
    if whole[: len(header)] != header or len(whole) != (specs[-1].end if specs else len(header)):
        raise BadResult(_other(whole, encoding, wanted))
    parts = {spec.name: np.frombuffer(whole, spec.dtype.stored, spec.size, spec.begin) for spec in specs if spec.size}
    arrays: dict[str, Array] = {}
    for name, (_, shape) in layout.items():
        if not math.prod(shape):
            arrays[name] = np.zeros(shape, np.float32)
            continue
        try:
            arrays[name] = encoding.decode(name, shape, parts)
        except ValueError as error:
            raise BadResult(str(error)) from None
        _check_finite(name, arrays[name])
    return Result(arrays, about.samples, loss)


def batches_said(blob: bytes | memoryview) -> Ranges:
    """The batches that a blob itself says it is the result of; for those who were not there when the round was drawn,
    and take it because a quorum has looked at it. Raises BadResult."""
    said = _metadata(memoryview(blob).cast("B")).get("batches", "")
    if not BATCHES.fullmatch(said):
        raise BadResult(f"batches is {said[:SHOWN]!r}, it should be ranges such as '0-4,7-8'")
    ranges = tuple((int(first), int(end)) for first, end in (part.split("-") for part in said.split(",")))
    if not all(first < end for first, end in ranges):
        raise BadResult(f"batches is {said[:SHOWN]!r}: a range ends before it begins")
    return ranges


class _Head(msgspec.Struct, rename={"metadata": METADATA}):
    metadata: dict[str, str] = {}


_head: Final = msgspec.json.Decoder(_Head)


def _metadata(whole: memoryview) -> dict[str, str]:
    length = int.from_bytes(whole[:8], "little")
    if len(whole) < 10 or not 2 <= length <= min(len(whole) - 8, MAX_HEADER_BYTES):
        raise BadResult(f"this is {kind_of(bytes(whole[:16])) or 'no file of tensors'}; send safetensors")
    try:
        return _head.decode(whole[8 : 8 + length]).metadata
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadResult(f"the header cannot be read: {str(error)[:SHOWN]}") from None


def _other(whole: memoryview, encoding: Encoding, wanted: Layout) -> str:
    """In what a blob with the right fields is still not the one that was expected."""
    try:
        parts, _ = unpack(whole)
    except BadTensors as error:
        return str(error)
    found = difference(layout_of_arrays(parts), wanted)
    return f"{found} as {encoding.name} writes it" if found else "the header is not written as that of a result is"


def _check_fields(metadata: dict[str, str], wanted: Mapping[str, str]) -> float:
    for field, value in wanted.items():
        if field not in metadata:
            raise BadResult(f"{field} is missing, it should be {value[:SHOWN]!r}")
        if metadata[field] != value:
            raise BadResult(f"{field} is {metadata[field][:SHOWN]!r}, it should be {value[:SHOWN]!r}")
    for field in metadata.keys() - wanted.keys() - {LOSS}:
        raise BadResult(f"there is no field {field[:SHOWN]!r}")
    said = metadata.get(LOSS, "")
    try:
        loss = float(said)
    except ValueError:
        loss = math.nan
    if not abs(loss) <= MAX_LOSS or repr(loss) != said:
        raise BadResult(f"{LOSS} is {said[:SHOWN]!r}, it should be a finite number")
    return loss


def _number32(name: str, array: Any) -> Array:
    if not isinstance(array, np.ndarray | np.generic) or array.dtype.kind not in "fiub":
        raise BadResult(f"tensor {name!r} is a {type(array).__name__}; return numpy arrays of numbers")
    with np.errstate(over="ignore"):  # what float32 does not hold is found to be infinite
        return np.asarray(array).astype(np.float32, copy=False)


def _check_finite(name: str, array: Array) -> None:
    if array.dtype.kind == "f" and not bool(np.isfinite(array).all()):
        count = int(array.size - np.count_nonzero(np.isfinite(array)))
        raise BadResult(f"tensor {name!r} holds {count} numbers that are infinite or none")

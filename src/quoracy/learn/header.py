"""The header of a file of tensors: eight bytes of length, then names, types, shapes and places as JSON.

A header comes from strangers. It is read by hand, and everything in it is held against the file before a single number
is looked at: the tensors lie side by side, fill the file to its last byte, and begin where their type may begin.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any, Final

import msgspec

from quoracy.core.errors import ProtocolError
from quoracy.learn.dtypes import DTYPES, RANKS, Dtype

MAX_HEADER_BYTES: Final = 8 * 1024 * 1024
"""Some 60,000 tensors. Parsed, a hostile header takes up to 25 times its size."""
MAX_NAME: Final = 1024
MAX_DIMENSIONS: Final = 32
ALIGNED: Final = 8
METADATA: Final = "__metadata__"


class BadTensors(ProtocolError):
    """Not a file of tensors, or not a whole one. The text is for whoever sent it."""


class Spec(msgspec.Struct, frozen=True):
    """One tensor: what it is, and where it lies in the file."""

    name: str
    dtype: Dtype
    shape: tuple[int, ...]
    begin: int
    end: int
    size: int
    """How many numbers it has: two for each that is complex."""


Layout = dict[str, tuple[str, tuple[int, ...]]]
"""Name to type and shape: what two files must share to be averaged."""


def difference(layout: Layout, wanted: Layout) -> str:
    """The first thing, by name, in which a layout is not the wanted one; empty if they are the same."""
    for name in sorted(layout.keys() | wanted.keys()):
        if name not in layout:
            return f"tensor {name!r} is missing"
        if name not in wanted:
            return f"tensor {name!r} is not in the model"
        (dtype, shape), (wanted_dtype, wanted_shape) = layout[name], wanted[name]
        if shape != wanted_shape:
            return f"tensor {name!r} has shape {shape}, the model's is {wanted_shape}"
        if dtype != wanted_dtype:
            return f"tensor {name!r} has type {dtype}, the model's is {wanted_dtype}"
    return ""


def kind_of(start: bytes) -> str:
    """What a file is that is no file of tensors, from its first bytes."""
    if start[:1] == b"\x80" and start[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return "a pickle, which can run any code when it is read"
    for magic, name in (
        (b"PK\x03\x04", "a zip archive, such as torch.save and numpy.savez write"),
        (b"\x93NUMPY", "a numpy array"),
        (b"\x89HDF\r\n", "an HDF5 file, such as Keras writes"),
        (b"GGUF", "a GGUF file"),
        (b"\x1f\x8b", "a gzip archive"),
        (b"{", "JSON or text"),
        (b"(", "a pickle in text form, which can run any code when it is read"),
    ):
        if start.startswith(magic):
            return name
    return ""


def parse(header: bytes, size_bytes: int) -> tuple[tuple[Spec, ...], dict[str, str]]:
    """The tensors in the order in which they lie, and the metadata. ``size_bytes`` is the whole file's."""
    entries = _decode(header)
    metadata = entries.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise BadTensors(f"the header's {METADATA} is not texts under names")
    base = 8 + len(header)
    specs = sorted((_spec(name, entry, base) for name, entry in entries.items()), key=lambda s: (s.begin, s.end))
    if specs and base % ALIGNED:
        raise BadTensors(
            f"the numbers begin at byte {base}, which is no multiple of {ALIGNED}: fill the header with spaces"
        )
    reached, last = base, "the header"
    for spec in specs:
        if spec.begin != reached:
            what = "overlap" if spec.begin < reached else f"leave a hole of {spec.begin - reached} bytes"
            raise BadTensors(f"{last} and tensor {spec.name!r} {what}")
        if spec.begin % spec.dtype.size_bytes:
            size = spec.dtype.size_bytes
            raise BadTensors(f"tensor {spec.name!r} begins at byte {spec.begin}, which is no multiple of its {size}")
        reached, last = spec.end, f"tensor {spec.name!r}"
    if reached != size_bytes:
        raise BadTensors(f"{last} ends at byte {reached}, the file has {size_bytes}")
    return tuple(specs), metadata


def build(layout: Layout, metadata: dict[str, str] | None = None) -> tuple[bytes, tuple[Spec, ...]]:
    """The first bytes of a file and where its tensors go: the same for the same layout, and the same as those of the
    safetensors library. Larger types come first, so that each begins where it may."""
    names = sorted(layout, key=lambda name: (-RANKS[layout[name][0]], name.encode()))
    entries: dict[str, Any] = {METADATA: dict(sorted(metadata.items()))} if metadata else {}
    reached, places = 0, []
    for name in names:
        code, shape = layout[name]
        end = reached + math.prod(shape) * DTYPES[code].size_bytes
        entries[name] = {"dtype": code, "shape": list(shape), "data_offsets": [reached, end]}
        places.append((reached, end))
        reached = end
    text = msgspec.json.encode(entries)
    text += b" " * (-len(text) % ALIGNED)
    if len(text) > MAX_HEADER_BYTES:
        raise BadTensors(
            f"{len(layout)} tensors need a header of {len(text)} bytes; at most {MAX_HEADER_BYTES} are read"
        )
    base = 8 + len(text)
    specs = tuple(
        _placed(name, DTYPES[layout[name][0]], layout[name][1], base + begin, base + end)
        for name, (begin, end) in zip(names, places, strict=True)
    )
    return len(text).to_bytes(8, "little") + text, specs


def _decode(header: bytes) -> dict[str, Any]:
    if header[:1] != b"{":
        raise BadTensors("the header does not begin with {")
    try:
        entries = json.loads(header.decode(), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise BadTensors(f"the header is not JSON: {str(error)[:100]}") from None
    assert isinstance(entries, dict)
    return entries


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of two entries under one name, readers would take either: none may have two."""
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise BadTensors(f"the header has {twice[:MAX_NAME]!r} twice")
    return found


def _spec(name: str, entry: Any, base: int) -> Spec:
    if not name or len(name) > MAX_NAME or not name.isprintable():
        raise BadTensors(f"a tensor's name is 1 to {MAX_NAME} characters that can be shown, not {name[:MAX_NAME]!r}")
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise BadTensors(f"tensor {name!r} is not described by dtype, shape and data_offsets alone")
    code, shape, place = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(code, str) or code not in DTYPES:
        known = ", ".join(DTYPES)
        raise BadTensors(
            f"tensor {name!r} has type {str(code)[:20]!r}, which is not calculated with; send one of: {known}"
        )
    if not _naturals(shape) or len(shape) > MAX_DIMENSIONS:
        raise BadTensors(f"tensor {name!r} has no shape of at most {MAX_DIMENSIONS} sizes")
    if not _naturals(place) or len(place) != 2:
        raise BadTensors(f"tensor {name!r} has no begin and end")
    dtype = DTYPES[code]
    # An empty tensor too: numpy has no place for (0, 2**62, 2**62).
    if math.prod(max(size, 1) for size in shape) * dtype.size_bytes >= 2**62:
        raise BadTensors(f"tensor {name!r} has a shape that no machine has room for")
    needed = math.prod(shape) * dtype.size_bytes
    if place[1] - place[0] != needed:
        raise BadTensors(f"tensor {name!r} needs {needed} bytes and has {place[1] - place[0]}")
    return _placed(name, dtype, tuple(shape), base + place[0], base + place[1])


def _placed(name: str, dtype: Dtype, shape: tuple[int, ...], begin: int, end: int) -> Spec:
    return Spec(name, dtype, shape, begin, end, math.prod(shape) * dtype.parts)


def _naturals(value: Any) -> bool:
    return isinstance(value, list) and all(type(one) is int and 0 <= one < 2**62 for one in value)

"""Files of named tensors, as the safetensors library writes them: read in slices, written in slices.

Strangers' files are read with plain reads, not through a map: a file that is cut short under a map kills the process, a
read that comes back short is an error with a name. What has been admitted does not change any more, and is mapped.
"""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np
from blake3 import blake3

from quoracy.learn.behind import Behind
from quoracy.learn.dtypes import CODES, DTYPES, Dtype, Numbers, narrow, widen
from quoracy.learn.header import MAX_HEADER_BYTES, BadTensors, Layout, Spec, build, kind_of, parse

CHUNK_BYTES: Final = 1024 * 1024


WORTH_A_THREAD: Final = 32 * 1024 * 1024
"""A file of so many bytes is written by one."""


class TensorFile:
    """A file whose header has been held against it. Raises BadTensors with what is wrong.

    ``mapped``: look into it through a map, for those who know that nobody cuts it short meanwhile. Without ``held`` no
    descriptor is kept and every read opens the file anew, for those who look into thousands at once.
    """

    def __init__(self, path: Path, *, mapped: bool = False, held: bool = True) -> None:
        self.path = path
        self.held = held
        self._map: mmap.mmap | None = None
        self._flat: dict[str, Numbers] = {}
        """Whole tensors that were looked into, as they lie in the map."""
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            self.size_bytes, self.specs, self.metadata = _examined(self._fd)
            if mapped and held:
                self._map = mmap.mmap(self._fd, 0, access=mmap.ACCESS_READ)
        except BaseException:
            self.close()
            raise
        self.by_name = {spec.name: spec for spec in self.specs}
        if not held:
            self._close_descriptor()

    @property
    def mapped(self) -> bool:
        return self._map is not None

    @property
    def layout(self) -> Layout:
        return {spec.name: (spec.dtype.code, spec.shape) for spec in self.specs}

    def view(self, spec: Spec, start: int, stop: int) -> Numbers:
        """Numbers as they stand in a mapped file, not to be changed and without a copy."""
        flat = self.flat(spec)
        assert 0 <= start < stop <= len(flat)
        return flat[start:stop]

    def flat(self, spec: Spec) -> Numbers:
        """All numbers of a tensor as they stand in a mapped file."""
        found = self._flat.get(spec.name)
        if found is None:
            assert self._map is not None
            found = self._flat[spec.name] = np.frombuffer(self._map, spec.dtype.number, spec.size, spec.begin)
        return found

    def read_into(self, spec: Spec, start: int, out: Numbers) -> None:
        """The numbers from ``start`` on, as many as ``out`` takes, as those that are calculated with."""
        if self._map is not None:
            if out.size:
                widen(self.view(spec, start, start + out.size), spec.dtype, out)
            return
        stored = out if out.dtype.str == spec.dtype.number else np.empty(out.shape, spec.dtype.number)
        assert 0 <= start <= start + stored.size <= spec.size
        fd = self._fd if self.held else os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _read_exactly(fd, bytes_of(stored), spec.begin + start * spec.dtype.number_bytes)
        finally:
            if not self.held:
                os.close(fd)
        if stored is not out:
            widen(stored, spec.dtype, out)

    def array(self, name: str) -> Numbers:
        """A whole tensor, mapped and read-only. A type that numpy does not have is a copy, as float32."""
        spec = self.by_name[name]
        if self._map is None and self._fd < 0:
            raise ValueError(f"{self.path} is closed: ask for arrays before")
        if not spec.size:
            return whole(b"", spec)
        return whole(self._map if self._map is not None else mmap.mmap(self._fd, 0, access=mmap.ACCESS_READ), spec)

    def close(self) -> None:
        """What was mapped stays for as long as an array looks into it."""
        self._map = None
        self._flat.clear()
        self._close_descriptor()

    def _close_descriptor(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class TensorWriter:
    """A file in the making. Its header is written first, since a layout says where everything goes; then slices in any
    order. The same layout and numbers give the same bytes. A large one is written by a thread of its own."""

    def __init__(self, path: Path, layout: Layout, metadata: dict[str, str] | None = None) -> None:
        header, self.specs = build(layout, metadata)
        self.path = path
        self.by_name = {spec.name: spec for spec in self.specs}
        self.size_bytes = self.specs[-1].end if self.specs else len(header)
        self._missing_bytes = self.size_bytes - len(header)
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        self._hasher = blake3()
        self._hashed_bytes = 0
        self._put(memoryview(header), 0)
        self._behind = Behind(self._put) if self.size_bytes > WORTH_A_THREAD else None

    def write(self, name: str, start: int, worked: Numbers) -> Numbers:
        """Numbers of one tensor from ``start`` on. Returns them as they stand in the file."""
        spec = self.by_name[name]
        stored = np.ascontiguousarray(narrow(worked, spec.dtype))
        assert 0 <= start <= start + stored.size <= spec.size
        self._missing_bytes -= stored.nbytes
        put = self._put if self._behind is None else self._behind.give
        put(bytes_of(stored), spec.begin + start * spec.dtype.number_bytes)
        return stored

    def _put(self, raw: memoryview, at: int) -> None:
        _write_all(self._fd, raw, at)
        if at == self._hashed_bytes:
            self._hasher.update(raw)
            self._hashed_bytes += len(raw)

    def digest(self) -> str:
        """Of the whole file, when it is closed. What was written in order is not read again for that."""
        return self._hasher.hexdigest() if self._hashed_bytes == self.size_bytes else digest_of(self.path)

    def close(self, sync: bool = False) -> None:
        """``sync``: not before the disk has it."""
        try:
            if self._behind is not None:
                self._behind.finish()
            if sync:
                os.fsync(self._fd)
        finally:
            self._close_descriptor()
        assert self._missing_bytes == 0, f"{self.path} lacks {self._missing_bytes} bytes"

    def _close_descriptor(self) -> None:
        fd, self._fd = self._fd, -1
        os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._fd >= 0:
            if self._behind is not None:
                self._behind.stop()
            self._close_descriptor()


def save(
    path: Path,
    arrays: Mapping[str, Numbers],
    *,
    codes: Mapping[str, str] | None = None,
    metadata: dict[str, str] | None = None,
    sync: bool = False,
) -> str:
    """Write whole arrays and return the digest. ``codes``: names whose float32 numbers are stored as a type that numpy
    does not have, such as BF16."""
    named = codes or {}
    layout: Layout = {name: (named.get(name) or code_of(name, array), array.shape) for name, array in arrays.items()}
    with TensorWriter(path, layout, metadata) as writer:
        for spec in writer.specs:
            flat = arrays[spec.name].reshape(-1)
            if spec.dtype.parts > 1:
                flat = np.ascontiguousarray(flat, spec.dtype.stored).view(spec.dtype.number)
            for start in range(0, spec.size, CHUNK_BYTES):
                writer.write(spec.name, start, flat[start : start + CHUNK_BYTES])
        writer.close(sync)
    return writer.digest()


def load(path: Path) -> dict[str, Numbers]:
    """All arrays of a file, mapped and read-only."""
    with TensorFile(path) as file:
        return {spec.name: file.array(spec.name) for spec in file.specs}


def digest_of(path: Path) -> str:
    """blake3 of a file, as 64 hexadecimal digits."""
    hasher = blake3()
    buffer = memoryview(bytearray(CHUNK_BYTES))
    with path.open("rb", buffering=0) as file:
        while length := file.readinto(buffer):
            hasher.update(buffer[:length])
    return hasher.hexdigest()


def whole(buffer: bytes | mmap.mmap, spec: Spec) -> Numbers:
    """A tensor of a file as an array: what lies in the buffer itself, or a copy in float32 where numpy does not
    have its type."""
    elements = spec.size // spec.dtype.parts
    if not elements:
        return np.empty(spec.shape, spec.dtype.stored if spec.dtype.in_numpy else spec.dtype.works_as)
    flat: Numbers = np.frombuffer(buffer, spec.dtype.stored, elements, spec.begin)
    if not spec.dtype.in_numpy:
        stored, flat = flat, np.empty(elements, spec.dtype.works_as)
        widen(stored, spec.dtype, flat)
    return flat.reshape(spec.shape)


def code_of(name: str, array: Numbers) -> str:
    """What the type of the array is called in a file. Raises BadTensors."""
    code = CODES.get(array.dtype.newbyteorder("<"))
    if code is None:
        raise BadTensors(
            f"tensor {name!r} is of {array.dtype}, which has no place in a file; one of: {', '.join(DTYPES)}"
        )
    return code


def _examined(fd: int) -> tuple[int, tuple[Spec, ...], dict[str, str]]:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise BadTensors("not a file")
    size_bytes = status.st_size
    start = os.pread(fd, 16, 0)
    length = int.from_bytes(start[:8], "little")
    if len(start) < 10 or length < 2 or 8 + length > size_bytes or length > MAX_HEADER_BYTES:
        kind = kind_of(start)
        if kind:
            raise BadTensors(f"this is {kind}; send safetensors")
        if len(start) < 10:
            raise BadTensors(f"{len(start)} bytes are too few for safetensors")
        limit = min(size_bytes - 8, MAX_HEADER_BYTES)
        raise BadTensors(f"not safetensors: the header would have {length} bytes, at most {limit} are possible")
    header = bytearray(length)
    _read_exactly(fd, memoryview(header), 8)
    specs, metadata = parse(bytes(header), size_bytes)
    return size_bytes, specs, metadata


def bytes_of(array: Numbers) -> memoryview:
    """Of a contiguous array, without a copy."""
    return array.data.cast("B") if array.size else memoryview(b"")


def _read_exactly(fd: int, view: memoryview, offset: int) -> None:
    done = 0
    while done < len(view):
        length = os.preadv(fd, [view[done:]], offset + done)
        if not length:
            raise BadTensors(f"the file ends at byte {offset + done}: it has been cut short since it was opened")
        done += length


def _write_all(fd: int, view: memoryview, offset: int) -> None:
    done = 0
    while done < len(view):
        done += os.pwrite(fd, view[done:], offset + done)


__all__ = [
    "BadTensors", "Dtype", "Layout", "Spec", "TensorFile", "TensorWriter", "bytes_of", "code_of", "digest_of", "load",
    "save", "whole",
]  # fmt: skip

"""A page of memory that the training process and its sidecar share.

The training process writes how far it is, as often as it likes, for the price of a few bytes copied; the sidecar reads
it before every heartbeat. Nothing has to be awake on the other side: a training that holds the GIL, or is stopped, is
simply one whose counter does not move. In the other direction the sidecar counts its turns, so that the training
process can tell one that is stopped from one that has nothing to say.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
import zlib
from collections.abc import Iterable
from typing import Final

import msgspec

SIZE: Final = 4096
_PROGRESS: Final = struct.Struct("<Q")
_REPORT: Final = struct.Struct("<QQd")
_TURNS: Final = struct.Struct("<Q")
_TEXT: Final = struct.Struct("<H")
_METRICS: Final = struct.Struct("<II")
_AT_PROGRESS, _AT_REPORT, _AT_TEXT, _AT_METRICS, _AT_TURNS = 0, 8, 64, 1024, 4088
MAX_TASK: Final = 128
_metrics = msgspec.msgpack.Decoder(dict[str, float])


class Page:
    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._memory = mmap.mmap(fd, SIZE)
        self._count = 0
        self._shown = (0, 0, 0.0)
        self._measured: dict[str, float] = {}

    @classmethod
    def create(cls) -> Page:
        if hasattr(os, "memfd_create"):
            fd = os.memfd_create("quoracy-page", os.MFD_CLOEXEC)
        else:
            with tempfile.TemporaryFile() as file:
                fd = os.dup(file.fileno())
        os.ftruncate(fd, SIZE)
        return cls(fd)

    def close(self) -> None:
        self._memory.close()
        os.close(self.fd)

    # -- the training process writes --------------------------------------------------------------------------------

    def progress(self, amount: int = 1) -> None:
        self._count += amount
        _PROGRESS.pack_into(self._memory, _AT_PROGRESS, self._count)

    def report(self, step: int | None = None, epoch: int | None = None, gpu: float | None = None) -> None:
        """What is None stays as it was."""
        before = self._shown
        self._shown = (
            before[0] if step is None else step,
            before[1] if epoch is None else epoch,
            before[2] if gpu is None else gpu,
        )
        _REPORT.pack_into(self._memory, _AT_REPORT, *self._shown)

    def name_task(self, task: str) -> None:
        text = task[:MAX_TASK].encode("utf-8", "replace")
        _TEXT.pack_into(self._memory, _AT_TEXT, len(text))
        self._memory[_AT_TEXT + 2 : _AT_TEXT + 2 + len(text)] = text

    def measure(self, metrics: dict[str, float], without: Iterable[str] = ()) -> None:
        """What is not named stays as it was; those ``without`` a number go. The checksum tells whoever reads in the
        middle of it."""
        self._measured |= metrics
        for name in without:
            self._measured.pop(name, None)
        packed = msgspec.msgpack.encode(self._measured)
        self._memory[_AT_METRICS + 8 : _AT_METRICS + 8 + len(packed)] = packed
        _METRICS.pack_into(self._memory, _AT_METRICS, len(packed), zlib.crc32(packed))

    def forget_metrics(self) -> None:
        """What comes next measures other things."""
        self.measure({}, list(self._measured))

    def turns(self) -> int:
        return int(_TURNS.unpack_from(self._memory, _AT_TURNS)[0])

    # -- the sidecar reads ------------------------------------------------------------------------------------------

    def read_progress(self) -> int:
        return int(_PROGRESS.unpack_from(self._memory, _AT_PROGRESS)[0])

    def read_report(self) -> tuple[int, int, float]:
        step, epoch, gpu = _REPORT.unpack_from(self._memory, _AT_REPORT)
        return step, epoch, gpu

    def read_task(self) -> str:
        """A text that is being written at this moment may come out garbled, once, for people."""
        (size,) = _TEXT.unpack_from(self._memory, _AT_TEXT)
        text = self._memory[_AT_TEXT + 2 : _AT_TEXT + 2 + min(size, 4 * MAX_TASK)]
        return text.decode("utf-8", "replace")[:MAX_TASK]

    def read_metrics(self) -> dict[str, float]:
        """As they were last read if they are being written at this moment."""
        size, checksum = _METRICS.unpack_from(self._memory, _AT_METRICS)
        packed = self._memory[_AT_METRICS + 8 : _AT_METRICS + 8 + min(size, _AT_TURNS - _AT_METRICS - 8)]
        if size and zlib.crc32(packed) == checksum:
            self._measured = _metrics.decode(packed)
        return self._measured

    def turn(self) -> None:
        _TURNS.pack_into(self._memory, _AT_TURNS, self.turns() + 1)

"""Memory that a training process and its heartbeat process share.

The training writes how far it is, as often as it likes, for the price of a few bytes copied; the heartbeat process
reads that before every heartbeat. Nothing has to be awake on the other side: a training that holds the GIL, or is
stopped, is one whose counter does not move. The heartbeat process writes what the training must notice when it looks:
that it beats, since when nobody answers, what the coordinator answered, a renewed token. Every word of it names its
incarnation: what was meant for an earlier one changes nothing.

Texts have a checksum, so that whoever reads in the middle of writing sees it. Times are of the monotonic clock, which
all processes of a machine share.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
import zlib
from collections.abc import Iterable
from typing import Any, Final

import msgspec

SIZE: Final = 8192
_COUNT: Final = struct.Struct("<Q")
_REPORT: Final = struct.Struct("<QQd")
_BEATS: Final = struct.Struct("<QQQQ")
_TEXT: Final = struct.Struct("<II")
_PROGRESS, _SEEN_ORDER, _SHOWN = 0, 8, 16
_TASK, _WAITS, _METRICS = 64, 640, 1216
_LOOPS, _STATUS, _DEAD, _ANSWERS, _TOKEN, _ANSWER, _END = 4096, 4104, 4136, 4144, 4160, 5400, SIZE
MAX_TASK: Final = 128
_metrics = msgspec.msgpack.Decoder(dict[str, float])
_answer = msgspec.msgpack.Decoder(tuple[int, Any])
_token = msgspec.msgpack.Decoder(tuple[int, str])


class Memory:
    def __init__(self, fd: int) -> None:
        """``fd``: of a file of ``SIZE`` bytes; -1: memory that no other process sees."""
        self.fd = fd
        self._bytes = mmap.mmap(fd, SIZE)
        self._progress = 0
        self._shown = (0, 0, 0.0)
        self._measured: dict[str, float] = {}

    @classmethod
    def create(cls) -> Memory:
        if hasattr(os, "memfd_create"):
            fd = os.memfd_create("quoracy", os.MFD_CLOEXEC)
        else:
            with tempfile.TemporaryFile() as file:
                fd = os.dup(file.fileno())
        os.ftruncate(fd, SIZE)
        return cls(fd)

    @classmethod
    def anonymous(cls) -> Memory:
        """For those who are in one process, such as a simulated training and its simulated heartbeats."""
        return cls(-1)

    def close(self) -> None:
        self._bytes.close()
        if self.fd >= 0:
            os.close(self.fd)

    # -- the training writes ----------------------------------------------------------------------------------------

    def progress(self, amount: int = 1) -> None:
        self._progress += amount
        _COUNT.pack_into(self._bytes, _PROGRESS, self._progress)

    def report(self, step: int | None = None, epoch: int | None = None, gpu: float | None = None) -> None:
        """What is None stays as it was."""
        before = self._shown
        self._shown = (
            before[0] if step is None else step,
            before[1] if epoch is None else epoch,
            before[2] if gpu is None else gpu,
        )
        _REPORT.pack_into(self._bytes, _SHOWN, *self._shown)

    def name_task(self, task: str) -> None:
        self._write(_TASK, _WAITS, task[:MAX_TASK].encode("utf-8", "replace"))

    def waits_for(self, what: str) -> None:
        """What the training waits for just now, such as a barrier; empty: nothing."""
        self._write(_WAITS, _METRICS, what[:MAX_TASK].encode("utf-8", "replace"))

    def measure(self, metrics: dict[str, float], without: Iterable[str] = ()) -> None:
        """What is not named stays as it was; those ``without`` a number go."""
        self._measured |= metrics
        for name in without:
            self._measured.pop(name, None)
        self._write(_METRICS, _LOOPS, msgspec.msgpack.encode(self._measured))

    def forget_metrics(self) -> None:
        """What comes next measures other things."""
        self.measure({}, list(self._measured))

    def seen_order(self, number: int) -> None:
        """The newest command of an operator that the session knows: heartbeats say so."""
        _COUNT.pack_into(self._bytes, _SEEN_ORDER, number)

    # -- the heartbeat process reads --------------------------------------------------------------------------------

    def read_progress(self) -> int:
        return self._count(_PROGRESS)

    def read_order(self) -> int:
        return self._count(_SEEN_ORDER)

    def read_report(self) -> tuple[int, int, float]:
        step, epoch, gpu = _REPORT.unpack_from(self._bytes, _SHOWN)
        return step, epoch, gpu

    def read_task(self) -> str:
        return (self._read(_TASK, _WAITS) or b"").decode("utf-8", "replace")

    def read_waits(self) -> str:
        return (self._read(_WAITS, _METRICS) or b"").decode("utf-8", "replace")

    def read_metrics(self) -> dict[str, float]:
        """As they were last read if they are being written at this moment."""
        packed = self._read(_METRICS, _LOOPS)
        if packed:
            self._measured = _metrics.decode(packed)
        return self._measured

    # -- the heartbeat process writes -------------------------------------------------------------------------------

    def loop(self) -> None:
        """One more iteration: whoever watches can tell a process that is stopped from one that has nothing to say."""
        _COUNT.pack_into(self._bytes, _LOOPS, self.loops() + 1)

    def beat(self, incarnation: int, answered_us: int, outage_us: int, connections: int) -> None:
        """``answered_us``: when the last heartbeat of this incarnation was answered. ``outage_us``: since when nobody
        answers; 0 while somebody does."""
        _BEATS.pack_into(self._bytes, _STATUS, incarnation, answered_us, outage_us, connections)

    def declare_dead(self, incarnation: int) -> None:
        _COUNT.pack_into(self._bytes, _DEAD, incarnation)
        self._bump()

    def renew_token(self, incarnation: int, token: str) -> None:
        self._write(_TOKEN, _ANSWER, msgspec.msgpack.encode((incarnation, token)))
        self._bump()

    def write_answer(self, incarnation: int, value: Any) -> None:
        """What the coordinator answered a heartbeat with. One that is too long is left out: the session asks."""
        packed = msgspec.msgpack.encode((incarnation, value))
        if len(packed) > _END - _ANSWER - _TEXT.size:
            packed = msgspec.msgpack.encode((incarnation, None))
        self._write(_ANSWER, _END, packed)
        self._bump()

    def _bump(self) -> None:
        _COUNT.pack_into(self._bytes, _ANSWERS, self.answer_count() + 1)

    # -- the training reads -----------------------------------------------------------------------------------------

    def loops(self) -> int:
        return self._count(_LOOPS)

    def beats_for(self, incarnation: int, now_us: int, within_us: int) -> bool:
        """Whether a heartbeat of this incarnation was answered just now."""
        beating, answered_us, _, _ = _BEATS.unpack_from(self._bytes, _STATUS)
        return bool(beating == incarnation and incarnation and now_us - answered_us <= within_us)

    def outage_us(self) -> int:
        return int(_BEATS.unpack_from(self._bytes, _STATUS)[2])

    def dead_incarnation(self) -> int:
        return self._count(_DEAD)

    def answer_count(self) -> int:
        """Changes with everything that the training has to notice."""
        return self._count(_ANSWERS)

    def read_token(self) -> tuple[int, str] | None:
        packed = self._read(_TOKEN, _ANSWER)
        return _token.decode(packed) if packed else None

    def read_answer(self) -> tuple[int, Any] | None:
        packed = self._read(_ANSWER, _END)
        return _answer.decode(packed) if packed else None

    # -- bytes ------------------------------------------------------------------------------------------------------

    def _count(self, at: int) -> int:
        return int(_COUNT.unpack_from(self._bytes, at)[0])

    def _write(self, at: int, end: int, text: bytes) -> None:
        if at + _TEXT.size + len(text) > end:
            raise ValueError(f"{len(text)} bytes at {at}, where {end - at - _TEXT.size} have room")
        self._bytes[at + _TEXT.size : at + _TEXT.size + len(text)] = text
        _TEXT.pack_into(self._bytes, at, len(text), zlib.crc32(text))

    def _read(self, at: int, end: int) -> bytes | None:
        """None if it is being written at this moment, or never was."""
        size, checksum = _TEXT.unpack_from(self._bytes, at)
        text = self._bytes[at + _TEXT.size : at + _TEXT.size + min(size, end - at - _TEXT.size)]
        return text if zlib.crc32(text) == checksum else None

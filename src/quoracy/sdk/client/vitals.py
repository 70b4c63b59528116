"""What a heartbeat says about the training: how far it is, and what it does while it does not move.

Told from outside, because the training itself cannot say that it is stuck: its counter in shared memory, and what the
kernel knows of the process (Linux; elsewhere those fields stay empty).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from quoracy.sdk.client.memory import MAX_TASK, Memory

STILL_US: Final = 10_000_000
"""Standing still for so long is worth a word. Whether it is too long, the coordinator decides."""
STOPPED: Final = {"T": "stopped by a signal", "t": "stopped by a debugger", "D": "waits for a disk"}


class Vitals:
    def __init__(self, memory: Memory, pid: int, now_us: int) -> None:
        self._memory = memory
        self._pid = pid
        self._progress = -1
        self._moved_us = now_us
        self._cpu_s, self._cpu_us = _cpu_s(pid), now_us
        self._cores = os.cpu_count() or 1
        self._memory_bytes = _memory_bytes()

    def look(self, now_us: int) -> dict[str, Any]:
        """The counter, what the training reports, and what the kernel says of its process."""
        memory = self._memory
        progress = memory.read_progress()
        if progress != self._progress:
            self._progress = progress
            self._moved_us = now_us
        step, epoch, gpu = memory.read_report()
        state, rss_bytes = _process(self._pid)
        waits = memory.read_waits()
        words = [memory.read_task(), STOPPED.get(state, ""), waits]
        if not waits and now_us - self._moved_us >= STILL_US:
            words.append(f"no progress for {(now_us - self._moved_us) / 1e6:.0f} s")
        task = "; ".join(word for word in words if word)[:MAX_TASK]
        share = min(1.0, rss_bytes / self._memory_bytes) if self._memory_bytes else 0.0
        return {
            "progress": progress, "step": step, "epoch": epoch, "gpu": gpu, "memory": share, "task": task,
            "cpu": self._cpu(now_us), "metrics": memory.read_metrics(),
        }  # fmt: skip

    def of_training(self) -> dict[str, Any]:
        """The counter, and what the training itself reports."""
        _, epoch, _ = self._memory.read_report()
        return {"progress": self._memory.read_progress(), "epoch": epoch, "metrics": self._memory.read_metrics()}

    def seen_order(self) -> int:
        return self._memory.read_order()

    def _cpu(self, now_us: int) -> float:
        """Share of all cores since the last look."""
        cpu_s, past_us = _cpu_s(self._pid), now_us - self._cpu_us
        used_s, self._cpu_s, self._cpu_us = cpu_s - self._cpu_s, cpu_s, now_us
        return min(1.0, max(0.0, used_s * 1e6 / past_us / self._cores)) if past_us > 0 else 0.0


def _process(pid: int) -> tuple[str, int]:
    """State and resident bytes."""
    fields = _stat(pid)
    return (fields[0], int(fields[21]) * os.sysconf("SC_PAGE_SIZE")) if len(fields) > 21 else ("", 0)


def _cpu_s(pid: int) -> float:
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if len(fields) > 12 else 0.0


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the name, which may hold anything."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return stat.rpartition(")")[2].split()
    except OSError:
        return []


def _memory_bytes() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return 0

"""Processes that stand still: a signal is sent in a moment, and does its work a little later."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

PATIENCE_S = 60.0


def stop(pid: int) -> None:
    """SIGSTOP, and every thread of the process stands when this returns: beside other load it would go on for a while,
    and answer what a test takes it to be deaf to."""
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + PATIENCE_S
    while not all(_stands(thread) for thread in Path(f"/proc/{pid}/task").iterdir()):
        assert time.monotonic() < deadline, f"process {pid} was stopped, and goes on"
        time.sleep(0.001)


def _stands(thread: Path) -> bool:
    """Or is gone, as the thread of a process that ends."""
    try:
        state = (thread / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in ("T", "t", "Z", "X")

"""A folder of one process for what it needs while it runs. What killed processes have left is removed by the next."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

PREFIX: Final = "member-"
LOCK: Final = ".lock"


class Folder:
    def __init__(self, within: Path) -> None:
        """``within`` exists. The lock is given back when the process ends, however it does."""
        sweep(within)
        made = Path(tempfile.mkdtemp(prefix=f".{PREFIX}", dir=within))
        self._lock = os.open(made / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_SH)
        self.path = made.rename(within / made.name.removeprefix("."))

    def remove(self) -> None:
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


def sweep(within: Path) -> None:
    """Whoever holds a lock lives. A folder has its name only once it has its lock."""
    for folder in within.glob(f"{PREFIX}*"):
        try:
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue
        finally:
            os.close(lock)

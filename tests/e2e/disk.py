"""A disk that misbehaves on demand under a real process: see tests/stores/shim.c."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "stores" / "shim.c"
FOR_EVER_MS = 10 * 60 * 1000


class Disk:
    """For processes that are started with these ``variables``; everybody else's disk is as it was."""

    def __init__(self, folder: Path) -> None:
        library, self.faults = folder / "shim.so", folder / "faults"
        self.faults.mkdir()
        command = ["cc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", str(library), str(SOURCE), "-ldl"]
        subprocess.run(command, check=True, timeout=60)
        self.variables: dict[str, Any] = {"LD_PRELOAD": str(library), "QUORACY_FAULTS": str(self.faults)}

    def slow(self, by_ms: int = FOR_EVER_MS) -> None:
        """Every sync of the log takes so much longer, or hangs until the disk is quick again."""
        new = self.faults / "slow-wal.new"
        new.write_text(str(by_ms))
        new.replace(self.faults / "slow-wal")

    def quick(self) -> None:
        """At once, also for a sync that hangs."""
        (self.faults / "slow-wal").unlink()

"""A program from ``programs.py`` as a real process that a test talks to in lines."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAMS = Path(__file__).with_name("programs.py")
LIMIT_S = 60


class Process:
    def __init__(self, popen: subprocess.Popen[str]) -> None:
        self.popen = popen

    def line(self) -> str:
        """The next line it says, without its end; empty if it has ended."""
        assert self.popen.stdout is not None
        return self.popen.stdout.readline().rstrip("\n")

    def tell(self, line: str = "") -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write(line + "\n")
        self.popen.stdin.flush()

    def rest(self) -> list[str]:
        """Everything it says until it ends, which must be well."""
        output, _ = self.popen.communicate(timeout=LIMIT_S)
        assert self.popen.returncode == 0
        return output.splitlines()

    def kill(self) -> None:
        """Like pulling the plug of the process: nothing in it gets to run."""
        self.popen.kill()
        self.popen.wait(LIMIT_S)


@contextmanager
def running(program: str, *arguments: object, file: Path = PROGRAMS, **environment: str) -> Iterator[Process]:
    popen = subprocess.Popen(
        [sys.executable, "-W", "error", file, program, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    with popen:
        try:
            yield Process(popen)
        finally:
            popen.kill()

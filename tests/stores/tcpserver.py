"""A real TCPStore in a process of its own, as the command runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from quoracy.stores.tcpstore import parse_url

LIMIT_S = 60
os.environ.setdefault("RES_OPTIONS", "timeout:1 attempts:1")
"""torch looks up a name whenever it dials; where no resolver answers that takes 5 s each time."""


class Server:
    def __init__(self, popen: subprocess.Popen[str], address: str) -> None:
        self.popen = popen
        self.address = address
        self.host, self.port, _ = parse_url(address)
        self._prefixes = count(1)

    def url(self) -> str:
        """Another corner of the store with each call."""
        return f"{self.address}/test-{next(self._prefixes)}"

    def kill(self) -> None:
        self.popen.kill()
        self.popen.wait(LIMIT_S)


@contextmanager
def tcpstore_server(port: int = 0) -> Iterator[Server]:
    popen = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "quoracy.stores.tcpstore", "--port", str(port)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TORCH_CPP_LOG_LEVEL": "ERROR"},
    )
    with popen:
        try:
            assert popen.stdout is not None
            yield Server(popen, popen.stdout.readline().strip())
        finally:
            popen.kill()

"""``python -m quoracy.bench.child``: the coordinator under measurement, alone on its core.

Prints its URL as its first line. At the end of its input it stops and prints, as one JSON object, what it measured of
itself: how long commits took, and how long from the last arrival at a barrier to the last release written.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import sys
from typing import Any

import msgspec
import uvloop

from quoracy.config import load_config
from quoracy.coordinator import open_coordinator
from quoracy.core import shell
from quoracy.core.messages import ToHost
from quoracy.hosts.server import ServedRun, Server, now_us


class Timing:
    """Measures by standing between the server's parts; only here, never in the product.

    ``own_us`` begins when what led to an entry was read from a socket, and ends when what the entry led to is written:
    the loop writes at the end of its turn, so that is at the beginning of the next one.
    """

    def __init__(self, server: Server) -> None:
        self.commits_us: list[int] = []
        self.own_us: list[int] = []
        self._began_us: dict[bytes, tuple[int, int]] = {}
        self._heard_us = 0
        self._written: list[int] = []
        self._receive, self._append, self._flush = server.receive, server.append, server._flush
        self._report = ServedRun.report
        setattr(server, "receive", self.receive)  # noqa: B010
        setattr(server, "append", self.append)  # noqa: B010
        setattr(server, "_flush", self.flush)  # noqa: B010
        setattr(ServedRun, "report", lambda run, report: self.report(run, report))  # noqa: B010

    def receive(self, run: ServedRun, peer: Any, message: ToHost) -> None:
        self._heard_us = getattr(peer, "heard_us", 0) or now_us()
        self._receive(run, peer, message)

    def append(self, run: ServedRun, wish: shell.Append) -> None:
        self._began_us[wish.nonce] = (now_us(), self._heard_us)
        self._append(run, wish)

    def report(self, run: ServedRun, report: shell.Report) -> None:
        if isinstance(report, shell.Written):
            began_us, heard_us = self._began_us.pop(report.nonce)
            self.commits_us.append(now_us() - began_us)
            self._written.append(heard_us)
        self._report(run, report)

    def flush(self) -> None:
        self._flush()
        if self._written:
            asyncio.get_running_loop().call_soon(self._sent, self._written)
            self._written = []

    def _sent(self, heard_us: list[int]) -> None:
        self.own_us += [now_us() - one_us for one_us in heard_us]


async def serve(settings: dict[str, Any]) -> None:
    config = load_config(None, settings, {})
    async with open_coordinator(config) as running:
        gc.collect()
        gc.freeze()  # as `quoracy serve` does
        timing = Timing(running.server)
        sys.stdout.write(running.url + "\n")
        sys.stdout.flush()
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        measured = {"commits_us": timing.commits_us, "own_us": timing.own_us}
        sys.stdout.write(msgspec.json.encode(measured).decode() + "\n")
        sys.stdout.flush()


def main() -> None:
    settings: dict[str, Any] = msgspec.json.decode(sys.argv[1])
    if (os.cpu_count() or 1) > 1:
        os.sched_setaffinity(0, {0})
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 65536), most))
    uvloop.run(serve(settings))


if __name__ == "__main__":
    main()

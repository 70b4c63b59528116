"""``python -m quorate.bench.child``: the coordinator under measurement, alone on its core.

Prints its URL as its first line. At the end of its input it stops and prints, as one JSON object, what it measured of
itself: how long commits took, and how long from the last arrival at a barrier to the last release written.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from typing import Any

import msgspec
import uvloop

from quorate.config import load_config
from quorate.coordinator import open_coordinator
from quorate.core import shell
from quorate.hosts.server import ServedRun, Server, now_us


class Timing:
    """Measures by standing between the server's parts; only here, never in the product."""

    def __init__(self, server: Server) -> None:
        self.commits_us: list[int] = []
        self._began_us: dict[bytes, int] = {}
        self._append = server.append
        self._report = ServedRun.report
        setattr(server, "append", self.append)  # noqa: B010
        setattr(ServedRun, "report", lambda run, report: self.report(run, report))  # noqa: B010

    def append(self, run: ServedRun, wish: shell.Append) -> None:
        self._began_us[wish.nonce] = now_us()
        self._append(run, wish)

    def report(self, run: ServedRun, report: shell.Report) -> None:
        if isinstance(report, shell.Written):
            self.commits_us.append(now_us() - self._began_us.pop(report.nonce))
        self._report(run, report)


async def serve(settings: dict[str, Any]) -> None:
    config = load_config(None, settings, {})
    async with open_coordinator(config) as running:
        timing = Timing(running.server)
        sys.stdout.write(running.url + "\n")
        sys.stdout.flush()
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        sys.stdout.write(msgspec.json.encode({"commits_us": timing.commits_us}).decode() + "\n")
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

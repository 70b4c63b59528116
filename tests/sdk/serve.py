"""A coordinator for tests: ``serve.py FOLDER PORT RUN-CONFIG SETTINGS FOLLOWS KIND``. Says ["serving", url] and serves
until it is killed; SIGTERM drains it. Without the door that nobody comes through here: it would double the time to
start."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys

import uvloop

from quoracy.config import load_config
from quoracy.coordinator import open_coordinator


async def main() -> None:
    folder, port, config, settings, follows, kind = sys.argv[1:7]
    given = {
        "store": {"folder": folder},
        "listen": {"port": int(port)},
        "log": {"level": "error"},
        "grpc": {"enabled": False},
    } | json.loads(settings)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with open_coordinator(load_config(None, given, {})) as running:
        if "demo" not in running.server.runs and follows == "0":
            await running.ask("create", "demo", kind=kind, config=json.loads(config))
        os.write(1, json.dumps(["serving", running.url]).encode() + b"\n")
        await stop.wait()


if __name__ == "__main__":
    uvloop.run(main())

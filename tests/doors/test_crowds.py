"""Idle streams against a real server, half as many again as there is room for, and ten thousand in `make
soak-hostile`: those within the limits work, all others are told no in clear words, and nobody else notices."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.doors.crowds import Readers, Sessions
from tests.doors.grpc.strangers import free_port
from tests.e2e.command import Serving, quoracy, until
from tests.soak import soaking

pytestmark = pytest.mark.soak("hostile", shorter=True)

CROWD = 10_000 if soaking("hostile") else 1500
WITHIN = 1000
"""The default of both doors."""


def serve(folder: Path, **ports: int) -> Serving:
    config = folder / "quoracy.toml"
    doors = {"grpc": "enabled = false", "http": "enabled = false"}
    doors |= {door: f"port = {port}" for door, port in ports.items()}
    config.write_text("".join(f"[{door}]\n{said}\n" for door, said in doors.items()))
    server = Serving(folder / "journals", "--config", config)
    created = quoracy("run", "create", "demo", server.url)
    assert created.returncode == 0, created.stderr
    return server


def well(server: Serving) -> None:
    """Others at the same address still have room, and nothing broke."""
    status = quoracy("status", server.url)
    assert status.returncode == 0, status.stderr
    assert server.process.poll() is None
    assert server.log(level="error") == []


def test_idle_event_streams(tmp_path: Path) -> None:
    port = free_port()
    with serve(tmp_path, http=port) as server:

        async def crowd() -> None:
            async with Readers(port) as readers:
                await readers.come(CROWD)
                assert readers.told == {(200, ""): WITHIN, (429, "too_fast"): CROWD - WITHIN}
                await asyncio.to_thread(well, server)
                await asyncio.to_thread(quoracy, "run", "stop", "demo", server.url, "--reason", "all have seen enough")
                assert await readers.hear(b"event: entry\n") == WITHIN

        asyncio.run(crowd())
        until(lambda: server.sockets() < 50, "their places are free again")
        well(server)


def test_idle_session_streams(tmp_path: Path) -> None:
    port = free_port()
    with serve(tmp_path, grpc=port) as server:

        async def crowd() -> None:
            async with Sessions(f"127.0.0.1:{port}", channels=50) as sessions:
                await sessions.come(CROWD)
                expected = {("OK", "welcome"): WITHIN, ("RESOURCE_EXHAUSTED", "too_fast"): CROWD - WITHIN}
                assert sessions.told == expected
                await asyncio.to_thread(well, server)
            await asyncio.to_thread(until, lambda: server.sockets() < 50, "their places are free again")
            async with Sessions(f"127.0.0.1:{port}") as again:
                await again.come(WITHIN)
                assert again.told == {("OK", "welcome"): WITHIN}

        asyncio.run(crowd())
        well(server)

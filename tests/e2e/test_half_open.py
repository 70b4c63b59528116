"""A peer that vanishes without a word, on a real network between real processes: each side notices by itself."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.doors.talk import Talk
from tests.e2e.command import Serving, Working, quoracy, until
from tests.e2e.wire import FAR, NEAR, Wire

from quoracy.doors.tcp import MAX_ASKED
from quoracy.wire.frames import FrameReader
from quoracy.wire.messages import Ask, Greet, Greeted

RUN = "demo"
STEPS = 1_000_000
"""More than anybody will pass."""
LONG = "x" * 400_000
"""No configuration, as the reply says, with all of it. Sixteen such are more than the kernel keeps for a socket, and
less than ``limits.max_unsent_bytes``."""
LISTEN = ("--host", NEAR, "--insecure")


class FarTalk(Talk):
    """Over the wire."""

    def __init__(self, wire: Wire, port: int) -> None:
        self.socket = wire.connect_from_far(port)
        self._reader = FrameReader()
        self.heard = []
        self.say(Greet(2, 2))
        self.greeted = self.hear(Greeted)


@pytest.fixture
def wire() -> Iterator[Wire]:
    with Wire() as wire:
        yield wire


@pytest.fixture
def impatient(tmp_path: Path) -> Path:
    file = tmp_path / "quoracy.toml"
    file.write_text("[limits]\nidle_timeout_s = 2.0\n")
    return file


def create(wire: Wire, server: Serving, *settings: str) -> None:
    created = quoracy("run", "create", RUN, server.url, *[f"--set={one}" for one in settings], within=wire.near)
    assert created.returncode == 0, created.stderr


def test_a_worker_that_vanishes_is_lost_and_its_connection_is_given_up(
    tmp_path: Path, wire: Wire, impatient: Path
) -> None:
    with contextlib.ExitStack() as ends:
        server = ends.enter_context(
            Serving(tmp_path / "runs", *LISTEN, "--config", impatient, within=wire.near),
        )
        create(wire, server, "barrier_min=2", "heartbeat_interval_s=0.2", "heartbeat_timeout_s=3")
        near = [ends.enter_context(Working(tmp_path, server.url, RUN, n, STEPS, wire.near)) for n in ("w1", "w2")]
        far = ends.enter_context(Working(tmp_path, server.url, RUN, "w3", STEPS, wire.far))
        until(lambda: len(far.passed) > 5, "barriers with all three")
        until(lambda: all(worker.passed for worker in near), "the others too")
        until(lambda: server.sockets() == server.idle_sockets + 6, "each has its session and its heartbeats")
        held = server.sockets()
        wire.cut("far")
        (lost,) = until(lambda: server.log("worker lost"), "the loss")
        assert (lost["member"], lost["level"]) == ("w3", "warn")
        assert re.fullmatch(r"no sign of life for [\d.]+ s; 3\.0 s are allowed", lost["reason"])
        last = far.passed[-1]
        until(lambda: all(worker.passed[-1] > (last[0] + 20, 0) for worker in near), "the others go on")
        until(lambda: server.sockets() == held - 2, "session and heartbeats are given up")
        closed = server.log("connection closed", address=FAR)
        assert [line["why"] for line in closed] == ["nothing was said for 2 s"] * 2
        assert far.process.poll() is None, "it lives, and knows nothing of all that"
        assert server.stop() == 0


def test_what_was_not_sent_yet_does_not_keep_a_half_open_connection(
    tmp_path: Path, wire: Wire, impatient: Path
) -> None:
    """A goodbye behind much that nobody takes is never sent; the connection is given up all the same."""
    with Serving(tmp_path / "runs", *LISTEN, "--config", impatient, within=wire.near) as server:
        held = server.sockets()
        with FarTalk(wire, server.port) as talk:
            until(lambda: server.sockets() == held + 1, "connected")
            for _ in range(MAX_ASKED):
                talk.say(Ask(7, "create", RUN, {"config": LONG}))
            wire.cut("far")
            until(lambda: server.log("connection closed", why="nothing was said for 2 s"), "silence is noticed")
            assert server.log("a client does not read") == []
            until(lambda: server.sockets() == held, "the connection is gone")
        assert server.stop() == 0


def test_a_worker_whose_server_vanishes_notices_and_goes_on_when_it_is_back(tmp_path: Path, wire: Wire) -> None:
    with contextlib.ExitStack() as ends:
        server = ends.enter_context(Serving(tmp_path / "runs", *LISTEN, within=wire.near))
        create(wire, server, "barrier_min=2", "heartbeat_interval_s=0.5", "heartbeat_timeout_s=20")
        near = ends.enter_context(Working(tmp_path, server.url, RUN, "w1", STEPS, wire.near))
        far = ends.enter_context(Working(tmp_path, server.url, RUN, "w2", STEPS, wire.far))
        until(lambda: len(far.passed) > 5 and len(near.passed) > 5, "barriers")
        until(lambda: wire.connections_of_far() == 2, "its session and its heartbeats are there")
        wire.cut("near")
        until(lambda: wire.connections_of_far() == 0, "it notices by itself, while nothing comes back")
        before = far.passed
        assert server.log("worker lost") == [], "the server still waits for it"
        wire.mend("near")
        until(lambda: len(far.passed) > len(before) + 20, "it is back")
        until(lambda: len(near.passed) >= len(far.passed) - 1, "and so is the other")
        for worker in (near, far):
            passed = worker.passed
            assert passed == [(step + 1, step) for step in range(len(passed))], "each barrier once, in order"
        assert server.log("worker lost") == []
        assert [line["member"] for line in server.log("worker registered")].count("w2") == 1, "the same life"
        assert server.stop() == 0

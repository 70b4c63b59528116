"""The page about this door: its commands run as they are printed, and its numbers are those of the settings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.doors.grpc.conftest import opened
from tests.doors.grpc.talk import place

from quoracy.config import ConnectionLimits, Grpc, Http

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/doors/grpc.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = [line for block in BLOCK.findall(PAGE) for line in block.splitlines()]
PRINTED = "127.0.0.1:50051"


def shell(command: str, address: str) -> str:
    """In the folder of the project, with the ``python`` that has it."""
    assert PRINTED in command
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", command.replace(PRINTED, address)],
        capture_output=True, text=True, check=False, timeout=60, cwd=ROOT, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_every_command_runs(tmp_path: Path) -> None:
    """In the order of the page, against one server."""
    assert len(COMMANDS) >= 3
    with opened(tmp_path) as running:
        said = [shell(command, place(running)) for command in COMMANDS]
    assert "quoracy.v1.Coordinator\n" in said[0]
    assert '"run": "demo"' in said[1]
    assert '"run": "demo"' in said[2]


def test_the_seconds_on_the_page_are_those_of_the_settings() -> None:
    settings = Grpc()
    said = " ".join(PAGE.split())
    assert f"every `grpc.keepalive_s` ({settings.keepalive_s:g} seconds)" in said
    assert f"within `grpc.keepalive_timeout_s` ({settings.keepalive_timeout_s:g} seconds)" in said
    assert f"`2 * grpc.min_ping_interval_s` (also {2 * settings.min_ping_interval_s:g} seconds)" in said


def test_idle_streams_leave_room_for_others_at_their_address() -> None:
    room = ConnectionLimits().max_connections_per_identity
    assert Grpc().max_streams == Http().max_streams == 1000 <= room // 2

"""A coordinator that does not come up is said to, with what to do, instead of a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from quoracy.launch import Coordinator, NotStarted, TookTooLong, coordinating, coordinator


def test_one_that_ends_at_once_is_named_with_its_exit_code(tmp_path: Path) -> None:
    with pytest.raises(NotStarted, match="ended with 2 before it was ready") as caught:
        Coordinator(tmp_path, "--no-such-option")
    assert "quoracy serve" in caught.value.fix


def test_one_that_is_not_ready_in_time_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "START_S", 0.2)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        with pytest.raises(TookTooLong, match=r"not ready after 0 s"):
            coordinator._port(tmp_path / "ready", process)
        process.kill()


def test_one_that_is_ready_says_where_it_is(tmp_path: Path) -> None:
    with coordinating(tmp_path) as started:
        assert started.port > 0
        assert started.url == f"tcp://127.0.0.1:{started.port}"

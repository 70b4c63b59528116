"""A coordinator with nothing but its gRPC door, and somebody to talk to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.doors.grpc.talk import Talk, place

from quoracy.coordinator import Coordinator


def opened(folder: Path, grpc: dict[str, Any] | None = None, **settings: Any) -> Coordinator:
    return Coordinator(folder=folder, grpc={"enabled": True, "port": 0} | (grpc or {}), **settings)


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    with opened(tmp_path) as running:
        yield running


@pytest.fixture
def talk(coordinator: Coordinator) -> Iterator[Talk]:
    with Talk(place(coordinator)) as talk:
        talk.create(heartbeat_timeout_s=60)
        yield talk

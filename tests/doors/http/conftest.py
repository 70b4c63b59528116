"""One coordinator for all tests of a file that do not change how it runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.doors.http.live import Live, live

from quoracy.doors.http import streams


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Its streams have no heartbeat to speak of: whoever is woken was woken by news."""
    folder = tmp_path_factory.mktemp("http")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(streams, "BEAT_S", 600.0)
        with live(folder, runs={"cluster": {"barrier_deadline_s": 600.0}}) as running:
            running.coordinator.create("demo")
            yield running

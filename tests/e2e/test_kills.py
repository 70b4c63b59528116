"""kill -9 of a real coordinator under load, at random points: nothing acknowledged is lost, no barrier is released
twice or early, and everybody is back. A few times here, a hundred times in `make soak-faults`."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tests.e2e.command import Serving
from tests.e2e.fleet import RUN, Fleet
from tests.soak import soaking
from tests.stores.etcd import free_ports

from quoracy.bench.crowd import create_run
from quoracy.core.kinds import KINDS
from quoracy.core.run import fold

KILLS = 100 if soaking("faults") else 3
WORKERS = 12


@pytest.mark.soak("faults", shorter=True)
@pytest.mark.timeout(900 if soaking("faults") else 120)
def test_a_coordinator_killed_under_load_loses_nothing(tmp_path: Path) -> None:
    fleet = Fleet(WORKERS, seed=int(os.environ.get("QUORACY_SEED", "1")))
    folder, config, ports = tmp_path / "runs", tmp_path / "quoracy.toml", free_ports(3)
    config.write_text(f"[grpc]\nport = {ports[1]}\n[http]\nport = {ports[2]}\n")
    address = ("127.0.0.1", ports[0])
    server = Serving(folder, "--config", config, port=ports[0])
    try:
        create_run(address, barrier_min=WORKERS, heartbeat_timeout_s=30.0)
        for _ in range(KILLS):
            goal = fleet.lowest() + 3
            assert fleet.drive(address, lambda goal=goal: fleet.lowest() >= goal), "the fleet does not move"  # type: ignore[misc]
            moment = time.monotonic() + fleet.rng.uniform(0.0, 0.1)
            fleet.drive(address, lambda moment=moment: time.monotonic() >= moment)  # type: ignore[misc]
            server.kill()
            server = Serving(folder, "--config", config, port=ports[0])
        goal = fleet.lowest() + 3
        assert fleet.drive(address, lambda: fleet.lowest() >= goal), "not everybody came back"
        for worker in fleet.workers:
            worker.resting = True
        assert fleet.drive(address, lambda: all(worker.session.idle() for worker in fleet.workers), 20)
    finally:
        fleet.close()
        server.kill()
    entries = fleet.judge(folder)
    run = fold(KINDS, RUN, entries)
    assert run is not None
    assert run.head.term == KILLS + 1
    assert [worker.session.incarnation for worker in fleet.workers] == [1] * WORKERS, "nobody had to begin again"

"""A coordinator is killed while trainings compute: their sessions say and read nothing, their heartbeats go on.

Nobody may be lost for that, neither while the coordinator is away nor a time-out later; and each training goes on with
its next call, in the same incarnation. The members are those of the measurement, ``quoracy bench sdk``: two connections
each, with the connections and sessions of the SDK, in two processes.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.soak import soaking

from quoracy.bench.storm import Crowd
from quoracy.bench.storm_crowd import Told, Wish, now_us
from quoracy.launch.coordinator import Coordinator, coordinating
from quoracy.sdk.client.address import Address
from quoracy.sdk.client.ask import Asker
from quoracy.trust.ca import create_authority

RUN = "silent"
PROCESSES = 2


def told(crowds: list[Crowd], order: str = "") -> list[Told]:
    """What all of them say when they have done it."""
    for crowd in crowds if order else ():
        crowd.give(order)
    return [crowd.told() for crowd in crowds]


@contextlib.contextmanager
def members(server: Coordinator, ca: str, names: list[str]) -> Iterator[list[Crowd]]:
    with contextlib.ExitStack() as stack:
        crowds = []
        for number in range(PROCESSES):
            crowds.append(Crowd(Wish(Address("localhost", server.port), ca, RUN, names[number::PROCESSES])))
            stack.callback(crowds[-1].close)
        told(crowds)
        yield crowds


@pytest.mark.soak("faults", shorter=True)
def test_a_coordinator_killed_under_silent_sessions_loses_nobody_and_each_goes_on_at_its_next_call(
    tmp_path: Path,
) -> None:
    many, timeout_s = (300, 15.0) if soaking("faults") else (30, 6.0)
    names = [f"w{number:03}" for number in range(many)]
    made = create_authority(tmp_path / "trust", ["localhost"])
    config = tmp_path / "quoracy.toml"
    config.write_text(f'[tls]\ncert = "{made.server.cert}"\nkey = "{made.server.key}"\n')
    ca = str(made.authority.cert)

    with coordinating(tmp_path, "--config", str(config)) as server:
        url = f"tcps://localhost:{server.port}"

        def standing() -> dict[str, tuple[str, int, int]]:
            with Asker(url, ca=ca) as asker:
                shown: dict[str, Any] = asker.ask("show", RUN)
            return {w["id"]: (w["state"], w["incarnation"], w["losses"]) for w in shown["workers"]}

        with Asker(url, ca=ca) as asker:
            asker.ask("create", RUN, config={"heartbeat_timeout_s": timeout_s, "heartbeat_interval_s": timeout_s / 6})
        with members(server, ca, names) as crowds:
            well = dict.fromkeys(names, ("Idle", 1, 0))
            assert standing() == well
            killed_us = now_us()
            server.kill()
            server.start()
            began_s = time.monotonic()
            told(crowds, f"beat {killed_us}")
            while time.monotonic() < began_s + 1.1 * timeout_s:  # whoever is lost is lost by then
                assert standing() == well
                time.sleep(0.2)
            assert [why for one in told(crowds, "call") for why in one.unwell] == []
            assert standing() == well

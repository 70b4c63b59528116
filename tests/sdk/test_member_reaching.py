"""In warm-up members try to reach each other; one that cannot be reached holds nobody up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.sdk.live import free_port, wait_for
from tests.sdk.witnessed_live import Witnessed, summaries

LONG: dict[str, Any] = {"warmup_s": 100.0}
"""It is not over before all say that they are ready."""


def test_a_member_is_ready_when_it_has_tried_all_others(tmp_path: Path) -> None:
    with Witnessed(tmp_path, **LONG) as run:
        one, crew = run.member("held", "m1", "reaches"), run.member("crew", "m2", "m3")
        one.hear("reaches")
        while not any(topic == "news" and value[0] == "loaded" for topic, value in one.said):
            one.hear("news")
        assert run.shown()["phase"] == "Warmup"
        one.tell("go on")
        run.judge(*summaries(one), *summaries(crew, count=2))


def test_a_peer_that_cannot_be_reached_is_told_of_and_the_run_goes_on(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    with Witnessed(tmp_path, **LONG) as run:
        run.member("plain", "m3", "127.0.0.1:0", address)
        crew = run.member("crew", "m1", "m2")
        while "cannot be reached" not in (said := crew.hear("news")[1]):
            pass
        assert said.startswith(f"1 of 2 peers cannot be reached: m3 at {address}: ")
        wait_for(lambda: run.shown()["phase"] == "RoundTrain", "they train all the same")

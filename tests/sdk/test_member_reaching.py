"""In warm-up members try to reach each other; one that cannot be reached holds nobody up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.sdk.live import free_port, wait_for
from tests.sdk.test_member_model import HTTP
from tests.sdk.witnessed_live import Witnessed, events, summaries

from quoracy.core.witnessed.events import ResultCommitted

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


def test_the_work_of_one_whose_address_leads_nowhere_counts(tmp_path: Path) -> None:
    """It does not know that nobody can reach it: nobody comes for what it has made, and then the relay gets it."""
    address = f"127.0.0.1:{free_port()}"
    with Witnessed(tmp_path, HTTP, **LONG) as run:
        one, crew = run.member("plain", "m1", "127.0.0.1:0", address), run.member("crew", "m2", "m3")
        ended = [*summaries(one), *summaries(crew, count=2)]
        shown = run.judge(*ended)
        commitments = {
            event.digest for event in events(run) if isinstance(event, ResultCommitted) and event.member == "m1"
        }
    assert next(member for member in shown["members"] if member["id"] == "m1")["addresses"] == [address]
    assert len(commitments) >= shown["step"]
    assert shown["account"]["skipped"] == shown["account"]["again"] == 0, "what it made was sealed in its own round"
    assert {member["strikes"] for member in shown["members"]} == {0}
    assert ended[0]["exchanged"]["given_bytes"] == 0
    assert all(each["exchanged"]["relayed_in_bytes"] > 0 for each in ended[1:])


def test_nothing_is_relayed_before_it_is_committed_to(tmp_path: Path) -> None:
    with Witnessed(tmp_path, HTTP, **LONG) as run:
        one, crew = run.member("uncommitted", "m1"), run.member("crew", "m2", "m3")
        assert one.hear("Command") == [False, False]
        assert one.hear("Announce") == [False, True]
        run.judge(*summaries(one), *summaries(crew, count=2))

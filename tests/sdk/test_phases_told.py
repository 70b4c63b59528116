"""Those who wait are told of phase changes: in the log of the program and by the callback."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.core.witnessed.player import round_shown
from tests.sdk.live import PATIENCE_S, wait_for

import quoracy
from quoracy.coordinator import Coordinator
from quoracy.core.federated.state import Verdict
from quoracy.core.witnessed.views import Standing
from quoracy.sdk.federated.client import Phase
from quoracy.sdk.federated.events import Teller as ParticipantTeller
from quoracy.sdk.witnessed.events import MemberNews, Teller

START = {"w": np.zeros(2, "f4")}


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.INFO, logger="quoracy"):
        yield caplog


def test_a_participant_that_was_not_drawn_is_told_of_each_round(tmp_path: Path, logged: Any) -> None:
    """By its next heartbeat: the round that is under way, and that the run stands and why."""
    told: dict[str, list[Any]] = {"a": [], "b": []}
    drawn: list[str] = []
    go_on = threading.Event()

    def take_part(name: str) -> None:
        def train(weights: Any, task: quoracy.Task) -> Any:
            drawn.append(name)
            assert go_on.wait(PATIENCE_S)
            return weights, 1, {}

        where = {"participant": name, "initial": START, "on_news": told[name].append, "handle_sigterm": False}
        quoracy.participate(coordinator.url, train, "wards", **where)

    config = {"clients": 2, "per_round": 1, "rounds": 2, "heartbeat_interval_s": 0.05, "heartbeat_timeout_s": 30.0}
    with Coordinator(tmp_path) as coordinator:
        coordinator.create("wards", "federated", **config)
        threads = [threading.Thread(target=take_part, args=(name,)) for name in told]
        try:
            for thread in threads:
                thread.start()
            wait_for(lambda: drawn, "one trains")
            (waits,) = set(told) - set(drawn)

            def news(text: str) -> bool:
                return any(text in each.text for each in told[waits] if each.what == "standby")

            wait_for(lambda: news("round 0 of 2 is under way; this participant was not drawn"), "the other is told")
            coordinator.ask("pause", "wards", reason="lunch")
            wait_for(lambda: news("lunch"), "it is told that the run is paused")
            coordinator.ask("resume", "wards")
        finally:
            go_on.set()
            for thread in threads:
                thread.join(PATIENCE_S)
    assert f"{waits}: round 0 of 2 is under way; this participant was not drawn" in logged.messages


def test_a_participant_that_is_done_with_a_round_is_not_told_that_it_was_not_drawn() -> None:
    """It knows from its own work, or after a restart from the verdict."""
    told: list[Any] = []
    stands = SimpleNamespace(phase="STANDBY", reason="", rounds=5, verdict=None, warnings=())
    client: Any = SimpleNamespace(
        incarnation=0, outage=None, refused=None, standing=stands, work=None, over=None,
        last_round=3, phase=Phase("Round", 3, ""),
    )  # fmt: skip
    teller = ParticipantTeller("p1", told.append)
    teller.look(client)
    client.phase = Phase("Round", 4, "")
    teller.look(client)
    teller.look(client)
    client.phase, stands.verdict = Phase("Round", 5, ""), Verdict(5, 1, "", True, "")
    teller.look(client)
    client.phase = Phase("Standby", 5, "1 of clients = 2 are registered")
    teller.look(client)
    assert [news.text for news in told] == [
        "round 3 of 5 is under way; this participant is done with it",
        "round 4 of 5 is under way; this participant was not drawn",
        "round 5 of 5 is under way; this participant is done with it",
        "standby: 1 of clients = 2 are registered",
    ]


def test_a_member_that_is_pending_tells_every_phase_of_the_run(logged: Any) -> None:
    told: list[MemberNews] = []
    teller = Teller("late", told.append)
    teller.stands(Standing(1, "Pending", "RoundTrain", 0, 0, "", None, False))
    for phase, number in (("RoundWitness", 3), ("RoundTrain", 4), ("RoundTrain", 4), ("Cooldown", 4)):
        teller.round(round_shown(number, phase=phase))
    texts = [
        "late is Pending; epoch 0 round 3: RoundWitness",
        "late is Pending; epoch 0 round 4: RoundTrain",
        "late is Pending; epoch 0 round 4: Cooldown",
    ]
    assert [news.text for news in told[1:]] == texts
    assert {news.what for news in told} == {"standing"}, "which the command line prints"
    assert [message for message in logged.messages if "Pending; " in message] == [f"late: {text}" for text in texts]


def test_a_worker_that_is_held_by_a_pause_says_so(tmp_path: Path, logged: Any) -> None:
    with Coordinator(tmp_path) as coordinator:
        coordinator.create("demo")
        with quoracy.connect(coordinator.url, "demo", "w1") as worker:
            coordinator.ask("order", "demo", command="pause")
            waiting = threading.Thread(target=worker.barrier, args=("step", 0))
            waiting.start()
            wait_for(lambda: "w1: an operator's pause: held here until resume" in logged.messages, "it says so")
            coordinator.ask("order", "demo", command="resume")
            waiting.join(PATIENCE_S)
            assert "w1: goes on after an operator's pause" in logged.messages

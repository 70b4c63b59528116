"""Whoever names no run means the one federated run that the coordinator has."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.sdk.live import PATIENCE_S, free_port
from tests.sdk.test_secure import Vault

import quoracy
from quoracy.coordinator import Coordinator
from quoracy.core.backoff import Waits
from quoracy.core.errors import ConfigError
from quoracy.sdk.client import only_run as finding
from quoracy.sdk.client.ask import rounds_over
from quoracy.sdk.client.only_run import only_run

ONE_ROUND = {"rounds": 1, "clients": 1}


@pytest.fixture
def coordinator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Coordinator]:
    monkeypatch.delenv("QUORACY_RUN", raising=False)
    with Coordinator(tmp_path / "data") as running:
        yield running


def found(url: str, give_up_s: float | None = 5.0) -> str:
    return only_run("federated", url, None, None, give_up_s)


def test_the_only_federated_run_is_meant(coordinator: Coordinator, tmp_path: Path) -> None:
    coordinator.create("fleet", "cluster")
    coordinator.create("hospital", "federated", **ONE_ROUND)
    seen: list[str] = []

    def train(weights: dict[str, Any], task: quoracy.Task) -> tuple[dict[str, Any], int, None]:
        seen.append(task.run)
        return weights, 1, None

    quoracy.participate(
        coordinator.url, train, participant="p1", initial={"a": np.zeros(2, np.float32)}, cache=tmp_path / "cache"
    )
    assert seen == ["hospital"]


def test_with_none_or_several_it_must_be_named(coordinator: Coordinator) -> None:
    coordinator.create("fleet", "cluster")
    with pytest.raises(ConfigError, match=r"name it: run=.*the coordinator has no federated run"):
        found(coordinator.url)
    for name in ("north", "south"):
        coordinator.create(name, "federated", **ONE_ROUND)
    with pytest.raises(ConfigError, match="the coordinator has north, south"):
        found(coordinator.url)


def test_one_that_may_not_ask_is_told_to_name_it(tmp_path: Path) -> None:
    vault = Vault(tmp_path)
    with vault.open() as running:
        running.create("run", "federated", **ONE_ROUND)
        with pytest.raises(ConfigError, match=r"name it: run=\.\.\., or QUORACY_RUN \(.*token"):
            only_run("federated", vault.url, "nobody's", vault.ca, 5.0)
        assert only_run("federated", vault.url, vault.token, vault.ca, 5.0) == "run"


def test_a_coordinator_that_is_not_there_is_asked_again_until_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding, "WAITS", Waits(20_000, 20_000))
    with Coordinator(tmp_path / "data") as running:
        running.create("late", "federated", **ONE_ROUND)
    names: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as somebody:
        port = somebody.getsockname()[1]
        asks = threading.Thread(target=lambda: names.append(found(f"tcp://127.0.0.1:{port}", None)))
        asks.start()
        somebody.settimeout(PATIENCE_S)
        for _ in range(2):
            somebody.accept()[0].close()
    with Coordinator(tmp_path / "data", port=port):
        asks.join(PATIENCE_S)
    assert names == ["late"]


def test_one_that_does_not_come_is_given_up() -> None:
    with pytest.raises(quoracy.Unreachable):
        found(f"tcp://127.0.0.1:{free_port()}", 0.0)


class Pages:
    """A coordinator with so many rounds behind it, told in pages of three."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.asked: list[int] = []

    def ask(self, what: str, run: str, after: int) -> dict[str, Any]:
        assert (what, run) == ("history", "demo")
        self.asked.append(after)
        shown = list(range(after + 1, min(after + 4, self.rounds)))
        more = bool(shown) and shown[-1] + 1 < self.rounds
        return {"rounds": [{"round": number} for number in shown], "next": shown[-1] if more else None}


@pytest.mark.parametrize(("rounds", "asked"), [(0, [-1]), (3, [-1]), (4, [-1, 2]), (7, [-1, 2, 5])])
def test_the_rounds_that_are_over_are_read_page_by_page(rounds: int, asked: list[int]) -> None:
    pages: Any = Pages(rounds)
    assert [row["round"] for row in rounds_over(pages, "demo")] == list(range(rounds))
    assert pages.asked == asked

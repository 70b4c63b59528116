"""A wrong name of a run ends with the names there are, or waits if that is asked for: in every kind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.doors.talk import Talk

import quoracy
from quoracy.coordinator import Coordinator
from quoracy.core.errors import ConfigError, QuoracyError, Refused
from quoracy.core.messages import Declined
from quoracy.doors.auth import Role
from quoracy.sdk.client.ask import Asker

START = {"w": np.zeros(2, "f4")}


def train(weights: Any, _task: Any) -> Any:
    return weights, 1, {}


def connected(url: str, run: str | None, wait: bool) -> str:
    with quoracy.connect(url, run=run, wait=wait) as worker:
        return worker.run


def connected_async(url: str, run: str | None, wait: bool) -> str:
    async def work() -> str:
        async with quoracy.connect_async(url, run=run, wait=wait) as worker:
            return worker.run

    return asyncio.run(work())


def participated(url: str, run: str | None, wait: bool) -> str:
    return quoracy.participate(url, train, run, initial=START, wait=wait, handle_sigterm=False).run


def joined(url: str, run: str | None, wait: bool) -> str:
    return quoracy.join(url, "nothing", run, wait=wait, handle_sigterm=False).run


WAYS: list[Any] = [
    pytest.param(connected, "cluster", {}, id="connect"),
    pytest.param(connected_async, "cluster", {}, id="connect_async"),
    pytest.param(participated, "federated", {"clients": 1, "rounds": 1}, id="participate"),
    pytest.param(joined, "witnessed", {"total_steps": 1, "waiting_extra_s": 0.01, "cooldown_s": 0.1}, id="join"),
]
Way = Callable[[str, str | None, bool], str]


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        with Coordinator(tmp_path_factory.mktemp("runs"), http={"port": 0}) as running:
            for name in ("alpha", "beta"):
                running.create(name)
            yield running


@pytest.mark.parametrize(("way", "kind", "config"), WAYS)
def test_a_wrong_name_ends_with_the_names_there_are(
    coordinator: Coordinator, way: Way, kind: str, config: dict[str, Any]
) -> None:
    with pytest.raises(QuoracyError, match=r"no run 'alhpa' here; did you mean 'alpha'") as caught:
        way(coordinator.url, "alhpa", False)
    assert caught.value.code == "unknown_run"


@pytest.mark.parametrize(("way", "kind", "config"), WAYS)
def test_who_waits_for_a_run_takes_part_as_soon_as_it_is_created(
    coordinator: Coordinator, way: Way, kind: str, config: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    name = f"later-{request.node.callspec.id}"
    asked = threading.Event()
    service = coordinator._open().service
    whole = service._no_run

    def told(run: str, identity: Any) -> Any:
        if run == name:
            asked.set()
        return whole(run, identity)

    service._no_run = told  # type: ignore[method-assign]
    ended: list[str] = []
    waiting = threading.Thread(target=lambda: ended.append(way(coordinator.url, name, True)))
    waiting.start()
    try:
        assert asked.wait(60)
        coordinator.create(name, kind, **config)
        waiting.join(100)
        assert ended == [name]
    finally:
        service._no_run = whole  # type: ignore[method-assign]


def test_who_names_no_run_and_waits_takes_the_first_that_comes(tmp_path: Path) -> None:
    with Coordinator(tmp_path, http={"port": 0}) as coordinator:
        with pytest.raises(ConfigError, match="the coordinator has no federated run"):
            participated(coordinator.url, None, False)
        ended: list[str] = []
        waiting = threading.Thread(target=lambda: ended.append(participated(coordinator.url, None, True)))
        waiting.start()
        coordinator.create("first", "federated", clients=1, rounds=1)
        waiting.join(100)
        assert ended == ["first"]


def test_only_names_that_the_token_covers_are_shown(tmp_path: Path) -> None:
    with Coordinator(tmp_path, access={"tokens": "required"}) as coordinator:
        for name in ("bert-1", "bert-2", "secret"):
            coordinator.create(name)
        authority = coordinator._open().service.authority
        token = authority.new_token(Role.MEMBER, "bert-*")
        with Asker(coordinator.url, token=token) as asker, pytest.raises(Refused) as caught:
            asker.ask("show", "bert-3")
        assert "did you mean 'bert-2' or 'bert-1'?" in caught.value.refusal.why
        with Talk(coordinator.url, token=token) as talk:
            talk.hello("w1")  # of a run that is there
            talk.beat("w1", 1)
            assert "secret" not in talk.hear(Declined).refusal.why
        with Talk(coordinator.url, token=authority.new_token(Role.MEMBER, "demo")) as talk:
            talk.beat("w1", 1)
            assert "(there are: none)" in talk.hear(Declined).refusal.why

"""Nobody is left without a word: what ``connect`` says of an address, a port or a run that is not what was meant."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sdk.live import QUICK, free_port, script, wait_for

import quoracy
from quoracy.coordinator import Coordinator


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    folder = tmp_path_factory.mktemp("ports")
    apis = {"grpc": {"enabled": True, "port": 0}, "http": {"enabled": True, "port": 0}}
    with Coordinator(folder, store="memory", **apis) as running:
        running.create("demo", **QUICK)
        running.ask("create", "wards", kind="federated", config={"clients": 2, "rounds": 1})
        yield running


def port_of(coordinator: Coordinator, api: str) -> str:
    return coordinator.addresses[api].rpartition(":")[2]


@pytest.mark.parametrize(("api", "called"), [("http", "an HTTP port"), ("grpc", "a gRPC port")])
def test_a_port_of_another_api_is_named_at_once(coordinator: Coordinator, api: str, called: str) -> None:
    began_s = time.monotonic()
    with pytest.raises(quoracy.Unreachable, match=f"that is {called}; name the port for members"):
        quoracy.connect(f"tcp://127.0.0.1:{port_of(coordinator, api)}", "demo", "w1")
    assert time.monotonic() - began_s < 20, "nobody waits for connect_timeout_s = 30"


def test_the_first_failure_is_told_at_once_and_with_the_address(caplog: pytest.LogCaptureFixture) -> None:
    url = f"tcp://127.0.0.1:{free_port()}"
    with caplog.at_level(logging.WARNING, "quoracy"):
        waiting = threading.Thread(target=_ends_unreachable, args=(url, 3.0))
        waiting.start()
        wait_for(lambda: caplog.messages, "the first failure is in the log")
        assert waiting.is_alive(), "it still tries"
        waiting.join()
    assert caplog.messages == [f"w1: {url}: Connection refused; tries again for 3 s"]


def _ends_unreachable(url: str, timeout_s: float) -> None:
    with pytest.raises(quoracy.Unreachable):
        quoracy.connect(url, "demo", "w1", connect_timeout_s=timeout_s)


def test_a_run_of_another_kind_is_named_with_its_kind(coordinator: Coordinator) -> None:
    with pytest.raises(quoracy.Rejected, match="wards is a federated run") as refused:
        quoracy.connect(coordinator.url, "wards", "w1")
    assert refused.value.code == "wrong_kind"


def test_a_typo_in_the_name_of_a_run_is_answered_with_the_name_that_was_meant(coordinator: Coordinator) -> None:
    with pytest.raises(quoracy.Rejected, match="did you mean 'demo'"):
        quoracy.connect(coordinator.url, "demmo", "w1")


def test_sigterm_ends_a_connect_that_waits() -> None:
    with script("connects", f"tcp://127.0.0.1:{free_port()}") as process:
        process.hear("waits")
        process.kill(signal.SIGTERM)
        assert process.hear("ended") == "Draining"


def test_the_authority_may_be_named_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUORACY_CA", str(tmp_path / "authority.pem"))
    with pytest.raises(quoracy.ConfigError, match="authority"):
        quoracy.connect(f"tcps://127.0.0.1:{free_port()}", "demo", "w1", connect_timeout_s=1.0)
    monkeypatch.setenv("QUORACY_URL", f"tcp://127.0.0.1:{free_port()}")
    with pytest.raises(quoracy.Unreachable):
        quoracy.connect(run="demo", member="w1", connect_timeout_s=0.2)
    assert "QUORACY_CA" in os.environ

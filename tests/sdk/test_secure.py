"""TLS, tokens and keys, from a script's point of view. Real coordinators, real heartbeat processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.live import QUICK, RUN, alive, free_port, script, wait_for

import quoracy
from quoracy.coordinator import Coordinator
from quoracy.doors.auth import Authority, Role
from quoracy.trust.ca import create_authority


class Vault:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        founded = create_authority(folder / "ca")
        self.ca, issued = founded.authority.cert, founded.server
        self.settings: dict[str, Any] = {
            "tls": {"cert": issued.cert, "key": issued.key},
            "access": {"tokens": "required"},
        }
        self.port = free_port()
        self.url = f"tcps://127.0.0.1:{self.port}"
        self.token = Authority.open(folder / "data").new_token(Role.MEMBER)

    def open(self) -> Coordinator:
        return Coordinator(self.folder / "data", port=self.port, **self.settings)

    def connect(self, member: str = "w1", **settings: Any) -> quoracy.Worker:
        given = {"token": self.token, "ca": self.ca, "connect_timeout_s": 5.0} | settings
        return quoracy.connect(self.url, RUN, member, **given)


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Vault:
    return Vault(tmp_path_factory.mktemp("vault"))


@pytest.fixture
def coordinator(vault: Vault) -> Iterator[Coordinator]:
    with vault.open() as running:
        if RUN not in [run["run"] for run in running.ask("runs")]:
            running.create(RUN, **QUICK)
        yield running


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def test_a_worker_with_a_token_gets_in_over_tls_with_a_key_of_its_own_making(
    vault: Vault, coordinator: Coordinator, home: Path
) -> None:
    with vault.connect("w1") as worker:
        for step in range(worker.next_step("step"), worker.next_step("step") + 3):
            assert worker.barrier("step", step).released
    key = home / "quoracy" / "member.key"
    assert key.stat().st_mode & 0o077 == 0
    with vault.connect("w1") as worker:
        assert worker.incarnation == 2, "the same key, so the same member"


def test_an_id_is_bound_to_its_key(vault: Vault, coordinator: Coordinator, tmp_path: Path) -> None:
    with vault.connect("w2", key=tmp_path / "first.key"):
        pass
    with pytest.raises(quoracy.AccessDenied, match="bound to the key") as denied:
        vault.connect("w2", key=tmp_path / "second.key")
    assert denied.value.code == "key_mismatch"


def test_the_session_goes_on_after_a_restart_by_its_token(vault: Vault) -> None:
    with vault.open() as running:
        if RUN not in [run["run"] for run in running.ask("runs")]:
            running.create(RUN, **QUICK)
        worker = vault.connect("w3")
        life = worker.incarnation
        worker.barrier("restart", 0)
    with vault.open(), worker:
        assert worker.barrier("restart", 1).released
        assert worker.incarnation == life


def test_an_authority_that_is_not_believed_is_said(vault: Vault, coordinator: Coordinator, tmp_path: Path) -> None:
    other = create_authority(tmp_path / "other").authority.cert
    with pytest.raises(quoracy.Unreachable, match="certificate is not believed"):
        vault.connect(ca=other, connect_timeout_s=3.0)


def test_tls_where_there_is_none_and_none_where_there_is_are_told_apart(
    vault: Vault, coordinator: Coordinator, tmp_path: Path
) -> None:
    with pytest.raises(quoracy.Unreachable, match="write tcps://"):
        quoracy.connect(vault.url.replace("tcps", "tcp"), RUN, "w1", token=vault.token, connect_timeout_s=3.0)
    with Coordinator(tmp_path / "plain", store="memory") as plain:
        plain.create(RUN)
        with pytest.raises(quoracy.Unreachable, match="write tcp:// instead of tcps://"):
            quoracy.connect(plain.url.replace("tcp", "tcps"), RUN, "w1", ca=vault.ca, connect_timeout_s=3.0)


def test_no_token_and_a_viewers_token_are_turned_away(vault: Vault, coordinator: Coordinator) -> None:
    with pytest.raises(quoracy.AccessDenied, match="no token came"):
        vault.connect(token="")
    viewer = Authority.open(vault.folder / "data").new_token(Role.VIEWER)
    with pytest.raises(quoracy.AccessDenied, match="viewer"):
        vault.connect(token=viewer)


def test_a_file_that_is_no_key_or_no_authority_is_named(vault: Vault, coordinator: Coordinator, tmp_path: Path) -> None:
    nonsense = tmp_path / "nonsense"
    nonsense.write_text("nonsense")
    nonsense.chmod(0o600)
    for setting in ("key", "ca"):
        with pytest.raises(quoracy.ConfigError, match="nonsense"):
            vault.connect(**{setting: nonsense})


def test_forked_workers_of_a_data_loader_leave_the_tls_connection_alone(vault: Vault, coordinator: Coordinator) -> None:
    """They hold copies of its descriptor. One of them ending must not end it for the parent, who waits at a barrier."""
    run = "loader"
    coordinator.create(run, **QUICK)
    with script("data_loader", vault.url, run, vault.token, str(vault.ca)) as training:
        for step in range(4):
            assert training.hear("passed") == [step, 1]
        loaders = training.hear("loaders")
        with quoracy.connect(vault.url, run, "two", token=vault.token, ca=vault.ca) as other:
            training.tell("go on")
            wait_for(lambda: not any(alive(pid) for pid in loaders), "the loaders have ended")
            wait_for(lambda: "one" in str(coordinator.ask("show", run)["barriers"]), "the parent stands at the barrier")
            assert other.barrier("step", 4).released
            assert training.hear("passed") == [4, 1], "in the same incarnation"

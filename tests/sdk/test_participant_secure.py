"""TLS, tokens and keys, from a participant's point of view."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.sdk.test_secure import Vault

import quoracy
from quoracy.coordinator import Coordinator
from quoracy.sdk.federated.api import prepare


@pytest.fixture
def vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Vault:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return Vault(tmp_path)


@pytest.fixture
def coordinator(vault: Vault) -> Iterator[Coordinator]:
    with vault.open() as running:
        running.create("run", "federated", rounds=1)
        yield running


def take_part(vault: Vault, **more: Any) -> quoracy.Summary:
    given: dict[str, Any] = {"token": vault.token, "ca": vault.ca, "initial": {"a": np.zeros(2, np.float32)}} | more
    return quoracy.participate(
        vault.url,
        lambda weights, task: (weights, 1, {}),
        "run",
        participant="p1",
        cache=vault.folder / "cache",
        **given,
    )


@pytest.mark.usefixtures("coordinator")
def test_a_participant_with_a_token_gets_in_over_tls_with_a_key_of_its_own_making(vault: Vault) -> None:
    assert take_part(vault).admitted == 1
    assert (vault.folder / "quoracy" / "member.key").stat().st_mode & 0o077 == 0


@pytest.mark.usefixtures("coordinator")
def test_a_participant_without_a_token_is_turned_away(vault: Vault) -> None:
    with pytest.raises(quoracy.AccessDenied, match="no token came"):
        take_part(vault, token="")


def test_another_key_does_not_take_over_a_place(vault: Vault, coordinator: Coordinator) -> None:
    """Correction 5: identity is a key, and not where somebody comes from."""
    coordinator.create("other", "federated", clients=2)
    _join(vault, "first.key")
    assert coordinator.show("other")["participants"][0]["state"] == "Left"
    with pytest.raises(quoracy.AccessDenied) as denied:
        _join(vault, "second.key", stay=True)
    assert denied.value.code == "key_mismatch"


def _join(vault: Vault, key: str, stay: bool = False) -> None:
    """Joins and, unless it is to stay, leaves at once, as if SIGTERM had come."""
    participant = prepare(
        vault.url, lambda weights, task: (weights, 1, {}), "other", participant="p1", token=vault.token, ca=vault.ca,
        key=vault.folder / key, cache=vault.folder / "cache",
    )  # fmt: skip
    if not stay:
        participant.drain()
    participant.take_part()

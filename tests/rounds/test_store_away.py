"""A store that is not what it was, that lacks what it should have, or that does not answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from tests.doors.talk import RUN
from tests.e2e.command import until
from tests.rounds.party import KEYS, Parties, ended, model, play_round, put, with_store
from tests.rounds.test_workshop import workshop_of

from quoracy.coordinator import Coordinator
from quoracy.core.errors import ObjectsUnreachable
from quoracy.hosts import workshop
from quoracy.learn import load, save
from quoracy.objects import LocalObjects


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def coordinator(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Coordinator]:
    monkeypatch.chdir(tmp_path)
    with Coordinator(folder=folder, http={"port": 0}, workshop={"modules": ["judge_in_time"]}) as running:
        yield running


@pytest.fixture
def parties(coordinator: Coordinator) -> Iterator[Parties]:
    with Parties(coordinator) as parties:
        yield parties


@contextmanager
def away(folder: Path) -> Iterator[None]:
    """The disk answers with an error, whatever is asked of the run's objects: too many links, round and round."""
    there, aside = folder / "objects" / RUN, folder / "aside"
    there.rename(aside)
    there.symlink_to(there)
    try:
        yield
    finally:
        there.unlink()
        aside.rename(there)


def test_a_run_whose_first_weights_are_not_there_is_paused_at_once_and_goes_on_when_they_are_brought(
    coordinator: Coordinator, parties: Parties, folder: Path, tmp_path: Path
) -> None:
    content = tmp_path / "first.safetensors"
    digest = save(content, model(5.0))
    shown = coordinator.create(RUN, "federated", clients=1, rounds=1, initial=digest)
    assert (shown["phase"], shown["open"]) == ("Paused", None)
    assert f"not in the object store: bring {KEYS.blob(digest)}, and resume the run" in shown["reason"]
    party = parties.join("p1", initial=False)
    assert party.standing()["phase"] == "STANDBY"
    url = f"{coordinator.ask('weights', RUN)['http']}/api/runs/{RUN}/weights/{digest}"
    assert httpx.put(url, content=content.read_bytes()).status_code == 201
    coordinator.ask("resume", RUN)
    play_round(folder, [party], 0, tmp_path)
    ended(coordinator)


def test_a_run_whose_first_weights_cannot_be_looked_up_is_paused_too(
    coordinator: Coordinator, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_given: Any) -> None:
        raise ObjectsUnreachable("nobody answers")

    digest = put(folder, model(5.0), tmp_path, member="")
    monkeypatch.setattr(LocalObjects, "head", silent)
    shown = coordinator.create(RUN, "federated", clients=1, initial=digest)
    assert shown["phase"] == "Paused"
    assert shown["reason"] == "the weights to begin with cannot be looked up: nobody answers"


def admitted_and_paused(
    coordinator: Coordinator, parties: Parties, folder: Path, tmp_path: Path, **config: Any
) -> list[str]:
    """Two updates of round 0 are admitted, and nothing comes of them until the run is resumed. -> their digests"""
    coordinator.create(RUN, "federated", clients=2, rounds=1, **config)
    both = [parties.join("p1"), parties.join("p2")]
    play_round(folder, both[:1], -1, tmp_path)
    standings = [party.assigned(0) for party in both]
    coordinator.ask("pause", RUN, reason="a test")
    play_round(folder, both, 0, tmp_path)
    return [str(party.verdict(standing)[2]) for party, standing in zip(both, standings, strict=True)]


def test_what_was_admitted_cannot_be_replaced_before_it_is_aggregated(
    coordinator: Coordinator, parties: Parties, folder: Path, tmp_path: Path
) -> None:
    _, digest = admitted_and_paused(coordinator, parties, folder, tmp_path)
    blob = folder / "objects" / KEYS.upload("p2", digest)
    admitted = blob.read_bytes()
    blob.unlink()
    found = save(blob, model(1e6))
    coordinator.ask("resume", RUN)
    reason = until(lambda: coordinator.show(RUN)["history"] and ended(coordinator, "Paused")["reason"], "it pauses")
    assert "round 0 could not be aggregated" in reason
    assert KEYS.upload("p2", digest) in reason
    assert f"its content has the digest {found}: it was changed" in reason
    blob.unlink()
    blob.write_bytes(admitted)
    coordinator.ask("resume", RUN)
    shown = ended(coordinator)
    assert np.allclose(load(with_store(folder).local_path(KEYS.model(1)) or Path())["a"], 5 / 3)
    assert shown["history"][0]["admitted"] == ["p1", "p2"]


def waits_for_the_store(
    duty: str, coordinator: Coordinator, parties: Parties, folder: Path, tmp_path: Path, away_until: Callable[[], Any]
) -> None:
    """The duty is begun while the store is away, and that is how it is until ``away_until`` returns."""
    flag = tmp_path / "judge"
    code = tmp_path / "judge_in_time.py"
    code.write_text(f"import os\n\ndef judge(_a, _t):\n    return {{'size': os.stat({str(flag)!r}).st_size}}\n")
    config = {"evaluation": "judge_in_time:judge"} if duty == "evaluate" else {}
    admitted_and_paused(coordinator, parties, folder, tmp_path, **config)
    if duty == "evaluate":
        coordinator.ask("resume", RUN)
        until(lambda: "could not be evaluated" in ended(coordinator, "Paused")["reason"], "nobody can judge yet")
        flag.touch()
    with away(folder):
        coordinator.ask("resume", RUN)
        away_until()


@pytest.mark.parametrize("duty", ["aggregate", "evaluate"])
def test_an_aggregation_and_an_evaluation_wait_for_a_store_that_is_away(
    duty: str, coordinator: Coordinator, parties: Parties, folder: Path, tmp_path: Path
) -> None:
    def waiting() -> None:
        until(lambda: workshop_of(coordinator).waits(), "it is tried again later")

    waits_for_the_store(duty, coordinator, parties, folder, tmp_path, waiting)
    shown = ended(coordinator)
    assert shown["history"][0]["evaluation"] == ({"size": 0.0} if duty == "evaluate" else {})


@pytest.mark.parametrize("duty", ["aggregate", "evaluate"])
def test_a_store_that_stays_away_pauses_the_run_until_somebody_resumes_it(
    duty: str,
    coordinator: Coordinator,
    parties: Parties,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workshop, "PATIENCE_S", 0.25)

    def given_up() -> None:
        until(lambda: "tried for 0.25 s" in coordinator.show(RUN)["reason"], "it is given up")
        assert f"round 0 could not be {duty}d: tried for 0.25 s: " in ended(coordinator, "Paused")["reason"]

    waits_for_the_store(duty, coordinator, parties, folder, tmp_path, given_up)
    coordinator.ask("resume", RUN)
    ended(coordinator)

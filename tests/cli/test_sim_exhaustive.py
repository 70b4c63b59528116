"""``quoracy sim ranks --exhaustive``: the explorer from the command line. How it explores is tested with it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from quoracy.cli import app
from quoracy.cli import sim as command
from quoracy.core.errors import ConfigError
from quoracy.sim.explore import Explored, explore

runner = CliRunner()


def test_it_says_how_many_states_it_saw_how_deep_and_what_was_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "explore", lambda: explore(ranks=2, attempts=1))
    monkeypatch.setattr(command, "LEAST_STATES", 500)
    result = runner.invoke(app, ["sim", "ranks", "--exhaustive", "--json"])
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout.splitlines()[-1])
    figures = {each["name"]: each["value"] for each in said["measurements"]}
    assert figures["states"] >= 500
    assert figures["violations"] == 0
    assert figures["depth"] > 10
    assert said["notes"] == ["All there is was seen."]


def test_a_world_that_is_too_small_proves_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "explore", lambda: explore(ranks=1, attempts=1))
    assert runner.invoke(app, ["sim", "ranks", "--exhaustive"]).exit_code == 1


def test_a_violation_is_told_as_the_story_that_leads_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    story = (" 1. rank A proposes record 1", "record 2 is adopted as entry 1, and record 1 was before")
    monkeypatch.setattr(command, "explore", lambda: Explored(2_000_000, 9, 4, 1.0, False, story[-1:], story))
    result = runner.invoke(app, ["sim", "ranks", "--exhaustive"])
    assert result.exit_code == 1
    for line in story:
        assert line in result.output


def test_only_ranks_are_explored() -> None:
    result = runner.invoke(app, ["sim", "cluster", "--exhaustive"])
    assert isinstance(result.exception, ConfigError)
    assert "choose ranks" in str(result.exception)

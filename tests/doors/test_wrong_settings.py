"""A run with wrong settings, at every door: all of them are told at once, each with what would do."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.doors.grpc.conftest import opened
from tests.doors.grpc.talk import Talk, place
from tests.e2e.command import Serving, quoracy

from quoracy.core.errors import ConfigError, ConfigErrors
from quoracy.core.journal import RunCreated
from quoracy.core.kinds import KINDS
from quoracy.core.run import Run
from quoracy.wire.pb import coordinator_pb2 as pb

WRONG = {"barrier_min": -3, "foo": 1}
WORDS = ("a whole number from 1 to 10000", "there is no such setting; there are: max_workers, ")


def test_the_fold_names_every_one() -> None:
    with pytest.raises(ConfigErrors) as caught:
        Run.create(KINDS, RunCreated("demo", "cluster", 1, WRONG))
    problems = caught.value.problems
    assert [(problem.field, problem.value) for problem in problems] == list(WRONG.items())
    assert all(word in problem.fix for problem, word in zip(problems, WORDS, strict=True))


def test_one_alone_is_told_without_a_list() -> None:
    refusal = ConfigErrors([ConfigError("barrier_min", -3, "a whole number")]).refusal()
    assert (refusal.code, refusal.why, refusal.fix) == ("config", "barrier_min = -3", "a whole number")


def test_grpc_names_every_one(tmp_path: Path) -> None:
    request = pb.CreateRunRequest(run="demo")
    request.config.update(WRONG)
    with opened(tmp_path) as running, Talk(place(running)) as talk:
        _, told = talk.refused(request)
    assert told.code == "config"
    assert all(f"{name} = " in told.why for name in WRONG)
    assert all(word in told.fix for word in WORDS)


def test_the_command_line_names_every_one_and_the_kinds_there_are(tmp_path: Path) -> None:
    with Serving(tmp_path / "journals") as server:
        options = [part for name, value in WRONG.items() for part in ("--set", f"{name}={value}")]
        refused = quoracy("run", "create", "demo", server.url, *options)
        assert refused.returncode == 2
        assert all(f"{name} = {value}" in refused.stderr for name, value in WRONG.items())
        assert all(word in " ".join(refused.stderr.split()) for word in WORDS)
        other = quoracy("run", "create", "demo", server.url, "--kind", "nope")
        assert "choose one of: cluster" in other.stderr

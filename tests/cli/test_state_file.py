"""Runs in files: everything that is wrong is said at once, each with its line, its value and what would do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.command import quoracy, told

from quoracy.cli.run import wished
from quoracy.cli.same_run import begin
from quoracy.cli.state_file import StateFile, Wrong, find_lines, read_state
from quoracy.coordinator import Coordinator
from quoracy.core.errors import CATALOG, ConfigError, ConfigErrors, Refused
from quoracy.core.kinds import KINDS

EXAMPLE = Path(__file__).parents[2] / "examples" / "state.toml"


def written(folder: Path, text: str) -> Path:
    path = folder / "state.toml"
    path.write_text(text)
    return path


def problems(path: Path) -> list[tuple[int, str, Any, str]]:
    with pytest.raises(ConfigErrors) as found:
        read_state(path)
    wrong = [problem for problem in found.value.problems if isinstance(problem, Wrong)]
    assert len(wrong) == len(found.value.problems)
    return [(problem.line, problem.name, problem.value, problem.fix) for problem in wrong]


def test_the_example_is_fine_and_names_everything() -> None:
    state = read_state(EXAMPLE)
    assert (state.run, state.kind, state.label) == ("digits", "witnessed", "handwritten digits")
    assert (state.config["data"], state.config["witness_quorum"]) == ({"kind": "door", "location": "digits"}, "2/3")
    assert not {"run_id", "kind", "label"} & state.config.keys()


def test_a_file_that_says_nothing_is_a_run_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text("")
    state = read_state(path)
    assert (state.run, state.kind, state.config) == ("small", "witnessed", {})


def test_everything_that_is_wrong_is_said_at_once_with_its_line(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        'run_id = ""\nmin_clients = 0\nmispelt = 3\nwitness_quorum = "5/3"\nmax_clients = 4\ninit_min_clients = 9\n\n'
        '[data]\n# below\nkind = "cellar"\nlocation = 7\n\n[hyper]\nlr = [1]\n',
    )
    found = problems(path)
    assert [(line, name) for line, name, *_ in found] == [
        (1, "run_id"), (2, "min_clients"), (3, "mispelt"), (10, "data.kind"), (11, "data.location"), (13, "hyper"),
        (4, "witness_quorum"), (6, "init_min_clients"), (0, "global_batch_size_start"),
    ]  # fmt: skip
    by_name = {name: (value, fix) for _, name, value, fix in found}
    assert by_name["min_clients"] == (0, "a whole number from 1 to 1024")
    assert by_name["data.kind"] == ("cellar", "one of: local, door")
    assert "at most max_clients (4)" in by_name["init_min_clients"][1]
    assert all(fix for *_, fix in found)


def test_settings_that_exclude_each_other_are_found_beside_those_that_are_wrong_alone(tmp_path: Path) -> None:
    """But nothing is said about what a wrong one was meant to be."""
    path = written(tmp_path, 'max_clients = "many"\nmin_clients = 300\nwarmup_s = 9\nepoch_s = 5\n')
    assert [(line, name) for line, name, *_ in problems(path)][:1] == [(1, "max_clients")]
    assert "warmup_s" in [name for _, name, *_ in problems(path)]
    assert "min_clients" not in [name for _, name, *_ in problems(path)]


def test_the_line_of_a_default_that_does_not_fit_is_that_of_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, "min_clients = 20\n")
    ((line, name, value, fix),) = problems(path)
    assert (line, name, value) == (0, "global_batch_size_start", 256)
    assert "at least 609" in fix


@pytest.mark.parametrize(
    ("text", "named"),
    [("min_clients = [", "is no TOML"), ('kind = "circus"', "one of: cluster, federated"), ("kind = 3", "one of:")],
)
def test_a_file_that_cannot_be_read_or_is_of_no_kind_is_told_so(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        read_state(written(tmp_path, text))


def test_files_are_for_every_kind(tmp_path: Path) -> None:
    state = read_state(written(tmp_path, 'run_id = "fed"\nkind = "federated"\nclients = 3\n'))
    assert (state.kind, state.config) == ("federated", {"clients": 3})
    assert problems(written(tmp_path, 'kind = "cluster"\nclients = 3\n'))[0][:2] == (2, "clients")


def test_lines_are_found_in_tables_and_inside_of_values() -> None:
    text = 'a = 1\nb = { c = 2, d = "x = y" }\n# e = 3\n[f.g]\nh = 4\n["i"]\nj=5'
    assert find_lines(text) == {"a": 1, "b": 2, "b.c": 2, "b.d": 2, "f.g": 4, "f.g.h": 5, "i": 6, "i.j": 7}


def test_the_command_line_has_the_last_word(tmp_path: Path) -> None:
    path = written(tmp_path, 'run_id = "digits"\nmin_clients = 2\n')
    state = wished(str(path), "", "a note", {"min_clients": 3})
    assert (state.run, state.label, state.config) == ("digits", "a note", {"min_clients": 3})
    assert wished("demo", "", "", {}).kind == "cluster"
    with pytest.raises(ConfigError, match="leave it out"):
        wished(str(path), "cluster", "", {})


def test_validate_says_everything_with_file_and_line_and_exits_as_the_catalog_says(tmp_path: Path) -> None:
    path = written(tmp_path, "min_clients = 0\nstrikes_max = -1\n")
    failed = quoracy("run", "validate", str(path))
    assert failed.returncode == CATALOG["config"].exit
    assert f"{path}:1: min_clients = 0: a whole number from 1 to 1024" in failed.stderr
    assert f"{path}:2: strikes_max = -1:" in failed.stderr
    as_object = quoracy("run", "validate", str(path), "--json")
    said = json.loads(as_object.stdout.splitlines()[-1])
    assert (as_object.returncode, said["ok"]) == (failed.returncode, False)
    assert [(one["line"], one["field"], one["value"]) for one in said["errors"]] == [
        (1, "min_clients", 0), (2, "strikes_max", -1),
    ]  # fmt: skip
    missing = quoracy("run", "validate", str(tmp_path / "none.toml"), "--json")
    assert json.loads(missing.stdout.splitlines()[-1])["errors"][0]["field"] == "STATE.TOML"
    assert "is fine" in quoracy("run", "validate", str(EXAMPLE)).stdout


def test_create_takes_the_file(tmp_path: Path) -> None:
    with Coordinator(folder=tmp_path / "data") as coordinator:
        made = quoracy("run", "create", str(EXAMPLE), url=coordinator.url)
        assert made.returncode == 0, made.stderr
        assert "run digits is there; members join with quoracy join" in made.stdout
        assert coordinator.ask("settings", "digits")["config"]["min_clients"] == 3
        wrong = written(tmp_path, "min_clients = 0\n")
        failed = quoracy("run", "create", str(wrong), "--json", url=coordinator.url)
        assert not told(failed)["ok"]
        assert "state.toml:1: min_clients" in failed.stdout
        assert "witnessed" in {kind.name for kind in KINDS}


# -- a server that begins with the run of a file -----------------------------------------------------------------------


def begun(coordinator: Coordinator, state: StateFile) -> dict[str, Any]:
    shown: dict[str, Any] = coordinator._wait(begin(coordinator._open(), coordinator._config, state))
    return shown


def test_the_run_of_a_file_is_created_once(tmp_path: Path) -> None:
    state = StateFile("mine", "witnessed", "", {"min_clients": 2, "warmup_s": 7.0})
    with Coordinator(tmp_path) as coordinator:
        assert begun(coordinator, state)["phase"] == "WaitingForMembers"
        entry = coordinator.show("mine")["entry"]
        assert begun(coordinator, state)["entry"] == entry, "it is there: nothing is written"
    with Coordinator(tmp_path) as coordinator:
        assert begun(coordinator, state)["run"] == "mine"


def test_a_run_that_exists_with_other_settings_is_refused_with_both_values(tmp_path: Path) -> None:
    with Coordinator(tmp_path) as coordinator:
        begun(coordinator, StateFile("mine", "witnessed", "", {"min_clients": 2, "warmup_s": 7.0}))
        with pytest.raises(ConfigErrors) as caught:
            begun(coordinator, StateFile("mine", "witnessed", "", {"min_clients": 3}))
        said = {problem.field: (problem.value, problem.fix) for problem in caught.value.problems}
        assert said["min_clients"][0] == 3
        assert "exists with min_clients = 2" in said["min_clients"][1]
        assert "exists with warmup_s = 7.0" in said["warmup_s"][1]
        with pytest.raises(ConfigError, match="is of the kind witnessed"):
            begun(coordinator, StateFile("mine", "cluster", "", {}))


def test_the_run_of_a_file_is_checked_as_any_other(tmp_path: Path) -> None:
    with Coordinator(tmp_path) as coordinator:
        with pytest.raises(Refused, match="ward"):
            begun(coordinator, StateFile("mine", "federated", "", {"evaluation": "ward:evaluate"}))
        assert coordinator.ask("runs") == []

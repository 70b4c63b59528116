"""The data door: a member gets the samples of what is assigned to it, and of nothing else."""

from __future__ import annotations

import importlib.util
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save
from tests.doors.http.live import Live, live, problem
from tests.doors.witnesses import RUN, Witness

from quoracy.core.errors import Refused
from quoracy.doors.auth import Authority, MemberKey, Role
from quoracy.learn.witnessed.source import open_source

ROOT = Path(__file__).parents[3]
SIZE = 40
SETTINGS: dict[str, Any] = {
    "min_clients": 2, "waiting_extra_s": 0, "batch_size": 4, "global_batch_size_start": 32, "checkpoint": "none",
    "seed": 5,
}  # fmt: skip


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("samples") / "set.safetensors"
    x = np.arange(SIZE * 3, dtype=np.float32).reshape(SIZE, 3)
    path.write_bytes(save({"x": x, "y": np.arange(SIZE), "x_test": x[:2], "y_test": np.arange(2)}))
    return path


def example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def home(tmp_path: Path, samples: Path) -> Iterator[Live]:
    with live(tmp_path) as running:
        running.coordinator.create(RUN, "witnessed", **SETTINGS, data={"kind": "door", "location": str(samples)})
        yield running


@pytest.fixture
def pair(home: Live) -> Iterator[dict[str, Witness]]:
    """Both in the first round, with four batches each."""
    with Witness(home.coordinator.url, "m1") as one, Witness(home.coordinator.url, "m2") as two:
        both = {"m1": one, "m2": two}
        for witness in both.values():
            witness.warm()
        for witness in both.values():
            witness.round()
        yield both


def place(first: int, last: int, member: str = "m1", incarnation: int = 1) -> str:
    return f"/api/runs/{RUN}/batches/{first}-{last}?member={member}&incarnation={incarnation}"


def test_a_member_gets_what_is_assigned_to_it(home: Live, pair: dict[str, Witness], samples: Path) -> None:
    own = open_source("local", str(samples), seed=5, batch_size=4)
    assert own is not None
    seen: list[int] = []
    for name, witness in pair.items():
        ((first, end),) = witness.mine()
        seen += range(first, end)
        got = home.http.get(place(first, end - 1, name))
        assert (got.status_code, got.headers["content-type"]) == (200, "application/octet-stream")
        arrays, wanted = load(got.content), own.samples(range(first, end))
        assert all(np.array_equal(arrays[array], wanted[array]) for array in ("x", "y"))
        assert arrays.keys() == {"x", "y"}
        one = load(home.http.get(place(first, first, name)).content)
        assert np.array_equal(one["y"], wanted["y"][:4])
    assert sorted(seen) == list(range(8))


def test_what_is_another_members_is_refused_with_whose_it_is(home: Live, pair: dict[str, Witness]) -> None:
    ((first, end),) = pair["m1"].mine()
    ((other, _),) = pair["m2"].mine()
    told = problem(home.http.get(place(other, other, "m1")), 403, "not_yours")
    assert told["detail"] == f"batch {other} is not m1's: it is assigned to m2"
    assert told["fix"] == f"ask for your own: {first}-{end - 1}"
    problem(home.http.get(place(0, 7, "m1")), 403, "not_yours")
    told = problem(home.http.get(place(8, 8, "m1")), 403, "not_yours")
    assert "assigned to nobody" in told["detail"]


def test_whoever_asks_has_to_be_a_member_and_its_newest_life(home: Live, pair: dict[str, Witness]) -> None:
    ((first, _),) = pair["m1"].mine()
    problem(home.http.get(place(first, first, "m9")), 404, "unknown_member")
    problem(home.http.get(place(first, first, "m1", incarnation=0)), 409, "superseded")
    problem(home.http.get(f"/api/runs/{RUN}/batches/0-0"), 400, "malformed")


def test_a_range_that_ends_before_it_begins_is_a_contradiction(home: Live) -> None:
    told = problem(home.http.get(f"/api/runs/{RUN}/batches/3-1?member=m1"), 422, "contradiction")
    assert "3-1" in told["detail"]


@pytest.mark.parametrize("batches", ["0", "x-1", "-1-0", "1-", "0-0-0"])
def test_a_range_that_is_none_is_named(home: Live, batches: str) -> None:
    told = problem(home.http.get(f"/api/runs/{RUN}/batches/{batches}?member=m1"), 400, "malformed")
    assert batches in told["detail"]


def test_nothing_is_assigned_between_rounds(home: Live) -> None:
    with Witness(home.coordinator.url, "m1"):
        told = problem(home.http.get(place(0, 0)), 403, "not_yours")
        assert told["fix"] == "ask for your own: none"


def test_what_is_held_out_is_for_every_member(home: Live) -> None:
    with Witness(home.coordinator.url, "m1"):
        got = home.http.get(f"/api/runs/{RUN}/held-out?member=m1&incarnation=1")
        assert load(got.content)["y"].tolist() == [0, 1]
        assert home.http.head(f"/api/runs/{RUN}/held-out?member=m1").content == b""
        problem(home.http.get(f"/api/runs/{RUN}/held-out?member=m2"), 404, "unknown_member")


def test_runs_without_a_door_say_so(home: Live, tmp_path: Path) -> None:
    home.coordinator.create("local", "witnessed")
    home.coordinator.create("fleet")
    problem(home.http.get("/api/runs/fleet/batches/0-0?member=m1"), 422, "wrong_kind")
    problem(home.http.get("/api/runs/none/batches/0-0?member=m1"), 404, "unknown_run")
    with Witness(home.coordinator.url, "m1", run="local"):
        told = problem(home.http.get("/api/runs/local/batches/0-0?member=m1"), 403, "not_yours")
        assert told["fix"]
        problem(home.http.get("/api/runs/local/held-out?member=m1"), 422, "contradiction")
    bare = tmp_path / "bare.npz"
    np.savez(bare, x=np.zeros((3, 2)))
    home.coordinator.create("bare", "witnessed", data={"kind": "door", "location": str(bare)})
    with Witness(home.coordinator.url, "m1", run="bare"):
        problem(home.http.get("/api/runs/bare/held-out?member=m1"), 404, "object_missing")


def test_a_run_whose_samples_cannot_be_read_is_not_created(home: Live, tmp_path: Path) -> None:
    lost = str(tmp_path / "lost.npz")
    with pytest.raises(Refused) as refused:
        home.coordinator.create("lost", "witnessed", data={"kind": "door", "location": lost})
    assert (refused.value.code, "data.location" in str(refused.value)) == ("config", True)
    wish = {
        "run": "lost",
        "kind": "witnessed",
        "config": {"data": {"kind": "door", "location": lost}, "min_clients": 1},
    }
    told = problem(home.http.post("/api/runs", json=wish), 400, "config")
    assert lost in told["detail"]
    assert "lost" not in [run["run"] for run in home.coordinator.ask("runs")]


def test_only_the_session_of_the_member_opens_its_batches(tmp_path: Path, samples: Path) -> None:
    with live(tmp_path, access={"tokens": "required"}) as running:
        running.coordinator.create(
            RUN, "witnessed", **SETTINGS | {"min_clients": 1}, data={"kind": "door", "location": str(samples)}
        )
        authority = Authority.open(tmp_path)
        token = authority.new_token(Role.MEMBER, run=RUN)
        with Witness(running.coordinator.url, "m1", token=token, key=MemberKey.create()) as one:
            one.warm()
            one.round()
            ((first, end),) = one.mine()
            fetch = example("http_batches").fetch
            assert len(fetch(running.url, RUN, "m1", 1, first, end - 1, one.session)["y"]) == 4 * (end - first)
            problem(running.http.get(place(first, first)), 401, "bad_token")
            for other in (authority.new_token(Role.ADMIN), token, one.session[:-2] + "xx"):
                with pytest.raises(urllib.error.HTTPError) as refused:
                    fetch(running.url, RUN, "m1", 1, first, first, other)
                assert refused.value.code == 401
                refused.value.close()

"""The workshop: updates are looked at, aggregated and evaluated by real processes, which may be killed."""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from blake3 import blake3
from tests.doors.talk import RUN
from tests.e2e.command import until
from tests.rounds.party import KEYS, Parties, ended, model, play_round, put, put_bytes, with_store
from tests.stopping import stop

from quoracy.coordinator import Coordinator
from quoracy.core.errors import Refused
from quoracy.hosts.workshop import Workshop
from quoracy.learn import Rule, Slice, load, save
from quoracy.learn.dtypes import Numbers

HERE = "tests.rounds.test_workshop"
OURS = {"modules": [HERE]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def coordinator(folder: Path) -> Iterator[Coordinator]:
    with Coordinator(folder=folder, workshop=OURS) as running:
        yield running


@pytest.fixture
def parties(coordinator: Coordinator) -> Iterator[Parties]:
    with Parties(coordinator) as parties:
        yield parties


def workshop_of(coordinator: Coordinator) -> Workshop:
    perform: Any = coordinator._open().server.duties["admit"]
    workshop: Workshop = perform.__self__
    return workshop


def test_correction_2_the_model_that_a_round_makes_lies_where_the_next_one_looks(
    coordinator: Coordinator, parties: Parties, folder: Path, tmp_path: Path
) -> None:
    coordinator.create(RUN, "federated", clients=2, rounds=2)
    both = [parties.join("p1"), parties.join("p2")]
    play_round(folder, both[:1], -1, tmp_path)
    play_round(folder, both, 0, tmp_path)
    play_round(folder, both, 1, tmp_path)
    shown = ended(coordinator)
    assert [over["round"] for over in shown["history"]] == [0, 1]
    store = with_store(folder)
    for number, value in ((0, 0.0), (1, 5 / 3), (2, 10 / 3)):
        path = store.local_path(f"{RUN}/{number}/global")
        assert path is not None
        assert np.allclose(load(path)["a"], value)
    assert store.head(f"{RUN}/3/global") is None
    first = store.local_path(KEYS.update(0, "p1"))
    assert first is not None
    assert np.allclose(load(first)["b"], 1.0)
    assert shown["weights"] == blake3(store.get(KEYS.model(2), 10_000)).hexdigest()


POISON: dict[str, tuple[dict[str, Numbers], str]] = {
    "nan": (model(float("nan")), "not finite"),
    "shapes": (model(1.0, size=9), "shape"),
    "names": ({"a": np.zeros((2, 8), np.float32)}, "'b'"),
    "types": ({"a": np.zeros((2, 8), np.float64), "b": np.zeros(3, np.float32)}, "F64"),
    "scaled": (model(1e6), "at most 10 is allowed"),
}


@pytest.mark.parametrize("poison", POISON)
def test_poison_is_refused_with_the_reason_and_quarantined(
    poison: str, coordinator: Coordinator, parties: Parties, folder: Path, tmp_path: Path
) -> None:
    arrays, named = POISON[poison]
    coordinator.create(RUN, "federated", clients=1, norm_bound=10.0)
    party = parties.join("p1")
    play_round(folder, [party], -1, tmp_path)
    standing = party.assigned(0)
    digest = put(folder, arrays, tmp_path)
    party.offer(standing, digest)
    _, _, of, admitted, why = party.verdict(standing)
    assert (of, admitted) == (digest, False)
    assert named in why
    assert party.standing()["state"] == "Quarantined"
    assert with_store(folder).head(KEYS.quarantine(0, "p1", digest))
    assert with_store(folder).head(KEYS.update(0, "p1")) is None


def test_what_is_no_safetensors_is_refused(
    coordinator: Coordinator, parties: Parties, folder: Path, tmp_path: Path
) -> None:
    coordinator.create(RUN, "federated", clients=1, max_update_bytes=100_000)
    put(folder, model(1.0), tmp_path)
    cut = (tmp_path / "update.safetensors").read_bytes()[:-5]
    poison = {"pickle": pickle.dumps({"a": [1.0]}), "file": cut, "max_update_bytes": b"x" * 100_001}
    for named, content in poison.items():
        party = parties.join(f"p-{named}")
        digest = blake3(content).hexdigest()
        put_bytes(folder, content, digest, party.member)
        standing = party.assigned(-1)
        party.offer(standing, digest)
        _, _, of, admitted, why = party.verdict(standing)
        assert (of, admitted) == (digest, False)
        assert named in why
        assert with_store(folder).head(KEYS.quarantine(-1, party.member, digest)) == len(content)


def test_missing_forged_and_misannounced_objects_are_refused(
    coordinator: Coordinator, parties: Parties, folder: Path, tmp_path: Path
) -> None:
    coordinator.create(RUN, "federated", clients=1)
    good = put(folder, model(1.0), tmp_path, "p2")
    content = (tmp_path / "update.safetensors").read_bytes()
    wrong = blake3(b"another").hexdigest()
    put_bytes(folder, content, wrong)
    missing = blake3(b"nothing").hexdigest()
    for digest, more, named in (
        (missing, {}, "p0 has not uploaded"),
        (wrong, {}, "the update's digest is"),
        (good, {"size_bytes": 7}, "announced were 7"),
    ):
        party = parties.join(f"p{len(parties.all)}")
        standing = party.assigned(-1)
        party.offer(standing, digest, **more)
        assert named in party.verdict(standing)[4]
    assert with_store(folder).head(KEYS.upload("p1", wrong)) is None, "or nobody could put the right one there"
    assert with_store(folder).head(KEYS.quarantine(-1, "p1", wrong)) == len(content)


def test_weights_that_the_settings_give_are_where_the_first_round_begins(
    coordinator: Coordinator, parties: Parties, folder: Path, tmp_path: Path
) -> None:
    digest = put(folder, model(5.0), tmp_path, member="")
    coordinator.create(RUN, "federated", clients=1, rounds=1, initial=digest)
    party = parties.join("p1", initial=False)
    assert party.assigned(0)["weights"] == digest
    play_round(folder, [party], 0, tmp_path)
    ended(coordinator)
    path = with_store(folder).local_path(KEYS.model(1))
    assert path is not None
    assert np.allclose(load(path)["a"], 6.0)
    assert with_store(folder).head(KEYS.model(0)) == with_store(folder).head(KEYS.blob(digest))


def test_a_missing_global_model_is_not_the_fault_of_whoever_sends_an_update(
    coordinator: Coordinator, parties: Parties, folder: Path, tmp_path: Path
) -> None:
    """The update waits until somebody brings the model, and counts then."""
    content = tmp_path / "first.safetensors"
    digest = save(content, model(5.0))
    with_store(folder).put_file(KEYS.blob(digest), content, digest)
    coordinator.create(RUN, "federated", clients=1, rounds=1, initial=digest)
    party = parties.join("p1", initial=False)
    standing = party.assigned(0)
    with_store(folder).delete(KEYS.blob(digest))
    party.offer(standing, put(folder, model(6.0), tmp_path))
    until(lambda: workshop_of(coordinator).waits(), "it is tried again later")
    assert party.standing()["offered"]
    with_store(folder).put_file(KEYS.blob(digest), content, digest)
    assert party.verdict(standing)[3]
    ended(coordinator)


# -- evaluation ------------------------------------------------------------------------------------------------------


def evaluated(arrays: dict[str, Any], task: Any) -> dict[str, float]:
    return {"mean": float(arrays["a"].mean()), "round": task.round, "named": len(task.run) + len(task.digest)}


def broken(_arrays: dict[str, Any], _task: Any) -> dict[str, float]:
    raise ValueError("the test set is gone")


def endless(_arrays: dict[str, Any], _task: Any) -> dict[str, float]:
    while True:
        time.sleep(3600)


def deadly(_arrays: dict[str, Any], _task: Any) -> dict[str, float]:
    return {"read": len(ctypes.string_at(0))}


def not_finite(_arrays: dict[str, Any], _task: Any) -> Any:
    return {"loss": float("inf")}


def wordy(_arrays: dict[str, Any], _task: Any) -> Any:
    return "fine"


def test_the_model_is_evaluated_and_the_numbers_are_kept(
    coordinator: Coordinator, parties: Parties, folder: Path, tmp_path: Path
) -> None:
    coordinator.create(RUN, "federated", clients=1, rounds=1, evaluation=f"{HERE}:evaluated")
    party = parties.join("p1")
    play_round(folder, [party], -1, tmp_path)
    play_round(folder, [party], 0, tmp_path)
    shown = ended(coordinator)
    assert shown["history"][0]["evaluation"] == {"mean": 1.0, "round": 0.0, "named": 68.0}


@pytest.mark.parametrize(
    ("function", "named"),
    [
        ("broken", "ValueError: the test set is gone"),
        ("endless", "workshop.code_timeout_s"),
        ("deadly", "SIGSEGV"),
        ("not_finite", "loss = inf"),
        ("wordy", "returned str"),
        ("nowhere", "has no attribute 'nowhere'"),
    ],
)
def test_an_evaluation_that_fails_pauses_the_run_and_says_why(
    function: str, named: str, folder: Path, tmp_path: Path
) -> None:
    timeout_s = 2.0 if function == "endless" else 60.0
    workshop = OURS | {"code_timeout_s": timeout_s}
    with Coordinator(folder=folder, workshop=workshop) as coordinator, Parties(coordinator) as parties:
        coordinator.create(RUN, "federated", clients=1, rounds=1, evaluation=f"{HERE}:{function}")
        party = parties.join("p1")
        play_round(folder, [party], -1, tmp_path)
        play_round(folder, [party], 0, tmp_path)
        shown = ended(coordinator, "Paused")
        assert named in shown["reason"]
        assert "could not be evaluated" in coordinator.explain(RUN)


def test_code_that_was_mended_is_loaded_anew_when_the_run_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = tmp_path / "judge_of_today.py"
    code.write_text("def judge(arrays, task):\n    raise KeyError('typo')\n")
    todays = {"modules": ["judge_of_today"]}
    with Coordinator(folder=tmp_path / "other", workshop=todays) as coordinator, Parties(coordinator) as parties:
        coordinator.create(RUN, "federated", clients=1, rounds=1, evaluation="judge_of_today:judge")
        party = parties.join("p1")
        play_round(tmp_path / "other", [party], -1, tmp_path)
        play_round(tmp_path / "other", [party], 0, tmp_path)
        ended(coordinator, "Paused")
        code.write_text("def judge(arrays, task):\n    return {'mended': 1}\n")
        coordinator.ask("resume", RUN)
        assert ended(coordinator)["history"][0]["evaluation"] == {"mended": 1.0}


@pytest.mark.parametrize(
    ("config", "setting"),
    [
        ({"evaluation": f"{HERE}:evaluated"}, "evaluation"),
        ({"aggregation": {"rule": "own", "of": f"{HERE}:Slow"}}, "aggregation.of"),
    ],
)
def test_code_of_a_module_that_the_server_does_not_list_is_refused(
    config: dict[str, Any], setting: str, tmp_path: Path
) -> None:
    for listed in ({}, {"modules": ["tests.rounds", "test_workshop"]}):
        with Coordinator(folder=tmp_path / f"data{len(listed)}", workshop=listed) as coordinator:
            with pytest.raises(Refused) as refused:
                coordinator.create(RUN, "federated", clients=1, **config)
            assert refused.value.refusal.why.startswith(f"{setting} = '{HERE}:")
            assert "workshop.modules = [" in refused.value.refusal.fix
            assert f'"{HERE}"]' in refused.value.refusal.fix
            assert coordinator.ask("runs") == []


def test_a_server_that_no_longer_lists_the_module_pauses_the_run_and_says_what_to_add(
    folder: Path, tmp_path: Path
) -> None:
    go_on = tmp_path / "go-on"
    own = {"rule": "own", "of": f"{HERE}:Slow", "settings": {"until": str(go_on)}}
    with Coordinator(folder=folder, workshop=OURS) as coordinator, Parties(coordinator) as parties:
        coordinator.create(RUN, "federated", clients=1, rounds=1, aggregation=own)
        party = parties.join("p1")
        play_round(folder, [party], -1, tmp_path)
        play_round(folder, [party], 0, tmp_path)
        until(lambda: workshop_of(coordinator).theirs.pid, "it aggregates")
    go_on.touch()
    with Coordinator(folder=folder) as coordinator:
        shown = ended(coordinator, "Paused")
        assert f'workshop.modules = ["{HERE}"]' in shown["reason"]
        assert workshop_of(coordinator).theirs.pid == 0, "nothing was imported"
    with Coordinator(folder=folder, workshop=OURS) as coordinator:
        coordinator.ask("resume", RUN)
        ended(coordinator)


# -- rules of one's own, and deaths ----------------------------------------------------------------------------------


class Deadly(Rule):
    def merge(self, piece: Slice) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(3600)
        return piece.previous


class Slow(Rule):
    """Until a file is there."""

    def __init__(self, until: str) -> None:
        self._until = Path(until)

    def merge(self, piece: Slice) -> Any:
        while not self._until.exists():
            time.sleep(0.01)
        return piece.rows.max(axis=0)


def test_a_rule_of_ones_own_that_kills_its_process_fails_after_a_few(
    coordinator: Coordinator, parties: Parties, folder: Path, tmp_path: Path
) -> None:
    own = {"rule": "own", "of": f"{HERE}:Deadly"}
    coordinator.create(RUN, "federated", clients=1, rounds=1, aggregation=own)
    party = parties.join("p1")
    play_round(folder, [party], -1, tmp_path)
    play_round(folder, [party], 0, tmp_path)
    shown = ended(coordinator, "Paused")
    assert "3 processes died of it" in shown["reason"]
    assert "SIGKILL" in shown["reason"]


def test_a_process_that_is_killed_in_the_middle_of_an_aggregation_costs_nothing(
    coordinator: Coordinator, parties: Parties, folder: Path, tmp_path: Path
) -> None:
    go_on = tmp_path / "go-on"
    own = {"rule": "own", "of": f"{HERE}:Slow", "settings": {"until": str(go_on)}}
    coordinator.create(RUN, "federated", clients=2, rounds=1, aggregation=own)
    both = [parties.join("p1"), parties.join("p2")]
    play_round(folder, both[:1], -1, tmp_path)
    play_round(folder, both, 0, tmp_path)
    workshop = workshop_of(coordinator)
    until(lambda: list((folder / "workshop" / "theirs").glob("made-*/weights.safetensors")), "it aggregates")
    killed = workshop.theirs.pid
    os.kill(killed, signal.SIGKILL)
    go_on.touch()
    ended(coordinator)
    assert workshop.theirs.pid != killed
    path = with_store(folder).local_path(KEYS.model(1))
    assert path is not None
    assert np.allclose(load(path)["a"], 2.0)


def test_the_duty_that_kills_is_told_apart_from_those_beside_it(
    coordinator: Coordinator, parties: Parties, folder: Path, tmp_path: Path
) -> None:
    """Killed with several in its hands, the process is started again and all of them are done."""
    coordinator.create(RUN, "federated", clients=12, rounds=1)
    all_ = [parties.join(f"p{number:02}") for number in range(12)]
    play_round(folder, all_[:1], -1, tmp_path)
    all_[0].assigned(0)
    workshop = workshop_of(coordinator)
    killed = workshop.ours.pid
    assert killed
    stop(killed)
    play_round(folder, all_, 0, tmp_path)
    until(lambda: len(workshop.ours) == 12, "all are handed over")
    os.kill(killed, signal.SIGKILL)
    shown = ended(coordinator)
    assert shown["history"][0]["updates"] == 12
    assert workshop.ours.pid != killed


def test_closing_leaves_what_is_under_way_to_the_next_server(folder: Path, tmp_path: Path) -> None:
    go_on = tmp_path / "go-on"
    own = {"rule": "own", "of": f"{HERE}:Slow", "settings": {"until": str(go_on)}}
    with Coordinator(folder=folder, workshop=OURS) as coordinator, Parties(coordinator) as parties:
        coordinator.create(RUN, "federated", clients=1, rounds=1, aggregation=own)
        party = parties.join("p1")
        play_round(folder, [party], -1, tmp_path)
        play_round(folder, [party], 0, tmp_path)
        until(lambda: workshop_of(coordinator).theirs.pid, "it aggregates")
        pid = workshop_of(coordinator).theirs.pid
    assert not Path(f"/proc/{pid}").exists()
    assert not (folder / "workshop").exists()
    go_on.touch()
    with Coordinator(folder=folder, workshop=OURS) as coordinator:
        ended(coordinator)


def test_a_server_in_memory_uses_a_folder_that_goes_with_it(tmp_path: Path) -> None:
    with Coordinator(folder=tmp_path / "data", store="memory") as coordinator, Parties(coordinator) as parties:
        coordinator.create(RUN, "federated", clients=1, rounds=1)
        store = coordinator.ask("weights", RUN)["store"]
        folder = Path(store.removeprefix("file://")).parent
        party = parties.join("p1")
        play_round(folder, [party], -1, tmp_path)
        play_round(folder, [party], 0, tmp_path)
        ended(coordinator)
        assert folder.exists()
    assert not folder.exists()
    assert not (tmp_path / "data" / "objects").exists()


def test_a_server_without_federated_runs_starts_no_process_and_makes_no_folder(
    coordinator: Coordinator, folder: Path
) -> None:
    coordinator.create(RUN)
    assert workshop_of(coordinator).ours.pid == 0
    assert not (folder / "objects").exists()
    assert not (folder / "workshop").exists()


def test_a_run_that_is_refused_leaves_nothing_behind(coordinator: Coordinator) -> None:
    with pytest.raises(Refused, match="a round may close with 10000"):
        coordinator.create(RUN, "federated", clients=20, aggregation={"rule": "krum"})
    assert coordinator.ask("runs") == []
    coordinator.create(RUN, "federated", clients=20, aggregation={"rule": "krum"}, max_participants=1000)

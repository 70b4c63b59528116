"""``quoracy join`` and ``quoracy run create|pause|resume|stop`` as people use them, with real members and an own
trainer."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.command import QUORACY, Serving, environment, quoracy, seen, told, until

from quoracy.learn.witnessed.manifest import load_checkpoint, model_hash

EXAMPLES = Path(__file__).parents[2] / "examples"
STATE = """
run_id = "own"
min_clients = 2
init_min_clients = 3
waiting_extra_s = 0.2
warmup_s = 20.0
round_train_max_s = 30.0
round_witness_s = 20.0
cooldown_s = 30.0
rounds_per_epoch = {rounds}
{total}
batch_size = 16
global_batch_size_start = 96
seed = 3
heartbeat_interval_s = 0.2
heartbeat_timeout_s = 3.0

[hyper]
lr = 0.1
encoding = "int8"
"""


class Joined:
    """``quoracy join``, as a process."""

    def __init__(self, url: str, folder: Path, name: str, *more: str) -> None:
        self.key = folder / "keys" / f"{name}.key"
        command = [*QUORACY, "join", url, "--run", "own", "--trainer", "witnessed_numpy:Trainer", "--id", name]
        command += ["--identity", str(self.key), "--cache", str(folder / "cache"), "--json", *more]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=EXAMPLES, env=environment()
        )

    def ended(self) -> dict[str, Any]:
        out, _ = self.process.communicate(timeout=60)
        last: dict[str, Any] = json.loads(out.splitlines()[-1])
        assert last["ok"] is (self.process.returncode == 0)
        return last

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


class Town:
    """A coordinator, and those who join it."""

    def __init__(self, server: Serving, folder: Path) -> None:
        self.url = server.url
        self.folder = folder
        self.members: list[Joined] = []

    def create(self, rounds: int, total: int) -> None:
        file = self.folder / "state.toml"
        file.write_text(STATE.format(rounds=rounds, total=f"total_steps = {total}" if total else ""))
        assert quoracy("run", "validate", file).returncode == 0
        made = quoracy("run", "create", file, "--json", url=self.url)
        assert told(made)["ok"]

    def join(self, name: str, *more: str) -> Joined:
        self.members.append(Joined(self.url, self.folder, name, *more))
        return self.members[-1]

    def shown(self) -> dict[str, Any]:
        found: dict[str, Any] = told(quoracy("run", "show", "own", "--json", url=self.url))["value"]
        return found

    def until(self, condition: Callable[[dict[str, Any]], bool], what: str) -> None:
        until(lambda: (shown := seen(self.url, "show", "own")) and condition(shown), what)


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    with Serving(tmp_path / "server") as server:
        made = Town(server, tmp_path)
        yield made
        for member in made.members:
            member.close()


def test_an_own_trainer_joins_from_the_command_line_and_all_end_with_the_same_model(town: Town) -> None:
    town.create(rounds=5, total=10)
    members = [town.join(name) for name in ("a", "b", "c")]
    values = [member.ended()["value"] for member in members]
    shown = town.shown()
    assert {value["model"] for value in values} == {shown["stored"]["model"]}
    assert {value["ended"] for value in values} == {"finished"}
    assert [value["step"] for value in values] == [10, 10, 10]
    assert all(value["metrics"]["accuracy"] > 0.5 for value in values)
    assert all(member.key.exists() for member in members), "keys are made where they are named"
    assert all(member["keyed"] for member in shown["members"])


def test_a_run_is_paused_resumed_and_stopped_with_a_checkpoint_that_is_the_members_model(town: Town) -> None:
    town.create(rounds=50, total=0)
    members = [town.join(name) for name in ("a", "b", "c")]
    town.until(lambda shown: shown["step"] > 0, "they train")
    assert quoracy("run", "pause", "own", "--reason", "lunch", url=town.url).returncode == 0
    town.until(lambda shown: shown["phase"] == "Paused", "what was under way is finished")
    paused = town.shown()
    assert paused["reason"] == "lunch"
    assert (paused["checkpoint"]["source"], paused["checkpoint"]["step"]) == ("stored", paused["step"])
    assert paused["account"]["open"] == 0
    assert quoracy("run", "resume", "own", url=town.url).returncode == 0
    town.until(lambda shown: shown["step"] > paused["step"], "they go on")
    assert quoracy("run", "stop", "own", "--reason", "good enough", url=town.url).returncode == 0
    values = [member.ended()["value"] for member in members]
    shown = town.shown()
    assert (shown["phase"], shown["reason"]) == ("Finished", "good enough")
    assert {value["model"] for value in values} == {shown["stored"]["model"]}
    stored = town.folder / "server" / "objects" / "own" / "blobs" / shown["stored"]["digest"]
    weights = load_checkpoint(stored, bytes.fromhex(shown["stored"]["model"]))
    assert model_hash(weights).hex() == values[0]["model"]
    account = shown["account"]
    assert account["applied"] + account["skipped"] == shown["next_batch"]
    assert account["skipped"] == 0


def test_sigterm_leaves_properly_and_the_same_key_is_known_again(town: Town) -> None:
    town.create(rounds=5, total=10)
    one = town.join("a")
    town.until(lambda shown: [member["id"] for member in shown["members"]] == ["a"], "it has joined")
    one.process.send_signal(signal.SIGTERM)
    assert one.ended()["value"]["ended"] == "drained"
    again = [town.join(name) for name in ("a", "b", "c")]
    assert {member.ended()["value"]["ended"] for member in again} == {"finished"}
    assert {member["id"]: member["incarnation"] for member in town.shown()["members"]} == {"a": 2, "b": 1, "c": 1}


def test_a_trainer_that_is_not_there_is_named(town: Town) -> None:
    town.create(rounds=5, total=10)
    result = quoracy("join", town.url, "--run", "own", "--trainer", "nobody:Trainer", "--id", "a", "--json",
                     XDG_STATE_HOME=str(town.folder), XDG_CACHE_HOME=str(town.folder))  # fmt: skip
    error = told(result)["error"]
    assert (error["code"], "nobody:Trainer" in error["why"]) == ("config", True)

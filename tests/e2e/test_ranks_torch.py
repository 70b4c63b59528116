"""The PyTorch example: a rank is killed with -9, the loss goes on falling, and all hold the same parameters."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.command import environment, quoracy
from tests.sdk.live import wait_for

EXAMPLE = Path(__file__).parents[2] / "examples" / "ranks_torch.py"
STEPS = 1_000_000
"""More than there is time for: the test stops the run."""
LONG_S = 90.0


def example() -> Any:
    """The example as a module."""
    spec = importlib.util.spec_from_file_location("ranks_torch", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Attempt:
    """Of an iteration, what a checkpoint needs."""

    def __init__(self, token: int, number: int) -> None:
        self.token = token
        self.number = number

    def check(self) -> None:
        pass


KILLED = """
import os, signal, sys
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, sys.argv[1])
import ranks_torch
rename = Path.rename

def fatal(self, target):
    if sys.argv[3] == "after":
        rename(self, target)
    os.kill(os.getpid(), signal.SIGKILL)

Path.rename = fatal
attempt = SimpleNamespace(token=9, number=6, check=lambda: None)
ranks_torch.save(Path(sys.argv[2]), ranks_torch.torch.nn.Linear(1, 1), attempt)
"""


class Torch:
    def __init__(self, folder: Path, rank: int, *more: str) -> None:
        self._out = folder / f"said-{rank}-{len(list(folder.iterdir()))}"
        command = [
            sys.executable, str(EXAMPLE), "--store", f"sqlite://{folder}/store", "--rank", str(rank),
            "--folder", str(folder / "files"), "--steps", str(STEPS), "--begin-with", "3", "--dead", "3", *more,
        ]  # fmt: skip
        quiet = environment(TORCH_CPP_LOG_LEVEL="ERROR", OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
        with self._out.open("wb") as out, self._out.with_suffix(".err").open("wb") as err:
            self.process = subprocess.Popen(command, stdout=out, stderr=err, env=quiet)

    def said(self, what: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self._out.read_bytes().split(b"\n")[:-1]]
        return [line for line in lines if what in line]

    def running(self) -> bool:
        if self.process.poll() not in (None, 0, -signal.SIGKILL):
            raise AssertionError(self._out.with_suffix(".err").read_text())
        return self.process.poll() is None

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.mark.timeout(240)
def test_a_torch_loop_survives_the_loss_of_a_rank_and_takes_it_back(tmp_path: Path) -> None:
    ranks = [Torch(tmp_path, rank) for rank in range(3)]
    try:
        wait_for(lambda: len(ranks[0].said("number")) >= 20 or not ranks[0].running(), "they are under way", LONG_S)
        ranks[1].process.kill()
        wait_for(lambda: any(it["members"] == [0, 2] for it in ranks[0].said("number")), "the rest go on", LONG_S)
        ranks.append(Torch(tmp_path, 1))
        wait_for(lambda: len(ranks[3].said("number")) >= 20 or not ranks[3].running(), "it takes part again", LONG_S)
        stopped = quoracy("ranks", "stop", f"sqlite://{tmp_path}/store", "--run", "demo", "--reason", "enough")
        assert stopped.returncode == 0, stopped.stderr
        wait_for(lambda: all(not rank.running() for rank in ranks), "all have come to the end", LONG_S)
        by_number: dict[int, set[str]] = {}
        for rank in ranks:
            for it in rank.said("number"):
                by_number.setdefault(it["number"], set()).add(it["mark"])
        last = max(by_number)
        assert sorted(by_number) == list(range(last + 1))
        assert [number for number, marks in by_number.items() if len(marks) != 1] == []
        losses = {it["number"]: it["loss"] for it in ranks[0].said("number")}
        fault = next(it["number"] for it in ranks[0].said("number") if it["members"] == [0, 2])
        assert losses[last] < losses[fault] / 1.5 < losses[0]
        back = [it["number"] for it in ranks[3].said("number") if it["members"] == [0, 1, 2]]
        assert fault < min(back) < max(back) == last
        assert {end["end"] for rank in (ranks[0], ranks[2], ranks[3]) for end in rank.said("end")} == by_number[last]
        saved = example().load(tmp_path / "files")
        assert saved["number"] == last // 10 * 10
    finally:
        for rank in ranks:
            rank.close()


def test_whoever_notices_that_somebody_is_gone_leaves_the_group_before_it_votes(tmp_path: Path) -> None:
    """Leaving closes its connections, and those who wait for it notice too. Who votes first leaves them waiting for the
    whole time-out of gloo."""
    torch_loop = example()
    happened: list[str] = []

    class Group:
        def form(self, _it: Any) -> bool:
            raise RuntimeError("Connection closed by peer")

        def leave(self) -> None:
            happened.append("leaves")

    class Iteration:
        number, attempt, joined, index, members = 0, 1, True, 0, [0, 1]

        def vote(self, ok: bool) -> bool:
            happened.append(f"votes {ok}")
            return ok

    class Ranks:
        rank = 0

        def iterations(self) -> list[Iteration]:
            return [Iteration()]

    torch_loop.train(Ranks(), Group(), tmp_path, 1)
    assert happened[:2] == ["leaves", "votes False"]


@pytest.mark.parametrize(("missing", "patience_s"), [([1], 600.0), ([], 0.1)])
def test_nobody_waits_in_vain_for_a_member_that_was_killed_before_it_came_to_the_new_group(
    tmp_path: Path, missing: list[int], patience_s: float
) -> None:
    """It has no connections that could break. Whoever beats but does not come is waited for until the time-out: perhaps
    the others are further on, and this rank was given up."""

    class Iteration:
        members, index, group = [0, 1], 0, "demo-1"

        def missing(self) -> list[int]:
            return missing

    group = example().Group(tmp_path, patience_s)
    with pytest.raises(RuntimeError, match="not all members have come"):
        group.form(Iteration())
    group.leave()


def test_a_checkpoint_of_the_past_is_refused(tmp_path: Path) -> None:
    torch_loop = example()
    model = torch_loop.torch.nn.Linear(1, 1)
    assert torch_loop.load(tmp_path) is None
    assert torch_loop.save(tmp_path, model, Attempt(token=7, number=5))
    assert not torch_loop.save(tmp_path, model, Attempt(token=6, number=5))
    assert torch_loop.load(tmp_path)["token"] == 7
    assert torch_loop.save(tmp_path, model, Attempt(token=8, number=6))
    assert (torch_loop.load(tmp_path)["token"], torch_loop.load(tmp_path)["number"]) == (8, 6)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_process_that_is_killed_beside_the_rename_leaves_a_checkpoint_that_fences(tmp_path: Path, when: str) -> None:
    """What is there says itself which attempt it is of: nothing older gets past it, whichever of both it is."""
    torch_loop = example()
    model = torch_loop.torch.nn.Linear(1, 1)
    assert torch_loop.save(tmp_path, model, Attempt(token=7, number=5))
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(EXAMPLE.parent), str(tmp_path), when], env=environment(), check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert torch_loop.load(tmp_path)["token"] == (9 if when == "after" else 7)
    assert torch_loop.save(tmp_path, model, Attempt(token=8, number=5)) == (when == "before")
    assert not torch_loop.save(tmp_path, model, Attempt(token=6, number=4))

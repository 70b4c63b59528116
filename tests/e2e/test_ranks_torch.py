"""The PyTorch example: a rank is killed with -9, the loss goes on falling, and all hold the same parameters."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.command import environment
from tests.sdk.live import wait_for

EXAMPLE = Path(__file__).parents[2] / "examples" / "ranks_torch.py"
STEPS = 150
LONG_S = 90.0


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
def test_a_torch_loop_survives_the_loss_of_a_rank(tmp_path: Path) -> None:
    ranks = [Torch(tmp_path, rank) for rank in range(3)]
    try:
        wait_for(lambda: len(ranks[0].said("number")) >= 20 or not ranks[0].running(), "they are under way", LONG_S)
        ranks[1].process.kill()
        wait_for(lambda: any(it["members"] == [0, 2] for it in ranks[0].said("number")), "the rest go on", LONG_S)
        ranks.append(Torch(tmp_path, 1))
        wait_for(lambda: all(not rank.running() for rank in ranks), "all have come to the end", LONG_S)
        by_number: dict[int, set[str]] = {}
        for rank in ranks:
            for it in rank.said("number"):
                by_number.setdefault(it["number"], set()).add(it["mark"])
        assert sorted(by_number) == list(range(STEPS))
        assert [number for number, marks in by_number.items() if len(marks) != 1] == []
        losses = {it["number"]: it["loss"] for it in ranks[0].said("number")}
        fault = next(it["number"] for it in ranks[0].said("number") if it["members"] == [0, 2])
        assert losses[STEPS - 1] < losses[fault] / 1.5 < losses[0]
        assert {end["end"] for rank in (ranks[0], ranks[2]) for end in rank.said("end")} == by_number[STEPS - 1]
        token = json.loads((tmp_path / "files" / "checkpoint.token").read_text())
        assert token["number"] == (STEPS - 1) // 10 * 10
    finally:
        for rank in ranks:
            rank.close()

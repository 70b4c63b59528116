"""Five members train one model together while one is killed, one is slow, one comes late and the coordinator dies.

A coordinator and five members, each a process of its own. On the way a member is killed with -9 in the middle of its
training and started again, one joins late and fetches the model from the others, one is slow, and the coordinator is
killed with -9 in the middle of a round. At the end every member has the same model, bit for bit; its accuracy stands
beside that of one machine on the same samples; and every batch is accounted for.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from quoracy.core.errors import QuoracyError
from quoracy.launch import Coordinator, TookTooLong, coordinating, journal_of
from quoracy.learn.mlp import ONE_THREAD
from quoracy.learn.witnessed.mlp_trainer import alone
from quoracy.learn.witnessed.trainer import RunTask
from quoracy.report import Measurement, Report
from quoracy.sdk.client.ask import Asker

RUN: Final = "demo"
SEED: Final = 1
STEPS: Final = 60
BATCH_SIZE: Final = 64
BATCHES: Final = 10
"""In a round."""
EPOCH: Final = 20
"""Rounds."""
MEMBERS: Final = ("member-1", "member-2", "member-3", "member-4", "member-5")
DIES, DIES_AT = "member-3", 2
SLOW, LATE, LATE_AT = "member-2", "member-5", 6
KILL_AT: Final = 28
FATES: Final = {DIES: "killed with -9, came back", SLOW: "slow", LATE: "came late"}
HYPER: Final[dict[str, Any]] = {"lr": 0.1, "momentum": 0.9}
CONFIG: Final[dict[str, Any]] = {
    "init_min_clients": 4, "min_clients": 2, "waiting_extra_s": 0.3, "warmup_s": 10.0, "round_train_max_s": 10.0,
    "round_witness_s": 5.0, "cooldown_s": 10.0, "rounds_per_epoch": EPOCH, "total_steps": STEPS,
    "batch_size": BATCH_SIZE, "global_batch_size_start": BATCH_SIZE * BATCHES, "seed": SEED, "hyper": HYPER,
    "heartbeat_interval_s": 0.3, "heartbeat_timeout_s": 2.0, "deadline_floor_s": 8.0,
}  # fmt: skip
"""There is time to give a dead member's batches to others in the same round."""
WITHIN: Final = 0.01
"""How far it may stay behind one machine on the same samples."""
GIVE_UP_S: Final = 180.0
"""On a machine that is busy with other things it may take longer than it should; ``demo_s`` says so."""
UNDER_S: Final = 60.0
LOOK_S: Final = 0.03
LEAVE_S: Final = 15.0

Say = Callable[[str, int], None]
"""What happened, or nothing but progress, at which step."""


class Outcome(msgspec.Struct, frozen=True):
    """What there is to show at the end."""

    shown: dict[str, Any]
    told: dict[str, dict[str, Any]]
    reference: float
    journal: list[bytes] = []


class Members:
    """Their processes, and what is done to them."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        manner = "slow" if name == SLOW else "fair"
        command = [sys.executable, "-m", "quoracy.demo.member", self._url, name, manner, str(self._folder)]
        self.processes[name] = subprocess.Popen(  # noqa: S603 - ourselves
            command, stdout=subprocess.PIPE, env=os.environ | ONE_THREAD
        )

    def kill(self, name: str) -> None:
        self.processes[name].kill()
        self.processes[name].communicate()

    def told(self, name: str) -> dict[str, Any]:
        """How it says that it ended; empty if it was killed, or has not gone."""
        try:
            out, _ = self.processes[name].communicate(timeout=LEAVE_S)
        except subprocess.TimeoutExpired:
            return {}
        told: dict[str, Any] = msgspec.json.decode(out) if out else {}
        return told

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.communicate()


class Story:
    def __init__(self, coordinator: Coordinator, members: Members, say: Say) -> None:
        self.coordinator = coordinator
        self.members = members
        self.recovered_s = 0.0
        self.killed = False
        self._say = say
        self._dead = self._back = self._late = False
        self._killed_s: float | None = None
        self._stood = 0

    def play(self) -> dict[str, Any]:
        """Until the run is finished. -> what it shows at the end."""
        began_s = time.monotonic()
        while True:
            if time.monotonic() - began_s > GIVE_UP_S:
                raise TookTooLong(f"not over after {GIVE_UP_S:.0f} s")
            shown = self._look()
            if shown is not None:
                self._say("", shown["step"])
                if shown["phase"] == "Finished":
                    return shown
                self._misfortune(shown)
            time.sleep(LOOK_S)

    def _look(self) -> dict[str, Any] | None:
        try:
            with Asker(self.coordinator.url) as asker:
                shown: dict[str, Any] = asker.ask("show", RUN)
        except (QuoracyError, OSError):
            return None
        if self._killed_s is not None and shown["step"] > self._stood:
            self.recovered_s = time.monotonic() - self._killed_s
            self._killed_s = None
        return shown

    def _misfortune(self, shown: dict[str, Any]) -> None:
        step = shown["step"]
        states = {member["id"]: member for member in shown["members"]}
        if step >= DIES_AT and not self._dead and _trains(shown, DIES):
            self._dead = True
            self._say(f"{DIES} is killed with -9 in the middle of its training", step)
            self.members.kill(DIES)
        elif self._dead and not self._back and states[DIES]["state"] == "Lost":
            self._back = True
            self._say(f"{DIES} is started again, and catches up with the same key", step)
            self.members.start(DIES)
        if step >= LATE_AT and not self._late:
            self._late = True
            self._say(f"{LATE} joins, and fetches the model from the others", step)
            self.members.start(LATE)
        if step >= KILL_AT and not self.killed and shown["phase"] == "RoundTrain":
            self.killed = True
            self._say("the coordinator is killed with -9 in the middle of a round, and started again", step)
            self._killed_s, self._stood = time.monotonic(), step
            self.coordinator.kill()
            self.coordinator.start()


def _trains(shown: dict[str, Any], member: str) -> bool:
    current = shown["current"] or {"assignments": []}
    return any(one["member"] == member and not one["committed"] for one in current["assignments"])


def demo_witnessed(say: Say) -> tuple[Report, Outcome]:
    began_s = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="quoracy-demo-") as name,
        coordinating(Path(name)) as coordinator,
    ):
        with Asker(coordinator.url) as asker:
            asker.ask("create", RUN, kind="witnessed", config=CONFIG)
        members = Members(coordinator.url, Path(name))
        try:
            for who in MEMBERS:
                if who != LATE:
                    members.start(who)
            story = Story(coordinator, members, say)
            shown = story.play()
            told = {who: members.told(who) for who in members.processes}
        finally:
            members.end()
        left = coordinator.stop()
        journal = journal_of(Path(name), RUN)
    task = RunTask(RUN, "one", SEED, BATCH_SIZE, HYPER)
    reference = alone(task, as_one(shown["next_batch"]))["accuracy"]
    outcome = Outcome(shown, told, reference, journal)
    report = _judge(story, outcome, time.monotonic() - began_s)
    if left != 0:
        report.failures.append(f"the coordinator did not drain: exit code {left}")
    return report, outcome


def as_one(batches: int) -> list[range]:
    """The same batches, as many in each step, for one machine."""
    return [range(first, min(first + BATCHES, batches)) for first in range(0, batches, BATCHES)]


def _loaded_first(ended: dict[str, Any]) -> int:
    """The step of the first model that its last process loaded; more than there are if it has loaded none."""
    steps = [int(found[1]) for text in ended.get("loaded", []) if (found := re.search(r"model of step (\d+)", text))]
    return steps[0] if steps else STEPS + 1


def _judge(story: Story, outcome: Outcome, took_s: float) -> Report:
    shown, told = outcome.shown, outcome.told
    account = shown["account"]
    models = {member: ended.get("model", "") for member, ended in told.items()}
    same = [member for member, model in models.items() if model and model == shown["checkpoint"]["model"]]
    accuracy = min((ended.get("metrics", {}).get("accuracy", 0.0) for ended in told.values()), default=0.0)
    skipped = account["skipped"]
    report = Report("demo witnessed", took_s)
    report.measurements = [
        Measurement("steps", shown["step"], "rounds applied", STEPS),
        Measurement("members_with_the_same_model", len(same), "members", len(MEMBERS),
                    against=f"the agreed hash {shown['checkpoint']['model'][:16]}"),
        Measurement("accuracy", round(accuracy, 4), "", round(outcome.reference - WITHIN, 4),
                    against=f"one machine, as many samples: {outcome.reference:.4f}"),
        Measurement("batches_applied", account["applied"], "batches", shown["next_batch"],
                    against=f"{account['trained']} trained"),
        Measurement("batches_reassigned", account["moved"] + account["again"], "batches", 1,
                    against=f"{account['moved']} in the round, {account['again']} in a later one"),
        Measurement("batches_skipped", skipped, "batches", 0, "at most"),
        Measurement("caught_up_with_step", _loaded_first(told.get(DIES, {})), "", EPOCH - 1, "at most",
                    against=f"{DIES}, killed at step {DIES_AT} or soon after, in an epoch of {EPOCH}"),
        Measurement("recovery_ms", round(story.recovered_s * 1000), "ms", against="kill -9 to the next round"),
        Measurement("demo_s", round(took_s, 1), "s", UNDER_S, "at most"),
    ]  # fmt: skip
    if account["applied"] + skipped + account["waiting"] + account["open"] != shown["next_batch"]:
        report.failures.append(f"the account does not add up: {account}, {shown['next_batch']} batches were begun")
    if not story.killed:
        report.failures.append("the coordinator was not killed: no round was open at the right time")
    lives = {member["id"]: member["incarnation"] for member in shown["members"]}
    if lives.get(DIES, 0) < 2:
        report.failures.append(f"{DIES} was killed and started again, and the journal knows {lives.get(DIES)} lives")
    late = " ".join(told.get(LATE, {}).get("loaded", []))
    if "from the others" not in late:
        report.failures.append(f"{LATE} did not get its model from the others: {late or 'it has loaded none'}")
    others = {name: ended for name, ended in told.items() if ended.get("ended") != "finished"}
    if others:
        report.failures.append(f"some did not see the end: {others}")
    return report

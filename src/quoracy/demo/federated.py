"""Ten participants who keep what they train on to themselves, while one dies, one lies and the coordinator is killed.

A coordinator and ten participants, each a process of its own. On the way one participant is killed in the middle of its
training, one joins late, one sends poison until it is quarantined, and the coordinator is killed with -9 and started
again. At the end every model is made again from the updates that the journal says were admitted, and the accuracy
stands beside that of one machine which has all samples.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from quoracy.core.errors import QuoracyError
from quoracy.core.federated.machine import Federated
from quoracy.core.kinds import KINDS
from quoracy.core.run import fold
from quoracy.demo.beside import Beside, beside
from quoracy.demo.task import TaskStopped
from quoracy.hosts.keys import Keys, prefix_of
from quoracy.launch import Coordinator, coordinating, journal_of, listing
from quoracy.learn import fashion
from quoracy.learn.aggregate import Update, aggregate
from quoracy.learn.experiment import EVALUATIONS, Settings
from quoracy.learn.mlp import ONE_THREAD
from quoracy.objects.local import LocalObjects
from quoracy.report import Measurement, Report
from quoracy.sdk.client.ask import Asker

RUN: Final = "demo"
SEED: Final = 1
PARTICIPANTS: Final = 10
ROUNDS: Final = 14
DIES, DIES_AT = "participant-3", 3
LIAR, LATE, LATE_AT = "participant-7", "participant-9", 5
KILL_AT: Final = 8
CONFIG: Final[dict[str, Any]] = {
    "clients": 7, "rounds": ROUNDS, "count_min": 6, "time_max_s": 15.0, "standby_max_s": 60.0, "refused_max": 3,
    "norm_bound": 1000.0, "heartbeat_interval_s": 0.3, "heartbeat_timeout_s": 2.0,
}  # fmt: skip
TRAINING: Final[dict[str, dict[str, Any]]] = {
    "digits": {"epochs": 3, "hyper": {"lr": 0.1, "batch_size": 10}},
    "fashion-mnist": {"epochs": 1, "hyper": {"lr": 0.05, "batch_size": 20}},
}
WITHIN: Final = {"digits": 0.04, "fashion-mnist": 0.04}
"""How far the rounds may stay behind one machine that has everything: they are few, to keep this short."""
GIVE_UP_S: Final = 180.0
"""On a machine that is busy with other things it may take longer than it should; ``demo_s`` says so."""
UNDER_S: Final = 60.0
"""For all of it, with the training on one machine that stands beside."""
LOOK_S: Final = 0.05

Say = Callable[[str, int], None]
"""What happened, or nothing but progress, in which round."""


class Outcome(msgspec.Struct, frozen=True):
    """What there is to show at the end."""

    samples: str
    rows: list[dict[str, Any]]
    participants: list[dict[str, Any]]
    reference: Beside


class Participants:
    """Their processes, and what is done to them."""

    def __init__(self, url: str, samples: str) -> None:
        self._url = url
        self._samples = samples
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, manner: str) -> None:
        part = name.rpartition("-")[2]
        arguments = [self._url, name, self._samples, part, str(PARTICIPANTS), manner]
        command = [sys.executable, "-m", "quoracy.demo.participant", *arguments]
        self.processes[name] = subprocess.Popen(  # noqa: S603 - ourselves
            command, stdout=subprocess.PIPE, env=os.environ | ONE_THREAD
        )

    def kill(self, name: str) -> None:
        self.processes[name].kill()
        self.processes[name].wait()

    def told(self, name: str, patience_s: float) -> dict[str, Any]:
        """How it says that it ended; empty if it was killed, or has not gone."""
        try:
            out, _ = self.processes[name].communicate(timeout=patience_s)
        except subprocess.TimeoutExpired:
            return {}
        told: dict[str, Any] = msgspec.json.decode(out) if out else {}
        return told

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.communicate()


class Story:
    def __init__(self, coordinator: Coordinator, participants: Participants, say: Say) -> None:
        self.coordinator = coordinator
        self.participants = participants
        self.recovered_s = 0.0
        self.kills = 0
        """Of the coordinator, with -9."""
        self._say = say
        self._late = self._dead = False
        self._killed_s: float | None = None
        self._stood = 0
        """The round in which the coordinator was killed."""

    def play(self) -> dict[str, Any]:
        """Until all rounds are over. -> what the run shows at the end."""
        began_s = time.monotonic()
        waits = "the coordinator does not answer"
        while True:
            if time.monotonic() - began_s > GIVE_UP_S:
                raise TaskStopped(f"the demo is not over after {GIVE_UP_S:.0f} s: {waits}")
            shown = self._look()
            if shown is not None:
                waits = f"round {shown['round']} of {ROUNDS}: {shown['explanation']['sentence']}"
                self._say("", max(0, shown["round"]))
                if shown["phase"] in ("Finished", "Stopped", "Paused"):
                    return shown
                self._misfortune(shown)
            time.sleep(LOOK_S)

    def _look(self) -> dict[str, Any] | None:
        try:
            with Asker(self.coordinator.url) as asker:
                shown: dict[str, Any] = asker.ask("show", RUN)
        except (QuoracyError, OSError):
            return None
        if "phase" not in shown:
            return None  # it is reading its journal
        if self._killed_s is not None and shown["round"] > self._stood:
            self.recovered_s = time.monotonic() - self._killed_s
            self._killed_s = None
        return shown

    def _misfortune(self, shown: dict[str, Any]) -> None:
        number = shown["round"]
        training = shown["open"] is not None and shown["open"]["assignments"].get(DIES) == "Training"
        if number >= DIES_AT and training and not self._dead:
            self._dead = True
            self._say(f"{DIES} is killed in the middle of its training", number)
            self.participants.kill(DIES)
        if number >= LATE_AT and not self._late:
            self._late = True
            self._say(f"{LATE} joins", number)
            self.participants.start(LATE, "honest")
        if number >= KILL_AT and not self.kills:
            self._say("the coordinator is killed with -9 and started again", number)
            self._killed_s, self._stood = time.monotonic(), number
            self.coordinator.kill()
            self.kills += 1
            self.coordinator.start()


def demo_federated(say: Say, samples: str = "auto") -> tuple[Report, Outcome]:
    """``samples``: digits, fashion-mnist, or auto for the larger of those that are here."""
    began_s = time.monotonic()
    chosen = samples if samples != "auto" else ("fashion-mnist" if fashion.available() else "digits")
    config = CONFIG | TRAINING[chosen] | {"evaluation": EVALUATIONS[chosen], "seed": SEED}
    with (
        tempfile.TemporaryDirectory(prefix="quoracy-demo-") as name,
        coordinating(Path(name), *listing(config)) as coordinator,
    ):
        with Asker(coordinator.url) as asker:
            asker.ask("create", RUN, kind="federated", config=config)
        participants = Participants(coordinator.url, chosen)
        try:
            for number in range(PARTICIPANTS - 1):
                who = f"participant-{number}"
                participants.start(who, {DIES: "slow", LIAR: "poison"}.get(who, "honest"))
            story = Story(coordinator, participants, say)
            shown = story.play()
            if shown["phase"] != "Finished":
                raise TaskStopped(f"the run is {shown['phase']}: {shown['reason']}")
            told = {who: participants.told(who, 10.0) for who in participants.processes}
        finally:
            participants.end()
        left = coordinator.stop()
        task = _task(journal_of(Path(name), RUN))
        again = _made_again(task, Path(name))
    epochs, hyper = config["epochs"], config["hyper"]
    rows = shown["history"]
    reference = beside(Settings(chosen, seed=SEED), rows, epochs, hyper["batch_size"], hyper["lr"])
    outcome = Outcome(chosen, rows, shown["participants"], reference)
    report = _judge(story, outcome, told, again, time.monotonic() - began_s)
    if left != 0:
        report.failures.append(f"the coordinator did not drain: exit code {left}")
    return report, outcome


def _task(entries: list[bytes]) -> Any:
    run = fold(KINDS, RUN, entries)
    assert run is not None, "the journal has entries"
    machine = run.machine
    assert isinstance(machine, Federated), "and they are of a federated run"
    return machine.task


def _made_again(task: Any, folder: Path) -> int:
    """How many of the models come out of the admitted updates again, byte for byte."""
    objects, keys = LocalObjects(str(folder / "objects")), Keys(prefix_of(RUN))

    def path(key: str) -> Path:
        found = objects.local_path(key)
        assert found is not None, f"{key} is in the folder"
        return found

    same = 0
    with tempfile.TemporaryDirectory(prefix="quoracy-demo-again-") as scratch:
        for before, over in zip([None, *task.history[:-1]], task.history, strict=True):
            model = "" if before is None else before.weights
            updates = [
                Update(who, path(keys.brought(who, digest, model)), samples) for who, digest, samples in over.admitted
            ]
            previous = path(keys.blob(before.weights)) if before is not None else Path(updates[0].path)
            made = aggregate(task.config.aggregation, updates, previous, None, Path(scratch))
            same += made.digest == over.weights
    return same


def _judge(story: Story, outcome: Outcome, told: dict[str, dict[str, Any]], again: int, took_s: float) -> Report:
    rows, reference = outcome.rows, outcome.reference
    accuracy = rows[-1]["evaluation"]["accuracy"] if rows else 0.0
    report = Report("demo federated", took_s)
    report.measurements = [
        Measurement("rounds", len(rows), "rounds", ROUNDS),
        Measurement("updates_admitted", sum(row["updates"] for row in rows), "updates"),
        Measurement("models_made_again", again, "models", ROUNDS, against="the admitted updates, same bytes"),
        Measurement("accuracy", round(accuracy, 4), "", round(reference.accuracy - WITHIN[outcome.samples], 4),
                    against=f"one machine, as many samples: {reference.accuracy:.4f}"),
        Measurement("coordinator_killed", story.kills, "times", 1, against="with -9"),
        Measurement("recovery_ms", round(story.recovered_s * 1000), "ms", against="kill -9 to the next round"),
        Measurement("demo_s", round(took_s, 1), "s", UNDER_S, "at most"),
    ]  # fmt: skip
    by_id = {participant["id"]: participant for participant in outcome.participants}
    states = {name: participant["state"] for name, participant in by_id.items()}
    if states.get(LIAR) != "Quarantined" or told[LIAR].get("ended") != "quarantined":
        report.failures.append(f"{LIAR} sends poison and is {states.get(LIAR)}; it was told {told[LIAR]}")
    if by_id.get(LIAR, {}).get("updates"):
        report.failures.append(f"{LIAR} sends poison, and {by_id[LIAR]['updates']} updates of it were counted")
    if by_id.get(DIES, {}).get("losses") != 1:
        report.failures.append(f"{DIES} was killed, and the journal does not say that it was lost")
    if not by_id.get(LATE, {}).get("updates"):
        report.failures.append(f"{LATE} joined late, and no update of it was counted")
    others = [name for name in told if name not in (LIAR, DIES) and told[name].get("ended") != "finished"]
    if others:
        report.failures.append(f"{others} did not see the end: {[told[name] for name in others]}")
    return report

"""Eight equal ranks train a small model in step, with no coordinator, while they are killed, stopped and restarted.

On the way the rank that is about to decide is killed with -9, another is stopped for longer than a rank may be silent
and goes on later, the killed one is started again and takes the model from the others, and one more joins late. At the
end everything that any rank was told is looked up in the journal.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Final, Protocol

from quoracy.demo.serving import serving
from quoracy.hosts.decisions import Line
from quoracy.hosts.onlooker import Onlooker
from quoracy.hosts.peerless import Shared
from quoracy.launch import TookTooLong
from quoracy.report import Measurement, Report
from quoracy.stores.opening import open_store

RUN: Final = "demo"
RANKS: Final = 8
LATE: Final = RANKS
STOPPED: Final = 2
ITERATIONS: Final = 100
KILL_AT: Final = 20
RESTART_AT: Final = 30
STOP_AT: Final = 50
LATE_AT: Final = 70
GO_ON_AFTER: Final = 5
"""Iterations without the stopped one before it goes on."""
SLOW_S: Final = 0.25
"""An iteration takes so long while somebody is on its way: it is to be there before the end."""
DEAD_S: Final = 3.0
UNDER_S: Final = 60.0
GIVE_UP_S: Final = 240.0

Say = Callable[[str, int], None]


class Process:
    """One rank, and what it said."""

    def __init__(self, store: str, rank: int, folder: Path, **more: Any) -> None:
        self.rank = rank
        self.said: list[dict[str, Any]] = []
        settings = {"t_dead_s": DEAD_S, "form_members": RANKS, **more}
        arguments = [store, RUN, str(rank), str(folder), str(ITERATIONS), json.dumps(settings)]
        command = [sys.executable, "-m", "quoracy.demo.rank_process", *arguments]
        quiet = {"QUORACY_LOG": "error", "TORCH_CPP_LOG_LEVEL": "ERROR"}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | quiet)  # noqa: S603
        if self.process.stdout is None:
            raise RuntimeError("a process started with a pipe has none")
        self.stdout: IO[bytes] = self.process.stdout
        os.set_blocking(self.stdout.fileno(), False)
        self._kept = b""

    def read(self) -> bool:
        """False when it has no more to say."""
        try:
            chunk = os.read(self.stdout.fileno(), 65536)
        except BlockingIOError:
            return True
        *lines, self._kept = (self._kept + chunk).split(b"\n")
        self.said += [json.loads(line) for line in lines]
        return bool(chunk)

    def about(self, what: str) -> list[dict[str, Any]]:
        return [told for told in self.said if told["what"] == what]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.stdout.close()


class Story:
    """Who is there, what is done to them, and what they were told."""

    def __init__(self, store: str, folder: Path, say: Say) -> None:
        self.store = store
        self.died = -1
        self._folder = folder
        self._say = say
        self.everybody = [Process(store, rank, folder, dies_at=KILL_AT) for rank in range(RANKS)]
        self._talking = list(self.everybody)
        self._restarted = self._late = False
        self._stopped_at: int | None = None
        self._went_on = False
        self._top = 0
        self._pace_s = 0.0

    def play(self) -> None:
        """Until everybody has done the last iteration and gone home."""
        began_s = time.monotonic()
        while self._talking:
            if time.monotonic() - began_s > GIVE_UP_S:
                raise TookTooLong(f"only {self._top} of {ITERATIONS} iterations in {GIVE_UP_S:.0f} s")
            by_fd = {each.stdout.fileno(): each for each in self._talking}
            readable, _, _ = select.select(list(by_fd), [], [], 0.05)
            for fd in readable:
                if not by_fd[fd].read():
                    self._talking.remove(by_fd[fd])
                    by_fd[fd].process.wait()
            top = max((told["number"] + 1 for each in self.everybody for told in each.about("committed")), default=0)
            if top > self._top:
                self._top = top
                self._say("", top)
            self._misfortune(top)
            self._set_pace(top)

    def _set_pace(self, top: int) -> None:
        on_its_way = any(not each.about("joined") for each in self._talking) or (
            self._went_on and len(self.everybody[self.stopped].about("joined")) < 2
        )
        pace_s = 0.0 if not on_its_way or not top else SLOW_S if top < ITERATIONS - 10 else 4 * SLOW_S
        if pace_s != self._pace_s:
            self._pace_s = pace_s
            unfinished = self._folder / ".pace"
            unfinished.write_text(str(pace_s))
            unfinished.rename(self._folder / "pace")

    def _settled(self) -> bool:
        """Whether everybody who should be there is."""
        return all(each.about("joined") for each in self._talking)

    def _misfortune(self, top: int) -> None:
        dead = next((each for each in self.everybody if each.about("dies")), None)
        if dead is not None and self.died < 0:
            self.died = dead.rank
            self._say(f"rank {self.died}, which is about to decide, is killed with -9", top)
        if top >= RESTART_AT and not self._restarted and self.died >= 0:
            self._restarted = True
            self._say(f"rank {self.died} is started again", top)
            self._start(self.died)
        if top >= STOP_AT and self._stopped_at is None and self._restarted and self._settled():
            self._stopped_at = top
            self._say(f"rank {self.stopped} is stopped (SIGSTOP)", top)
            self._signal(signal.SIGSTOP)
        if top >= LATE_AT and not self._late and self._went_on:
            self._late = True
            self._say(f"rank {LATE} joins late", top)
            self._start(LATE)
        if self._stopped_at is not None and not self._went_on and top >= self._stopped_at + GO_ON_AFTER:
            self._went_on = True
            self._say(f"rank {self.stopped} goes on (SIGCONT), {DEAD_S:g} s too late", top)
            self._signal(signal.SIGCONT)

    @property
    def stopped(self) -> int:
        return STOPPED if self.died != STOPPED else STOPPED + 1

    def _signal(self, which: signal.Signals) -> None:
        self.everybody[self.stopped].process.send_signal(which)

    def _start(self, rank: int) -> None:
        started = Process(self.store, rank, self._folder)
        self.everybody.append(started)
        self._talking.append(started)


def demo_ranks(say: Say, kind: str = "sqlite") -> tuple[Report, list[Line]]:
    began_s = time.monotonic()
    with _folder() as folder, ExitStack() as stack:
        store = stack.enter_context(serving(kind, folder))
        (folder / "exchange").mkdir()
        story = Story(store, folder / "exchange", say)
        try:
            story.play()
        finally:
            for each in story.everybody:
                each.close()
        shared = Shared(*open_store(store))
        stack.callback(shared.close)
        lines = Onlooker(shared, RUN, store).lines
    report = judge(story, lines)
    report.seconds = time.monotonic() - began_s
    report.measurements.append(Measurement("demo_s", round(report.seconds, 1), "s", UNDER_S, "at most"))
    return report, lines


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="quoracy-demo-", ignore_cleanup_errors=True) as name:
        yield Path(name)


# -- what held -----------------------------------------------------------------------------------------------------


class Told(Protocol):
    @property
    def rank(self) -> int: ...

    def about(self, what: str) -> list[dict[str, Any]]: ...


class Played(Protocol):
    """Of a story, what it is judged by."""

    @property
    def everybody(self) -> Sequence[Told]: ...

    @property
    def died(self) -> int: ...

    @property
    def stopped(self) -> int: ...


def judge(story: Played, lines: list[Line]) -> Report:
    records = {line.decision.attempt: line.decision for line in lines}
    told = [(each.rank, said) for each in story.everybody for said in each.about("committed")]
    committed = [line.decision.number for line in lines if line.decision.outcome == "committed"]
    wrong = [
        f"rank {rank} was told that attempt {said['attempt']} committed iteration {said['number']}"
        for rank, said in told
        if (record := records.get(said["attempt"])) is None
        or (record.outcome, record.number) != ("committed", said["number"])
    ]
    marks: dict[int, set[str]] = {}
    losses: dict[int, float] = {}
    for _, said in told:
        marks.setdefault(said["number"], set()).add(said["mark"])
        losses[said["number"]] = said["loss"]
    ends = {end["weights"] for each in story.everybody for end in each.about("end")}
    first, last = losses.get(0, 0.0), losses.get(ITERATIONS - 1, 0.0)
    report = Report("demo ranks")
    report.measurements = [
        Measurement("iterations_committed", len(committed), "iterations", ITERATIONS),
        Measurement("committed_twice", len(committed) - len(set(committed)), "iterations", 0, "at most"),
        Measurement("told_and_not_recorded", len(wrong), "votes", 0, "at most", "looked up in the journal"),
        Measurement("models_that_differ", sum(len(found) > 1 for found in marks.values()), "iterations", 0, "at most"),
        Measurement("models_at_the_end", len(ends), "models", 1, "at most", "to the last bit"),
        Measurement("loss_at_the_end", round(last, 4), "", first / 2, "at most", f"{first:.4f} at the beginning"),
        Measurement("attempts_repeated", sum(line.decision.outcome == "repeated" for line in lines), "attempts"),
    ]
    report.failures += wrong[:5] + _unheard(story, lines)
    report.notes += _phases(told)
    return report


def _unheard(story: Played, lines: list[Line]) -> list[str]:
    """What should have happened, and did not."""
    gone = {rank for line in lines for rank, _ in line.decision.gone}
    failures = [
        f"rank {rank} was {how}, and no record gives it up"
        for rank, how in ((story.died, "killed"), (story.stopped, "stopped"))
        if str(rank) not in gone
    ]
    taken = {each.rank for each in story.everybody for end in each.about("end") if end["taken"]}
    newcomers = (story.died, story.stopped, LATE)
    failures += [f"rank {rank} did not take the model from the others" for rank in newcomers if rank not in taken]
    finished = {each.rank for each in story.everybody if each.about("end")}
    if len(finished) != RANKS + 1:
        failures.append(f"{sorted(finished)} came to the end, not all of 0 to {LATE}")
    return failures


def _phases(told: list[tuple[int, dict[str, Any]]]) -> list[str]:
    """How long each phase of an iteration took, in the middle."""
    spent: dict[str, list[float]] = {}
    for _, said in told:
        for name, phase_s in said["phases"].items():
            spent.setdefault(name, []).append(phase_s)
    medians = {name: sorted(values)[len(values) // 2] for name, values in spent.items()}
    return ["phases of an iteration, median: " + ", ".join(f"{name} {m * 1000:.1f} ms" for name, m in medians.items())]

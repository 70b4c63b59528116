"""A run of ranks from outside: read and judged without joining it, and stopped by an operator.

Beats carry no times, so how old one is can only be told by looking more than once.
"""

from __future__ import annotations

import secrets
import time
from typing import Any

import msgspec

from quoracy.core.batch import Batch
from quoracy.core.codec import Reader, seconds
from quoracy.core.errors import EntriesGone, QuoracyError, Refusal, Refused
from quoracy.core.journal import NONCE_BYTES, chain_seed, decode_created, decode_entry
from quoracy.core.kinds import PEERLESS
from quoracy.core.ranks.collect import Collector
from quoracy.core.ranks.events import AttemptDecided, RankJoined, RankLeft, RanksSignal, RunStopped
from quoracy.core.ranks.state import OUT, Crew, RankState
from quoracy.core.ranks.times import derive
from quoracy.core.run import Decided, Run
from quoracy.hosts.carry import read_run
from quoracy.hosts.decisions import NONE, Line, phases, restored
from quoracy.hosts.peerless import PLACE, Shared
from quoracy.ports import Append, Appended

NAMES_SHOWN = 5
_signals: Reader[Any] = Reader(RanksSignal, "signal")


class UnknownRun(QuoracyError):
    code = "unknown_run"

    def __init__(self, run: str, where: str, names: list[str]) -> None:
        more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
        there = f"{', '.join(sorted(names)[:NAMES_SHOWN])}{more}" or "none"
        self.why = f"there is no run {run!r} in {where} (there are: {there})"
        self.fix = "correct the name or the store; the first rank that comes creates a run"
        super().__init__(f"{self.why}; {self.fix}")


class Onlooker:
    """``where``: what the store is called."""

    def __init__(self, shared: Shared, run: str, where: str) -> None:
        self._shared = shared
        self._name = run
        self._where = where
        self.lines: list[Line] = []
        self.stopped: str | None = None
        self.run = self._read()

    @property
    def crew(self) -> Crew:
        machine: Any = self.run.machine
        crew: Crew = machine.crew
        return crew

    def _read(self) -> Run:
        """Raises UnknownRun; UnknownRules for a run of another kind."""
        for _ in range(10):
            try:
                snapshot, entries = read_run(self._shared.journal, self._name)
                break
            except EntriesGone:  # somebody compacted between the snapshot and the entries
                continue
        else:
            raise QuoracyError(f"run {self._name!r}: compacted faster than it can be read")
        self.lines = []
        run: Run | None = None
        if snapshot is not None:
            run = Run.restore(PEERLESS, self._name, snapshot.n, snapshot.root, snapshot.pages)
            machine: Any = run.machine
            self.lines = restored(machine.crew.log)
        pending = Line(NONE)
        for payload in entries:
            if run is None:
                run = Run.create(PEERLESS, decode_created(decode_entry(payload, self._name, 1)))
            pending = self._fold(run, payload, pending)
        if run is None:
            raise UnknownRun(self._name, self._where, self._shared.journal.runs())
        return run

    def _fold(self, run: Run, payload: bytes, pending: Line) -> Line:
        _, recorded = run.extend(payload)
        machine: Any = run.machine
        for _, event in recorded:
            match event:
                case RankJoined():
                    pending.joined.append(event.member)
                case RankLeft():
                    pending.left.append((event.member, event.reason))
                case RunStopped():
                    self.stopped = event.reason
                case AttemptDecided():
                    self.lines.append(self._finished(pending, event, machine.crew))
                    pending = Line(NONE)
        return pending

    def _finished(self, line: Line, event: AttemptDecided, crew: Crew) -> Line:
        before = self.lines[-1].decision if self.lines else NONE
        line.decision = crew.log[-1]
        line.was_in = before.members
        line.learners = [rank.id for rank in crew.of(RankState.LEARNING)]
        line.phases = phases(event, line.decision, before.at_us)
        return line

    def watch(self, most_s: float) -> dict[str, Any]:
        """Look at the beats for as long as it takes to see everybody's next one, at most so long. What it shows of a
        beat's age is exact for those that moved, and at least so much for those that did not."""
        crew = self.crew
        times = derive(crew.config.t_dead_s)
        most_s = min(most_s, 1.5 * times.beat_s)
        began_us = at_us = _now_us()
        collector = Collector(self._machine(), began_us)
        first: dict[str, int] = {}
        moved: dict[str, int] = {}
        awaited = {rank.id for rank in crew.ranks.values() if rank.state not in OUT}
        while True:
            at_us = _now_us()
            for key, beat in self._shared.pulse.beats(self._name).items():
                signal = _signals.read(beat.note)
                if not isinstance(signal, Refusal):
                    collector.hear(signal, self._machine(), began_us if key not in first else at_us)
                if first.setdefault(key, beat.seq) != beat.seq:
                    first[key], moved[key] = beat.seq, at_us
            for note in self._shared.gathering.arrivals(self._name, PLACE, crew.attempt + 1):
                signal = _signals.read(note)
                if not isinstance(signal, Refusal):
                    collector.hear(signal, self._machine(), at_us)
            if awaited <= moved.keys() or at_us - began_us >= most_s * 1e6:
                break
            time.sleep(min(0.05, times.look_s))
        return self._shown(collector, moved, began_us, at_us)

    def _machine(self) -> Any:
        return self.run.machine

    def _shown(self, collector: Collector, moved: dict[str, int], began_us: int, at_us: int) -> dict[str, Any]:
        shown = collector.overview(self._machine(), at_us)
        shown.pop("log")
        for rank in shown["ranks"]:
            name = str(rank["rank"])
            rank["beating"] = name in moved
            rank["beat_age_s"] = seconds(at_us - moved.get(name, began_us))
            if rank["silent_s"] is None:
                rank["beat_age_s"] = None
        config = msgspec.structs.asdict(self.crew.config)
        explained = collector.explain(self._machine(), at_us)
        return {
            "run": self._name, **shown, "config": config, "entry": self.run.head.n, "reason": self.crew.reason,
            "watched_s": seconds(at_us - began_us), "awaited": explained.sentence,
        }  # fmt: skip

    def stop(self, reason: str) -> int:
        """Write that the run is over. Returns the entry that says so. Raises Refused if it was over before."""
        while True:
            head = self.run.head
            saved = self.run.snapshot()
            copy = Run.restore(PEERLESS, self._name, saved.n, saved.root, saved.pages)
            batch = Batch(copy, head.at_us, chain_seed(head.digest, head.n + 1), b"")
            if self.stopped is not None:
                why = f"run {self._name!r} is over: {self.stopped or 'it was stopped'}"
                raise Refused(Refusal("run_closed", why, "nothing"))
            decided = batch.decide(None, RunStopped(reason))
            if not isinstance(decided, Decided):
                raise QuoracyError(f"stopping run {self._name!r} was answered {decided}")
            _, payload = batch.entry("operator", secrets.token_bytes(NONCE_BYTES))
            (outcome,) = self._shared.journal.append([Append(self._name, batch.n, payload)])
            if isinstance(outcome, Appended) or outcome.payload == payload:
                return batch.n
            self.run = self._read()


def _now_us() -> int:
    return time.monotonic_ns() // 1000

"""A fleet beside a dumb model of it: plain dictionaries, everything looked up by walking all of it.

Hypothesis makes the two live through the same random life and compares them after every step. At the end the journal
must fold to the same state.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.core import byhand
from tests.core.cluster.yard import Yard
from tests.core.scribe import RUN

from quoracy.core.cluster.events import (
    BarrierDropped,
    RunRolledBack,
    WorkerCheckpointing,
    WorkerIdle,
    WorkerLeft,
    WorkerLoading,
    WorkerReady,
    WorkerTraining,
)
from quoracy.core.cluster.state import BarrierState
from quoracy.core.cluster.views import Passage
from quoracy.core.errors import Refusal
from quoracy.core.kinds import KINDS
from quoracy.core.members import Accepted
from quoracy.core.run import Run, fold

MOST, LEAST, MEMORY, NAMES, STANDS, TIMEOUT_S, DEADLINE_S = 3, 2, 2, 2, 2, 30, 40
WORKERS = st.sampled_from(["a", "b", "c", "d"])
BARRIERS = st.sampled_from(["x", "y", "z"])
PART = {"Idle", "LoadingData", "Training", "Checkpointing"}
GONE = {"Failed", "Left"}
NEXT = {
    WorkerReady: {"Initializing": "Idle", "Idle": "Idle"},
    WorkerLoading: {
        "Idle": "LoadingData",
        "Recovering": "LoadingData",
        "LoadingData": "LoadingData",
        "Training": "LoadingData",
    },
    WorkerTraining: dict.fromkeys(["Idle", "LoadingData", "Training", "Checkpointing"], "Training"),
    WorkerCheckpointing: {"Training": "Checkpointing", "Checkpointing": "Checkpointing"},
    WorkerIdle: dict.fromkeys(["LoadingData", "Training", "Checkpointing", "Recovering", "Idle"], "Idle"),
    WorkerLeft: dict.fromkeys([*PART, "Initializing", "Recovering", "Left"], "Left"),
}
MOVES = st.sampled_from(list(NEXT))


class Model:
    def __init__(self) -> None:
        self.now_s = 0
        self.seats = 0
        self.fence = 0
        self.workers: dict[str, dict[str, Any]] = {}
        self.settled: dict[str, list[dict[str, Any]]] = {}
        self.forgotten = 0
        self.open: dict[str, dict[str, Any]] = {}

    def here(self) -> list[str]:
        return [name for name, worker in self.workers.items() if worker["state"] not in GONE]

    def part(self) -> set[int]:
        return {
            worker["seat"]
            for worker in self.workers.values()
            if worker["state"] in PART or (worker["state"] == "Recovering" and worker["fell"])
        }

    def register(self, name: str) -> str | None:
        known = self.workers.get(name)
        present = known is not None and known["state"] not in GONE
        if not present and len(self.here()) >= MOST:
            return "fleet_full"
        used = {self.workers[other]["rank"] for other in self.here()}
        self.seats += 1
        self.workers[name] = {
            "life": known["life"] + 1 if known else 1,
            "state": "Initializing",
            "rank": known["rank"] if known and present else next(r for r in range(MOST) if r not in used),
            "seat": self.seats,
            "bad": known is not None and known["state"] != "Left",
            "moved_s": self.now_s,
            "fell": False,
        }
        return None

    def move(self, name: str, event: type[Any], stale: bool = False) -> str | None:
        worker = self.workers.get(name)
        if worker is None:
            return "unknown_member"
        if worker["state"] not in NEXT[event]:
            return "member_gone" if worker["state"] in GONE else "wrong_state"
        if stale and worker["state"] == "Recovering" and event in (WorkerLoading, WorkerIdle):
            return "stale_token"
        target = NEXT[event][worker["state"]]
        if event is WorkerReady and worker["state"] == "Initializing" and worker["bad"]:
            target = "Recovering"
        if worker["state"] == "Recovering":
            worker["fell"] = False
        worker["state"] = target
        worker["moved_s"] = self.now_s
        return None

    def roll_back(self) -> None:
        self.fence += 1
        for worker in self.workers.values():
            if worker["state"] in PART:
                worker["state"] = "Recovering"
                worker["fell"] = True
        for name in list(self.open):
            self.end(name, False)

    def generation(self, barrier: str) -> int:
        return self.settled[barrier][-1]["generation"] if barrier in self.settled else self.forgotten

    def arrive(self, name: str, barrier: str, step: int, after: int | None, fence: int) -> Any:
        """A code, a passage as (generation, released, place, of), or None for one that has to wait."""
        worker = self.workers.get(name)
        if worker is None:
            return "unknown_worker"
        if worker["state"] in GONE:
            return "member_gone"
        worker["moved_s"] = self.now_s
        if fence != self.fence:
            return "stale_token"
        if worker["state"] not in PART:
            return "wrong_state"
        past = self.settled.get(barrier, [])
        said = self.by_step(worker, step, past) if after is None else self.by_generation(worker, step, after, past)
        if said is not None:
            return said
        stands_at = [other for other, gathering in self.open.items() if worker["seat"] in gathering["steps"]]
        if barrier not in stands_at and len(stands_at) >= STANDS:
            return "barriers_full"
        gathering = self.open.setdefault(barrier, {"since_s": self.now_s, "steps": {}, "reached": False})
        if gathering["steps"].setdefault(worker["seat"], step) != step:
            return "contradiction"
        return None

    def by_generation(self, worker: dict[str, Any], step: int, after: int, past: list[dict[str, Any]]) -> Any:
        remembered = past[-MEMORY:]
        for over in remembered:
            seats = [*over["seats"], *over["missing"]]
            if over["generation"] > after and over["fence"] == self.fence and worker["seat"] in seats:
                return "contradiction" if over["released"] and over["step"] != step else passage(over, worker)
        if past and 0 < after < past[-1]["generation"] and remembered[0]["generation"] > after + 1:
            return "barrier_forgotten"
        return None

    def by_step(self, worker: dict[str, Any], step: int, past: list[dict[str, Any]]) -> Any:
        releases = [over for over in past if over["released"] and over["fence"] == self.fence]
        if not releases or step > releases[-1]["step"]:
            return None
        newest = releases[-1]
        if step == newest["step"] and worker["seat"] in newest["seats"] and newest in past[-MEMORY:]:
            return passage(newest, worker)
        return "step_behind"

    def tick(self) -> None:
        self.now_s += 1
        for name in self.here():
            worker = self.workers[name]
            if self.now_s - worker["moved_s"] > TIMEOUT_S:
                worker["state"] = "Failed"
        self.settle()

    def settle(self) -> None:
        part = self.part()
        for name, gathering in list(self.open.items()):
            steps = gathering["steps"]
            if len(part) >= LEAST:
                gathering["reached"] = True
                if part <= steps.keys():
                    self.end(name, len({steps[seat] for seat in part}) == 1)
                    continue
            elif gathering["reached"]:
                self.end(name, False)
                continue
            if self.now_s >= gathering["since_s"] + DEADLINE_S:
                self.end(name, False)
        seats = {self.workers[name]["seat"] for name in self.here()}
        for name, gathering in list(self.open.items()):
            gathering["steps"] = {seat: step for seat, step in gathering["steps"].items() if seat in seats}
            if not gathering["steps"]:
                del self.open[name]

    def drop(self, name: str) -> None:
        self.open[name] = {"steps": {}}
        self.end(name, False)
        self.settled[name][-1]["missing"] = sorted(self.workers[other]["seat"] for other in self.here())

    def end(self, name: str, released: bool) -> None:
        seats = {self.workers[other]["seat"] for other in self.here()}
        steps = {seat: step for seat, step in self.open.pop(name)["steps"].items() if seat in seats}
        generation = self.generation(name) + 1
        past = self.settled[name] = self.settled.pop(name, [])
        if len(self.settled) > NAMES:
            oldest = next(iter(self.settled))
            self.forgotten = max(self.forgotten, self.generation(oldest))
            del self.settled[oldest]
        past.append(
            {
                "generation": generation,
                "released": released,
                "step": min(steps.values(), default=0),
                "seats": list(steps),
                "missing": sorted(self.part() - steps.keys()),
                "fence": self.fence,
            }
        )
        if released:
            for worker in self.workers.values():
                if worker["seat"] in steps and worker["state"] == "Idle":
                    worker["state"] = "Training"


def passage(over: dict[str, Any], worker: dict[str, Any]) -> tuple[int, bool, int, int]:
    place = over["seats"].index(worker["seat"]) if worker["seat"] in over["seats"] else -1
    return over["generation"], over["released"], place, len(over["seats"])


class FleetBesideItsModel(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.yard = Yard(
            max_workers=MOST, barrier_min=LEAST, barrier_memory=MEMORY, max_barriers=NAMES, open_barriers_max=STANDS,
            heartbeat_timeout_s=float(TIMEOUT_S), barrier_deadline_s=float(DEADLINE_S),
        )  # fmt: skip
        self.model = Model()
        self.hosts = 1

    @rule(name=WORKERS)
    def register(self, name: str) -> None:
        answer = self.yard.try_register(name)
        assert self.code(answer) == self.model.register(name)
        self.model.settle()

    @rule(name=WORKERS)
    def come_to_take_part(self, name: str) -> None:
        """Otherwise too few lives get as far as a barrier."""
        if self.model.register(name) is None:
            self.yard.register(name)
            self.model.settle()
            for event in (WorkerReady, WorkerIdle):
                assert self.code(self.yard.say(event, name)) == self.model.move(name, event)
                self.model.settle()

    @rule(name=WORKERS, event=MOVES)
    def move(self, name: str, event: type[Any]) -> None:
        assert self.code(self.yard.say(event, name)) == self.model.move(name, event)
        self.model.settle()

    @rule(name=WORKERS, event=st.sampled_from([WorkerIdle, WorkerLoading]))
    def move_in_another_generation(self, name: str, event: type[Any]) -> None:
        answer = self.yard.say(event, name, self.model.fence + 1)
        assert self.code(answer) == self.model.move(name, event, stale=True)
        self.model.settle()

    @rule()
    def roll_back(self) -> None:
        assert self.yard.order(RunRolledBack("worse")) == Accepted(self.yard.n, {"fence": self.model.fence + 1})
        self.model.roll_back()
        self.model.settle()

    @rule(
        name=WORKERS, barrier=BARRIERS, step=st.sampled_from([1, 1, 1, 2]),
        behind=st.sampled_from([0, 0, 0, 0, 1, 2, 4, None, None, None]), fence=st.sampled_from([0, 0, 0, 0, 0, -1, 1]),
    )  # fmt: skip
    def arrive(self, name: str, barrier: str, step: int, behind: int | None, fence: int) -> None:
        self.arrive_and_compare(name, barrier, step, behind, max(0, self.model.fence + fence))

    @rule(barrier=BARRIERS, step=st.sampled_from([1, 1, 2, 3]), behind=st.sampled_from([0, 0, None]))
    def all_arrive(self, barrier: str, step: int, behind: int | None) -> None:
        for name in self.model.here():
            if self.model.workers[name]["state"] in PART:
                self.arrive_and_compare(name, barrier, step, behind, self.model.fence)

    @rule(barrier=BARRIERS)
    def drop(self, barrier: str) -> None:
        self.yard.order(BarrierDropped(barrier, "in the way"))
        self.model.drop(barrier)
        self.model.settle()

    def arrive_and_compare(self, name: str, barrier: str, step: int, behind: int | None, fence: int) -> None:
        before = self.model.generation(barrier) if barrier in self.model.settled else -1
        after = None if behind is None else max(0, self.model.generation(barrier) - behind)
        said = self.yard.arrive(name, step, barrier, after, fence)
        expected = self.model.arrive(name, barrier, step, after, fence)
        self.model.settle()
        if expected is None and barrier in self.model.settled and self.model.generation(barrier) > before:
            expected = passage(self.model.settled[barrier][-1], self.model.workers[name])
        if isinstance(said, Passage):
            said = said.generation, said.released, said.order, said.of
        assert (said.code if isinstance(said, Refusal) else said) == expected

    @rule(seconds=st.integers(1, 12), silent=st.sets(WORKERS, max_size=2))
    def let_time_pass(self, seconds: int, silent: set[str]) -> None:
        for _ in range(seconds):
            for name in self.model.here():
                if name not in silent:
                    self.model.workers[name]["moved_s"] = self.model.now_s
            self.model.tick()
            self.yard.pass_s(1, *silent)

    @rule()
    def another_host_takes_over(self) -> None:
        """What was not written is forgotten, and everybody gets a fresh start."""
        self.hosts += 1
        now_us, seq = self.yard.hand.now_us, self.yard.hand._operator_seq
        self.yard.hand = byhand.takeover(KINDS, self.yard.hand.journal, f"host{self.hosts}", now_us=now_us)
        self.yard.hand._operator_seq = seq
        self.model.open.clear()
        for name in self.model.here():
            self.model.workers[name]["moved_s"] = self.model.now_s
            self.yard.hello(name)

    # -- comparing ----------------------------------------------------------------------------------------------

    @staticmethod
    def code(answer: Any) -> str | None:
        return answer.code if isinstance(answer, Refusal) else None

    @invariant()
    def workers_are_alike(self) -> None:
        if not hasattr(self, "yard"):
            return
        assert {
            w.id: (w.incarnation, w.state.value, w.rank, w.seat, w.ended_badly)
            for w in self.yard.fleet.workers.values()
        } == {name: (w["life"], w["state"], w["rank"], w["seat"], w["bad"]) for name, w in self.model.workers.items()}
        assert set(self.yard.fleet.taking_part) == self.model.part()
        assert {w.id for w in self.yard.fleet.by_seat.values()} == set(self.model.here())
        assert self.yard.fleet.generation == self.model.fence

    @invariant()
    def barriers_are_alike(self) -> None:
        if not hasattr(self, "yard"):
            return
        gatherings = self.yard.collector.gatherings
        assert {name: gathering.steps for name, gathering in gatherings.items()} == {
            name: gathering["steps"] for name, gathering in self.model.open.items()
        }
        assert list(self.yard.fleet.barriers) == list(self.model.settled)
        assert self.yard.fleet.forgotten == self.model.forgotten
        for name, barrier in self.yard.fleet.barriers.items():
            past = self.model.settled[name]
            releases = [over for over in past if over["released"]]
            assert (barrier.generation, barrier.released) == (self.model.generation(name), len(releases))
            valid = [over["step"] for over in releases if over["fence"] == self.model.fence]
            assert barrier.step == (valid[-1] if valid else -1)
            assert [
                {
                    "generation": s.generation, "released": s.state is BarrierState.RELEASED, "step": s.step,
                    "seats": s.seats, "missing": s.missing, "fence": s.fence,
                }
                for s in barrier.settled
            ] == past[-MEMORY:]  # fmt: skip

    @invariant()
    def whoever_is_concerned_was_told(self) -> None:
        if not hasattr(self, "yard"):
            return
        for barrier, past in self.model.settled.items():
            over = past[-1]
            for name in self.model.here():
                seat = self.model.workers[name]["seat"]
                if seat in over["seats"] or seat in over["missing"]:
                    told = [value for topic, value in self.yard.told[name] if topic == f"barrier/{barrier}"]
                    assert any((t.generation, t.released) == (over["generation"], over["released"]) for t in told)

    def teardown(self) -> None:
        if not hasattr(self, "yard"):
            return
        run = self.yard.hand.host.run
        assert run is not None
        entries = self.yard.hand.journal.entries
        again = fold(KINDS, RUN, entries)
        assert again is not None
        assert again.state_digest() == run.state_digest()
        half = fold(KINDS, RUN, entries[: len(entries) // 2 + 1])
        assert half is not None
        saved = half.snapshot()
        restored = Run.restore(KINDS, RUN, half.head.n, saved.root, saved.pages)
        assert fold(KINDS, RUN, entries[half.head.n :], restored).state_digest() == run.state_digest()  # type: ignore[union-attr]


TestFleetBesideItsModel = FleetBesideItsModel.TestCase
TestFleetBesideItsModel.settings = settings(max_examples=150, stateful_step_count=40)

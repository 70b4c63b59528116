"""Workers: the arrows of their states, ranks and seats, room, losses, orders."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.cluster.yard import Yard, standing
from tests.core.scribe import RUN, Scribe, created

from quoracy.core.cluster.events import (
    BarrierReleased,
    RunRolledBack,
    RunStopped,
    WorkerCheckpointing,
    WorkerIdle,
    WorkerLeft,
    WorkerLoading,
    WorkerLost,
    WorkerOrdered,
    WorkerReady,
    WorkerRegistered,
    WorkerTraining,
)
from quoracy.core.cluster.state import MAY_ARRIVE, Config, WorkerState, check_config
from quoracy.core.cluster.table import WORKER
from quoracy.core.errors import ConfigError, Refusal
from quoracy.core.kinds import KINDS
from quoracy.core.machine import Choose, To
from quoracy.core.members import Accepted, Cause
from quoracy.core.run import Decided, Run

S = WorkerState
R, Y, L, T, C, D, G, X, B = (
    WorkerRegistered, WorkerReady, WorkerLoading, WorkerTraining, WorkerCheckpointing, WorkerIdle, WorkerLeft,
    WorkerLost, RunRolledBack,
)  # fmt: skip

PATHS: dict[WorkerState, tuple[type[Any], ...]] = {
    S.ABSENT: (),
    S.INITIALIZING: (R,),
    S.IDLE: (R, Y),
    S.LOADING_DATA: (R, Y, L),
    S.TRAINING: (R, Y, L, T),
    S.CHECKPOINTING: (R, Y, L, T, C),
    S.RECOVERING: (R, X, R, Y),
    S.FAILED: (R, X),
    S.LEFT: (R, G),
}
"""How worker w comes into each state."""

ARROWS: dict[tuple[WorkerState, type[Any]], WorkerState] = {
    (S.ABSENT, R): S.INITIALIZING, (S.FAILED, R): S.INITIALIZING, (S.LEFT, R): S.INITIALIZING,
    (S.INITIALIZING, R): S.INITIALIZING, (S.IDLE, R): S.INITIALIZING, (S.LOADING_DATA, R): S.INITIALIZING,
    (S.TRAINING, R): S.INITIALIZING, (S.CHECKPOINTING, R): S.INITIALIZING, (S.RECOVERING, R): S.INITIALIZING,
    (S.INITIALIZING, Y): S.IDLE, (S.IDLE, Y): S.IDLE,
    (S.IDLE, L): S.LOADING_DATA, (S.RECOVERING, L): S.LOADING_DATA, (S.LOADING_DATA, L): S.LOADING_DATA,
    (S.TRAINING, L): S.LOADING_DATA, (S.IDLE, T): S.TRAINING,
    (S.LOADING_DATA, T): S.TRAINING, (S.CHECKPOINTING, T): S.TRAINING, (S.TRAINING, T): S.TRAINING,
    (S.TRAINING, C): S.CHECKPOINTING, (S.CHECKPOINTING, C): S.CHECKPOINTING,
    (S.LOADING_DATA, D): S.IDLE, (S.TRAINING, D): S.IDLE, (S.CHECKPOINTING, D): S.IDLE, (S.RECOVERING, D): S.IDLE,
    (S.IDLE, D): S.IDLE,
    (S.INITIALIZING, G): S.LEFT, (S.IDLE, G): S.LEFT, (S.LOADING_DATA, G): S.LEFT, (S.TRAINING, G): S.LEFT,
    (S.CHECKPOINTING, G): S.LEFT, (S.RECOVERING, G): S.LEFT, (S.LEFT, G): S.LEFT,
    (S.INITIALIZING, X): S.FAILED, (S.IDLE, X): S.FAILED, (S.LOADING_DATA, X): S.FAILED, (S.TRAINING, X): S.FAILED,
    (S.CHECKPOINTING, X): S.FAILED, (S.RECOVERING, X): S.FAILED,
    (S.LOADING_DATA, B): S.RECOVERING, (S.TRAINING, B): S.RECOVERING, (S.CHECKPOINTING, B): S.RECOVERING,
    (S.IDLE, B): S.RECOVERING, (S.ABSENT, B): S.ABSENT, (S.INITIALIZING, B): S.INITIALIZING,
    (S.RECOVERING, B): S.RECOVERING, (S.FAILED, B): S.FAILED, (S.LEFT, B): S.LEFT,
}  # fmt: skip
"""Written down once more, by hand: what is not here is refused."""

REFUSED_AS = {S.ABSENT: {"unknown_member", "unknown_worker"}, S.FAILED: {"member_gone"}, S.LEFT: {"member_gone"}}


class Life:
    """One worker, w, of a run without a host."""

    def __init__(self, **config: Any) -> None:
        self.scribe = Scribe(KINDS, created("cluster", config))
        self.operator = 0

    @property
    def state(self) -> WorkerState:
        worker = self.fleet.workers.get("w")
        return S.ABSENT if worker is None else worker.state  # type: ignore[no-any-return]

    @property
    def fleet(self) -> Any:
        return self.scribe.run.machine.fleet  # type: ignore[attr-defined]

    def do(self, sort: type[Any], name: str = "w") -> Any:
        life = self.scribe.run.machine.incarnation_of(name)
        known = self.scribe.run.roster.members.get(name)
        cause = Cause(name, life, known.seq + 1 if known else 1)
        if sort is R:
            nonce = self.scribe.run.head.n.to_bytes(8, "big") + life.to_bytes(8, "big")
            return self.scribe.decide(Cause(name, life, 0), R(name, life, nonce))
        if sort is X:
            return self.scribe.decide(None, X(name, life, 30_000_000, "silent"))
        if sort is B:
            self.operator += 1
            return self.scribe.decide(Cause("@op", 0, self.operator), B("worse"))
        return self.scribe.decide(cause, sort(name, life, *((self.fleet.generation,) if sort in (L, D) else ())))

    def walk(self, path: tuple[type[Any], ...], name: str = "w") -> Life:
        for sort in path:
            decided = self.do(sort, name)
            assert isinstance(decided, Decided), decided
        return self


@pytest.mark.parametrize("state", S, ids=lambda s: s.value)
def test_each_state_is_reached_on_its_path(state: WorkerState) -> None:
    assert Life().walk(PATHS[state]).state is state


@pytest.mark.parametrize("event", [R, Y, L, T, C, D, G, X, B], ids=lambda e: e.__name__)
@pytest.mark.parametrize("state", S, ids=lambda s: s.value)
def test_an_event_leads_where_the_arrows_say_or_is_refused_and_changes_nothing(
    state: WorkerState, event: type[Any]
) -> None:
    life = Life().walk(PATHS[state])
    before = life.scribe.run.snapshot().root
    outcome = life.do(event)
    if (state, event) in ARROWS:
        assert isinstance(outcome, Decided), outcome
        assert life.state is ARROWS[state, event]
    else:
        assert isinstance(outcome, Refusal)
        assert outcome.code in REFUSED_AS.get(state, {"wrong_state"})
        assert life.scribe.run.snapshot().root == before


def test_the_table_has_every_arrow_between_states_that_was_asked_for_and_these_more() -> None:
    """Asked for: where each state may be entered from. More: giving up on loading, loading again after a barrier made
    it train, roll-back from every state that takes part, and registering anew from everywhere."""
    asked = {
        (S.INITIALIZING, S.IDLE), (S.TRAINING, S.IDLE), (S.CHECKPOINTING, S.IDLE), (S.RECOVERING, S.IDLE),
        (S.IDLE, S.LOADING_DATA), (S.RECOVERING, S.LOADING_DATA),
        (S.IDLE, S.TRAINING), (S.LOADING_DATA, S.TRAINING), (S.CHECKPOINTING, S.TRAINING),
        (S.TRAINING, S.CHECKPOINTING),
        (S.INITIALIZING, S.RECOVERING), (S.TRAINING, S.RECOVERING),
        (S.ABSENT, S.INITIALIZING), (S.FAILED, S.INITIALIZING), (S.LEFT, S.INITIALIZING),
    }  # fmt: skip
    present = set(S) - {S.ABSENT, S.FAILED, S.LEFT}
    asked |= {(state, gone) for state in present for gone in (S.FAILED, S.LEFT)}
    more = {(S.LOADING_DATA, S.IDLE), (S.LOADING_DATA, S.RECOVERING), (S.CHECKPOINTING, S.RECOVERING)}
    more |= {(S.IDLE, S.RECOVERING), (S.TRAINING, S.LOADING_DATA)}
    more |= {(state, S.INITIALIZING) for state in present}
    drawn = {(state, row.target) for (state, _), row in WORKER.rows.items() if isinstance(row, To)}
    drawn |= {(s, end) for (s, _), row in WORKER.rows.items() if isinstance(row, Choose) for end in row.targets}
    assert {(a, b) for a, b in drawn if a is not b} == {(a, b) for a, b in asked | more if a is not b}


# -- passing barriers ----------------------------------------------------------------------------------------------


def test_who_passes_a_barrier_trains_from_that_entry_on() -> None:
    yard = standing("a", "b")
    yard.arrive("a")
    assert yard.worker("a").state is S.IDLE, "it waits"
    yard.pass_s(3)
    yard.arrive("b")
    (released,) = yard.events()
    assert isinstance(released, BarrierReleased)
    for name in "ab":
        assert yard.worker(name).state is S.TRAINING
        assert yard.worker(name).since_us == yard.hand.host.run.head.at_us  # type: ignore[union-attr]
    since_us = yard.worker("a").since_us
    yard.pass_s(3)
    yard.arrive("a", 2)
    yard.arrive("b", 2)
    assert (yard.worker("a").state, yard.worker("a").since_us) == (S.TRAINING, since_us)


def test_who_has_said_what_it_does_keeps_that_through_a_barrier_until_it_says_otherwise() -> None:
    yard = standing("a", "b", "c")
    yard.say(WorkerLoading, "a")
    yard.say(WorkerTraining, "b")
    yard.say(WorkerCheckpointing, "b")
    for name in "abc":
        yard.arrive(name)
    assert [yard.worker(name).state for name in "abc"] == [S.LOADING_DATA, S.CHECKPOINTING, S.TRAINING]
    assert isinstance(yard.say(WorkerLoading, "c"), Accepted), "a barrier made it train; it may say otherwise"
    yard.say(WorkerIdle, "a")
    yard.say(WorkerTraining, "b")
    for name in "abc":
        yard.arrive(name, 2)
    assert [yard.worker(name).state for name in "abc"] == [S.TRAINING, S.TRAINING, S.LOADING_DATA]


def test_an_aborted_barrier_and_one_that_others_passed_move_nobody() -> None:
    yard = standing("a", "b", barrier_deadline_s=5.0)
    yard.register("late")
    yard.arrive("a")
    yard.pass_s(6)
    assert yard.fleet.barriers["b"].aborted == 1
    assert [yard.worker(name).state for name in "ab"] == [S.IDLE, S.IDLE]
    yard.arrive("a")
    yard.arrive("b")
    assert yard.worker("late").state is S.INITIALIZING


# -- beginning again -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "next_state"),
    [((X,), S.RECOVERING), ((), S.RECOVERING), ((G,), S.IDLE)],
    ids=["lost", "superseded", "left"],
)
def test_a_life_after_a_bad_end_recovers_first(end: tuple[type[Any], ...], next_state: WorkerState) -> None:
    assert Life().walk((R, Y, L, T, *end, R, Y)).state is next_state


def test_one_that_recovered_and_left_properly_has_nothing_to_recover_next_time() -> None:
    assert Life().walk((R, X, R, Y, D, G, R, Y)).state is S.IDLE


def test_each_life_has_a_seat_that_no_other_ever_has() -> None:
    life = Life()
    seats = []
    for _ in range(3):
        life.walk((R,)).walk((R,), "v")
        seats += [life.fleet.workers["w"].seat, life.fleet.workers["v"].seat]
    assert seats == [1, 2, 3, 4, 5, 6]


def test_registering_tells_rank_seat_fence_and_how_often_to_beat() -> None:
    yard = Yard(heartbeat_interval_s=2.0, heartbeat_timeout_s=9.0)
    yard.order(RunRolledBack("x"))
    assert yard.register("a", address="a:1", gpus=8, labels={"zone": "north"}) == {
        "incarnation": 1, "rank": 0, "seat": 1, "fence": 1, "heartbeat_interval_s": 2.0, "heartbeat_timeout_s": 9.0,
    }  # fmt: skip
    worker = yard.worker("a")
    assert (worker.address, worker.gpus, worker.labels) == ("a:1", 8, {"zone": "north"})


def test_a_new_life_brings_its_own_address_and_forgets_orders_and_reasons() -> None:
    yard = standing("a")
    yard.order(WorkerOrdered("a", "pause"))
    yard.lose("a")
    assert yard.worker("a").reason
    yard.register("a", address="new:1", gpus=2, labels={"z": "s"})
    worker = yard.worker("a")
    assert (worker.address, worker.gpus, worker.labels) == ("new:1", 2, {"z": "s"})
    assert (worker.order, worker.reason, worker.incarnation) == (None, "", 2)
    assert worker.since_us == worker.registered_us == yard.hand.host.run.head.at_us  # type: ignore[union-attr]


def test_since_when_a_worker_is_in_its_state_is_kept() -> None:
    yard = standing("a")
    for sort in (WorkerLoading, WorkerTraining, WorkerCheckpointing, WorkerIdle):
        yard.pass_s(2)
        yard.say(sort, "a")
        assert yard.worker("a").since_us == yard.hand.host.run.head.at_us  # type: ignore[union-attr]
    assert yard.worker("a").since_us - yard.worker("a").registered_us == 8_000_000
    yard.say(WorkerLoading, "a")
    yard.pass_s(1)
    yard.order(RunRolledBack("x"))
    assert yard.worker("a").since_us - yard.worker("a").registered_us == 9_000_000
    yard.pass_s(1)
    yard.say(WorkerIdle, "a")
    assert yard.worker("a").since_us - yard.worker("a").registered_us == 10_000_000
    yard.pass_s(1)
    yard.say(WorkerLeft, "a", "done")
    assert yard.worker("a").since_us - yard.worker("a").registered_us == 11_000_000
    assert yard.worker("a").reason == "done"


def test_since_when_one_is_ready_is_kept() -> None:
    yard = Yard()
    yard.register("a")
    yard.pass_s(3)
    yard.say(WorkerReady, "a")
    assert yard.worker("a").since_us - yard.worker("a").registered_us == 3_000_000


# -- ranks ---------------------------------------------------------------------------------------------------------


def test_a_rank_is_the_lowest_that_nobody_has() -> None:
    yard = standing("a", "b", "c", "d")
    assert [yard.worker(name).rank for name in "abcd"] == [0, 1, 2, 3]
    yard.say(WorkerLeft, "c")
    yard.say(WorkerLeft, "a")
    assert yard.register("e")["rank"] == 0
    assert yard.register("f")["rank"] == 2
    assert yard.register("g")["rank"] == 4


def test_one_that_supersedes_its_own_present_life_keeps_its_rank() -> None:
    yard = standing("a", "b")
    again = yard.register("a")
    assert (again["incarnation"], again["rank"], again["seat"]) == (2, 0, 3)
    assert (yard.worker("a").rank, yard.worker("b").rank) == (0, 1)
    assert yard.register("c")["rank"] == 2


def test_one_that_comes_back_after_a_loss_takes_the_lowest_free_rank_and_not_its_old_one() -> None:
    yard = standing("a", "b", "c")
    yard.lose("a", "b")
    assert yard.register("b")["rank"] == 0
    assert yard.register("a")["rank"] == 1


def test_ranks_are_handed_out_alike_after_a_restart() -> None:
    yard = standing("a", "b", "c", "d", "e")
    for name in "bed":
        yard.say(WorkerLeft, name)
    run = yard.hand.host.run
    assert run is not None
    saved = run.snapshot()
    restored = Run.restore(KINDS, RUN, run.head.n, saved.root, saved.pages).machine
    fleets = (yard.fleet, restored.fleet)  # type: ignore[attr-defined]
    ranks = [[fleet.take_rank() for _ in range(5)] for fleet in fleets]
    assert ranks[0] == ranks[1] == [1, 3, 4, 5, 6]


# -- room ----------------------------------------------------------------------------------------------------------


def test_the_worker_beyond_max_workers_is_refused_with_the_reason() -> None:
    yard = standing("a", "b", max_workers=2)
    refusal = yard.try_register("c")
    assert isinstance(refusal, Refusal)
    assert refusal.code == "fleet_full"
    assert "2 workers are here and max_workers = 2" in refusal.why
    assert "c" not in yard.fleet.workers
    assert yard.machine.incarnation_of("c") == 0


def test_max_workers_is_1000_unless_it_is_set() -> None:
    assert Config().max_workers == 1000
    life = Life()
    for i in range(1000):
        life.walk((R,), f"w{i}")
    assert life.do(R, "one-more").code == "fleet_full"


def test_a_present_worker_needs_no_more_room_for_its_next_life() -> None:
    yard = standing("a", "b", max_workers=2)
    assert yard.register("a")["incarnation"] == 2


@pytest.mark.parametrize("how", ["left", "lost"])
def test_one_that_is_gone_makes_room_and_needs_room_to_come_back(how: str) -> None:
    yard = standing("a", "b", max_workers=2)
    if how == "left":
        yard.say(WorkerLeft, "a")
    else:
        yard.lose("a")
    assert yard.register("c")["rank"] == 0
    refusal = yard.try_register("a")
    assert isinstance(refusal, Refusal)
    assert refusal.code == "fleet_full"


# -- losses --------------------------------------------------------------------------------------------------------


def test_a_worker_silent_for_the_time_out_is_failed_with_the_reason() -> None:
    yard = standing("a", "b")
    yard.pass_s(30, "a")
    assert yard.worker("a").state is S.IDLE
    yard.pass_s(0.000_001, "a")
    worker = yard.worker("a")
    assert (worker.state, worker.losses) == (S.FAILED, 1)
    assert worker.reason == "no sign of life for 30.0 s; 30.0 s are allowed"
    assert yard.worker("b").state is S.IDLE
    (lost,) = yard.events()
    assert isinstance(lost, WorkerLost)
    assert (lost.member, lost.incarnation, lost.silent_us) == ("a", 1, 30_000_001)


def test_the_time_out_can_be_set() -> None:
    yard = standing("a", "b", heartbeat_interval_s=1.0, heartbeat_timeout_s=4.0)
    yard.pass_s(4, "a")
    assert yard.worker("a").state is S.IDLE
    yard.pass_s(1, "a")
    assert yard.worker("a").state is S.FAILED


def test_losses_of_one_moment_are_one_entry() -> None:
    yard = standing("a", "b", "c", "d")
    before = yard.n
    yard.lose("a", "c", "d")
    assert yard.n == before + 1
    assert [(type(e), e.member) for e in yard.events()] == [(X, "a"), (X, "c"), (X, "d")]  # type: ignore[attr-defined]


def test_losses_are_counted_over_all_lives() -> None:
    yard = standing("a", "b")
    for losses in (1, 2):
        yard.lose("a")
        assert yard.worker("a").losses == losses
        yard.register("a")


def test_one_that_registered_twice_and_then_died_is_lost_once_and_the_host_lives() -> None:
    yard = standing("a", "b")
    yard.pass_s(10)
    yard.join("a")
    yard.lose("a")
    assert yard.worker("a").state is S.FAILED
    assert yard.worker("a").losses == 1


@pytest.mark.parametrize("event", [WorkerReady, WorkerLoading, WorkerIdle])
def test_a_failed_worker_is_told_to_register_again(event: type[Any]) -> None:
    yard = standing("a", "b")
    yard.lose("a")
    refusal = yard.say(event, "a")
    assert isinstance(refusal, Refusal)
    assert refusal.code == "member_gone"
    assert "register again" in refusal.fix


def test_what_an_older_life_says_is_superseded_and_what_a_future_one_says_contradicts() -> None:
    life = Life().walk((R, R))
    run = life.scribe.run
    for incarnation, code in ((1, "superseded"), (3, "contradiction")):
        refusal = life.scribe.decide(None, WorkerLost("w", incarnation, 1, "x"))
        assert isinstance(refusal, Refusal)
        assert refusal.code == code
    assert run.machine.incarnation_of("w") == 2


def test_nobody_can_lose_a_worker_that_never_registered() -> None:
    refusal = Life().do(X)
    assert isinstance(refusal, Refusal)
    assert refusal.code == "unknown_worker"


# -- roll-back and end ---------------------------------------------------------------------------------------------


def test_a_roll_back_raises_the_generation_and_restores_no_counter() -> None:
    yard = standing("a", "b")
    yard.arrive("a")
    yard.arrive("b")
    yard.order(WorkerOrdered("a", "pause"))
    assert yard.order(RunRolledBack("worse")) == Accepted(yard.n, {"fence": 1})
    assert yard.order(RunRolledBack("worse")) == Accepted(yard.n, {"fence": 2})
    fleet = yard.fleet
    assert (fleet.generation, fleet.seats, fleet.orders, fleet.barriers["b"].generation) == (2, 2, 1, 1)


def test_a_roll_back_moves_everyone_who_takes_part_and_barriers_go_on_waiting_for_them() -> None:
    yard = standing("idle", "loading", "training", "checkpointing", "left", "lost")
    for name, path in {"loading": (L,), "training": (L, T), "checkpointing": (L, T, C)}.items():
        for sort in path:
            yard.say(sort, name)
    yard.say(WorkerLeft, "left")
    yard.lose("lost")
    yard.register("new")
    yard.order(RunRolledBack("worse"))
    assert {w.id: w.state for w in yard.fleet.workers.values()} == {
        "idle": S.RECOVERING, "loading": S.RECOVERING, "training": S.RECOVERING, "checkpointing": S.RECOVERING,
        "left": S.LEFT, "lost": S.FAILED, "new": S.INITIALIZING,
    }  # fmt: skip
    assert {w.id for w in yard.fleet.taking_part.values()} == {"idle", "loading", "training", "checkpointing"}
    assert yard.worker("idle").reason == "worse"
    yard.say(WorkerIdle, "idle")
    assert (yard.worker("idle").state, yard.worker("idle").reason) == (S.IDLE, "")


@pytest.mark.parametrize("sort", [WorkerIdle, WorkerLoading])
def test_one_that_recovered_for_an_older_generation_has_to_do_it_again(sort: type[Any]) -> None:
    yard = standing("a", "b")
    for _ in range(2):
        yard.order(RunRolledBack("worse"))
    for fence in (0, 1, 3):
        refusal = yard.say(sort, "a", fence)
        assert isinstance(refusal, Refusal)
        assert refusal.code == "stale_token"
        assert yard.worker("a").state is S.RECOVERING
    assert isinstance(yard.say(sort, "a", 2), Accepted)
    assert yard.worker("a").state in (S.IDLE, S.LOADING_DATA)


def test_one_that_recovers_from_its_own_end_is_not_waited_for_because_of_a_roll_back() -> None:
    yard = standing("a", "b")
    yard.lose("b")
    yard.join("b")
    yard.order(RunRolledBack("worse"))
    assert [w.id for w in yard.fleet.taking_part.values()] == ["a"]
    yard.join("a")
    assert yard.worker("a").state is S.RECOVERING
    assert yard.fleet.taking_part == {}


def test_who_was_rolled_back_is_remembered_over_a_restart() -> None:
    yard = standing("a", "b")
    yard.order(RunRolledBack("worse"))
    saved = yard.hand.host.run.snapshot()  # type: ignore[union-attr]
    machine = Run.restore(KINDS, RUN, yard.n, saved.root, saved.pages).machine
    assert sorted(machine.fleet.taking_part) == [1, 2]  # type: ignore[attr-defined]


def test_after_the_end_nothing_happens_but_goodbyes_and_losses() -> None:
    yard = standing("a", "b", "c")
    assert isinstance(yard.order(RunStopped("enough")), Accepted)
    assert isinstance(yard.order(RunStopped("again")), Accepted)
    assert yard.fleet.reason == "enough"
    refusals = [yard.say(WorkerLoading, "a"), yard.try_register("d"), yard.order(RunRolledBack("x"))]
    refusals.append(yard.order(WorkerOrdered("a", "stop")))
    assert [r.code for r in refusals if isinstance(r, Refusal)] == ["run_closed"] * 4
    assert isinstance(yard.say(WorkerLeft, "a"), Accepted)
    yard.lose("b")
    assert [yard.worker(name).state for name in "abc"] == [S.LEFT, S.FAILED, S.IDLE]


# -- indexes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [state for state in S if state is not S.ABSENT], ids=lambda s: s.value)
def test_barriers_wait_for_a_worker_in_just_those_states(state: WorkerState) -> None:
    fleet = Life().walk(PATHS[state]).fleet
    waits = {S.IDLE, S.LOADING_DATA, S.TRAINING, S.CHECKPOINTING}
    assert set(MAY_ARRIVE) == waits
    assert bool(fleet.taking_part) == (state in waits)
    assert bool(fleet.by_seat) == (state not in {S.FAILED, S.LEFT})


# -- orders --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["stop", "pause", "resume", "reconfigure", "checkpoint"])
def test_an_order_rides_on_the_answers_to_heartbeats_until_it_is_acknowledged(command: Any) -> None:
    yard = standing("a", "b")
    assert yard.beat("a").order == 0  # type: ignore[union-attr]
    answer = yard.order(WorkerOrdered("a", command, {"interval_s": 2, "arguments": [1, "x"]}))
    assert answer == Accepted(yard.n, {"order": 1})
    for _ in range(3):
        seen = yard.beat("a")
        assert (seen.order, seen.command, seen.arguments) == (1, command, {"interval_s": 2, "arguments": [1, "x"]})  # type: ignore[union-attr]
    assert yard.beat("b").order == 0  # type: ignore[union-attr]
    assert yard.beat("a", order=1).order == 0  # type: ignore[union-attr]


def test_an_order_of_before_the_last_one_acknowledges_nothing() -> None:
    yard = standing("a")
    yard.order(WorkerOrdered("a", "pause"))
    yard.order(WorkerOrdered("a", "resume"))
    assert yard.beat("a", order=1).command == "resume"  # type: ignore[union-attr]
    assert yard.beat("a", order=2).order == 0  # type: ignore[union-attr]


def test_an_order_carries_the_generation_of_the_run_it_was_given_in() -> None:
    yard = standing("a")
    yard.order(RunRolledBack("x"))
    yard.order(WorkerOrdered("a", "checkpoint"))
    yard.order(RunRolledBack("y"))
    assert yard.beat("a").fence == 1  # type: ignore[union-attr]


def test_an_order_to_all_reaches_those_who_are_here() -> None:
    yard = standing("a", "b", "c")
    yard.say(WorkerLeft, "b")
    yard.told.clear()
    assert yard.order(WorkerOrdered("", "stop")) == Accepted(yard.n, {"order": 2, "workers": 2})
    assert [yard.beat(name).command for name in "ac"] == ["stop", "stop"]  # type: ignore[union-attr]
    assert {name: topics[0][0] for name, topics in yard.told.items()} == {"a": "order", "c": "order"}
    assert yard.worker("b").order is None


def test_an_order_survives_a_restart() -> None:
    yard = standing("a")
    yard.order(WorkerOrdered("a", "pause", {"n": 1}))
    saved = yard.hand.host.run.snapshot()  # type: ignore[union-attr]
    machine = Run.restore(KINDS, RUN, yard.n, saved.root, saved.pages).machine
    assert machine.fleet.workers["a"].order == yard.worker("a").order  # type: ignore[attr-defined]


@pytest.mark.parametrize("how", ["left", "lost"])
def test_an_order_ends_with_the_life_it_was_given_to(how: str) -> None:
    yard = standing("a", "b")
    yard.order(WorkerOrdered("a", "pause"))
    if how == "left":
        yard.say(WorkerLeft, "a")
    else:
        yard.lose("a")
    assert yard.worker("a").order is None
    assert "order" not in yard.machine.topics("a")


def test_an_order_to_one_who_is_gone_or_unknown_is_refused() -> None:
    yard = standing("a", "b")
    yard.say(WorkerLeft, "a")
    codes = [yard.order(WorkerOrdered(name, "stop")) for name in ("a", "nobody")]
    assert [r.code for r in codes if isinstance(r, Refusal)] == ["member_gone", "unknown_worker"]


# -- settings ------------------------------------------------------------------------------------------------------


def test_a_time_out_of_less_than_two_heartbeats_is_refused() -> None:
    check_config(Config(heartbeat_interval_s=5, heartbeat_timeout_s=10))
    with pytest.raises(ConfigError, match=r"heartbeat_timeout_s = 9\.9: at least twice"):
        check_config(Config(heartbeat_interval_s=5, heartbeat_timeout_s=9.9))


def test_a_barrier_that_no_fleet_could_fill_is_refused() -> None:
    check_config(Config(max_workers=3, barrier_min=3))
    with pytest.raises(ConfigError, match=r"barrier_min = 4: at most max_workers \(3\)"):
        check_config(Config(max_workers=3, barrier_min=4))


@pytest.mark.parametrize(
    "config",
    [
        {"max_workers": 0}, {"max_workers": 10_001}, {"heartbeat_timeout_s": 0}, {"heartbeat_interval_s": -1.0},
        {"heartbeat_timeout_s": float("nan")}, {"heartbeat_timeout_s": float("inf")},
        {"heartbeat_interval_s": 1e-9, "heartbeat_timeout_s": 1e-8}, {"barrier_memory": 0}, {"max_barriers": 0},
        {"barrier_deadline_s": 0.0}, {"barrier_min": 0}, {"unheard_of": 1}, {"max_workers": "3"}, {"max_workers": True},
    ],
    ids=str,
)  # fmt: skip
def test_a_setting_out_of_range_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Run.create(KINDS, created("cluster", config))

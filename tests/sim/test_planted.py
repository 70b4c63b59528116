"""Every checker can fail: a bug is planted, and some seed finds it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from quoracy.core.cluster import rules
from quoracy.core.cluster.collect import Collector
from quoracy.core.cluster.events import Arrive, BarrierReleased
from quoracy.core.cluster.heard import Gathering
from quoracy.core.cluster.machine import Cluster
from quoracy.core.cluster.state import Barrier, BarrierState, Fleet, Settled
from quoracy.core.cluster.views import Passage
from quoracy.core.desk import Desk
from quoracy.core.detector import Detector
from quoracy.core.host import Host
from quoracy.core.machine import Event
from quoracy.core.members import Cause, Roster
from quoracy.core.messages import Sign, Told, ToMember
from quoracy.core.run import Run
from quoracy.sdk.cluster.session import WorkerSession
from quoracy.sim import live
from quoracy.sim.checkers.lives import Lives
from quoracy.sim.cluster import Life
from quoracy.sim.store import Store, Write, WriteDone

SEEDS = range(1, 200)


def found_by(checker: str, *only: str) -> str:
    """What the first seed that breaks this promise says. Other promises may break too; this one must. ``only``: the
    faults to draw from."""
    for seed in SEEDS:
        life = Life(seed)
        life.faults.only = only
        outcome = life.live()
        if outcome.violation.startswith(f"{checker}:"):
            return outcome.violation
    pytest.fail(f"{len(SEEDS)} lives with a planted bug, and {checker} noticed nothing")


def test_a_release_without_the_last_one_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole: Callable[..., Event | None] = Collector._settle

    def hasty(self: Collector, gathering: Gathering, fleet: Fleet, now_us: int) -> Event | None:
        missing = fleet.taking_part.keys() - gathering.arrivals.keys()
        if len(missing) == 1 and len(gathering.arrivals) >= fleet.config.barrier_min:
            seat = missing.pop()
            worker = fleet.taking_part.pop(seat)
            try:
                return whole(self, gathering, fleet, now_us)
            finally:
                fleet.taking_part[seat] = worker
        return whole(self, gathering, fleet, now_us)

    monkeypatch.setattr(Collector, "_settle", hasty)
    _drop_check(monkeypatch)
    assert "took part" in found_by("barriers")


def _drop_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fold would refuse such a release: take that guard away as well."""
    from quoracy.core.cluster.table import BARRIER

    moves = BARRIER._moves[BarrierReleased]
    open_move = moves[BarrierState.OPEN.value]
    unchecked = type(open_move)(None, None, open_move.target, None, open_move.do)
    monkeypatch.setitem(moves, BarrierState.OPEN.value, unchecked)


def test_a_generation_that_is_released_twice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The collector says so twice, and the fold has forgotten that a generation is settled once."""
    whole, find = Collector.due, rules.find_generation

    def stutter(self: Collector, machine: Cluster, now_us: int) -> list[Event]:
        events = whole(self, machine, now_us)
        return events + [event for event in events if isinstance(event, BarrierReleased)]

    def forgetful(fleet: Fleet, event: Any) -> Any:
        found = find(fleet, event)
        if isinstance(found, rules.Generation):
            found.state = BarrierState.OPEN
        return found

    monkeypatch.setattr(Collector, "due", stutter)
    monkeypatch.setattr(rules, "find_generation", forgetful)
    assert re.search(r"settles generation (\d+) after \1$", found_by("barriers"))


def test_a_process_that_is_let_through_twice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = WorkerSession._passed

    def forgetful(self: WorkerSession, passage: Passage) -> None:
        self._after.pop(passage.barrier, None)
        whole(self, passage)

    monkeypatch.setattr(WorkerSession, "_passed", forgetful)
    assert re.search(r"was let through generation \d+ twice", found_by("barriers"))


def test_an_acknowledgement_before_the_sync_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Store.receive

    def hasty(self: Store, source: str, message: Any) -> None:
        whole(self, source, message)
        if isinstance(message, Write) and message.n == len(self.entries) + 1 and not self.full:
            self._answer(source, WriteDone(message.nonce))

    monkeypatch.setattr(Store, "receive", hasty)
    found_by("durability")


def test_an_answer_before_the_entry_is_written_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Host._launch

    def hasty(self: Host, batch: Any) -> None:
        whole(self, batch)
        if self.desk is not None:
            self._out.extend(self.desk.publish(batch))

    monkeypatch.setattr(Host, "_launch", hasty)
    found_by("durability")


def test_a_forgotten_answer_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Roster.check_cause

    def forgetful(self: Roster, cause: Cause) -> Any:
        before = whole(self, cause)
        return None if type(before).__name__ == "Repeat" else before

    monkeypatch.setattr(Roster, "check_cause", forgetful)
    found_by("answers")


def test_a_command_that_is_never_answered_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = WorkerSession._answered

    def deaf(self: WorkerSession, cause: Cause, answer: Any) -> None:
        if cause.seq != 3:
            whole(self, cause, answer)

    monkeypatch.setattr(WorkerSession, "_answered", deaf)
    assert "never answered" in found_by("answers")


def test_a_fold_that_forgets_what_a_snapshot_held_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Fleet.rebuild

    def lossy(self: Fleet) -> None:
        whole(self)
        for worker in self.workers.values():
            worker.registered_us = 0

    monkeypatch.setattr(Fleet, "rebuild", lossy)
    found_by("folds")


def test_a_fold_that_depends_on_the_host_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Run.extend

    def partial(self: Run, payload: bytes) -> Any:
        folded = whole(self, payload)
        self.head.address = f"{id(self)}"
        return folded

    monkeypatch.setattr(Run, "extend", partial)
    found_by("folds")


def test_a_zombie_that_is_believed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Roster.check_cause

    def gullible(self: Roster, cause: Cause) -> Any:
        before = whole(self, cause)
        return None if getattr(before, "code", "") == "superseded" else before

    def whoever(self: Cluster, event: Any) -> Any:
        return self.fleet.workers[event.member]

    monkeypatch.setattr(Roster, "check_cause", gullible)
    monkeypatch.setattr(Cluster, "_find", whoever)
    found_by("lives")


def _believes_signals(self: Desk, peer: Any, sign: Sign, now_us: int) -> Any:
    """As ``Desk.hear``, without asking whether the sender speaks for itself."""
    signal = self._signals.read(sign.signal)
    return HEAR(self, peer, Sign.of(sign.run, signal), now_us)


HEAR = Desk.hear


@pytest.mark.parametrize("checker", ["lives", "barriers"])
def test_a_superseded_process_that_beats_or_arrives_for_its_successor_is_noticed(
    checker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Desk, "hear", _believes_signals)
    if checker == "barriers":
        monkeypatch.setattr(Lives, "heard", lambda *_: None)
    assert {"lives": "never was", "barriers": "never stood at step"}[checker] in found_by(checker, "impostor")


def test_a_barrier_that_answers_arrivals_without_after_by_the_oldest_end_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = Collector._arrive

    def from_the_beginning(self: Collector, worker: Any, arrive: Arrive, fleet: Fleet, now_us: int) -> Any:
        return whole(self, worker, msgspec.structs.replace(arrive, after=arrive.after or 0), fleet, now_us)

    monkeypatch.setattr(Collector, "_arrive", from_the_beginning)
    assert found_by("progress")


def test_a_life_that_believes_what_was_meant_for_another_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = WorkerSession.receive

    def gullible(self: WorkerSession, message: ToMember, now_us: int) -> None:
        if isinstance(message, Told) and message.topic != "standing":
            message = msgspec.structs.replace(message, incarnation=self.incarnation)
        whole(self, message, now_us)

    monkeypatch.setattr(WorkerSession, "receive", gullible)
    assert "was given order" in found_by("orders")


def _forget_what_standings_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever recovers is shown which generations are settled, and knows old ends by that. Take this away as well."""
    whole = WorkerSession._stand

    def forgetful(self: WorkerSession, value: Any, now_us: int) -> None:
        before = dict(self._after)
        whole(self, value, now_us)
        if self.incarnation and self.fence:
            self._after = before

    monkeypatch.setattr(WorkerSession, "_stand", forgetful)


def test_a_visit_that_believes_an_end_from_before_a_roll_back_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = WorkerSession._passed

    def nostalgic(self: WorkerSession, passage: Passage) -> None:
        fence, self._fence = self._fence, min(self._fence, passage.fence)
        whole(self, passage)
        self._fence = fence

    monkeypatch.setattr(WorkerSession, "_passed", nostalgic)
    _forget_what_standings_say(monkeypatch)
    assert "another visit's end" in found_by("barriers", "roll_back_unheard", "roll_back")


def test_an_end_from_after_a_roll_back_told_to_a_visit_before_it_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = WorkerSession._passed

    def hasty(self: WorkerSession, passage: Passage) -> None:
        fence, self._fence = self._fence, max(self._fence, passage.fence)
        whole(self, passage)
        self._fence = fence

    monkeypatch.setattr(WorkerSession, "_passed", hasty)
    assert "another visit's end" in found_by("barriers", "roll_back_unheard", "roll_back")


def test_an_arrival_answered_with_an_end_from_before_a_roll_back_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session believes none of these answers; but its visit is never counted."""

    def nostalgic(self: Barrier, seat: int, after: int, _fence: int) -> Settled | None:
        past = (s for s in self.settled if s.generation > after)
        return next((s for s in past if s.place(seat) > -2), None)

    monkeypatch.setattr(Barrier, "answer_for", nostalgic)
    _forget_what_standings_say(monkeypatch)
    assert "again and again" in found_by("barriers", "roll_back_unheard", "roll_back")


def test_a_run_that_waits_for_the_dead_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Detector.look

    def merciful(self: Detector, now_us: int) -> list[Any]:
        whole(self, now_us)
        return []

    monkeypatch.setattr(Detector, "look", merciful)
    found_by("progress")


def test_a_host_that_sleeps_for_ever_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Host, "wake_us", lambda self: None)
    found_by("progress")


def test_without_a_planted_bug_nothing_is_noticed() -> None:
    assert [live(seed).violation for seed in range(1, 6)] == [""] * 5

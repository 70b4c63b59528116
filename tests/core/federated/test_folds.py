"""Properties of the fold: refusal changes nothing, snapshots restore, every fold gives the same bytes, an update counts
once, a round always has a way on."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.federated.histories import busy_history, pair, step, steps, task_of, write_history
from tests.core.federated.study import Study, studying
from tests.core.scribe import RUN, SECOND

from quoracy.core.codec import encode
from quoracy.core.dice import SEED_BYTES, Cup
from quoracy.core.federated.collect import Collector
from quoracy.core.federated.events import ParticipantJoined
from quoracy.core.federated.state import HERE, Count, Fate, Phase, Round, Task, count, least, most
from quoracy.core.federated.table import PARTICIPANT
from quoracy.core.kinds import KINDS
from quoracy.core.machine import Choose, To
from quoracy.core.run import Decided, Run, fold


def restored(run: Run) -> Run:
    saved = run.snapshot()
    return Run.restore(KINDS, RUN, saved.n, saved.root, saved.pages)


@given(steps)
@settings(max_examples=150)
def test_a_snapshot_restores_the_same_state_and_a_fold_gives_the_same_bytes(entries: Any) -> None:
    scribe = write_history(entries)
    digest = scribe.run.state_digest()
    assert restored(scribe.run).state_digest() == digest
    again = fold(KINDS, RUN, scribe.payloads)
    assert again is not None
    assert again.state_digest() == digest
    half = fold(KINDS, RUN, scribe.payloads[: len(scribe.payloads) // 2 + 1])
    assert half is not None
    rest = fold(KINDS, RUN, scribe.payloads[half.head.n :], restored(half))
    assert rest is not None
    assert rest.state_digest() == digest


def test_a_busy_history_has_met_every_phase_and_fold_and_snapshot_agree() -> None:
    scribe = busy_history()
    phases = set()
    run = None
    for payload in scribe.payloads:
        run = fold(KINDS, RUN, [payload], run)
        assert run is not None
        phases.add(run.machine.task.state)  # type: ignore[attr-defined]
        assert restored(run).state_digest() == run.state_digest()
    assert phases == set(Phase) - {Phase.FINISHED}
    assert run is not None
    assert run.state_digest() == scribe.run.state_digest()


@given(steps, step, st.booleans())
@settings(max_examples=150)
def test_refusal_changes_nothing(entries: Any, one: Any, early: bool) -> None:
    scribe = write_history(entries)
    made = pair(scribe, *one)
    if made is None:
        return
    before = scribe.run.snapshot()
    at_us = scribe.run.head.at_us + (0 if early else SECOND)
    decided = scribe.run.decide(*made, at_us, Cup(RUN, bytes(SEED_BYTES)), scribe.run.head.n + 1)
    if not isinstance(decided, Decided):
        assert scribe.run.snapshot() == before


@given(steps)
@settings(max_examples=150)
def test_indexes_are_true_and_an_update_counts_once_and_only_if_it_was_admitted(entries: Any) -> None:
    scribe = write_history(entries)
    task = task_of(scribe)
    assert task.here == {p.id: p for p in task.participants.values() if p.state in HERE}
    tally = task.tally
    task.rebuild()
    assert task.tally == tally
    tickets = [a.ticket for a in (task.round.assignments.values() if task.round else [])]
    assert len(set(tickets)) == len(tickets)
    for over in task.history:
        members = [member for member, _, _ in over.admitted]
        assert members == sorted(set(members))
        assert len(members) >= 2
    assert sum(p.updates for p in task.participants.values()) >= sum(len(over.admitted) for over in task.history)
    if task.round is not None:
        for assignment in task.round.assignments.values():
            assert (assignment.offer is None) == (assignment.fate is Fate.TRAINING) or assignment.fate is Fate.DROPPED
            assert (assignment.why == "") == (assignment.fate in (Fate.TRAINING, Fate.OFFERED, Fate.ADMITTED))
        for p in task.here.values():
            open_ = task.round.assignments.get(p.id)
            trains = open_ is not None and open_.fate in (Fate.TRAINING, Fate.OFFERED)
            assert trains == (p.state.value == "Training") or task.state in (Phase.STOPPED,)


@given(steps)
@settings(max_examples=150)
def test_whatever_has_happened_the_run_finds_a_way_on(entries: Any) -> None:
    """From any state: duties end well, whoever is missing comes, time passes, and an operator resumes what is paused.
    Then the run ends, within a bounded number of steps."""
    scribe = write_history(entries)
    collector = Collector(scribe.run.machine, 0)  # type: ignore[arg-type]
    now_us = 0
    for turn in range(400):
        task = task_of(scribe)
        if task.state in (Phase.FINISHED, Phase.STOPPED):
            return
        now_us += SECOND
        made: list[tuple[str, int, int]] = [("done", 0, 0)]
        if task.state is Phase.PAUSED:
            made.append(("operator", turn % 7, 1))
        made += [("join", who, turn % 8) for who in range(7) if f"p{who}" not in task.here]
        if task.round is not None:
            made += [("offer", int(a.member[1:]), 1) for a in task.round.having(Fate.TRAINING)]
        made += [("readmit", who, 0) for who in range(7)] if turn % 10 == 9 else []
        scribe.try_each([p for one in made if (p := pair(scribe, *one)) is not None])
        for _ in range(4):
            events = collector.due(scribe.run.machine, now_us)  # type: ignore[arg-type]
            if not events:
                break
            scribe.write(*[(None, event) for event in events], at_us=scribe.run.head.at_us)
    raise AssertionError(f"no end: {task_of(scribe).state}, round {task_of(scribe).number}")


def test_every_move_of_a_participant_is_made_by_a_row() -> None:
    """States that no row leads to would be dead; rows that lead nowhere new would not be listed as moves."""
    ends = {row.target for row in PARTICIPANT.rows.values() if isinstance(row, To)}
    ends |= {end for row in PARTICIPANT.rows.values() if isinstance(row, Choose) for end in row.targets}
    assert ends == set(PARTICIPANT.states) - {PARTICIPANT.start}


def test_after_a_takeover_open_duties_are_wanted_again_and_nobody_trains_twice() -> None:
    study = studying("a", "b", "c")
    study.update("a")
    study.offer("b")
    later = study.takeover()
    assert [duty.order["participant"] for duty in later.duties] == ["b"]
    assert later.fates() == {"a": "Admitted", "b": "Offered", "c": "Training"}
    later.judge("b")
    later.update("c")
    assert [who for who, _, _ in later.task.history[0].admitted] == ["a", "b", "c"]
    again = later.takeover("gamma")
    assert [duty.what for duty in again.duties] == ["aggregate"]


def test_a_takeover_starts_everybodys_silence_and_every_window_afresh() -> None:
    study = studying("a", "b", time_max_s=50.0)
    study.pass_s(14.0, "a", "b")
    study.pass_s(0.5)
    study = study.takeover()
    study.pass_s(15.0, "a")
    assert study.phase == "Round"
    study.pass_s(1.0, "a")
    assert study.who("a").state.value == "Lost"


# -- ten thousand --------------------------------------------------------------------------------------------------


def test_a_heartbeat_among_many_does_not_count_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """``due`` is called for every message: nothing in it may walk over all participants unless something changed."""
    study = studying(*"abc")
    looked: list[Round] = []

    def counting(task: Task, round_: Round) -> Count:
        looked.append(round_)
        return count(task, round_)

    monkeypatch.setattr("quoracy.core.federated.collect.count", counting)
    for _ in range(5):
        study.beat("a")
    study.pass_s(5.0)
    assert looked == []
    study.offer("a")
    assert len(looked) == 1


def test_all_of_ten_thousand_may_be_too_slow_at_once() -> None:
    """Their names would not fit into an entry."""
    study = Study(clients=10_000, time_max_s=5.0, standby_max_s=5.0)
    machine = study.machine
    cup = Cup(RUN, bytes(SEED_BYTES))
    for i in range(10_000):
        name = f"{i:05}".rjust(64, "p")
        machine.apply(ParticipantJoined(name, 0, bytes(16)), 0, cup)
    collector = Collector(machine, 0)
    (began,) = collector.due(machine, 0)
    machine.apply(began, 0, cup)
    assert collector.due(machine, 0) == []
    for second in range(1, 5):
        assert collector.due(machine, second * SECOND) == []
    (suspended,) = collector.due(machine, 5 * SECOND)
    assert len(encode(suspended)) < 1000
    machine.apply(suspended, 5 * SECOND, cup)
    assert machine.task.round is not None
    assert len(machine.task.round.having(Fate.DROPPED)) == 10_000


def test_least_is_never_more_than_most() -> None:
    for config in ({"count_max": 2}, {"count_min": 1}, {"count_min": 1, "count_max": 1}, {}):
        study = studying("a", "b", "c", **config)
        assert least(study.task, study.round) <= most(study.task, study.round)

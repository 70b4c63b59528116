"""Properties of the fold: refusal changes nothing, snapshots restore, every fold gives the same bytes, every batch is
in one place, indexes are true, and there is always a way on."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.scribe import RUN, SECOND, Scribe
from tests.core.witnessed.camp import model, voids
from tests.core.witnessed.histories import busy_history, course_of, pair, step, steps, write_history

from quoracy.core.dice import SEED_BYTES, Cup
from quoracy.core.errors import Refusal
from quoracy.core.kinds import KINDS
from quoracy.core.machine import Choose, Explanation, To
from quoracy.core.run import Decided, Run, fold
from quoracy.core.witnessed import events as e
from quoracy.core.witnessed import evidence
from quoracy.core.witnessed.attestation import bitmap
from quoracy.core.witnessed.collect import Collector
from quoracy.core.witnessed.state import EPOCH, HERE, ROUNDS, Course, MemberState, Phase, with_state
from quoracy.core.witnessed.table import MEMBER
from quoracy.core.witnessed.table import RUN as RUN_TABLE

S = MemberState


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
    phases, states, run = set(), set(), None
    for payload in scribe.payloads:
        run = fold(KINDS, RUN, [payload], run)
        assert run is not None
        course: Course = run.machine.course  # type: ignore[attr-defined]
        phases.add(course.state)
        states |= {member.state for member in course.members.values()}
        assert restored(run).state_digest() == run.state_digest()
    assert phases == set(Phase)
    assert states == set(S) - {S.ABSENT}
    assert run is not None
    assert run.state_digest() == scribe.run.state_digest()
    course = run.machine.course  # type: ignore[attr-defined]
    assert course.account.moved
    assert course.roll_backs
    assert course.account.reasons["the run ended"]


@given(steps, step, st.booleans())
@settings(max_examples=300)
def test_refusal_changes_nothing(entries: Any, one: Any, early: bool) -> None:
    scribe = write_history(entries)
    made = pair(scribe, *one)
    if made is None:
        return
    before = scribe.run.snapshot()
    course = course_of(scribe)
    indexes = (course.changes, course.moves, dict(course.here), dict(course.in_step), course.missing)
    at_us = scribe.run.head.at_us + (0 if early else SECOND)
    decided = scribe.run.decide(*made, at_us, Cup(RUN, bytes(SEED_BYTES)), scribe.run.head.n + 1)
    if not isinstance(decided, Decided):
        assert scribe.run.snapshot() == before
        assert indexes == (course.changes, course.moves, course.here, course.in_step, course.missing)
        assert (course.moving, course.retold) == ({}, {})


@given(steps)
@settings(max_examples=300)
def test_whatever_happens_the_course_contradicts_itself_nowhere(entries: Any) -> None:
    scribe = write_history(entries)
    course = course_of(scribe)
    check(course)
    indexes = (dict(course.here), dict(course.in_step), course.missing)
    course.rebuild()
    assert indexes == (course.here, course.in_step, course.missing)


def check(course: Course) -> None:
    account, round_ = course.account, course.round
    places: dict[int, str] = {}

    def put(where: str, spans: Any) -> None:
        for first, end in spans:
            for batch in range(first, end):
                assert places.setdefault(batch, where) == where, f"batch {batch}: {places[batch]} and {where}"

    put("waiting", [(span.first, span.end) for span in account.waiting])
    put("applied", account.applied)
    put("skipped", [(skip.first, skip.end) for skip in account.skipped])
    put("open", [] if round_ is None else [(span.first, span.end) for span in round_.spans])
    assert len(places) + account.stored == account.next_batch
    assert (round_ is not None) == (course.state in ROUNDS)
    if round_ is not None:
        dealt = [batch for work in round_.works for first, end in work.batches for batch in range(first, end)]
        assert sorted(dealt) == sorted(batch for batch, where in places.items() if where == "open")
        assert set(round_.witnesses) <= set(round_.roster)
        assert course.in_step.keys() <= set(round_.roster)
        listed = [*(work.result for work in round_.works if work.result >= 0), *round_.forsaken]
        assert sorted(listed) == list(range(len(round_.results)))
        assert evidence.quorum(course, round_) <= len(round_.witnesses)
    for member in course.members.values():
        assert (member.state in HERE) == (member.id in course.here)
        assert not member.ejected or member.state is S.REMOVED
        assert member.strikes <= course.config.strikes_max
        if course.state not in EPOCH:
            assert member.state not in (S.WARMING, S.IN_STEP, S.RESYNCING)
    if course.state in (Phase.WAITING, Phase.WARMUP, Phase.PAUSED):
        assert course.place.step == course.step
        assert course.place.source != "p2p" or any(
            name in course.here and course.here[name].incarnation == life for name, life in course.holders
        )
    assert course.stored.step <= course.step
    assert course.step <= course.config.total_steps
    if course.state is Phase.FINISHED:
        assert not course.here
        assert not account.waiting


@given(steps)
@settings(max_examples=100)
def test_whatever_has_happened_the_run_finds_a_way_on(entries: Any) -> None:
    """From any state: whoever is missing comes, everybody does what it is asked for, time passes, and an operator
    resumes what is paused. Then the run ends, within a bounded number of turns."""
    scribe = write_history(entries)
    now_us = scribe.run.head.at_us
    collector = Collector(scribe.run.machine, now_us)  # type: ignore[arg-type]
    for turn in range(150):
        course = course_of(scribe)
        if course.state is Phase.FINISHED:
            return
        made: list[tuple[str, int, int]] = []
        if course.state is Phase.PAUSED:
            made.append(("operator", turn % 7, 1))
        made += [("readmit", who, 0) for who in range(4)] if turn % 10 == 9 else []
        made += [("join", who, turn % 8) for who in range(4) if f"p{who}" not in course.here]
        made += [("commit", int(name[1:]), 6) for name in sorted(course.in_step)] * 2
        made += [("stored", int(name[1:]), 6) for name in sorted(course.here)]
        scribe.try_each([p for one in made if (p := pair(scribe, *one)) is not None], at_us=now_us)
        now_us += SECOND
        for signal in signals(course, turn):
            collector.hear(signal, scribe.run.machine, now_us)  # type: ignore[arg-type]
        follow(scribe, collector, now_us)
        check(course)
        told = collector.explain(scribe.run.machine, now_us)  # type: ignore[arg-type]
        assert isinstance(told, Explanation)
        assert told.sentence
        collector.overview(scribe.run.machine, now_us)  # type: ignore[arg-type]
    raise AssertionError(f"no end: {course_of(scribe).state}, step {course_of(scribe).step}")


def follow(scribe: Scribe, collector: Collector, now_us: int) -> None:
    """What is due, until nothing is; whatever the collector proposes must be accepted."""
    for _ in range(8):
        events = collector.due(scribe.run.machine, now_us)  # type: ignore[arg-type]
        if not events:
            return
        scribe.write(*[(None, event) for event in events], at_us=now_us)
        collector.committed(events, scribe.run.machine, now_us)  # type: ignore[arg-type]


def signals(course: Course, turn: int) -> list[Any]:
    """What good members say."""
    said: list[Any] = [e.Beat(m.id, m.incarnation, 1000 + turn) for m in course.here.values()]
    said += [
        e.Loaded(m.id, m.incarnation, course.epoch, course.place.step, course.place.model or model(course.place.step))
        for m in with_state(course, S.WARMING)
    ]
    known = dict(course.agreed)
    if course.state in (*ROUNDS, Phase.COOLDOWN):
        of = known.get(course.step, model(course.step))
        said += [
            e.ModelHash(m.id, m.incarnation, course.step, of, course.epoch, voids(course, course.step))
            for m in with_state(course, S.IN_STEP, S.RESYNCING)
        ]
    if (round_ := course.round) is not None:
        results = len(round_.results)
        for name in sorted(course.in_step):
            sort: Any = e.Attest if name in round_.witnesses else e.Holds
            everything = bitmap(range(results), results)
            said.append(sort(name, course.in_step[name].incarnation, round_.epoch, round_.number, results, everything))
    return said


def test_every_state_of_a_member_has_a_row_that_leads_to_it() -> None:
    """States that no row leads to would be dead."""
    for table in (MEMBER, RUN_TABLE):
        ends = {row.target for row in table.rows.values() if isinstance(row, To)}
        ends |= {end for row in table.rows.values() if isinstance(row, Choose) for end in row.targets}
        assert ends | {table.start} == set(table.states)


def test_what_was_refused_once_is_refused_again_after_a_restore() -> None:
    scribe = busy_history()
    again = restored(scribe.run)
    for name in ("p0", "p1"):
        life = scribe.run.machine.incarnation_of(name)
        cause = e.MemberJoined(name, life, bytes(16), b"key")
        one = scribe.run.machine.apply(cause, scribe.run.head.at_us, Cup(RUN, bytes(SEED_BYTES)))
        other = again.machine.apply(cause, scribe.run.head.at_us, Cup(RUN, bytes(SEED_BYTES)))
        assert isinstance(one, Refusal)
        assert one == other

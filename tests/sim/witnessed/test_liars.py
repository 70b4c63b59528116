"""Members that lie: what becomes of each sort of lie in a life in which nothing else goes wrong."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sim.witnessed.ward import course_of, events, lies, lived, small, when_started

from quoracy.core.witnessed.events import (
    CheckpointStored,
    HealthCheck,
    MemberReadmitted,
    MemberRemoved,
    ModelHash,
    ResultVoided,
    RoundSealed,
    Taken,
    TwoFacedShown,
)
from quoracy.core.witnessed.state import Course
from quoracy.sim.witnessed import Life, liars
from quoracy.sim.witnessed.history import Course as Walk
from quoracy.sim.witnessed.liars import HOLLOW
from quoracy.sim.witnessed.life import RUN
from quoracy.sim.witnessed.members import SimMember
from quoracy.sim.world import MS


def with_liar(lie: str, size: int = 4, **config: Any) -> Life:
    """So many members, of whom m1 lies until the end; nobody lets it back in."""
    few: dict[str, Any] = {"total_steps": 8, "rounds_per_epoch": 8, "round_witness_s": 0.4, "init_min_clients": size}
    life = small(size=size, **(few | config))
    life.brings_back = False
    lies(life, m1=lie)
    return life


def out(course: Course, member: str = "m1") -> bool:
    return course.members[member].ejected


def sealed_members(life: Life) -> set[str]:
    """Whose results came to count."""
    course = course_of(life)
    makers = {result.digest: result.member for round_ in course.rounds.values() for result in round_.results}
    return {makers[digest] for sealed in course.sealed for digest in sealed.digests}


def reasons(life: Life) -> set[tuple[str, str]]:
    """In which states m1 was, and the beginning of why."""
    course = Walk(pytest.fail)
    found = set()
    for _ in course.walk(life.store.entries, RUN):
        if (member := course.folded.members.get("m1")) is not None:
            found.add((member.state.value, member.reason.partition(",")[0]))
    return found


@pytest.mark.parametrize("lie", ["mismatch", "header"])
def test_work_that_is_not_what_was_committed_to_never_counts_and_its_maker_is_removed(lie: str) -> None:
    life = with_liar(lie)
    course = lived(life)
    assert sealed_members(life) == {"m2", "m3", "m4"}
    assert course.account.skipped_in_all == 0
    assert not out(course)
    assert ("Removed", "3 bad rounds in a row") in reasons(life)
    assert course.step == 8


def test_who_signs_two_results_for_one_assignment_is_out_by_the_end_of_the_next_round() -> None:
    life = with_liar("two-faced")
    course = lived(life)
    assert out(course)
    shown, *_ = events(life, TwoFacedShown)
    assert shown.accused == "m1"
    last = max(round_.number for round_ in course_of(life).rounds.values() if "m1" in round_.lives)
    assert last <= shown.round + 1
    assert course.step == 8


def test_a_witness_that_attests_what_nobody_has_is_out_and_the_result_is_void() -> None:
    """One witness is elected in each round. When it is the boaster, what m2 made is sealed, and nobody has it."""
    config: dict[str, Any] = {
        "total_steps": 8,
        "rounds_per_epoch": 8,
        "witness_nodes": 1,
        "witness_quorum": 1.0,
        "min_clients": 2,
    }
    life = small(seed=2, size=4, init_min_clients=4, round_witness_s=0.4, strikes_max=5, **config)
    life.brings_back = False
    lies(life, m1="boasts", m2="mismatch")
    course = lived(life)
    assert out(course)
    assert events(life, ResultVoided) or events(life, MemberRemoved)
    assert course.step == 8


@pytest.mark.parametrize("attestation", ["bloom", "bitmap"])
def test_a_filter_in_which_every_bit_is_set_is_refused_and_counts_for_nothing(attestation: str) -> None:
    life = with_liar("saturated", attestation=attestation)
    refused: list[str] = []

    def listen(process: SimMember) -> None:
        hear = process._hear

        def heard(message: object) -> None:
            refusal = getattr(message, "refusal", None)
            if process.member == "m1" and getattr(message, "topic", "") == "attest" and refusal is not None:
                refused.append(refusal.code)
            hear(message)

        process._hear = heard  # type: ignore[method-assign]

    when_started(life, listen)
    course = lived(life)
    code = "saturated" if attestation == "bloom" else "malformed"
    assert code in refused
    assert not [one for event in events(life, RoundSealed) for one in event.attested if one.member == "m1"]
    assert course.step == 8


def test_who_reports_a_model_it_does_not_have_is_never_counted_in_step() -> None:
    life = with_liar("hash")
    course = lived(life)
    assert sealed_members(life) == {"m2", "m3", "m4"}
    assert "InStep" not in {state for state, _ in reasons(life)}
    assert course.roll_backs == 0
    assert course.step == 8


LATE = ("late1", "late2", "late3", "late4")
"""Each asks another of the four first."""


def test_who_gives_newcomers_another_model_is_not_believed_and_others_give_it() -> None:
    life = with_liar("poisons", total_steps=12, rounds_per_epoch=3)
    life.world.after(2_000 * MS, lambda: [life.start(name) for name in LATE])
    course = lived(life)
    assert any(process.member == "m1" and process.lied for process in life.members), "it was asked"
    joined = {name for round_ in course_of(life).rounds.values() for name in round_.lives}
    assert joined.issuperset(LATE)
    assert course.step == 12


def test_who_accuses_everybody_else_is_alone_with_it() -> None:
    """Every round, for what was sealed last, and it is taken in each time: one word proves nothing."""
    life = with_liar("slanders")
    taken: list[Any] = []

    def listen(process: SimMember) -> None:
        hear = process._hear

        def heard(message: object) -> None:
            if process.member == "m1" and getattr(message, "topic", "") == "health-check":
                taken.append(getattr(message, "value", None))
            hear(message)

        process._hear = heard  # type: ignore[method-assign]

    when_started(life, listen)
    course = lived(life)
    assert [one for one in taken if isinstance(one, Taken)]
    assert events(life, MemberRemoved) == []
    assert not any(member.ejected for member in course.members.values())
    assert course.step == 8


def two_slanderers(size: int, **config: Any) -> Life:
    life = with_liar("slanders", size, **config)
    lies(life, m2="slanders")
    return life


def test_two_who_slander_together_are_less_than_most_of_the_others_of_five() -> None:
    life = two_slanderers(5)
    course = lived(life)
    assert events(life, MemberRemoved) == []
    assert course.step == 8


def test_two_of_four_get_nobody_out_who_has_not_attested_what_they_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are most of the others, but one witness is elected in each round, and they accuse those who were not."""
    life = two_slanderers(4, witness_nodes=1)
    said: list[HealthCheck] = []

    def slander(signal: ModelHash, others: list[str]) -> HealthCheck:
        course = life.course()
        past = course.past[-1] if course is not None and course.past else None
        attested = set() if past is None else {one.member for one in past.claims}
        names = tuple(name for name in others if name not in attested)
        step = 0 if past is None else past.step
        said.append(HealthCheck(signal.member, signal.incarnation, step, names, (0,) * len(names), signal.epoch))
        return said[-1]

    monkeypatch.setattr(liars, "slander", slander)
    course = lived(life)
    assert len({(check.member, check.step) for check in said if check.accused}) > 8
    assert events(life, MemberRemoved) == []
    assert course.step == 8


def test_who_only_says_that_it_stored_the_model_costs_its_steps_and_no_more() -> None:
    """All are dead after the first checkpoint, which is none. Those who come then go back to the beginning."""
    life = small(size=3, rounds_per_epoch=2, total_steps=4)
    lies(life, m1=HOLLOW, m2=HOLLOW, m3=HOLLOW)

    def look() -> None:
        course = life.course()
        if course is not None and course.stored.step:
            for process in life.members:
                process.kill()
        else:
            life.world.after(10 * MS, look)

    life.world.after(10 * MS, look)
    course = lived(life)
    first, *_ = events(life, CheckpointStored)
    assert first.digest not in life.objects.models
    assert course.roll_backs >= 1
    assert course.step == 4


def test_a_liar_that_an_operator_lets_back_in_takes_part_again() -> None:
    life = with_liar("two-faced", total_steps=12, rounds_per_epoch=3)
    life.brings_back = True
    course = lived(life)
    assert [event.member for event in events(life, MemberReadmitted)].count("m1") >= 1
    assert not out(course)
    later = [round_ for round_ in course_of(life).rounds.values() if round_.lives.get("m1", 0) > 1]
    assert later
    assert course.step == 12

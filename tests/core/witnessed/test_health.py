"""Health checks about members that are merely inactive: taken, and weighed against what the witnesses attested."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.core.witnessed.camp import Camp, training

from quoracy.core.errors import Refusal
from quoracy.core.witnessed.attestation import bitmap
from quoracy.core.witnessed.events import BeatSeen, HealthCheck, Inactive, RoundSealed, Taken

SLOW: dict[str, Any] = {"round_train_max_s": 100.0, "round_witness_s": 10.0, "adaptive_deadline": False}


def report(camp: Camp, by: str, *inactive: str, step: int | None = None) -> Taken | Refusal | BeatSeen:
    at = camp.course.step if step is None else step
    return camp.tell(HealthCheck(by, camp.machine.incarnation_of(by), at, inactive, (), camp.course.epoch))


def idle_round(camp: Camp, idle: str, *reporters: str) -> None:
    """Everybody does its part but for the one, which attests and does not train; these report it."""
    camp.hash()
    camp.commit(*(name for name in sorted(camp.course.in_step) if name != idle))
    for name in reporters:
        assert isinstance(report(camp, name, idle), Taken)
    camp.pass_s(100.0)
    camp.hold()


def test_whom_most_others_report_is_removed_with_the_seal_if_its_score_agrees() -> None:
    """One bad round is enough then, though strikes_max allows two."""
    camp = training("a", "b", "c", "d", **SLOW)
    idle_round(camp, "d", "a", "b")
    assert (camp.states()["d"], camp.who("d").ejected) == ("Removed", False)
    why = camp.who("d").reason
    assert why == "2 of 3 others report it as inactive, and so it is: it failed: its work was not done in time"
    assert camp.round.roster == ("a", "b", "c")
    camp.join("d")
    assert camp.states()["d"] == "Pending"


def test_the_seal_carries_who_reported_whom() -> None:
    camp = training("a", "b", "c", "d", **SLOW)
    idle_round(camp, "d", "a", "c")
    (sealed,) = camp.all_events(RoundSealed)
    assert sealed.inactive == (Inactive("d", bitmap([0, 2], 4)),)


def test_reports_about_one_that_does_its_part_count_for_nothing() -> None:
    camp = training("a", "b", "c", "d", **SLOW)
    camp.hash()
    camp.commit()
    for name in "abc":
        assert isinstance(report(camp, name, "d"), Taken)
    camp.hold()
    assert (camp.states()["d"], camp.who("d").strikes) == ("InStep", 0)
    (sealed,) = camp.all_events(RoundSealed)
    assert [one.member for one in sealed.inactive] == ["d"]


@pytest.mark.parametrize("reporters", [(), ("a",), ("d",)])
def test_too_few_reports_leave_it_at_the_strike(reporters: tuple[str, ...]) -> None:
    camp = training("a", "b", "c", "d", **SLOW)
    idle_round(camp, "d", *(name for name in reporters if name != "d"))
    assert (camp.states()["d"], camp.who("d").strikes) == ("InStep", 1)


def test_one_alone_proves_nothing_where_there_are_only_two() -> None:
    camp = training("a", "b", witness_quorum="1/2", **SLOW)
    idle_round(camp, "b", "a")
    assert (camp.states()["b"], camp.who("b").strikes) == ("InStep", 1)


def test_a_report_counts_for_the_round_in_which_it_is_said() -> None:
    camp = training("a", "b", "c", "d", **SLOW)
    camp.hash()
    camp.commit()
    for name in "ab":
        report(camp, name, "d")
    camp.hold()
    idle_round(camp, "d")
    assert (camp.states()["d"], camp.who("d").strikes) == ("InStep", 1)


def test_the_newest_word_counts() -> None:
    camp = training("a", "b", "c", "d", **SLOW)
    camp.turn()
    camp.hash()
    camp.commit("a", "b", "c")
    report(camp, "a", "d")
    report(camp, "b", "d")
    report(camp, "b", "c")
    shown = {one["id"]: one["reported_by"] for one in camp.overview()["members"]}
    assert shown == {"a": [], "b": [], "c": ["b"], "d": ["a"]}
    assert isinstance(camp.tell(HealthCheck("b", 1, 0, (), (), 0)), Taken)
    assert {one["id"]: one["reported_by"] for one in camp.overview()["members"]}["c"] == []


def test_who_reports_and_goes_counts_no_more() -> None:
    camp = training("a", "b", "c", "d", **SLOW)
    camp.hash()
    camp.commit("a", "b", "c")
    report(camp, "a", "d")
    report(camp, "b", "d")
    camp.leave("b")
    camp.pass_s(100.0)
    camp.hold()
    assert camp.states()["d"] == "InStep"


@pytest.mark.parametrize(
    ("inactive", "step", "code"),
    [(("x",), 0, "contradiction"), (("a",), 0, "contradiction"), (("d",), 1, "wrong_step"), (("x", "d"), 0, "")],
)
def test_what_makes_no_sense_is_refused_by_name(inactive: tuple[str, ...], step: int, code: str) -> None:
    camp = training("a", "b", "c", "d", **SLOW)
    answer = report(camp, "a", *inactive, step=step)
    assert (answer.code if isinstance(answer, Refusal) else "") == code


@pytest.mark.parametrize(
    ("inactive", "code"),
    [
        ((Inactive("d", bitmap([0, 3], 4)),), "contradiction"),
        ((Inactive("x", bitmap([0, 1], 4)),), "contradiction"),
        ((Inactive("d", bitmap([0], 4)), Inactive("d", bitmap([1], 4))), "contradiction"),
        ((Inactive("d", b"\xff\xff"),), "malformed"),
    ],
)
def test_the_fold_refuses_reports_that_nobody_may_give(inactive: tuple[Inactive, ...], code: str) -> None:
    camp = training("a", "b", "c", "d", **SLOW)
    idle_round(camp, "d", "a", "b")
    (sealed,) = camp.all_events(RoundSealed)
    again = training("a", "b", "c", "d", **SLOW)
    again.hash()
    again.commit("a", "b", "c")
    again.pass_s(100.0)
    again.hold("a", "b", "c")
    assert again.propose(msgspec.structs.replace(sealed, inactive=inactive)).code == code


def test_the_fold_counts_only_those_in_step() -> None:
    """A host that names somebody who is gone is refused."""
    camp = training("a", "b", "c", "d", **SLOW)
    camp.hash()
    camp.commit("a", "b", "c")
    camp.pass_s(100.0)
    camp.leave("c")
    camp.hold("a", "b")
    sealed = RoundSealed(0, 0, (), (), (), True, (Inactive("d", bitmap([0, 2], 4)),))
    assert camp.propose(sealed).code == "contradiction"

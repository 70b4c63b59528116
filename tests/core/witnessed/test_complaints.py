"""A complaint that is out of date voids nothing: whoever has the model of the next step has had everything."""

from __future__ import annotations

from typing import Any

from tests.core.witnessed.camp import Camp, training

SLOW: dict[str, Any] = {"round_train_max_s": 100.0, "round_witness_s": 10.0, "adaptive_deadline": False}


def complaining(**config: Any) -> Camp:
    """a and b miss a result of step 0; c, who alone had it, is gone."""
    camp = training("a", "b", "c", witness_quorum="1/3", **(SLOW | config))
    camp.hash()
    camp.commit()
    first = camp.round.works[0].result
    camp.hold("c")
    camp.hold("a", "b", positions=[i for i in range(3) if i != first])
    camp.pass_s(10.0)
    assert camp.course.step == 1
    camp.leave("c")
    return camp


def test_a_word_that_comes_late_does_not_void_what_was_applied() -> None:
    camp = complaining()
    camp.hash("a")
    camp.miss("a", 0)
    camp.miss("b", 0)
    assert camp.course.past[0].voided == []


def test_nor_does_one_that_was_right_when_it_was_said() -> None:
    camp = complaining()
    camp.miss("a", 0)
    camp.hash("a")
    camp.miss("b", 0)
    assert camp.course.past[0].voided == []


def test_a_report_of_the_step_before_says_nothing_of_it() -> None:
    camp = complaining()
    camp.miss("a", 0)
    camp.miss("b", 0)
    assert camp.course.past[0].voided == [0]

"""A complaint that is out of date voids nothing: whoever has the model of the next step has had everything."""

from __future__ import annotations

from typing import Any

from tests.core.witnessed.camp import Camp, code, model, training

from quoracy.core.witnessed.events import HealthCheck, Holds, ModelHash

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


def test_a_model_that_was_made_before_a_result_was_void_is_not_taken_for_the_right_one() -> None:
    """The report is on its way while the result is voided: its maker has got it after all, and has it in its model."""
    camp = complaining()
    camp.miss("a", 0)
    camp.miss("b", 0)
    assert camp.course.past[0].voided == [0]
    assert code(camp.tell(ModelHash("a", 1, 1, model(1, "with it")))) == "wrong_step"
    assert code(camp.tell(ModelHash("a", 1, 1, model(1), voided=2))) == "wrong_step"
    assert code(camp.tell(ModelHash("a", 1, 1, model(1), voided=1))) == ""


def test_what_one_that_catches_up_has_said_of_it_before_is_forgotten() -> None:
    camp = complaining()
    camp.join("c")
    camp.hash("c")
    assert camp.overview()["current"]["reported"] == ["c"]
    camp.miss("a", 0)
    camp.miss("b", 0)
    assert camp.course.past[0].voided == [0]
    assert camp.overview()["current"]["reported"] == []
    camp.hash("a")
    assert camp.overview()["current"]["reported"] == ["a"]


def test_of_steps_that_are_not_remembered_nothing_is_known_to_be_void() -> None:
    camp = training("a", "b", **SLOW)
    assert code(camp.tell(ModelHash("a", 1, 0, model(0), voided=3))) == ""


# -- what is of an earlier epoch -----------------------------------------------------------------------------------


def counted_again() -> Camp:
    """Step 0 was sealed in epoch 0, and again in epoch 1, after a roll-back."""
    camp = training("a", "b", "c", "d", **SLOW)
    camp.turn()
    camp.hash("a", "b")
    camp.hash("c", "d", mark="another")
    camp.commit()
    camp.hold()
    assert (camp.course.epoch, camp.course.step, camp.phase) == (1, 0, "Warmup")
    camp.load()
    camp.turn()
    assert (camp.course.epoch, camp.course.step) == (1, 1)
    return camp


def test_a_report_from_before_a_roll_back_is_not_taken_for_one_of_the_same_step_now() -> None:
    camp = counted_again()
    assert code(camp.tell(ModelHash("a", 1, 1, model(1), 0))) == "wrong_step"
    assert code(camp.tell(ModelHash("a", 1, 1, model(1), 1))) == ""


def test_nor_an_accusation() -> None:
    camp = counted_again()
    assert code(camp.tell(HealthCheck("a", 1, 0, ("b",), (0,), 0))) == "wrong_step"
    assert code(camp.tell(HealthCheck("a", 1, 0, ("b",), (0,), 1))) == ""


def test_nor_a_complaint() -> None:
    camp = counted_again()
    past = camp.course.past[-1]
    for epoch, refused in ((0, "wrong_step"), (1, "")):
        for name in "abcd":
            held = camp.held(name, (), 0) | {"epoch": epoch}
            assert past.voided == []
            assert code(camp.tell(Holds(name, 1, step=0, missing=b"\1", **held))) == refused
    assert past.voided == [0]


def test_accusations_of_two_epochs_are_not_added_up() -> None:
    camp = training("a", "b", "c", "d", rounds_per_epoch=2, **SLOW)
    camp.turn()
    camp.turn()
    assert code(camp.accuse("a", "d")) == ""
    camp.cool()
    camp.load()
    camp.turn()
    assert (camp.course.epoch, camp.course.step) == (1, 3)
    camp.accuse("b", "d")
    assert camp.states()["d"] == "InStep"
    camp.accuse("c", "d")
    assert camp.states()["d"] == "Removed"

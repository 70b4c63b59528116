"""The collector: counts while words come in, proposes nothing twice, and costs little while nothing follows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.witnessed.camp import LOST_S, code, model, training

from quoracy.core.codec import us
from quoracy.core.witnessed import collect
from quoracy.core.witnessed.events import Attested, Beat, Holds, MemberLost, ModelHash, RoundSealed, Taken
from quoracy.core.witnessed.tally import Tally

SLOW: dict[str, Any] = {"round_train_max_s": 100.0, "round_witness_s": 10.0, "adaptive_deadline": False}


move = st.tuples(st.sampled_from(["take", "take", "take", "drop", "grow"]), st.integers(0, 4), st.integers(0, 255))


@given(st.lists(move, max_size=60), st.integers(1, 4))
def test_counts_are_those_of_a_dumb_twin(moves: list[tuple[str, int, int]], needed: int) -> None:
    """Members 0 to 3 are witnesses, 4 is not."""
    tally, results = Tally(0, 0, needed), 0
    twin: dict[int, tuple[int, int]] = {}
    for what, who, which in moves:
        if what == "grow":
            results = min(8, results + which % 3)
            tally.grow(results)
        elif what == "drop":
            tally.drop(str(who))
            twin.pop(who, None)
        else:
            known = min(which % 9, results)
            mask = which & ((1 << known) - 1)
            tally.take(Attested(str(who), 1, known, b""), mask, who < 4)
            twin[who] = (known, mask)
        held = [sum(mask >> i & 1 for who, (_, mask) in twin.items() if who < 4) for i in range(results)]
        assert tally.held_by() == held
        assert tally.enough() == sum(number >= needed for number in held)
        whole = {str(who) for who, (known, mask) in twin.items() if known == results and mask == (1 << results) - 1}
        assert set(tally.complete) == whole
        assert set(tally.attested) | set(tally.holding) == {str(who) for who in twin}


def test_nothing_is_worked_out_while_nothing_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """``due`` is called for every message: a heartbeat must not make it look at the round."""
    camp = training("a", "b", "c", **SLOW)
    looked: list[int] = []
    follows = collect.Collector._follows

    def counting(self: collect.Collector, course: Any, now_us: int) -> Any:
        looked.append(now_us)
        return follows(self, course, now_us)

    monkeypatch.setattr(collect.Collector, "_follows", counting)
    for _ in range(20):
        camp.beat("a")
    camp.pass_s(5.0)
    assert looked == []
    camp.commit("a")
    assert looked


def test_every_signal_is_acknowledged_or_refused_by_name() -> None:
    camp = training("a", "b", **SLOW)
    taken = camp.tell(ModelHash("a", 1, 0, model(0)))
    assert taken == Taken("RoundTrain", 0, 0)
    assert code(camp.tell(ModelHash("a", 1, 5, model(5)))) == "wrong_step"
    assert code(camp.tell(ModelHash("x", 1, 0, model(0)))) == "unknown_member"
    assert code(camp.tell(ModelHash("a", 2, 0, model(0)))) == "contradiction"


def test_losses_come_first_and_what_follows_from_them_in_the_same_entry() -> None:
    camp = training("a", "b", "c", **(SLOW | {"round_witness_s": 90.0}))
    camp.commit()
    camp.hold()
    camp.hash("a", "b")
    camp.pass_s(LOST_S, "c")
    assert [type(event) for event in camp.events()] == [MemberLost, RoundSealed]
    assert not camp.events()[1].late  # type: ignore[attr-defined]


def test_any_word_is_a_sign_of_life() -> None:
    camp = training("a", "b", **SLOW)
    for _ in range(4):
        camp.pass_s(20.0, "b")
        camp.tell(ModelHash("b", 1, 0, model(0)))
    assert camp.states()["b"] == "InStep"


def test_who_catches_up_is_not_in_the_round_and_says_so_in_vain() -> None:
    camp = training("a", "b", "c", **SLOW)
    camp.turn()
    camp.join("c")
    assert code(camp.tell(Holds("c", 2, **camp.held("c")))) == "wrong_step"
    assert code(camp.miss("c", 0)) == "wrong_step"
    assert code(camp.accuse("c", "a")) == "wrong_step"


def test_the_silence_of_an_older_life_is_not_held_against_the_new_one() -> None:
    """It joins in the very moment in which the older one would have been given up."""
    camp = training("a", "b", "c", **SLOW)
    camp.pass_s(30.0, "c")
    camp.hand.now_us += 1
    camp.join("c")
    assert (camp.states()["c"], camp.all_events(MemberLost)) == ("Resyncing", [])
    camp.pass_s(LOST_S, "c")
    assert camp.states()["c"] == "Lost"


def test_who_was_removed_is_not_lost_too() -> None:
    camp = training("a", "b", "c", "d", **SLOW)
    camp.turn()
    camp.accuse("a", "d")
    camp.accuse("b", "d")
    camp.pass_s(2 * LOST_S)
    assert (camp.states()["d"], camp.all_events(MemberLost)) == ("Removed", [])


def test_a_host_cannot_lose_a_life_that_is_over() -> None:
    camp = training("a", "b", **SLOW)
    camp.join("b")
    assert camp.propose(MemberLost("b", 1, 1, "silent")).code == "superseded"
    assert camp.propose(MemberLost("x", 1, 1, "silent")).code == "unknown_member"


def test_it_wakes_when_the_window_ends() -> None:
    camp = training("a", "b", **SLOW)
    now_us = camp.hand.now_us
    wake_us = camp.collector.wake_us()
    assert wake_us is not None
    assert wake_us <= now_us + us(100)
    camp.pass_s(100.0)
    assert camp.phase == "RoundWitness"


def test_a_second_word_for_the_same_thing_replaces_the_first() -> None:
    camp = training("a", "b", "c", **SLOW)
    camp.commit()
    camp.hold()
    camp.hash("a", mark="wrong")
    camp.hash("a")
    camp.hash("b", "c")
    assert (camp.course.step, set(camp.states().values())) == (1, {"InStep"})


def test_a_number_that_does_not_grow_is_no_sign_of_life() -> None:
    camp = training("a", "b", **SLOW)
    for _ in range(32):
        camp.wait_us(1_000_000)
        camp.tell(Beat("a", 1, 7))
        camp.beat("b")
    assert camp.states()["a"] == "Lost"

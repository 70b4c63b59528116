"""A Bloom filter claims some results by chance: what it claims keeps nobody out for good."""

from __future__ import annotations

from typing import Any

from tests.core.witnessed.camp import Camp, training

SLOW: dict[str, Any] = {
    "round_train_max_s": 100.0, "round_witness_s": 10.0, "adaptive_deadline": False, "attestation": "bloom",
}  # fmt: skip


def test_who_misses_what_its_filter_claimed_is_not_out() -> None:
    camp = training("a", "b", "c", **SLOW)
    camp.turn()
    for name in "abc":
        camp.miss(name, 1)
    assert camp.course.past[0].voided == [1]
    assert camp.states() == {"a": "InStep", "b": "InStep", "c": "InStep"}
    assert not any(member.ejected for member in camp.course.members.values())


def accused() -> Camp:
    camp = training("a", "b", "c", "d", **SLOW)
    camp.turn()
    camp.accuse("a", "d")
    camp.accuse("b", "d")
    return camp


def test_who_does_not_deliver_what_its_filter_claimed_is_out_for_this_epoch_only() -> None:
    camp = accused()
    assert (camp.states()["d"], camp.who("d").ejected) == ("Removed", False)
    assert camp.who("d").reason == "2 of 3 others do not get from it what it attested"
    camp.join("d")
    assert camp.states()["d"] == "Pending"


def test_its_work_goes_to_others_all_the_same() -> None:
    camp = accused()
    assert "d" not in {work.member for work in camp.round.works}
    camp.turn()
    assert camp.course.step == 2

"""A Bloom filter claims some results by chance: what it claims keeps nobody out for good."""

from __future__ import annotations

from typing import Any

from tests.core.witnessed.camp import Camp, training

from quoracy.core.witnessed import evidence
from quoracy.core.witnessed.views import RESULTS

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


def test_a_filter_is_keyed_with_what_nobody_could_know_before_it_committed() -> None:
    """Else a maker could try digests until the filters of others claim its result by chance."""
    camp = training("a", "b", "c", **SLOW)
    salts = []
    for work in list(camp.round.works):
        camp.commit(work.member)
        salts.append(camp.machine.look(RESULTS, "a").salt)
    assert salts == [result.salt for result in camp.round.results]
    assert len({*salts, camp.round.seed}) == 4, "drawn anew with each result, and not from what was shown before"
    said = camp.held("a", known=2)
    read = evidence.read(camp.course.scheme, camp.round, "a", said["held"], 2)
    assert read == 0b11, "an earlier list is read with the salt that was shown with it"


def test_bitmaps_need_no_salt() -> None:
    camp = training("a", "b", "c", **(SLOW | {"attestation": "bitmap"}))
    camp.commit(camp.round.works[0].member)
    assert camp.machine.look(RESULTS, "a").salt == b""


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

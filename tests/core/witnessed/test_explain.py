"""What the run is waiting for, in words; and the run in figures."""

from __future__ import annotations

from typing import Any

from tests.core.witnessed.camp import Camp, camping, model, training

from quoracy.core.machine import Wait
from quoracy.core.witnessed.events import RunPaused, RunStopped

SLOW: dict[str, Any] = {"round_train_max_s": 100.0, "round_witness_s": 10.0, "adaptive_deadline": False}


def waits(camp: Camp) -> list[Wait]:
    return list(camp.explain().waits)


def test_while_members_are_missing_it_says_how_many_and_who_was_here() -> None:
    camp = Camp(init_min_clients=3)
    camp.join("a", "b")
    camp.leave("b")
    (wait,) = waits(camp)
    assert (wait.what, wait.missing, wait.left_us) == (
        "epoch 0: 1 of init_min_clients = 3 members are there", ("b",), None,
    )  # fmt: skip


def test_while_more_may_come_it_says_when_it_begins() -> None:
    camp = camping("a", "b", waiting_extra_s=3.0)
    camp.pass_s(1.0)
    (wait,) = waits(camp)
    assert (wait.what, wait.left_us, wait.then) == (
        "epoch 0: 2 members are there, more may come", 2_000_000, "it begins",
    )  # fmt: skip


def test_in_warmup_it_says_who_has_not_loaded() -> None:
    camp = camping("a", "b", "c")
    camp.load("b")
    (wait,) = waits(camp)
    assert wait.what == "epoch 0 warms up: 1 of 3 have the model of step 0 (initial)"
    assert (wait.missing, wait.left_us, wait.then) == (("a", "c"), 60_000_000, "the first round begins without them")
    camp = camping("a", "b", min_clients=2)
    assert waits(camp)[0].then == "it waits for members again"


def test_in_training_it_says_whose_results_are_missing_and_which_witnesses() -> None:
    camp = training("a", "b", "c", **SLOW)
    camp.commit("a")
    (results, quorum) = waits(camp)
    assert results.what == "round 0 of epoch 0: 1 of 3 results are committed"
    assert (results.missing, results.left_us, results.then) == (("b", "c"), 100_000_000, "it goes on without those")
    assert quorum.what == "round 0 of epoch 0: 1 results lack a quorum of 2 of 3 witnesses"
    camp.commit("b", "c")
    camp.hold("a")
    (quorum,) = waits(camp)
    assert quorum.what == "round 0 of epoch 0: 3 results lack a quorum of 2 of 3 witnesses"
    assert quorum.missing == ("b", "c")


def test_work_that_waits_for_the_next_round_is_said_too() -> None:
    camp = training("a", "b", **SLOW)
    index = camp.works("b")[0].index
    camp.pass_s(60.0)
    camp.leave("b")
    assert f"assignments {index} wait for the next round" in camp.explain().sentence


def test_in_witnessing_it_says_who_has_not_attested_who_lacks_results_and_who_has_said_no_hash() -> None:
    camp = training("a", "b", "c", "d", witness_nodes=2, min_clients=2, **(SLOW | {"witness_quorum": "1/2"}))
    camp.commit()
    first, second = camp.round.witnesses
    camp.hold(first)
    others = tuple(sorted(set("abcd") - {first, second}))
    camp.hash(first)
    attested, lacking, silent = waits(camp)
    assert (attested.what, attested.missing) == (
        "round 0 of epoch 0: 1 of 2 witnesses have attested", (second,),
    )  # fmt: skip
    assert (lacking.what, lacking.missing) == ("round 0 of epoch 0: all results", others)
    assert (silent.what, silent.missing) == (
        "round 0 of epoch 0: the hash of the model of step 0", tuple(sorted(set("abcd") - {first})),
    )  # fmt: skip
    assert {wait.left_us for wait in (attested, lacking, silent)} == {10_000_000}


def test_in_cooldown_it_says_who_has_said_no_hash_and_then_who_is_to_store_it() -> None:
    camp = training("a", "b", rounds_per_epoch=1, **SLOW)
    camp.turn()
    camp.hash("a")
    (wait,) = waits(camp)
    assert wait.what == "epoch 0 cools down (rounds_per_epoch = 1 are over): the hash of the model of step 1"
    assert (wait.missing, wait.then) == (("b",), "without a majority it goes back to step 0")
    camp.hash("b")
    camp.pass_s(2.0)
    stored, over = waits(camp)
    assert camp.course.storing is not None
    assert stored.what.endswith("the checkpoint of step 1")
    assert (stored.missing, stored.left_us, stored.then) == (
        (camp.course.storing.member,), 8_000_000, "another one is drawn",
    )  # fmt: skip
    assert (over.left_us, over.then) == (58_000_000, "it goes on with the model that the members have")


def test_silence_and_standing_still_are_told_apart() -> None:
    camp = training("a", "b", stuck_after_s=20.0, **SLOW)
    camp.pass_s(12.0, "b")
    assert ("a heartbeat", ("b",)) in [(wait.what, wait.missing) for wait in waits(camp)]
    camp.pass_s(20.0)
    for name in "ab":
        camp.beat(name, progress=1)
    camp.pass_s(19.0)
    assert not [wait for wait in waits(camp) if "stuck" in wait.what]


def test_alive_but_stuck() -> None:
    camp = training("a", "b", stuck_after_s=20.0, **SLOW)
    for second in range(25):
        camp.pass_s(1.0, "a", "b")
        camp.beat("a", progress=second)
        camp.beat("b", progress=1)
    stuck = [wait.missing for wait in waits(camp) if "stuck" in wait.what]
    assert stuck == [("b",)]
    shown = {member["id"]: member["stuck_s"] for member in camp.overview()["members"]}
    assert shown["a"] == 0
    assert shown["b"] >= 20


def test_every_phase_has_a_sentence() -> None:
    camp = Camp(init_min_clients=2, **SLOW)
    said = [camp.explain().sentence]
    camp.join("a", "b")
    said.append(camp.explain().sentence)
    camp.load()
    said.append(camp.explain().sentence)
    camp.commit()
    camp.hold()
    said.append(camp.explain().sentence)
    camp.order(RunPaused("lunch"))
    camp.hash()
    said.append(camp.explain().sentence)
    camp.cool()
    said.append(camp.explain().sentence)
    camp.order(RunStopped("enough"))
    said.append(camp.explain().sentence)
    assert all(said)
    assert len(set(said)) == 7


# -- figures -------------------------------------------------------------------------------------------------------


def test_the_overview_has_all_that_top_shows() -> None:
    camp = training("a", "b", "c", global_batch_size_start=9, **SLOW)
    camp.turn()
    camp.commit("a")
    camp.hold("b", known=1)
    camp.hash("c")
    shown = camp.overview()
    assert (shown["phase"], shown["epoch"], shown["round"], shown["step"]) == ("RoundTrain", 0, 1, 1)
    assert (shown["here"], shown["in_step"], shown["quorum"], shown["left_s"]) == (3, 3, 2, 100.0)
    assert shown["model"] == model(0).hex()
    assert shown["checkpoint"]["source"] == "initial"
    current = shown["current"]
    assert (current["round"], current["step"], current["roster"]) == (1, 1, ["a", "b", "c"])
    assert (current["attested"], current["results"], current["reported"]) == (["b"], 1, ["c"])
    assert sorted(current["missing"]) == ["a", "c"]
    assert {a["member"]: a["committed"] for a in current["assignments"]} == {"a": True, "b": False, "c": False}
    (one, *_) = shown["members"]
    assert (one["id"], one["state"], one["score"], one["of"], one["strikes"]) == ("a", "InStep", 3, 3, 0)
    assert (one["witness"], one["speed"], one["silent_s"]) == (True, 1000, 0.0)
    assert one["assignments"] == [work.index for work in camp.works("a")]
    (sealed,) = shown["sealed"]
    assert (sealed["step"], sealed["loss"], sealed["applied"], sealed["counts"]) == (0, 1.0, 9, True)
    counted = {"trained": 12, "applied": 9, "open": 9, "waiting": 0, "skipped": 0, "moved": 0, "returned": 0}
    assert shown["account"].items() >= counted.items()
    assert (shown["account"]["reasons"], shown["account"]["newest_skipped"]) == ({}, [])


def test_earlier_epochs_stay_to_be_asked_for() -> None:
    camp = training("a", "b", rounds_per_epoch=2, **SLOW)
    camp.turn()
    camp.turn()
    camp.cool()
    (past,) = camp.overview()["epochs"]
    assert (past["epoch"], past["first_step"], past["step"], past["rounds"]) == (0, 0, 2, 2)
    assert (past["roster"], past["checkpoint"]["source"]) == (["a", "b"], "stored")
    assert past["account"] == {"applied": 16, "skipped": 0, "moved": 0, "waiting": 0}


def test_all_who_are_silent_are_one_sentence() -> None:
    names = [f"m{i:02}" for i in range(12)]
    camp = training(*names, global_batch_size_start=12, **SLOW)
    camp.pass_s(12.0, *names)
    told = camp.explain()
    assert len(told.waits) == 13
    silent = "m00, m01, m02, m03, m04 and 7 more have sent no heartbeat for up to 12.0 s; the first is lost in 18.0 s"
    assert told.sentence.endswith(f". {silent}")

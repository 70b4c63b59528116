"""What members are shown: made once for all, sent to those whom it concerns, and small."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.witnessed.camp import Camp, camping, training

from quoracy.core.codec import encode
from quoracy.core.messages import Hello
from quoracy.core.shell import Received
from quoracy.core.witnessed.checkpoint import HOLDERS_SHOWN
from quoracy.core.witnessed.state import KEPT
from quoracy.core.witnessed.views import PEERS, RESULTS, ROUND, SEALED, SEALED_BRIEF, STANDING

SLOW: dict[str, Any] = {"round_train_max_s": 100.0, "round_witness_s": 10.0, "adaptive_deadline": False}


def topics(camp: Camp, name: str) -> list[str]:
    """Views it was told of, without the answers to its own signals."""
    return [t for t, _ in camp.told.get(name, []) if t in (STANDING, PEERS, ROUND, SEALED, SEALED_BRIEF, RESULTS)]


def test_what_all_are_shown_is_made_once_after_each_change() -> None:
    camp = training("a", "b", "c", **SLOW)
    camp.turn()
    camp.commit()
    for topic in (ROUND, RESULTS, SEALED, SEALED_BRIEF, PEERS):
        assert camp.machine.look(topic, "a") is camp.machine.look(topic, "b"), topic
    before = camp.machine.look(ROUND, "a")
    camp.leave("c")
    assert camp.machine.look(ROUND, "a") is not before


def test_a_round_costs_a_member_four_short_messages() -> None:
    """Results when all are in, that witnesses are waited for, what counts, and the next round."""
    camp = training("a", "b", "c", **SLOW)
    camp.turn()
    for name in "abc":
        assert topics(camp, name) == [RESULTS, ROUND, SEALED_BRIEF, ROUND]


def test_a_coordinator_sends_a_member_less_than_three_kilobytes_a_round_at_32_members() -> None:
    names = [f"m-{i:03}" for i in range(32)]
    camp = training(*names, global_batch_size_start=32, **SLOW)
    camp.turn()
    camp.told.clear()
    camp.turn()
    sizes = [sum(len(encode(value)) for _, value in camp.told[name]) for name in names]
    assert max(sizes) < 3000


def test_the_brief_says_where_in_the_list_of_results_what_counts_is() -> None:
    camp = training("a", "b", "c", **SLOW)
    camp.turn()
    listed = [value for topic, value in camp.told["a"] if topic == RESULTS][-1]
    brief = [value for topic, value in camp.told["a"] if topic == SEALED_BRIEF][-1].rounds[0]
    (full,) = camp.sealed("a").rounds
    assert (brief.results, brief.holders) == ((), ())
    assert [listed.results[i].digest for i in brief.positions] == [result.digest for result in full.results]
    assert [result.assignment for result in full.results] == [0, 1, 2]
    assert (brief.step, brief.epoch, brief.round, brief.model) == (full.step, full.epoch, full.round, full.model)


def test_the_base_of_results_is_said_once() -> None:
    camp = training("a", "b", "c", **SLOW)
    camp.commit("a", "b")
    camp.commit("c", base=b"x" * 32)
    shown = camp.machine.look(RESULTS, "a")
    assert {result.member: result.base or shown.base for result in shown.results} == {
        result.member: result.base for result in camp.round.results
    }
    assert sum(bool(result.base) for result in shown.results) == 1


def test_the_last_few_applied_rounds_of_the_epoch_are_shown_oldest_first() -> None:
    camp = training("a", "b", rounds_per_epoch=12, **SLOW)
    for _ in range(KEPT + 3):
        camp.turn()
    assert [one.step for one in camp.sealed("a").rounds] == list(range(3, KEPT + 3))
    camp.turn()
    camp.cool()
    camp.load()
    assert camp.sealed("a").rounds == ()


def test_before_anything_is_sealed_nothing_is_shown_of_it() -> None:
    camp = training("a", "b", **SLOW)
    assert camp.machine.look(SEALED, "a").rounds == camp.machine.look(SEALED_BRIEF, "a").rounds == ()


def test_one_that_reconnects_is_shown_everything_again() -> None:
    camp = training("a", "b", **SLOW)
    camp.turn()
    camp.told.clear()
    camp._at_rest(camp.hand.report(Received("a", Hello("demo", "a", 1))))
    assert topics(camp, "a") == [STANDING, PEERS, ROUND, SEALED, RESULTS]
    assert camp.told["a"][3][1].rounds[0].results


def test_who_waits_is_shown_the_phase_and_nothing_else_of_the_rounds() -> None:
    camp = training("a", "b", **SLOW)
    camp.join("c")
    assert camp.machine.look(ROUND, "c") is not None
    for topic in (RESULTS, SEALED, PEERS):
        assert camp.machine.look(topic, "c") is None
    camp.told.clear()
    camp.turn()
    assert set(topics(camp, "c")) == {ROUND}
    assert camp.machine.look(ROUND, "nobody") is None
    assert camp.machine.topics("nobody") == []


def test_everybody_is_told_when_an_epoch_begins_and_ends() -> None:
    camp = training("a", "b", rounds_per_epoch=1, **SLOW)
    camp.join("c")
    camp.told.clear()
    camp.turn()
    assert topics(camp, "c") == [ROUND]
    camp.told.clear()
    camp.cool()
    assert set(topics(camp, "c")) == {STANDING, PEERS, ROUND}
    assert {value.state for topic, value in camp.told["c"] if topic == STANDING} == {"Warming"}


@pytest.mark.parametrize("phase", ["Warmup", "RoundTrain", "RoundWitness", "Cooldown"])
def test_a_view_says_how_long_the_phase_lasts_when_it_was_made(phase: str) -> None:
    camp = camping("a", "b", rounds_per_epoch=1, **SLOW)
    if phase != "Warmup":
        camp.load()
    if phase in ("RoundWitness", "Cooldown"):
        camp.commit()
        camp.hold()
    if phase == "Cooldown":
        camp.hash()
    shown = camp.machine.look(ROUND, "a")
    assert (shown.phase, shown.left_us) == (
        phase, {"Warmup": 60, "RoundTrain": 100, "RoundWitness": 10, "Cooldown": 60}[phase] * 1_000_000,
    )  # fmt: skip
    assert camp.overview()["left_s"] == shown.left_us / 1e6


def test_holders_of_a_sealed_result_are_few_and_others_for_each() -> None:
    names = [f"m{i:02}" for i in range(HOLDERS_SHOWN + 6)]
    camp = training(*names, global_batch_size_start=len(names), **SLOW)
    camp.hash()
    camp.commit()
    camp.hold(*names[:-1])
    camp.pass_s(10.0)
    (shown,) = camp.sealed(names[0]).rounds
    assert {len(holders) for holders in shown.holders} == {HOLDERS_SHOWN}
    assert len(set(shown.holders)) > 10
    assert all(names[-1] not in holders for holders in shown.holders)


def test_peers_are_those_who_take_part_with_key_and_address() -> None:
    camp = Camp(init_min_clients=2)
    camp.join("a", key=b"ka", addresses=("one:1", "two:2"))
    camp.join("b")
    peers = camp.machine.look(PEERS, "a")
    assert [(p.member, p.incarnation, p.key, p.addresses) for p in peers.peers] == [
        ("a", 1, b"ka", ("one:1", "two:2")), ("b", 1, b"key", ()),
    ]  # fmt: skip


def test_who_has_the_model_and_waits_is_a_peer_too() -> None:
    """More than may take part: the model must be had from those who wait."""
    camp = training("a", "b", max_clients=2, min_clients=2, rounds_per_epoch=1, checkpoint="none", **SLOW)
    camp.join("c", "d")
    camp.pass_s(1.0)
    camp.turn()
    camp.hash()
    assert camp.states() == {"a": "Pending", "b": "Pending", "c": "Warming", "d": "Warming"}
    load = camp.standing("c").load
    assert load is not None
    assert sorted(load.holders) == ["a", "b"]
    assert [peer.member for peer in camp.machine.look(PEERS, "c").peers] == ["a", "b", "c", "d"]


def test_one_that_waits_for_the_next_epoch_is_shown_every_phase_meanwhile() -> None:
    camp = training("a", "b", "c", rounds_per_epoch=2, **SLOW)
    camp.join("late")
    assert camp.states()["late"] == "Pending"
    camp.told.clear()
    camp.turn()
    shown = [(value.phase, value.round) for topic, value in camp.told["late"] if topic == ROUND]
    assert shown == [("RoundWitness", 0), ("RoundTrain", 1)]
    assert topics(camp, "late") == [ROUND, ROUND], "what only members in step need is not sent to it"

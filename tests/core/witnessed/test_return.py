"""Coming back: a member that lost the thread catches up in the same epoch, and a coordinator that died goes on in the
middle of a round."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.witnessed.camp import LOST_S, Camp, code, model, training
from tests.core.witnessed.scenes import SCENES

from quoracy.core.members import Accepted
from quoracy.core.witnessed.events import ModelHash, RoundSealed, RunPaused, RunResumed, TrainEnded
from quoracy.core.witnessed.views import PEERS, SEALED

SLOW: dict[str, Any] = {"round_train_max_s": 100.0, "round_witness_s": 10.0, "adaptive_deadline": False}


# -- members -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["restart", "lost", "left"])
def test_a_member_of_the_epoch_that_joins_again_catches_up_in_it(how: str) -> None:
    camp = training("a", "b", "c", **SLOW)
    camp.turn()
    if how == "lost":
        camp.pass_s(LOST_S, "c")
    elif how == "left":
        camp.leave("c")
    answer = camp.try_join("c")
    assert isinstance(answer, Accepted)
    assert answer.result is not None
    assert (answer.result["status"], answer.result["epoch"], answer.result["incarnation"]) == ("accepted", 0, 2)
    assert camp.states()["c"] == "Resyncing"
    load = camp.standing("c").load
    assert load is not None
    assert (load.source, load.step, load.model, set(load.holders)) == ("p2p", 0, model(0), {"a", "b"})
    assert [one.step for one in camp.sealed("c").rounds] == [0]
    camp.hash("c")
    camp.turn("a", "b")
    assert (camp.states()["c"], camp.round.roster) == ("InStep", ("a", "b", "c"))


def test_what_it_needs_to_catch_up_is_sent_with_the_answer() -> None:
    camp = training("a", "b", "c", **SLOW)
    camp.turn()
    camp.told.clear()
    camp.join("c", addresses=("host:7",))
    assert {topic for topic, _ in camp.told["c"]} == {"standing", "peers", "round", "sealed", "results"}
    peers = [value for topic, value in camp.told["a"] if topic == PEERS][-1]
    (peer,) = [one for one in peers.peers if one.member == "c"]
    assert (peer.incarnation, peer.addresses) == (2, ("host:7",))


def test_while_it_catches_up_it_is_told_what_is_sealed_in_full_and_the_newest_model() -> None:
    camp = training("a", "b", "c", **SLOW)
    camp.turn()
    camp.join("c")
    camp.told.clear()
    camp.turn("a", "b")
    sealed = [value for topic, value in camp.told["c"] if topic == SEALED][-1]
    assert [one.step for one in sealed.rounds] == [0, 1]
    assert all(one.results for one in sealed.rounds)
    standing = [value for topic, value in camp.told["c"] if topic == "standing"][-1]
    assert standing.load.step == 1


def test_a_member_of_an_earlier_epoch_waits_for_the_next() -> None:
    camp = training("a", "b", "c", rounds_per_epoch=1, min_clients=2, **SLOW)
    camp.turn()
    camp.leave("c")
    camp.cool()
    camp.load()
    camp.join("c")
    assert camp.states() == {"a": "InStep", "b": "InStep", "c": "Pending"}


def test_in_warmup_it_warms_up_again_and_what_its_older_life_said_is_forgotten() -> None:
    camp = training("a", "b", **SLOW)
    camp.order(RunPaused())
    camp.turn()
    camp.cool()
    camp.order(RunResumed())
    camp.load("b")
    camp.join("b")
    assert camp.states() == {"a": "Warming", "b": "Warming"}
    camp.load("a")
    assert camp.phase == "Warmup"
    camp.load("b")
    assert camp.phase == "RoundTrain"


def test_a_superseded_life_is_told_so() -> None:
    camp = training("a", "b", **SLOW)
    camp.join("b")
    assert code(camp.tell(ModelHash("b", 1, 0, model(0)))) == "superseded"


def test_who_is_not_here_is_refused_by_name() -> None:
    camp = training("a", "b", **SLOW)
    camp.leave("b")
    assert code(camp.beat("b")) == "member_gone"
    assert code(camp.tell(ModelHash("x", 1, 0, model(0)))) == "unknown_member"


# -- the coordinator -----------------------------------------------------------------------------------------------


def test_a_coordinator_that_comes_back_goes_on_with_the_round() -> None:
    camp = training("a", "b", "c", **SLOW)
    camp.commit("a", "b")
    before = (camp.round.seed, camp.round.number, camp.round.witnesses, len(camp.round.results))
    camp = camp.takeover()
    assert (camp.round.seed, camp.round.number, camp.round.witnesses, len(camp.round.results)) == before
    camp.commit("c")
    camp.hold()
    camp.hash()
    assert (camp.course.step, camp.account()) == (1, (8, 8, 0, 0))


def test_what_was_only_signalled_is_said_again_and_counts_once() -> None:
    camp = training("a", "b", "c", **SLOW)
    camp.commit()
    camp.hold("a")
    camp.hash("a", "b", "c")
    camp = camp.takeover()
    camp.hold("b")
    assert camp.phase == "RoundTrain"  # what a said died with the coordinator that heard it
    camp.hold("a")
    assert camp.phase == "RoundWitness"
    camp = camp.takeover("gamma")
    camp.hold()
    assert camp.phase == "RoundWitness"
    camp.hash()
    assert (camp.course.step, len(camp.all_events(TrainEnded)), len(camp.all_events(RoundSealed))) == (1, 1, 1)


@pytest.mark.parametrize("phase", ["WaitingForMembers", "Warmup", "RoundTrain", "RoundWitness", "Cooldown", "Paused"])
def test_in_every_phase_another_coordinator_goes_on(phase: str) -> None:
    camp = Camp(SCENES["run", phase]())
    camp.seqs = {name: member.seq for name, member in camp.run.roster.members.items()}
    before = camp.state()
    later = camp.takeover()
    assert (later.phase, later.machine.sections()) == (phase, camp.machine.sections())
    assert before == camp.state()
    later.pass_s(1.0)


def test_downtime_counts_for_nothing_and_every_window_starts_afresh() -> None:
    camp = training("a", "b", **SLOW)
    camp.pass_s(99.0)
    camp = camp.takeover()
    camp.pass_s(99.0)
    assert camp.phase == "RoundTrain"
    camp.pass_s(1.0)
    assert camp.phase == "RoundWitness"


def test_a_coordinator_that_comes_back_waits_for_the_dead_no_longer_than_the_first_would_have() -> None:
    """Whom it finds in the journal it has to hear from, also if it never does."""
    camp = training("a", "b", "c", **SLOW)
    (work,) = camp.works("c")
    camp = camp.takeover()
    camp.pass_s(LOST_S, "c")
    assert camp.states() == {"a": "InStep", "b": "InStep", "c": "Lost"}
    assert camp.round.works[work.index].member in ("a", "b")


def test_a_host_that_stood_still_has_heard_nobody_and_gives_nobody_up() -> None:
    camp = training("a", "b", **SLOW)
    camp.wait_us(200_000_000)
    assert (camp.phase, camp.states()) == ("RoundTrain", {"a": "InStep", "b": "InStep"})
    camp.pass_s(100.0)
    assert camp.phase == "RoundWitness"

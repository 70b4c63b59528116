"""A member through its lives: what it says again, what it begins anew, when it asks, and when it is over."""

from __future__ import annotations

import msgspec
import pytest
from tests.core.witnessed.player import NAMES, Player, blob, model, result_of, round_shown, sealed

from quoracy.core.witnessed import facts
from quoracy.core.witnessed.events import Attest, BeatSeen, Holds, Loaded, ModelHash
from quoracy.core.witnessed.views import Pointer, ResultsShown, SealedList


def test_after_a_reconnection_everything_that_is_open_is_said_again() -> None:
    player = Player()
    shown = player.starts()
    player.whole_round(shown)
    (attest,), (report,) = player.said(Attest), player.said(ModelHash)
    player.actions.clear()
    player.tell(facts.Connected())
    assert {action.signal for action in player.take(facts.Send)} == {attest, report}


def test_a_signal_that_nothing_has_come_of_is_sent_again_now_and_then() -> None:
    player = Player()
    player.starts()
    (report,) = player.said(ModelHash)
    player.tick(999)
    assert player.said(ModelHash) == []
    player.tick(1)
    assert player.said(ModelHash) == [report]


def test_what_has_been_used_is_not_said_again() -> None:
    player = Player()
    shown = player.starts()
    results = player.whole_round(shown)
    player.seals(shown, results)
    player.applies()
    player.in_round(1, 1)
    player.actions.clear()
    player.tick(5000)
    assert {type(action.signal) for action in player.take(facts.Send)} == {ModelHash}


def test_loaded_is_said_until_rounds_begin() -> None:
    player = Player()
    player.warm_up()
    player.tick(2000)
    assert len(player.said(Loaded)) == 3
    player.in_round()
    player.tick(5000)
    assert player.said(Loaded) == []


def test_a_new_life_begins_with_the_model_and_the_blobs_it_still_has() -> None:
    player = Player()
    shown = player.starts()
    results = player.whole_round(shown)
    player.seals(shown, results)
    player.applies()
    second = player.in_round(1, 1)
    theirs = result_of("b", second)
    player.show(ResultsShown(0, 1, (theirs,)))
    player.holds(theirs)
    player.begin()
    player.actions.clear()
    player.stand("Resyncing", load=Pointer("p2p", 1, model(1), holders=("b",)))
    player.show(second)
    assert player.take(facts.Load) == []
    assert player.said(ModelHash) == [ModelHash("a", 2, 1, model(1))]
    player.seals(second, (theirs,))
    assert [result.digest for result in player.applies().results] == [theirs.digest]


def test_nothing_of_the_old_life_is_said_in_the_new_one() -> None:
    player = Player()
    shown = player.starts()
    player.whole_round(shown)
    player.begin()
    player.actions.clear()
    player.tick(5000)
    assert player.take(facts.Send) == []


def test_the_old_lifes_training_is_given_up() -> None:
    player = Player()
    player.starts()
    (train,) = player.take(facts.Train)
    player.begin()
    assert player.take(facts.Cease) == [facts.Cease(train.work)]


def test_a_standing_of_another_life_says_nothing() -> None:
    player = Player()
    player.begin()
    player.life = 1
    player.stand("Warming", load=Pointer("initial", 0))
    assert player.take(facts.Load) == []


def test_a_warm_up_that_was_long_under_way_takes_nobody_back() -> None:
    player = Player()
    shown = player.starts()
    results = player.whole_round(shown)
    player.seals(shown, results)
    player.applies()
    player.stand("Warming", load=Pointer("stored", 0, model(0)))
    assert player.take(facts.Load) == []
    assert player.part.sight.state() == "InStep"


@pytest.mark.parametrize(
    ("phase", "epoch", "round_"), [("RoundWitness", 0, 0), ("RoundTrain", 1, 0), ("RoundTrain", 0, 1)]
)
def test_a_heartbeat_answered_from_elsewhere_makes_it_ask(phase: str, epoch: int, round_: int) -> None:
    player = Player()
    player.starts()
    player.tell(facts.BeatAnswered(BeatSeen(1, "RoundTrain", 0, 0)))
    assert player.take(facts.Ask) == []
    player.tell(facts.BeatAnswered(BeatSeen(2, phase, epoch, round_)))
    assert player.take(facts.Ask) == [facts.Ask()]


def test_a_seal_that_was_overtaken_before_it_was_read_makes_it_ask() -> None:
    """Of views that wait to be read only the newest is kept: the step of that tells that one is missing."""
    player = Player()
    player.starts()
    first, second = round_shown(), round_shown(1, 1)
    mine, theirs = result_of("a", first), result_of("b", second)
    missed = sealed(first, (mine,))
    player.show(second)
    player.take(facts.Ask)
    player.seals(second, (theirs,))
    assert player.take(facts.Ask) == [facts.Ask()]
    player.tick(1000)
    player.take(facts.Ask)
    player.show(SealedList((missed, sealed(second, (theirs,)))))
    assert player.take(facts.Ask) == [], "nothing is missing any more"


def test_who_waits_and_hears_nothing_asks() -> None:
    player = Player()
    player.stand("Pending")
    player.tick(19_999)
    assert player.take(facts.Ask) == []
    player.tick(20_002)
    assert len(player.take(facts.Ask)) == 2


def test_who_works_does_not_ask() -> None:
    player = Player()
    player.starts()
    player.tick(100_000)
    assert player.take(facts.Ask) == []


def test_it_does_not_ask_without_end() -> None:
    player = Player()
    player.starts()
    for seq in range(50):
        player.tell(facts.BeatAnswered(BeatSeen(seq, "Cooldown", 0, 0)))
    assert len(player.take(facts.Ask)) == 1


def test_the_order_in_which_views_come_does_not_matter() -> None:
    shown = round_shown()
    results = tuple(result_of(name, shown) for name in NAMES)
    views = [shown, ResultsShown(0, 0, results)]
    for ordered in (views, views[::-1]):
        player = Player()
        player.warm_up()
        player.stand("InStep")
        player.show(*ordered)
        player.holds(*results)
        assert len(player.said(Attest)) == 1
        assert player.said(Holds) == []


@pytest.mark.parametrize("state", ["Removed", "Done"])
def test_when_it_is_over_it_says_so_once_and_does_nothing_more(state: str) -> None:
    player = Player()
    shown = player.starts()
    (train,) = player.take(facts.Train)
    player.actions.clear()
    player.stand(state, reason="three bad rounds")
    assert player.actions == [facts.Cease(train.work), facts.Done("three bad rounds", state)]
    player.actions.clear()
    player.show(shown, SealedList(()))
    player.tell(facts.Connected())
    player.tick(100_000)
    assert player.actions == []
    assert player.part.wake_us() is None


def test_a_run_that_is_finished_is_over_for_those_who_wait_too() -> None:
    player = Player()
    player.stand("Pending", phase="Finished")
    assert player.take(facts.Done) == [facts.Done("the run is Finished", "Pending")]


def finished(player: Player, step: int) -> str:
    player.stand("Done", phase="Finished", load=Pointer("stored", step, model(step), blob("file")))
    (done,) = player.take(facts.Done)
    return done.reason


def test_who_has_the_model_that_the_run_ended_with_has_nothing_to_say_of_it() -> None:
    player = Player()
    player.starts()
    assert finished(player, 0) == "the run is Finished"


def test_who_has_another_at_the_end_says_which() -> None:
    player = Player()
    player.starts()
    mine, last = model(0).hex()[:12], model(2).hex()[:12]
    said = f"this member has the model of step 0 ({mine}); the run ended with that of step 2 ({last})"
    assert finished(player, 2) == f"the run is Finished; {said}"
    player = Player()
    player.begin()
    assert finished(player, 2).startswith("the run is Finished; this member has no model; the run ended with")


def test_what_is_being_applied_at_the_end_will_be_applied() -> None:
    for last, short in ((1, False), (2, True)):
        player = Player()
        shown = player.starts()
        player.seals(shown, player.whole_round(shown))
        assert player.take(facts.Apply)
        assert ("this member has" in finished(player, last)) is short


def test_who_has_the_model_and_cannot_be_reached_lends_it_to_the_others() -> None:
    """Nobody else who has it can be reached either. Once in each warm-up."""
    player = Player()
    player.warm_up(3)
    pointer = Pointer("p2p", 3, model(3), holders=("b",))
    for name in ("a", "b"):
        player.part.sight.peers[name] = msgspec.structs.replace(player.part.sight.peers[name], addresses=())
    player.stand("Warming", 1, load=pointer)
    player.stand("Warming", 1, load=pointer)
    assert player.take(facts.Lend) == [facts.Lend(3, model(3))]
    player.stand("Warming", 2, load=pointer)
    assert player.take(facts.Lend) == [facts.Lend(3, model(3))]


@pytest.mark.parametrize("reachable", ["a", "b"])
def test_where_a_holder_can_be_reached_nothing_is_lent(reachable: str) -> None:
    player = Player()
    player.warm_up(3)
    for name in {"a", "b"} - {reachable}:
        player.part.sight.peers[name] = msgspec.structs.replace(player.part.sight.peers[name], addresses=())
    player.stand("Warming", 1, load=Pointer("p2p", 3, model(3), holders=("b",)))
    assert player.take(facts.Lend) == []
    player.part.sight.peers["b"] = msgspec.structs.replace(player.part.sight.peers["b"], addresses=())
    player.stand("Warming", 1, load=Pointer("stored", 3, model(3), blob("file")))
    assert player.take(facts.Lend) == []

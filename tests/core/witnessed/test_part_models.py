"""A member's model: loaded, brought forward by what was sealed, never by anything else; lost and found again."""

from __future__ import annotations

import msgspec
from tests.core.witnessed.player import NAMES, Player, blob, model, result_of, round_shown, sealed

from quoracy.core.witnessed import facts
from quoracy.core.witnessed.events import CheckpointStored, Loaded, ModelHash
from quoracy.core.witnessed.state import KEPT
from quoracy.core.witnessed.views import Pointer, Result, ResultsShown, RoundShown, SealedList, SealedShown


def p2p(step: int, branch: str = "") -> Pointer:
    return Pointer("p2p", step, model(step, branch), holders=("b", "c"))


def history(first: int, last: int) -> SealedList:
    """What was sealed from one step to another."""
    rounds = [round_shown(step, step) for step in range(first, last + 1)]
    return SealedList(tuple(sealed(shown, tuple(result_of(name, shown) for name in "bc")) for shown in rounds))


def digests(shown: SealedShown) -> list[bytes]:
    return [result.digest for result in shown.results]


# -- loading ---------------------------------------------------------------------------------------------------------


def test_the_model_is_loaded_and_then_reported() -> None:
    player = Player()
    pointer = p2p(4)
    player.stand("Warming", 3, load=pointer)
    assert player.take(facts.Load) == [facts.Load(pointer)]
    assert player.said(Loaded) == []
    player.tell(facts.ModelLoaded(4, model(4)))
    assert player.said(Loaded) == [Loaded("a", 1, 3, 4, model(4))]


def test_who_has_the_model_need_not_load_it() -> None:
    player = Player()
    player.warm_up(4)
    player.said(Loaded)
    player.stand("Warming", 1, load=p2p(4))
    assert player.take(facts.Load) == []
    assert player.said(Loaded) == [Loaded("a", 1, 1, 4, model(4))]


def test_a_model_with_another_hash_than_the_agreed_one_is_not_taken() -> None:
    player = Player()
    player.stand("Warming", load=p2p(4))
    player.take(facts.Load)
    player.tell(facts.ModelLoaded(4, model(4, "forged")))
    assert player.said(Loaded) == []
    assert not player.take(facts.Load)
    player.tick(500)
    assert player.take(facts.Load) == [facts.Load(p2p(4))]


def test_the_first_model_of_all_is_taken_as_it_is() -> None:
    player = Player()
    player.stand("Warming", load=Pointer("initial", 0))
    player.take(facts.Load)
    player.tell(facts.ModelLoaded(0, model(0)))
    assert player.said(Loaded) == [Loaded("a", 1, 0, 0, model(0))]


def test_a_model_that_nobody_gives_is_asked_for_again() -> None:
    player = Player()
    player.stand("Warming", load=p2p(4))
    player.take(facts.Load)
    player.tell(facts.ModelNotLoaded("nobody answers"))
    assert player.take(facts.Load) == []
    player.tick(500)
    assert len(player.take(facts.Load)) == 1


def test_another_pointer_replaces_what_is_being_loaded() -> None:
    player = Player()
    player.stand("Warming", load=p2p(4))
    player.take(facts.Load)
    back = Pointer("stored", 2, model(2), blob("file"))
    player.stand("Warming", load=back)
    assert player.take(facts.Load) == [facts.Load(back)]
    player.tell(facts.ModelLoaded(2, model(2)))
    assert player.said(Loaded) == [Loaded("a", 1, 0, 2, model(2))]


def test_what_was_loaded_too_late_is_still_there() -> None:
    """The warm-up was over before the model had come: the next one may want it, or another."""
    player = Player()
    player.warm_up(2)
    player.stand("Warming", 1, load=p2p(4))
    player.stand("Pending", 2)
    player.take(facts.Load)
    player.tell(facts.ModelLoaded(4, model(4)))
    player.said(Loaded)
    player.stand("Warming", 2, load=p2p(4))
    assert not player.take(facts.Load)
    assert player.said(Loaded) == [Loaded("a", 1, 2, 4, model(4))]
    back = Pointer("stored", 2, model(2), blob("file"))
    player.stand("Warming", 3, load=back)
    assert player.take(facts.Load) == [facts.Load(back)]
    assert player.said(Loaded) == []


def test_who_catches_up_with_a_model_that_nobody_agreed_on_loads_another() -> None:
    """Also before anything was sealed in this epoch, and whatever it is that came."""
    player = Player()
    player.warm_up(3)
    player.stand("Resyncing", 1, load=p2p(7))
    player.show(round_shown(0, 7, epoch=1), SealedList(()))
    assert [load.pointer for load in player.take(facts.Load)] == [p2p(7)]
    player.tell(facts.ModelLoaded(7, model(7, "forged")))
    assert not player.take(facts.Load)
    player.tick(500)
    assert [load.pointer for load in player.take(facts.Load)] == [p2p(7)]
    assert player.said(ModelHash) == []
    player.tell(facts.ModelLoaded(7, model(7)))
    assert player.said(ModelHash) == [ModelHash("a", 1, 7, model(7), 1)]


# -- applying ----------------------------------------------------------------------------------------------------------


def test_exactly_what_was_sealed_is_applied_in_that_order_and_once() -> None:
    player = Player()
    shown = player.starts()
    results = player.whole_round(shown)
    it = player.seals(shown, results)
    player.show(SealedList((it,)))
    apply = player.applies()
    assert apply.step == 0
    assert [result.assignment for result in apply.results] == [0, 1, 2]
    player.show(SealedList((it,)))
    player.tick(5000)
    assert player.take(facts.Apply) == []


def test_what_is_not_sealed_is_not_applied() -> None:
    player = Player()
    shown = player.starts()
    results = player.whole_round(shown)
    player.seals(shown, results[:2])
    assert {result.digest for result in player.applies().results} == {result.digest for result in results[:2]}
    assert player.take(facts.Drop) == [facts.Drop((results[2].digest,))]


def test_a_brief_is_read_with_the_rounds_list() -> None:
    player = Player()
    shown = player.starts()
    results = player.whole_round(shown)
    whole = sealed(shown, results)
    player.show(SealedList((msgspec.structs.replace(whole, results=(), holders=()),)))
    assert [result.digest for result in player.applies().results] == digests(whole)


def test_a_brief_without_the_list_is_asked_about() -> None:
    player = Player()
    shown = player.starts()
    results = tuple(result_of(name, shown) for name in NAMES)
    whole = sealed(shown, results)
    player.show(SealedList((msgspec.structs.replace(whole, results=(), holders=()),)))
    assert player.take(facts.Ask) == [facts.Ask()]
    assert player.take(facts.Apply) == []
    player.show(SealedList((whole,)))
    player.holds(*results)
    assert [result.digest for result in player.applies().results] == digests(whole)


def test_nothing_is_applied_before_all_of_it_is_there() -> None:
    player = Player()
    shown = player.starts()
    results = tuple(result_of(name, shown) for name in NAMES)
    player.seals(shown, results)
    player.holds(*results[:2])
    assert player.take(facts.Apply) == []
    player.holds(results[2])
    player.applies()


def test_training_is_given_up_for_what_was_sealed() -> None:
    """The round was sealed without this member's work: it must not keep the model from going on."""
    player = Player()
    shown = player.starts()
    (train,) = player.take(facts.Train)
    results = (result_of("b", shown), result_of("c", shown))
    player.show(ResultsShown(0, 0, results))
    player.holds(*results)
    player.seals(shown, results)
    assert player.take(facts.Cease) == [facts.Cease(train.work)]
    player.applies()


def test_who_was_away_applies_all_it_has_missed_in_order() -> None:
    player = Player()
    player.warm_up()
    player.stand("Resyncing", load=p2p(2))
    missed = history(0, 2)
    player.show(round_shown(3, 3), missed)
    assert player.take(facts.Load) == []
    player.holds(*(result for shown in missed.rounds for result in shown.results))
    for step in (0, 1, 2):
        assert player.applies().step == step
    assert player.said(ModelHash)[-1] == ModelHash("a", 1, 3, model(3))


def test_it_asks_what_was_sealed_before_it_loads_a_whole_model() -> None:
    player = Player()
    player.warm_up()
    player.stand("Resyncing", load=p2p(2))
    player.show(round_shown(3, 3))
    assert (player.take(facts.Load), player.take(facts.Ask)) == ([], [facts.Ask()])
    player.show(SealedList(()))
    assert [load.pointer for load in player.take(facts.Load)] == [p2p(2)]


def test_what_lies_too_far_back_is_loaded() -> None:
    player = Player()
    player.warm_up()
    player.stand("Resyncing", load=p2p(9))
    player.show(round_shown(10, 10), history(2, 9))
    (load,) = player.take(facts.Load)
    assert load.pointer == p2p(9)
    assert load.agreed == tuple((step, model(step)) for step in range(9, 1, -1))


def test_who_catches_up_may_load_any_model_that_was_agreed_on_and_goes_on_from_there() -> None:
    player = Player()
    player.stand("Resyncing", load=p2p(5))
    past = history(3, 5)
    player.show(round_shown(6, 6), past)
    player.tell(facts.ModelLoaded(4, model(4)))
    player.holds(*(result for shown in past.rounds for result in shown.results))
    assert [player.applies().step, player.applies().step] == [4, 5]


def test_nothing_is_applied_to_a_model_that_most_do_not_have() -> None:
    player = Player()
    shown = player.starts()
    results = player.whole_round(shown)
    player.seals(shown, results)
    player.applies(branch=" gone wrong")
    player.said(ModelHash)
    second = player.in_round(1, 1)
    player.take(facts.Train)
    more = tuple(result_of(name, second) for name in NAMES)
    player.show(ResultsShown(0, 1, more))
    player.holds(*more)
    player.seals(second, more)
    player.in_round(2, 2)
    assert not player.take(facts.Apply)
    assert not player.take(facts.Train)
    assert player.said(ModelHash) == [ModelHash("a", 1, 1, model(1, " gone wrong"))]
    player.stand("Resyncing", load=p2p(1))
    assert [load.pointer for load in player.take(facts.Load)] == [p2p(1)]
    player.tell(facts.ModelLoaded(1, model(1)))
    assert player.applies().step == 1


def test_what_was_voided_is_applied_by_nobody() -> None:
    player = Player()
    shown = player.starts()
    results = tuple(result_of(name, shown) for name in NAMES)
    it = player.seals(shown, results)
    player.holds(*(result for result in results if result.assignment != 1))
    assert player.take(facts.Apply) == []
    player.show(SealedList((msgspec.structs.replace(it, voided=(1,)),)))
    assert [result.assignment for result in player.applies().results] == [0, 2]


def test_who_applied_what_was_voided_afterwards_has_the_wrong_model() -> None:
    player = Player()
    player.warm_up()
    player.stand("Resyncing", load=p2p(0))
    (it,) = history(0, 0).rounds
    player.show(round_shown(1, 1), SealedList((it,)))
    player.holds(*it.results)
    player.applies()
    player.show(SealedList((msgspec.structs.replace(it, voided=(0,)),)))
    assert [load.pointer for load in player.take(facts.Load)] == [p2p(0)]
    player.tell(facts.ModelLoaded(0, model(0)))
    assert [result.digest for result in player.applies().results] == [it.results[1].digest]


def test_who_is_in_step_with_what_was_voided_neither_trains_nor_reports() -> None:
    player = Player()
    shown = player.starts()
    results = player.whole_round(shown)
    it = player.seals(shown, results)
    player.applies()
    player.show(SealedList((msgspec.structs.replace(it, voided=(0,)),)))
    player.actions.clear()
    player.in_round(1, 1)
    player.tick(5000)
    assert not player.take(facts.Train)
    assert player.said(ModelHash) == []


def test_an_outcome_that_was_not_asked_for_changes_nothing() -> None:
    player = Player()
    shown = player.starts()
    player.seals(shown, player.whole_round(shown))
    player.tell(facts.ModelApplied(7, model(7)))
    assert player.part.footing.step == 0
    player.applies()
    player.tell(facts.ModelApplied(2, model(2)))
    player.tell(facts.ModelLoaded(7, model(7)))
    assert (player.part.footing.step, player.part.footing.model) == (1, model(1))


def test_who_is_loading_reports_no_model() -> None:
    player = Player()
    player.warm_up()
    player.stand("Resyncing", load=p2p(9))
    player.show(round_shown(10, 10), history(2, 9))
    assert player.take(facts.Load)
    player.actions.clear()
    player.tick(5000)
    assert player.said(ModelHash) == []


def test_a_list_without_what_was_voided_does_not_bring_it_back() -> None:
    player = Player()
    shown = player.starts()
    results = tuple(result_of(name, shown) for name in NAMES)
    it = player.seals(shown, results, voided=(1,))
    player.show(SealedList((msgspec.structs.replace(it, voided=()),)))
    player.holds(*results)
    assert [result.assignment for result in player.applies().results] == [0, 2]


# -- rolling back ----------------------------------------------------------------------------------------------------


def rolled_back() -> tuple[Player, RoundShown, tuple[Result, ...]]:
    """After step 0 was applied, the run goes back to it, and its first round is at step 0 again."""
    player = Player()
    first = player.starts()
    player.seals(first, player.whole_round(first))
    player.applies()
    player.stand("Warming", 1, load=Pointer("stored", 0, model(0), blob("file")), phase="Warmup")
    assert len(player.take(facts.Load)) == 1
    player.tell(facts.ModelLoaded(0, model(0)))
    again = player.in_round(0, 0, epoch=1)
    results = player.whole_round(again)
    return player, again, results


def test_after_a_roll_back_the_steps_are_counted_again() -> None:
    player, again, results = rolled_back()
    assert player.take(facts.Apply) == []
    it = player.seals(again, results)
    assert [result.digest for result in player.applies().results] == digests(it)


def test_what_was_sealed_before_a_roll_back_is_of_a_past_that_counts_no_more() -> None:
    player, again, results = rolled_back()
    past = round_shown(0, 0, epoch=0)
    old = tuple(result_of(name, past) for name in NAMES)
    player.seals(past, old)
    player.holds(*old)
    assert player.take(facts.Apply) == []
    player.seals(again, results)
    assert player.applies().epoch == 1


def test_who_slept_through_a_roll_back_forgets_what_was_sealed_before_it() -> None:
    player = Player()
    player.stand("Resyncing", 1, load=p2p(1))
    player.show(round_shown(2, 2, epoch=1), history(0, 2))
    again = round_shown(1, 1, epoch=1)
    results = tuple(result_of(name, again) for name in "bc")
    player.seals(again, results)
    player.show(history(1, 1))
    assert {step: shown.epoch for step, shown in player.part.footing.sealed.items()} == {0: 0, 1: 1}
    player.tell(facts.ModelLoaded(1, model(1)))
    player.holds(*results)
    assert player.applies().epoch == 1
    assert not player.take(facts.Apply)


def test_a_standing_from_before_a_roll_back_takes_nobody_back_to_it() -> None:
    player, _, _ = rolled_back()
    player.stand("Warming", 0, load=p2p(7))
    assert player.part.sight.state() == "InStep"
    assert not player.take(facts.Load)


# -- keeping ---------------------------------------------------------------------------------------------------------


def test_who_is_drawn_stores_the_model_once_and_says_so() -> None:
    player = Player()
    shown = player.starts()
    player.seals(shown, player.whole_round(shown))
    player.applies()
    player.show(round_shown(1, 1, phase="Cooldown"))
    player.stand("InStep", phase="Cooldown", store=True)
    assert player.take(facts.Store) == [facts.Store(1, model(1))]
    player.take(facts.Command)
    player.tell(facts.ModelStored(1, model(1), blob("file"), 7))
    (command,) = player.take(facts.Command)
    assert command.event is CheckpointStored
    assert command.fields == {"epoch": 0, "step": 1, "model": model(1), "digest": blob("file"), "size_bytes": 7}
    player.tick(50_000)
    assert player.take(facts.Store) == []


def test_the_model_is_not_stored_before_everything_is_applied() -> None:
    player = Player()
    shown = player.starts()
    results = tuple(result_of(name, shown) for name in NAMES)
    player.seals(shown, results)
    player.show(round_shown(1, 1, phase="Cooldown"))
    player.stand("InStep", phase="Cooldown", store=True)
    assert player.take(facts.Store) == []
    player.holds(*results)
    player.applies()
    assert player.take(facts.Store) == [facts.Store(1, model(1))]


def test_storing_is_tried_again() -> None:
    player = Player()
    player.starts()
    player.show(round_shown(0, 0, phase="Cooldown"))
    player.stand("InStep", phase="Cooldown", store=True)
    player.take(facts.Store)
    player.tell(facts.ModelNotStored(0, "no room"))
    assert player.take(facts.Store) == []
    player.tick(500)
    assert player.take(facts.Store) == [facts.Store(0, model(0))]


def test_results_of_the_last_steps_are_kept_for_those_who_catch_up() -> None:
    player = Player()
    shown = player.starts()
    dropped: list[bytes] = []
    mine: list[bytes] = []
    for step in range(KEPT + 3):
        results = player.whole_round(shown)
        mine.append(results[0].digest)
        player.seals(shown, results)
        player.applies()
        shown = player.in_round(step + 1, step + 1)
        dropped += [digest for drop in player.take(facts.Drop) for digest in drop.digests]
    kept = player.part.fetching.held
    assert [digest for digest in mine if digest in kept] == mine[-KEPT:]
    assert [digest for digest in mine if digest in dropped] == mine[:3]
    assert len(player.part.footing.sealed) == KEPT

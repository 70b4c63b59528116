"""Blobs: whom a member asks, what it does when nobody gives, and whom it accuses of that."""

from __future__ import annotations

import msgspec
import pytest
from tests.core.witnessed.player import NAMES, Player, assignment_of, blob, model, result_of, round_shown

from quoracy.core.witnessed import facts
from quoracy.core.witnessed.attestation import bitmap
from quoracy.core.witnessed.events import Attest, HealthCheck, Holds, ModelHash
from quoracy.core.witnessed.views import Pointer, Result, ResultsShown, RoundShown, SealedList


def stopped(holders: tuple[str, ...] = NAMES) -> tuple[Player, RoundShown, tuple[Result, ...], Result]:
    """What b made was sealed, with c's and its own; this member, in the next round, has not got b's."""
    player = Player()
    shown = player.starts()
    mine = player.trains()
    player.commits()
    results = (mine, result_of("b", shown), result_of("c", shown))
    player.show(ResultsShown(0, 0, results))
    player.holds(results[2])
    player.seals(shown, results, holders=tuple(holders for _ in results))
    later = player.in_round(1, 1)
    player.actions.clear()
    return player, later, results, results[1]


def place_of(result: Result) -> int:
    """Of the result in what was sealed: all were."""
    return result.assignment


# -- asking ----------------------------------------------------------------------------------------------------------


def test_a_result_is_asked_of_its_maker_and_then_of_everybody() -> None:
    player = Player()
    shown = player.starts()
    theirs = result_of("b", shown)
    player.show(ResultsShown(0, 0, (theirs,)))
    expected = facts.Blob(0, 0, theirs, assignment_of("b", shown).batches)
    assert player.take(facts.Fetch) == [facts.Fetch(expected, ("b",), "attest")]
    player.tell(facts.BlobGivenUp(theirs.digest, silent=("b",)))
    assert player.take(facts.Fetch) == []
    player.tick(500)
    assert player.take(facts.Fetch) == [facts.Fetch(expected, ("b", "c"), "attest")]


def test_what_was_announced_is_fetched_before_the_list_is_shown_and_once() -> None:
    player = Player(keyed=False)
    shown = player.starts()
    theirs = result_of("b", shown)
    player.peers()
    player.part.sight.peers["b"] = msgspec.structs.replace(player.part.sight.peers["b"], key=b"")
    player.tell(facts.ResultAnnounced("b", 0, 0, theirs, b""))
    assert [fetch.blob.result for fetch in player.take(facts.Fetch)] == [theirs]
    player.show(ResultsShown(0, 0, (theirs,)))
    assert player.take(facts.Fetch) == []


def test_what_failed_is_tried_ever_more_seldom() -> None:
    player = Player()
    shown = player.starts()
    theirs = result_of("b", shown)
    player.show(ResultsShown(0, 0, (theirs,)))
    pauses = []
    for _ in range(5):
        player.take(facts.Fetch)
        player.tell(facts.BlobGivenUp(theirs.digest, silent=("b", "c")))
        began_us = player.now_us
        while not player.take(facts.Fetch):
            player.tick(100)
        pauses.append(player.now_us - began_us)
    assert pauses == [500, 1000, 2000, 4000, 4000]


def test_what_is_sealed_is_asked_of_those_who_attested_it() -> None:
    player = Player()
    shown = player.starts()
    results = (result_of("b", shown), result_of("c", shown))
    player.show(ResultsShown(0, 0, results))
    player.take(facts.Fetch)
    player.seals(shown, results, holders=(("c",), ("b", "c")))
    asked = {fetch.blob.result.member: (fetch.holders, fetch.why) for fetch in player.take(facts.Fetch)}
    first, second = sorted(results, key=lambda result: result.assignment)
    assert asked == {first.member: (("c",), "apply"), second.member: (("b", "c"), "apply")}


def test_where_no_holders_are_named_everybody_has_it() -> None:
    player = Player()
    shown = player.starts()
    results = (result_of("b", shown), result_of("c", shown))
    player.seals(shown, results, holders=())
    assert {fetch.holders for fetch in player.take(facts.Fetch)} == {("b", "c")}


def test_a_member_that_comes_back_is_asked_at_once() -> None:
    player, _, _, lacked = stopped()
    player.tell(facts.BlobGivenUp(lacked.digest, silent=("b", "c")))
    player.take(facts.Fetch)
    player.peers(lives=2)
    player.tick(1)
    assert [fetch.blob.result for fetch in player.take(facts.Fetch)] == [lacked]


def test_a_blob_that_nobody_wants_any_more_is_dropped() -> None:
    player = Player()
    player.starts()
    player.tell(facts.BlobHeld(blob("of long ago")))
    assert player.take(facts.Drop) == [facts.Drop((blob("of long ago"),))]


def test_what_did_not_come_to_count_is_neither_kept_nor_fetched_any_longer() -> None:
    player = Player()
    shown = player.starts()
    results = (result_of("b", shown), result_of("c", shown))
    player.show(ResultsShown(0, 0, results))
    player.holds(results[0])
    player.in_round(1, 0)
    assert player.take(facts.Drop) == []
    player.take(facts.Fetch)
    player.in_round(2, 0)
    assert {digest for drop in player.take(facts.Drop) for digest in drop.digests} == {r.digest for r in results}
    player.tick(50_000)
    assert player.take(facts.Fetch) == []


@pytest.mark.parametrize("shown_late", [0, 1])
def test_what_may_be_sealed_is_kept_also_if_it_was_not_shown_that_it_is(shown_late: int) -> None:
    """A view gets lost. Who has attested a result and then says that it lacks it is taken for a liar."""
    player = Player()
    first = player.starts()
    results = player.whole_round(first)
    second = player.in_round(1, 1)
    others = (result_of("b", second), result_of("c", second))
    player.show(ResultsShown(0, 1, others))
    player.holds(*others)
    if shown_late:
        player.seals(second, others)
    player.in_round(2, 2)
    player.in_round(3, 2)
    assert player.take(facts.Drop) == []
    player.seals(first, results)
    assert [result.digest for result in player.applies().results] == [
        result.digest for result in sorted(results, key=lambda result: result.assignment)
    ]
    player.seals(second, others)
    assert len(player.applies().results) == 2
    assert "apply" not in {fetch.why for fetch in player.take(facts.Fetch)}


def test_where_nothing_was_sealed_in_the_epoch_nothing_is_kept_for_it() -> None:
    player = Player()
    player.warm_up(20, epoch=3)
    shown = player.in_round(0, 20, epoch=3)
    results = (result_of("b", shown), result_of("c", shown))
    player.show(ResultsShown(3, 0, results))
    player.holds(*results)
    player.in_round(1, 20, epoch=3)
    player.in_round(2, 20, epoch=3)
    assert {digest for drop in player.take(facts.Drop) for digest in drop.digests} == {r.digest for r in results}


def test_what_is_of_an_earlier_epoch_is_dropped_in_any_case() -> None:
    player = Player()
    results = player.whole_round(player.starts())
    player.in_round(0, 5, epoch=1)
    assert {digest for drop in player.take(facts.Drop) for digest in drop.digests} == {r.digest for r in results}


# -- missing ---------------------------------------------------------------------------------------------------------


def test_a_sealed_result_that_nobody_gives_is_reported_missing() -> None:
    player, later, _, lacked = stopped()
    player.tell(facts.BlobGivenUp(lacked.digest, silent=("b", "c")))
    missing = bitmap((place_of(lacked),), 3)
    assert player.said(Holds) == [Holds("a", 1, 0, 1, 0, b"", later.step - 1, missing)]
    assert player.said(ModelHash) == []
    assert not player.take(facts.Apply)
    assert not player.take(facts.Train)


def test_a_sealed_result_that_is_here_and_cannot_be_read_is_missing_until_it_is_void() -> None:
    player, later, results, bad = stopped()
    player.holds(bad)
    (apply,) = player.take(facts.Apply)
    player.said(Holds)
    player.tell(facts.ModelNotApplied(apply.step, (bad.digest,)))
    missing = bitmap((place_of(bad),), 3)
    assert player.said(Holds) == [Holds("a", 1, 0, 1, 0, b"", later.step - 1, missing)]
    assert player.said(HealthCheck) == [HealthCheck("a", 1, 0, ("b", "c"), (place_of(bad),) * 2)]
    player.tick(60_000)
    assert not player.take(facts.Fetch), "the same bytes would come"
    assert not player.take(facts.Apply)
    first = round_shown(0, 0)
    player.seals(first, results, holders=tuple(NAMES for _ in results), voided=(place_of(bad),))
    assert [one.digest for one in player.applies().results] == [
        one.digest for one in sorted(results, key=place_of) if one is not bad
    ]


def test_it_is_not_missing_before_every_holder_was_asked() -> None:
    """An answer to an earlier question, when only the maker was asked, says nothing of the others."""
    player, _, _, lacked = stopped()
    player.tell(facts.BlobGivenUp(lacked.digest, silent=("b",)))
    assert player.said(Holds) == []
    player.tick(500)
    player.tell(facts.BlobGivenUp(lacked.digest, silent=("b", "c")))
    assert len(player.said(Holds)) == 1


def test_what_turns_up_is_not_missing_any_more() -> None:
    player, _, _, lacked = stopped()
    player.tell(facts.BlobGivenUp(lacked.digest, lacking=("b", "c")))
    player.said(Holds)
    player.said(HealthCheck)
    player.tick(500)
    assert [fetch.blob.result for fetch in player.take(facts.Fetch)] == [lacked]
    player.said(Holds)
    player.said(HealthCheck)
    player.holds(lacked)
    assert player.said(Holds) == [Holds("a", 1, 0, 1, 0, b"", 0, bitmap((), 3))]
    assert player.said(HealthCheck) == [HealthCheck("a", 1, 0, ())]
    player.applies()
    player.tick(2000)
    assert {holds.missing for holds in player.said(Holds)} == {bitmap((), 3)}
    assert {check.accused for check in player.said(HealthCheck)} == {()}


def test_it_is_not_said_any_more_once_later_rounds_are_sealed() -> None:
    player, later, _, lacked = stopped()
    player.tell(facts.BlobGivenUp(lacked.digest, lacking=("b", "c")))
    player.holds(lacked)
    player.applies()
    for number in (1, 2, 3):
        player.seals(later, player.whole_round(later))
        player.applies()
        later = player.in_round(number + 1, number + 1)
    player.actions.clear()
    player.tick(5000)
    assert player.said(Holds) == []
    assert player.said(HealthCheck) == []


def test_nor_in_the_next_epoch_where_nobody_could_make_anything_of_it() -> None:
    """What it holds would be refused together with it."""
    player, _, _, lacked = stopped()
    player.tell(facts.BlobGivenUp(lacked.digest, lacking=("b", "c")))
    player.holds(lacked)
    player.applies()
    assert player.said(Holds)
    assert player.said(HealthCheck)
    player.warm_up(1, epoch=1)
    player.in_round(0, 1, epoch=1)
    player.actions.clear()
    player.tick(5000)
    assert player.said(Holds) == []
    assert player.said(HealthCheck) == []


def test_an_accusation_names_the_epoch_in_which_the_step_was_sealed() -> None:
    player = Player()
    player.warm_up(3, epoch=2)
    shown = player.in_round(0, 3, epoch=2)
    results = (player.trains(), result_of("b", shown), result_of("c", shown))
    player.commits()
    player.show(ResultsShown(2, 0, results))
    player.holds(results[1])
    player.seals(shown, results, holders=(("b", "c"),) * 3)
    player.in_round(1, 4, epoch=2)
    player.tell(facts.BlobGivenUp(results[2].digest, lacking=("b", "c")))
    assert player.said(HealthCheck) == [HealthCheck("a", 1, 3, ("b", "c"), (2, 2), 2)]


def test_what_is_missing_is_said_in_cooldown_too() -> None:
    player, _, _, lacked = stopped()
    player.show(round_shown(1, 1, phase="Cooldown"))
    player.tell(facts.BlobGivenUp(lacked.digest, silent=("b", "c")))
    assert player.said(Holds) == [Holds("a", 1, 0, 1, 0, b"", 0, bitmap((place_of(lacked),), 3))]
    player.show(round_shown(0, 1, epoch=1, phase="WaitingForMembers"))
    player.actions.clear()
    player.tick(5000)
    assert player.said(Holds) == []


def test_what_is_voided_is_not_waited_for() -> None:
    player, later, _, lacked = stopped()
    player.tell(facts.BlobGivenUp(lacked.digest, lacking=("b", "c")))
    (shown,) = player.part.footing.sealed.values()
    player.show(SealedList((msgspec.structs.replace(shown, voided=(place_of(lacked),)),)))
    assert lacked.digest not in [result.digest for result in player.applies().results]
    assert player.said(ModelHash) == [ModelHash("a", 1, later.step, model(later.step), 0, 1)]


def test_a_model_with_something_in_it_that_became_void_is_neither_reported_nor_stored() -> None:
    player, _, _, lacked = stopped()
    player.holds(lacked)
    player.applies()
    player.show(round_shown(1, 1, phase="Cooldown"))
    (shown,) = player.part.footing.sealed.values()
    player.show(SealedList((msgspec.structs.replace(shown, voided=(place_of(lacked),)),)))
    player.actions.clear()
    player.stand("InStep", phase="Cooldown", store=True)
    player.tick(5000)
    assert player.take(facts.Store) == []
    assert player.said(ModelHash) == []


def test_who_alone_cannot_get_it_loads_a_later_model_when_it_may() -> None:
    """It says nothing of its model, so it is counted as one that catches up."""
    player, _, _, lacked = stopped()
    player.tell(facts.BlobGivenUp(lacked.digest, silent=("b", "c")))
    player.in_round(2, 2)
    assert player.take(facts.Load) == []
    pointer = Pointer("p2p", 1, model(1), holders=("b", "c"))
    player.stand("Resyncing", load=pointer)
    assert [load.pointer for load in player.take(facts.Load)] == [pointer]
    player.said(ModelHash)
    player.tell(facts.ModelLoaded(1, model(1)))
    assert player.said(ModelHash) == [ModelHash("a", 1, 1, model(1))]


def test_it_does_not_load_what_leads_no_further() -> None:
    player, _, _, lacked = stopped()
    player.tell(facts.BlobGivenUp(lacked.digest, silent=("b", "c")))
    player.stand("Resyncing", load=Pointer("p2p", 0, model(0), holders=("b", "c")))
    assert player.take(facts.Load) == []


def test_what_it_attested_it_never_reports_missing() -> None:
    """It holds it: why else would it have attested it."""
    player = Player()
    shown = player.starts()
    results = player.whole_round(shown)
    assert player.said(Attest)[-1].held == bitmap((0, 1, 2), 3)
    player.seals(shown, results)
    for result in results:
        player.tell(facts.BlobGivenUp(result.digest, lacking=("b", "c")))
    player.tick(50_000)
    assert not [holds for holds in player.said(Holds) if holds.missing]


# -- accusing --------------------------------------------------------------------------------------------------------


def test_who_says_that_it_does_not_have_what_it_attested_is_accused_at_once() -> None:
    player, _, _, lacked = stopped(holders=("b", "c"))
    player.tell(facts.BlobGivenUp(lacked.digest, lacking=("c",), silent=("b",)))
    assert player.said(HealthCheck) == [HealthCheck("a", 1, 0, ("c",), (2,))]


def test_who_says_nothing_is_accused_after_a_while() -> None:
    player, _, _, lacked = stopped(holders=("b", "c"))
    player.tell(facts.BlobGivenUp(lacked.digest, silent=("b", "c")))
    player.tick(9_999)
    assert player.said(HealthCheck) == []
    player.tick(1)
    assert player.said(HealthCheck)[-1] == HealthCheck("a", 1, 0, ("b", "c"), (2, 2))


def test_who_never_attested_it_is_not_accused() -> None:
    player, _, _, lacked = stopped(holders=("c",))
    player.tell(facts.BlobGivenUp(lacked.digest, lacking=("b", "c")))
    assert player.said(HealthCheck) == [HealthCheck("a", 1, 0, ("c",), (2,))]


def test_who_had_nothing_yet_while_the_round_ran_is_not_accused_of_that() -> None:
    player = Player()
    shown = player.starts()
    results = (result_of("b", shown), result_of("c", shown))
    player.show(ResultsShown(0, 0, results))
    player.tell(facts.BlobGivenUp(results[0].digest, lacking=("b", "c")))
    player.seals(shown, results)
    assert player.said(HealthCheck) == player.said(Holds) == []


def test_a_new_life_accuses_nobody_of_what_the_old_one_saw() -> None:
    player, later, _, lacked = stopped(holders=("b", "c"))
    player.tell(facts.BlobGivenUp(lacked.digest, lacking=("b", "c")))
    player.begin()
    player.actions.clear()
    player.stand("InStep")
    player.show(later)
    assert player.said(HealthCheck) == player.said(Holds) == []


def test_a_partition_ends_some_day_and_then_it_goes_on() -> None:
    player, later, _, lacked = stopped()
    for _ in range(10):
        player.tell(facts.BlobGivenUp(lacked.digest, silent=("b", "c")))
        player.tick(4000)
    player.holds(lacked)
    player.applies()
    assert [train.work.step for train in player.take(facts.Train)] == [later.step]
    assert round_shown(1, 1) == later


def test_whom_nobody_can_reach_is_not_accused_of_silence() -> None:
    player, _, _, lacked = stopped(holders=("b", "c"))
    hidden = msgspec.structs.replace(player.part.sight.peers["c"], addresses=())
    player.part.sight.peers["c"] = hidden
    player.tell(facts.BlobGivenUp(lacked.digest, silent=("b", "c")))
    player.tick(50_000)
    assert {check.accused for check in player.said(HealthCheck)} == {("b",)}

"""Two-faced members: whoever is told something else than the journal says can prove it."""

from __future__ import annotations

from tests.core.witnessed.player import KEYS, RUN, Player, result_of, sign

from quoracy.core.errors import Refusal
from quoracy.core.witnessed import facts
from quoracy.core.witnessed.events import TwoFacedShown, signed_by_trainer
from quoracy.core.witnessed.views import Result, ResultsShown, RoundShown


def announced(result: Result, shown: RoundShown, sender: str = "", key: bytes = b"") -> facts.ResultAnnounced:
    by = sender or result.member
    signed = signed_by_trainer(
        RUN, shown.epoch, shown.round, result.assignment, result.attempt, result.member, result.digest, result.base
    )  # fmt: skip
    return facts.ResultAnnounced(by, shown.epoch, shown.round, result, sign(key or KEYS[result.member], signed))


def test_a_signature_over_another_result_than_the_committed_one_is_shown_once() -> None:
    player = Player()
    shown = player.starts()
    lie, truth = result_of("b", shown, "a lie"), result_of("b", shown)
    told = announced(lie, shown)
    player.tell(told)
    assert player.take(facts.Command) == []
    player.show(ResultsShown(0, 0, (truth,)))
    (command,) = player.take(facts.Command)
    assert command.event is TwoFacedShown
    assert command.fields == {
        "accused": "b", "epoch": 0, "round": 0, "assignment": lie.assignment, "attempt": 1, "digest": lie.digest,
        "base": lie.base, "signature": told.signature,
    }  # fmt: skip
    player.tell(told)
    player.tick(50_000)
    assert player.take(facts.Command) == []


def test_it_is_shown_also_where_the_list_came_first_or_the_next_round_has_begun() -> None:
    player = Player()
    shown = player.starts()
    player.show(ResultsShown(0, 0, (result_of("b", shown),)))
    player.in_round(1, 0)
    player.tell(announced(result_of("b", shown, "a lie"), shown))
    assert [command.event for command in player.take(facts.Command)] == [TwoFacedShown]


def test_what_is_of_long_ago_proves_nothing_any_more() -> None:
    player = Player()
    shown = player.starts()
    player.show(ResultsShown(0, 0, (result_of("b", shown),)))
    player.in_round(1, 0)
    player.in_round(2, 0)
    player.tell(announced(result_of("b", shown, "a lie"), shown))
    assert player.take(facts.Command) == []


def test_who_tells_the_truth_is_not_accused() -> None:
    player = Player()
    shown = player.starts()
    player.tell(announced(result_of("b", shown), shown))
    player.show(ResultsShown(0, 0, (result_of("b", shown),)))
    assert player.take(facts.Command) == []


def test_a_forged_signature_proves_nothing() -> None:
    player = Player()
    shown = player.starts()
    player.show(ResultsShown(0, 0, (result_of("b", shown),)))
    player.tell(announced(result_of("b", shown, "a lie"), shown, key=KEYS["c"]))
    assert player.take(facts.Command) == []


def test_nobody_is_believed_for_somebody_else() -> None:
    player = Player()
    shown = player.starts()
    player.take(facts.Fetch)
    player.tell(announced(result_of("b", shown), shown, sender="c"))
    assert player.take(facts.Fetch) == []


def test_what_nobody_decided_on_is_shown_again_in_the_next_life() -> None:
    player = Player()
    shown = player.starts()
    player.tell(announced(result_of("b", shown, "a lie"), shown))
    player.show(ResultsShown(0, 0, (result_of("b", shown),)))
    (first,) = player.take(facts.Command)
    player.begin()
    player.stand("InStep")
    player.show(shown)
    (again,) = player.take(facts.Command)
    assert again.fields == first.fields
    player.tell(facts.CommandDecided(again.number, Refusal("member_gone", "it is gone", "nothing")))
    player.begin()
    player.stand("InStep")
    player.show(shown)
    assert player.take(facts.Command) == []


def test_what_is_announced_by_one_who_has_no_such_work_is_not_fetched() -> None:
    player = Player()
    shown = player.starts()
    stranger = result_of("b", shown)
    foreign = Result(result_of("c", shown).assignment, 1, "b", stranger.digest, 100, stranger.base)
    player.tell(announced(foreign, shown))
    assert player.take(facts.Fetch) == []


def test_little_is_kept_of_one_who_announces_without_end() -> None:
    player = Player()
    shown = player.starts()
    for number in range(100):
        player.tell(announced(result_of("b", shown, f"lie {number}"), shown))
    assert len(player.part.proofs.of_round(0, 0)) == 2


def test_what_is_of_a_round_to_come_is_kept_until_it_is_shown() -> None:
    player = Player()
    player.starts()
    later = player.part.sight.round
    assert later is not None
    shown = RoundShown("RoundTrain", 0, 1, 0, later.seed, later.roster, later.speeds, later.batches, 0, (), 0, "")
    theirs = result_of("b", shown)
    player.tell(announced(theirs, shown))
    assert player.take(facts.Fetch) == []
    player.show(shown)
    assert [fetch.blob.result for fetch in player.take(facts.Fetch)] == [theirs]

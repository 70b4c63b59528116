"""A member in a round: what it trains, when it commits and announces, what it attests."""

from __future__ import annotations

import msgspec
from tests.core.witnessed.player import KEYS, RUN, Player, assignment_of, blob, model, result_of, round_shown, sign

from quoracy.core.errors import Refusal
from quoracy.core.witnessed import facts
from quoracy.core.witnessed.attestation import Scheme, bitmap, salt_of
from quoracy.core.witnessed.committee import draw
from quoracy.core.witnessed.events import Attest, Holds, ModelHash, ResultCommitted, signed_by_trainer
from quoracy.core.witnessed.views import Result, ResultsShown

LATE = Refusal("late_result", "the round is over", "wait")


def test_it_trains_what_the_draw_gives_it_on_the_model_it_has() -> None:
    player = Player()
    shown = player.starts()
    (train,) = player.take(facts.Train)
    mine = assignment_of("a", shown)
    assert train.work == facts.Work(0, 0, mine.index, 1, mine.batches, 0, model(0))
    player.tick(50_000)
    assert player.take(facts.Train) == []


def test_it_commits_before_it_announces_and_announces_what_it_committed_to() -> None:
    player = Player()
    player.starts()
    result = player.trains()
    assert player.take(facts.Announce) == []
    command = player.commits()
    assert command.event is ResultCommitted
    signed = signed_by_trainer(RUN, 0, 0, result.assignment, 1, "a", result.digest, model(0))
    signature = sign(KEYS["a"], signed)
    assert command.fields == {
        "epoch": 0, "round": 0, "assignment": result.assignment, "attempt": 1, "digest": result.digest,
        "size_bytes": 100, "base": model(0), "samples": 8, "loss": 0.5, "signature": signature,
    }  # fmt: skip
    assert player.take(facts.Announce) == [facts.Announce(0, 0, result, signature)]


def test_without_a_key_nothing_is_signed() -> None:
    player = Player(keyed=False)
    player.starts()
    player.trains()
    assert player.commits().fields["signature"] == b""


def test_what_is_refused_is_not_announced_and_not_committed_to_again() -> None:
    player = Player()
    player.starts()
    player.trains()
    player.commits(LATE)
    player.tick(50_000)
    assert player.take(facts.Announce) == []
    assert player.take(facts.Command) == []


def test_a_second_result_for_the_same_work_counts_for_nothing() -> None:
    player = Player()
    player.starts()
    work = player.take(facts.Train)[0].work
    player.tell(facts.ResultTrained(work, blob("first"), 100, 8))
    player.tell(facts.ResultTrained(work, blob("second"), 100, 8))
    assert [command.fields["digest"] for command in player.take(facts.Command)] == [blob("first")]
    assert player.take(facts.Drop) == [facts.Drop((blob("second"),))]


def test_a_commitment_that_was_never_answered_is_made_again_with_the_same_digest() -> None:
    """In a new life that is still to do the work; the first answer may have been lost after it counted."""
    player = Player()
    shown = player.starts()
    player.trains()
    (first,) = player.take(facts.Command)
    player.begin()
    player.stand("InStep")
    player.show(shown)
    assert player.take(facts.Train) == []
    (again,) = player.take(facts.Command)
    assert again.number != first.number
    assert again.fields == first.fields


def test_an_answer_that_is_in_the_list_need_not_come() -> None:
    player = Player()
    player.starts()
    mine = player.trains()
    player.take(facts.Command)
    player.show(ResultsShown(0, 0, (mine,)))
    assert [announce.result for announce in player.take(facts.Announce)] == [mine]
    player.tick(50_000)
    assert not player.take(facts.Announce)
    assert not player.take(facts.Command)


def test_it_is_announced_once_whichever_comes_first() -> None:
    player = Player()
    player.starts()
    mine = player.trains()
    (command,) = player.take(facts.Command)
    player.show(ResultsShown(0, 0, (mine,)))
    player.tell(facts.CommandDecided(command.number))
    assert len(player.take(facts.Announce)) == 1


def test_what_moved_to_it_is_trained_after_its_own() -> None:
    player = Player()
    shown = player.starts()
    other = assignment_of("b", shown)
    player.show(msgspec.structs.replace(shown, moved=((other.index, 2, "a"),)))
    mine = player.trains()
    (second,) = player.take(facts.Train)
    assert {mine.assignment, second.work.assignment} == {assignment_of("a", shown).index, other.index}
    assert {mine.attempt, second.work.attempt} == {1, 2}


def test_what_moved_away_from_it_is_not_trained_on() -> None:
    player = Player()
    shown = player.starts()
    (train,) = player.take(facts.Train)
    player.show(msgspec.structs.replace(shown, moved=((train.work.assignment, 2, "b"),)))
    assert player.take(facts.Cease) == [facts.Cease(train.work)]
    player.tell(facts.ResultTrained(train.work, blob("late"), 100, 8))
    assert player.take(facts.Command) == []


def test_training_ends_with_its_phase() -> None:
    player = Player()
    player.starts()
    (train,) = player.take(facts.Train)
    player.show(round_shown(phase="RoundWitness"))
    assert player.take(facts.Cease) == [facts.Cease(train.work)]


def test_who_catches_up_trains_nothing() -> None:
    player = Player()
    player.warm_up()
    player.stand("Resyncing")
    player.show(round_shown())
    assert player.take(facts.Train) == []


def test_a_standing_of_another_epoch_gives_no_work() -> None:
    player = Player()
    player.warm_up()
    player.stand("InStep", epoch=0)
    player.show(round_shown(epoch=1))
    assert player.take(facts.Train) == []


# -- attesting -------------------------------------------------------------------------------------------------------


def listed(shown_to: Player, salt: bytes = b"") -> tuple[Result, ...]:
    """The round's list, with a's own result first."""
    shown = shown_to.part.sight.round
    assert shown is not None
    mine = shown_to.trains()
    shown_to.commits()
    results = (mine, result_of("b", shown), result_of("c", shown))
    shown_to.show(ResultsShown(0, 0, results, salt=salt))
    return results


def test_a_witness_attests_once_when_it_holds_all() -> None:
    player = Player()
    player.starts()
    results = listed(player)
    assert player.said(Attest) == []
    player.holds(results[1])
    assert player.said(Attest) == []
    player.holds(results[2])
    assert player.said(Attest) == [Attest("a", 1, 0, 0, 3, bitmap((0, 1, 2), 3))]


def test_what_is_not_complete_is_attested_after_a_while() -> None:
    player = Player()
    player.starts()
    results = listed(player)
    player.holds(results[2])
    player.tick(100)
    assert player.said(Attest) == [Attest("a", 1, 0, 0, 3, bitmap((0, 2), 3))]


def test_a_blob_that_nobody_asked_for_is_not_attested() -> None:
    player = Player()
    player.starts()
    player.holds(result_of("b", round_shown(), "what b never committed to"))
    listed(player)
    player.tick(100)
    assert player.said(Attest) == [Attest("a", 1, 0, 0, 3, bitmap((0,), 3))]


def test_who_is_no_witness_says_what_it_holds() -> None:
    player = Player()
    shown = player.starts(witness_nodes=1, seed=_seed_without_a())
    assert "a" not in draw(RUN, shown).witnesses
    results = listed(player)
    player.holds(*results)
    assert player.said(Attest) == []
    assert player.said(Holds) == [Holds("a", 1, 0, 0, 3, bitmap((0, 1, 2), 3))]


def _seed_without_a() -> bytes:
    seeds = (bytes([i] * 16) for i in range(100))
    return next(seed for seed in seeds if "a" not in draw(RUN, round_shown(witness_nodes=1, seed=seed)).witnesses)


def test_a_filter_is_made_where_the_run_wants_filters() -> None:
    scheme = Scheme("bloom", 0.01)
    player = Player(scheme=scheme)
    player.starts()
    results = listed(player, salt=b"drawn at last")
    player.holds(*results)
    digests = [result.digest for result in results]
    (attest,) = player.said(Attest)
    assert attest.held == scheme.write((0, 1, 2), digests, salt_of(0, 0, b"drawn at last", "a"))


def test_a_round_that_ended_without_results_is_attested_as_that() -> None:
    player = Player()
    player.starts()
    player.show(round_shown(phase="RoundWitness"), ResultsShown(0, 0, ()))
    assert player.said(Attest) == [Attest("a", 1, 0, 0, 0, b"")]


def test_who_catches_up_attests_nothing() -> None:
    player = Player()
    player.warm_up()
    player.stand("Resyncing")
    player.show(round_shown(), ResultsShown(0, 0, ()))
    player.tick(5000)
    assert player.said(Attest) == player.said(Holds) == []


def test_the_model_is_reported_at_the_beginning_of_each_round() -> None:
    player = Player()
    shown = player.starts()
    assert player.said(ModelHash) == [ModelHash("a", 1, 0, model(0))]
    results = player.whole_round(shown)
    player.seals(shown, results)
    player.in_round(1, 1)
    assert player.said(ModelHash) == []
    player.applies()
    assert player.said(ModelHash) == [ModelHash("a", 1, 1, model(1))]


def test_a_round_that_sealed_nothing_is_followed_by_one_with_the_same_model() -> None:
    player = Player()
    player.starts()
    player.said(ModelHash)
    player.take(facts.Train)
    player.in_round(1, 0)
    assert player.said(ModelHash) == [ModelHash("a", 1, 0, model(0))]
    assert [train.work.round for train in player.take(facts.Train)] == [1]


def test_a_round_is_not_trained_on_the_model_of_the_one_before() -> None:
    """The next round may be shown before it is known what was sealed in the last one."""
    player = Player()
    shown = player.starts()
    results = player.whole_round(shown)
    player.said(ModelHash)
    player.in_round(1, 1)
    assert not player.take(facts.Train)
    assert player.said(ModelHash) == []
    player.seals(shown, results)
    assert not player.take(facts.Train)
    player.applies()
    assert [train.work.base for train in player.take(facts.Train)] == [model(1)]


def test_a_shorter_list_of_the_same_round_is_an_older_one() -> None:
    player = Player()
    player.starts()
    results = listed(player)
    player.show(ResultsShown(0, 0, results[:2]))
    player.holds(*results)
    assert player.said(Attest) == [Attest("a", 1, 0, 0, 3, bitmap((0, 1, 2), 3))]


def test_what_has_moved_does_not_move_back() -> None:
    player = Player()
    shown = player.starts()
    (train,) = player.take(facts.Train)
    player.show(msgspec.structs.replace(shown, moved=((train.work.assignment, 2, "b"),)))
    player.show(shown)
    assert not player.take(facts.Train)


def test_a_round_that_is_over_is_not_gone_back_to() -> None:
    player = Player()
    player.starts()
    player.in_round(1, 0)
    player.take(facts.Train)
    player.show(round_shown(0, 0))
    assert player.take(facts.Train) == []
    assert player.part.sight.now() == (0, 1)
    player.show(round_shown(1, 0, phase="RoundWitness"))
    player.show(round_shown(1, 0))
    assert player.part.sight.phase() == "RoundWitness"

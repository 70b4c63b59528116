"""Every checker of witnessed rounds can fail: a bug is planted, and some seed finds it."""

from __future__ import annotations

from math import ceil
from typing import Any

import msgspec
import pytest
from tests.sim.witnessed.planting import beset, found_by, plant
from tests.sim.witnessed.ward import lies, small

from quoracy.core.dice import Dice
from quoracy.core.errors import Refusal
from quoracy.core.host import Host
from quoracy.core.machine import DONE, Applied
from quoracy.core.members import Cause, Roster
from quoracy.core.witnessed import checkpoint, committee, complaints, epochs, evidence, reopening, rules, sealing
from quoracy.core.witnessed.account import Account
from quoracy.core.witnessed.catching_up import counting
from quoracy.core.witnessed.collect import Collector
from quoracy.core.witnessed.committee import Committee
from quoracy.core.witnessed.events import ResultCommitted, ResultVoided, TwoFacedShown, WorkReopened
from quoracy.core.witnessed.facts import Apply
from quoracy.core.witnessed.machine import Witnessed
from quoracy.core.witnessed.part import Part
from quoracy.core.witnessed.sight import Sight
from quoracy.core.witnessed.state import Course, Member, MemberState
from quoracy.core.witnessed.table import MEMBER
from quoracy.core.witnessed.tally import Tally
from quoracy.sdk.witnessed.session import MemberSession
from quoracy.sim.store import Store, Write, WriteDone
from quoracy.sim.witnessed import live, members

# -- models ----------------------------------------------------------------------------------------------------------


def test_a_member_that_applies_in_another_order_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them do: they agree with each other, and are wrong together."""
    monkeypatch.setattr("quoracy.core.witnessed.part.counting", lambda shown: counting(shown)[::-1])
    assert "applies" in found_by("models")


def test_a_member_that_leaves_out_what_it_does_not_hold_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Part._move

    def careless(self: Part, standing: Any) -> None:
        whole(self, standing)
        shown = self.footing.next()
        if shown is not None and self.footing.busy is None and standing.state == "InStep":
            some = tuple(result for result in shown.results if self.fetching.holds(result.digest))
            if some and any(self.fetching.is_missing(result.digest) for result in shown.results):
                apply = Apply(shown.step, shown.epoch, shown.round, some)
                self.footing.busy = apply
                self._out.append(apply)

    monkeypatch.setattr(Part, "_move", careless)
    assert "applies" in found_by("models", since=16)


def test_a_run_that_takes_any_report_for_the_right_one_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose model is another one stays in step."""
    whole = sealing._place

    def trusting(course: Course, round_: Any, outcome: Any) -> None:
        whole(course, round_, outcome)
        stays = {name for name, (state, _) in outcome.moving.items() if state is MemberState.RESYNCING}
        held = stays & outcome.said.keys()
        outcome.moving = {name: move for name, move in outcome.moving.items() if name not in held}

    monkeypatch.setattr(sealing, "_place", trusting)
    assert "in step with another model" in found_by("models", since=18)


# -- account ---------------------------------------------------------------------------------------------------------


def test_batches_that_fall_under_the_table_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Account, "retry", lambda self, _spans, _attempts_max: None)
    assert "the run's account of batches" in found_by("account")


def test_a_roll_back_that_forgets_what_was_applied_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(self: Account) -> None:
        self.applied = []

    monkeypatch.setattr(Account, "roll_back", forgetful)
    assert "account" in found_by("account")


def test_a_batch_that_is_given_out_twice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Account.take

    def greedy(self: Account, wanted: int) -> Any:
        spans = whole(self, wanted)
        self.waiting = [*spans[:1], *self.waiting]
        return spans

    monkeypatch.setattr(Account, "take", greedy)
    assert "account" in found_by("account")


def test_a_void_result_whose_batches_are_not_returned_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Account, "void", lambda self, _batches: None)
    assert "account" in found_by("account", since=7)


def test_a_result_that_is_voided_without_everybodys_word_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def hasty(step: int, position: int, who: tuple[str, ...]) -> ResultVoided:
        return ResultVoided(step, position, who[1:])

    monkeypatch.setattr(complaints, "ResultVoided", hasty)
    monkeypatch.setattr(rules, "check_voided", lambda *_: None)
    plant(monkeypatch, "ResultVoided", check=lambda *_: None)
    assert "have not said they miss" in found_by("models", since=7)


# -- quorums ---------------------------------------------------------------------------------------------------------


def test_a_result_that_is_given_up_with_its_maker_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody was asked whether it has it."""

    def hasty(course: Course, round_: Any, tally: Tally) -> WorkReopened | None:
        words = (tuple(tally.attested.values()), tuple(tally.holding.values()))
        for work in round_.works:
            event = WorkReopened(round_.epoch, round_.number, work.index, work.attempt, *words)
            if reopening.check_reopened(course, course, event, course.at_us) is None:
                return event
        return None

    monkeypatch.setattr(reopening, "_check_words", lambda *_: None)
    monkeypatch.setattr(reopening, "due", hasty)
    assert "gives up a result" in found_by("quorums")


def test_a_quorum_of_those_who_answered_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the source: over those who happened to attest, not over those who were elected."""

    whole = sealing._judge

    def easy(course: Course, event: Any, at_us: int) -> Any:
        with monkeypatch.context() as planted:
            needed = max(1, ceil(course.config.share * len(event.attested)))
            planted.setattr(evidence, "quorum", lambda _course, _round: needed)
            return whole(course, event, at_us)

    monkeypatch.setattr(sealing, "_judge", easy)
    assert "and a quorum holds" in found_by("quorums")


def test_a_round_that_ends_before_all_is_attested_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tally, "enough", lambda self: len(self.counts))
    plant(monkeypatch, "TrainEnded", check=lambda *_rest: None)
    assert "ends training early" in found_by("quorums")


def test_a_seal_without_what_a_quorum_holds_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = sealing._judge

    def stingy(*rest: Any) -> Any:
        outcome = whole(*rest)
        if isinstance(outcome, sealing.Outcome) and len(outcome.positions) > 1:
            outcome.positions = outcome.positions[1:]
        return outcome

    monkeypatch.setattr(sealing, "_judge", stingy)
    assert "and a quorum holds" in found_by("quorums")


# -- outcasts --------------------------------------------------------------------------------------------------------


def test_a_proven_liar_that_stays_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    for state, move in MEMBER._moves[TwoFacedShown].items():
        if move.refuse is None:
            kept = msgspec.structs.replace(move, target=MemberState(state), do=lambda *_rest: DONE)
            monkeypatch.setitem(MEMBER._moves[TwoFacedShown], state, kept)
    assert "still in the roster" in found_by("outcasts", beset_by="two_faced")


def test_an_honest_member_that_is_thrown_out_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a bad round, as if it had lied."""
    whole = rules.do_moved

    def harsh(course: Course, member: Member, *rest: Any) -> Applied:
        applied = whole(course, member, *rest)
        member.ejected = member.ejected or member.state is MemberState.RESYNCING
        return applied

    for move_of in MEMBER._moves.values():
        for state, move in move_of.items():
            if move.do is rules.do_moved:
                monkeypatch.setitem(move_of, state, msgspec.structs.replace(move, do=harsh))
            if move.choose is not None and move.choose.do is rules.do_moved:
                monkeypatch.setitem(move_of, state, msgspec.structs.replace(move, do=harsh))
    assert "never lied" in found_by("outcasts")


def test_a_member_that_accuses_whoever_is_silent_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, and whether it can be reached or not."""
    monkeypatch.setattr(members, "PACE", msgspec.structs.replace(members.PACE, accuse_us=0))
    monkeypatch.setattr(Sight, "can_be_asked", lambda self, _member: True)
    monkeypatch.setattr(rules, "enough_accuse", lambda _by, _others: True)
    assert "never lied" in found_by("outcasts", beset_by="cut_pair")


def test_one_that_is_removed_for_what_it_has_not_attested_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of four slander together, and one witness is elected in each round."""
    monkeypatch.setattr(rules, "has_attested", lambda *_: True)
    life = small(size=4, init_min_clients=4, witness_nodes=1, min_clients=2, total_steps=8, rounds_per_epoch=8)
    lies(life, m1="slanders", m2="slanders")
    assert "outcasts: " in (violation := life.live().violation)
    assert "that it has not attested" in violation


def test_one_that_is_removed_on_the_word_of_others_alone_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks at what the witnesses attested of it."""
    whole = sealing._place

    def believing(course: Course, round_: Any, outcome: Any) -> None:
        whole(course, round_, outcome)
        for name, by in outcome.inactive.items():
            if rules.enough_accuse(by, len(course.in_step) - 1):
                outcome.moving[name] = (MemberState.REMOVED, "so they say")

    monkeypatch.setattr(sealing, "_place", believing)
    assert "did its part in the round, and is removed: so they say" in found_by("outcasts")


# -- draws -----------------------------------------------------------------------------------------------------------


def test_a_member_that_draws_otherwise_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:

    def loaded(run: str, shown: Any) -> Committee:
        return committee.draw(run, msgspec.structs.replace(shown, seed=shown.seed[::-1]))

    monkeypatch.setattr("quoracy.core.witnessed.sight.draw", loaded)
    assert "drew" in found_by("draws")


def test_a_run_that_draws_with_other_dice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def weighted(run: str, purpose: str, epoch: int, round_: int, seed: bytes) -> Dice:
        return Dice(run, purpose, epoch, round_, seed + b"x")

    monkeypatch.setattr(committee, "Dice", weighted)
    assert "elected are" in found_by("draws")


# -- lives -----------------------------------------------------------------------------------------------------------


def test_a_zombie_that_is_believed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not listen when it is told to go, either."""
    whole, one = Roster.check_cause, Witnessed._one

    def gullible(self: Roster, cause: Cause) -> Any:
        before = whole(self, cause)
        return None if getattr(before, "code", "") == "superseded" else before

    def whoever(self: Witnessed, event: Any, *rest: Any) -> Any:
        known = self.course.members.get(getattr(event, "member", ""))
        if known is not None and "incarnation" in event.__struct_fields__:
            event = msgspec.structs.replace(event, incarnation=known.incarnation)
        return one(self, event, *rest)

    monkeypatch.setattr(Roster, "check_cause", gullible)
    monkeypatch.setattr(Witnessed, "_one", whoever)
    monkeypatch.setattr(MemberSession, "_superseded", lambda self, _newer: None)
    monkeypatch.setattr(MemberSession, "_declined", lambda self, _declined, _now_us: None)
    found_by("newest", beset_by="twin")


# -- tokens ----------------------------------------------------------------------------------------------------------


def test_a_token_that_brings_any_number_of_ids_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Roster, "check_token", lambda self, _member, _token, _most: None)
    assert "has brought ['m1', 'm1.sybil'], and may bring 1" in found_by("tokens")


# -- ending ----------------------------------------------------------------------------------------------------------


def test_a_round_that_waits_for_the_dead_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time is never over."""
    monkeypatch.setattr(Collector, "_over", lambda self, _window, _whole_us, _now_us: False)
    assert "not finished" in found_by("ending")


def test_a_run_that_waits_for_a_model_that_nobody_has_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two says that it has a model, and has not."""
    monkeypatch.setattr(epochs, "BARREN", 10**9)
    assert "not finished" in found_by("ending", since=40, only=("liar", "stop_one"), size=2)


def test_a_run_that_waits_for_a_checkpoint_that_is_not_there_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs, "BARREN_STORED", 10**9)
    assert "not finished" in found_by("ending")


def test_a_checkpoint_that_is_given_up_though_it_is_there_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """After one warm-up in which some had it."""
    whole = epochs.do_warmup_ended

    def hasty(course: Course, *rest: Any) -> Applied:
        if course.place == course.stored and course.older:
            checkpoint.nowhere(course)
        return whole(course, *rest)

    plant(monkeypatch, "WarmupEnded", do=hasty)
    assert "which nobody missed" in found_by("account")


def test_a_run_with_many_rounds_in_which_nothing_is_taken_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every other round refuses all results, as if they came late."""
    move = MEMBER._moves[ResultCommitted]["InStep"]
    late = Refusal("late_result", "it is an odd round", "none")

    def fussy(course: Course, member: Any, event: Any, at_us: int) -> Refusal | None:
        return late if event.round % 2 else move.check(course, member, event, at_us)

    monkeypatch.setitem(MEMBER._moves[ResultCommitted], "InStep", msgspec.structs.replace(move, check=fussy))
    life = small(total_steps=12, rounds_per_epoch=40, round_train_max_s=0.6, attempts_max=99, strikes_max=99)
    assert "rounds without any result" in life.live().violation


def test_a_member_that_never_hears_of_the_end_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Part, "_end", lambda self, _reason, _state: None)
    assert "does not know that the run is over" in found_by("ending")


# -- what every kind promises ----------------------------------------------------------------------------------------


def test_an_acknowledgement_before_the_sync_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Store.receive

    def hasty(self: Store, source: str, message: Any) -> None:
        whole(self, source, message)
        if isinstance(message, Write) and message.n == len(self.entries) + 1 and not self.full:
            self._answer(source, WriteDone(message.nonce))

    monkeypatch.setattr(Store, "receive", hasty)
    found_by("folds", since=75)


def test_an_answer_before_the_entry_is_written_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Host._launch

    def hasty(self: Host, batch: Any) -> None:
        whole(self, batch)
        if self.desk is not None:
            self._out.extend(self.desk.publish(batch))

    monkeypatch.setattr(Host, "_launch", hasty)
    found_by("durability", only=("lose_power", "kill_host"))


def test_a_forgotten_answer_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Roster.check_cause

    def forgetful(self: Roster, cause: Cause) -> Any:
        before = whole(self, cause)
        return None if type(before).__name__ == "Repeat" else before

    monkeypatch.setattr(Roster, "check_cause", forgetful)
    found_by("answers")


def test_a_fold_that_forgets_what_a_snapshot_held_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Course.rebuild

    def lossy(self: Course) -> None:
        whole(self)
        self.times_us = []

    monkeypatch.setattr(Course, "rebuild", lossy)
    found_by("folds")


def test_without_a_planted_bug_nothing_is_noticed() -> None:
    assert [live(seed).violation for seed in range(1, 6)] == [""] * 5
    for fault in ("two_faced", "twin", "cut_pair"):
        assert [beset(seed, fault).live().violation for seed in range(1, 4)] == [""] * 3, fault

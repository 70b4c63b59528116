"""Every checker of ranks can fail: a bug is planted, and some seed finds it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.sim.test_ranks import muted

from quoracy.core import asks as ops
from quoracy.core.errors import Bug, QuoracyError
from quoracy.core.machine import Event
from quoracy.core.peer import Peer
from quoracy.core.ranks import rules, salvage
from quoracy.core.ranks.collect import Arrival, Collector
from quoracy.core.ranks.events import AttemptDecided, RankJoined
from quoracy.core.ranks.machine import Ranks
from quoracy.core.ranks.part import Part, Turn
from quoracy.core.ranks.state import Crew, Rank, RankState
from quoracy.core.ranks.table import RANK, RUN
from quoracy.sim.ranks import Outcome, live
from quoracy.sim.ranks.life import Life
from quoracy.sim.ranks.process import SimRank
from quoracy.sim.ranks.store import Store

SEEDS = range(1, 200)


def found_by(checker: str) -> str:
    """What the first seed that breaks this promise says. Other promises may break too; this one must."""
    for seed in SEEDS:
        outcome = live(seed)
        if outcome.violation.startswith(f"{checker}:"):
            return outcome.violation
    pytest.fail(f"{len(SEEDS)} lives with a planted bug, and {checker} noticed nothing")


def drop_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fold would refuse such a record: take that guard away as well."""
    monkeypatch.setattr(Ranks, "check", lambda _self, _event: None)
    moves = RUN._moves[AttemptDecided]
    for state, move in list(moves.items()):
        if move.refuse is None:
            monkeypatch.setitem(moves, state, msgspec.structs.replace(move, check=None))


def test_a_rank_that_goes_on_with_another_record_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Part._turn

    def as_things_are(self: Part, joined: bool) -> Turn:
        """Not as the record says: whoever left since is missing, whoever superseded another as well."""
        turn = whole(self, joined)
        names = [rank.id for rank in self.crew.members()]
        index = names.index(self.peer.me) if self.peer.me in names else -1
        return msgspec.structs.replace(turn, members=names, index=index)

    monkeypatch.setattr(Part, "_turn", as_things_are)
    assert any("another record" in superseding(seed).violation for seed in SEEDS)


def superseding(seed: int) -> Outcome:
    """Six ranks, and five times in a second somebody is superseded."""
    life = Life(seed)
    life.size, life.planned = 6, 0
    for after_us in range(700_000, 9_000_000, 200_000):
        life.world.after(after_us, life._strike, life._twin)
    return life.live()


def test_a_store_that_elects_nobody_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """``set`` in place of set-if-absent: every proposer is told that it has won."""
    whole = Store._append

    def obliging(self: Store, op: ops.Append) -> Any:
        whole(self, op)
        return ops.Written()

    monkeypatch.setattr(Store, "_append", obliging)
    assert any(outcome.violation.startswith("records:") for outcome in map(crashing, SEEDS))


def test_a_record_that_is_told_by_who_has_not_won_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks go on with a record that is not the one in the journal."""
    whole = Peer._append

    def hasty(self: Peer, n: int, payload: bytes) -> Any:
        yield ops.Tell(n, True, None)
        return (yield from whole(self, n, payload))

    monkeypatch.setattr(Peer, "_append", hasty)
    assert any(outcome.violation.startswith("records:") for outcome in map(crashing, SEEDS))


def test_a_record_that_is_told_to_be_the_usual_and_is_another_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ranks, "usual", lambda _self, events: bool(events))
    assert any(outcome.violation.startswith("records:") for outcome in map(crashing, SEEDS))


def test_a_decider_that_is_not_the_one_in_the_record_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Part._turn

    def vain(self: Part, joined: bool) -> Turn:
        turn = whole(self, joined)
        before = turn.before and msgspec.structs.replace(turn.before, decider=self.peer.me)
        return msgspec.structs.replace(turn, before=before)

    monkeypatch.setattr(Part, "_turn", vain)
    assert "has decided attempt" in found_by("records")


def test_a_record_without_the_last_to_come_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Collector.due

    def hasty(self: Collector, machine: Ranks, now_us: int) -> list[Event]:
        missing = [rank for rank in machine.crew.members() if rank.seat not in self._arrivals]
        if len(missing) == 1 and self._arrivals:
            self._arrivals[missing[0].seat] = Arrival(True, now_us)
        return whole(self, machine, now_us)

    monkeypatch.setattr(Collector, "due", hasty)
    assert "has not arrived" in found_by("early")


def test_a_record_that_forgets_a_member_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Collector.due

    def forgetful(self: Collector, machine: Ranks, now_us: int) -> list[Event]:
        return [msgspec.structs.replace(event, gone=[]) for event in whole(self, machine, now_us)]

    monkeypatch.setattr(Collector, "due", forgetful)
    drop_check(monkeypatch)
    assert "says nothing of seats" in found_by("early")


def test_going_on_with_too_few_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Collector.due

    def few(self: Collector, machine: Ranks, now_us: int) -> list[Event]:
        with monkeypatch.context() as patch:
            patch.setattr(Crew, "needed", lambda _self: 1)
            return whole(self, machine, now_us)

    monkeypatch.setattr(Collector, "due", few)
    drop_check(monkeypatch)
    assert "are needed" in found_by("early")


def test_a_no_that_is_not_heard_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Collector.hear

    def deaf(self: Collector, signal: Any, machine: Ranks, now_us: int) -> Any:
        yes = msgspec.structs.replace(signal, ok=True) if hasattr(signal, "ok") else signal
        return whole(self, yes, machine, now_us)

    monkeypatch.setattr(Collector, "hear", deaf)
    assert "against attempt" in found_by("votes")


def test_a_commit_against_a_no_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quoracy.core.ranks.rules.outcome_of", lambda _crew, arrived, _against: _yes(arrived))
    assert "says committed" in found_by("votes")


def _yes(arrived: list[int]) -> str:
    return "committed" if arrived else "formed"


def test_a_number_that_grows_without_a_commit_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Part._turn

    def eager(self: Part, joined: bool) -> Turn:
        turn = whole(self, joined)
        return msgspec.structs.replace(turn, number=turn.attempt - 2)

    monkeypatch.setattr(Part, "_turn", eager)
    assert "'s turn" in found_by("growth")


def test_an_attempt_that_is_tried_twice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Part.vote

    def impatient(self: Part, ok: bool) -> Any:
        before = self._trying()
        turn = yield from whole(self, ok)
        return before if turn.before.outcome == "repeated" and not turn.joined else turn

    monkeypatch.setattr(Part, "vote", impatient)
    assert "after attempt" in found_by("growth")


def test_a_duty_that_is_done_twice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def overwriting(self: Store, op: ops.Post) -> bool:
        self._letters[op.letter.sender, op.letter.seq] = op.letter
        return True

    monkeypatch.setattr(Store, "_post", overwriting)
    monkeypatch.setattr(Part, "_patience_us", lambda _self, _turn: 0)
    assert "was given" in found_by("duties")


def test_ranks_that_wait_for_the_dead_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_self: Collector, _rank: Rank, _now_us: int) -> bool:
        return False

    monkeypatch.setattr(Collector, "_suspects", never)
    found_by("progress")


def test_a_vote_that_is_never_repeated_is_noticed_when_notes_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others wait for one that is well, and is never given up."""
    monkeypatch.setattr(Collector, "has_arrived", lambda _self, _rank: True)
    found_by("progress")


def test_letters_that_nobody_writes_in_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Peer, "_write_in", lambda _self, _letters, _batch: [])
    found_by("progress")


def test_a_minority_that_begins_anew_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("state", "salvage"):
        monkeypatch.setattr(f"quoracy.core.ranks.{place}.majority", lambda _members: 1)
    assert "a minority" in found_by("generations")


def test_a_generation_that_begins_where_nobody_stood_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = salvage._successor

    def ahead(part: Part, newest: Any) -> Any:
        return whole(part, msgspec.structs.replace(newest, attempt=newest.attempt + 5))

    monkeypatch.setattr(salvage, "_successor", ahead)
    assert "which nobody decided" in found_by("generations")


def test_a_token_that_does_not_grow_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It must begin with the generation: those who had gone on without a majority are behind themselves when that
    majority has begun anew where it stood."""
    monkeypatch.setattr(Turn, "token", lambda turn: turn.attempt)
    assert any("goes on with token" in left_behind(seed).violation for seed in SEEDS)


def left_behind(seed: int) -> Outcome:
    life = Life(seed)
    life.world.after(3_000_000, life.leave_behind)
    return life.live()


def test_a_rank_that_is_cut_off_and_does_not_stop_itself_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It can read, and takes that for a word from the store: nobody hears from it, and it does not know."""
    monkeypatch.setattr(SimRank, "_is_out_of_reach", lambda _self: False)
    assert any("is cut off and has not stopped itself" in muted(seed).live().violation for seed in SEEDS)


def test_one_that_is_given_up_while_it_trains_and_goes_on_cut_off_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimRank, "_is_out_of_reach", lambda _self: False)
    assert any("goes on as" in slowly(seed).violation for seed in SEEDS)


def slowly(seed: int) -> Outcome:
    life = muted(seed)

    def slow() -> None:
        for process in life.processes:
            process.slow = 30 if process.muted else process.slow

    for after_us in range(1_000_001, 9_000_001, 500_000):
        life.world.after(after_us, slow)
    return life.live()


def test_a_life_that_goes_on_after_another_has_superseded_it_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Part, "_standing", lambda self: getattr(self.mine(), "state", None))
    assert any(outcome.violation.startswith("past:") for outcome in map(crashing, SEEDS))


def test_a_vote_that_is_counted_for_the_life_before_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new life that takes over the seat of the old one, and with it whatever the old one has said."""
    moves = RANK._moves[RankJoined]

    def inherits(crew: Crew, rank: Rank, event: RankJoined, at_us: int, cup: Any) -> Any:
        seat, seats = rank.seat, crew.seats
        applied = rules.do_join(crew, rank, event, at_us, cup)
        if seat:
            rank.seat, crew.seats = seat, seats
        return applied

    for state, move in list(moves.items()):
        if move.refuse is None:
            monkeypatch.setitem(moves, state, msgspec.structs.replace(move, do=inherits))
    assert "counts the vote of" in found_by("past")


def test_a_store_that_forgets_and_is_not_told_apart_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever does not look which store answers goes on in the empty one, as if nothing had happened."""
    whole = Store.do
    monkeypatch.setattr(Store, "do", lambda self, op, reply, _known=None: whole(self, op, reply))
    assert any(outcome.violation for outcome in map(crashing, SEEDS[:60]))


def crashing(seed: int) -> Any:
    """A life, in which an entry that cannot follow is trouble as well."""
    try:
        return live(seed)
    except (Bug, QuoracyError) as error:
        return Outcome(seed, False, str(error), 0, 0, 0, 0, [])


def test_without_a_planted_bug_nothing_is_noticed() -> None:
    assert [live(seed).violation for seed in range(1, 6)] == [""] * 5
    assert [superseding(seed).violation for seed in range(1, 6)] == [""] * 5


def test_a_last_iteration_that_is_one_behind_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Crew.last_iteration

    def behind(self: Crew, rank: Rank) -> int | None:
        said = whole(self, rank)
        return said - 1 if said and rank.state is RankState.MEMBER else said

    monkeypatch.setattr(Crew, "last_iteration", behind)
    assert "the last iteration of rank" in found_by("growth")


def test_a_last_iteration_that_a_rank_takes_with_it_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Crew.last_iteration

    def forgetful(self: Crew, rank: Rank) -> int | None:
        return None if rank.state is RankState.LEFT else whole(self, rank)

    monkeypatch.setattr(Crew, "last_iteration", forgetful)
    assert "the last iteration of rank" in found_by("growth")

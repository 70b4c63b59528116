"""The usual record: those who wait go on when they are told of it, and read it when they arrive the next time."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from tests.core.ranks.deck import SECOND, Boat, Sailor

from quoracy.core import asks as ops
from quoracy.core.asks import Steps
from quoracy.core.errors import Bug
from quoracy.core.kinds import PEERLESS
from quoracy.core.members import Cause
from quoracy.core.peer import Peer
from quoracy.core.ranks.events import RankJoined
from quoracy.core.ranks.salvage import _remembered
from quoracy.core.ranks.state import Crew
from quoracy.sim.ranks.store import Store


def asked(sailor: Sailor, since: int) -> list[str]:
    return [type(op).__name__ for op in sailor.asked[since:]]


def take_turns(boat: Boat, *crew: Sailor, against: tuple[Sailor, ...] = ()) -> None:
    """They arrive one after the other, so the last one decides."""
    for sailor in crew:
        sailor.go(sailor.part.vote(sailor not in against))
        boat.pass_s(0.001)
    boat.until(lambda: not any(sailor.busy for sailor in crew))


def test_whoever_waits_goes_on_when_it_is_told_and_reads_the_record_with_its_next_arrival() -> None:
    boat = Boat(form_members=2)
    crew = boat.board(0, 1)
    for number in (1, 2, 3):
        before = [len(sailor.asked) for sailor in crew]
        take_turns(boat, *crew)
        assert asked(crew[0], before[0]) == ["Arrive", "Await"]
        assert asked(crew[1], before[1]) == ["Arrive", "Append", "Tell"]
        assert [sailor.turn.number for sailor in crew] == [number, number]
        assert [sailor.peer.folded()[0].head.n for sailor in crew] == [len(boat.entries) - 1] * 2, "read too early"
    arrivals = [op for op in crew[0].asked if isinstance(op, ops.Arrive)]
    assert [op.read for op in arrivals[-3:]] == [False, True, True]
    assert not any(op.read for op in crew[1].asked if isinstance(op, ops.Arrive)), "it has what it wrote"


def test_what_a_rank_is_told_is_what_it_reads_later_but_for_who_decided() -> None:
    boat = Boat(form_members=3)
    crew = boat.board(0, 1, 2)
    take_turns(boat, *crew)
    for sailor in crew:
        turn = sailor.turn
        assert turn.before is not None
        assert turn.before.decider == ""
        whole = boat.read_on(sailor)
        told = (turn.before.attempt, turn.before.number, turn.before.outcome, turn.before.members)
        assert told == (whole.attempt, whole.number, whole.outcome, whole.members)
        assert (whole.decider, whole.against, whole.gone, whole.came) == ("2", [], [], [])
        mine: Crew = sailor.part.crew
        assert (turn.attempt, turn.number) == (mine.attempt + 1, mine.number)


def test_what_was_told_and_never_heard_costs_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Store, "_tell", lambda _self, _op: None)
    boat = Boat(form_members=3)
    crew = boat.board(0, 1, 2)
    began_us = boat.world.now_us
    take_turns(boat, *crew)
    assert boat.world.now_us - began_us < 2 * crew[0].part.times.wait_s() * SECOND
    assert {sailor.turn.number for sailor in crew} == {1}


@pytest.mark.parametrize("waited_ms", range(300, 500, 40))
def test_it_costs_no_more_in_the_middle_of_waiting_for_a_turn(monkeypatch: pytest.MonkeyPatch, waited_ms: int) -> None:
    monkeypatch.setattr(Store, "_tell", lambda _self, _op: None)
    boat = Boat(form_members=12)
    crew = boat.board(*range(12))
    for sailor in crew[1:]:
        sailor.go(sailor.part.vote(True))
    boat.pass_s(waited_ms / 1000)
    began_us = boat.world.now_us
    boat.all_vote(crew[0])
    boat.until(lambda: not any(sailor.busy for sailor in crew))
    assert boat.world.now_us - began_us < crew[0].part.times.wait_s() * SECOND + 4000


def no_vote(boat: Boat, crew: list[Sailor]) -> None:
    take_turns(boat, *crew, against=(crew[0],))


def newcomer(boat: Boat, crew: list[Sailor]) -> None:
    boat.store._post(ops.Post(_letter_of(boat, 7)))
    take_turns(boat, *crew)


def _letter_of(boat: Boat, rank: int) -> ops.Letter:
    """As a process that dies at once leaves it."""
    dead = boat.sailor(rank)
    dead.before = lambda op: dead.kill() if isinstance(op, ops.Watch) else None
    dead.go(dead.part.join())
    boat.until(lambda: not dead.alive)
    (letter,) = boat.store._letters.values()
    return letter


@pytest.mark.parametrize("unusual", [no_vote, newcomer])
def test_whoever_waits_is_told_at_once_that_there_is_another_record_and_reads_it(unusual: Any) -> None:
    boat = Boat(form_members=3)
    crew = boat.board(0, 1, 2)
    take_turns(boat, *crew)
    began_us, before = boat.world.now_us, len(crew[0].asked)
    unusual(boat, crew)
    assert boat.world.now_us - began_us < crew[0].part.times.wait_s() * SECOND / 2
    assert asked(crew[0], before) == ["Arrive", "Await", "Read"]
    for sailor in crew:
        assert sailor.turn.before is not None
        assert sailor.turn.before.decider == "2"


def at_once(boat: Boat, peer: Peer, steps: Steps) -> None:
    """In no time at all."""
    replies: list[Any] = [None]
    with contextlib.suppress(StopIteration):
        while True:
            peer.now_us = boat.world.now_us
            boat.store.do(steps.send(replies[-1]), replies.append)


def test_letters_that_were_written_in_meanwhile_do_not_keep_the_last_one() -> None:
    """It was told that all have come, and loses the next entry to one that decides nothing."""
    boat = Boat(form_members=2)
    crew = boat.board(0, 1)
    other = Peer("5", bytes(32), PEERLESS, boat.created)

    def overtake(op: ops.Op) -> None:
        if isinstance(op, ops.Append):
            crew[1].before = lambda _op: None
            joining = RankJoined("5", 0, bytes(16), learner=True)
            boat.store._post(ops.Post(ops.letter("5.x", 1, Cause("5", 0, 0), joining)))
            at_once(boat, other, other.load())
            at_once(boat, other, other.propose())

    crew[1].before = overtake
    began_us, before = boat.world.now_us, len(crew[1].asked)
    take_turns(boat, *crew)
    assert asked(crew[1], before) == ["Arrive", "Append", "Tell", "Collect", "Append", "Tell"]
    assert boat.world.now_us - began_us < crew[1].part.times.wait_s() * SECOND
    assert crew[0].turn.number == crew[1].turn.number == 1


def test_run_time_goes_on_while_a_record_is_unread() -> None:
    boat = Boat(form_members=2)
    crew = boat.board(0, 1)
    for _ in range(3):
        take_turns(boat, *crew)
        boat.pass_s(5)
    boat.read_on(crew[0])
    first, second, third = (decision.at_us for decision in crew[0].part.crew.log[-3:])
    for passed_us in (second - first, third - second):
        assert abs(passed_us - 5 * SECOND) < SECOND / 5


def test_a_record_that_was_told_and_is_another_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    boat = Boat(form_members=2)
    crew = boat.board(0, 1)
    monkeypatch.setattr("quoracy.core.ranks.machine.Ranks.usual", lambda _self, _events: True)
    take_turns(boat, *crew, against=(crew[0],))
    crew[0].go(crew[0].part.vote(True))
    boat.until(lambda: not crew[0].busy)
    with pytest.raises(Bug, match=r"entry \d+ was said to be the usual one, and is not"):
        _ = crew[0].turn


def test_one_that_cannot_read_any_more_what_it_was_told_reads_anew() -> None:
    boat = Boat(form_members=2, snapshot_every=4)
    crew = boat.board(0, 1)
    take_turns(boat, *crew)
    assert crew[0].peer.unread is not None
    crew[0].frozen = True
    for _ in range(6):
        boat.all_vote(crew[1])
    assert boat.store.compactions
    crew[0].thaw()
    loads = sum(isinstance(op, ops.Load) for op in crew[0].asked)
    crew[0].go(crew[0].part.vote(True))
    boat.sail(lambda: not crew[0].busy)
    assert sum(isinstance(op, ops.Load) for op in crew[0].asked) == loads + 1
    assert crew[0].turn.joined


def test_a_member_that_read_the_journal_anew_decides_under_its_own_name() -> None:
    boat = Boat(form_members=2, snapshot_every=4)
    crew = boat.board(0, 1)
    while sum(isinstance(op, ops.Load) for op in crew[0].asked) < 2:
        take_turns(boat, *crew)
    take_turns(boat, *reversed(crew))
    assert boat.read_on(crew[1]).decider == "0"
    assert crew[0].part.lives == 1


def test_a_record_that_is_unread_counts_when_the_store_is_lost() -> None:
    boat = Boat(form_members=2)
    crew = boat.board(0, 1)
    take_turns(boat, *crew)
    assert crew[0].peer.unread is not None
    claims = [_remembered(sailor.part) for sailor in crew]
    boat.read_on(crew[0])
    assert [_remembered(crew[0].part), claims[1]] == [claims[0], _remembered(crew[1].part)]
    assert claims[0].attempt == crew[0].turn.attempt - 1
    assert claims[0].number == 1


def test_a_rank_that_read_the_journal_anew_watches_for_every_entry_until_there_is_one_that_is_not_usual() -> None:
    """It does not know after which entry it would be told of another."""
    boat = Boat(form_members=2)
    crew = boat.board(0, 1)
    crew[0].go(crew[0].part._load())
    boat.until(lambda: not crew[0].busy)
    crew[0].result = crew[1].turn
    for against, waits in (((), ops.Watch), ((crew[1],), ops.Watch), ((), ops.Await)):
        before = len(crew[0].asked)
        take_turns(boat, *crew, against=against)
        assert any(isinstance(op, waits) for op in crew[0].asked[before:])
        assert crew[0].turn.number == crew[1].turn.number

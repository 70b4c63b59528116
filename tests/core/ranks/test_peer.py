"""A host inside every member, asked one operation at a time: what it does with each answer of a store."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.ranks.deck import Boat, Deck
from tests.core.scribe import RUN

from quoracy.core import asks as ops
from quoracy.core.asks import Steps
from quoracy.core.errors import Bug, EntriesGone
from quoracy.core.journal import RunCreated, decode_entry
from quoracy.core.kinds import PEERLESS
from quoracy.core.peer import MAX_LOADS, Peer
from quoracy.core.run import fold

GONE = EntriesGone(RUN, 1, 9)


def peer(me: str = "0") -> Peer:
    return Peer(me, me.encode(), PEERLESS, RunCreated(RUN, "ranks", 1, {}, seeding="chain"))


def begin(one: Peer, written: list[bytes]) -> None:
    """The run is made, or read."""
    steps = one.load()
    asked: Any = next(steps)
    assert isinstance(asked, ops.Load)
    asked = answer(steps, (None, list(written)))
    if asked is not None:
        written.append(asked.payload)
        assert answer(steps, ops.Written()) is None


def answer(steps: Steps, reply: Any) -> Any:
    """What is asked next; None if it is done."""
    try:
        return steps.throw(reply) if isinstance(reply, Exception) else steps.send(reply)
    except StopIteration:
        return None


def a_letter(rank: int) -> ops.Letter:
    return ops.letter(f"{rank}.x", 1, *Deck().joining(rank))


def test_an_append_that_was_not_answered_is_looked_up_and_is_its_own_if_the_bytes_are() -> None:
    one, written = peer(), list[bytes]()
    begin(one, written)
    steps = one.propose()
    assert isinstance(next(steps), ops.Collect)
    asked = answer(steps, [a_letter(3)])
    assert isinstance(asked, ops.Append)
    assert answer(steps, ops.Unclear()) == ops.Read(2, 1)
    assert answer(steps, [asked.payload]) == ops.Tell(2, False, None)
    assert answer(steps, None) == ops.Discard("3.x", 1)
    assert one.folded()[0].head.n == 2


def test_an_append_that_was_lost_is_made_again_with_the_same_bytes() -> None:
    one, written = peer(), list[bytes]()
    begin(one, written)
    steps = one.propose()
    next(steps)
    asked = answer(steps, [a_letter(3)])
    assert answer(steps, ops.Unclear()) == ops.Read(2, 1)
    assert answer(steps, []) == asked


def test_the_loser_folds_what_is_there_and_discards_nothing() -> None:
    one, other, written = peer("0"), peer("1"), list[bytes]()
    begin(one, written)
    begin(other, written)
    mine, theirs = one.propose(), other.propose()
    next(mine)
    next(theirs)
    answer(mine, [a_letter(3)])
    won = answer(theirs, [a_letter(4)])
    assert won.n == 2
    assert answer(mine, ops.Taken(won.payload)) is None
    machine: Any = one.folded()[0].machine
    assert list(machine.crew.ranks) == ["4"]


def test_nothing_to_write_is_one_question() -> None:
    one = peer()
    begin(one, [])
    steps = one.propose()
    assert isinstance(next(steps), ops.Collect)
    assert answer(steps, [ops.Letter("duty/x", 1, b"")]) is None


def test_a_journal_that_is_compacted_while_it_is_read_is_read_again() -> None:
    one, written = peer(), list[bytes]()
    begin(peer("1"), written)
    steps = one.load()
    assert isinstance(next(steps), ops.Load)
    assert isinstance(answer(steps, GONE), ops.Load)
    assert answer(steps, (None, written)) is None


def test_a_journal_that_is_gone_whenever_it_is_read_is_an_error_and_no_endless_loop() -> None:
    steps = peer().load()
    next(steps)
    for _ in range(MAX_LOADS - 1):
        assert isinstance(answer(steps, GONE), ops.Load)
    with pytest.raises(EntriesGone):
        answer(steps, GONE)


def test_one_that_wants_to_begin_a_run_that_has_gone_on_for_long_reads_it() -> None:
    one, written = peer(), list[bytes]()
    begin(peer("1"), written)
    steps = one.load()
    next(steps)
    assert isinstance(answer(steps, (None, [])), ops.Append)
    assert isinstance(answer(steps, GONE), ops.Load)
    assert answer(steps, (None, written)) is None


def test_a_peer_that_has_read_nothing_knows_nothing() -> None:
    with pytest.raises(Bug):
        peer().folded()


def test_now_and_then_an_entry_holds_the_digest_of_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quoracy.core.peer.STATE_DIGEST_EVERY", 4)
    boat = Boat()
    (alone,) = boat.board(0)
    for _ in range(8):
        boat.all_vote(alone)
    assert [bool(decode_entry(p, RUN, n).state) for n, p in enumerate(boat.entries[:8], start=1)] == [
        n % 4 == 0 for n in range(1, 9)
    ]
    before = fold(PEERLESS, RUN, boat.entries[:3])
    assert before is not None
    assert decode_entry(boat.entries[3], RUN, 4).state == before.state_digest()


def test_notes_that_mean_nothing_are_passed_over() -> None:
    one = peer()
    begin(one, [])
    one.observe([b"", b"\xc1junk", b"\x93\x01\x02\x03"], 0)
    assert one.explain().sentence == "the run waits for 1 more rank to begin (0 of 1 are there), 0 ms so far"

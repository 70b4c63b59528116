"""Any history: it folds to the same bytes from the beginning and from any snapshot, and refusal changes nothing."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.ranks.deck import Deck
from tests.core.scribe import RUN

from quoracy.core.dice import Cup
from quoracy.core.kinds import PEERLESS
from quoracy.core.members import Cause
from quoracy.core.ranks.events import RankLeft, RankReady, RunStopped
from quoracy.core.run import Decided, Run, fold

step = st.tuples(
    st.sampled_from(
        ["join"] * 4 + ["learn"] * 2 + ["ready"] * 3 + ["leave"] + ["decide"] * 8 + ["wrong"] * 2 + ["stop"]
    ),
    st.integers(0, 3),
    st.integers(0, 15),
)  # fmt: skip


def pair(deck: Deck, what: str, rank: int, which: int) -> tuple[Cause | None, Any] | None:
    known = str(rank) in deck.crew.ranks
    match what:
        case "join" | "learn":
            return deck.joining(rank, learner=what == "learn")
        case "ready" | "leave":
            return deck.said(rank, RankReady if what == "ready" else RankLeft) if known else None
        case "stop":
            return (Cause("@op", 0, which + 1), RunStopped("enough")) if which == 0 else None
    here = [int(each.id) for each in deck.crew.here()]
    gone = tuple(each for place, each in enumerate(here) if which >> place & 1)
    stay = [int(name) for name in deck.members() if int(name) not in gone]
    against = tuple(stay[:1]) if rank == 0 else ()
    record = deck.record(against, gone)
    return None, record if what == "decide" else deck.record(against, gone, arrived=record.arrived[1:], number=rank)


@settings(max_examples=150)
@given(st.lists(step, max_size=40), st.integers(0, 100))
def test_any_history_folds_alike_from_everywhere(steps: list[tuple[str, int, int]], cut: int) -> None:
    deck = Deck(min_members=2, max_ranks=4)
    attempts, numbers = [0], [0]
    for one in steps:
        made = pair(deck, *one)
        if made is not None:
            before = deck.run.snapshot()
            trial = Run.restore(PEERLESS, RUN, before.n, before.root, before.pages)
            answer = trial.decide(*made, trial.head.at_us, Cup(RUN, bytes(16)), trial.head.n + 1)
            if isinstance(answer, Decided):
                deck.scribe.write(made)
            else:
                assert trial.snapshot() == before
        attempts.append(deck.crew.attempt)
        numbers.append(deck.crew.number)
        seats = [rank.seat for rank in deck.crew.ranks.values()]
        assert len(set(seats)) == len(seats)
        if deck.crew.log and deck.crew.log[-1].attempt != attempts[-2]:
            assert len(deck.crew.log[-1].members) >= 2
    assert attempts == sorted(attempts)
    assert all(later - earlier in (0, 1) for earlier, later in pairwise(numbers))
    payloads = deck.scribe.payloads
    at = 1 + cut % len(payloads)
    base = fold(PEERLESS, RUN, payloads[:at])
    assert base is not None
    saved = base.snapshot()
    restored = Run.restore(PEERLESS, RUN, saved.n, saved.root, saved.pages)
    again = fold(PEERLESS, RUN, payloads[at:], restored)
    whole = fold(PEERLESS, RUN, payloads)
    assert again is not None
    assert whole is not None
    assert again.state_digest() == whole.state_digest() == deck.run.state_digest()

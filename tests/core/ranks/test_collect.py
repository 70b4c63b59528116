"""The collector: beats become suspicions, arrivals become a record."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.ranks.deck import Deck

from quoracy.core.errors import Refusal
from quoracy.core.machine import Event
from quoracy.core.ranks.collect import Collector
from quoracy.core.ranks.events import AttemptDecided, RunStopped

SECOND = 1_000_000


class Watcher:
    """A collector beside a deck, with a clock of its own."""

    def __init__(self, *ranks: int, me: str = "0", **config: Any) -> None:
        self.deck = Deck(*ranks, **config)
        self.now_us = 5_000 * SECOND
        self.collector = Collector(self.deck.machine, self.now_us)
        self.collector.decider = me
        self.seq = 0

    def hear(self, signal: Any) -> Refusal | None:
        return self.collector.hear(signal, self.deck.machine, self.now_us)

    def arrive(self, *ranks: int, ok: bool = True) -> None:
        for rank in ranks:
            assert self.hear(self.deck.arrival(rank, ok)) is None

    def pass_s(self, seconds: int, *beating: int) -> None:
        """Second by second, looking all the while."""
        for _ in range(seconds):
            self.now_us += SECOND
            self.seq += 1
            for rank in beating:
                self.hear(self.deck.beat(rank, self.seq))
            self.collector.watched(self.now_us)

    def due(self) -> list[Event]:
        return self.collector.due(self.deck.machine, self.now_us)

    def record(self) -> AttemptDecided:
        (event,) = self.due()
        assert isinstance(event, AttemptDecided)
        return event

    def write(self, *pairs: Any) -> None:
        self.deck.scribe.write(*pairs)
        self.collector.committed([event for _, event in pairs], self.deck.machine, self.now_us)

    def explain(self) -> str:
        return self.collector.explain(self.deck.machine, self.now_us).sentence


def test_a_record_is_due_when_all_have_arrived_and_not_before() -> None:
    watcher = Watcher(0, 1, 2)
    watcher.arrive(0, 2)
    assert watcher.due() == []
    watcher.arrive(1, ok=False)
    record = watcher.record()
    assert (record.arrived, record.against, record.gone, record.outcome) == ([1, 3, 2], [2], [], "repeated")
    assert record.decider == "0"


def test_when_each_arrived_follows_from_how_long_it_was_at_the_attempt_though_all_are_seen_at_once() -> None:
    watcher = Watcher(0, 1, 2)
    watcher.pass_s(10, 0, 1, 2)
    for rank, tried_s in ((0, 9), (1, 4), (2, 7)):
        assert watcher.hear(watcher.deck.arrival(rank, tried_us=tried_s * SECOND)) is None
    watcher.now_us += SECOND
    record = watcher.record()
    assert record.arrived == [2, 3, 1], "in order of arrival"
    assert record.waits_us == [7 * SECOND, 4 * SECOND, 2 * SECOND]


def test_nobody_arrived_after_it_was_seen_whatever_it_says() -> None:
    watcher = Watcher(0)
    watcher.pass_s(2, 0)
    assert watcher.hear(watcher.deck.arrival(0, tried_us=60 * SECOND)) is None
    watcher.now_us += SECOND
    assert watcher.record().waits_us == [SECOND]


def test_the_first_word_of_a_rank_counts() -> None:
    watcher = Watcher(0)
    watcher.arrive(0, ok=False)
    watcher.arrive(0, ok=True)
    assert watcher.record().outcome == "repeated"


def test_one_that_falls_silent_is_given_up_with_a_reason_and_the_rest_go_on() -> None:
    watcher = Watcher(0, 1, 2)
    watcher.arrive(0, 1)
    watcher.pass_s(30, 0, 1)
    assert watcher.due() == []
    watcher.pass_s(1, 0, 1)
    assert watcher.record().gone == [(3, "no sign of life for 31.0 s; 30.0 s are allowed")]


def test_one_that_arrived_and_then_fell_silent_is_given_up_too() -> None:
    watcher = Watcher(0, 1)
    watcher.arrive(1)
    watcher.pass_s(31, 0)
    assert watcher.due() == []
    watcher.arrive(0)
    record = watcher.record()
    assert record.arrived == [1]
    assert "after it had arrived" in record.gone[0][1]


def test_whoever_decides_does_not_give_itself_up() -> None:
    watcher = Watcher(0, 1, me="1")
    watcher.arrive(0, 1)
    watcher.pass_s(40, 0)
    assert watcher.record().arrived == [1, 2]


def test_an_observer_that_stood_still_suspects_nobody() -> None:
    watcher = Watcher(0, 1)
    watcher.arrive(0)
    watcher.pass_s(20, 0)
    watcher.now_us += 16 * SECOND
    watcher.collector.watched(watcher.now_us)
    assert watcher.due() == []
    watcher.pass_s(30, 0)
    assert watcher.due() == []
    watcher.pass_s(1, 0)
    assert watcher.record().gone


def test_what_another_looked_at_in_its_place_is_no_stall() -> None:
    watcher = Watcher(0, 1)
    watcher.arrive(0)
    watcher.now_us += 30 * SECOND + 1
    watcher.collector.watched_for(watcher.now_us)
    watcher.collector.watched(watcher.now_us)
    assert [seat for seat, _ in watcher.record().gone] == [2]


def test_silence_counts_from_when_the_other_looked_without_a_gap() -> None:
    """The one that looks in its place stood still as well."""
    watcher = Watcher(0, 1)
    watcher.arrive(0)
    watcher.now_us += 40 * SECOND
    watcher.collector.watched_for(watcher.now_us, watcher.now_us - SECOND)
    assert watcher.due() == []
    watcher.now_us += 29 * SECOND
    watcher.collector.watched_for(watcher.now_us, watcher.now_us - 30 * SECOND)
    assert watcher.due() == []
    watcher.now_us += SECOND
    assert watcher.record().gone


def test_an_old_report_does_not_make_the_observer_look_as_if_it_had_stood_still() -> None:
    watcher = Watcher(0, 1)
    watcher.arrive(0)
    long_ago_us = watcher.now_us
    for _ in range(31):
        watcher.collector.watched_for(long_ago_us)
        watcher.pass_s(1, 0)
    assert watcher.record().gone


# -- since when one is silent --------------------------------------------------------------------------------------


def looking(look_s: float) -> Watcher:
    watcher = Watcher(0, 1)
    watcher.collector.belong("0", round(look_s * SECOND))
    watcher.arrive(0)
    return watcher


def silent_s(watcher: Watcher, rank: int) -> float:
    return (watcher.collector.silent_us(str(rank), watcher.now_us) or 0) / SECOND


def test_silence_counts_from_the_look_before_the_one_that_saw_the_last_beat() -> None:
    """The beat may have been written just after that look."""
    watcher = looking(2)
    watcher.pass_s(4, 0, 1)
    assert silent_s(watcher, 1) == 1
    watcher.pass_s(29, 0)
    assert watcher.due() == []
    watcher.pass_s(1, 0)
    assert watcher.record().gone == [(2, "no sign of life for 31.0 s; 30.0 s are allowed")]


def test_but_from_no_more_than_a_look_before_where_looks_come_late() -> None:
    """Or an observer that was slow would give up whoever beats in time."""
    watcher = looking(0.25)
    watcher.pass_s(4, 0, 1)
    assert silent_s(watcher, 1) == 0.25


def test_and_never_from_after_the_beat_was_seen() -> None:
    """What another has seen is told later, when this one has looked meanwhile."""
    watcher = looking(2)
    watcher.pass_s(10, 0)
    seen_us = watcher.now_us - 5 * SECOND
    watcher.collector.hear(watcher.deck.beat(1, 100), watcher.deck.machine, seen_us)
    assert silent_s(watcher, 1) == 5


def test_what_another_has_looked_at_in_its_place_is_a_look() -> None:
    watcher = looking(2)
    watcher.pass_s(4, 0, 1)
    watcher.now_us += SECOND
    watcher.collector.watched_for(watcher.now_us)
    watcher.now_us += SECOND // 2
    watcher.hear(watcher.deck.beat(1, 100))
    assert silent_s(watcher, 1) == 0.5


def test_one_that_is_new_to_an_observer_is_not_silent_since_before() -> None:
    watcher = looking(2)
    watcher.now_us += SECOND
    watcher.hear(watcher.deck.beat(1, 1))
    assert silent_s(watcher, 1) == 1


# -- coming and going ---------------------------------------------------------------------------------------------


def test_one_that_waits_and_falls_silent_is_not_counted_in() -> None:
    watcher = Watcher(0)
    watcher.write(watcher.deck.joining(1))
    watcher.pass_s(31, 0)
    watcher.arrive(0)
    assert [seat for seat, _ in watcher.record().gone] == [2]


def test_a_rank_that_returns_starts_afresh() -> None:
    watcher = Watcher(0, 1)
    watcher.arrive(0)
    watcher.pass_s(31, 0)
    watcher.write((None, watcher.record()))
    watcher.write(watcher.deck.joining(1))
    watcher.arrive(0)
    record = watcher.record()
    assert (record.arrived, record.gone) == ([1], [])


def test_a_new_life_makes_the_arrival_of_the_old_one_void() -> None:
    watcher = Watcher(0, 1)
    watcher.arrive(1)
    watcher.write(watcher.deck.joining(1))
    assert watcher.due() == []
    watcher.arrive(0)
    assert watcher.record().arrived == [1]


def test_arrivals_are_forgotten_with_the_record_that_counted_them() -> None:
    watcher = Watcher(0, 1)
    watcher.arrive(0, 1)
    watcher.write((None, watcher.record()))
    assert watcher.due() == []


@pytest.mark.parametrize("late", [-1, 1])
def test_an_arrival_at_another_attempt_is_refused(late: int) -> None:
    watcher = Watcher(0)
    arrival = watcher.deck.arrival(0)
    refusal = watcher.hear(type(arrival)("0", 1, arrival.attempt + late, True))
    assert refusal is not None
    assert refusal.code == "stale_token"
    assert watcher.due() == []


def test_strangers_older_lives_and_those_who_wait_are_not_heard() -> None:
    watcher = Watcher(0)
    watcher.write(watcher.deck.joining(1))
    old = watcher.deck.arrival(0)
    codes = [
        (watcher.hear(type(old)("7", 1, 2, True)) or old).code,  # type: ignore[union-attr]
        (watcher.hear(watcher.deck.arrival(1)) or old).code,  # type: ignore[union-attr]
    ]
    watcher.write(watcher.deck.joining(0))
    codes.append((watcher.hear(old) or old).code)  # type: ignore[union-attr]
    assert codes == ["unknown_member", "wrong_state", "superseded"]


def test_too_few_wait_for_others_to_come() -> None:
    watcher = Watcher(0, 1, min_members=2)
    watcher.arrive(0)
    watcher.pass_s(31, 0)
    assert watcher.due() == []
    assert watcher.explain().startswith(
        "attempt 2 of iteration 0 waits for 1 more rank (1 would go on and 2 are needed; "
    )
    watcher.write(watcher.deck.joining(2))
    assert [seat for seat, _ in watcher.record().gone] == [2]


def test_after_the_end_nothing_is_due() -> None:
    watcher = Watcher(0)
    watcher.arrive(0)
    watcher.deck.machine.apply(RunStopped("enough"), 0, None)
    assert watcher.due() == []
    assert watcher.explain() == "the run is over: enough"


def test_the_overview_has_every_rank_and_the_log() -> None:
    watcher = Watcher(0, 1)
    watcher.arrive(1)
    watcher.pass_s(2, 0)
    shown = watcher.collector.overview(watcher.deck.machine, watcher.now_us)
    assert (shown["phase"], shown["attempt"], shown["number"]) == ("Running", 2, 0)
    assert [(rank["rank"], rank["arrived"], rank["silent_s"]) for rank in shown["ranks"]] == [
        (0, False, 0.0), (1, True, 2.0),
    ]  # fmt: skip
    assert shown["log"][0]["outcome"] == "formed"

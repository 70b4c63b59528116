"""The failure detector beside a dumb twin that remembers everything and judges everyone, every time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quoracy.core.detector import Detector

TIMEOUT = 100
NAMES = ("a", "b", "c")


class Twin:
    """No heap: a dictionary of (number, time it last moved), walked on every look. ``named`` is when each was last
    named: not again for an eighth of the time-out."""

    def __init__(self, now_us: int) -> None:
        self.seen: dict[str, tuple[int, int]] = {}
        self.named: dict[str, int] = {}
        self.awake_us = now_us

    def watch(self, who: str, now_us: int) -> None:
        self.seen[who] = (-1, now_us)
        self.named.pop(who, None)

    def drop(self, who: str) -> None:
        self.seen.pop(who, None)

    def hear(self, who: str, seq: int, now_us: int) -> bool:
        if now_us - self.awake_us <= TIMEOUT // 2:
            self.awake_us = max(self.awake_us, now_us)
        if who not in self.seen or seq <= self.seen[who][0]:
            return False
        self.seen[who] = (seq, max(now_us, self.seen[who][1]))
        return True

    def touch(self, who: str, now_us: int) -> None:
        if who in self.seen:
            self.seen[who] = (self.seen[who][0], max(now_us, self.seen[who][1]))

    def restart(self, now_us: int) -> None:
        self.seen = {who: (seq, now_us) for who, (seq, _) in self.seen.items()}
        self.named.clear()

    def look(self, now_us: int) -> list[tuple[str, int]]:
        stalled = now_us - self.awake_us > TIMEOUT // 2
        self.awake_us = now_us
        if stalled:
            self.restart(now_us)
        overdue = [who for who, (_, at) in self.seen.items() if now_us - at > TIMEOUT]
        fresh = [who for who in overdue if who not in self.named or now_us - self.named[who] > TIMEOUT // 8]
        self.named.update(dict.fromkeys(fresh, now_us))
        return sorted((who, now_us - self.seen[who][1]) for who in fresh)


operations = st.lists(
    st.one_of(
        st.tuples(st.just("watch"), st.sampled_from(NAMES)),
        st.tuples(st.just("drop"), st.sampled_from(NAMES)),
        st.tuples(st.just("hear"), st.sampled_from(NAMES), st.integers(0, 6), st.integers(0, 60)),
        st.tuples(st.just("touch"), st.sampled_from(NAMES)),
        st.tuples(st.just("restart")),
        st.tuples(st.just("look")),
        st.tuples(st.just("pass"), st.sampled_from([1, 2, 10, 25, 49, 50, 51, 120])),
    ),
    min_size=10,
    max_size=80,
)


@settings(max_examples=400)
@given(operations)
def test_the_detector_judges_as_its_dumb_twin_does(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    now_us = 1000
    detector, twin = Detector(TIMEOUT, now_us), Twin(now_us)
    for what, *arguments in steps:
        match what, arguments:
            case "watch", (who,):
                detector.watch(who, now_us)
                twin.watch(who, now_us)
            case "drop", (who,):
                detector.drop(who)
                twin.drop(who)
            case "hear", (who, seq, ago):
                assert detector.hear(who, seq, now_us - ago) == twin.hear(who, seq, now_us - ago)
            case "touch", (who,):
                detector.touch(who, now_us)
                twin.touch(who, now_us)
            case "restart", ():
                detector.restart(now_us)
                twin.restart(now_us)
            case "look", ():
                verdicts = detector.look(now_us)
                assert sorted((v.who, v.silent_us) for v in verdicts) == twin.look(now_us)
                now_us += 1
            case "pass", (span,):
                now_us += span
        for who in NAMES:
            expected = now_us - twin.seen[who][1] if who in twin.seen else None
            assert detector.silent_us(who, now_us) == expected


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 300)), max_size=30),
    st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 300)), min_size=1, max_size=6),
)
def test_one_that_looks_only_when_it_wakes_names_everyone_in_time(
    heard: list[tuple[str, int]], watched: list[tuple[str, int]]
) -> None:
    """Judged by a twin that looks every single microsecond."""
    detector = Detector(TIMEOUT, 0)
    moved: dict[str, int] = {}
    for now_us in range(600):
        for who, at in watched:
            if at == now_us:
                detector.watch(who, now_us)
                moved[who] = now_us
        for who, at in heard:
            if at == now_us and who in moved:
                detector.hear(who, now_us + 1, now_us)
                moved[who] = now_us
        wake_us = detector.wake_us()
        assert (wake_us is None) == (not moved)
        named: set[str] = set()
        if wake_us is not None and wake_us <= now_us:
            named = {verdict.who for verdict in detector.look(now_us)}
        overdue = {who for who, at in moved.items() if now_us - at > TIMEOUT}
        assert named == overdue
        for who in named:
            detector.drop(who)
            del moved[who]


def test_silence_of_exactly_the_time_out_is_allowed_and_a_microsecond_more_is_not() -> None:
    detector = Detector(TIMEOUT, 0)
    detector.watch("a", 0)
    detector.hear("a", 1, 10)
    assert detector.look(50) == []
    assert detector.look(100) == []
    assert detector.look(110) == []
    (verdict,) = detector.look(111)
    assert (verdict.who, verdict.silent_us) == ("a", 101)
    assert verdict.why == "no sign of life for 0 ms; 0 ms are allowed"


def test_a_verdict_says_how_long_and_how_long_is_allowed() -> None:
    detector = Detector(30_000_000, 0)
    detector.watch("a", 0)
    for now_us in range(0, 30_000_000, 10_000_000):
        detector.look(now_us)
    (verdict,) = detector.look(31_500_000)
    assert verdict.why == "no sign of life for 31.5 s; 30.0 s are allowed"


def test_a_duplicate_proves_no_life() -> None:
    detector = Detector(TIMEOUT, 0)
    detector.watch("a", 0)
    assert detector.hear("a", 7, 10)
    assert not detector.hear("a", 7, 60)
    assert not detector.hear("a", 6, 70)
    assert detector.silent_us("a", 70) == 60


def test_one_that_is_not_watched_cannot_be_heard() -> None:
    detector = Detector(TIMEOUT, 0)
    assert not detector.hear("a", 1, 0)
    detector.touch("a", 0)
    assert detector.silent_us("a", 0) is None
    assert detector.wake_us() is None


def test_a_message_that_waited_in_a_queue_does_not_make_anyone_older() -> None:
    detector = Detector(TIMEOUT, 0)
    detector.watch("a", 50)
    detector.hear("a", 1, 20)
    assert detector.silent_us("a", 60) == 10


def test_an_observer_that_stood_still_gives_everyone_a_fresh_start() -> None:
    detector = Detector(TIMEOUT, 0)
    detector.watch("a", 0)
    detector.look(0)
    assert detector.stalled_us == 0
    assert detector.look(1000) == []
    assert detector.stalled_us == 1000
    assert detector.silent_us("a", 1000) == 0
    assert detector.look(1050) == []
    assert detector.look(1100) == []
    (verdict,) = detector.look(1101)
    assert verdict.silent_us == 101
    assert detector.stalled_us == 0


def test_half_a_time_out_between_two_looks_is_no_stall() -> None:
    detector = Detector(TIMEOUT, 0)
    detector.watch("a", 0)
    detector.look(50)
    detector.look(100)
    assert detector.stalled_us == 0
    assert [verdict.who for verdict in detector.look(150)] == ["a"]


def test_numbers_stay_when_everyone_gets_a_fresh_start() -> None:
    detector = Detector(TIMEOUT, 0)
    detector.watch("a", 0)
    detector.hear("a", 5, 0)
    detector.restart(10)
    assert not detector.hear("a", 5, 20)
    assert detector.hear("a", 6, 20)


def test_watching_again_begins_with_any_number() -> None:
    detector = Detector(TIMEOUT, 0)
    detector.watch("a", 0)
    detector.hear("a", 5, 0)
    detector.watch("a", 0)
    assert detector.hear("a", 0, 1)


def test_one_that_was_watched_twice_is_named_once() -> None:
    detector = Detector(TIMEOUT, 0)
    detector.watch("a", 0)
    detector.drop("a")
    detector.watch("a", 10)
    for now_us in (40, 80):
        assert detector.look(now_us) == []
    assert [verdict.who for verdict in detector.look(111)] == ["a"]


def test_the_overdue_are_named_again_now_and_then_until_they_are_dropped() -> None:
    detector = Detector(TIMEOUT, 0)
    detector.watch("a", 0)
    detector.look(50)
    detector.look(100)
    assert [verdict.who for verdict in detector.look(101)] == ["a"]
    assert detector.look(102) == []
    assert detector.look(113) == []
    assert [verdict.who for verdict in detector.look(114)] == ["a"]
    detector.drop("a")
    assert detector.look(160) == []
    assert detector.wake_us() is None


def test_a_detector_without_a_time_out_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="must be positive"):
        Detector(0, 0)

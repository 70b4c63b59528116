"""The suite that every pulse must pass; see ``quoracy.testing.journal`` for how to use it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from quoracy.ports import MAX_NOTE_BYTES, Beat, Pulse
from quoracy.testing.expect import Together, equal, opened, raises
from quoracy.testing.journal_reads import ODD_NAMES

OpenPulse = Callable[[], Pulse]
PulseCheck = Callable[[OpenPulse], None]


def a_beat_replaces_the_one_before(open_pulse: OpenPulse) -> None:
    with opened(open_pulse) as pulse, opened(open_pulse) as observer:
        equal(observer.beats("r"), {}, "before anybody beat")
        pulse.beat("r", "a", Beat(1, b"here"))
        pulse.beat("r", "b", Beat(7))
        pulse.beat("r", "a", Beat(2, b"there"))
        equal(observer.beats("r"), {"a": Beat(2, b"there"), "b": Beat(7)}, "beats")


def a_lower_beat_is_ignored_and_an_equal_one_is_not(open_pulse: OpenPulse) -> None:
    with opened(open_pulse) as pulse:
        pulse.beat("r", "a", Beat(5, b"five"))
        pulse.beat("r", "a", Beat(4, b"late"))
        equal(pulse.beats("r"), {"a": Beat(5, b"five")}, "after a lower one")
        pulse.beat("r", "a", Beat(5, b"moved"))
        equal(pulse.beats("r"), {"a": Beat(5, b"moved")}, "after an equal one")


def a_forgotten_key_is_gone_and_may_come_back(open_pulse: OpenPulse) -> None:
    with opened(open_pulse) as pulse:
        pulse.beat("r", "a", Beat(5))
        pulse.beat("s", "a", Beat(6))
        pulse.forget("r", "a")
        pulse.forget("r", "nobody")
        pulse.forget("no run", "nobody")
        equal((pulse.beats("r"), pulse.beats("s")), ({}, {"a": Beat(6)}), "after forgetting")
        pulse.beat("r", "a", Beat(0))
        equal(pulse.beats("r"), {"a": Beat(0)}, "after coming back with a lower number")


def any_name_is_only_a_name(open_pulse: OpenPulse) -> None:
    with opened(open_pulse) as pulse:
        for i, name in enumerate(ODD_NAMES):
            pulse.beat(name, "key", Beat(i))
            pulse.beat("keys", name, Beat(i))
        equal([pulse.beats(name)["key"].seq for name in ODD_NAMES], list(range(len(ODD_NAMES))), "runs")
        equal(pulse.beats("keys"), {name: Beat(i) for i, name in enumerate(ODD_NAMES)}, "keys")


def a_beat_outside_the_limits_is_refused(open_pulse: OpenPulse) -> None:
    with opened(open_pulse) as pulse:
        pulse.beat("r", "large", Beat(1, bytes(MAX_NOTE_BYTES)))
        raises(ValueError, "a note that is too large", pulse.beat, "r", "a", Beat(1, bytes(MAX_NOTE_BYTES + 1)))
        raises(ValueError, "a negative number", pulse.beat, "r", "a", Beat(-1))
        raises(ValueError, "a run without a name", pulse.beat, "", "a", Beat(1))
        raises(ValueError, "a key without a name", pulse.beat, "r", "", Beat(1))
        equal(pulse.beats("r"), {"large": Beat(1, bytes(MAX_NOTE_BYTES))}, "beats")


def many_may_beat_at_once(open_pulse: OpenPulse) -> None:
    def go_on(me: str) -> None:
        with opened(open_pulse) as pulse:
            for seq in range(1, 31):
                pulse.beat("r", me, Beat(seq, me.encode()))

    beaters = ["a", "b", "c", "d"]
    with Together() as together:
        for me in beaters:
            together.call(go_on, me)
    with opened(open_pulse) as pulse:
        equal(pulse.beats("r"), {me: Beat(30, me.encode()) for me in beaters}, "beats")


def a_tally_counts_each_once_and_begins_anew_with_every_turn(open_pulse: OpenPulse) -> None:
    with opened(open_pulse) as pulse, opened(open_pulse) as other:
        equal([pulse.tally("r", "door", 1), other.tally("r", "door", 1)], [1, 2], "two in one turn")
        equal([pulse.tally("r", "window", 1), pulse.tally("s", "door", 1)], [1, 1], "another place, another run")
        equal([other.tally("r", "door", 5), pulse.tally("r", "door", 5)], [1, 2], "the next turn")
        pulse.tally("r", "door", 1)
        equal(other.tally("r", "door", 5), 3, "after somebody came late to an older turn")
        raises(ValueError, "a negative turn", pulse.tally, "r", "door", -1)
        raises(ValueError, "a place without a name", pulse.tally, "r", "", 1)


def many_may_come_at_once_and_each_gets_another_number(open_pulse: OpenPulse) -> None:
    numbers: list[int] = []

    def come() -> None:
        with opened(open_pulse) as pulse:
            numbers.extend(pulse.tally("r", "door", 7) for _ in range(20))

    with Together() as together:
        for _ in range(4):
            together.call(come)
    equal(sorted(numbers), list(range(1, 81)), "numbers")


def closing_twice_is_fine_and_nothing_works_afterwards(open_pulse: OpenPulse) -> None:
    with opened(open_pulse) as pulse:
        pulse.close()
        pulse.close()
        raises(ValueError, "beat after close", pulse.beat, "r", "a", Beat(1))
        raises(ValueError, "beats after close", pulse.beats, "r")
        raises(ValueError, "forget after close", pulse.forget, "r", "a")
        raises(ValueError, "tally after close", pulse.tally, "r", "a", 1)


PULSE_CHECKS: tuple[PulseCheck, ...] = (
    a_beat_replaces_the_one_before,
    a_lower_beat_is_ignored_and_an_equal_one_is_not,
    a_forgotten_key_is_gone_and_may_come_back,
    any_name_is_only_a_name,
    a_beat_outside_the_limits_is_refused,
    many_may_beat_at_once,
    a_tally_counts_each_once_and_begins_anew_with_every_turn,
    many_may_come_at_once_and_each_gets_another_number,
    closing_twice_is_fine_and_nothing_works_afterwards,
)


def check_pulse(fresh: Callable[[], AbstractContextManager[OpenPulse]]) -> None:
    for check in PULSE_CHECKS:
        with fresh() as open_pulse:
            check(open_pulse)

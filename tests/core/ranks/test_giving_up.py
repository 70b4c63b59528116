"""When a dead rank is given up: by the time, counted from its last beat, whatever lies between."""

from __future__ import annotations

import pytest
from tests.core.ranks.deck import SECOND, Boat, Sailor


def die_after_a_beat(sailor: Sailor) -> int:
    """-> when that was."""
    sailor.boat.store.do(sailor.part.beat(sailor._beats + 1), lambda _: None)
    sailor.kill()
    return sailor.boat.world.now_us


@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.parametrize("later_ms", range(0, 70, 10))
def test_one_that_dies_after_a_beat_is_given_up_by_the_time_and_at_most_a_look_sooner(size: int, later_ms: int) -> None:
    """Wherever that beat lies between two looks of the others."""
    boat = Boat(form_members=size)
    crew = boat.board(*range(size))
    boat.pass_s(later_ms / 1000)
    began_us = die_after_a_beat(crew[1])
    (turn, *_) = boat.all_vote(crew[0], *crew[2:])
    assert "1" not in turn.members
    times, took_us = crew[0].part.times, boat.world.now_us - began_us
    assert (boat.dead_s - times.look_s) * SECOND - 2000 < took_us < boat.dead_s * SECOND + 4000


def test_it_is_no_later_for_one_that_had_read_the_journal_before_it_joined() -> None:
    """As a shell does that has to know the run's settings first."""
    boat = Boat(form_members=2)
    crew = [boat.sailor(rank) for rank in range(2)]
    for sailor in crew:
        sailor.go(sailor.peer.load())
    boat.until(lambda: not any(sailor.busy for sailor in crew))
    for sailor in crew:
        sailor.go(sailor.part.join())
    boat.until(lambda: not any(sailor.busy for sailor in crew))
    began_us = die_after_a_beat(crew[1])
    assert boat.all_vote(crew[0])[0].members == ["0"]
    assert boat.world.now_us - began_us < boat.dead_s * SECOND + 4000


def test_it_is_no_later_if_somebody_else_comes_meanwhile() -> None:
    """Which makes another order of those who decide."""
    boat = Boat(form_members=5)
    crew = boat.board(*range(5))
    began_us = die_after_a_beat(crew[1])
    for sailor in (crew[0], *crew[2:]):
        sailor.go(sailor.part.vote(True))
    boat.pass_s(boat.dead_s - 0.1)
    entries = len(boat.entries)
    newcomer = boat.sailor(7)
    newcomer.go(newcomer.part.join())
    boat.until(lambda: len(boat.entries) > entries)
    assert crew[0].busy
    boat.until(lambda: not any(sailor.busy for sailor in (crew[0], *crew[2:])))
    assert boat.world.now_us - began_us < boat.dead_s * SECOND + 4000
    boat.until(lambda: not newcomer.busy)
    assert crew[0].turn.members == ["0", "2", "3", "4", "7"]


def test_those_who_may_give_it_up_do_so_one_after_the_other() -> None:
    """A slot between any two, up to a beat: whoever comes late finds that it is done."""
    boat = Boat(form_members=12)
    crew = boat.board(*range(12))
    slot_us, most_us = (round(each * SECOND) for each in (crew[0].part.times.slot_s, crew[0].part.times.beat_s))
    turns_us = sorted(sailor.part._turn_us() for sailor in crew)
    assert turns_us == [min(place * slot_us, most_us) for place in range(12)]
    assert turns_us[8] < turns_us[9] < turns_us[10] == most_us


def test_a_new_life_is_not_given_up_for_the_silence_of_the_old_one_in_the_entry_that_lets_it_in() -> None:
    boat = Boat(form_members=2)
    first, second = boat.board(0, 1)
    second.kill()
    boat.pass_s(boat.dead_s + 0.1)
    again = boat.sailor(1)
    again.go(again.peer.load())
    boat.until(lambda: not again.busy)
    boat.store.do(next(again.part.join()), lambda _: None)  # its letter, which nobody has written in yet
    (turn,) = boat.all_vote(first)
    assert boat.read_on(first).gone == []
    assert turn.members == ["0", "1"]

"""Every order of every step: nothing is found in the journal's algorithm, and what is left out of it is missed."""

from __future__ import annotations

import pytest
from tests.soak import soaking

from quoracy.core.errors import EntriesGone
from quoracy.ports import Appended
from quoracy.sim.explore import explore
from quoracy.stores.keyvalue.entries import Entries
from quoracy.stores.keyvalue.steps import Create, Delete, GetMany

SOAK = soaking("sim")


class NeverLooksAgainAfterCreating(Entries):
    def create_and_look(self, n, mine):
        return (yield Create(self.keys.entry(n), mine)), 0


class NeverLooksAgainAfterReading(Entries):
    def read_and_look(self, first, count):
        return (yield GetMany(self.watched(first, count)[:-1])), 0


class ReadsTheFloorBeforeTheEntry(Entries):
    def read_and_look(self, first, count):
        floor, *found = yield GetMany((self.keys.floor, *self.watched(first, count)[:-1]))
        return found, self.floor_of(floor)


class NeverLooksAgainForTheEnd(Entries):
    def floor_after_looking(self):
        return 0
        yield


class DeletesBeforeItRaisesTheFloor(Entries):
    def clean(self, upto):
        for n in range(1, upto + 1):
            yield Delete(self.keys.entry(n))
        return (yield from self._marks.lift(self.keys.floor, upto))


class ChecksTheFloorBeforeInsteadOfAfter(Entries):
    def create(self, n, payload, nonce):
        floor = yield from self.floor()
        if n <= floor:
            raise EntriesGone(self.keys.run, n, floor + 1)
        mine = self._entry.seal(nonce + payload, n)
        stored = yield Create(self.keys.entry(n), mine)
        return Appended(n) if stored == mine else (yield from super().create(n, payload, nonce))


class TellsBeforeItHasLooked(Entries):
    def create_and_look(self, n, mine):
        if (yield Create(self.keys.entry(n), mine)) == mine:
            yield from self.tell(n)
        return (yield from super().create_and_look(n, mine))


class TellsWhoeverHasWon(Entries):
    def create(self, n, payload, nonce):
        outcome = yield from super().create(n, payload, nonce)
        yield from self.tell(n)
        return outcome


@pytest.mark.parametrize(("ranks", "attempts", "least"), [(2, 2, 40_000), (3, 1, 30_000)])
def test_a_smaller_world_is_explored_to_the_end(ranks, attempts, least):
    explored = explore(ranks=ranks, attempts=attempts)
    assert (explored.complete, explored.violations) == (True, ())
    assert explored.states >= least


@pytest.mark.soak("sim", shorter=True)
@pytest.mark.timeout(900 if SOAK else 120)
def test_three_ranks_and_two_attempts_never_adopt_two_records():
    explored = explore(max_states=None if SOAK else 100_000)
    assert explored.violations == ()
    assert explored.complete is SOAK
    assert explored.states >= (1_000_000 if SOAK else 100_000)


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        (NeverLooksAgainAfterCreating, "record 2 is adopted as entry 1, and record 1 was before"),
        (NeverLooksAgainAfterReading, "record 2 is adopted as entry 1, and record 1 was before"),
        (ReadsTheFloorBeforeTheEntry, "record 3 is adopted as entry 1, and record 1 was before"),
        (NeverLooksAgainForTheEnd, "entry 0 is found to be the last; the rank had 1 before, and 1 is the last"),
        (DeletesBeforeItRaisesTheFloor, "record 1 was adopted as entry 1 and is lost, and the floor is 0"),
        (ChecksTheFloorBeforeInsteadOfAfter, "record 2 is adopted as entry 1, and record 1 was before"),
        (TellsBeforeItHasLooked, "record 2 is adopted as entry 1, and record 1 was before"),
        (TellsWhoeverHasWon, "record 2 was adopted as entry 1 and is lost, and the floor is 0"),
    ],
)
def test_what_is_left_out_is_found(planted, found):
    explored = explore(planted)
    assert explored.violations == (found,)
    assert not explored.complete
    assert len(explored.story) == explored.depth + 1


def test_the_way_to_a_violation_is_told_as_a_story():
    story = explore(NeverLooksAgainAfterCreating).story
    assert story == (
        " 1. rank A proposes record 1 as entry 1: create entry/1 -> 1 is there",
        " 2. rank B proposes record 2 as entry 1: create entry/1 -> 1 is there; adopts record 1 as entry 1",
        " 3. rank B cleans up to entry 1: get floor -> nothing",
        " 4. rank B goes on: create floor -> 1 is there",
        " 5. rank B goes on: get floor -> 1",
        " 6. rank B goes on: get swept -> nothing",
        " 7. rank B goes on: delete entry/1",
        " 8. rank C proposes record 2 as entry 1: create entry/1 -> 2 is there",
        " 9. rank C goes on: announce usual/1; adopts record 2 as entry 1",
        "record 2 is adopted as entry 1, and record 1 was before",
    )


def test_deaths_matter_one_rank_alone_needs_them_to_break_its_word():
    """With a single rank the only second proposer is its own next life."""
    story = explore(NeverLooksAgainAfterCreating, ranks=1, attempts=1).story
    assert any("dies" in line for line in story)


def test_a_search_that_was_cut_short_says_so():
    explored = explore(max_states=500)
    assert not explored.complete
    assert explored.states >= 500

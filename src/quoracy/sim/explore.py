"""Every order of every step: the journal's algorithm over a bare store, explored to the end.

The simulator draws lives and looks for trouble; this goes through *all* of them, for a small world. Ranks share a store
that does one operation at a time. A rank that is idle may, at any time, propose the next entry it does not have and
tell the others if it has won, read any entry up to there, clean up any entry it has, or look for the last one. Whoever
wants to propose may: suspicion is arbitrary. Whoever is told of an entry adopts it, at any time afterwards: so it
counts as adopted from the moment on in which it is told. Between any two operations a rank may be paused for as long as
all others like, or die and come back as a new process that has forgotten everything and proposes another record. There
is no limit on deaths. (An operation that is still on its way when its sender dies is the operation of a rank that was
paused before it.)

Checked in every state:

- nobody, ever, adopts another record for an entry than anybody did before, also after clean-up;
- an adopted record is in the store until the floor has reached it;
- entry n+1 is in the store only if entry n is, or is below the floor;
- the last entry that is found is there or gone, and is never before one that the finder had.

Reductions keep this finite, and all of them only merge states that behave alike. Records are compared for equality and
for nothing else, so they are numbered by first appearance, and a new one is one that nobody mentions: that is how
deaths without limit fit into a finite world. Ranks have no names, so they are put in order. A program that stands at
the same line with the same variables is the same, whatever answers led it there. And a rank's choice is made together
with its first operation, since nobody can see it before.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from itertools import permutations
from time import perf_counter
from typing import NamedTuple

from quoracy.sim.explore_world import Board, Move, Rank, World
from quoracy.stores.keyvalue.entries import Entries
from quoracy.stores.keyvalue.keys import RunKeys

RANKS = 3
ATTEMPTS = 2
NAMES = "ABCDEFGH"


class Explored(NamedTuple):
    states: int
    """Distinct ones."""
    transitions: int
    depth: int
    """How many steps the farthest state is away from the first."""
    seconds: float
    complete: bool
    """All there is was seen. False if ``max_states`` were, or if the search ended at a violation."""
    violations: tuple[str, ...]
    """At most one: the search ends there."""
    story: tuple[str, ...]
    """The shortest way to it, a line for each step."""


State = tuple[int, ...]
"""The number of a board, and of each rank: see ``World``."""


class _Search:
    def __init__(self, world: World, ranks: int) -> None:
        self.world = world
        self.ranks = ranks
        self._names: dict[tuple[int, ...], dict[int, int] | None] = {}
        none = (0,) * world.attempts
        self.first: State = (
            world.board(Board(none, none, (0, 0))),
            *(world.rank(Rank(1, None, ())) for _ in range(ranks)),
        )

    def canonical(self, state: State) -> State:
        """The same state with its ranks in order and its records numbered. States that differ in more than names never
        become the same; a few that do not differ stay two, which costs time and nothing else."""
        return self.numbered((state[0], *sorted(state[1:], key=self.world.shapes.__getitem__)))

    def numbered(self, state: State) -> State:
        """The same state with its records numbered by first appearance."""
        records = self.world.rank_records
        mentioned = self.world.board_records[state[0]]
        for rank in state[1:]:
            mentioned += records[rank]
        if mentioned not in self._names:
            self._names[mentioned] = _numbered(mentioned)
        names = self._names[mentioned]
        if names is None:
            return state
        board = self.world.renamed_board(state[0], names)
        return (board, *(self.world.renamed_rank(rank, names) for rank in state[1:]))

    def exactly(self, state: State) -> State:
        """One state for all that differ in names only."""
        return min(self.numbered((state[0], *ranks)) for ranks in permutations(state[1:]))

    def successors(self, state: State) -> Iterator[tuple[Move, State]]:
        board = state[0]
        for i in range(1, len(state)):
            for move in self.world.moves(board, state[i]):
                yield move, self.canonical(_after(state, i, move))


def _numbered(mentioned: tuple[int, ...]) -> dict[int, int] | None:
    """None if they are numbered like that already."""
    names: dict[int, int] = {}
    used: dict[int, int] = {}
    for record in mentioned:
        if record not in names:
            names[record] = used[record >> 4] = used.get(record >> 4, 0) + 1
    return None if all(record & 15 == name for record, name in names.items()) else names


def explore(
    entries: Callable[[RunKeys], Entries] = Entries,
    *,
    ranks: int = RANKS,
    attempts: int = ATTEMPTS,
    max_states: int | None = None,
) -> Explored:
    """Breadth-first, so that what is found is found on the shortest way."""
    began = perf_counter()
    search = _Search(World(entries(RunKeys("explored", "r")), attempts), ranks)
    states = [search.first]
    parents = array("L", [0])
    seen = {search.first}
    transitions = depth = at = 0
    level_ends = 1
    complete = True
    while at < len(states):
        if at == level_ends:
            depth += 1
            level_ends = len(states)
        if max_states is not None and len(states) >= max_states:
            complete = False
            break
        for move, state in search.successors(states[at]):
            transitions += 1
            if move.violation:
                story = _story(search, _way(states, parents, at))
                seconds = perf_counter() - began
                return Explored(len(states), transitions, depth + 1, seconds, False, story[-1:], story)
            if state not in seen:
                seen.add(state)
                states.append(state)
                parents.append(at)
        at += 1
    return Explored(len(states), transitions, depth, perf_counter() - began, complete, (), ())


def _way(states: list[State], parents: array[int], at: int) -> list[State]:
    way = [states[at]]
    while at:
        at = parents[at]
        way.append(states[at])
    return way[::-1]


def _story(search: _Search, way: list[State]) -> tuple[str, ...]:
    """The way once more, with ranks and records keeping their names."""
    lines: list[str] = []
    state, fresh = search.first, 1
    for target in [search.exactly(each) for each in way[1:]]:
        i, move = next(
            (i, move)
            for i, move, after in _named_moves(search, state, fresh)
            if not move.violation and search.exactly(after) == target
        )
        state = _after(state, i, move)
        fresh = 1 + max([fresh - 1, *(record & 15 for record in _mentioned(search, state))])
        lines.append(f"rank {NAMES[i - 1]} {move.said}")
    i, move = next((i, move) for i, move, _ in _named_moves(search, state, fresh) if move.violation)
    lines += [f"rank {NAMES[i - 1]} {move.said}", move.violation]
    return (*(f"{number:>2}. {line}" for number, line in enumerate(lines[:-1], 1)), lines[-1])


def _named_moves(search: _Search, state: State, fresh: int) -> Iterator[tuple[int, Move, State]]:
    for i in range(1, len(state)):
        for move in search.world.find_moves(state[0], state[i], fresh):
            yield i, move, _after(state, i, move)


def _after(state: State, i: int, move: Move) -> State:
    return (move.board, *state[1:i], move.rank, *state[i + 1 :])


def _mentioned(search: _Search, state: State) -> Iterator[int]:
    yield from search.world.board_records[state[0]]
    for rank in state[1:]:
        yield from search.world.rank_records[rank]

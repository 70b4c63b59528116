"""A transition table as a Mermaid state diagram.

Each ``To`` is an edge, each ``Choose`` is one edge for every target it declares, labelled with the event and why. What
is ignored or refused is not drawn: it moves nothing. Three or more states that an event treats alike are drawn as one
box that names them, because nine arrows that say the same hide the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from quoracy.core.machine import Choose, Table, To

GROUPED_FROM = 3

Edge = tuple[str, str, Enum | None]
"""(event, why, target); None for a target that is wherever the edge began."""


def mermaid(table: Table) -> str:
    order = {state: place for place, state in enumerate(table.states)}
    sources: dict[Edge, list[Enum]] = {}
    for source, event, why, ends in edges(table):
        sources.setdefault((event, why, None if source is ends else ends), []).append(source)
    sources = _with_self(sources)
    boxes = _boxes(sources)
    lines = ["stateDiagram-v2", *(f"    {state.value}" for state in table.states)]
    lines += [f'    state "any of: {", ".join(s.value for s in members)}" as {name}' for members, name in boxes.items()]
    lines.append(f"    [*] --> {table.start.value}")
    labels: dict[tuple[str, str], list[str]] = {}
    for (event, why, target), members in sources.items():
        starts = [boxes[tuple(members)]] if tuple(members) in boxes else [state.value for state in members]
        for start in starts:
            end = start if target is None else target.value
            labels.setdefault((start, end), []).append(f"{event} ({_plain(why)})")
    lines += [f"    {start} --> {end} : {'<br/>'.join(said)}" for (start, end), said in labels.items()]
    moving = {source for source, _, _, _ in edges(table)}
    lines += [f"    {state.value} --> [*]" for state in sorted(order, key=order.__getitem__) if state not in moving]
    return "\n".join(lines)


def edges(table: Table) -> Iterator[tuple[Enum, str, str, Enum]]:
    """(source, event, why, target), in the order of events and then of states."""
    for event in table.events:
        for state in table.states:
            match table.rows[state, event]:
                case To(target=target, why=why):
                    yield state, event.__name__, why, target
                case Choose(targets=targets, why=why):
                    for target in targets:
                        yield state, event.__name__, why, target


def _with_self(sources: dict[Edge, list[Enum]]) -> dict[Edge, list[Enum]]:
    """When an event sends all of a group to one of its own members, that member's edge to itself joins the group."""
    merged = dict(sources)
    for (event, why, target), members in list(merged.items()):
        if target is not None and merged.get((event, why, None)) == [target]:
            merged[event, why, target] = sorted([*members, target], key=list(type(target)).index)
            del merged[event, why, None]
    return merged


def _boxes(sources: dict[Edge, list[Enum]]) -> dict[tuple[Enum, ...], str]:
    groups = dict.fromkeys(tuple(members) for members in sources.values() if len(members) >= GROUPED_FROM)
    return {members: f"any_{number}" for number, members in enumerate(groups, 1)}


def _plain(why: str) -> str:
    """Mermaid takes these characters for its own."""
    return why.replace(";", ",").replace(":", ",")

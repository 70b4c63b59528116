"""Barriers that wait for each other: a stands at x, where b is missing; b stands at y, where a is missing.

Barrier g waits for barrier h if somebody who stands at h is missing at g; that is, if not all who stand at h stand at g
too. So of any two barriers with different crowds the one with no more people waits for the other, and the circles are
found by walking them in the order of their sizes: between two neighbours nothing waits backwards if everybody who
stands at one of the smaller ones stands at each of the larger ones.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from quoracy.core.cluster.heard import Gathering


class Tangle(msgspec.Struct, frozen=True):
    gatherings: list[Gathering]
    """At least two, oldest first."""
    at_any: set[int]
    at_all: set[int]


def tangles(gatherings: Iterable[Gathering]) -> tuple[list[Tangle], list[Gathering]]:
    """Those in which barriers wait for each other, and the barriers that are in none, in their order. The cost is that
    of reading all arrivals a few times."""
    everything = list(gatherings)
    if len(everything) < 2:
        return [], everything
    ordered = sorted(everything, key=lambda gathering: len(gathering.arrivals))
    at_all_later = [set(ordered[-1].arrivals)]
    for gathering in reversed(ordered[:-1]):
        at_all_later.append(at_all_later[-1] & gathering.arrivals.keys())
    at_all_later.reverse()
    components: list[list[Gathering]] = [[]]
    before: set[int] = set()
    for at_all, gathering in zip(at_all_later, ordered, strict=True):
        if components[-1] and len(before) <= len(at_all) and before <= at_all:
            components.append([])
        components[-1].append(gathering)
        before |= gathering.arrivals.keys()
    alone = {component[0].name for component in components if len(component) == 1}
    circles = [_tangle(component) for component in components if len(component) > 1]
    return circles, [gathering for gathering in everything if gathering.name in alone]


def _tangle(component: list[Gathering]) -> Tangle:
    component.sort(key=lambda gathering: (gathering.since_us, gathering.name))
    at_any, at_all = set(component[0].arrivals), set(component[0].arrivals)
    for gathering in component:
        at_any |= gathering.arrivals.keys()
        at_all &= gathering.arrivals.keys()
    return Tangle(component, at_any, at_all)

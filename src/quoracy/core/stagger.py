"""Whose turn it is to propose the next entry, where several may.

Everyday analogy: at a door that several people reach together, all step back and all step forward again, unless there
is an order that everybody knows. Here it is drawn: the first proposes at once, the second if nothing has come after
one slot, and so on.

Theory: the seed is ``chain_seed`` of the head, a hash of the last entry and the number of the next. Nobody chose it,
everybody who has read the journal knows it, and each entry draws anew, so no proposer is first for long. The sample
is the dice's: every order is equally likely, and its beginning does not depend on how much of it is drawn.

A stagger saves work and decides nothing. Only one entry n can be written, whoever writes it, in turn or not.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise

from quoracy.core.dice import Dice
from quoracy.core.journal import chain_seed


def order(run: str, head: bytes, n: int, proposers: Collection[str]) -> list[str]:
    """Who may propose entry ``n`` after whom. ``head`` is the digest of the entry before."""
    names = sorted(proposers)
    for name, other in pairwise(names):
        if name == other:
            raise ValueError(f"proposers = {names}: {name!r} is there twice; name each once")
    return Dice(run, "turn", 0, 0, chain_seed(head, n)).sample(names, len(names))


def delay_us(run: str, head: bytes, n: int, proposers: Collection[str], who: str, slot_us: int) -> int:
    """How long ``who`` waits before it proposes entry ``n``: nothing for the first, a slot for the second..."""
    _check_slot(slot_us)
    if who not in proposers:
        known = ", ".join(sorted(proposers)) or "nobody"
        raise ValueError(f"who = {who!r}: has no turn for entry {n} of run {run!r}; must be one of: {known}")
    return order(run, head, n, proposers).index(who) * slot_us


def lone_delay_us(run: str, head: bytes, n: int, who: str, places: int, slot_us: int) -> int:
    """The same for one that does not know who else may propose: it draws one of ``places`` places for itself. Two may
    draw the same, so this makes races rare where ``delay_us`` rules them out."""
    _check_slot(slot_us)
    return Dice(run, "place", 0, 0, chain_seed(head, n) + who.encode()).below(places) * slot_us


def _check_slot(slot_us: int) -> None:
    if slot_us < 0:
        raise ValueError(f"slot_us = {slot_us}: must be at least 0; 0 lets everybody propose at once")

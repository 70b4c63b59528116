"""One store operation at a time: how everything in this room is written.

An algorithm is a generator. It yields an operation, is sent the answer, and returns its result. It neither knows a
store nor waits for one. ``session.Session`` runs it against a real store; ``sim.explore`` runs several of them against
each other, one operation at a time, in every order there is. What is explored is what is executed.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple, TypeVar

from quorate.ports.keyvalue import KeyValue

T = TypeVar("T")


class Get(NamedTuple):
    key: str


class GetMany(NamedTuple):
    """Several ``Get``, in any order: not one moment."""

    keys: tuple[str, ...]


class Exists(NamedTuple):
    key: str


class Create(NamedTuple):
    key: str
    value: bytes


class Swap(NamedTuple):
    key: str
    expected: bytes
    value: bytes


class Add(NamedTuple):
    key: str
    amount: int


class Delete(NamedTuple):
    key: str


Step = Get | GetMany | Exists | Create | Swap | Add | Delete
CHANGES = (Create, Swap, Add, Delete)

Steps = Generator[Step, Any, T]
"""What is sent in is what the port's operation of that name returns."""


def perform(store: KeyValue, step: Step) -> object:
    match step:
        case Get(key):
            return store.get(key)
        case GetMany(keys):
            return store.get_many(keys)
        case Exists(key):
            return store.wait(key, 0.0)
        case Create(key, value):
            return store.create(key, value)
        case Swap(key, expected, value):
            return store.swap(key, expected, value)
        case Add(key, amount):
            return store.add(key, amount)
        case Delete(key):
            return store.delete(key)

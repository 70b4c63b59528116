"""One store operation at a time: how everything in this room is written.

An algorithm is a generator. It yields an operation, is sent the answer, and returns its result. It neither knows a
store nor waits for one. ``session.Session`` runs it against a real store; ``sim.explore`` runs several of them against
each other, one operation at a time, in every order there is. What is explored is what is executed.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple, TypeVar

from quoracy.ports.keyvalue import KeyValue

T = TypeVar("T")


class Get(NamedTuple):
    key: str


class GetMany(NamedTuple):
    """Several ``Get``, in this order: not one moment."""

    keys: tuple[str, ...]


class Exists(NamedTuple):
    key: str


class Create(NamedTuple):
    key: str
    value: bytes


class CreateThenGet(NamedTuple):
    """``Create``, then ``Get`` of another key: not one moment."""

    key: str
    value: bytes
    other: str


class Swap(NamedTuple):
    key: str
    expected: bytes
    value: bytes


class Add(NamedTuple):
    key: str
    amount: int


class AppendThenGet(NamedTuple):
    """An ``append``, then ``GetMany`` of other keys: not one moment."""

    key: str
    value: bytes
    others: tuple[str, ...]
    awaits: str = ""


class Announce(NamedTuple):
    """Nobody is told whether it has happened."""

    key: str


class Delete(NamedTuple):
    key: str


Step = Get | GetMany | Exists | Create | CreateThenGet | Swap | Add | AppendThenGet | Announce | Delete

Steps = Generator[Step, Any, T]
"""What is sent in is what the port's operation of that name returns."""


def changes(step: Step) -> bool:
    """Whether the store may be another one afterwards."""
    return not isinstance(step, Get | GetMany | Exists) and not (isinstance(step, Add) and step.amount == 0)


def perform(store: KeyValue, step: Step) -> object:
    if type(step) is Exists:
        return store.wait(step.key, 0.0)
    return getattr(store, _CALLED[type(step)])(*step)


_CALLED: dict[type[Any], str] = {
    Get: "get", GetMany: "get_many", Create: "create", CreateThenGet: "create_then_get", Swap: "swap", Add: "add",
    AppendThenGet: "append_then_get", Announce: "announce", Delete: "delete",
}  # fmt: skip

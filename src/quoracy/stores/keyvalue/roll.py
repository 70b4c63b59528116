"""A list of names that only grows, for stores that cannot list their keys: name i under key i, created once."""

from __future__ import annotations

from quoracy.stores.keyvalue.keys import Sealed
from quoracy.stores.keyvalue.steps import Create, GetMany, Steps

MOST_AT_ONCE = 64


class Roll:
    """Remembers what it has read: a name that was there is there for ever."""

    def __init__(self, base: str, run: str = "") -> None:
        self._base = base
        self._sealed = Sealed("roll", run)
        self._names: tuple[str, ...] = ()

    def names(self) -> Steps[tuple[str, ...]]:
        """All of them, in the order in which they came."""
        names, count = self._names, 1
        while True:
            first = len(names)
            found = yield GetMany(tuple(self._key(i) for i in range(first, first + count)))
            names += tuple(self._name(value, i) for i, value in enumerate(_until_missing(found), first))
            if len(names) < first + count:
                self._names = names
                return names
            count = min(count * 4, MOST_AT_ONCE)

    def enter(self, name: str) -> Steps[None]:
        """Put a name on the list if it is not there. Everybody goes through the slots in the same order, so two that
        enter the same name meet in the same slot."""
        if name in self._names:
            return
        names = yield from self.names()
        while name not in names:
            i = len(names)
            stored = yield Create(self._key(i), self._sealed.seal(name.encode(), i, self._base))
            names += (self._name(stored, i),)
        self._names = names

    def _key(self, i: int) -> str:
        return f"{self._base}/{i}"

    def _name(self, value: bytes, i: int) -> str:
        return self._sealed.open(value, self._key(i), i, self._base).decode()


def _until_missing(values: list[bytes | None]) -> list[bytes]:
    found: list[bytes] = []
    for value in values:
        if value is None:
            break
        found.append(value)
    return found

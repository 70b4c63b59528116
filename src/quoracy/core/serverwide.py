"""What belongs to a server and to no run: one small journal of its own, folded like the others and shared by replicas
like the others.

Today that is what idempotency keys were used for. A key stands for one request on the whole server: if the second one
under it is another, or is about another run, it is refused, also by the next server. The newest ``MAX_KEYS`` are
remembered.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, ClassVar, Final

import msgspec
from msgspec import Meta

from quoracy.core.dice import Cup
from quoracy.core.errors import Refusal
from quoracy.core.machine import DONE, Applied, By, Event, Explanation, Kind, Signal, Table, To

RUN: Final = "@server"
"""The name of its journal. No run of anybody's begins with an @."""
KEY_BYTES: Final = 16
MAX_KEYS: Final = 10_000

Short = Annotated[bytes, Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]


class KeyUsed(Event, frozen=True, array_like=True, tag="key-used"):
    """A request came under this key."""

    by: ClassVar[By] = By.OPERATOR
    key: Short
    """The digest of the key and of who sent it."""
    request: Short
    """The digest of all that was asked for."""
    what: Annotated[str, Meta(max_length=64)]
    run: Annotated[str, Meta(max_length=128)]


class NoSignal(Signal, frozen=True, array_like=True, tag="none"):
    """Nobody is a member of a server."""


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing to set."""


class Phase(Enum):
    OPEN = "Open"


class Book(msgspec.Struct):
    state: Phase = Phase.OPEN
    keys: dict[bytes, KeyUsed] = {}
    """The oldest first."""

    def called(self) -> str:
        return "the server"


def _check_key(_book: Book, book: Book, event: KeyUsed, _at_us: int) -> Refusal | None:
    known = book.keys.get(event.key)
    if known is None or known.request == event.request:
        return None
    why = f"the key has stood for another request: {known.what} of {known.run or 'the server'}"
    return Refusal("contradiction", why, "send another request under another key")


def _keep_key(_book: Book, book: Book, event: KeyUsed, _at_us: int, _cup: Cup) -> Applied:
    book.keys.setdefault(event.key, event)
    if len(book.keys) > MAX_KEYS:
        del book.keys[next(iter(book.keys))]
    return DONE


TABLE: Final = Table(
    "server", Phase, (KeyUsed,), Phase.OPEN,
    {(Phase.OPEN, KeyUsed): To(Phase.OPEN, "a key stands for one request", _keep_key, _check_key)},
)  # fmt: skip


class ServerWide:
    def __init__(self, book: Book) -> None:
        self.book = book

    def apply(self, event: Event, at_us: int, cup: Cup) -> Applied | Refusal:
        return TABLE.step(self.book, self.book, event, at_us, cup)

    def incarnation_of(self, _member: str) -> int:
        return 0

    def look(self, _topic: str, _member: str) -> Any:
        return None

    def topics(self, _member: str) -> list[str]:
        return []

    def sections(self) -> dict[str, Any]:
        return {"keys": list(self.book.keys.values())}

    @classmethod
    def restore(cls, sections: dict[str, Any]) -> ServerWide:
        keys = msgspec.convert(sections["keys"], list[KeyUsed])
        return cls(Book(keys={used.key: used for used in keys}))


class Silence:
    """The collector: there are no signals."""

    unsettled = False

    def hear(self, _signal: Any, _machine: Any, _now_us: int) -> Refusal:
        return Refusal("unknown_member", "nobody is a member of a server", "name a run")

    def due(self, _machine: Any, _now_us: int) -> list[Event]:
        return []

    def committed(self, _events: list[Event], _machine: Any, _now_us: int) -> None:
        pass

    def wake_us(self) -> int | None:
        return None

    def explain(self, _machine: Any, _now_us: int) -> Explanation:
        return Explanation("waits for nobody")

    def overview(self, machine: ServerWide, _now_us: int) -> dict[str, Any]:
        return {"keys": len(machine.book.keys)}


KIND = Kind(
    name="server",
    rules=1,
    config=Config,
    check_config=lambda _config: None,
    events=KeyUsed,
    signals=NoSignal,
    create=lambda _config: ServerWide(Book()),
    restore=ServerWide.restore,
    collector=lambda _machine, _now_us: Silence(),
    tables=(TABLE,),
)

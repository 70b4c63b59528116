"""Machines as tables: what may happen, in which state, and why.

A machine is a deterministic state machine with no I/O, no clock, no randomness and no threads of its own.
``apply(event, at_us, cup)`` checks the event, changes the state, and says what follows. The same events give the same
state, byte for byte, on every machine; that is what makes a journal enough.

Transitions are data. A ``Table`` maps (state, event) to one of

- ``To(target)``: go there, after ``check`` found nothing and with ``do`` making the other changes;
- ``Choose(pick, targets)``: code decides, but declares between what, so that diagrams and tests see every edge;
- ``Ignore``: accepted, changes nothing, and says why that is right;
- ``Refuse``: refused by name, with a reason and a way out.

A table is *total*: each pair is listed, or building the table fails. Refusal changes nothing: everything that may
refuse runs before anything that changes. A machine may change its state in place, after the check and never before.

Effects are of two kinds only. A ``View`` names something that some members should be shown; it holds no value, since
the value is recomputed with ``look`` when it is sent, and again when they reconnect. A ``Duty`` is work for the world
outside (aggregate, dispatch, write a manifest); it stays in the state until a durable ``DutyDone``, is issued again
after a restart, and is idempotent by (run, entry, index).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, ClassVar, Final, Protocol

import msgspec

from quoracy.core.codec import ready
from quoracy.core.dice import Cup
from quoracy.core.errors import Bug, Refusal
from quoracy.core.members import Counter, Key, MemberId, Nonce, Proof, TokenId


class By(Enum):
    """Who may propose an event."""

    HOST = "host"
    MEMBER = "member"
    OPERATOR = "operator"


class Claim(msgspec.Struct, frozen=True):
    """That the holder of a key said something."""

    key: bytes
    said: bytes
    signature: bytes


class Event(msgspec.Struct, frozen=True, array_like=True):
    """Something durable: journaled before anyone is told about it."""

    by: ClassVar[By] = By.HOST
    joins: ClassVar[bool] = False

    def claim(self, _run: str, _key_of: Callable[[str], bytes]) -> Claim | None:
        """The signature that it carries; ``key_of`` a member's id is the key the id is bound to. Checked when the event
        is proposed, and again whenever the journal is folded."""
        return None


class MemberEvent(Event, frozen=True, array_like=True):
    """What a member says of itself."""

    by: ClassVar[By] = By.MEMBER
    member: MemberId
    incarnation: Counter


class Admission(Event, frozen=True, array_like=True, kw_only=True):
    """By which token a member came in, as the host says that took the join in: whatever the member wrote here is
    replaced. It stands last in every join."""

    token: TokenId = ""
    """Of the token that the join came with. Empty where no tokens are asked."""
    token_ids: Counter = 0
    """So many ids that token may bring into this run. 0: any number."""


class Join(Admission, frozen=True, array_like=True):
    """The first thing a member says; begins its next incarnation. See ``members`` for what the fields guard against."""

    by: ClassVar[By] = By.MEMBER
    joins: ClassVar[bool] = True
    member: MemberId
    supersedes: Counter
    nonce: Nonce
    key: Key = b""
    proof: Proof = b""


class Signal(msgspec.Struct, frozen=True, array_like=True):
    """Something volatile: never journaled, gathered by a collector."""

    heartbeat: ClassVar[bool] = False
    """Says that its sender lives, and nothing of where it listens: views go on where they went, whichever connection
    it comes through."""
    member: MemberId
    incarnation: Counter

    def topic(self) -> str:
        """What an answer to it is about."""
        return str(self.__struct_config__.tag)


class View(msgspec.Struct, frozen=True):
    """``topic`` looks different now to each of ``to``."""

    topic: str
    to: Iterable[str]


class Duty(msgspec.Struct, frozen=True, array_like=True):
    """Work that must happen outside, at least once. ``order`` says what; the fold adds (entry, index)."""

    what: str
    order: dict[str, Any]
    entry: int = 0
    index: int = 0


Effect = View | Duty


class DutyEnded(Event, frozen=True, array_like=True):
    """How a machine learns that a duty it wanted is done: listed in the tables of kinds that have duties. What is
    journaled is ``DutyDone``; the fold adds the duty itself."""

    duty: Duty
    result: dict[str, Any] | None = None


class Applied(msgspec.Struct, frozen=True):
    """It happened. ``result`` is what the sender learns, ``effects`` what follows."""

    result: dict[str, Any] | None = None
    effects: tuple[Effect, ...] = ()


DONE: Final = Applied()

Check = Callable[[Any, Any, Any, int], Refusal | None]
"""(state of the machine, subject, event, at_us) -> why not. Must not change anything."""

Do = Callable[[Any, Any, Any, int, Cup], Applied]
"""(state of the machine, subject, event, at_us, cup) -> what follows. Must not refuse."""

Pick = Callable[[Any, Any, Any, int], Enum]
"""(state of the machine, subject, event, at_us) -> one of the declared targets."""


class To(msgspec.Struct, frozen=True):
    target: Enum
    why: str
    do: Do | None = None
    check: Check | None = None


class Choose(msgspec.Struct, frozen=True):
    pick: Pick
    targets: tuple[Enum, ...]
    why: str
    do: Do | None = None
    check: Check | None = None


class Ignore(msgspec.Struct, frozen=True):
    why: str


class Refuse(msgspec.Struct, frozen=True):
    code: str
    why: str
    fix: str


Row = To | Choose | Ignore | Refuse


class Subject(Protocol):
    """What a table moves: anything with a state and a name for sentences."""

    state: Any

    def called(self) -> str: ...


class Table:
    """All that may happen to one sort of subject. Building it proves that it is total."""

    def __init__(
        self,
        name: str,
        states: type[Enum],
        events: tuple[type[Event], ...],
        start: Enum,
        rows: Mapping[tuple[Any, type[Event]], Row],
    ) -> None:
        self.name = name
        self.states = states
        self.events = events
        self.start = start
        self.rows: dict[tuple[Enum, type[Event]], Row] = dict(rows)
        pairs = {(state, event) for state in states for event in events}
        missing = sorted(f"({s.value}, {e.__name__})" for s, e in pairs - self.rows.keys())
        extra = sorted(f"({s.value}, {e.__name__})" for s, e in self.rows.keys() - pairs)
        if missing or extra:
            raise Bug(f"table {name}: not listed {missing}, unknown {extra}")
        self._moves = {event: {state.value: _Move.of(self.rows[state, event]) for state in states} for event in events}

    def step(self, machine: Any, subject: Subject, event: Event, at_us: int, cup: Cup) -> Applied | Refusal:
        """Move the subject, or say why not."""
        move = self._moves[type(event)][subject.state._value_]
        if move.refuse is not None:
            return _refusal(subject, move.refuse)
        if move.check is not None and (refusal := move.check(machine, subject, event, at_us)) is not None:
            return refusal
        target = move.target
        if move.choose is not None:
            target = move.choose.pick(machine, subject, event, at_us)
            if target not in move.choose.targets:
                declared = [state.value for state in move.choose.targets]
                raise Bug(f"table {self.name}: {type(event).__name__} chose {target}, declared are {declared}")
        applied = DONE if move.do is None else move.do(machine, subject, event, at_us, cup)
        if target is not None:
            subject.state = target
        return applied

    def why_not(self, machine: Any, subject: Subject, event: Event, at_us: int) -> Refusal | None:
        """What ``step`` would say, without the step."""
        move = self._moves[type(event)][subject.state._value_]
        if move.refuse is not None:
            return _refusal(subject, move.refuse)
        return None if move.check is None else move.check(machine, subject, event, at_us)


def _refusal(subject: Subject, refuse: Refuse) -> Refusal:
    return Refusal(refuse.code, f"{subject.called()} is {subject.state.value}: {refuse.why}", refuse.fix)


class _Move(msgspec.Struct, frozen=True):
    """A row, unpacked for speed: asking what sort of row it is costs more than the rest of a step."""

    refuse: Refuse | None
    check: Check | None
    target: Enum | None
    choose: Choose | None
    do: Do | None

    @classmethod
    def of(cls, row: Row) -> _Move:
        match row:
            case To():
                return cls(None, row.check, row.target, None, row.do)
            case Choose():
                return cls(None, row.check, None, row, row.do)
            case Ignore():
                return cls(None, None, None, None, None)
            case Refuse():
                return cls(row, None, None, None, None)


class Wait(msgspec.Struct, frozen=True):
    """One thing that is awaited, as a person wants to know it."""

    what: str
    missing: tuple[str, ...]
    waited_us: int
    left_us: int | None
    """Until ``then`` happens if they stay away; None if nothing but their coming ends it."""
    then: str


class Explanation(msgspec.Struct, frozen=True):
    """What a run is waiting for and why. Command line, dashboard, logs and tests show this same value."""

    sentence: str
    waits: tuple[Wait, ...] = ()


class Machine(Protocol):
    """One kind's state with its rules. Held, never inherited."""

    def apply(self, event: Event, at_us: int, cup: Cup) -> Applied | Refusal: ...

    def incarnation_of(self, member: str) -> int:
        """The member's newest incarnation, 0 if it is unknown."""

    def look(self, topic: str, member: str) -> Any:
        """What the member is shown under the topic; None if there is nothing to show."""

    def topics(self, member: str) -> list[str]:
        """What a member that reconnects is shown again."""

    def sections(self) -> dict[str, Any]:
        """The whole state for a snapshot. A list is a table whose rows are written in pages."""


class Collector(Protocol):
    """Gathers volatile signals beside a machine and turns them into events. Pure, and needs no disk: after a restart
    members send again what was not answered. It forgets a signal only when a committed entry consumed it."""

    unsettled: bool
    """A signal was heard since the last ``due`` from which something may follow."""

    def hear(self, signal: Any, machine: Any, now_us: int) -> Any:
        """Take a signal in. Returns a Refusal, something to tell the sender at once, or None."""

    def due(self, machine: Any, now_us: int) -> list[Event]:
        """What follows from the signals, given the machine as it is now."""

    def committed(self, events: list[Event], machine: Any, now_us: int) -> None:
        """These are in the journal: forget what they consumed, watch whom they brought."""

    def wake_us(self) -> int | None:
        """When something may follow without a new signal."""

    def explain(self, machine: Any, now_us: int) -> Explanation: ...

    def overview(self, machine: Any, now_us: int) -> dict[str, Any]:
        """The run as people want to see it, in plain values."""


class Kind(msgspec.Struct, frozen=True):
    """Everything the rest of the house needs to know about one kind under one version of its rules."""

    name: str
    rules: int
    config: Any
    """The type of the configuration; decoding validates types and ranges."""
    check_config: Callable[[Any], None]
    """Raises ConfigError for what types cannot say."""
    events: Any
    """The union of the kind's event types."""
    signals: Any
    """The union of its signal types."""
    create: Callable[[Any], Machine]
    restore: Callable[[dict[str, Any]], Machine]
    collector: Callable[[Any, int], Collector]
    """(machine, now_us) -> a collector that starts everyone afresh."""
    tables: tuple[Table, ...]
    ids_per_token: int = 0
    """So many ids a token may bring into a run, if it does not say itself. 0: any number."""

    def __post_init__(self) -> None:
        ready(self.config)

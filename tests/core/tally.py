"""``tally``: the smallest kind that has one of everything. Read it as the recipe for adding a kind.

Members join and count; when the goal is reached somebody outside must announce it, and then the tally is over. While
it counts, members may nod, and once all have nodded that is written down.

events     Joined, Counted (by members), Agreed (by the host), Ended (by an operator); and the signal Nod
state      Sheet: phase, total, who takes part
table      the sheet's phases and what may happen in each
machine    Tally: lets the table decide, shows views, is written to snapshots
collector  Nods: volatile nods become one durable Agreed
kind       KIND: what the rest of the house needs to know
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from quoracy.core.dice import Cup
from quoracy.core.errors import ConfigError, Refusal
from quoracy.core.machine import (
    Applied,
    By,
    Choose,
    Duty,
    DutyEnded,
    Event,
    Explanation,
    Ignore,
    Join,
    Kind,
    MemberEvent,
    Refuse,
    Signal,
    Table,
    To,
    View,
    Wait,
)
from quoracy.core.members import Counter, MemberId, superseded
from quoracy.core.run import Kinds

# -- events and signals --------------------------------------------------------------------------------------------


class Joined(Join, frozen=True, array_like=True, tag="tally-joined"):
    """A member takes part. Fields and guards come from ``Join``."""


class Counted(MemberEvent, frozen=True, array_like=True, tag="tally-counted"):
    amount: Annotated[int, Meta(ge=1, le=1000)]
    note: str = ""


class Agreed(Event, frozen=True, array_like=True, tag="tally-agreed"):
    """All who take part have nodded, for the ``number``-th time."""

    number: Counter
    members: list[MemberId]


class Ended(Event, frozen=True, array_like=True, tag="tally-ended"):
    by: ClassVar[By] = By.OPERATOR
    reason: Annotated[str, Meta(max_length=256)]


class Nod(Signal, frozen=True, array_like=True, tag="nod"):
    """I am here."""


# -- state ---------------------------------------------------------------------------------------------------------


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    goal: Annotated[int, Meta(ge=1)] = 10
    most: Annotated[int, Meta(ge=1)] = 5
    """What one member may add at once."""


def check_config(config: Config) -> None:
    if config.most > config.goal:
        raise ConfigError("most", config.most, f"at most the goal ({config.goal})")


class Phase(Enum):
    COUNTING = "Counting"
    FULL = "Full"
    OVER = "Over"


class Sheet(msgspec.Struct, array_like=True):
    config: Config
    state: Phase = Phase.COUNTING
    total: int = 0
    members: dict[str, int] = {}
    """Incarnation by id, in the order of joining."""
    luck: int = 0
    agreements: int = 0
    announced: str = ""

    def called(self) -> str:
        return "the tally"


# -- rules ---------------------------------------------------------------------------------------------------------


def do_join(sheet: Sheet, _: Sheet, event: Joined, _at_us: int, cup: Cup) -> Applied:
    sheet.members[event.member] = event.supersedes + 1
    sheet.luck = cup.dice("luck").below(1000)
    return Applied({"luck": sheet.luck}, (View("total", tuple(sheet.members)),))


def check_count(sheet: Sheet, _: Sheet, event: Counted, _at_us: int) -> Refusal | None:
    if event.amount > sheet.config.most:
        return Refusal("malformed", f"{event.amount} is more than {sheet.config.most}", "count in smaller steps")
    return None


def pick_count(sheet: Sheet, _: Sheet, event: Counted, _at_us: int) -> Phase:
    return Phase.FULL if sheet.total + event.amount >= sheet.config.goal else Phase.COUNTING


def do_count(sheet: Sheet, _: Sheet, event: Counted, _at_us: int, _cup: Cup) -> Applied:
    sheet.total += event.amount
    view = View("total", tuple(sheet.members))
    if sheet.total < sheet.config.goal:
        return Applied({"total": sheet.total}, (view,))
    return Applied({"total": sheet.total}, (view, Duty("announce", {"total": sheet.total})))


def check_agreed(sheet: Sheet, _: Sheet, event: Agreed, _at_us: int) -> Refusal | None:
    if event.number != sheet.agreements + 1 or event.members != sorted(sheet.members):
        return Refusal("contradiction", "not the next agreement, or not of all who take part", "wait for all")
    return None


def do_agree(sheet: Sheet, _: Sheet, _event: Agreed, _at_us: int, _cup: Cup) -> Applied:
    sheet.agreements += 1
    return Applied(None, (View("total", tuple(sheet.members)),))


def check_announced(_sheet: Sheet, _: Sheet, event: DutyEnded, _at_us: int) -> Refusal | None:
    if not event.result or "by" not in event.result:
        return Refusal("malformed", f"nobody signed the duty to {event.duty.what}", "say who did it")
    return None


def do_announced(sheet: Sheet, _: Sheet, event: DutyEnded, _at_us: int, _cup: Cup) -> Applied:
    sheet.announced = str((event.result or {})["by"])
    return Applied(None, (View("total", tuple(sheet.members)),))


P = Phase
_over = Refuse("run_closed", "it is over", "start a new one")
TABLE = Table(
    "tally", Phase, (Joined, Counted, Agreed, Ended, DutyEnded), Phase.COUNTING,
    {
        (P.COUNTING, Joined): To(P.COUNTING, "takes part", do_join),
        (P.COUNTING, Counted): Choose(pick_count, (P.COUNTING, P.FULL), "adds up", do_count, check_count),
        (P.COUNTING, Agreed): To(P.COUNTING, "all have nodded", do_agree, check_agreed),
        (P.COUNTING, Ended): To(P.OVER, "an operator ended it"),
        (P.COUNTING, DutyEnded): Refuse("unknown_duty", "nothing is to be announced yet", "wait for the goal"),
        (P.FULL, Joined): To(P.FULL, "comes late, but may watch", do_join),
        (P.FULL, Counted): Refuse("wrong_state", "the goal is reached", "wait for the announcement"),
        (P.FULL, Agreed): To(P.FULL, "all have nodded", do_agree, check_agreed),
        (P.FULL, Ended): To(P.OVER, "an operator ended it"),
        (P.FULL, DutyEnded): To(P.OVER, "it was announced", do_announced, check_announced),
        (P.OVER, Joined): _over,
        (P.OVER, Counted): _over,
        (P.OVER, Agreed): _over,
        (P.OVER, Ended): Ignore("it is there already"),
        (P.OVER, DutyEnded): Ignore("it was ended before it was announced"),
    },
)  # fmt: skip


# -- machine -------------------------------------------------------------------------------------------------------


class Tally:
    def __init__(self, sheet: Sheet) -> None:
        self.sheet = sheet

    @classmethod
    def create(cls, config: Config) -> Tally:
        return cls(Sheet(config))

    def apply(self, event: Event, at_us: int, cup: Cup) -> Applied | Refusal:
        return TABLE.step(self.sheet, self.sheet, event, at_us, cup)

    def incarnation_of(self, member: str) -> int:
        return self.sheet.members.get(member, 0)

    def look(self, topic: str, member: str) -> Any:
        return None if member not in self.sheet.members else {"topic": topic, "total": self.sheet.total}

    def topics(self, member: str) -> list[str]:
        return ["total"] if member in self.sheet.members else []

    def sections(self) -> dict[str, Any]:
        return {"sheet": self.sheet}

    @classmethod
    def restore(cls, sections: dict[str, Any]) -> Tally:
        return cls(msgspec.convert(sections["sheet"], Sheet))


# -- collector -----------------------------------------------------------------------------------------------------


class Nods:
    unsettled = True

    def __init__(self, machine: Tally, now_us: int) -> None:
        self.nodded: dict[str, None] = {}
        self.number = machine.sheet.agreements + 1
        self.since_us = now_us

    def hear(self, signal: Nod, machine: Tally, _now_us: int) -> Refusal | None:
        current = machine.incarnation_of(signal.member)
        if current == 0:
            return Refusal("unknown_member", f"{signal.member} takes no part", "join first")
        if signal.incarnation != current:
            return superseded(signal.member, signal.incarnation, current)
        self.nodded[signal.member] = None
        return None

    def due(self, machine: Tally, _now_us: int) -> list[Event]:
        """Asked again when what it proposed is applied and not yet committed: it must not propose it twice."""
        sheet = machine.sheet
        if sheet.state is Phase.OVER or sheet.agreements >= self.number or not sheet.members:
            return []
        return [Agreed(self.number, sorted(sheet.members))] if sheet.members.keys() == self.nodded.keys() else []

    def committed(self, events: list[Event], machine: Tally, now_us: int) -> None:
        """Only now are the nods used up: had the entry been lost, they would still be here."""
        if any(isinstance(event, Agreed) for event in events):
            self.nodded.clear()
            self.number = machine.sheet.agreements + 1
            self.since_us = now_us

    def wake_us(self) -> int | None:
        return None

    def explain(self, machine: Tally, now_us: int) -> Explanation:
        missing = tuple(sorted(machine.sheet.members.keys() - self.nodded.keys()))
        wait = Wait("a nod", missing, now_us - self.since_us, None, "")
        return Explanation(f"counted {machine.sheet.total} of {machine.sheet.config.goal}", (wait,) if missing else ())

    def overview(self, machine: Tally, _now_us: int) -> dict[str, Any]:
        return {"total": machine.sheet.total, "goal": machine.sheet.config.goal, "nodded": list(self.nodded)}


KIND = Kind(
    name="tally",
    rules=1,
    config=Config,
    check_config=check_config,
    events=Joined | Counted | Agreed | Ended,
    signals=Nod,
    create=Tally.create,
    restore=Tally.restore,
    collector=Nods,
    tables=(TABLE,),
)
KINDS = Kinds((KIND,))

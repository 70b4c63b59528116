"""The page of one kind, from its tables and types."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from enum import Enum
from typing import Any, get_args

import msgspec

from quoracy.core.machine import By, Choose, Event, Ignore, Join, Kind, MemberEvent, Refuse, Row, Signal, Table, To
from quoracy.docs.diagram import mermaid
from quoracy.docs.fields import docstring, field_table, table

WHO = {By.HOST: "the serving host", By.MEMBER: "a member, for itself", By.OPERATOR: "an operator"}


def machine_page(kind: Kind) -> str:
    module = sys.modules[kind.config.__module__]
    package = module.__package__ or ""
    source = package.replace(".", "/")
    lines = [
        f"<!-- Made by `python -m quoracy.docs` from src/{source}: do not edit. -->",
        "",
        f"# The `{kind.name}` machine, rules {kind.rules}",
        "",
        "What may happen in a run of this kind, in which state, and why. Every pair of state and event is listed:",
        "it moves the subject, is accepted and changes nothing (ignored), or is refused by name.",
        f"The source is [src/{source}](../../src/{source}/).",
        "",
        *_contents(kind),
    ]
    for each in kind.tables:
        lines += ["", *_table_section(each)]
    lines += ["", *_events_section(kind), "", *_signals_section(kind), "", *_views_section(package)]
    lines += ["", *_settings_section(kind)]
    return "\n".join(lines) + "\n"


def _contents(kind: Kind) -> list[str]:
    titles = [_title(each) for each in kind.tables] + ["Events", "Signals", "Views", "Settings"]
    return [f"- [{title}](#{title.lower().replace(' ', '-')})" for title in titles]


def _title(each: Table) -> str:
    return f"Table of the {each.name}"


def _table_section(each: Table) -> list[str]:
    lines = [f"## {_title(each)}", "", "```mermaid", mermaid(each), "```", ""]
    lines += _overview(each)
    alike: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for event in each.events:
        alike.setdefault(tuple(_rows(each, event)), []).append(event.__name__)
    for rows, events in alike.items():
        lines += ["", f"**{', '.join(events)}**", "", *table(("in state", "what happens", "why"), rows)]
    return lines


def _overview(each: Table) -> list[str]:
    """Everything at a glance: one row per event, one column per state."""
    heads = ("event", *(state.value for state in each.states))
    rows = [
        (event.__name__, *(_short(state, each.rows[state, event]) for state in each.states)) for event in each.events
    ]
    return table(heads, rows)


def _short(state: Enum, row: Row) -> str:
    match row:
        case To(target=target):
            return "stays" if target is state else f"→ {target.value}"
        case Choose(targets=targets):
            return "→ " + " or ".join("stays" if target is state else target.value for target in targets)
        case Ignore():
            return "ignored"
        case Refuse(code=code):
            return f"`{code}`"


def _rows(each: Table, event: type[Event]) -> list[tuple[str, ...]]:
    """States that an event treats alike share a line."""
    alike: dict[tuple[str, str], list[str]] = {}
    for state in each.states:
        alike.setdefault(_told(state, each.rows[state, event]), []).append(state.value)
    return [(", ".join(states), what, why) for (what, why), states in alike.items()]


def _told(state: Enum, row: Row) -> tuple[str, str]:
    match row:
        case To(target=target, why=why, check=check):
            what = "stays" if target is state else f"→ {target.value}"
            return what + _unless(check), why
        case Choose(targets=targets, why=why, check=check):
            what = "→ " + " or ".join(target.value for target in targets)
            return what + _unless(check), why
        case Ignore(why=why):
            return "ignored", why
        case Refuse(code=code, why=why, fix=fix):
            return f"refused, `{code}`", f"{why}; to do: {fix}"


def _unless(check: Any) -> str:
    return "" if check is None else f", unless `{check.__name__}` says no"


def _events_section(kind: Kind) -> list[str]:
    lines = [
        "## Events",
        "",
        "Durable: each is in the journal before anybody is told. Besides these, every kind has the shared events of",
        "[journal.py](../../src/quoracy/core/journal.py). An event that a member proposes for itself begins with",
        "`member` and `incarnation`; one that joins begins with the fields of `Join` in",
        "[machine.py](../../src/quoracy/core/machine.py). These are not repeated below.",
    ]
    for event in _members(kind.events):
        who = "a process that joins" if event.joins else WHO[event.by]
        shared = next((base.__struct_fields__ for base in (Join, MemberEvent) if issubclass(event, base)), ())
        lines += ["", f"### {event.__name__}", "", f"`{_tag(event)}`, proposed by {who}."]
        lines += _described(event, field_table(event, without=shared))
    return lines


def _signals_section(kind: Kind) -> list[str]:
    lines = [
        "## Signals",
        "",
        "Volatile: never in the journal, gathered by the serving host, sent again if not answered.",
    ]
    for signal in _members(kind.signals):
        lines += ["", f"### {signal.__name__}", "", f"`{_tag(signal)}`, sent by a member."]
        lines += _described(signal, field_table(signal))
    return lines


def _views_section(package: str) -> list[str]:
    lines = ["## Views", "", "What members are shown: when it changes, and again when they reconnect."]
    for view in _structs(f"{package}.views") + _structs(f"{package}.events"):
        if not issubclass(view, Event | Signal):
            lines += ["", f"### {view.__name__}", *_described(view, field_table(view, defaults=False))]
    return lines


def _settings_section(kind: Kind) -> list[str]:
    return ["## Settings", *_described(kind.config, field_table(kind.config, last="why"))]


def _described(struct: type[msgspec.Struct], fields: list[str]) -> list[str]:
    text = docstring(struct)
    return (["", text] if text else []) + (["", *fields] if fields else [])


def _members(union: Any) -> list[Any]:
    return list(get_args(union)) or [union]


def _tag(struct: Any) -> str:
    return str(struct.__struct_config__.tag)


def _structs(name: str) -> list[type[msgspec.Struct]]:
    """The public structs that a module defines, in its order; none if there is no such module."""
    if importlib.util.find_spec(name) is None:
        return []
    module = importlib.import_module(name)
    found = [thing for thing in vars(module).values() if isinstance(thing, type) and issubclass(thing, msgspec.Struct)]
    return [struct for struct in found if struct.__module__ == name and not struct.__name__.startswith("_")]

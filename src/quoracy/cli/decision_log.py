"""The decision log of ranks for people: a row per attempt, or one for many in a row in which nothing happened."""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import Any, Final, NamedTuple

import msgspec
from rich.text import Text

from quoracy.cli.asking import few, plain, said
from quoracy.hosts.decisions import Line

MOST_NAMES: Final = 12
PHASES: Final = ("training", "waiting", "deciding")
LEFT: Final = (3, 5)
"""Columns of words; the others are of figures."""
_STYLES: Final = {"committed": "green", "repeated": "red"}


def as_object(line: Line) -> dict[str, Any]:
    decision = msgspec.structs.asdict(line.decision)
    return decision | {
        "in": line.was_in,
        "gone": [{"rank": rank, "why": why} for rank, why in line.decision.gone],
        "left": [{"rank": rank, "why": why} for rank, why in line.left],
        "joined": line.joined,
        "learners": line.learners,
        **msgspec.structs.asdict(line.phases),
    }


def log_rows(stretches: list[list[Line]]) -> list[Text]:
    """In columns, what happened in an attempt below it: that fits a terminal. Durations of a stretch are medians."""
    head = Row("at", "attempt", "of", "outcome", "by", "in", "train", "wait", "decide", "last")
    rows = [head, *(_row(lines) for lines in stretches)]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    shown = [Text(_padded(head, widths), style="dim")]
    for row, lines in zip(rows[1:], stretches, strict=True):
        decision = lines[-1].decision
        text = Text(_padded(row, widths))
        text.highlight_words([decision.outcome], _STYLES.get(decision.outcome, "yellow"))
        shown.append(text)
        below = [f"by {_deciders(lines)}"] if len(lines) > 1 else []
        below += [happened(lines[-1])] if lines[-1].eventful() or lines[-1].learners else []
        shown += [Text(f"  {plain(each)}") for each in below]
    return shown


class Row(NamedTuple):
    at: str
    attempt: str
    of: str
    outcome: str
    by: str
    members: str
    training: str
    waiting: str
    deciding: str
    last: str


def _row(lines: list[Line]) -> Row:
    decision, one = lines[-1].decision, len(lines) == 1
    return Row(
        said(decision.at_us / 1e6), _span(line.decision.attempt for line in lines),
        _span(line.decision.number for line in lines), plain(decision.outcome), plain(decision.decider) if one else "",
        ranges(lines[-1].was_in) or "none", *_durations(lines), plain(decision.last_to_come) if one else "",
    )  # fmt: skip


def _padded(row: Row, widths: list[int]) -> str:
    cells = [cell.ljust(width) if place in LEFT else cell.rjust(width) for place, (cell, width) in
             enumerate(zip(row, widths, strict=True))]  # fmt: skip
    return "  ".join(cells).rstrip()


def stretches(lines: list[Line], fold: bool) -> list[list[Line]]:
    """Each attempt by itself, or usual ones that follow each other with the same ranks in them together."""
    found: list[list[Line]] = []
    for line in lines:
        last = found[-1][-1] if found else None
        same = last is not None and not last.eventful() and not line.eventful() and _alike(last, line)
        if fold and same:
            found[-1].append(line)
        else:
            found.append([line])
    return found


def _alike(one: Line, other: Line) -> bool:
    known = one.decision.attempt + 1 == other.decision.attempt
    return known and one.was_in == other.was_in and one.learners == other.learners


def sentences(lines: list[Line]) -> list[str]:
    """Every attempt, the usual ones folded, one sentence each."""
    return [_sentence(each) for each in stretches(lines, fold=True)]


def _sentence(lines: list[Line]) -> str:
    decision, many = lines[-1].decision, len(lines) > 1
    what = f"attempt{'s' * many} {_span(line.decision.attempt for line in lines)}"
    of = f"iteration{'s' * many} {_span(line.decision.number for line in lines)}"
    took = ", ".join(f"{name} {spent}" for name, spent in zip(PHASES, _durations(lines), strict=True) if spent)
    who = ranges(lines[-1].was_in) or "nobody"
    more = happened(lines[-1])
    return (
        f"{what} of {of}: {decision.outcome} by {_deciders(lines)}; in {who}; {'median ' * many}{took}"
        f"{'; ' if more else ''}{plain(more)}"
    )


def _span(numbers: Any) -> str:
    shown = sorted(numbers)
    return str(shown[0]) if shown[0] == shown[-1] else f"{shown[0]}-{shown[-1]}"


def _deciders(lines: list[Line]) -> str:
    """Who decided, and how often if there are several attempts."""
    counted = Counter(line.decision.decider for line in lines)
    if len(lines) == 1:
        return plain(lines[0].decision.decider)
    return few([f"{plain(who)} ({times})" for who, times in counted.most_common()], MOST_NAMES)


def _durations(lines: list[Line]) -> tuple[str, str, str]:
    training, waiting, deciding = (_median(lines, name) for name in PHASES)
    return training, waiting, deciding


def _median(lines: list[Line], name: str) -> str:
    spent = [getattr(line.phases, f"{name}_us") for line in lines]
    known = [us for us in spent if us is not None]
    return said(median(known) / 1e6) if known else ""


def ranges(ranks: list[str]) -> str:
    """Ranks in order, those that follow each other as one: 0-3 5."""
    spans: list[list[int]] = []
    for number in sorted(map(int, ranks)):
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def happened(line: Line) -> str:
    decision = line.decision
    parts = [f"{rank} given up: {why}" for rank, why in decision.gone]
    parts += [f"{rank} left: {why or 'no reason'}" for rank, why in line.left]
    if decision.against:
        parts.append(f"no from {few(decision.against, MOST_NAMES)}")
    if decision.came:
        parts.append(f"counted in {ranges(decision.came)}")
    if line.learners:
        parts.append(f"learning: {ranges(line.learners)}")
    return "; ".join(parts)

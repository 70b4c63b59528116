"""What participants reported of their trainings, kept for people when the rounds are over: metrics, and the history of
their epochs. Nothing is decided by it, so it is bounded: the oldest give way, whoever's they are."""

from __future__ import annotations

from typing import Any, Final

from quoracy.core.codec import encode, seconds
from quoracy.core.federated.events import UpdateOffered
from quoracy.core.federated.measured import few_warnings, nested
from quoracy.core.federated.state import Assignment, Round, Task, TrainingReport

MAX_REPORT_BYTES: Final = 32 * 1024
"""Of one report. A longer history is cut, by whole lists: the journal has all of it."""
MAX_BYTES: Final = 4 * 1024 * 1024
"""Of all reports of a run. Beyond, the oldest go, and a quarter at once: the pages of a snapshot change only then."""
LEFT_BYTES: Final = MAX_BYTES * 3 // 4
CURVE_SHOWN: Final = 32
"""Epochs of the curve on a page with everybody."""
SCALARS_SHOWN: Final = 4


def keep(task: Task, round_: Round, mine: Assignment, result: dict[str, Any], at_us: int) -> None:
    """``mine`` has its fate. ``result``: what was found when the update was looked at; empty if it was not. The initial
    weights come from no training."""
    offer = mine.offer
    if offer is None or round_.number < 0:
        return
    report = TrainingReport(
        mine.member, round_.number, mine.ticket, mine.fate, mine.why, at_us, offer.samples, dict(offer.metrics),
        dict(offer.history), *_brought(offer, result),
    )  # fmt: skip
    report.kept_bytes = _cut(report)
    task.reports.append(report)
    task.report_bytes += report.kept_bytes
    task.newest[report.member] = report
    if task.report_bytes > MAX_BYTES:
        _give_way(task)


def _brought(offer: UpdateOffered, result: dict[str, Any]) -> tuple[list[str], str, int, dict[str, list[int]]]:
    """Warnings; digest, size and shapes of the metrics that are an object, if it is one."""
    found, told, size_bytes = result.get("arrays"), result.get("warnings"), result.get("metrics_bytes")
    warnings = few_warnings([*offer.warnings, *map(str, told if isinstance(told, list) else [])])
    if not isinstance(found, dict) or not found or not isinstance(size_bytes, int):
        return warnings, "", 0, {}
    shapes = {str(name): list(shape) for name, shape in found.items() if isinstance(shape, list)}
    return warnings, offer.metrics_digest, size_bytes, shapes


def _cut(report: TrainingReport) -> int:
    """Its size, when it is one that can be kept."""
    size = len(encode(report))
    cut: list[str] = []
    for table in (report.history, report.metrics):
        for name in sorted(table, reverse=True):
            if size <= MAX_REPORT_BYTES:
                break
            size -= len(encode({name: table.pop(name)}))
            cut.append(name)
    if cut:
        why = (
            f"more than {MAX_REPORT_BYTES} bytes of one training, so {', '.join(sorted(cut))} are in the journal alone"
        )
        report.warnings = few_warnings([*report.warnings, why])
    return len(encode(report)) if cut else size


def _give_way(task: Task) -> None:
    gone = 0
    while task.report_bytes > LEFT_BYTES and gone < len(task.reports) - 1:
        task.report_bytes -= task.reports[gone].kept_bytes
        gone += 1
    for report in task.reports[:gone]:
        if task.newest.get(report.member) is report:
            del task.newest[report.member]
    del task.reports[:gone]
    task.reports_gone += gone


def warnings_of(task: Task, member: str, ticket: int) -> list[str]:
    """What was left out of the report with this ticket, if it is the newest of its participant."""
    newest = task.newest.get(member)
    return newest.warnings if newest is not None and newest.ticket == ticket else []


# -- for people ----------------------------------------------------------------------------------------------------


def report_shown(report: TrainingReport) -> dict[str, Any]:
    return {
        "round": report.round, "ticket": report.ticket, "fate": report.fate.value, "why": report.why,
        "at_s": seconds(report.at_us), "samples": report.samples,
        "metrics": {name: nested(value) for name, value in report.metrics.items()}, "history": report.history,
        "warnings": report.warnings,
        "arrays": {"digest": report.digest, "size_bytes": report.size_bytes, "shapes": report.arrays},
    }  # fmt: skip


def newest_shown(task: Task, member: str) -> dict[str, Any] | None:
    """The last training of a participant in a line: a few numbers and one curve. None if it has reported nothing."""
    report = task.newest.get(member)
    if report is None:
        return None
    scalars = {name: value for name, value in report.metrics.items() if isinstance(value, float | int)}
    curve = min(report.history, key=lambda name: (name != "loss", name), default="")
    return {
        "round": report.round, "fate": report.fate.value,
        "metrics": dict(sorted(scalars.items())[:SCALARS_SHOWN]),
        "curve": curve, "epochs": report.history.get(curve, [])[-CURVE_SHOWN:], "warnings": len(report.warnings),
    }  # fmt: skip

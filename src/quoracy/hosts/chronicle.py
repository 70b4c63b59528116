"""What a server's log tells of its runs: each decision once, when it is in the journal; each reason to wait once.

Kind-blind. Worth a line is who joins, whatever carries a reason, whatever an operator ordered, what was refused, and
who serves; the rest is for ``debug``. Decisions are read from the very entry that was written, so that nothing is told
that is not durable, and nothing twice.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any, Final

import msgspec

from quoracy.core.errors import Refusal
from quoracy.core.federated.events import RoundClosed
from quoracy.core.journal import CommandRefused, HostTook, decode_entry
from quoracy.core.machine import By, Event, Explanation
from quoracy.core.members import Cause
from quoracy.core.run import Kinds, Run
from quoracy.hosts.log import Log

LONG_US: Final = 1_000_000
"""A younger wait is not worth a line: most are over before anybody could read it."""
MAX_WHY: Final = 500
"""Characters of a reason. With a thousand silent workers it would fill a screen."""
_NUMBERS: Final = re.compile(r"\d+")


class Chronicle:
    def __init__(self, log: Log, kinds: Kinds) -> None:
        self._log = log
        self._kinds = kinds
        self._said: dict[str, Hashable] = {}

    def committed(self, run: Run, payload: bytes) -> None:
        """This entry of ours is in the journal."""
        entry = decode_entry(payload, run.head.run, run.head.n)
        recorded: list[tuple[Cause | None, Event]] = self._kinds.decoder(run.kind).decode(entry.events)
        for cause, event in recorded:
            self._tell(run.head.run, entry.n, cause, event)

    def _tell(self, run: str, n: int, cause: Cause | None, event: Event) -> None:
        what = str(event.__struct_config__.tag).replace("-", " ")
        facts: dict[str, Any] = {"run": run, **_facts(event), "entry": n}
        if isinstance(event, CommandRefused) and cause is not None:
            self._log.info(what, member=cause.member, seq=cause.seq, **facts)
        elif event.by is By.HOST and hasattr(event, "reason") and not _routine(event):
            self._log.warn(what, **facts)
        elif event.joins or event.by is By.OPERATOR or hasattr(event, "reason") or isinstance(event, HostTook):
            self._log.info(what, **facts)
        else:
            self._log.debug(what, **facts)

    def waiting(self, run: str, explanation: Explanation) -> None:
        """What the run is waiting for, if that is another thing than last time. Times pass and counts change while the
        thing stays the same, so they are not compared."""
        told: Hashable = explanation.sentence
        if explanation.waits:
            long = [wait for wait in explanation.waits if wait.waited_us >= LONG_US]
            if not long:
                return
            told = tuple((_NUMBERS.sub("", wait.what), wait.missing) for wait in long)
        if self._said.get(run) != told:
            self._said[run] = told
            why = explanation.sentence
            why = why if len(why) <= MAX_WHY else why[: MAX_WHY - 1] + "…"
            self._log.info("explain", run=run, why=why)


def _routine(event: Event) -> bool:
    """It has a reason, and is how it should be."""
    return isinstance(event, RoundClosed) and not event.samples_bound


def _facts(event: Event) -> dict[str, Any]:
    """The fields that people can read: texts and numbers as they are, lists counted, bytes left out."""
    facts: dict[str, Any] = {}
    for name, value in msgspec.structs.asdict(event).items():
        match value:
            case "" | bytes() | None:
                pass
            case list() | tuple():
                facts[name] = len(value)
            case dict():
                if value:
                    facts[name] = value
            case Refusal():
                facts |= {"code": value.code, "why": value.why}
            case _:
                facts[name] = value
    return facts

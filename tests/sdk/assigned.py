"""How many batches each member of a witnessed run was given, from the journal alone."""

from __future__ import annotations

from typing import Any

from quoracy.core.dice import Cup
from quoracy.core.journal import RunCreated, decode_created, decode_entry
from quoracy.core.kinds import KINDS
from quoracy.core.run import Run
from quoracy.core.witnessed.committee import count
from quoracy.core.witnessed.machine import Witnessed


def assigned(entries: list[bytes], name: str) -> dict[str, list[int]]:
    """By member: batches of each round that it was in, as the round was drawn."""
    run: Run | None = None
    given: dict[str, list[int]] = {}
    seen: set[tuple[int, int]] = set()
    for n, payload in enumerate(entries, start=1):
        entry = decode_entry(payload, name, n)
        if run is None:
            run = Run.create(KINDS, decode_created(entry))
        cup = Cup(name, entry.seed)
        pairs: list[Any] = KINDS.decoder(run.kind).decode(entry.events)
        for index, (cause, event) in enumerate(pairs):
            cup.index = index
            if not isinstance(event, RunCreated):
                run.decide(cause, event, entry.at_us, cup, n)
            _note(run, given, seen)
        run.sealed(entry, payload)
    return given


def _note(run: Run, given: dict[str, list[int]], seen: set[tuple[int, int]]) -> None:
    assert isinstance(run.machine, Witnessed)
    round_ = run.machine.course.round
    if round_ is None or (round_.epoch, round_.number) in seen:
        return
    seen.add((round_.epoch, round_.number))
    for member in round_.roster:
        batches = sum(count(work.batches) for work in round_.works if work.member == member)
        given.setdefault(member, []).append(batches)

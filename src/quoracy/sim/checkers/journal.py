"""The journal of a run of any kind as a plain list. Nothing is folded: events are decoded, nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from quoracy.core.journal import decode_created, decode_entry
from quoracy.core.kinds import KINDS
from quoracy.core.members import Cause


class Happened(NamedTuple):
    entry: int
    cause: Cause | None
    event: Any


def read(journal: list[bytes], run: str) -> Iterator[Happened]:
    if not journal:
        return
    created = decode_created(decode_entry(journal[0], run, 1))
    decoder = KINDS.decoder(KINDS.get(created.kind, created.rules))
    for n, payload in enumerate(journal, start=1):
        for cause, event in decoder.decode(decode_entry(payload, run, n).events):
            yield Happened(n, cause, event)

"""Runs of another kind than somebody means: how that is said, on every door."""

from __future__ import annotations

from typing import Final

import msgspec

from quoracy.core.errors import Refusal, Refused
from quoracy.hosts.server import ServedRun


class Members(msgspec.Struct, frozen=True):
    """Those who take part in runs of one kind."""

    called: str
    join_with: str
    """What a training script calls."""


MEMBERS: Final = {
    "cluster": Members("workers", "quoracy.connect"),
    "federated": Members("participants", "quoracy.participate"),
    "witnessed": Members("members", "quoracy.join"),
}


def check_kind(served: ServedRun, *kinds: str) -> None:
    """Raises Refused if the run is of none of these. A run whose journal is being read is nobody's yet."""
    if (kind := kind_now(served)) and kind not in kinds:
        why = f"{served.name} is a {kind} run, and this is for {' and '.join(kinds)} runs"
        raise Refused(Refusal("wrong_kind", why, f"name a {' or '.join(kinds)} run"))


def check_joins(served: ServedRun, joins: str) -> Refusal | None:
    """Why those who take part in runs of the kind ``joins`` cannot join this one."""
    kind = kind_now(served)
    if not kind or kind == joins:
        return None
    why = f"{served.name} is a {kind} run, and {MEMBERS[joins].called} join {joins} runs"
    fix = f"join it with {MEMBERS[kind].join_with}, or name a {joins} run"
    return Refusal("wrong_kind", why, fix)


def kind_now(served: ServedRun) -> str:
    """Empty while its journal is being read."""
    return "" if served.host.run is None else served.host.run.kind.name

"""``join_async``: the same member of a witnessed run, for programs with an event loop."""

from __future__ import annotations

from typing import Any

from quoracy.sdk.client.aio import take_part_async
from quoracy.sdk.witnessed.api import prepare
from quoracy.sdk.witnessed.member import MemberSummary


async def join_async(
    url: str | None = None, trainer: Any = None, run: str | None = None, **options: Any
) -> MemberSummary:
    """See ``join``, whose options these are. The trainer runs in the member's own thread."""
    summary: MemberSummary = await take_part_async(prepare, url, trainer, run, **options)
    return summary

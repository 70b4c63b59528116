"""What handlers need, in one place."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from quoracy.config import ConnectionLimits
from quoracy.core.errors import Refused
from quoracy.doors.calls import Calls
from quoracy.doors.http.gate import Gate
from quoracy.doors.http.login import Login
from quoracy.doors.http.reading import Asked
from quoracy.doors.http.streams import Streams
from quoracy.doors.http.transfers import Transfers
from quoracy.doors.service import Service
from quoracy.hosts.relayed import Relayed


class Metrics(Protocol):
    def render(self, accept: str) -> tuple[bytes, str]:
        """The figures of now, in the format that ``accept`` prefers, and its media type."""


class House(msgspec.Struct, frozen=True):
    service: Service
    calls: Calls
    limits: ConnectionLimits
    gate: Gate
    login: Login
    streams: Streams
    metrics: Metrics | None
    relayed: Relayed
    relay_blob_bytes: int
    """At most, of one that goes through the relay."""
    transfers: Transfers

    async def ask(self, asked: Asked, what: str, run: str = "", **arguments: Any) -> Any:
        """Raises Refused."""
        replied = await self.service.ask(asked.identity, 0, what, run, arguments)
        if replied.refusal is not None:
            raise Refused(replied.refusal)
        return replied.value

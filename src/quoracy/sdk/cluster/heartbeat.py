"""What a worker's heartbeat says."""

from __future__ import annotations

from typing import Any

from quoracy.core.cluster.events import Heartbeat
from quoracy.sdk.client.vitals import Vitals

HEARTBEAT = Heartbeat


def fields(vitals: Vitals, now_us: int) -> dict[str, Any]:
    return vitals.look(now_us) | {"order": vitals.seen_order()}

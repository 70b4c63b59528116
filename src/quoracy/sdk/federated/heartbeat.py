"""What a participant's heartbeat says."""

from __future__ import annotations

from typing import Any

from quoracy.core.federated.events import Beat
from quoracy.sdk.client.vitals import Vitals

HEARTBEAT = Beat


def fields(vitals: Vitals, _now_us: int) -> dict[str, Any]:
    return vitals.of_training()

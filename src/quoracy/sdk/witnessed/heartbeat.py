"""What the heartbeat of a witnessed member says."""

from __future__ import annotations

from typing import Any

from quoracy.core.witnessed.events import Beat
from quoracy.sdk.client.vitals import Vitals

HEARTBEAT = Beat


def fields(vitals: Vitals, _now_us: int) -> dict[str, Any]:
    said = vitals.of_training()
    return {"progress": said["progress"], "metrics": said["metrics"]}

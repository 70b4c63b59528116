"""Metrics that were too large for a participant's report, as the safetensors file that it has brought."""

from __future__ import annotations

import re
from typing import Final

from starlette.types import Send

from quoracy.doors.http import weights
from quoracy.doors.http.house import House
from quoracy.doors.http.problems import trouble
from quoracy.doors.http.reading import Asked
from quoracy.doors.http.weights_access import to_fetch

_NUMBER: Final = re.compile(r"[0-9]{1,10}")


async def get(house: House, asked: Asked, send: Send) -> None:
    run, number, name = asked.params["run"], asked.params["round"], asked.params["participant"]
    place = to_fetch(house, asked, run)
    if not _NUMBER.fullmatch(number) or int(number) > weights.MAX_ROUND or not 1 <= len(name) <= 64:
        why = f"round = {number[:40]}, participant = {name[:80]}"
        raise trouble("malformed", why, f"a number from 0 to {weights.MAX_ROUND}, and an id of 1 to 64 characters")
    key = place.keys.metrics(int(number), name)
    size_bytes = await weights.do(house, lambda objects: objects.head(key))
    if size_bytes is None:
        why = f"{name} brought no metrics in round {number} of run {run}"
        raise trouble("object_missing", why, "see /api/runs/{run}/participants/{participant}/history for what there is")
    await weights.send_object(house, asked, send, key, size_bytes, b"")

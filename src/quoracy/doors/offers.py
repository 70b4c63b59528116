"""Updates that are offered, before the run hears of them: a metric that cannot be journaled is left out, with a warning
in its place. Whoever has trained for an hour does not lose that over a NaN."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from msgspec import Raw

from quoracy.core.codec import encode
from quoracy.core.federated.events import UpdateOffered
from quoracy.core.federated.measured import SHOWN, fit
from quoracy.core.messages import Call

TAG: Final = str(UpdateOffered.__struct_config__.tag)
_FIELDS: Final = UpdateOffered.__struct_fields__
METRICS, HISTORY, DIGEST, WARNINGS = (
    1 + _FIELDS.index(name) for name in ("metrics", "history", "metrics_digest", "warnings")
)
"""Where these are in the event, which begins with its tag."""
_DIGEST: Final = re.compile("[0-9a-f]{64}")


def fitting(call: Call, kind: str) -> Call:
    """The same call, or, if it offers an update, the same with the metrics that can be kept. What cannot be read is
    handed on as it came: the run says what is wrong with it."""
    if kind != "federated" or not call.cause.seq or TAG.encode() not in bytes(memoryview(call.event)[: len(TAG) + 8]):
        return call
    try:
        event = msgspec.msgpack.decode(call.event)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return call
    if not isinstance(event, list) or len(event) <= METRICS or event[0] != TAG:
        return call
    made = fitted(event)
    return call if made == event else Call(call.run, call.cause, Raw(encode(made)))


def fitted(event: list[Any]) -> list[Any]:
    """The event as a list, with all its fields."""
    blank = {METRICS: {}, HISTORY: {}, DIGEST: "", WARNINGS: []}
    whole = [*event, *(blank.get(at) for at in range(len(event), 1 + len(_FIELDS)))]
    told = whole[WARNINGS] if isinstance(whole[WARNINGS], list) else []
    digest, wrong = whole[DIGEST], []
    if digest and not (isinstance(digest, str) and _DIGEST.fullmatch(digest)):
        wrong = [f"metrics_digest = {str(digest)[:SHOWN]!r} is left out: it is no digest (64 lower hex digits)"]
        digest = ""
    kept = fit(whole[METRICS], whole[HISTORY], [*told, *wrong])
    whole[METRICS] = {name: msgspec.to_builtins(value) for name, value in kept.metrics.items()}
    whole[HISTORY], whole[DIGEST], whole[WARNINGS] = kept.history, digest or "", kept.warnings
    return whole

"""What may be asked about the history of a run: which curves there are, and one of them.

Times are those of the server's clock. Whoever asks from another machine says how far back, not since when.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta

from quoracy.core.codec import malformed
from quoracy.core.errors import Refusal, Refused
from quoracy.doors.roles import Action
from quoracy.doors.tokens import Identity

if TYPE_CHECKING:
    from quoracy.doors.questions import Question
    from quoracy.doors.service import Service

HOUR_S: Final = 3600.0
Time = Annotated[float, Meta(ge=0.0, le=1e12)]


class Curve(msgspec.Struct, forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1, max_length=128)]
    subject: Annotated[str, Meta(max_length=128)] = ""
    """A member or a barrier; empty for the whole run."""
    last_s: Annotated[float, Meta(gt=0.0, le=1e9)] = HOUR_S
    """The last so many seconds, unless ``since_s`` is said."""
    since_s: Time | None = None
    until_s: Time | None = None
    max_points: Annotated[int, Meta(ge=1, le=10_000)] = 500


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    pass


async def series(service: Service, _identity: Identity, run: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """One curve. ``now_s`` is the server's clock, which the times are of."""
    try:
        wish = msgspec.convert(arguments, Curve)
    except msgspec.ValidationError as error:
        raise Refused(malformed(error, "series")) from None
    service.served(run)
    now_s = time.time()
    since_s = now_s - wish.last_s if wish.since_s is None else wish.since_s
    until_s = now_s if wish.until_s is None else wish.until_s
    if until_s < since_s:
        why = f"until_s = {until_s:g} lies before since_s = {since_s:g}"
        raise Refused(Refusal("malformed", why, "ask for a span that ends after it begins"))
    kept = service.series
    buckets = await service.server.off_loop(
        lambda: kept.read(run, wish.name, wish.subject, since_s, until_s, wish.max_points)
    )
    return {"run": run, "name": wish.name, "subject": wish.subject, "now_s": now_s,
            "buckets": [msgspec.structs.asdict(bucket) for bucket in buckets]}  # fmt: skip


async def series_names(service: Service, _identity: Identity, run: str, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        msgspec.convert(arguments, Nothing)
    except msgspec.ValidationError as error:
        raise Refused(malformed(error, "series-names")) from None
    service.served(run)
    kept = service.series
    names = await service.server.off_loop(lambda: kept.names(run))
    return {"run": run, "series": [{"name": name, "subject": subject} for name, subject in names]}


SERIES_QUESTIONS: Final[dict[str, tuple[Action, Question]]] = {
    "series": (Action.LOOK, series),
    "series-names": (Action.LOOK, series_names),
}

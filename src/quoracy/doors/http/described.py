"""What the OpenAPI document says about one route's parameters and answers."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from quoracy.core.errors import CATALOG
from quoracy.doors.http import shapes, shapes_witnessed
from quoracy.doors.http.problems import MEDIA, OWN, Problem
from quoracy.doors.http.reading import KEY
from quoracy.doors.http.routes import OCTETS, Route
from quoracy.doors.http.shapes_events import EVENTS
from quoracy.doors.http.streams import ID, IDS
from quoracy.doors.http.weights_access import MAX_BYTES

REFERENCE: Final = "#/components/schemas/{name}"
STREAM: Final = "text/event-stream"
Described = dict[str, Any]

PARAMETERS: Final[dict[str, tuple[Any, str]]] = {
    "run": (shapes.RunName, "The run's name"),
    "member": (shapes.MemberId, "The worker's id"),
    "barrier": (shapes.BarrierName, "The barrier's name"),
    "code": (str, "The code of a problem"),
    "digest": (shapes.Digest, "The blake3 of the weights, or of the blob, in hex"),
    "batches": (shapes_witnessed.BatchesAsked, "The first and the last batch, as in 0-7"),
    "round": (shapes.RoundNumber, "The round's number"),
    "participant": (shapes.MemberId, "The participant's id; of weights also global, what the round began with"),
}
WORDS: Final = {
    "limit": "How many at most",
    "cursor": "The next of the page before",
    "run": "A run's name; empty for all. For events also a beginning with a star, as in bert-*",
    "after": "The number of the last entry that is known",
    "history": "From the first entry on, and not only what is new",
    "follow": "Go on with what comes; otherwise the stream ends with what is there",
    "name": "Which series; empty to learn which there are",
    "subject": "Whose: a worker, a barrier; empty for the whole run",
    "last_s": "The last so many seconds",
    "since_s": "From when, in seconds since 1970 by the server's clock, instead of last_s",
    "max_points": "How many buckets at most",
    "member": "The member that asks",
    "incarnation": "Its life",
}
ALWAYS: Final = (
    "malformed", "wrong_host", "too_fast", "wrong_method", "not_acceptable", "too_slow", "url_too_long",
    "headers_too_large", "internal",
)  # fmt: skip
ASKED: Final = (
    "bad_token", "forbidden", "not_serving", "draining", "store_lost", "journal_busy", "journal_full", "journal_broken",
    "journal_corrupt", "journal_newer", "journal_older", "unknown_rules", "outcome_unknown", "bug", "fold_diverged",
)  # fmt: skip
"""Wherever a token is asked for: who asks, and what may be wrong with the server and its store."""


def schema_of(kind: Any) -> Described:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return {"$ref": REFERENCE.format(name=kind.__name__)}
    schema: Described = msgspec.json.schema(kind)
    return schema


# -- parameters ------------------------------------------------------------------------------------------------------


def parameters(route: Route) -> list[Described]:
    return [*_in_path(route), *_in_query(route), *_in_headers(route)]


def _in_path(route: Route) -> list[Described]:
    names = re.findall(r"{(\w+)}", route.path)
    return [
        {
            "name": name, "in": "path", "required": True, "description": PARAMETERS[name][1],
            "schema": schema_of(PARAMETERS[name][0]),
        }
        for name in names
    ]  # fmt: skip


def _in_query(route: Route) -> list[Described]:
    whole: Described = msgspec.json.schema(route.query)
    shape = next(iter(whole["$defs"].values()))
    required = shape.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": schema, "description": WORDS[name]}
        for name, schema in shape["properties"].items()
    ]


def _in_headers(route: Route) -> list[Described]:
    found = []
    if route.key:
        found.append(_header("Idempotency-Key", {"type": "string", "pattern": f"^{KEY.pattern}$"}, route.key))
    if route.method == "PATCH":
        for name, about in (("Upload-Offset", "Where the part begins"), ("Upload-Length", "How long the whole is")):
            found.append(_header(name, {"type": "integer", "minimum": 0, "maximum": MAX_BYTES}, about, required=True))
    if route.media == STREAM:
        ids = ID if "{run}" in route.path else IDS
        about = "The id of the last event that was seen: what follows it comes"
        found.append(_header("Last-Event-ID", {"type": "string", "pattern": f"^({ids})?$"}, about))
    if tagged(route):
        found.append(_header("If-None-Match", {"type": "string"}, "An ETag: 304 if the answer still has it"))
    if route.ranged:
        about = "As bytes=0-99, bytes=100- or bytes=-5. What is no such range is passed over, as RFC 9110 says"
        found.append(_header("Range", {"type": "string"}, about))
        found.append(_header("If-Range", {"type": "string"}, "An ETag: the range only if it is still the same"))
    return found


def _header(name: str, schema: Described, about: str, required: bool = False) -> Described:
    return {"name": name, "in": "header", "required": required, "schema": schema, "description": about}


def tagged(route: Route) -> bool:
    """Whether its answer has an ETag: all that is not sent in pieces, and weights that are named by their digest."""
    if route.method not in ("GET", "HEAD"):
        return False
    return "{digest}" in route.path or (route.handle is not None and route.name != "metrics")


# -- answers ---------------------------------------------------------------------------------------------------------


def answers(route: Route) -> dict[str, Described]:
    """Every status that may come, and no other."""
    told = {str(route.status): _fine(route)}
    for status, about in route.also:
        told[str(status)] = _other(route, status, about)
    if tagged(route):
        told["304"] = {"description": "As If-None-Match says: nothing has changed"}
    by_status: dict[int, list[str]] = {}
    for code in dict.fromkeys(_wrong(route)):
        by_status.setdefault(OWN[code].status if code in OWN else CATALOG[code].http, []).append(code)
    problem = {} if route.method == "HEAD" else {"content": {MEDIA: {"schema": schema_of(Problem)}}}
    for status, codes in by_status.items():
        told.setdefault(str(status), {"description": ", ".join(codes), **problem})
    return {status: told[status] for status in sorted(told)}


def _wrong(route: Route) -> list[str]:
    wrong = [*ALWAYS, *route.wrong]
    if route.who != "anybody":
        wrong += ASKED
    if route.body is not None:
        wrong += ["too_large", "wrong_media_type", "foreign_origin"]
    return wrong


def _fine(route: Route) -> Described:
    fine: Described = {"description": route.summary}
    if route.status != 204 and not route.upload:
        fine["content"] = {route.media: {"schema": _body(route)}}
    if headers := _response_headers(route, route.status):
        fine["headers"] = headers
    return fine


def _other(route: Route, status: int, about: str) -> Described:
    other: Described = {"description": about}
    if status in (206, 503):
        other["content"] = {route.media: {"schema": _body(route)}}
    if headers := _response_headers(route, status):
        other["headers"] = headers
    return other


def _body(route: Route) -> Described:
    if route.media == STREAM:
        return {"oneOf": [_event(name, kind) for name, kind in EVENTS.items()]}
    if route.media == OCTETS:
        return {"type": "string", "format": "binary"}
    return {"type": "string"} if route.answer is None else schema_of(route.answer)


def _event(name: str, kind: type[msgspec.Struct]) -> Described:
    """One event, as a browser gives it to a script."""
    content = {"type": "string", "contentMediaType": "application/json", "contentSchema": schema_of(kind)}
    properties = {"event": {"const": name}, "id": {"type": "string"}, "data": content, "retry": {"type": "integer"}}
    return {"type": "object", "properties": properties, "required": ["event", "id", "data"]}


def _response_headers(route: Route, status: int) -> Described:
    needed: dict[str, tuple[Described, str]] = {}
    if status == 201 and route.name == "create":
        needed["Location"] = ({"type": "string"}, "Where the run is")
    if status in (200, 201, 206) and (tagged(route) or route.upload):
        needed["ETag"] = ({"type": "string"}, "For If-None-Match")
    if status == 204 and route.tag == "weights":
        needed["Upload-Offset"] = ({"type": "integer", "minimum": 0}, "How far the upload has come")
    if status == 206:
        needed["Content-Range"] = ({"type": "string", "pattern": "^bytes [0-9]+-[0-9]+/[0-9]+$"}, "Which bytes, of all")
    return {
        name: {"schema": schema, "description": about, "required": True} for name, (schema, about) in needed.items()
    }

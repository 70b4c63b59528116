"""The interface as an OpenAPI 3.1 document, written from the table of routes and the very types that they read and
write."""

from __future__ import annotations

import ast
import inspect
import re
from functools import cache
from itertools import pairwise
from typing import Any, Final

import msgspec

from quorate.core.errors import CATALOG
from quorate.doors.http import shapes, shapes_rounds
from quorate.doors.http.answers import Answer
from quorate.doors.http.house import House
from quorate.doors.http.problems import MEDIA, OWN, Problem, encode
from quorate.doors.http.reading import MAX_KEY, Asked
from quorate.doors.http.routes import ROUTES, Route
from quorate.version import __version__

REFERENCE: Final = "#/components/schemas/{name}"
ABOUT: Final = (
    "The control plane of training runs. Every error is a problem (RFC 9457) with a code, and says what to do. "
    "Every POST may carry an Idempotency-Key; what it does is said at each."
)
PARAMETERS: Final[dict[str, tuple[Any, str]]] = {
    "run": (shapes.RunName, "The run's name"),
    "member": (shapes.MemberId, "The worker's id"),
    "barrier": (shapes.BarrierName, "The barrier's name"),
    "code": (str, "The code of a problem"),
    "digest": (shapes.Digest, "The blake3 of the weights, in hex"),
    "round": (shapes.RoundNumber, "The round's number"),
    "participant": (shapes.MemberId, "The participant's id; global for the model that the round began with"),
}
TAGS: Final = {
    "runs": "What there is, what it waits for, and orders",
    "events": "What happens, as it happens",
    "weights": "What federated runs are about: uploaded and fetched in pieces of any size",
    "members": "How a worker lives through HTTP alone",
    "server": "The server itself",
}
ALWAYS: Final = ("malformed", "wrong_host", "too_fast", "wrong_method", "not_acceptable", "internal")


async def openapi(_house: House, _asked: Asked) -> Answer:
    return Answer(_rendered(), private=False)


OPENAPI: Final = Route(
    "GET", "/api/openapi.json", "openapi", "This document", openapi, dict[str, Any], who="anybody", tag="server"
)


@cache
def _rendered() -> bytes:
    return encode(document())


def document() -> dict[str, Any]:
    routes = (*ROUTES, OPENAPI)
    bodies = [kind for route in routes for kind in (route.body, *shapes.VARIANTS.get(route.body, {}).values())]
    types = [Problem, *(kind for kind in (*(route.answer for route in routes), *bodies) if kind is not None)]
    used = dict.fromkeys(kind for kind in types if isinstance(kind, type) and issubclass(kind, msgspec.Struct))
    _, schemas = msgspec.json.schema_components(used, ref_template=REFERENCE)
    said = _words()
    for name, schema in schemas.items():
        for field, described in schema.get("properties", {}).items():
            if (name, field) in said:
                schema["properties"][field] = {**described, "description": said[name, field]}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Quorate", "version": __version__, "description": ABOUT, "license": {"name": "Apache-2.0"}},
        "tags": [{"name": name, "description": said} for name, said in TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "quorate token new"}},
        },
    }


def _words() -> dict[tuple[str, str], str]:
    """What is written below each field of the shapes, by class and field."""
    trees = [ast.parse(inspect.getsource(module)) for module in (shapes, shapes_rounds)]
    found = {}
    for struct in (node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)):
        for field, below in pairwise(struct.body):
            match field, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(said))):
                    found[struct.name, name] = " ".join(said.split())
    return found


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [route.tag],
        "parameters": [*_in_path(route), *_in_query(route), *_in_headers(route)],
        "responses": _responses(route),
    }
    if route.body is not None:
        required = any(field.required for field in msgspec.structs.fields(route.body))
        operation["requestBody"] = {
            "required": required,
            "content": {"application/json": {"schema": _body(route.body)}},
        }
    if route.upload:
        binary = {"type": "string", "format": "binary"}
        operation["requestBody"] = {"required": True, "content": {"application/octet-stream": {"schema": binary}}}
    if route.who != "anybody":
        operation["security"] = [{"token": []}]
    return operation


def _body(kind: Any) -> dict[str, Any]:
    variants = shapes.VARIANTS.get(kind, {}).values()
    return {"anyOf": [_schema(kind), *map(_schema, variants)]} if variants else _schema(kind)


def _schema(kind: Any) -> dict[str, Any]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return {"$ref": REFERENCE.format(name=kind.__name__)}
    schema: dict[str, Any] = msgspec.json.schema(kind)
    return schema


def _in_path(route: Route) -> list[dict[str, Any]]:
    names = re.findall(r"{(\w+)}", route.path)
    return [
        {
            "name": name, "in": "path", "required": True, "description": PARAMETERS[name][1],
            "schema": _schema(PARAMETERS[name][0]),
        }
        for name in names
    ]  # fmt: skip


def _in_query(route: Route) -> list[dict[str, Any]]:
    whole: dict[str, Any] = msgspec.json.schema(route.query)
    described = next(iter(whole["$defs"].values()))["properties"]
    return [
        {"name": name, "in": "query", "required": False, "schema": schema, "description": WORDS.get(name, name)}
        for name, schema in described.items()
    ]


WORDS: Final = {
    "limit": "How many at most",
    "cursor": "The next of the page before",
    "run": "A run's name; empty for all. For events also a beginning with a star, as in bert-*",
    "after": "The number of the last entry that is known",
    "history": "From the first entry on, and not only what is new",
    "name": "Which series; empty to learn which there are",
    "subject": "Whose: a worker, a barrier; empty for the whole run",
    "last_s": "The last so many seconds",
    "since_s": "From when, in seconds since 1970 by the server's clock, instead of last_s",
    "max_points": "How many buckets at most",
}


def _in_headers(route: Route) -> list[dict[str, Any]]:
    found = []
    if route.key:
        schema = {"type": "string", "minLength": 1, "maxLength": MAX_KEY, "pattern": "^[!-~]+$"}
        found.append({"name": "Idempotency-Key", "in": "header", "required": False, "schema": schema,
                      "description": route.key})  # fmt: skip
    if route.method == "PATCH":
        for name, about in (("Upload-Offset", "Where the part begins"), ("Upload-Length", "How long the whole is")):
            schema = {"type": "integer", "minimum": 0, "maximum": 2**40}
            found.append({"name": name, "in": "header", "required": True, "schema": schema, "description": about})
    if route.media == "text/event-stream":
        found.append({"name": "Last-Event-ID", "in": "header", "required": False,
                      "schema": {"type": "string", "pattern": "^[0-9]{1,15}$"},
                      "description": "The id of the last event that was seen: what follows it comes"})  # fmt: skip
    return found


def _responses(route: Route) -> dict[str, Any]:
    wrong = [*ALWAYS, *route.wrong]
    if route.who != "anybody":
        wrong += ["bad_token", "forbidden"]
    if route.body is not None:
        wrong += ["too_large", "wrong_media_type", "foreign_origin", "too_slow"]
    by_status: dict[int, list[str]] = {}
    for code in dict.fromkeys(wrong):
        status = OWN[code].status if code in OWN else CATALOG[code].http
        by_status.setdefault(status, []).append(code)
    responses: dict[str, Any] = {str(route.status): _fine(route)}
    if route.name == "readyz":
        responses["503"] = _fine(route)
    if route.method == "GET" and route.handle is not None and route.name != "metrics":
        responses["304"] = {"description": "As If-None-Match says: nothing has changed"}
    problem = {MEDIA: {"schema": _schema(Problem)}}
    for status, codes in sorted(by_status.items()):
        responses.setdefault(str(status), {"description": ", ".join(codes), "content": problem})
    responses["default"] = {"description": "Any other problem", "content": problem}
    return responses


def _fine(route: Route) -> dict[str, Any]:
    if route.status == 204:
        return {"description": "Done"}
    schema = {"type": "string"} if route.answer is None else _schema(route.answer)
    fine: dict[str, Any] = {"description": route.summary, "content": {route.media: {"schema": schema}}}
    if route.method == "GET" and route.handle is not None and route.name != "metrics":
        fine["headers"] = {"ETag": {"schema": {"type": "string"}, "description": "For If-None-Match"}}
    return fine

"""The interface as an OpenAPI 3.1 document, written from the table of routes and the very types that they read and
write."""

from __future__ import annotations

import ast
import inspect
from functools import cache
from itertools import pairwise
from typing import Any, Final

import msgspec

from quoracy.doors.http import shapes, shapes_events, shapes_rounds, shapes_witnessed
from quoracy.doors.http.answers import Answer
from quoracy.doors.http.described import REFERENCE, answers, parameters, schema_of
from quoracy.doors.http.house import House
from quoracy.doors.http.problems import Problem, encode
from quoracy.doors.http.reading import Asked
from quoracy.doors.http.routes import ROUTES, Route
from quoracy.doors.http.shapes_events import EVENTS
from quoracy.version import __version__

ABOUT: Final = (
    "The control plane of training runs. Every error is a problem (RFC 9457) with a code, and says what to do. "
    "Every POST may carry an Idempotency-Key; what it does is said at each."
)
TAGS: Final = {
    "runs": "What there is, what it waits for, and orders",
    "events": "What happens, as it happens",
    "weights": "What federated runs are about: uploaded and fetched in pieces of any size",
    "samples": "What members of a witnessed run train on, where the coordinator has it",
    "relay": "What members of a witnessed run pass to each other, where they cannot reach each other",
    "members": "How a worker lives through HTTP alone",
    "server": "The server itself",
}


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
    types = [
        Problem,
        *EVENTS.values(),
        *(kind for kind in (*(route.answer for route in routes), *bodies) if kind is not None),
    ]
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
        "info": {"title": "Quoracy", "version": __version__, "description": ABOUT, "license": {"name": "Apache-2.0"}},
        "tags": [{"name": name, "description": said} for name, said in TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "quoracy token new"}},
        },
    }


def _words() -> dict[tuple[str, str], str]:
    """What is written below each field of the shapes, by class and field."""
    trees = [
        ast.parse(inspect.getsource(module)) for module in (shapes, shapes_events, shapes_rounds, shapes_witnessed)
    ]
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
        "parameters": parameters(route),
        "responses": answers(route),
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
    return {"anyOf": [schema_of(kind), *map(schema_of, variants)]} if variants else schema_of(kind)

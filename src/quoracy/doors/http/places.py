"""One address with its methods: picks the handler, reads what it needs, and leaves the answer for the gate to send."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.routing import Route as StarletteRoute
from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from quoracy.doors.http.answers import accepts
from quoracy.doors.http.house import House
from quoracy.doors.http.problems import trouble
from quoracy.doors.http.reading import Asked, decode_body, read_body, read_query
from quoracy.doors.http.routes import Route


class Place:
    def __init__(self, house: House, routes: Iterable[Route]) -> None:
        self._house = house
        self._by_method = {route.method: route for route in routes}
        if "GET" in self._by_method:
            self._by_method.setdefault("HEAD", self._by_method["GET"])
        self._allow = ", ".join(sorted({*self._by_method, "OPTIONS"}))

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        house, asked = self._house, scope["quoracy.asked"]
        route = self._by_method.get(scope["method"])
        if route is None:
            if scope["method"] == "OPTIONS":
                scope["quoracy.answer"] = house.gate.preflight(asked, self._allow)
                return
            why = f"{scope['method'][:32]} of {scope['path'][:120]}"
            raise trouble("wrong_method", why, f"use one of: {self._allow}", (b"allow", self._allow.encode()))
        _check_accept(asked, route.media)
        if route.who != "anybody":
            house.login.admit(asked, route.who == "member")
        if scope["path_params"]:
            asked.read_params()
        asked.query = read_query(scope["query_string"], route.query)
        if route.body is not None:
            content = await read_body(asked, house.limits.max_frame_bytes)
            asked.body = decode_body(content, asked.once(b"content-type"), route.body)
        if route.key:
            asked.request_key()
        if route.stream is not None:
            await route.stream(house, asked, send)
        elif route.handle is not None:
            scope["quoracy.answer"] = await route.handle(house, asked)
        elif "run" in asked.params:
            await house.streams.one(asked, send)
        else:
            await house.streams.many(asked, send)


def _check_accept(asked: Asked, media: str) -> None:
    accept = asked.headers.get(b"accept")
    if accept is None or media == "text/plain" or accepts(accept.decode("latin-1"), media):
        return
    why = f"Accept = {accept[:120].decode('latin-1')!r}"
    raise trouble("not_acceptable", why, f"the answer is {media}: accept that, or */*")


async def nothing_here(scope: Scope, _receive: Receive, _send: Send) -> None:
    why = f"there is nothing under {scope['path'][:120]}"
    raise trouble("no_such_page", why, "see /api/docs for what there is")


def router(house: House, routes: Iterable[Route]) -> ASGIApp:
    by_path: dict[str, list[Route]] = {}
    for route in routes:
        by_path.setdefault(route.path, []).append(route)
    places = [StarletteRoute(path, endpoint=Place(house, there)) for path, there in by_path.items()]
    return Router(places, redirect_slashes=False, default=nothing_here)

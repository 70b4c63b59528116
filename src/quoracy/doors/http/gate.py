"""Before anything is looked at, and after everything: who may ask under which name, and what every answer carries.

A browser is a loyal servant of every page it shows. So a request must name a host that this server goes by (a foreign
name could have been made to point here), and one that changes something must not come from a page of somebody else.
Answers may be read by pages of this server only, unless the settings name others.

Pure ASGI: one call per request, no tasks, no queues.
"""

from __future__ import annotations

import ipaddress
import secrets
import traceback
from typing import Final
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from quoracy.config import Http
from quoracy.core.errors import QuoracyError, Refusal, Refused
from quoracy.doors.http.answers import Answer, matches, tag_of
from quoracy.doors.http.problems import MEDIA, Trouble, trouble
from quoracy.doors.http.reading import Asked
from quoracy.doors.service import Service
from quoracy.hosts.log import Log

POLICY: Final = b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
CHANGES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
PREFLIGHT_S: Final = 600
_ALWAYS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_STRICT: Final = (b"strict-transport-security", b"max-age=31536000")
_WITH_POLICY: Final = (b"content-security-policy", POLICY)
_NO_STORE: Final = (b"cache-control", b"no-store")
_NO_CACHE: Final = (b"cache-control", b"no-cache")
_MAY_COME: Final = b"authorization, content-type, idempotency-key, last-event-id, if-none-match"
"""Headers that a foreign page which is let in may send."""
_WAYS_OUT: Final = {
    "object_too_large": "send less, or give the run a larger max_update_bytes when it is created",
    "digest_mismatch": "send the bytes whose blake3 is the digest in the address",
    "upload_offset": "go on where it stands: HEAD tells",
    "object_missing": "upload it, or begin the upload at offset 0",
    "objects_unreachable": "try again in a moment",
    "objects_full": "ask whoever runs the server to make room in the object store",
}
"""What somebody who meets an error of the object store can do about it."""


class Gate:
    def __init__(self, service: Service, settings: Http, log: Log) -> None:
        self._service = service
        self._log = log
        self._hosts = {name.lower().rstrip(".") for name in settings.allowed_hosts} | {"localhost"}
        self._origins = {origin.lower().rstrip("/") for origin in settings.allowed_origins}
        self._checked: set[bytes] = set()
        self.app: ASGIApp | None = None
        self.fixed_headers: list[tuple[bytes, bytes]] = []
        self.secure(False)

    def secure(self, tls: bool) -> None:
        self.tls = tls
        self.fixed_headers = [*_ALWAYS, _WITH_POLICY, _NO_STORE, *([_STRICT] if tls else [])]

    # -- one request ------------------------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = Asked(scope, receive)
        origin = b""
        try:
            self._check_host(asked)
            origin = scope["quoracy.origin"] = self._check_origin(asked)
            scope["quoracy.asked"] = asked
            scope["path"] = scope["raw_path"].decode("ascii")
            if self.app is None:
                raise RuntimeError("a gate without a house")
            await self.app(scope, receive, send)
            answer: Answer | None = scope.get("quoracy.answer")
        except Trouble as error:
            answer = _as_answer(error)
        except Refused as error:
            answer = _as_answer(Trouble(error.refusal))
        except QuoracyError as error:
            fix = _WAYS_OUT.get(error.code, "see the server's log")
            answer = _as_answer(Trouble(Refusal(error.code, str(error), fix)))
        except Exception as error:
            answer = self._fault(asked, error)
        if answer is not None:
            await self._send(asked, answer, origin, send)

    async def _send(self, asked: Asked, answer: Answer, origin: bytes, send: Send) -> None:
        body, status = answer.body, answer.status
        headers = self.headers(answer, origin)
        if answer.tagged and status == 200 and asked.scope["method"] in ("GET", "HEAD"):
            tag = tag_of(body)
            headers.append((b"etag", tag))
            wanted = asked.headers.get(b"if-none-match")
            if wanted is not None and matches(wanted, tag):
                body, status = b"", 304
        if status not in (204, 304):
            if answer.media:
                headers.append((b"content-type", answer.media))
            headers.append((b"content-length", b"%d" % len(body)))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def headers(self, answer: Answer, origin: bytes) -> list[tuple[bytes, bytes]]:
        headers = [*_ALWAYS, _NO_STORE if answer.private else _NO_CACHE, *answer.headers]
        if not any(name == b"content-security-policy" for name, _ in answer.headers):
            headers.append(_WITH_POLICY)
        if self.tls:
            headers.append(_STRICT)
        if self._origins:
            headers.append((b"vary", b"origin"))
        if origin:
            headers.append((b"access-control-allow-origin", origin))
            headers.append((b"access-control-expose-headers", b"etag, retry-after, location"))
        return headers

    def _fault(self, asked: Asked, error: Exception) -> Answer:
        """We are wrong. Whoever asked gets a number, the log gets the rest."""
        fault_id = secrets.token_hex(8)
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{where.filename.rpartition('/quoracy/')[2]}:{where.lineno}"
        path = asked.scope["path"]
        self._log.error("a request failed inside", door="http", id=fault_id, path=path, why=repr(error), at=place)
        why = f"the fault has the id {fault_id} in the server's log"
        refusal = Refusal("internal", why, "try again; if it stays, report it with that id")
        return _as_answer(Trouble(refusal, fault_id=fault_id))

    # -- names ------------------------------------------------------------------------------------------------------

    def _check_host(self, asked: Asked) -> None:
        """Against names that were made to point here. An address in figures cannot be made to."""
        host = asked.headers.get(b"host")
        if host in self._checked and not asked.repeats():
            return
        if host is None:
            if asked.scope["http_version"] == "1.0":
                return
            raise trouble("malformed", "the header Host is missing", "name the host that is asked")
        asked.once(b"host")
        name = host_name(host.decode("latin-1"))
        if name is None:
            raise trouble("malformed", f"Host = {host[:120].decode('latin-1')!r}", "a name or address, and a port")
        if not (name in self._hosts or name == self._advertised() or _in_figures(name)):
            why = f"this server does not go by the name {name!r}"
            raise trouble("wrong_host", why, "ask by its address, or add the name to http.allowed_hosts")
        if len(self._checked) < 64:
            self._checked.add(host)

    def _advertised(self) -> str:
        try:
            return (urlsplit(self._service.server.address).hostname or "localhost").lower()
        except ValueError:
            return "localhost"

    def _check_origin(self, asked: Asked) -> bytes:
        """The origin that may read the answer, if it is a foreign one that may. Raises Trouble for one that may not
        change anything."""
        given = asked.headers.get(b"origin")
        if given is None:
            return b""
        origin = given.decode("latin-1").lower()
        if origin in self._origins:
            return given
        if asked.scope["method"] in CHANGES and not self._own(origin, asked):
            why = f"Origin = {origin[:120]!r} is not this server"
            fix = "ask from a page of this server, or add the origin to http.allowed_origins"
            raise trouble("foreign_origin", why, fix, (b"vary", b"origin"))
        return b""

    def _own(self, origin: str, asked: Asked) -> bool:
        scheme = "https" if self.tls else "http"
        return origin == f"{scheme}://{asked.header(b'host').lower()}"

    def preflight(self, asked: Asked, methods: str) -> Answer:
        """OPTIONS: what may be done here, and for foreign pages that are let in, that they may."""
        headers = [(b"allow", methods.encode())]
        if asked.header(b"origin").lower() in self._origins and b"access-control-request-method" in asked.headers:
            headers += [
                (b"access-control-allow-methods", methods.encode()),
                (b"access-control-allow-headers", _MAY_COME),
                (b"access-control-max-age", b"%d" % PREFLIGHT_S),
            ]
        return Answer(b"", 204, headers=tuple(headers))

    def by_browser(self, asked: Asked) -> None:
        """With a cookie, which comes by itself: a change must show that a page of this server wants it. Raises
        Trouble."""
        if asked.scope["method"] not in CHANGES or b"origin" in asked.headers:
            return
        if asked.header(b"sec-fetch-site") in ("same-origin", "none"):
            return
        fix = "send the token as Authorization: Bearer, or ask from a browser that says where it is"
        raise trouble("foreign_origin", "a cookie came without Origin", fix)


def _as_answer(error: Trouble) -> Answer:
    return Answer(error.body(), error.status, MEDIA.encode(), error.headers, tagged=False)


def host_name(host: str) -> str | None:
    """The name in a Host header, without its port; None if it is no such header."""
    try:
        parts = urlsplit(f"//{host}")
        port = parts.port
        name = parts.hostname
    except ValueError:
        return None
    if not name or parts.path or parts.query or parts.fragment or "@" in host or port == 0:
        return None
    return name.rstrip(".")


def _in_figures(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True

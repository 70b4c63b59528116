"""Requests to the coordinator's HTTP door. Blocks. Any number of threads may ask.

A connection is kept for the next request: making one costs a way there and back, and with TLS several. The server may
have closed it meanwhile, which is seen only when nothing comes back; then a request that does no harm when it is
repeated is sent once more, on a new one.

Whatever may be better in a while raises ObjectsUnreachable, and whoever called tries again. After trouble it is looked
up anew where the door is: the coordinator may have been started again, elsewhere.
"""

from __future__ import annotations

import http.client
import json
import os
import select
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from quoracy.core.errors import (
    CATALOG,
    ConfigError,
    ObjectCorrupt,
    ObjectMissing,
    ObjectsError,
    ObjectsUnreachable,
    Refusal,
    Refused,
    Retry,
    retry_of,
)

TIMEOUT_S: Final = 60.0
"""Of silence, not of the whole."""
MAX_PROBLEM_BYTES: Final = 64 * 1024
BY_STATUS: Final = {401: "bad_token", 403: "forbidden", 409: "upload_offset", 413: "object_too_large"}
"""Where the answer has no body that says it better: it is not the coordinator's, but of something before it."""
PASSING: Final = frozenset({408, 425, 429, 500, 502, 503, 504, 507})
"""The same for whether to send it again."""
KEPT: Final = 4
"""Connections that wait for a request: as many as threads of one member ask at once."""
REPEATED: Final = frozenset({"GET", "HEAD", "PUT"})
"""Done twice they are done once."""
CLOSED: Final = (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""How it looks when the other side had closed a connection before the request came."""
Body = Callable[[http.client.HTTPConnection], bool]
"""Sends the body that the headers announce, the same each time it is called; False if it did not send all of it."""


class HttpLine:
    def __init__(
        self,
        url: str,
        run: str,
        token: Callable[[], str],
        ca: str | None,
        *,
        who: Callable[[], dict[str, Any]] = dict,
        find: Callable[[], str] | None = None,
    ) -> None:
        """``token``: asked for every time, since that of a session changes with the life of a member. ``who``: the
        same for what a request says of its sender, behind the path. ``find``: where the door is now; raises
        ObjectsUnreachable while nobody knows."""
        self._run = quote(run, safe="")
        self._ca = ca
        self._token = token
        self._who = who
        self._find = find
        self._lost = False
        self._kept: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._closed = False
        self._move(url)

    def _move(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError("http", url, "the coordinator names an HTTP door that is none: see its http settings")
        tls = _context(self._ca) if parts.scheme == "https" else None
        self._door = parts.hostname, parts.port, tls, f"{parts.path.rstrip('/')}/api/runs/{self._run}"

    @contextmanager
    def asked(
        self, method: str, path: str, what: str, headers: dict[str, str] | None = None, body: Body | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        """``path``: below the run. ``what``: for people, should it fail."""
        if self._lost and self._find is not None:
            self._move(self._find())
            self._lost = False
            self._drop()
        host, port, _, base = self._door
        token = self._token()
        authority = {"Authorization": f"Bearer {token}"} if token else {}
        said = urlencode(self._who())
        target, told = f"{base}/{path}{said and '?' + said}", authority | (headers or {})
        kept, keep = self._take(), False
        pool = self._kept
        line = kept or self._new()
        try:
            try:
                whole, answer = _answer(line, method, target, told, body)
            except CLOSED:
                if kept is None or method not in REPEATED:
                    raise
                line.close()
                self._drop()  # the others are as old
                line, pool = self._new(), self._kept
                whole, answer = _answer(line, method, target, told, body)
            yield answer
            keep = whole and answer.isclosed() and not answer.will_close
        except ssl.SSLCertVerificationError as error:
            why = f"the certificate of {host} is not believed: {error.verify_message}"
            raise ConfigError("ca", host, f"{why}; name the authority that signed it") from None
        except (OSError, http.client.HTTPException) as error:
            self._lost = True
            why = f"{method} of {what} at {host}:{port}: {type(error).__name__} {error}"
            raise ObjectsUnreachable(why) from None
        finally:
            if not (keep and self._keep(line, pool)):
                line.close()

    def _new(self) -> http.client.HTTPConnection:
        host, port, tls, _ = self._door
        if tls is None:
            return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
        return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=tls)

    def _take(self) -> http.client.HTTPConnection | None:
        """One that was kept, unless the other side has closed it meanwhile. Those of a process that this one was forked
        from are still used there."""
        if self._process != os.getpid():
            self._lock, self._process = threading.Lock(), os.getpid()
            self._drop()
        while True:
            with self._lock:
                if not self._kept:
                    return None
                line = self._kept.pop()
            if not has_answered(line):
                return line
            line.close()

    def _keep(self, line: http.client.HTTPConnection, pool: list[http.client.HTTPConnection]) -> bool:
        """``pool``: where it would have been kept when it was made. If that was dropped since, so is this one."""
        with self._lock:
            if self._closed or len(self._kept) >= KEPT or pool is not self._kept:
                return False
            self._kept.append(line)
            return True

    def _drop(self) -> None:
        with self._lock:
            kept, self._kept = self._kept, []
        for line in kept:
            line.close()

    def close(self) -> None:
        """Keep no connection any more."""
        self._closed = True
        self._drop()


def _answer(
    line: http.client.HTTPConnection, method: str, target: str, headers: dict[str, str], body: Body | None
) -> tuple[bool, http.client.HTTPResponse]:
    """Whether all of the request was sent, and what came back."""
    line.request(method, target, headers=headers)
    whole = body is None or body(line)
    return whole, line.getresponse()


def has_answered(line: http.client.HTTPConnection) -> bool:
    """Whether there is something to be read: an answer, or the end."""
    waiting = select.poll()
    waiting.register(line.sock, select.POLLIN)
    return bool(waiting.poll(0))


def failed(answer: http.client.HTTPResponse, method: str, what: str, key: str) -> ObjectsError | Refused:
    """What the door says is wrong, in its own words. ``key``: what was asked for, if it is not there."""
    status = answer.status
    code, why, fix = BY_STATUS.get(status, ""), f"{method} of {what}: status {status}", "see the server's log"
    later, after_s = status in PASSING, _whole_s(answer.getheader("Retry-After", ""))
    try:
        problem = json.loads(answer.read(MAX_PROBLEM_BYTES))
        code, why, fix = (
            str(problem.get(name) or old) for name, old in (("code", code), ("detail", why), ("fix", fix))
        )
        if (retry := problem.get("retry")) is not None:
            later = retry == Retry.LATER.value
            after_s = float(problem.get("retry_after_s", after_s or 0.0)) or None
    except (ValueError, TypeError, AttributeError, OSError, http.client.HTTPException):
        pass
    if later:
        return ObjectsUnreachable(why, after_s)
    if status == 404:
        return ObjectMissing(key)
    if code == "object_corrupt":
        return ObjectCorrupt(key, why)
    return Refused(Refusal(code if code in CATALOG and retry_of(code) is not Retry.LATER else "config", why, fix))


def _whole_s(text: str) -> float | None:
    return float(text) if text.isdecimal() and len(text) < 9 else None


def _context(ca: str | None) -> ssl.SSLContext:
    from quoracy.trust.tls import client_context

    return client_context(ca)

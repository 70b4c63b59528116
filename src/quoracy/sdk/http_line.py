"""Requests to the coordinator's HTTP door. Blocks. One connection for each, so that nothing is remembered of the last;
or one for all, for those who ask one after the other.

Whatever may be better in a while raises ObjectsUnreachable, and whoever called tries again. After trouble it is looked
up anew where the door is: the coordinator may have been started again, elsewhere.
"""

from __future__ import annotations

import http.client
import json
import select
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from quoracy.core.errors import CATALOG, ConfigError, ObjectMissing, ObjectsError, ObjectsUnreachable, Refusal, Refused

TIMEOUT_S: Final = 60.0
"""Of silence, not of the whole."""
MAX_PROBLEM_BYTES: Final = 64 * 1024
BY_STATUS: Final = {401: "bad_token", 403: "forbidden", 409: "upload_offset", 413: "object_too_large"}
"""Where the answer has no body that says it better."""
PASSING: Final = frozenset({408, 425, 429, 500, 502, 503, 504, 507})
Body = Callable[[http.client.HTTPConnection], bool]
"""Sends the body that the headers announce; False if it did not send all of it."""


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
        keep: bool = False,
    ) -> None:
        """``token``: asked for every time, since that of a session changes with the life of a member. ``who``: the
        same for what a request says of its sender, behind the path. ``find``: where the door is now; raises
        ObjectsUnreachable while nobody knows. ``keep``: the connection for the next request; then only one thread may
        ask."""
        self._run = quote(run, safe="")
        self._ca = ca
        self._token = token
        self._who = who
        self._find = find
        self._lost = False
        self._keep = keep
        self._kept: http.client.HTTPConnection | None = None
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
        host, port, _, base = self._door
        token = self._token()
        authority = {"Authorization": f"Bearer {token}"} if token else {}
        said = urlencode(self._who())
        line, keep = self._connection(), False
        try:
            line.request(method, f"{base}/{path}{said and '?' + said}", headers=authority | (headers or {}))
            whole = body is None or body(line)
            answer = line.getresponse()
            yield answer
            keep = self._keep and whole and answer.isclosed() and not answer.will_close
        except ssl.SSLCertVerificationError as error:
            why = f"the certificate of {host} is not believed: {error.verify_message}"
            raise ConfigError("ca", host, f"{why}; name the authority that signed it") from None
        except (OSError, http.client.HTTPException) as error:
            self._lost = True
            why = f"{method} of {what} at {host}:{port}: {type(error).__name__} {error}"
            raise ObjectsUnreachable(why) from None
        finally:
            if keep:
                self._kept = line
            else:
                line.close()

    def _connection(self) -> http.client.HTTPConnection:
        """The one that was kept, unless the other side has closed it meanwhile."""
        kept, self._kept = self._kept, None
        if kept is not None:
            if not has_answered(kept):
                return kept
            kept.close()
        host, port, tls, _ = self._door
        if tls is None:
            return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
        return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=tls)

    def close(self) -> None:
        """Let go of the connection that was kept. The next request makes a new one."""
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()


def has_answered(line: http.client.HTTPConnection) -> bool:
    """Whether there is something to be read: an answer, or the end."""
    waiting = select.poll()
    waiting.register(line.sock, select.POLLIN)
    return bool(waiting.poll(0))


def failed(answer: http.client.HTTPResponse, method: str, what: str, key: str) -> ObjectsError | Refused:
    """What the door says is wrong, in its own words. ``key``: what was asked for, if it is not there."""
    code, why, fix = (
        BY_STATUS.get(answer.status, "objects_broken"),
        f"{method} of {what}: status {answer.status}",
        "see the server's log",
    )
    try:
        problem = json.loads(answer.read(MAX_PROBLEM_BYTES))
        code, why, fix = (
            str(problem.get(name) or old) for name, old in (("code", code), ("detail", why), ("fix", fix))
        )
    except (ValueError, AttributeError, OSError, http.client.HTTPException):
        pass
    if answer.status in PASSING:
        return ObjectsUnreachable(why)
    if answer.status == 404:
        return ObjectMissing(key)
    return Refused(Refusal(code if code in CATALOG else "objects_broken", why, fix))


def _context(ca: str | None) -> ssl.SSLContext:
    from quoracy.trust.tls import client_context

    return client_context(ca)

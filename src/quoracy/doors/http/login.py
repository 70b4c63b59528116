"""Who asks. Scripts show a token in the header Authorization; browsers get it as a cookie, out of sight.

A token is never part of an address, where it would end up in histories and logs. The cookie is out of reach for scripts
of a page, comes only with requests of pages of this server, and only over TLS where there is TLS. Its name has the port
in it, since cookies do not know ports and two coordinators may share a machine.
"""

from __future__ import annotations

from typing import Final

from quoracy.core.errors import Refusal
from quoracy.doors.auth import NOBODY, Identity
from quoracy.doors.http.gate import Gate
from quoracy.doors.http.problems import Trouble, trouble
from quoracy.doors.http.reading import Asked
from quoracy.doors.service import Service
from quoracy.doors.tokens import is_session_token

COOKIE_S: Final = 12 * 3600
"""A working day. The token itself may end before."""
REALM: Final = (b"www-authenticate", b'Bearer realm="quoracy"')


class Login:
    def __init__(self, service: Service, gate: Gate) -> None:
        self._service = service
        self._gate = gate
        self.port = 0

    @property
    def cookie(self) -> str:
        return f"{'__Host-' if self._gate.tls else ''}quoracy-{self.port}"

    def admit(self, asked: Asked, member: bool) -> None:
        """Find out who asks, and count it. ``member``: a session token is enough. Raises Trouble."""
        asked.token = self._token(asked)
        identity = self._service.identify(asked.token, asked.line.stranger)
        if isinstance(identity, Refusal):
            raise Trouble(identity, headers=(REALM,))
        if identity is NOBODY and not member:
            fix = "show a token that names a role (quoracy token new)"
            raise Trouble(Refusal("bad_token", "a session token speaks for its member alone", fix), headers=(REALM,))
        asked.identity = identity
        asked.line.count_by(identity)

    def _token(self, asked: Asked) -> str:
        given = asked.once(b"authorization")
        if given:
            scheme, _, token = given.partition(" ")
            if scheme.lower() != "bearer" or not token.strip():
                why = f"the header Authorization begins with {scheme[:32]!r}"
                raise trouble("bad_token", why, "send Authorization: Bearer TOKEN", REALM)
            return token.strip()
        token = _cookie(asked.header(b"cookie"), self.cookie)
        if token:
            self._gate.by_browser(asked)
        return token

    def check(self, token: str, stranger: Refusal | None) -> Identity:
        """Of a token that somebody wants to log in with. Raises Trouble."""
        if is_session_token(token):
            raise trouble("bad_token", "this is the session token of a member", "log in with a token that names a role")
        identity = self._service.identify(token, stranger)
        if isinstance(identity, Refusal):
            raise Trouble(identity)
        return identity

    def set_cookie(self, token: str, life_s: int) -> tuple[bytes, bytes]:
        secure = "; Secure" if self._gate.tls else ""
        text = f"{self.cookie}={token}; Path=/; Max-Age={life_s}; HttpOnly; SameSite=Strict{secure}"
        return (b"set-cookie", text.encode("latin-1"))


def _cookie(header: str, name: str) -> str:
    for part in header.split(";"):
        key, _, value = part.strip().partition("=")
        if key == name:
            return value
    return ""

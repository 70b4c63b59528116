"""The server's secret, and the two sorts of tokens that are made from it. Nothing is stored: a token proves itself.

A *role token* is what an administrator hands out. It says who may do what, in which runs, until when:

    qrt1_member_<body>.<seal>        qrt1_viewer_… qrt1_operator_… qrt1_admin_…

It may also say how many ids of members it brings into a run: keys are free, tokens are not.

The body is msgpack in base64url; the seal is over the whole text before the dot, so the role cannot be exchanged.

A *session token* is what a member gets when its join is accepted, and shows when it connects again:

    qrt1_session_<expires>.<seal>

The seal is over run, member, incarnation and the end, as a msgpack array, so that no two sets of fields give the same
bytes. Another member, another incarnation, another run: another seal. It is good in every later term, ends after
``access.session_s`` or with its incarnation, and is renewed while the member beats.

Seals are HMAC-SHA256. Each sort has its own key, derived from the secret. Seals are compared as text and in constant
time, so there is one way to write a token, and guessing one learns nothing from how long the answer takes.

Taking a token back before it expires means a new secret (move the file away and restart): all tokens end then. So give
tokens that leave the house an end.
"""

from __future__ import annotations

import hmac
import math
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from quoracy.core.codec import Reader, encode
from quoracy.core.errors import ConfigError, Refusal
from quoracy.doors.roles import Action, Role
from quoracy.trust.files import create_file, read_secret

SECRET_FILE: Final = "server.secret"  # noqa: S105
SECRET_BYTES: Final = 32
MAX_TOKEN: Final = 1024
"""Characters; what a Greet or a Hello carries at most."""
ANY: Final = "*"
MAX_IDS: Final = 100_000
CHALLENGE_S: Final = 60
"""From being given a challenge to joining with it."""

_MARK: Final = "qrt1_"
_SESSION: Final = _MARK + "session_"
_PREFIXES: Final = {f"{_MARK}{role.value}_": role for role in Role}
_HEAD: Final = b"quoracy secret 1 "
_ASK: Final = "ask an administrator for one (quoracy token new)"


class Identity(msgspec.Struct, frozen=True):
    """Who speaks through a connection, as its token says."""

    role: Role
    run: str = ANY
    """Which runs: a name, or a beginning with a star, as in ``bert-*``; the star alone for all."""
    name: str = ""
    """For people and logs; two tokens may have the same."""
    id: str = ""
    """Of the token: what limits are counted by. Empty where no token was asked."""
    ids: int = 0
    """So many ids it may bring into each run. 0: it does not say."""

    def covers(self, run: str) -> bool:
        """Whether the token is for this run; what it allows there is up to the role."""
        if self.run.endswith(ANY):
            return run.startswith(self.run[:-1])
        return run == self.run

    def check(self, action: Action, run: str = "") -> Refusal | None:
        """None: go ahead. Without a run only the role counts; an answer about many runs must leave out the others."""
        if not self.role.allows(action):
            why = f"the role {self.role.value} does not allow to {action.value}"
            return Refusal("forbidden", why, "use a token of another role")
        if run and not self.covers(run):
            why = f"the token is for the run {self.run}, not for {run}"
            return Refusal("forbidden", why, "use a token for this run")
        return None


ANYONE: Final = Identity(Role.ADMIN, name="anyone")
"""Who speaks where no tokens are asked: the server's own user on loopback, or whoever comes with --insecure."""
NOBODY: Final = Identity(Role.VIEWER, "", "nobody")
"""Who has not said yet who it is: may look at no run."""


class _Body(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    id: Annotated[bytes, Meta(min_length=8, max_length=8)]
    run: Annotated[str, Meta(min_length=1, max_length=128)]
    name: Annotated[str, Meta(max_length=64)]
    expires_s: Annotated[int, Meta(ge=0, le=2**53)]
    """Wall time; 0: never."""
    ids: Annotated[int, Meta(ge=0, le=MAX_IDS)] = 0


_body: Reader[_Body] = Reader(_Body, "token")


class Authority:
    """Makes tokens and checks them. Two authorities with the same secret are the same."""

    __slots__ = ("_challenge_key", "_role_key", "_session_key")

    def __init__(self, secret: bytes) -> None:
        if len(secret) != SECRET_BYTES:
            raise ConfigError("server secret", f"{len(secret)} bytes", f"exactly {SECRET_BYTES} random bytes")
        self._role_key = _derive(secret, b"quoracy 1 role tokens")
        self._session_key = _derive(secret, b"quoracy 1 session tokens")
        self._challenge_key = _derive(secret, b"quoracy 1 challenges")

    @classmethod
    def open(cls, folder: Path) -> Authority:
        """With the secret in that folder, which is made if there is none. Raises ConfigError."""
        path = folder / SECRET_FILE
        if not path.exists():
            create_file(path, _HEAD + secrets.token_hex(SECRET_BYTES).encode() + b"\n", "server secret")
        content = read_secret(path, "server secret")
        try:
            if not content.startswith(_HEAD):
                raise ValueError
            return cls(bytes.fromhex(content[len(_HEAD) :].decode("ascii").strip()))
        except (ValueError, ConfigError):
            fix = "this file is no secret of a Quoracy server; move it away and a new one is made (all tokens end then)"
            raise ConfigError("server secret", str(path), fix) from None

    # -- role tokens ------------------------------------------------------------------------------------------------

    def new_token(
        self, role: Role, run: str = ANY, expires_s: float | None = None, name: str = "", now_s: float | None = None,
        ids: int = 0,
    ) -> str:  # fmt: skip
        """``expires_s`` from now. ``ids``: so many it may bring into each run; 0: as the kind of the run says. Raises
        ConfigError for what a token cannot say."""
        end_s = 0
        if expires_s is not None:
            if not (math.isfinite(expires_s) and 0 < expires_s <= 1e10):
                raise ConfigError("expires", expires_s, "more than 0 seconds from now, or leave it out")
            end_s = math.ceil((time.time() if now_s is None else now_s) + expires_s)
        if not 1 <= len(run) <= 128 or ANY in run[:-1]:
            raise ConfigError("run", run, "a run's name, a beginning and a star as in bert-*, or the star alone")
        if len(name) > 64 or not (name.isprintable() or not name):
            raise ConfigError("name", name, "at most 64 printable characters")
        if not 0 <= ids <= MAX_IDS:
            raise ConfigError("ids", ids, f"a whole number from 1 to {MAX_IDS}, or leave it out")
        try:
            body = encode(_Body(secrets.token_bytes(8), run, name, end_s, ids))
        except UnicodeEncodeError:
            raise ConfigError("run, name", (run, name), "text that can be written as UTF-8") from None
        text = f"{_MARK}{role.value}_{_text(body)}"
        token = f"{text}.{_seal(self._role_key, text.encode())}"
        if len(token) > MAX_TOKEN:
            raise ConfigError("run, name", (run, name), "shorter: the token would be too long")
        return token

    def check_token(self, token: str, now_s: float) -> Identity | Refusal:
        """Never raises. ``now_s`` is wall time."""
        text, seal = _cut(token)
        role = _PREFIXES.get(text[: text.find("_", len(_MARK)) + 1])
        if role is None:
            return _misplaced(token, "a token that names a role")
        if not _same(seal, _seal(self._role_key, text.encode())):
            return Refusal("bad_token", "this server did not make the token, or somebody changed it", _ASK)
        body = _body.read(_bytes(text.split("_", 2)[2]))
        if isinstance(body, Refusal):
            return Refusal("bad_token", f"the token cannot be read: {body.why}", _ASK)
        if body.expires_s and now_s >= body.expires_s:
            return Refusal("bad_token", f"the token expired {now_s - body.expires_s:.0f} s ago", _ASK)
        return Identity(role, body.run, body.name, body.id.hex(), body.ids)

    # -- challenges ------------------------------------------------------------------------------------------------

    def challenge(self, now_s: float) -> bytes:
        """What a joiner signs who has no connection of its own. Nothing is stored: it proves itself, for a minute."""
        head = math.ceil(now_s + CHALLENGE_S).to_bytes(8, "big") + secrets.token_bytes(8)
        return head + hmac.digest(self._challenge_key, head, "sha256")[:16]

    def check_challenge(self, challenge: bytes, now_s: float) -> bool:
        head, seal = challenge[:16], challenge[16:]
        right = hmac.digest(self._challenge_key, head, "sha256")[:16]
        return hmac.compare_digest(seal, right) and now_s < int.from_bytes(head[:8], "big")

    # -- session tokens ---------------------------------------------------------------------------------------------

    def session_token(self, run: str, member: str, incarnation: int, expires_s: int) -> str:
        """``expires_s`` is wall time."""
        return f"{_SESSION}{expires_s}.{self._session_seal(run, member, incarnation, expires_s)}"

    def check_session(self, token: str, run: str, member: str, incarnation: int, now_s: float) -> int | Refusal:
        """When the token ends. Never raises. Whether a newer incarnation has taken the place of this one, the fold
        knows: hosts take nothing from an older one."""
        text, seal = _cut(token)
        if not text.startswith(_SESSION):
            return _misplaced(token, "the session token of this member")
        expires_s = _second(text[len(_SESSION) :])
        if expires_s is None or not _same(seal, self._session_seal(run, member, incarnation, expires_s)):
            why = f"the token is not that of incarnation {incarnation} of {member} in this run"
            return Refusal("bad_token", why, "join again")
        if now_s >= expires_s:
            why = f"the session token of {member} expired {now_s - expires_s:.0f} s ago"
            return Refusal("bad_token", why, "join again; heartbeats are answered with a newer token in time")
        return expires_s

    def _session_seal(self, run: str, member: str, incarnation: int, expires_s: int) -> str:
        return _seal(self._session_key, encode((run, member, incarnation, expires_s)))


def is_session_token(token: str) -> bool:
    """Whether it claims to be one."""
    return token.startswith(_SESSION)


def _derive(secret: bytes, purpose: bytes) -> bytes:
    return hmac.digest(secret, purpose, "sha256")


def _seal(key: bytes, message: bytes) -> str:
    return _text(hmac.digest(key, message, "sha256"))


def _same(seal: str, right: str) -> bool:
    """In a time that does not depend on where they differ."""
    return hmac.compare_digest(seal.encode(), right.encode())


def _cut(token: str) -> tuple[str, str]:
    """Text and seal; both empty if it is no token at all."""
    if len(token) > MAX_TOKEN or not token.isascii():
        return "", ""
    text, _, seal = token.rpartition(".")
    return text, seal


def _misplaced(token: str, wanted: str) -> Refusal:
    if not token:
        return Refusal("bad_token", f"no token came; wanted is {wanted}", _ASK)
    if token.startswith(_SESSION):
        return Refusal("bad_token", f"this is a session token; wanted is {wanted}", _ASK)
    if token.startswith(tuple(_PREFIXES)):
        return Refusal("bad_token", f"this is a token that names a role; wanted is {wanted}", "join again")
    return Refusal("bad_token", f"this is no token of this version of Quoracy; wanted is {wanted}", _ASK)


def _second(text: str) -> int | None:
    """A number as we write it: no sign, no spaces, no leading zeros."""
    if not (text.isdecimal() and len(text) <= 16) or (len(text) > 1 and text.startswith("0")):
        return None
    return int(text)


def _text(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode("ascii")


def _bytes(text: str) -> bytes:
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return b""

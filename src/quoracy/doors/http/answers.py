"""What a handler gives back, and what decides how it is sent: tags, and what the asker accepts."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final

from quoracy.doors.http.problems import encode

JSON: Final = b"application/json"


class Answer:
    """``private`` ones are kept by nobody on the way. An empty ``media``: there is no body."""

    __slots__ = ("body", "headers", "media", "private", "status", "tagged")

    def __init__(
        self,
        body: bytes,
        status: int = 200,
        media: bytes = JSON,
        headers: tuple[tuple[bytes, bytes], ...] = (),
        private: bool = True,
        tagged: bool = True,
    ) -> None:
        self.body = body
        self.status = status
        self.media = media
        self.headers = headers
        self.private = private
        self.tagged = tagged


def say(value: Any, status: int = 200, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Answer:
    return Answer(encode(value), status, headers=headers)


def tag_of(body: bytes) -> bytes:
    """A strong ETag: other bytes, another tag."""
    return b'"%b"' % blake2b(body, digest_size=16).hexdigest().encode()


def matches(wanted: bytes, tag: bytes) -> bool:
    """Whether If-None-Match names the tag. Weak ones count, as RFC 9110 has it for this header."""
    if wanted.strip() == b"*":
        return True
    return any(part.strip().removeprefix(b"W/") == tag for part in wanted.split(b","))


def accepts(accept: str, media: str) -> bool:
    """Whether an Accept header allows the media type. What cannot be read allows everything."""
    if accept in ("", "*/*"):
        return True
    best = {}
    for part in accept.split(","):
        kind, _, rest = part.strip().lower().partition(";")
        best[kind.strip()] = _weight(rest)
    family = f"{media.partition('/')[0]}/*"
    return next((best[kind] for kind in (media, family, "*/*") if kind in best), 0.0) > 0


def _weight(parameters: str) -> float:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 1.0
    return 1.0

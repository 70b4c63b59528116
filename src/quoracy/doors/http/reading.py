"""A request, read as far as somebody needs it: never more bytes than allowed, never a field that nobody knows.

What is wrong is told with every field that is wrong, so that nobody has to mend one to learn of the next.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec
from starlette.types import Receive, Scope

from quoracy.core.bounds import exact, unbounded, whole
from quoracy.core.errors import Refusal, shown
from quoracy.core.wanted import wanted
from quoracy.doors.auth import NOBODY, Identity
from quoracy.doors.http import cursors
from quoracy.doors.http.line import Line
from quoracy.doors.http.problems import Fault, Trouble, trouble
from quoracy.doors.http.shapes import VARIANTS

T = TypeVar("T")
MAX_SHOWN: Final = 120
"""Characters of a wrong value that are repeated."""
KEY: Final = re.compile("[!-~]{1,128}")
"""An Idempotency-Key."""
_AS_DESCRIBED: Final = "see /api/docs for what it takes"
_IN_OTHER_WORDS: Final = {"cursor": cursors.FIX}
"""Where the form of a field tells nobody what to send."""


class Asked:
    """One request."""

    __slots__ = ("body", "headers", "identity", "line", "params", "query", "receive", "scope", "token")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self.receive = receive
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.line: Line = scope["quoracy.line"]
        self.identity: Identity = NOBODY
        self.token = ""
        self.params: dict[str, str] = {}
        self.query: Any = None
        self.body: Any = None

    def header(self, name: bytes) -> str:
        return self.headers.get(name, b"").decode("latin-1").strip(" \t")

    def once(self, name: bytes) -> str:
        """The header, which must not come twice: two readers could take different ones for true."""
        if self.repeats() and sum(1 for known, _ in self.scope["headers"] if known == name) > 1:
            raise trouble("malformed", f"the header {name.decode()} came more than once", "send it once")
        return self.header(name)

    def repeats(self) -> bool:
        """Whether any header came twice."""
        return len(self.headers) != len(self.scope["headers"])

    @property
    def method(self) -> str:
        return str(self.scope["method"])

    def read_params(self) -> None:
        """Parts of the path, each decoded by itself: a run's name may have any character, a slash too."""
        for name, part in self.scope["path_params"].items():
            try:
                self.params[name] = unquote(part, errors="strict")
            except UnicodeDecodeError:
                raise trouble("malformed", f"{name} = {part[:MAX_SHOWN]} is no UTF-8", "encode it as UTF-8") from None

    def request_key(self) -> str:
        """The Idempotency-Key: the same wish again gets the answer that was given."""
        key = self.once(b"idempotency-key")
        if b"idempotency-key" in self.headers and not KEY.fullmatch(key):
            why = f"Idempotency-Key = {key[:MAX_SHOWN]!r}"
            raise trouble("malformed", why, "1 to 128 printable ASCII characters and no spaces, or leave it out")
        return key


def read_query(text: bytes, shape: type[T]) -> T:
    """The parameters of an address. Each at most once, and none that nobody knows."""
    if not text:
        return convert({}, shape, "parameter", strict=False)
    try:
        pairs = parse_qsl(text.decode("ascii"), keep_blank_values=True, strict_parsing=True, errors="strict")
    except (ValueError, UnicodeDecodeError):
        raise trouble("malformed", "the part after the question mark cannot be read", "name=value&name=value") from None
    given = dict(pairs)
    if len(given) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise trouble("malformed", f"the parameter {twice[:MAX_SHOWN]} came more than once", "send it once")
    return convert(given, shape, "parameter", strict=False)


async def read_body(asked: Asked, max_bytes: int) -> bytes:
    """All of it, or a problem if it is too large. Nothing is kept beyond the limit."""
    length = asked.once(b"content-length")
    if length.isdecimal() and whole(length, max_bytes) is None:
        raise _too_large(f"a body of {length[:MAX_SHOWN]} bytes", max_bytes)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await asked.receive()
        if message["type"] == "http.disconnect":
            raise trouble("too_slow", "the connection ended before the request did", "send all of it")
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > max_bytes:
            raise _too_large("the body", max_bytes)
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def _too_large(what: str, max_bytes: int) -> Trouble:
    fix = "send less (limits.max_frame_bytes)"
    return trouble("too_large", f"{what}; at most {max_bytes} bytes are taken", fix, (b"connection", b"close"))


def decode_body(content: bytes, media: str, shape: type[T]) -> T:
    sent = media.partition(";")[0].strip().lower()
    if content and sent != "application/json":
        why = f"Content-Type = {media[:MAX_SHOWN] or 'none'}"
        raise trouble("wrong_media_type", why, "send JSON with Content-Type: application/json")
    try:
        plain = _plain.decode(content or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise trouble("malformed", f"the body is not JSON: {str(error)[:MAX_SHOWN]}", "send one JSON object") from None
    _check_numbers(content, plain)
    kind = plain.get("kind") if isinstance(plain, dict) else None
    variant: Any = VARIANTS.get(shape, {}).get(kind) if isinstance(kind, str) else None
    chosen: type[T] = variant or shape
    return convert(plain, chosen, "field")


_plain: Final = msgspec.json.Decoder(float_hook=lambda text: exact(float(text)))
_LONG: Final = re.compile(rb"[0-9]{19}|[0-9][eE]\+?[0-9]{3}")
"""Only where this is found can a number be too large to be written down."""


def _check_numbers(content: bytes, plain: Any) -> None:
    """What a field of any type takes still goes into journals and onto the wire."""
    found = unbounded(plain) if _LONG.search(content) else ()
    faults = [Fault(wrong.field, shown(wrong.value), wrong.fix) for wrong in found]
    if faults:
        named = ", ".join(f"{fault.field} = {fault.value}" for fault in faults[:5])
        raise Trouble(Refusal("malformed", f"numbers are out of range: {named}", faults[0].fix), faults)


def convert(plain: Any, shape: type[T], what: str, strict: bool = True) -> T:
    """Raises Trouble with every field that is wrong."""
    try:
        return msgspec.convert(plain, shape, strict=strict)
    except msgspec.ValidationError as error:
        faults = list(_faults(plain, shape, strict)) or [Fault("", _shown(plain), str(error)[:MAX_SHOWN])]
        named = ", ".join(f"{fault.field} = {fault.value}" for fault in faults[:5])
        many = f"{len(faults)} {what}s are" if len(faults) > 1 else f"a {what} is"
        raise Trouble(
            Refusal("malformed", f"{many} wrong: {named}", f"{faults[0].fix}; {_AS_DESCRIBED}"), faults
        ) from None


def _faults(plain: Any, shape: Any, strict: bool, within: str = "") -> Iterator[Fault]:
    """``within``: the field whose value is looked at, with a dot."""
    if not isinstance(plain, dict):
        return
    fields = {field.name: field for field in msgspec.structs.fields(shape)}
    for name, value in plain.items():
        if name not in fields:
            fix = f"leave it out; there are: {', '.join(fields) or 'none'}"
            yield Fault(f"{within}{str(name)[:MAX_SHOWN]}", _shown(value), fix)
    for name, field in fields.items():
        if name not in plain:
            if field.required:
                yield Fault(within + name, "missing", f"send {wanted(field.type)}")
            continue
        try:
            msgspec.convert(plain[name], field.type, strict=strict)
        except msgspec.ValidationError as error:
            deeper = (
                isinstance(plain[name], dict)
                and isinstance(field.type, type)
                and hasattr(field.type, "__struct_fields__")
            )
            if deeper:
                yield from _faults(plain[name], field.type, strict, f"{within}{name}.")
            else:
                fix = _IN_OTHER_WORDS.get(name) or _in_words(field.type, error)
                yield Fault(within + name, _shown(plain[name]), fix)


def _in_words(kind: Any, error: msgspec.ValidationError) -> str:
    """What the field takes. Inside of a value that has parts, the place of the wrong one as well."""
    _, inside, place = str(error).rpartition(" - at `$")
    return wanted(kind) + (f"; look at {place.rstrip('`')[:MAX_SHOWN]}" if inside else "")


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"

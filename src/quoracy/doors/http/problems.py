"""Every no of this door, as problem details (RFC 9457): ``type`` and ``code`` for programs, ``detail`` for people,
``fix`` for whoever wants to go on.

Refusals come from the catalog with the status that is written there. What only HTTP knows, such as a wrong method, is
named here. A code is never renamed.
"""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec

from quoracy.core.errors import AWHILE_S, CATALOG, Refusal, Retry

MEDIA: Final = "application/problem+json"
RETRY_S: Final = math.ceil(AWHILE_S)
"""What somebody who may come again is asked to wait where nobody knows better."""


class Own(msgspec.Struct, frozen=True):
    """A no that only this door has."""

    status: int
    meaning: str
    retry: Retry = Retry.CHANGED


OWN: Final[dict[str, Own]] = {
    "no_such_page": Own(404, "there is nothing under this address"),
    "wrong_method": Own(405, "this address does not take that method"),
    "not_acceptable": Own(406, "the answer has none of the media types that were asked for"),
    "wrong_media_type": Own(415, "the body is not JSON"),
    "wrong_host": Own(421, "the request names a host that this server does not go by"),
    "foreign_origin": Own(403, "a page of another server must not change anything here"),
    "no_such_range": Own(416, "the object ends before this range"),
    "nonce_missing": Own(422, "a registration has neither a nonce nor an Idempotency-Key that stands for one"),
    "too_many_runs": Own(409, "one stream cannot tell of so many runs"),
    "too_slow": Own(408, "the request did not come in time", Retry.LATER),
    "url_too_long": Own(414, "the address is too long"),
    "headers_too_large": Own(431, "the headers are too large"),
    "internal": Own(500, "something went wrong inside", Retry.LATER),
}


class Fault(msgspec.Struct, frozen=True):
    """One field that is wrong."""

    field: str
    value: str
    fix: str


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why not."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    fix: str
    retry: Retry
    """Whether sending the same again helps."""
    errors: list[Fault] = []
    """Each field that is wrong, where there are such."""
    id: str = ""
    """Of a fault inside: the server's log has more under it."""
    retry_after_s: float | None = None
    """When to send it again, where somebody knows."""


class Trouble(Exception):
    """Raised to end a request with a problem."""

    def __init__(
        self,
        refusal: Refusal,
        errors: list[Fault] | None = None,
        headers: tuple[tuple[bytes, bytes], ...] = (),
        status: int = 0,
        fault_id: str = "",
    ) -> None:
        super().__init__(str(refusal))
        own = OWN.get(refusal.code)
        known = CATALOG.get(refusal.code, CATALOG["bug"])
        self.status = status or (own.status if own is not None else known.http)
        title = own.meaning if own is not None else known.meaning
        retry, after_s = own.retry if own is not None else known.retry, refusal.retry_after_s
        self.problem = Problem(
            f"/problems/{refusal.code}", title, self.status, refusal.why, refusal.code, refusal.fix, retry,
            errors or [], fault_id, after_s,
        )  # fmt: skip
        self.headers = headers
        if retry is Retry.LATER:
            wait_s = RETRY_S if after_s is None else max(1, math.ceil(after_s))
            self.headers = (*headers, (b"retry-after", b"%d" % wait_s))

    def body(self) -> bytes:
        return encode(self.problem)


def encode(value: Any) -> bytes:
    return _encoder.encode(value)


def trouble(code: str, why: str, fix: str, *headers: tuple[bytes, bytes]) -> Trouble:
    return Trouble(Refusal(code, why, fix), headers=headers)


_encoder: Final = msgspec.json.Encoder()

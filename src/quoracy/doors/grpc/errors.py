"""Refusals as gRPC tells them: a status from the catalog, a sentence, and the exact code in trailing metadata."""

from __future__ import annotations

import asyncio
from typing import Any, Final, NoReturn

import grpc

from quoracy.core.errors import CATALOG, Refusal, Retry
from quoracy.wire.pb import coordinator_pb2 as pb

ERROR_KEY: Final = "quoracy-error-bin"
MAX_WHY_BYTES: Final = 2048
MAX_FIX_BYTES: Final = 512
MAX_TEXT_BYTES: Final = 1024
"""Metadata beyond 8 KiB may be refused on its way, and then nobody learns why. Text grows threefold there, bytes by a
third."""

RETRY: Final = {
    Retry.LATER: pb.RETRY_LATER,
    Retry.CHANGED: pb.RETRY_CHANGED,
    Retry.OVER: pb.RETRY_OVER,
}


def status_of(refusal: Refusal) -> grpc.StatusCode:
    known = CATALOG.get(refusal.code)
    return grpc.StatusCode[known.grpc] if known is not None else grpc.StatusCode.INTERNAL


def detail(refusal: Refusal, address: str = "") -> pb.ErrorDetail:
    why, fix = _cut(refusal.why, MAX_WHY_BYTES), _cut(refusal.fix, MAX_FIX_BYTES)
    return pb.ErrorDetail(
        code=refusal.code, why=why, fix=fix, address=address, retry=RETRY[refusal.retry],
        retry_after_s=refusal.retry_after_s or 0.0,
    )  # fmt: skip


async def refuse(context: grpc.aio.ServicerContext[Any, Any], refusal: Refusal, address: str = "") -> NoReturn:
    """Ends the call. Raises CancelledError if the client is gone and cannot be told."""
    text = _cut(f"{refusal.why}; {refusal.fix}", MAX_TEXT_BYTES)
    metadata = ((ERROR_KEY, detail(refusal, address).SerializeToString()),)
    try:
        await context.abort(status_of(refusal), text, metadata)
    except grpc.aio.InternalError:
        raise asyncio.CancelledError from None


def _cut(text: str, most_bytes: int) -> str:
    encoded = text.encode(errors="replace")
    return text if len(encoded) <= most_bytes else encoded[:most_bytes].decode(errors="ignore")

"""What every call of a member is held against: the ranges of its fields, and the caller's own patience."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from quoracy.core.codec import encode, malformed
from quoracy.core.errors import Refused
from quoracy.doors.grpc.members import LEFT_S, Caller

T = TypeVar("T")


def within(caller: Caller, wait_s: float) -> float:
    """Not longer than the caller waits."""
    left_s = caller.left_s()
    return wait_s if left_s is None else min(wait_s, max(left_s - LEFT_S, LEFT_S))


def checked(message: T) -> T:
    """As it would have come through the TCP door: within its ranges. Raises Refused naming the field."""
    payload = encode(message)
    try:
        return msgspec.msgpack.decode(payload, type=type(message))
    except msgspec.ValidationError as error:
        raise Refused(malformed(error, "request", type(message), payload)) from None

"""Whether a checkpoint that a member says it has stored is there: looked at before the run hears of it.

The coordinator can look only where it keeps objects itself, and says with the event what it saw. What it cannot look at
it hands on as it came: then the word of the member who was drawn is all there is, and the checkpoint before is kept.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from quoracy.core.codec import encode
from quoracy.core.errors import QuoracyError
from quoracy.core.messages import Call
from quoracy.core.witnessed.events import CheckpointStored
from quoracy.hosts.keys import Keys, prefix_of
from quoracy.hosts.shelf import Shelf


def stored_of(call: Call, kind: str) -> CheckpointStored | None:
    """What is said to be stored; None if this call is about something else, or cannot be read."""
    if kind != "witnessed" or not call.cause.seq:
        return None
    try:
        return msgspec.msgpack.decode(call.event, type=CheckpointStored)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


async def looked(call: Call, stored: CheckpointStored, shelf: Shelf | None) -> Call:
    """The same call, with what was seen. Whatever the member said of that itself counts for nothing."""
    seen = "" if shelf is None else await _seen(call.run, stored, shelf)
    return Call(call.run, call.cause, Raw(encode(msgspec.structs.replace(stored, seen=seen))))


async def _seen(run: str, stored: CheckpointStored, shelf: Shelf) -> str:
    key = Keys(prefix_of(run)).blob(stored.digest.hex())
    try:
        size_bytes = await shelf.do(lambda objects: objects.head(key))
    except (QuoracyError, OSError):
        return ""
    return "there" if size_bytes is not None and size_bytes == stored.size_bytes else "missing"

"""What members and hosts say to each other, on every door and in the simulator.

A member says ``Hello`` when it connects, ``Call`` to propose an event (numbered, answered exactly once by
``Answered``), and ``Sign`` to give a volatile signal. A host answers, and tells members what changed for them
(``Told``), without being asked. A host that does not serve the run says ``Moved``.

Bodies travel as raw bytes inside and are decoded with the run's kind, so this file knows no kind.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Raw

from quoracy.core.codec import Reader, encode
from quoracy.core.errors import Refusal
from quoracy.core.journal import RunName
from quoracy.core.machine import Signal
from quoracy.core.members import Answer, Cause, Counter, MemberId

MAX_MESSAGE_BYTES: Final = 1024 * 1024


Token = Annotated[str, Meta(max_length=1024)]


_HEARTBEAT: Final = b"\xa9heartbeat"
"""As the first field of an array with few fields, which is how it is written by all who know msgpack."""
_fields: Final = msgspec.msgpack.Decoder(list[Raw])
_text: Final = msgspec.msgpack.Decoder(str)


class Hello(msgspec.Struct, frozen=True, array_like=True, tag="hello"):
    """The first message of a connection, for each member that speaks through it. ``incarnation`` 0: not joined yet."""

    run: RunName
    member: MemberId
    incarnation: Counter = 0
    token: Token = ""
    """Proves to the door that the sender is this life of the member. A host never looks at it."""
    views: bool = True
    """Whether the member listens here: then all its views follow, and from now on whatever changes of them."""


class Call(msgspec.Struct, frozen=True, array_like=True, tag="call"):
    run: RunName
    cause: Cause
    event: Raw


class Sign(msgspec.Struct, frozen=True, array_like=True, tag="sign"):
    """A volatile signal, and who gives it. Doors make sure that the sender is this incarnation of the member, without
    looking inside; hosts make sure that the signal speaks for no other."""

    run: RunName
    signal: Raw
    member: MemberId
    incarnation: Counter

    @classmethod
    def of(cls, run: str, signal: Signal) -> Sign:
        return cls(run, Raw(encode(signal)), signal.member, signal.incarnation)

    def is_heartbeat(self) -> bool:
        """By the name that the signal begins with. Whether it is a whole one is seen when it is decoded."""
        view = memoryview(self.signal)
        if bytes(view[1:11]) == _HEARTBEAT and view[0] & 0xF0 == 0x90:
            return True
        try:
            fields = _fields.decode(self.signal)
            return bool(fields) and _text.decode(fields[0]) == "heartbeat"
        except (msgspec.DecodeError, UnicodeDecodeError):
            return False


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag="welcome"):
    """Where the run stands, and which life of the member the host knows: what a join must supersede."""

    member: str
    incarnation: int
    term: int
    entry: int


class Answered(msgspec.Struct, frozen=True, array_like=True, tag="answered"):
    cause: Cause
    answer: Answer


class Declined(msgspec.Struct, frozen=True, array_like=True, tag="declined"):
    """A signal was not taken in."""

    member: str
    incarnation: int
    topic: str
    refusal: Refusal


class Told(msgspec.Struct, frozen=True, array_like=True, tag="told"):
    """``topic`` looks like this to the member now. Meant for one life of it: a message that was long under way must
    not be taken for news by the next."""

    member: str
    incarnation: int
    topic: str
    value: Any


class Moved(msgspec.Struct, frozen=True, array_like=True, tag="moved"):
    """This host does not serve the run. ``address`` is that of the host that does, as far as is known."""

    run: str
    term: int
    address: str


ToHost = Hello | Call | Sign
ToMember = Welcome | Answered | Declined | Told | Moved

_to_host: Reader[ToHost] = Reader(ToHost, "message")
_to_member: Reader[ToMember] = Reader(ToMember, "message")


def decode_to_host(payload: bytes) -> ToHost | Refusal:
    """Never raises: whatever came in is a message or a refusal that names the field."""
    if len(payload) > MAX_MESSAGE_BYTES:
        why = f"message of {len(payload)} bytes; at most {MAX_MESSAGE_BYTES} are taken"
        return Refusal("too_large", why, "split it")
    return _to_host.read(payload)


def decode_to_member(payload: bytes) -> ToMember | Refusal:
    return _to_member.read(payload)

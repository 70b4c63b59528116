"""One Session stream: a guest of the service, as a TCP connection is.

What the service says within one turn of the loop is kept and written at once, because a write costs far more than what
is in it. While a write is under way the next ones gather behind it, so a client that reads slowly gets fewer and larger
ones. Beyond ``HIGH_WATER_BYTES`` what is said waits in the outbox, where a newer view takes the place of an older one;
a client that lets too many answers pile up is cut off.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterable
from typing import TYPE_CHECKING, Any, Final

import grpc
from google.protobuf.message import DecodeError

from quoracy.core.errors import Refusal
from quoracy.core.machine import Event, Signal
from quoracy.core.members import CHALLENGE_BYTES, Cause
from quoracy.core.messages import Answered, Call, Declined, Hello, Sign
from quoracy.doors.auth import NOBODY, Identity, Role
from quoracy.doors.grpc import translate
from quoracy.doors.grpc.errors import refuse
from quoracy.doors.outbox import HIGH_WATER_BYTES, Outbox, view_of
from quoracy.hosts.server import now_us
from quoracy.wire.messages import Goodbye
from quoracy.wire.pb import coordinator_pb2 as pb

if TYPE_CHECKING:
    from quoracy.doors.grpc.door import GrpcDoor

LAST_WORDS_S: Final = 1.0
"""For what was said before the end to reach a client that reads."""
MAX_WRITE_BYTES: Final = 512 * 1024
"""Clients refuse messages above 4 MiB unless they are told otherwise; one item may still be longer than this."""

Context = grpc.aio.ServicerContext[Any, Any]


class Stream:
    def __init__(
        self, door: GrpcDoor, requests: AsyncIterable[bytes], context: Context, identity: Identity, counted_as: str
    ) -> None:
        self._door = door
        self._service = door.service
        self._requests = requests
        self._context = context
        self._counted_as = counted_as
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[Refusal | None] = self._loop.create_future()
        self._out: list[bytes] = []
        self._unsent_bytes = 0
        """Of ``_out``, and of the write that is under way."""
        self._outbox = Outbox()
        self._writer: asyncio.Task[None] | None = None
        self._cut_off = False
        self._by_session = False
        self._joins: dict[Cause, str] = {}
        self.heard_us = now_us()
        self.identity = identity
        self.challenge = secrets.token_bytes(CHALLENGE_BYTES)
        self.entered: dict[tuple[str, str], int] = {}
        self.renew_s: dict[tuple[str, str], float] = {}

    # -- life -------------------------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Until the client closes its side or goes, or ``end`` is called."""
        reader = self._loop.create_task(self._read())
        try:
            await asyncio.wait((reader, self._over), return_when=asyncio.FIRST_COMPLETED)
        finally:
            reader.cancel()
            self._service.server.gone(self)
        if reader.done() and (error := reader.exception()) is not None:
            self._service.server.log.error("a stream broke the door", address=self._counted_as, why=repr(error))
            self.end(
                Refusal("bug", f"{type(error).__name__} while reading a batch", "report it, with the server's log")
            )
        self.end(None)
        refusal = self._over.result()
        await self._last_words(refusal)
        if refusal is not None:
            log = self._service.server.log
            log.info("stream closed", address=self._counted_as, code=refusal.code, why=refusal.why)
            # A client that does not read holds this up until it does, or goes; its place stays taken meanwhile.
            await refuse(self._context, refusal)

    def end(self, refusal: Refusal | None) -> None:
        """The first reason counts; none: the client is done."""
        if not self._over.done():
            self._over.set_result(refusal)

    async def _last_words(self, refusal: Refusal | None) -> None:
        if self._cut_off:
            self._out.clear()
            self._outbox.take()
        elif refusal is not None:
            self.send(Goodbye(refusal))
        self.flush()
        if (writer := self._writer) is not None:
            await asyncio.wait((writer,), timeout=0.0 if self._cut_off else LAST_WORDS_S)
            writer.cancel()

    def overdue(self, at_us: int) -> None:
        idle_s = self._door.limits.idle_timeout_s
        if (at_us - self.heard_us) / 1e6 > idle_s:
            why = f"nothing was said for {idle_s:g} s (limits.idle_timeout_s)"
            self.end(Refusal("malformed", why, "beat, or connect again when needed"))

    # -- messages in ------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        """Whatever ends it, the client is done: it said so, or it is gone."""
        with contextlib.suppress(grpc.aio.BaseError):
            async for raw in self._requests:
                if not self._door.hushed:
                    self._batch(raw)
                if self._over.done():
                    return
        self.end(None)

    def _batch(self, raw: bytes) -> None:
        self.heard_us = now_us()
        try:
            messages = pb.ClientMessages.FromString(raw).messages
        except DecodeError:
            why = f"ClientMessages: these {len(raw)} bytes are not that"
            self.end(Refusal("malformed", why, "use code generated from coordinator.proto"))
            return
        refusal = self._door.meter.spend(self._counted_as, len(messages) or 1, len(raw), self.heard_us)
        if refusal is not None:
            self.end(refusal)
            return
        for message in messages:
            self._take(message)

    def _take(self, message: pb.ClientMessage) -> None:
        match message.WhichOneof("message"):
            case "heartbeat":
                self._sign(message.heartbeat.run, translate.heartbeat_of(message.heartbeat))
            case "arrive":
                self._arrive(message.arrive)
            case "report":
                said = message.report
                event = translate.report_of(said)
                self._call(said.run, Cause(said.worker, said.incarnation, said.seq), event)
            case "leave":
                left = message.leave
                self._call(left.run, Cause(left.worker, left.incarnation, left.seq), translate.left_of(left))
            case "hello":
                self._hello(message.hello)
            case "register":
                join = translate.join_of(message.register)
                self._call(message.register.run, Cause(join.member, join.supersedes, 0), join)
            case _:
                why = "an item says nothing, or something that this server does not know"
                self.end(Refusal("malformed", why, "set one of hello, register, report, heartbeat, arrive, leave"))

    def _arrive(self, said: pb.WaitAtBarrierRequest) -> None:
        arrive = translate.arrive_of(said)
        if isinstance(arrive, Refusal):
            topic = f"barrier/{said.barrier}"
            self._service.server.send(self, Declined(said.worker, said.incarnation, topic, arrive))
        else:
            self._sign(said.run, arrive)

    def _sign(self, run: str, signal: Signal) -> None:
        self._service.sign(self, Sign.of(run, signal))

    def _call(self, run: str, cause: Cause, event: Event | Refusal) -> None:
        call = event if isinstance(event, Refusal) else translate.call_of(run, cause, event)
        if cause.seq == 0 and not getattr(event, "joins", False):
            call = Refusal("malformed", f"command {cause.seq} of {cause.member}", "number commands 1, 2, 3...")
        if cause.seq == 0 and self._by_session:
            call = Refusal("forbidden", "a session token brings in nobody but its worker", "use a token for members")
        if not isinstance(call, Call):
            refusal = call if isinstance(call, Refusal) else Refusal("bug", f"{call} is no call", "report it")
            self._service.server.send(self, Answered(cause, refusal))
            return
        if cause.seq == 0:
            self._joins[cause] = run
        self._service.call(self, call)

    def _hello(self, said: pb.Hello) -> None:
        hello = translate.hello_of(said)
        if not isinstance(hello, Hello):
            refusal = hello if isinstance(hello, Refusal) else Refusal("bug", f"{hello} is no hello", "report it")
            self._service.server.send(self, Declined(said.worker, said.incarnation, "hello", refusal))
            return
        if self.identity.role is NOBODY.role and hello.incarnation:
            self._go_on(hello)
        self._service.hello(self, hello)

    def _go_on(self, hello: Hello) -> None:
        """Without a token that names a role, the life that a session token proves may still go on here."""
        expires_s = self._service.check_session(hello.token, hello.run, hello.member, hello.incarnation)
        if isinstance(expires_s, int):
            self.identity = Identity(Role.MEMBER, hello.run, hello.member, self.identity.id)
            self._by_session = True

    # -- messages out -----------------------------------------------------------------------------------------------

    def send(self, message: Any, of_run: str = "") -> None:
        if self._cut_off:
            return
        joins = type(message) is Answered and message.cause.seq == 0
        run = self._joins.pop(message.cause, "") if joins else ""
        run = of_run or run  # a join that was repeated is answered twice
        item = translate.item(message, run, self.challenge)
        if item is not None:
            encoded = item.SerializeToString()
            framed = b"\x0a" + _varint(len(encoded)) + encoded
            if self._outbox or self._unsent_bytes > HIGH_WATER_BYTES:
                self._outbox.put(framed, view_of(message, of_run))
            else:
                self._out.append(framed)
                self._unsent_bytes += len(framed)
        if joins:
            self._service.answered(self, run, message)

    def flush(self) -> None:
        answer_bytes = self._outbox.answer_bytes
        if answer_bytes > self._door.limits.max_unsent_bytes and not self._cut_off:
            self._cut_off = True
            why = f"{answer_bytes} bytes of answers wait to be read (limits.max_unsent_bytes)"
            self.end(Refusal("too_fast", why, "read the stream, and connect again"))
        elif self._out and self._writer is None:
            self._writer = self._loop.create_task(self._write())

    async def _write(self) -> None:
        try:
            while self._out or self._outbox:
                if not self._out:
                    self._out = self._outbox.take()
                    self._unsent_bytes += sum(map(len, self._out))
                whole = self._take_out()
                await self._context.write(whole)
                self._unsent_bytes -= len(whole)
        except Exception:
            # The stream is gone; what is left to say has nobody to hear it.
            self._out.clear()
            self._outbox.take()
            self.end(None)
        finally:
            self._writer = None

    def _take_out(self) -> bytes:
        """The next write: all there is, unless it would be too long. A batch is its items one after the other, since
        it is nothing but a repeated field."""
        if len(self._out) == 1 or self._unsent_bytes <= MAX_WRITE_BYTES:
            out, self._out = self._out, []
            return out[0] if len(out) == 1 else b"".join(out)
        size_bytes = count = 0
        for encoded in self._out:
            if count and size_bytes + len(encoded) > MAX_WRITE_BYTES:
                break
            size_bytes += len(encoded)
            count += 1
        out, self._out = self._out[:count], self._out[count:]
        return b"".join(out)


def _varint(number: int) -> bytes:
    if number < 0x80:
        return _SMALL[number]
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_SMALL: Final = [bytes([number]) for number in range(0x80)]

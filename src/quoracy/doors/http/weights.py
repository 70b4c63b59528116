"""Weights through this door: for participants that cannot reach the object store, for people, for scripts.

They are streamed in both directions, a piece at a time, and never in memory as a whole: how is in ``transfers``. What
comes in is kept under a name that nobody else knows until its digest is right; an upload in parts goes on where it was
interrupted. Whoever is faster than the limits allow is slowed down instead of being sent away, and whoever needs long
but moves is not too slow.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import msgspec
from blake3 import blake3
from starlette.types import Send

from quoracy.core.bounds import whole
from quoracy.core.errors import DigestMismatch, ObjectTooLarge, Refusal, Refused
from quoracy.doors.http.answers import Answer, matches
from quoracy.doors.http.house import House
from quoracy.doors.http.problems import trouble
from quoracy.doors.http.reading import Asked
from quoracy.doors.http.weights_access import MAX_BYTES, to_bring, to_fetch, to_fetch_update
from quoracy.hosts.keys import GLOBAL
from quoracy.ports import Objects

T = TypeVar("T")


class Use(Protocol):
    def __call__(self, objects: Objects, /, offset: int, piece: bytes | memoryview) -> int: ...


MEDIA: Final = b"application/octet-stream"
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
MAX_ROUND: Final = 2**31


# -- out -------------------------------------------------------------------------------------------------------------


async def get(house: House, asked: Asked, send: Send) -> None:
    run, digest = asked.params["run"], digest_asked(asked)
    place = to_fetch(house, asked, run)
    tag = b'"%b"' % digest.encode()
    if matches(asked.headers.get(b"if-none-match", b""), tag):
        asked.scope["quoracy.answer"] = Answer(b"", 304, headers=((b"etag", tag),), tagged=False)
        return
    key, size_bytes = await do(house, partial(_found, keys=place.fetches(digest, asked.method == "HEAD")))
    if size_bytes is None:
        there = await do(house, lambda objects: objects.offset(_upload(asked, place.brings(digest))))
        if there is not None and asked.method == "HEAD":
            asked.scope["quoracy.answer"] = empty(204, offset=there)
            return
        raise trouble("object_missing", f"there are no weights {digest} in run {run}", "upload them, or look again")
    await send_object(house, asked, send, key, size_bytes, tag)


def _found(objects: Objects, keys: tuple[str, ...]) -> tuple[str, int | None]:
    """The first of these that is there, and its size."""
    for key in keys:
        if (size_bytes := objects.head(key)) is not None:
            return key, size_bytes
    return keys[0], None


async def get_named(house: House, asked: Asked, send: Send) -> None:
    """The global weights of a round, or what a participant sent back in it."""
    run, number, name = asked.params["run"], asked.params["round"], asked.params["participant"]
    place = to_fetch(house, asked, run) if name == GLOBAL else to_fetch_update(house, asked, run, name)
    if not _NUMBER.fullmatch(number) or int(number) > MAX_ROUND or not name or len(name) > 64:
        why = f"round = {number[:40]}, participant = {name[:80]}"
        raise trouble("malformed", why, f"a number from 0 to {MAX_ROUND}, and global or an id of 1 to 64 characters")
    key = place.keys.model(int(number)) if name == GLOBAL else place.keys.update(int(number), name)
    size_bytes = await do(house, lambda objects: objects.head(key))
    if size_bytes is None:
        why = f"there is nothing of {name} in round {number} of run {run}"
        raise trouble("object_missing", why, "see /api/runs/{run}/history for what there is")
    await send_object(house, asked, send, key, size_bytes, b"")


async def send_object(house: House, asked: Asked, send: Send, key: str, size_bytes: int, tag: bytes) -> int:
    """Returns how many bytes of it were sent."""
    first, last = _range(asked, size_bytes, tag)
    partly = (first, last) != (0, size_bytes - 1) and size_bytes > 0
    headers = house.gate.headers(Answer(b"", media=MEDIA), asked.scope["quoracy.origin"])
    headers += [(b"content-type", MEDIA), (b"accept-ranges", b"bytes")]
    headers.append((b"content-length", b"%d" % (last + 1 - first)))
    if tag:
        headers.append((b"etag", tag))
    if partly:
        headers.append((b"content-range", b"bytes %d-%d/%d" % (first, last, size_bytes)))
    async with house.transfers.turn(asked):
        await send({"type": "http.response.start", "status": 206 if partly else 200, "headers": headers})
        try:
            count = 0 if asked.method == "HEAD" else last + 1 - first
            if count:
                await house.transfers.send(asked, send, lambda objects: objects.chunks(key, first), first, count)
        except Exception as error:
            house.service.server.log.warn("weights could not be sent to the end", key=key, why=str(error))
            asked.line.transport.abort()
            return 0
    await send({"type": "http.response.body", "body": b""})
    return count


def _range(asked: Asked, size_bytes: int, tag: bytes) -> tuple[int, int]:
    """First and last byte. One range is understood; whoever asks for several gets everything, as RFC 9110 allows."""
    wanted = _RANGE.fullmatch(asked.header(b"range"))
    condition = asked.headers.get(b"if-range", b"")
    if wanted is None or not any(wanted.groups()) or (condition and condition != tag):
        return 0, size_bytes - 1
    begin, end = wanted.groups()
    if not begin:
        first, last = max(0, size_bytes - int(end)), size_bytes - 1
    else:
        first, last = int(begin), min(int(end) if end else size_bytes - 1, size_bytes - 1)
    if first >= size_bytes or last < first:
        why = f"Range = {asked.header(b'range')!r} of {size_bytes} bytes"
        raise trouble(
            "no_such_range", why, "ask for bytes that are there", (b"content-range", b"bytes */%d" % size_bytes)
        )
    return first, last


# -- in --------------------------------------------------------------------------------------------------------------


async def put(house: House, asked: Asked) -> Answer:
    """All of it in one request."""
    run, digest = asked.params["run"], digest_asked(asked)
    place = to_bring(house, asked, run)
    made, _ = await put_object(house, asked, place.brings(digest), digest, place.max_bytes)
    return empty(201 if made else 200, etag=digest)


async def put_object(house: House, asked: Asked, key: str, digest: str, max_bytes: int) -> tuple[bool, int]:
    """The body becomes the object, unless there is one. -> whether it did, and how many bytes came."""
    name = f"put-{secrets.token_hex(16)}"
    _check_length(asked, key, 0, max_bytes)
    async with house.transfers.turn(asked):
        upload = Upload(name, key, digest, _length(asked), begun=False)
        try:
            size_bytes = await _take(house, asked, upload, 0, max_bytes)
            made = await _finished(house, asked, upload)
        except BaseException:
            with suppress(Exception):
                await do(house, lambda objects: objects.abandon(name))
            raise
    return made, size_bytes


async def patch(house: House, asked: Asked) -> Answer:
    """A part of it: from Upload-Offset on. Complete when it is as long as Upload-Length says."""
    run, digest = asked.params["run"], digest_asked(asked)
    place = to_bring(house, asked, run)
    key, max_bytes = place.brings(digest), place.max_bytes
    name = _upload(asked, key)
    offset, length = _whole(asked, b"upload-offset"), _whole(asked, b"upload-length")
    if length > max_bytes:
        raise ObjectTooLarge(key, length, max_bytes)
    _check_length(asked, key, offset, min(max_bytes, length))
    async with house.transfers.turn(asked):
        await _check_offset(house, name, offset)
        upload = Upload(name, key, digest, length)
        there = await _take(house, asked, upload, offset, min(max_bytes, length))
        if there < length:
            return empty(204, offset=there)
        made = await _finished(house, asked, upload)
    return empty(201 if made else 200, etag=digest)


async def _check_offset(house: House, name: str, offset: int) -> None:
    """Before anything is read: also a part without any bytes has to be one of an upload that there is."""
    there = await do(house, lambda objects: objects.offset(name) if offset else objects.begin(name))
    if there != offset:
        why = f"Upload-Offset = {offset}, while {there or 0} bytes are there"
        raise trouble("upload_offset", why, "go on where it stands", (b"upload-offset", b"%d" % (there or 0)))


class Upload(msgspec.Struct):
    """What is to become the object ``key``. ``length``: when it is whole, if that is known. All that is done with it is
    done on a thread, and each turn there costs a way to it and back: so the first piece begins it, and the last one
    finishes it."""

    name: str
    key: str
    digest: str
    length: int | None
    begun: bool = True
    made: bool | None = None
    """Whether it became the object, or there was one; None: that is still to be done."""
    seen: Any = None
    """Of an object that is there already nothing is kept, but whoever sends something else is told so: its hash."""

    def append(self, objects: Objects, offset: int, piece: bytes | memoryview) -> int:
        self._begin(objects)
        if self.seen is None:
            there = objects.append(self.name, offset, piece)
        else:
            self.seen.update(piece)
            there = offset + len(piece)
        if there == self.length:
            self.finish(objects)
        return there

    def finish(self, objects: Objects) -> bool:
        self._begin(objects)
        if self.seen is None:
            self.made = objects.finish(self.name, self.key, self.digest)
        elif (found := self.seen.hexdigest()) != self.digest:
            raise DigestMismatch(self.key, self.digest, found)
        else:
            self.made = False
        return self.made

    def _begin(self, objects: Objects) -> None:
        if self.begun:
            return
        self.begun = True
        if objects.head(self.key) is not None:
            self.seen = blake3()
        else:
            objects.begin(self.name)


async def _take(house: House, asked: Asked, upload: Upload, offset: int, max_bytes: int) -> int:
    """The body, added to the upload as it comes. Returns where the upload stands then."""
    return await _each(house, asked, upload.key, offset, max_bytes, upload.append)


async def _finished(house: House, asked: Asked, upload: Upload) -> bool:
    return await house.transfers.do(asked, upload.finish) if upload.made is None else upload.made


async def _each(house: House, asked: Asked, key: str, offset: int, max_bytes: int, use: Use) -> int:
    """Do something with each piece of the body, on a thread. ``use`` is told where a piece begins, and returns where it
    ends. Returns where the last one does."""

    async def keep(piece: bytes | memoryview) -> None:
        nonlocal offset
        if offset + len(piece) > max_bytes:
            raise ObjectTooLarge(key, offset + len(piece), max_bytes)
        offset = await house.transfers.do(asked, partial(use, offset=offset, piece=piece))

    if not await house.transfers.take_in(asked, _length(asked), keep):
        raise trouble("too_slow", "the connection ended before the request did", "go on where it was interrupted")
    return offset


def _check_length(asked: Asked, key: str, offset: int, max_bytes: int) -> None:
    size_bytes = _length(asked) or 0
    if offset + size_bytes > max_bytes:
        raise ObjectTooLarge(key, offset + size_bytes, max_bytes)


def _length(asked: Asked) -> int | None:
    """Of the body, if the head says it; what is far too large is as large as anything can be."""
    length = asked.once(b"content-length")
    if not length.isdecimal():
        return None
    size_bytes = whole(length, MAX_BYTES)
    return MAX_BYTES if size_bytes is None else size_bytes


def _whole(asked: Asked, name: bytes) -> int:
    text = asked.once(name)
    if not _NUMBER.fullmatch(text) or int(text) > MAX_BYTES:
        why = f"the header {name.decode()} = {text[:40]!r}"
        fix = f"a whole number of bytes from 0 to {MAX_BYTES}; both Upload-Offset and Upload-Length are needed"
        raise trouble("malformed", why, fix)
    return int(text)


# -- both ------------------------------------------------------------------------------------------------------------


def digest_asked(asked: Asked) -> str:
    digest = asked.params["digest"]
    if not _DIGEST.fullmatch(digest):
        raise trouble("malformed", f"digest = {digest[:80]}", "64 lower hex digits, the blake3 of the whole file")
    return digest


def _upload(asked: Asked, key: str) -> str:
    """The name of an upload in parts. One's own: nobody else's parts get into it. A participant's is known by its
    folder, so that it goes on in its next life."""
    mine = blake3(f"{asked.identity.id}/{key}".encode()).hexdigest()
    return f"part-{key.rpartition('/')[2][:32]}-{mine[:32]}"


def empty(status: int, etag: str = "", offset: int | None = None) -> Answer:
    headers = [(b"etag", b'"%b"' % etag.encode())] if etag else []
    if offset is not None:
        headers.append((b"upload-offset", b"%d" % offset))
    return Answer(b"", status, media=b"", headers=tuple(headers), tagged=False)


async def do(house: House, work: Callable[[Objects], T]) -> T:
    shelf = house.service.shelf
    if shelf is None:
        raise Refused(Refusal("not_serving", "this server keeps no weights", "ask the one that does"))
    result: Any = await shelf.do(work)
    return result  # type: ignore[no-any-return]

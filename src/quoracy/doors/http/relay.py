"""The relay: blobs from member to member through this door, where they cannot reach each other.

Only members of the run get in, and with the same proof as at the data door. A blob is created once, checked against its
digest before anybody can see it, and goes after a few rounds or when there is no room.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from starlette.types import Send

from quoracy.doors.http import weights
from quoracy.doors.http.answers import Answer, matches
from quoracy.doors.http.batches import member_course
from quoracy.doors.http.house import House
from quoracy.doors.http.problems import trouble
from quoracy.doors.http.reading import Asked
from quoracy.hosts.keys import prefix_of
from quoracy.hosts.relayed import Blob
from quoracy.ports import Objects
from quoracy.ports.objects import MAX_PAGE, Listed

FOLDER: Final = "relay"


async def get(house: House, asked: Asked, send: Send) -> None:
    run, digest = asked.params["run"], weights.digest_asked(asked)
    member_course(house, asked)
    tag = b'"%b"' % digest.encode()
    if matches(asked.headers.get(b"if-none-match", b""), tag):
        asked.scope["quoracy.answer"] = Answer(b"", 304, headers=((b"etag", tag),), tagged=False)
        return
    key = _key(run, digest)
    size_bytes = await weights.do(house, lambda objects: objects.head(key))
    if size_bytes is None:
        why = f"there is no blob {digest} in the relay of run {run}"
        raise trouble("object_missing", why, "ask a member that has it, or look again: its owner may be sending it")
    sent = await weights.send_object(house, asked, send, key, size_bytes, tag)
    house.service.server.metrics.relayed(run, "out", sent)


async def put(house: House, asked: Asked) -> Answer:
    run, digest = asked.params["run"], weights.digest_asked(asked)
    course = member_course(house, asked)
    await _list(house)
    key = _key(run, digest)
    made, size_bytes = await weights.put_object(house, asked, key, digest, house.relay_blob_bytes)
    house.service.server.metrics.relayed(run, "in", size_bytes)
    if not made:
        there = await weights.do(house, lambda objects: objects.head(key))
        size_bytes = there or 0
    for blob in house.relayed.came(Blob(run, digest), size_bytes, course.step):
        await _drop(house, blob)
    return weights.empty(201 if made else 200, etag=digest)


async def _list(house: House) -> None:
    """What a server before this one has kept is the oldest."""
    if house.relayed.listed:
        return
    house.relayed.listed = True
    for run, served in list(house.service.server.runs.items()):
        machine = None if served.host.run is None else served.host.run.machine
        step = getattr(getattr(machine, "course", None), "step", 0)
        for key, size_bytes in await weights.do(house, partial(_there, run=run)):
            for blob in house.relayed.came(Blob(run, key.rpartition("/")[2]), size_bytes, step):
                await _drop(house, blob)


def _there(objects: Objects, run: str) -> list[tuple[str, int]]:
    found: list[Listed] = []
    while page := objects.listing(f"{prefix_of(run)}/{FOLDER}", found[-1].key if found else "", MAX_PAGE):
        found += page
    return [(listed.key, listed.size_bytes) for listed in found]


async def _drop(house: House, blob: Blob) -> None:
    key = _key(*blob)
    await weights.do(house, lambda objects: objects.delete(key))


def _key(run: str, digest: str) -> str:
    return f"{prefix_of(run)}/{FOLDER}/{digest}"

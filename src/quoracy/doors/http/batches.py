"""The data door: samples of a witnessed run for members that have none of their own.

A member gets the batches that are assigned to it in the round that is open, and no others: what it sees of the data is
what it is asked to work on. They come as a safetensors file with a row for each sample, in the order of the batches.
"""

from __future__ import annotations

import re
from typing import Final

from starlette.types import Send

from quoracy.core.errors import Refusal, Refused
from quoracy.core.members import superseded
from quoracy.core.witnessed.config import Config
from quoracy.core.witnessed.state import Course
from quoracy.doors.http import shapes_witnessed
from quoracy.doors.http.answers import Answer
from quoracy.doors.http.house import House
from quoracy.doors.http.problems import trouble
from quoracy.doors.http.reading import Asked
from quoracy.doors.questions_witnessed import course_of
from quoracy.doors.tokens import is_session_token

MEDIA: Final = b"application/octet-stream"
SENT_BYTES: Final = 256 * 1024
"""What is handed to a connection at once: far below what may wait for a slow reader."""
NAMED: Final = 4
"""Members that are named as those whose batches they are."""
_RANGE: Final = re.compile(r"([0-9]{1,15})-([0-9]{1,15})")


async def get(house: House, asked: Asked, send: Send) -> None:
    first, end = _range(asked)
    course = member_course(house, asked)
    check_assigned(course, asked.query.member, first, end)
    await _send(house, asked, send, await house.service.samples.batches(_config(course), first, end))


async def held_out(house: House, asked: Asked, send: Send) -> None:
    """What is not trained on, for whoever is a member: to measure how good the model is."""
    course = member_course(house, asked)
    content = await house.service.samples.held_out(_config(course))
    if content is None:
        why = f"nothing is held out in {course.config.data.location!r}"
        raise trouble("object_missing", why, "evaluate on samples of your own")
    await _send(house, asked, send, content)


def check_assigned(course: Course, member: str, first: int, end: int) -> None:
    """Raises Refused naming whose they are, if one of these batches is not this member's in the open round."""
    works = [] if course.round is None else course.round.works
    mine = sorted(batches for work in works if work.member == member for batches in work.batches)
    at = first
    for low, high in mine:
        if low <= at < high:
            at = high
    if at >= end:
        return
    others = sorted({work.member for work in works for low, high in work.batches if low <= at < high} - {member})
    whose = f"it is assigned to {', '.join(others[:NAMED])}" if others else "it is assigned to nobody now"
    told = ", ".join(f"{low}-{high - 1}" for low, high in mine[:NAMED]) or "none"
    raise Refused(Refusal("not_yours", f"batch {at} is not {member}'s: {whose}", f"ask for your own: {told}"))


def member_course(house: House, asked: Asked) -> Course:
    """Of the run, for a member of it that proves who it is. Raises Refused."""
    run = asked.params["run"]
    who: shapes_witnessed.Asking = asked.query
    course = course_of(house.service.served(run))
    if house.service.proves(asked.identity) or is_session_token(asked.token):
        checked = house.service.check_session(asked.token, run, who.member, who.incarnation)
        if isinstance(checked, Refusal):
            raise Refused(checked)
    known = course.members.get(who.member)
    if known is None:
        raise Refused(Refusal("unknown_member", f"nobody of the id {who.member} has joined this run", "join first"))
    if known.incarnation != who.incarnation:
        raise Refused(superseded(who.member, who.incarnation, known.incarnation))
    return course


def _config(course: Course) -> Config:
    if course.config.data.kind != "door":
        why = f"data.kind = {course.config.data.kind!r}: the members of this run have the samples themselves"
        raise Refused(Refusal("contradiction", why, 'create a run with data.kind = "door"'))
    return course.config


def _range(asked: Asked) -> tuple[int, int]:
    """First, and one past the last."""
    text = asked.params["batches"]
    found = _RANGE.fullmatch(text)
    if found is None:
        raise trouble("malformed", f"batches = {text[:80]}", "the first and the last batch, as in 0-7")
    if int(found[1]) > int(found[2]):
        raise trouble("contradiction", f"batches = {text}: the last is before the first", "turn them round")
    return int(found[1]), int(found[2]) + 1


async def _send(house: House, asked: Asked, send: Send, content: bytes) -> None:
    headers = house.gate.headers(Answer(b"", media=MEDIA), asked.scope["quoracy.origin"])
    headers += [(b"content-type", MEDIA), (b"content-length", b"%d" % len(content))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    whole = memoryview(content if asked.method != "HEAD" else b"")
    for start in range(0, len(whole), SENT_BYTES):
        if asked.line.lost():
            return
        await send({"type": "http.response.body", "body": bytes(whole[start : start + SENT_BYTES]), "more_body": True})
    await send({"type": "http.response.body", "body": b""})

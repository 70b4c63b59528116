"""Routes of members: a worker can live through HTTP alone, one call at a time.

A worker registers with a role token, and shows the session token it got for everything after that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

import msgspec

from quoracy.core.cluster.events import (
    Arrive,
    Heartbeat,
    WorkerCheckpointing,
    WorkerIdle,
    WorkerLeft,
    WorkerLoading,
    WorkerReady,
    WorkerRegistered,
    WorkerTraining,
)
from quoracy.core.codec import digest, encode, malformed
from quoracy.core.errors import AWHILE_S, Refusal, Refused
from quoracy.core.machine import MemberEvent
from quoracy.doors.http import shapes
from quoracy.doors.http.answers import Answer, say
from quoracy.doors.http.house import House
from quoracy.doors.http.problems import Fault, Trouble, trouble
from quoracy.doors.http.reading import Asked

T = TypeVar("T")
NONCE_BYTES: Final = 16


async def challenge(house: House, _asked: Asked) -> Answer:
    return say(shapes.Challenge(house.calls.challenge().hex()))


async def register(house: House, asked: Asked) -> Answer:
    wish: shapes.Registration = asked.body
    join = WorkerRegistered(
        wish.member, wish.supersedes or 0, _nonce(asked, wish), bytes.fromhex(wish.key),
        bytes.fromhex(wish.proof), wish.address, wish.gpus, wish.labels,
    )  # fmt: skip
    newest = wish.supersedes is None
    if key := asked.request_key():
        body = msgspec.to_builtins(wish)
        await house.service.once(asked.identity, key, "register", asked.params["run"], body)
    registered = await _in_time(asked, house.calls.register(asked.identity, asked.params["run"], join, newest=newest))
    return say(msgspec.convert(msgspec.to_builtins(registered), shapes.Registered), 201)


def _nonce(asked: Asked, wish: shapes.Registration) -> bytes:
    """Of the body, or what the Idempotency-Key stands for. Raises Trouble."""
    key, told = asked.request_key(), wish.nonce
    if not told and (wish.key or not key):
        fix = "16 random bytes in hex, once per life" + ("; it is signed" if wish.key else ", or an Idempotency-Key")
        raise Trouble(Refusal("nonce_missing", "nonce is missing", f"send {fix}"), [Fault("nonce", "missing", fix)])
    meant = digest(encode(["quoracy nonce", key, asked.params["run"], wish.member]))[:NONCE_BYTES]
    if told and key and told != meant.hex():
        why = f"nonce = {told}, while the Idempotency-Key {key!r} stands for {meant.hex()}"
        raise trouble("contradiction", why, "leave one of them out")
    return bytes.fromhex(told) if told else meant


async def state(house: House, asked: Asked) -> Answer:
    wish: shapes.State = asked.body
    member, incarnation, fence = asked.params["member"], wish.incarnation, wish.fence
    event: MemberEvent
    match wish.state:
        case "ready":
            event = WorkerReady(member, incarnation)
        case "idle":
            event = WorkerIdle(member, incarnation, fence)
        case "loading":
            event = WorkerLoading(member, incarnation, fence)
        case "training":
            event = WorkerTraining(member, incarnation)
        case "checkpointing":
            event = WorkerCheckpointing(member, incarnation)
    run, event = asked.params["run"], _checked(event)
    work = house.calls.report(asked.identity, asked.token, run, wish.seq, event)
    entry, standing = await _in_time(asked, work)
    marks = {name: list(mark) for name, mark in standing.barriers.items()}
    return say(shapes.Stands(entry, standing.state, standing.fence, marks))


async def leave(house: House, asked: Asked) -> Answer:
    wish: shapes.Leaving = asked.body
    run, left = asked.params["run"], _checked(WorkerLeft(asked.params["member"], wish.incarnation, wish.reason))
    accepted = await _in_time(asked, house.calls.command(asked.identity, asked.token, run, wish.seq, left))
    return say(shapes.Done(accepted.entry))


async def heartbeat(house: House, asked: Asked) -> Answer:
    wish = msgspec.structs.asdict(asked.body)
    beat = _checked(Heartbeat(asked.params["member"], **wish))
    seen, token = await _in_time(asked, house.calls.beat(asked.identity, asked.token, asked.params["run"], beat))
    return say(shapes.HeartbeatAnswer(seen.seq, seen.order, seen.command, seen.arguments, seen.fence, token))


async def arrive(house: House, asked: Asked) -> Answer:
    wish: shapes.Arrival = asked.body
    signal = _checked(
        Arrive(asked.params["member"], wish.incarnation, asked.params["barrier"], wish.step, wish.after, wish.fence)
    )
    passage = await _in_time(
        asked, house.calls.wait(asked.identity, asked.token, asked.params["run"], signal, wish.timeout_s)
    )
    return say(msgspec.convert(msgspec.structs.asdict(passage), shapes.Passage))


def _checked(message: T) -> T:
    """Names in the path have limits as well. Raises Refused naming the field."""
    try:
        return msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=type(message))
    except msgspec.ValidationError as error:
        payload = msgspec.msgpack.encode(message)
        raise Refused(malformed(error, "path", type(message), payload)) from None


async def _in_time(asked: Asked, work: Coroutine[Any, Any, T]) -> T:
    """The answer. Nobody waits for somebody who is gone."""
    task = asyncio.get_running_loop().create_task(work)
    asked.line.on_lost[:] = [task.cancel]
    try:
        return await task
    except TimeoutError:
        refusal = Refusal("overloaded", "the run did not answer in time", "ask again with the same numbers", AWHILE_S)
        raise Trouble(refusal, status=503) from None
    except asyncio.CancelledError:
        if not asked.line.lost():
            raise
        raise trouble("too_slow", "the connection ended before the answer came", "ask again") from None
    finally:
        asked.line.on_lost.clear()

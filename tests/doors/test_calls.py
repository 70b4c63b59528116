"""Members without a connection: every call comes alone, and may be repeated."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from quoracy.config import ServerConfig
from quoracy.core.cluster.events import (
    Arrive,
    Heartbeat,
    HeartbeatSeen,
    WorkerIdle,
    WorkerLeft,
    WorkerReady,
    WorkerRegistered,
)
from quoracy.core.errors import Refused
from quoracy.core.journal import RunCreated
from quoracy.core.members import signed_by_joiner
from quoracy.doors import service, standin
from quoracy.doors.auth import ANYONE, NOBODY, Authority, Identity, MemberKey, Role
from quoracy.doors.calls import Calls, Registered
from quoracy.doors.service import Service
from quoracy.doors.tokens import CHALLENGE_S
from quoracy.hosts.log import Log
from quoracy.hosts.server import Server
from quoracy.stores import MemoryJournal

RUN = "demo"
SECRET = bytes(32)
MEMBER = Identity(Role.MEMBER, RUN, id="join-token")


@asynccontextmanager
async def opened(tokens: bool = False, journal: MemoryJournal | None = None) -> AsyncIterator[Calls]:
    server = Server(journal or MemoryJournal(), "h1", "here", inline=True, log=Log("error"))
    made = Service(server, Authority(SECRET), tokens, ServerConfig().runs)
    await server.start()
    if RUN not in server.runs:
        await server.create(RunCreated(RUN, "cluster", 1, {"heartbeat_timeout_s": 30.0}))
    try:
        yield Calls(made)
    finally:
        await server.close()


def story(tell: Callable[[Calls], Awaitable[None]], tokens: bool = False) -> None:
    async def main() -> None:
        async with opened(tokens) as calls:
            async with asyncio.timeout(30):
                await tell(calls)

    asyncio.run(main())


def join(member: str, supersedes: int = 0, nonce: bytes = b"n", **fields: Any) -> WorkerRegistered:
    return WorkerRegistered(member, supersedes, nonce.ljust(16, b"."), **fields)


async def ready(calls: Calls, member: str, nonce: bytes = b"n") -> Registered:
    registered = await calls.register(ANYONE, RUN, join(member, nonce=nonce), newest=True)
    await calls.command(ANYONE, "", RUN, 1, WorkerReady(member, registered.incarnation))
    return registered


async def code(work: Awaitable[Any]) -> str:
    with pytest.raises(Refused) as refused:
        await work
    return refused.value.code


def test_a_whole_life_call_by_call() -> None:
    async def tell(calls: Calls) -> None:
        for member in ("w1", "w2"):
            registered = await ready(calls, member)
            assert (registered.incarnation, registered.token, registered.barriers) == (1, "", {})
        seen, _ = await calls.beat(ANYONE, "", RUN, Heartbeat("w1", 1, 1, step=3))
        assert seen.seq == 1
        passed = await asyncio.gather(
            calls.wait(ANYONE, "", RUN, Arrive("w1", 1, "step", 7), 10),
            calls.wait(ANYONE, "", RUN, Arrive("w2", 1, "step", 7), 10),
        )
        assert [(p.released, p.generation, p.step, p.order) for p in passed] == [(True, 1, 7, 0), (True, 1, 7, 1)]
        late = await calls.register(ANYONE, RUN, join("w3"))
        assert late.barriers == {"step": (1, 7)}
        left = await calls.command(ANYONE, "", RUN, 2, WorkerLeft("w1", 1, "done"))
        assert left == await calls.command(ANYONE, "", RUN, 2, WorkerLeft("w1", 1, "done"))
        assert await code(calls.beat(ANYONE, "", RUN, Heartbeat("w1", 1, 2))) == "member_gone"

    story(tell)


def test_a_join_sent_again_is_the_same_life_and_another_is_the_next() -> None:
    async def tell(calls: Calls) -> None:
        first = await calls.register(ANYONE, RUN, join("w1"), newest=True)
        assert await calls.register(ANYONE, RUN, join("w1"), newest=True) == first
        second = await calls.register(ANYONE, RUN, join("w1", nonce=b"m"), newest=True)
        assert second.incarnation == 2
        assert await code(calls.register(ANYONE, RUN, join("w1", nonce=b"o"))) == "stale_join"
        assert await code(calls.beat(ANYONE, "", RUN, Heartbeat("w1", 1, 1))) == "superseded"
        assert await code(calls.command(ANYONE, "", RUN, 1, WorkerReady("w1", 1))) == "superseded"

    story(tell)


def test_who_waits_is_told_that_it_was_superseded() -> None:
    async def tell(calls: Calls) -> None:
        await ready(calls, "w1")
        await ready(calls, "w2")
        waiting = asyncio.ensure_future(calls.wait(ANYONE, "", RUN, Arrive("w1", 1, "step", 0), 20))
        await calls.beat(ANYONE, "", RUN, Heartbeat("w1", 1, 1))
        await calls.register(ANYONE, RUN, join("w1", nonce=b"m"), newest=True)
        assert await code(waiting) == "superseded"

    story(tell)


def test_a_wait_ends_in_time_and_says_for_whom_and_goes_on_when_it_is_repeated() -> None:
    async def tell(calls: Calls) -> None:
        await ready(calls, "w1")
        await ready(calls, "w2")
        with pytest.raises(Refused, match="waits for w2") as refused:
            await calls.wait(ANYONE, "", RUN, Arrive("w1", 1, "step", 0), 0.05)
        assert refused.value.code == "still_waiting"
        again = asyncio.ensure_future(calls.wait(ANYONE, "", RUN, Arrive("w1", 1, "step", 0), 20))
        other = await calls.wait(ANYONE, "", RUN, Arrive("w2", 1, "step", 0), 20)
        assert (other.order, (await again).order) == (1, 0)

    story(tell)


def test_a_roll_back_ends_the_wait_of_who_stands_there() -> None:
    async def tell(calls: Calls) -> None:
        await ready(calls, "w1")
        await ready(calls, "w2")
        waiting = asyncio.ensure_future(calls.wait(ANYONE, "", RUN, Arrive("w1", 1, "step", 0), 20))
        await calls.beat(ANYONE, "", RUN, Heartbeat("w1", 1, 1))
        replied = await calls._service.ask(ANYONE, 0, "roll-back", RUN, {"reason": "bad batch"})
        assert replied.refusal is None
        with pytest.raises(Refused, match="rolled back") as refused:
            await waiting
        assert refused.value.code == "stale_token"
        await calls.command(ANYONE, "", RUN, 2, WorkerIdle("w1", 1, fence=1))

    story(tell)


def test_an_answer_that_a_host_forgot_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standin, "REPEAT_S", 0.02)

    async def tell(calls: Calls) -> None:
        await ready(calls, "w1")
        await ready(calls, "w2")
        waiting = asyncio.ensure_future(calls.wait(ANYONE, "", RUN, Arrive("w1", 1, "step", 0), 20))
        await calls.beat(ANYONE, "", RUN, Heartbeat("w1", 1, 1))
        desk = calls._service.server.runs[RUN].host.desk
        assert desk is not None
        desk.peers.clear()
        desk.collector.gatherings.clear()  # type: ignore[attr-defined]
        await calls.wait(ANYONE, "", RUN, Arrive("w2", 1, "step", 0), 20)
        assert (await waiting).released

    story(tell)


def test_with_tokens_a_join_proves_its_key_and_a_life_shows_its_token() -> None:
    key, other = MemberKey.create(), MemberKey.create()

    def proved(calls: Calls, by: MemberKey, challenge: bytes = b"", **fields: Any) -> WorkerRegistered:
        challenge = challenge or calls.challenge()
        wish = join("w1", key=by.public, **fields)
        signed = signed_by_joiner(challenge, RUN, "w1", wish.supersedes, wish.nonce)
        return join("w1", key=by.public, proof=challenge + by.sign(signed), **fields)

    async def tell(calls: Calls) -> None:
        authority = calls._service.authority
        old = authority.challenge(time.time() - CHALLENGE_S - 1)
        foreign = Authority(b"x" * 32).challenge(time.time())
        assert await code(calls.register(MEMBER, RUN, join("w1"))) == "bad_token"
        for challenge in (old, foreign, b"c" * 32):
            assert await code(calls.register(MEMBER, RUN, proved(calls, key, challenge))) == "bad_token"
        registered = await calls.register(MEMBER, RUN, proved(calls, key))
        token = registered.token
        assert isinstance(authority.check_session(token, RUN, "w1", 1, time.time()), int)
        nobody = calls._service.identify(token, None)
        assert isinstance(nobody, Identity)
        assert not nobody.covers(RUN)
        await calls.command(nobody, token, RUN, 1, WorkerReady("w1", 1))
        assert await calls.beat(nobody, token, RUN, Heartbeat("w1", 1, 1)) == (HeartbeatSeen(1), "")
        soon_s = math.ceil(time.time()) + 60
        others = ((RUN, "w1", 2, soon_s), ("x", "w1", 1, soon_s), (RUN, "w1", 1, soon_s - 120))
        for wrong in ("", *(authority.session_token(*fields) for fields in others)):
            assert await code(calls.beat(MEMBER, wrong, RUN, Heartbeat("w1", 1, 2))) == "bad_token"
            assert await code(calls.command(MEMBER, wrong, RUN, 2, WorkerLeft("w1", 1))) == "bad_token"
            assert await code(calls.wait(MEMBER, wrong, RUN, Arrive("w1", 1, "step", 0), 5)) == "bad_token"
        taken = proved(calls, other, supersedes=1, nonce=b"z")
        assert await code(calls.register(MEMBER, RUN, taken)) == "key_mismatch"
        viewer = Identity(Role.VIEWER, RUN)
        assert await code(calls.register(viewer, RUN, proved(calls, key, supersedes=1, nonce=b"y"))) == "forbidden"

    story(tell, tokens=True)


def test_a_newcomer_begins_where_the_others_are_when_it_is_ready() -> None:
    """Not where they were when it registered: they go on while it sets itself up."""

    async def tell(calls: Calls) -> None:
        await ready(calls, "w1")
        registered = await calls.register(ANYONE, RUN, join("w2"))
        for step in range(3):
            assert (await calls.wait(ANYONE, "", RUN, Arrive("w1", 1, "step", step), 5)).released
        assert registered.barriers == {}
        _, standing = await calls.report(ANYONE, "", RUN, 1, WorkerReady("w2", 1))
        assert (standing.state, standing.fence, standing.barriers) == ("Idle", 0, {"step": (3, 2)})
        waiting = asyncio.ensure_future(calls.wait(ANYONE, "", RUN, Arrive("w1", 1, "step", 3), 5))
        assert (await calls.wait(ANYONE, "", RUN, Arrive("w2", 1, "step", 3), 5)).released
        assert (await waiting).released

    story(tell)


class Clock:
    """Wall time, as the service reads it."""

    def __init__(self) -> None:
        self.now_s = time.time()

    def time(self) -> float:
        return self.now_s


def test_a_session_token_is_renewed_by_heartbeats_and_ends_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, key = Clock(), MemberKey.create()
    monkeypatch.setattr(service, "time", clock)

    async def tell(calls: Calls) -> None:
        calls._service.session_s = 100.0
        challenge = calls._service.authority.challenge(time.time())
        wish = join("w1")
        signed = signed_by_joiner(challenge, RUN, "w1", wish.supersedes, wish.nonce)
        proved = join("w1", key=key.public, proof=challenge + key.sign(signed))
        first = (await calls.register(MEMBER, RUN, proved)).token
        clock.now_s += 49
        assert (await calls.beat(NOBODY, first, RUN, Heartbeat("w1", 1, 1)))[1] == ""
        clock.now_s += 2
        _, second = await calls.beat(NOBODY, first, RUN, Heartbeat("w1", 1, 2))
        _, again = await calls.beat(NOBODY, first, RUN, Heartbeat("w1", 1, 3))
        assert second != first
        assert again == second, "an answer may be lost: whoever still shows the old token gets the new one again"
        assert (await calls.beat(NOBODY, second, RUN, Heartbeat("w1", 1, 4)))[1] == ""
        clock.now_s += 50
        assert await code(calls.beat(NOBODY, first, RUN, Heartbeat("w1", 1, 5))) == "bad_token"
        assert (await calls.beat(NOBODY, second, RUN, Heartbeat("w1", 1, 6)))[0].seq == 6

    story(tell, tokens=True)


def test_stand_ins_that_are_not_needed_any_more_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standin, "MAX_STANDINS", 3)

    async def tell(calls: Calls) -> None:
        for i in range(6):
            await ready(calls, f"w{i}")
        assert len(calls._standins) <= 4
        assert (await calls.beat(ANYONE, "", RUN, Heartbeat("w0", 1, 1)))[0].seq == 1

    story(tell)


def test_refusals_name_what_was_wrong() -> None:
    async def tell(calls: Calls) -> None:
        await ready(calls, "w1")
        assert await code(calls.register(ANYONE, "nowhere", join("w1"))) == "unknown_run"
        assert await code(calls.beat(ANYONE, "", "nowhere", Heartbeat("w1", 1, 1))) == "unknown_run"
        assert await code(calls.beat(ANYONE, "", RUN, Heartbeat("w9", 1, 1))) == "unknown_worker"
        assert await code(calls.command(ANYONE, "", RUN, 9, WorkerLeft("w1", 1))) == "sequence_gap"
        assert await code(calls.wait(ANYONE, "", RUN, Arrive("w1", 1, "step", 0, fence=4), 5)) == "stale_token"

    story(tell)


def test_a_run_that_does_not_answer_is_told_and_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standin, "ANSWER_S", 0.05)

    async def tell(calls: Calls) -> None:
        await ready(calls, "w1")
        calls._service.server.append = lambda *_: None  # type: ignore[method-assign]
        assert await code(calls.command(ANYONE, "", RUN, 2, WorkerIdle("w1", 1))) == "outcome_unknown"
        assert await code(calls.beat(ANYONE, "", RUN, Heartbeat("w1", 1, 1))) == "outcome_unknown"
        assert await code(calls.register(ANYONE, RUN, join("w2"), newest=True)) == "outcome_unknown"

    story(tell)


def test_a_heartbeat_is_answered_without_a_turn_of_the_run() -> None:
    async def tell(calls: Calls) -> None:
        await ready(calls, "w1")
        with pytest.raises(StopIteration) as answered:
            calls.beat(ANYONE, "", RUN, Heartbeat("w1", 1, 1)).send(None)
        assert answered.value.value[0].seq == 1
        with pytest.raises(Refused) as refused:
            calls.beat(ANYONE, "", RUN, Heartbeat("w1", 2, 2)).send(None)
        assert refused.value.code == "contradiction"
        with pytest.raises(Refused, match=r"signal\.cpu"):
            calls.beat(ANYONE, "", RUN, Heartbeat("w1", 1, 3, cpu=7.0)).send(None)

    story(tell)


def test_a_heartbeat_does_not_tell_of_an_order_that_is_not_written() -> None:
    async def tell(calls: Calls) -> None:
        await ready(calls, "w1")
        service, held = calls._service, []
        append = service.server.append
        service.server.append = lambda *wish: held.append(wish)  # type: ignore[method-assign]
        arguments = {"command": "pause", "member": "w1", "arguments": {}, "request": ""}
        ordering = asyncio.ensure_future(service.ask(ANYONE, 1, "order", RUN, arguments))
        while not held:
            await asyncio.sleep(0)
        beating = asyncio.ensure_future(calls.beat(ANYONE, "", RUN, Heartbeat("w1", 1, 1)))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not beating.done()
        append(*held[0])
        assert (await ordering).refusal is None
        assert (await beating)[0].command == "pause"

    story(tell)


def test_heartbeats_go_behind_what_came_before_them() -> None:
    async def tell(calls: Calls) -> None:
        await ready(calls, "w1")
        leaving = asyncio.ensure_future(calls.command(ANYONE, "", RUN, 2, WorkerLeft("w1", 1, "done")))
        while not calls._service.server.runs[RUN].inbox:
            await asyncio.sleep(0)
        assert await code(calls.beat(ANYONE, "", RUN, Heartbeat("w1", 1, 1))) == "member_gone"
        await leaving

    story(tell)

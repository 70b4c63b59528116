"""Turns and paces, without sockets: who goes next, and who waits for how long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from quoracy.doors.http.turns import Pace, Turns


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(work())


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


class Crew:
    """Tasks that hold a turn until they are told to go."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self.going: list[str] = []
        self._tasks: list[tuple[str, asyncio.Event, asyncio.Task[None]]] = []

    def come(self, *identities: str) -> None:
        for identity in identities:
            go = asyncio.Event()
            self._tasks.append((identity, go, asyncio.get_running_loop().create_task(self._hold(identity, go))))

    async def _hold(self, identity: str, go: asyncio.Event) -> None:
        async with self._turns.turn(identity):
            self.going.append(identity)
            await go.wait()
            self.going.remove(identity)

    def leave(self, identity: str) -> None:
        for known, go, task in self._tasks:
            if known == identity and not go.is_set() and not task.done():
                go.set()
                return

    async def close(self) -> None:
        for _, _, task in self._tasks:
            task.cancel()
        await asyncio.gather(*(task for _, _, task in self._tasks), return_exceptions=True)


def test_one_that_is_alone_gets_half_and_the_next_does_not_wait_for_it() -> None:
    async def work() -> None:
        crew = Crew(Turns(8))
        crew.come(*["many"] * 100)
        await settle()
        assert crew.going == ["many"] * 4
        crew.come("one")
        await settle()
        assert crew.going.count("one") == 1
        crew.come("two", "two", "two")
        await settle()
        assert crew.going.count("two") >= 1
        assert crew.going.count("many") == 4
        await crew.close()

    run(work)


def test_whoever_has_fewer_goes_first() -> None:
    async def work() -> None:
        crew = Crew(Turns(2))
        crew.come("a", "a", "a", "b")
        await settle()
        assert crew.going == ["a", "b"]
        crew.come("c", "a")
        crew.leave("b")
        await settle()
        assert sorted(crew.going) == ["a", "c"], "a has waited for longer, and has one"
        crew.come("b", "c")
        crew.leave("c")
        await settle()
        assert sorted(crew.going) == ["a", "b"], "of those who have none the one that came first"
        await crew.close()

    run(work)


def test_turns_of_those_who_gave_up_are_not_lost() -> None:
    async def work() -> None:
        turns = Turns(2)
        for _ in range(50):
            crew = Crew(turns)
            crew.come("a", "a", "a", "b")
            await settle()
            crew.leave("a")
            await crew.close()
        crew = Crew(turns)
        crew.come("a", "b")
        await settle()
        assert sorted(crew.going) == ["a", "b"]
        await crew.close()
        assert (turns.held("a"), turns.held("b")) == (0, 0)

    run(work)


def test_a_pace_is_kept_by_each_and_forgotten_when_it_is_over() -> None:
    now_us = 0
    pace = Pace(1000, lambda: now_us)
    assert [pace.owes_us("a", 500) for _ in range(3)] == [0, 500_000, 1_000_000]
    assert pace.owes_us("b", 1000) == 0, "what others owe is theirs"
    now_us = 1_400_000
    assert pace.owes_us("a", 100) == 100_000
    now_us = 60_000_000
    assert pace.owes_us("c", 1) == 0
    assert list(pace._free_us) == ["c"]


def test_without_a_rate_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(_seconds: float) -> None:
        raise AssertionError("it waited")

    async def work() -> None:
        pace = Pace(0, lambda: 0)
        for _ in range(3):
            await pace.pay("a", 2**40)

    monkeypatch.setattr("quoracy.doors.http.turns.asyncio.sleep", never)
    run(work)

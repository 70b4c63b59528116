"""A lock that can be lost while its holder lives: who has lost it steps back, and does no harm before it knows."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest
from tests.hosts.test_server import Friend, created, quiet, until

from quoracy.bench.load import RUN, Crew
from quoracy.core.errors import JournalBusy, Refused
from quoracy.core.host import Phase
from quoracy.core.limits import Limits
from quoracy.core.messages import Moved
from quoracy.core.shell import EntryRead
from quoracy.hosts.carry import read_entry
from quoracy.hosts.server import Server
from quoracy.ports import Append, Outcome
from quoracy.stores import MemoryJournal, Shelf


class Seat:
    """Who may serve, decided by the test."""

    def __init__(self) -> None:
        self.taken_by = ""


class Lapsing(MemoryJournal):
    lock_lapses = True

    def __init__(self, shelf: Shelf, seat: Seat, me: str) -> None:
        super().__init__(shelf)
        self.seat = seat
        self.me = me
        self.asked = 0
        self.asked_by: set[int] = set()
        self.cut_off = False
        self.delay: Exception | None = None

    def try_lock(self) -> bool:
        self.asked += 1
        self.asked_by.add(threading.get_ident())
        if self.cut_off:
            raise JournalBusy("nobody answers")
        self.seat.taken_by = self.seat.taken_by or self.me
        return self.seat.taken_by == self.me

    def append(self, wishes: Sequence[Append]) -> list[Outcome]:
        if self.delay is not None:
            raise self.delay
        return super().append(wishes)


class Two:
    """Two servers on one journal; the first serves, and has a run with a worker."""

    def __init__(self, **limits: int) -> None:
        self._limits = Limits(retry_us=10_000, **limits)
        self.seat, self.shelf = Seat(), Shelf()
        self.journals = [Lapsing(self.shelf, self.seat, name) for name in ("a", "b")]
        self.friend = Friend()

    async def __aenter__(self) -> Two:
        self.a, self.b = (
            Server(journal, journal.me, f"at {journal.me}", limits=self._limits, log=quiet())
            for journal in self.journals
        )
        await self.a.start()
        await self.b.start()
        assert (self.a.serving, self.b.serving) == (True, False)
        await created(self.a)
        await self.join(1)
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.a.close()
        await self.b.close()

    async def join(self, number: int) -> None:
        """One more worker, at the first server."""
        before = len(self.friend.answers())
        self.a.receive(self.a.runs[RUN], self.friend, [message for _, message in Crew(number).join()][-1])
        await until(lambda: len(self.friend.answers()) > before)

    def terms(self) -> list[int]:
        known = [server.runs.get(RUN) for server in (self.a, self.b)]
        return [0 if run is None or run.host.run is None else run.host.run.head.term for run in known]


def test_who_lost_the_lock_to_another_follows_and_sends_members_there() -> None:
    async def story() -> None:
        async with Two() as two:
            two.seat.taken_by = "b"
            await until(lambda: two.b.serving and not two.a.serving)
            await until(lambda: two.a.runs[RUN].host.phase is Phase.FOLLOWING and two.terms() == [2, 2])
            assert Moved(RUN, 2, "at b") in two.friend.told
            with pytest.raises(Refused, match=r"not_serving"):
                await created(two.a, "more")
            two.seat.taken_by = "a"
            await until(lambda: two.a.serving and not two.b.serving)
            await until(lambda: two.terms() == [3, 3])
            await two.join(2)
            assert two.journals[0].asked_by.isdisjoint({threading.get_ident()}), "never on the loop"

    asyncio.run(story())


def test_a_follower_never_takes_a_run_by_itself() -> None:
    """Its patience with a silent host is 50 ms here; the lock knows better. A timer of its time as a serving host, for
    the next beat, is still there."""

    async def story() -> None:
        async with Two(takeover_us=50_000, stagger_us=1000, beat_us=600_000) as two:
            two.seat.taken_by = "b"
            await until(lambda: two.terms() == [2, 2])
            asked = two.journals[0].asked
            await until(lambda: two.journals[0].asked >= asked + 5)
            assert two.terms() == [2, 2]
            assert not two.a.serving

    asyncio.run(story())


def test_what_nobody_else_took_is_still_served_without_the_lock() -> None:
    async def story() -> None:
        async with Two() as two:
            two.seat.taken_by = "nobody"
            await until(lambda: not two.a.serving)
            await two.join(2)
            two.journals[0].delay = JournalBusy("not now")
            joined = asyncio.ensure_future(two.join(3))
            await until(lambda: two.a.runs[RUN].host.busy())
            two.journals[0].delay = None
            await joined  # the timer that tries again is still there
            two.seat.taken_by = "a"
            await until(lambda: two.a.serving)
            await two.join(4)
            assert two.terms()[0] == 1, "nobody had taken it"

    asyncio.run(story())


def test_who_cannot_ask_for_the_lock_does_not_have_it() -> None:
    async def story() -> None:
        async with Two() as two:
            two.journals[0].cut_off = True
            await until(lambda: not two.a.serving)
            two.journals[0].cut_off = False
            await until(lambda: two.a.serving)
            assert two.terms()[0] == 1

    asyncio.run(story())


def test_the_last_words_of_a_host_that_has_not_noticed_yet_are_taken_over() -> None:
    async def story() -> None:
        async with Two(takeover_us=3_600_000_000) as two:
            two.seat.taken_by = "b"
            await until(lambda: two.b.serving)
            two.a.serving = True  # it believes so for a moment longer
            await created(two.a, "late")
            await until(lambda: "late" in two.b.runs)
            await until(lambda: two.b.runs["late"].host.phase is Phase.SERVING)
            await until(lambda: two.a.runs["late"].host.phase is Phase.FOLLOWING)

    asyncio.run(story())


def test_an_entry_that_cannot_be_read_now_is_written_again() -> None:
    class Unread(MemoryJournal):
        def read(self, run: str, first: int, limit: int = 1000) -> list[bytes]:
            raise JournalBusy("nobody answers")

    assert read_entry(Unread(), "r", 7) == EntryRead(7, None)

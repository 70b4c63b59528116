"""The server host: many runs in one transaction, slow disks, a second server, draining."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from quoracy.bench.load import RUN, Crew
from quoracy.core.errors import EntriesGone, JournalBroken, JournalFull
from quoracy.core.host import Phase
from quoracy.core.journal import RunCreated
from quoracy.core.limits import Limits
from quoracy.core.messages import Answered, Moved, ToMember
from quoracy.hosts.carry import Retention
from quoracy.hosts.log import Log
from quoracy.hosts.server import Server
from quoracy.ports import Append, Outcome
from quoracy.stores import MemoryJournal, SqliteJournal


class Friend:
    """A peer that remembers what it was sent."""

    def __init__(self) -> None:
        self.told: list[ToMember] = []

    def send(self, message: ToMember, _run: str = "") -> None:
        self.told.append(message)

    def flush(self) -> None:
        pass

    def answers(self) -> list[Any]:
        return [message.answer for message in self.told if isinstance(message, Answered)]


class Gated(MemoryJournal):
    """A journal whose writes wait until they are let through, and may be told to fail."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self.together: list[int] = []
        self.trouble: Exception | None = None

    def append(self, wishes: Sequence[Append]) -> list[Outcome]:
        self.gate.wait(20)
        self.together.append(len(wishes))
        if self.trouble is not None:
            raise self.trouble
        return super().append(wishes)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.002)


def quiet() -> Log:
    return Log("error")


async def created(server: Server, name: str = RUN) -> None:
    await server.create(RunCreated(name, "cluster", 1, {}))


def test_what_comes_in_one_turn_shares_an_entry_and_a_burst_shares_the_next() -> None:
    async def story() -> None:
        journal = Gated()
        server = Server(journal, "h1", "here", log=quiet())
        await server.start()
        await created(server)
        friend, crew, run = Friend(), Crew(5), server.runs[RUN]
        for _, message in crew.join():
            server.receive(run, friend, message)
        await until(lambda: len(friend.answers()) == 5)
        assert journal.last(RUN) == 2
        await server.close()

    asyncio.run(story())


def test_many_runs_are_written_in_one_transaction() -> None:
    async def story() -> None:
        journal = Gated()
        server = Server(journal, "h1", "here", log=quiet())
        await server.start()
        for name in ("a", "b", "c", "d"):
            await created(server, name)
        journal.gate.clear()
        friends = {name: Friend() for name in ("a", "b", "c", "d")}
        for name, friend in friends.items():
            for _, message in Crew(2).join():
                server.receive(server.runs[name], friend, message)
        await until(lambda: all(run.host.busy() for run in server.runs.values()))
        journal.gate.set()
        await until(lambda: all(len(friend.answers()) == 2 for friend in friends.values()))
        assert max(journal.together) >= 3
        await server.close()

    asyncio.run(story())


@pytest.mark.parametrize("inline", [True, False])
def test_whoever_waits_for_an_entry_is_told_before_it_is_counted_and_logged(inline: bool) -> None:
    happened: list[str] = []

    class Reader(Friend):
        def flush(self) -> None:
            happened.append("told")

    def noted(what: str, work: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            happened.append(what)
            work(*arguments)

        return call

    async def story() -> None:
        server = Server(MemoryJournal(), "h1", "here", inline=inline, log=Log("info", stream=io.StringIO()))
        await server.start()
        await created(server)
        friend = Reader()
        server.metrics.recorded = noted("counted", server.metrics.recorded)  # type: ignore[method-assign]
        server.chronicle.committed = noted("logged", server.chronicle.committed)  # type: ignore[method-assign]
        for _, message in Crew(2).join():
            server.receive(server.runs[RUN], friend, message)
        await until(lambda: "logged" in happened)
        assert happened[:3] == ["told", "counted", "logged"]
        assert len(friend.answers()) == 2
        await server.close()

    asyncio.run(story())


def test_nobody_is_answered_while_the_disk_is_slow_and_explain_says_so() -> None:
    async def story() -> None:
        journal = Gated()
        server = Server(journal, "h1", "here", log=quiet())
        await server.start()
        await created(server)
        journal.gate.clear()
        friend, run = Friend(), server.runs[RUN]
        for _, message in Crew(1).join():
            server.receive(run, friend, message)
        await until(run.host.busy)
        explanation, overview = await run.explain()
        assert "is being written" in explanation.sentence
        assert overview is None
        assert friend.told == []
        journal.gate.set()
        await until(lambda: len(friend.answers()) == 1)
        await server.close()

    asyncio.run(story())


def test_a_full_disk_is_waited_out_and_nothing_is_lost() -> None:
    async def story() -> None:
        journal = Gated()
        server = Server(journal, "h1", "here", log=quiet())
        await server.start()
        await created(server)
        journal.trouble = JournalFull("no room")
        friend, run = Friend(), server.runs[RUN]
        for _, message in Crew(2).join():
            server.receive(run, friend, message)
        tries = len(journal.together)
        await until(lambda: len(journal.together) > tries + 1)
        assert friend.told == []
        journal.trouble = None
        await until(lambda: len(friend.answers()) == 2)
        await server.close()

    asyncio.run(story())


def test_a_broken_store_stops_the_run_and_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    async def story() -> None:
        journal = Gated()
        server = Server(journal, "h1", "here")
        await server.start()
        await created(server)
        journal.trouble = JournalBroken("fsync failed: EIO")
        friend, run = Friend(), server.runs[RUN]
        for _, message in Crew(1).join():
            server.receive(run, friend, message)
        await until(lambda: run.host.phase is Phase.STOPPED)
        explanation, _ = await run.explain()
        assert "fsync failed: EIO" in explanation.sentence
        assert friend.answers() == []
        await server.close()

    asyncio.run(story())
    assert "fsync failed: EIO" in capsys.readouterr().err


def test_a_second_server_follows_sends_members_on_and_takes_over(tmp_path: Path) -> None:
    async def story() -> None:
        one, two = SqliteJournal(tmp_path), SqliteJournal(tmp_path)
        first = Server(one, "h1", "tcp://first", log=quiet())
        await first.start()
        await created(first)
        second = Server(two, "h2", "tcp://second", log=quiet())
        await second.start()
        assert (first.serving, second.serving) == (True, False)
        friend, crew = Friend(), Crew(2)
        for _, message in crew.join():
            second.receive(second.runs[RUN], friend, message)
        await until(lambda: len(friend.told) == 2)
        assert friend.told == [Moved(RUN, 1, "tcp://first")] * 2
        await first.close()
        one.close()
        await until(lambda: second.serving and second.runs[RUN].host.phase is Phase.SERVING)
        friend.told.clear()
        for _, message in crew.join():
            second.receive(second.runs[RUN], friend, message)
        await until(lambda: len(friend.answers()) == 2)
        assert second.runs[RUN].host.run is not None
        assert second.runs[RUN].host.run.head.term == 2
        await second.close()
        two.close()

    asyncio.run(story())


def test_a_restarted_server_has_all_runs_again(tmp_path: Path) -> None:
    async def story() -> None:
        for life in (1, 2, 3):
            journal = SqliteJournal(tmp_path)
            server = Server(journal, f"h{life}", "here", log=quiet())
            await server.start()
            if life == 1:
                await created(server, "a")
                await created(server, "b")
            await until(lambda server=server: all(r.host.phase is Phase.SERVING for r in server.runs.values()))  # type: ignore[misc]
            terms = [run.host.run.head.term for run in server.runs.values() if run.host.run is not None]
            assert terms == [life, life]
            await server.close()
            journal.close()

    asyncio.run(story())


def test_a_reason_is_logged_once_until_it_changes(capsys: pytest.CaptureFixture[str]) -> None:
    log = Log("info", "json")
    for why in ("w1 is missing", "w1 is missing", "w2 is missing", "w1 is missing"):
        log.once("waiting", RUN, why)
    log.debug("not shown")
    lines = capsys.readouterr().err.splitlines()
    assert ["w1" in line for line in lines] == [True, False, True]


def test_a_server_archives_what_snapshots_cover_and_keeps_as_many_segments_as_it_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        journal = SqliteJournal(tmp_path)
        limits, retention = Limits(snapshot_every=10), Retention(segment_entries=20, keep_segments=2)
        server = Server(journal, "a", "here", log=quiet(), limits=limits, retention=retention)
        await server.start()
        await created(server)
        run, friend, crew = server.runs[RUN], Friend(), Crew(1)
        for said in (crew.join(), crew.ready(), *(crew.work() for _ in range(60))):
            for _, message in said:
                server.receive(run, friend, message)
                await until(lambda: not run.inbox and not run.host.busy())
        await until(lambda: sum(not segment.present for segment in journal.segments(RUN)) >= 2)
        await server.close()
        last, segments = journal.last(RUN), journal.segments(RUN)
        assert [after.first for after in segments[1:]] == [before.last + 1 for before in segments[:-1]]
        assert sum(segment.present for segment in segments) == 2
        assert last - segments[-1].last >= retention.segment_entries
        with pytest.raises(EntriesGone):
            journal.read(RUN, 1, 1)
        journal.close()
        await goes_on_after(tmp_path, last)

    async def goes_on_after(folder: Path, last: int) -> None:
        journal = SqliteJournal(folder)
        server = Server(journal, "b", "here", log=quiet())
        await server.start()
        host = server.runs[RUN].host
        await until(lambda: host.phase is Phase.SERVING)
        assert host.run is not None
        assert host.run.head.n == last + 1
        await server.close()
        journal.close()

    asyncio.run(story())

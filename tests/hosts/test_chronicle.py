"""The log tells each decision once, when it is durable, and each reason to wait once, although time passes."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import pytest
from tests.hosts.test_server import Friend, Gated, created, until

from quoracy.bench.load import RUN, Crew
from quoracy.core.errors import JournalBroken, OutcomeUnknown, Refused
from quoracy.core.host import Phase
from quoracy.core.journal import RunCreated
from quoracy.core.kinds import KINDS
from quoracy.core.machine import Explanation, Wait
from quoracy.core.shell import Tick
from quoracy.hosts.chronicle import LONG_US, MAX_WHY, Chronicle
from quoracy.hosts.log import Log
from quoracy.hosts.server import Server


class Kept:
    def __init__(self, level: str = "info") -> None:
        self._stream = io.StringIO()
        self.log = Log(level, "json", self._stream)

    def lines(self, what: str = "") -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self._stream.getvalue().splitlines()]
        return [line for line in lines if what in ("", line["what"])]


def wait(what: str, *missing: str, waited_us: int = LONG_US) -> Wait:
    return Wait(what, missing, waited_us, 1, "it is lost")


def explain(*waits: Wait, sentence: str = "") -> Explanation:
    return Explanation(sentence or "; ".join(f"{w.what} {w.missing} {w.waited_us}" for w in waits), waits)


def told(*explanations: Explanation) -> list[str]:
    kept = Kept()
    chronicle = Chronicle(kept.log, KINDS)
    for explanation in explanations:
        chronicle.waiting("demo", explanation)
    return [line["why"] for line in kept.lines("explain")]


def test_a_wait_is_told_once_while_only_time_and_counts_change() -> None:
    same = [explain(wait(f"barrier b: {i} of 8", "w1", waited_us=LONG_US + i)) for i in range(5)]
    assert told(*same) == [same[0].sentence]


def test_another_wait_and_the_end_of_waiting_are_told() -> None:
    one, two = explain(wait("barrier b: 3 of 8", "w1", "w2")), explain(wait("barrier b: 4 of 8", "w1"))
    nobody = explain(sentence="waits for nobody")
    assert told(one, two, nobody, nobody, one) == [e.sentence for e in (one, two, nobody, one)]


def test_a_wait_that_has_just_begun_is_not_worth_a_line() -> None:
    young = explain(wait("barrier b", "w1", waited_us=LONG_US - 1))
    assert told(young, explain(sentence="nobody"), young, explain(sentence="nobody")) == ["nobody"]


def test_a_long_reason_is_cut() -> None:
    (why,) = told(explain(wait("x", "w"), sentence="x" * 10_000))
    assert len(why) == MAX_WHY


def test_what_is_not_written_is_not_told_and_what_is_is_told_once() -> None:
    async def story() -> None:
        journal, kept = Gated(), Kept()
        server = Server(journal, "h1", "here", log=kept.log)
        await server.start()
        await created(server)
        friend, run = Friend(), server.runs[RUN]
        journal.gate.clear()
        for _, message in Crew(3).join():
            server.receive(run, friend, message)
        await until(run.host.busy)
        assert kept.lines("worker registered") == []
        journal.gate.set()
        await until(lambda: len(friend.answers()) == 3)
        run.report(Tick())
        members = [line["member"] for line in kept.lines("worker registered")]
        assert members == ["worker-0000", "worker-0001", "worker-0002"]
        assert {line["entry"] for line in kept.lines("worker registered")} == {2}
        assert "nonce" not in kept.lines("worker registered")[0]
        await server.close()

    asyncio.run(story())


def test_an_entry_of_which_nobody_knew_for_a_while_is_told_once_too() -> None:
    async def story() -> None:
        journal, kept = Gated(), Kept()
        server = Server(journal, "h1", "here", log=kept.log)
        await server.start()
        await created(server)
        friend, run = Friend(), server.runs[RUN]
        append = journal.append

        def unsure(wishes: Any) -> Any:
            append(wishes)
            journal.append = append  # type: ignore[method-assign]
            raise OutcomeUnknown("the line went dead")

        journal.append = unsure  # type: ignore[method-assign]
        for _, message in Crew(1).join():
            server.receive(run, friend, message)
        await until(lambda: len(friend.answers()) == 1)
        assert len(kept.lines("worker registered")) == 1
        await server.close()

    asyncio.run(story())


def test_a_run_that_cannot_be_written_is_refused_and_can_be_created_later() -> None:
    async def story() -> None:
        journal, kept = Gated(), Kept()
        server = Server(journal, "h1", "here", log=kept.log)
        await server.start()
        journal.trouble = JournalBroken("fsync failed: EIO")
        with pytest.raises(Refused, match="fsync failed: EIO"):
            await server.create(RunCreated(RUN, "cluster", 1, {}))
        assert kept.lines("run created") == []
        journal.trouble = None
        await created(server)
        assert server.runs[RUN].host.phase is Phase.SERVING
        assert len(kept.lines("run created")) == 1
        await server.close()

    asyncio.run(story())


def test_a_journal_that_cannot_be_read_is_an_error_and_not_a_silence() -> None:
    class Unreadable(Gated):
        def runs(self) -> list[str]:
            raise JournalBroken("no such disk")

    async def story() -> None:
        server = Server(Unreadable(), "h1", "here", log=Kept().log)
        with pytest.raises(JournalBroken, match="no such disk"):
            await asyncio.wait_for(server.start(), 20)
        await server.close()

    asyncio.run(story())

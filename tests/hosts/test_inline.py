"""A host in the caller's thread, on real stores: what was answered is there after it is gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from quoracy.bench.load import RUN, Crew
from quoracy.core.errors import ConfigError
from quoracy.core.limits import Limits
from quoracy.core.members import Accepted
from quoracy.core.messages import Answered, Told
from quoracy.hosts import InlineHost
from quoracy.hosts.inline import HostStopped
from quoracy.ports import Append, Journal
from quoracy.stores import MemoryJournal, SqliteJournal
from quoracy.testing import LostReply


@pytest.fixture(params=["memory", "sqlite"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    opened: Journal = MemoryJournal() if request.param == "memory" else SqliteJournal(tmp_path)
    yield opened
    opened.close()


def served(journal: Journal, workers: int = 3, rounds: int = 0) -> tuple[InlineHost, Crew]:
    host = InlineHost(journal, RUN, limits=Limits(snapshot_every=5))
    host.create("cluster", {"barrier_min": 1})
    crew = Crew(workers)
    host.exchange(crew.join())
    host.exchange(crew.ready())
    for _ in range(rounds):
        host.exchange(crew.work())
    return host, crew


def test_what_comes_together_shares_an_entry(journal: Journal) -> None:
    host, crew = served(journal)
    before = journal.last(RUN)
    host.exchange(crew.work())
    assert journal.last(RUN) == before + 2


def test_every_command_is_answered_and_every_barrier_passed(journal: Journal) -> None:
    host, crew = served(journal)
    sent = host.exchange(crew.work())
    answers = [message.answer for _, message in sent if isinstance(message, Answered)]
    passed = [message for _, message in sent if isinstance(message, Told) and message.topic == "barrier/step"]
    assert len(answers) == 6
    assert all(isinstance(answer, Accepted) for answer in answers)
    assert [message.value.released for message in passed] == [True] * 3


def test_the_next_host_goes_on_where_the_last_one_stopped(journal: Journal) -> None:
    first, crew = served(journal, rounds=4)
    assert first.host.run is not None
    digest = first.host.run.head.digest
    assert journal.load_snapshot(RUN) is not None
    second = InlineHost(journal, RUN, name="next")
    assert second.host.run is not None
    assert second.host.run.head.term == 2
    sent = second.exchange(crew.work())
    assert sum(isinstance(m, Told) and m.topic == "barrier/step" for _, m in sent) == 3
    assert digest != second.host.run.head.digest


def test_a_deposed_host_sends_everyone_on(journal: Journal) -> None:
    first, crew = served(journal)
    InlineHost(journal, RUN, name="next")
    sent = first.exchange(crew.work())
    assert {type(message).__name__ for _, message in sent} == {"Moved"}


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_lost_reply_is_found_out_by_the_nonce(when: Literal["before", "after"]) -> None:
    inner = MemoryJournal()
    lossy = LostReply(inner)
    host, crew = served(lossy)
    lossy.lose_next(when)
    sent = host.exchange(crew.work())
    assert sum(isinstance(message, Answered) for _, message in sent) == 6
    entries = inner.last(RUN)
    assert InlineHost(inner, RUN, name="next").host.run is not None
    assert inner.last(RUN) == entries + 1


def test_explain_says_who_is_missing(journal: Journal) -> None:
    host, crew = served(journal)
    *_, last = list(crew.work())[-3:]
    host.exchange([last])
    explanation = host.explain()
    assert "waits for worker-0000, worker-0001" in explanation.sentence
    assert explanation.waits[0].missing == ("worker-0000", "worker-0001")


def test_a_bad_setting_names_field_value_and_fix(journal: Journal) -> None:
    host = InlineHost(journal, RUN)
    with pytest.raises(ConfigError) as error:
        host.create("cluster", {"max_workers": 0})
    assert (error.value.field, error.value.value) == ("max_workers", 0)
    assert journal.last(RUN) == 0


def test_a_host_that_cannot_read_its_journal_stops_and_says_why() -> None:
    journal = MemoryJournal()
    served(journal)
    other = MemoryJournal()
    for n, payload in enumerate(journal.read(RUN, 1)[:2], start=1):
        other.append([Append(RUN, n, payload if n == 1 else payload[:-3])])
    with pytest.raises(HostStopped, match="entry 2") as error:
        InlineHost(other, RUN)
    assert error.value.code == "journal_corrupt"

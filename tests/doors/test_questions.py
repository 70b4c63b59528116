"""What people and tools ask: pages of the journal, workers of many runs, and orders that may be sent twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.doors.talk import Talk

from quoracy.coordinator import Coordinator
from quoracy.core.errors import Refusal, Refused

RUN = "demo"


def code(work: Callable[[], Any]) -> str:
    with pytest.raises(Refused) as refused:
        work()
    return refused.value.code


def test_the_journal_is_read_page_by_page_in_plain_values(tmp_path: Path) -> None:
    with Coordinator(folder=tmp_path) as coordinator:
        coordinator.create(RUN, barrier_min=1)
        with Talk(coordinator.url) as talk:
            talk.join("w1")
            talk.ready("w1")
        first = coordinator.ask("journal", RUN, limit=2)
        rest = coordinator.ask("journal", RUN, after=first["next"])
        entries = first["entries"] + rest["entries"]
        assert [entry["n"] for entry in entries] == list(range(1, first["last"] + 1))
        assert (first["first"], rest["next"]) == (1, None)
        events = [event for entry in entries for event in entry["events"]]
        assert [e["type"] for e in events] == ["run-created", "host-took", "worker-registered", "worker-ready"]
        assert events[0]["config"]["barrier_min"] == 1
        assert events[2]["cause"] == ["w1", 0, 0]
        assert events[2]["member"] == "w1"
        assert not {"nonce", "proof"} & events[2].keys()
        assert len(entries[0]["digest"]) == 64
        assert coordinator.ask("journal", RUN, after=first["last"])["entries"] == []
        assert code(lambda: coordinator.ask("journal", RUN, limit=0)) == "malformed"
        assert code(lambda: coordinator.ask("journal", RUN, page=1)) == "malformed"
        assert code(lambda: coordinator.ask("journal", "nowhere")) == "unknown_run"


def refused_page(coordinator: Coordinator) -> Refusal | None:
    try:
        coordinator.ask("journal", RUN, limit=1)
    except Refused as error:
        return error.refusal
    return None


def test_what_retention_deleted_is_said_to_be_gone(tmp_path: Path) -> None:
    host = {"snapshot_every": 5, "segment_entries": 5, "keep_segments": 0}
    with Coordinator(folder=tmp_path, host=host) as coordinator:
        coordinator.create(RUN)
        for i in range(40):
            coordinator.ask("order", RUN, command="pause", arguments={"number": i})
        while (refusal := refused_page(coordinator)) is None:
            pass
        assert refusal.code == "entries_gone"
        begins = int(refusal.why.rpartition(" ")[2])
        page = coordinator.ask("journal", RUN, after=begins - 1, limit=1)
        assert page["entries"][0]["n"] >= page["first"] >= begins


def test_workers_of_every_run_or_of_one(tmp_path: Path) -> None:
    with Coordinator(folder=tmp_path) as coordinator:
        for run in ("a", RUN):
            coordinator.create(run)
        with Talk(coordinator.url) as talk:
            talk.join("w1")
        assert [(w["run"], w["id"]) for w in coordinator.ask("workers")] == [(RUN, "w1")]
        assert coordinator.ask("workers", "a") == []


ORDERS: dict[str, dict[str, Any]] = {
    "order": {"command": "pause"},
    "roll-back": {"reason": "bad batch"},
    "stop": {"reason": "enough"},
}


@pytest.mark.parametrize("what", ORDERS)
def test_an_order_sent_again_gets_the_answer_that_was_given_also_after_a_restart(tmp_path: Path, what: str) -> None:
    wish = ORDERS[what] | {"request": "monday-1"}
    other = {"command": "resume"} if what == "order" else {"reason": "another"}
    with Coordinator(folder=tmp_path) as coordinator:
        coordinator.create(RUN)
        given = coordinator.ask(what, RUN, **wish)
        assert coordinator.ask(what, RUN, **wish) == given
    with Coordinator(folder=tmp_path) as coordinator:
        assert coordinator.ask(what, RUN, **wish) == given
        assert code(lambda: coordinator.ask(what, RUN, **(wish | other))) == "contradiction"
        entries = coordinator.ask("journal", RUN)["entries"]
        assert sum(bool(event["cause"]) for entry in entries for event in entry["events"]) == 1


def test_a_run_is_created_once_by_a_request_that_is_sent_twice(tmp_path: Path) -> None:
    wish = {"config": {"barrier_min": 3}, "request": "r1"}
    with Coordinator(folder=tmp_path) as coordinator:
        coordinator.ask("create", RUN, **wish)
    with Coordinator(folder=tmp_path) as coordinator:
        assert coordinator.ask("create", RUN, **wish)["run"] == RUN
        other = wish | {"config": {"barrier_min": 4}}
        assert code(lambda: coordinator.ask("create", RUN, **other)) == "contradiction"
        assert code(lambda: coordinator.ask("create", RUN, **(wish | {"request": "r2"}))) == "run_exists"
        assert code(lambda: coordinator.ask("create", RUN, config={"barrier_min": 3})) == "run_exists"


@pytest.mark.parametrize(
    ("what", "arguments", "named"),
    [
        ("create", {"kind": 3}, "kind"),
        ("create", {"config": "x"}, "config"),
        ("create", {"size": 3}, "size"),
        ("stop", {"reason": "x" * 257}, "reason"),
        ("order", {}, "command"),
        ("order", {"command": "dance"}, "dance"),
        ("order", {"command": "pause", "request": "x" * 129}, "request"),
    ],
)
def test_arguments_that_do_not_fit_are_named(tmp_path: Path, what: str, arguments: dict[str, Any], named: str) -> None:
    with Coordinator(folder=tmp_path) as coordinator:
        coordinator.create(RUN)
        with pytest.raises(Refused, match=named) as refused:
            coordinator.ask(what, "new" if what == "create" else RUN, **arguments)
        assert refused.value.code == "malformed"


def test_a_page_of_large_entries_is_cut_by_bytes_and_the_next_goes_on(tmp_path: Path) -> None:
    with Coordinator(folder=tmp_path) as coordinator:
        coordinator.create(RUN)
        for i in range(12):
            coordinator.ask("order", RUN, command="pause", arguments={str(k): "x" * 2000 for k in range(30)} | {"i": i})
        pages, after = [], 0
        while after is not None:
            page: dict[str, Any] = coordinator.ask("journal", RUN, after=after, limit=1000)
            pages.append([entry["n"] for entry in page["entries"]])
            after = page["next"]
        assert len(pages) > 1
        assert [n for page in pages for n in page] == list(range(1, 14))


def test_a_token_that_only_claims_to_be_a_session_learns_nothing(tmp_path: Path) -> None:
    required = {"tokens": "required"}
    with (
        Coordinator(folder=tmp_path, access=required) as coordinator,
        Talk(coordinator.url, token="qrt1_session_1.x") as talk,
    ):
        refused = talk.ask("status", "")
    assert refused.refusal is not None
    assert refused.refusal.code == "bad_token"

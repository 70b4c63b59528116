"""What may be asked about history: which curves there are, and one of them, over the server's own clock."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest

from quoracy.core.errors import Refused
from quoracy.core.journal import RunCreated
from quoracy.doors.auth import ANYONE
from quoracy.doors.questions_series import SERIES_QUESTIONS
from quoracy.doors.roles import Action
from quoracy.hosts.log import Log
from quoracy.hosts.server import Server
from quoracy.ports import Point
from quoracy.stores import MemoryJournal, MemorySeries


def asked(what: str, run: str = "demo", **arguments: Any) -> Any:
    """Of a server with one run and a curve of it, one point every ten seconds for two hours."""

    async def story() -> Any:
        server = Server(MemoryJournal(), "h1", "here", inline=True, log=Log("error"))
        await server.start()
        await server.create(RunCreated("demo", "cluster", 1, {}))
        series, now_s = MemorySeries(), time.time()
        series.write([Point("demo", "metric.loss", "", now_s - 10 * i, float(i)) for i in range(720)])
        series.write([Point("demo", "step", "w1", now_s, 3.0)])

        def served(name: str) -> Any:
            if name not in server.runs:
                raise Refused(SimpleNamespace(code="unknown_run"))  # type: ignore[arg-type]
            return server.runs[name]

        service: Any = SimpleNamespace(server=server, series=series, served=served)
        try:
            return await SERIES_QUESTIONS[what][1](service, ANYONE, run, arguments)
        finally:
            await server.close()

    return asyncio.run(story())


def test_the_names_of_all_curves() -> None:
    told = asked("series-names")
    assert told["run"] == "demo"
    assert told["series"] == [{"name": "metric.loss", "subject": ""}, {"name": "step", "subject": "w1"}]


def test_a_curve_goes_back_an_hour_unless_it_is_told_how_far() -> None:
    hour, quarter = asked("series", name="metric.loss"), asked("series", name="metric.loss", last_s=900.0)
    assert sum(bucket["count"] for bucket in hour["buckets"]) in (360, 361)
    assert sum(bucket["count"] for bucket in quarter["buckets"]) in (90, 91)
    assert abs(hour["now_s"] - time.time()) < 60
    assert quarter["buckets"][-1].keys() == {"start_s", "width_s", "count", "low", "high", "total", "last"}
    assert quarter["buckets"][-1]["last"] == 0.0


def test_a_curve_between_two_times_in_so_many_points() -> None:
    now_s = time.time()
    told = asked("series", name="metric.loss", since_s=now_s - 7000, until_s=now_s - 3500, max_points=10)
    assert 1 < len(told["buckets"]) <= 10
    assert sum(bucket["count"] for bucket in told["buckets"]) >= 350


def test_a_curve_that_is_not_there_is_empty() -> None:
    assert asked("series", name="metric.loss", subject="nobody")["buckets"] == []


@pytest.mark.parametrize(
    "arguments",
    [
        {}, {"name": ""}, {"name": 5}, {"name": "x" * 129}, {"name": "x", "max_points": 0}, {"name": "x", "last_s": 0},
        {"name": "x", "max_points": 10_001}, {"name": "x", "since_s": -1.0}, {"name": "x", "since_s": float("nan")},
        {"name": "x", "other": 1}, {"name": "x", "since_s": 5.0, "until_s": 1.0},
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused_by_name(arguments: dict[str, Any]) -> None:
    with pytest.raises(Refused) as caught:
        asked("series", **arguments)
    assert caught.value.code == "malformed"


def test_names_take_no_arguments_and_runs_must_be_there() -> None:
    with pytest.raises(Refused) as caught:
        asked("series-names", other=1)
    assert caught.value.code == "malformed"
    for what, arguments in (("series", {"name": "step"}), ("series-names", {})):
        with pytest.raises(Refused) as caught:
            asked(what, "nobody", **arguments)
        assert caught.value.code == "unknown_run"


def test_looking_is_enough() -> None:
    assert {action for action, _ in SERIES_QUESTIONS.values()} == {Action.LOOK}

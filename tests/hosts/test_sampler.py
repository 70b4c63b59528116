"""What is seen of a run once a second: curves of the fleet and of its first workers, and what is never in the way."""

from __future__ import annotations

import asyncio
import io
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from quoracy.bench.load import RUN, Crew
from quoracy.config.settings import SeriesSettings
from quoracy.core.cluster.collect import Collector
from quoracy.core.cluster.events import Heartbeat, WorkerRegistered
from quoracy.core.codec import encode
from quoracy.core.errors import JournalFull
from quoracy.core.host import Phase
from quoracy.core.journal import RunCreated
from quoracy.core.members import Cause
from quoracy.core.messages import Answered, Call, Sign, ToMember
from quoracy.hosts import recorder as recording
from quoracy.hosts.fleet import MAX_METRIC_NAMES
from quoracy.hosts.log import Log
from quoracy.hosts.metrics import Metrics
from quoracy.hosts.recorder import DRIFT_S, TIDY_S, Clocks, Recorder, open_series
from quoracy.hosts.sampler import Sampler
from quoracy.hosts.server import Server
from quoracy.ports import Append, Bucket, Key, Outcome, Point, Series, Tier
from quoracy.stores import MemoryJournal, MemorySeries, SqliteSeries

SIZE = 5


class Friend:
    def __init__(self) -> None:
        self.told: list[ToMember] = []

    def send(self, message: ToMember, _run: str = "") -> None:
        self.told.append(message)

    def flush(self) -> None:
        pass

    def answers(self) -> int:
        return sum(isinstance(message, Answered) for message in self.told)


class Gated(MemoryJournal):
    """Writes wait until they are let through."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()

    def append(self, wishes: Sequence[Append]) -> list[Outcome]:
        self.gate.wait(20)
        return super().append(wishes)


class Scene:
    """A server with five workers, looked at by hand."""

    def __init__(self, series: Series | None = None, **settings: Any) -> None:
        self.journal = Gated()
        self.said = io.StringIO()
        self.log = Log("info", stream=self.said)
        self.server = Server(self.journal, "h1", "here", log=Log("error"))
        self.server.log = self.log
        self.metrics = Metrics()
        self.series = series or MemorySeries()
        self.recorder = Recorder(self.series, self.metrics, self.log, flush_s=0.01)
        self.sampler = Sampler(self.server, self.metrics, self.recorder, SeriesSettings(**settings))
        self.friend, self.crew = Friend(), Crew(SIZE)
        self.began_s = time.time() - 1
        self._seq = 0

    async def __aenter__(self) -> Scene:
        await self.server.start()
        await self.server.create(RunCreated(RUN, "cluster", 1, {}))
        await self.say(self.crew.join())
        await self.say(self.crew.ready())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.journal.gate.set()
        await self.sampler.close()
        await self.server.close()

    async def say(self, messages: Any) -> None:
        wanted = self.friend.answers()
        for _, message in messages:
            wanted += not isinstance(message, Sign)
            self.server.receive(self.server.runs[RUN], self.friend, message)
        await until(lambda: self.friend.answers() == wanted and not self.server.runs[RUN].host.busy())

    async def beat(self, **fields: Callable[[int], Any]) -> None:
        """One heartbeat of each; fields by the worker's number."""
        self._seq += 1
        signs = []
        for i, name in enumerate(self.crew.names):
            beat = Heartbeat(name, 1, self._seq, **{field: value(i) for field, value in fields.items()})
            signs.append((name, Sign.of(RUN, beat)))
        told = len(self.friend.told)
        for _, sign in signs:
            self.server.receive(self.server.runs[RUN], self.friend, sign)
        await until(lambda: len(self.friend.told) >= told + SIZE)

    async def gathered(self) -> None:
        """Some stand at the barrier."""
        desk = self.server.runs[RUN].host.desk
        assert desk is not None
        assert isinstance(desk.collector, Collector)
        gatherings = desk.collector.gatherings
        await until(lambda: "step" in gatherings)

    async def passed(self) -> None:
        """The barrier was released."""
        await until(lambda: any(getattr(message, "topic", "") == "barrier/step" for message in self.friend.told))

    async def look(self) -> None:
        await self.sampler.look()
        await until(lambda: self.recorder.waiting() == 0)

    def one(self, name: str, subject: str = "") -> Bucket:
        """All that is known of it, in one bucket."""
        (bucket,) = self.series.read(RUN, name, subject, self.began_s, time.time() + 1, 1)
        return bucket

    def names(self, subject: str = "") -> set[str]:
        return {name for name, whose in self.series.names(RUN) if whose == subject}


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.002)


def play(story: Callable[[Scene], Any], series: Series | None = None, **settings: Any) -> Scene:
    async def main() -> Scene:
        async with Scene(series, **settings) as scene:
            await story(scene)
        return scene

    return asyncio.run(main())


# -- what is seen --------------------------------------------------------------------------------------------------


def test_a_fleet_has_one_curve_with_its_extremes() -> None:
    async def story(scene: Scene) -> None:
        await scene.beat(step=lambda i: 10 + i, cpu=lambda i: i / 4, metrics=lambda i: {"loss": 2.0 - i / 2})
        await scene.look()

    scene = play(story)
    step, cpu, loss = scene.one("step"), scene.one("cpu"), scene.one("metric.loss")
    assert (step.count, step.low, step.high, step.total) == (SIZE, 10, 14, 60)
    assert (cpu.low, cpu.high, cpu.total) == (0.0, 1.0, 2.5)
    assert (loss.low, loss.high, loss.total) == (0.0, 2.0, 5.0)
    assert scene.one("workers.Idle").last == SIZE
    assert scene.one("heartbeat_age_s").count == SIZE


def test_the_first_ranks_have_curves_of_their_own_with_a_point_for_each_heartbeat() -> None:
    async def story(scene: Scene) -> None:
        await scene.beat(step=lambda i: 1, metrics=lambda i: {"loss": float(i)})
        await scene.look()
        await scene.look()
        await scene.beat(step=lambda i: 3, metrics=lambda i: {"loss": float(i)})
        await scene.look()

    scene = play(story, workers_followed=2)
    first, second, third = scene.crew.names[:3]
    assert (scene.one("step", first).count, scene.one("step", first).last) == (2, 3)
    assert scene.one("metric.loss", second).last == 1.0
    assert scene.names(third) == set()
    assert {"step", "cpu", "memory", "steps_per_s", "progress_per_s", "metric.loss"} <= scene.names(first)
    assert "gpu" not in scene.names(first)


def test_rates_are_what_two_heartbeats_together_tell() -> None:
    async def story(scene: Scene) -> None:
        await scene.beat(step=lambda i: 50, progress=lambda i: 700)
        await scene.look()
        assert "steps_per_s" not in scene.names()
        await scene.beat(step=lambda i: 50 + 10 * i, progress=lambda i: 700 + 100 * i)
        await scene.look()

    scene = play(story)
    rates = [scene.one("steps_per_s", name) for name in scene.crew.names]
    assert rates[0].last == 0.0
    assert rates[1].last > 0.0
    for i in (2, 3, 4):
        assert rates[i].last == pytest.approx(i * rates[1].last, rel=0.2)
        name = scene.crew.names[i]
        assert scene.one("progress_per_s", name).last == pytest.approx(10 * scene.one("steps_per_s", name).last)
    assert scene.one("steps_per_s").high == pytest.approx(rates[4].last)


def test_a_new_life_has_no_speed_until_its_second_heartbeat() -> None:
    async def story(scene: Scene) -> None:
        await scene.beat(step=lambda i: 50)
        await scene.look()
        await scene.beat(step=lambda i: 60)
        await scene.look()
        first = scene.crew.names[0]
        before = scene.one("steps_per_s", first).count
        join = WorkerRegistered(first, 1, bytes(15) + b"x")
        await scene.say([(first, Call(RUN, Cause(first, 1, 0), Raw(encode(join))))])
        told = len(scene.friend.told)
        beat = Heartbeat(first, 2, 1, step=61)
        scene.server.receive(scene.server.runs[RUN], scene.friend, Sign.of(RUN, beat))
        await until(lambda: len(scene.friend.told) > told)
        await scene.look()
        assert scene.one("step", first).last == 61
        assert scene.one("steps_per_s", first).count == before

    play(story)


@pytest.mark.parametrize("end", ["gone", "stopped"])
def test_a_run_that_is_not_served_here_any_more_has_no_workers_here(end: str) -> None:
    async def story(scene: Scene) -> None:
        await scene.look()
        assert "quoracy_workers{" in scene.metrics.render()[0].decode()
        if end == "gone":
            del scene.server.runs[RUN]
        else:
            scene.server.runs[RUN].host.phase = Phase.STOPPED
        await scene.look()
        assert "quoracy_workers{" not in scene.metrics.render()[0].decode()

    play(story)


def test_barriers_are_seen_while_they_wait_and_when_they_are_passed() -> None:
    async def story(scene: Scene) -> None:
        await scene.look()
        work = list(scene.crew.work())
        await scene.say(work[:-1])
        await scene.gathered()
        await scene.look()
        assert scene.one("barrier_waiting_s", "step").last > 0.0
        await scene.say(work[-1:])
        await scene.passed()
        await scene.look()
        await scene.look()

    scene = play(story)
    waits = scene.one("barrier_wait_s", "step")
    assert waits.count == SIZE
    assert waits.low == 0.0
    assert 0.0 < waits.high < 20.0
    assert scene.one("barriers_per_s").high > 0.0


def test_a_state_that_nobody_is_in_any_more_falls_to_zero() -> None:
    async def story(scene: Scene) -> None:
        await scene.look()
        await scene.say(list(scene.crew.work())[:SIZE])
        await scene.look()

    scene = play(story)
    idle, loading = scene.one("workers.Idle"), scene.one("workers.LoadingData")
    assert (idle.low, idle.high) == (0, SIZE)
    assert loading.last == SIZE


def test_prometheus_is_told_of_the_same_look() -> None:
    async def story(scene: Scene) -> None:
        await scene.beat()
        await scene.beat()
        await scene.look()
        scene.metrics.committed(RUN, 0.25)
        await scene.look()

    scene = play(story)
    text = scene.metrics.render()[0].decode()
    assert f'quoracy_heartbeats_total{{run="{RUN}"}} {2.0 * SIZE}' in text
    assert f'quoracy_workers{{run="{RUN}",state="Idle"}} {SIZE}.0' in text
    assert f'quoracy_heartbeat_age_seconds_count{{run="{RUN}"}} {2.0 * SIZE}' in text
    assert 'quoracy_runs{phase="serving"} 1.0' in text
    assert (scene.one("commit_s").count, scene.one("commit_s").last) == (1, 0.25)


def test_a_run_is_not_looked_at_while_something_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quoracy.hosts.sampler.TRIES", 2)

    async def story(scene: Scene) -> None:
        scene.journal.gate.clear()
        for _, message in list(scene.crew.work())[:1]:
            scene.server.receive(scene.server.runs[RUN], scene.friend, message)
        await until(scene.server.runs[RUN].host.busy)
        await scene.look()
        assert scene.names() == set()
        scene.journal.gate.set()
        await until(lambda: not scene.server.runs[RUN].host.busy())
        await scene.look()
        assert "workers.LoadingData" in scene.names()

    play(story)


def test_it_looks_by_itself() -> None:
    async def story(scene: Scene) -> None:
        scene.sampler.start()
        await until(lambda: "workers.Idle" in scene.names())

    play(story, sample_s=0.1)


def test_too_many_names_of_metrics_are_left_out_and_told() -> None:
    async def story(scene: Scene) -> None:
        await scene.beat(metrics=lambda i: {f"m{i}-{k}": 1.0 for k in range(16)})
        await scene.look()

    scene = play(story)
    assert len([name for name in scene.names() if name.startswith("metric.")]) == MAX_METRIC_NAMES
    assert "too many names of metrics" in scene.said.getvalue()


def test_the_page_lists_every_curve() -> None:
    async def story(scene: Scene) -> None:
        await scene.beat(gpu=lambda i: 0.5, metrics=lambda i: {"NAME": 1.0})
        await scene.look()
        await scene.beat(gpu=lambda i: 0.5, metrics=lambda i: {"NAME": 1.0})
        work = list(scene.crew.work())
        await scene.say(work[:-1])
        await scene.gathered()
        scene.metrics.committed(RUN, 0.25)
        await scene.look()
        await scene.say(work[-1:])
        await scene.passed()
        await scene.look()

    scene = play(story)
    seen = {"workers.STATE" if name.startswith("workers.") else name for name, _ in scene.series.names(RUN)}
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[\w.]+`(?:, `[\w.]+`)*) \| [^|]*(?:run|fleet|barrier)", page, re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`([\w.]+)`", row) if not name.startswith("quoracy_")}
    assert listed == seen


# -- the recorder --------------------------------------------------------------------------------------------------


def point(name: str = "loss", value: float = 1.0) -> Point:
    return Point(RUN, name, "", time.time(), value)


class Failing(MemorySeries):
    trouble: Exception | None = None

    def write(self, points: Sequence[Point]) -> list[Key]:
        if self.trouble is not None:
            raise self.trouble
        return super().write(points)


def unkept(metrics: Metrics, why: str) -> float:
    found = metrics.registry.get_sample_value("quoracy_points_not_kept_total", {"why": why})
    assert found is not None
    return found


def test_what_was_handed_over_is_written_before_the_end() -> None:
    series = MemorySeries()
    recorder = Recorder(series, Metrics(), Log("error"), flush_s=60.0)
    for _ in range(10):
        recorder.put([point()])
    recorder.close()
    (bucket,) = series.read(RUN, "loss", "", time.time() - 60, time.time() + 1, 1)
    assert bucket.count == 10
    assert recorder.waiting() == 0


@pytest.mark.parametrize("trouble", [JournalFull("no room on the disk"), ValueError("no such number")])
def test_what_cannot_be_written_is_counted_and_told_once_and_the_next_is_tried(trouble: Exception) -> None:
    said, series, metrics = io.StringIO(), Failing(), Metrics()
    series.trouble = trouble
    recorder = Recorder(series, metrics, Log("info", stream=said), flush_s=0.01)
    for count in (2, 5):
        recorder.put([point()] * (count - (count == 5) * 2))
        wait_for(lambda count=count: unkept(metrics, "cannot be written") == count)
    series.trouble = None
    recorder.put([point()])
    recorder.close()
    assert series.names(RUN) == [("loss", "")]
    assert said.getvalue().count(str(trouble)) == 1


def test_series_without_room_are_counted_and_told_by_name() -> None:
    said, metrics = io.StringIO(), Metrics()
    series = MemorySeries(max_series_per_run=2)
    recorder = Recorder(series, metrics, Log("info", stream=said), flush_s=0.01)
    recorder.put([point("a"), point("b"), point("c"), point("c"), point("a")])
    recorder.close()
    assert unkept(metrics, "no room") == 2
    assert f"c of {RUN}" in said.getvalue()
    assert "series.max_series_per_run" in said.getvalue()


def test_a_disk_that_is_behind_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MAX_WAITING", 10)
    metrics, gate = Metrics(), threading.Event()

    class Slow(MemorySeries):
        def write(self, points: Sequence[Point]) -> list[Key]:
            gate.wait(20)
            return super().write(points)

    recorder = Recorder(Slow(), metrics, Log("error"), flush_s=0.01)
    for _ in range(5):
        recorder.put([point()] * 4)
    assert recorder.waiting() == 8
    assert unkept(metrics, "the disk is behind") == 12
    gate.set()
    recorder.close()
    assert recorder.waiting() == 0


def test_history_is_tidied_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "TIDY_S", 0.0)
    tidied: list[float] = []

    class Watched(MemorySeries):
        def tidy(self, now_s: float) -> None:
            tidied.append(now_s)

    began_s = time.time()
    recorder = Recorder(Watched(), Metrics(), Log("error"), flush_s=0.001)
    recorder.put([point()])
    wait_for(lambda: len(tidied) > 0)
    recorder.close()
    assert began_s <= tidied[0] <= time.time()


def test_a_clock_that_jumps_costs_no_history() -> None:
    clocks = Clocks(1000.0, 0.0)
    assert not clocks.due(1000.0 + TIDY_S - 1, TIDY_S - 1)
    assert clocks.due(1000.0 + TIDY_S, TIDY_S)
    assert not clocks.due(1000.0 + TIDY_S + 1, TIDY_S + 1)
    month_s = 30 * 86_400.0
    assert not clocks.due(1000.0 + 2 * TIDY_S + month_s, 2 * TIDY_S)
    assert not clocks.due(1000.0 + 3 * TIDY_S, 3 * TIDY_S)
    assert clocks.due(1000.0 + 4 * TIDY_S + DRIFT_S / 2, 4 * TIDY_S)
    assert not clocks.due(0.0, 5 * TIDY_S)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


# -- opening -------------------------------------------------------------------------------------------------------


def test_history_lies_beside_the_journal(tmp_path: Path) -> None:
    series = open_series(tmp_path, SeriesSettings(), Log("error"))
    assert isinstance(series, SqliteSeries)
    series.close()
    assert (tmp_path / "series.db").exists()


def test_without_a_folder_it_is_in_memory_and_shorter() -> None:
    series = open_series(None, SeriesSettings(), Log("error"))
    assert isinstance(series, MemorySeries)
    assert series._tiers == (Tier(1, 600), Tier(10, 3600), Tier(60, 14_400), Tier(600, 432_000))


@pytest.mark.parametrize("obstacle", ["newer", "foreign", "no folder"])
def test_whatever_is_there_a_server_gets_a_history(tmp_path: Path, obstacle: str) -> None:
    folder = tmp_path / "quoracy-data"
    if obstacle == "no folder":
        folder.write_text("somebody's notes")
    else:
        SqliteSeries(folder).close()
        with closing(sqlite3.connect(folder / "series.db")) as connection:
            connection.execute("PRAGMA user_version = 9" if obstacle == "newer" else "PRAGMA application_id = 77")
            if obstacle == "foreign":
                connection.execute("DROP TABLE fresh")
    said = io.StringIO()
    series = open_series(folder, SeriesSettings(), Log("info", stream=said))
    assert isinstance(series, MemorySeries)
    series.write([point()])
    series.close()
    assert "this server keeps it in memory only" in said.getvalue()
    assert "aside" not in said.getvalue()
    assert not list(tmp_path.rglob("*aside*"))


def test_a_damaged_history_is_told(tmp_path: Path) -> None:
    (tmp_path / "series.db").write_bytes(b"nonsense" * 1000)
    said = io.StringIO()
    open_series(tmp_path, SeriesSettings(), Log("info", stream=said)).close()
    assert "series.db.aside-1" in said.getvalue()


def test_settings_make_tiers_that_fit_together() -> None:
    settings = SeriesSettings(seconds_kept_s=86_400, tens_kept_s=3600, minutes_kept_s=60)
    assert settings.kept() == ((1, 86_400), (10, 86_400), (60, 86_400), (600, 2_592_000))
    for field in msgspec.structs.fields(SeriesSettings):
        assert field.default is not msgspec.NODEFAULT

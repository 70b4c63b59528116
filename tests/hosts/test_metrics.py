"""What Prometheus is told: every number once, under names that hold, in text that real parsers read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from quoracy.core.cluster.events import BarrierAborted, BarrierReleased, WorkerLost
from quoracy.core.errors import Refusal
from quoracy.core.journal import DutyDone
from quoracy.core.members import Accepted
from quoracy.core.witnessed.events import MemberLost, ResultCommitted, RoundSealed
from quoracy.hosts.metrics import AGE_S, COMMIT_S, OTHER, UNKEPT, WAIT_S, Metrics, Tally

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def families(metrics: Metrics, accept: str = "") -> dict[str, Metric]:
    content, kind = metrics.render(accept)
    parse: Any = parse_openmetrics if "openmetrics" in kind else parse_text
    return {family.name: family for family in parse(content.decode())}


def samples(metrics: Metrics, name: str, accept: str = "") -> dict[tuple[str, ...], float]:
    """By the values of the labels, in order of their names."""
    found = {}
    for family in families(metrics, accept).values():
        for sample in family.samples:
            if sample.name == name:
                found[tuple(value for _, value in sorted(sample.labels.items()))] = sample.value
    return found


def busy() -> Metrics:
    """One of everything."""
    metrics = Metrics()
    metrics.committed("demo", 0.002)
    metrics.recorded("demo", [BarrierReleased("step", 1, 0, [1, 2], [1_000, 70_000])])
    metrics.recorded("demo", [BarrierAborted("step", 2, 0, [1], [2], "late"), WorkerLost("w", 1, 30, "silent")])
    metrics.answered(Accepted(3))
    metrics.answered(Refusal("wrong_state", "no", "wait"))
    metrics.heard("demo", 7)
    metrics.aged("demo", [0.3, 4.0, 40.0, 400.0])
    metrics.counted("demo", {"Training": 3, "Failed": 1})
    metrics.counted_participants("fed", {"Waiting": 2})
    metrics.rounds_over("fed", [0.7, 4000.0])
    metrics.recorded(
        "fed", [DutyDone(4, 0, {"ok": True}), DutyDone(5, 0, {"ok": False}), DutyDone(6, 0, {"weights": ""})]
    )
    metrics.counted_members("wit", {"InStep": 3, "Lost": 1})
    metrics.recorded("wit", [ResultCommitted("m1", 1, 0, 0, 0, 1, bytes(32), 9, bytes(32), 32)])
    metrics.recorded("wit", [RoundSealed(0, 0, (), (), ()), RoundSealed(0, 1, (), (), (), late=True)])
    metrics.recorded("wit", [MemberLost("m2", 1, 30, "silent")])
    metrics.relayed("wit", "in", 5)
    metrics.phased({"serving": 2, "following": 1})
    metrics.unkept("no room", 5)
    metrics.watch("connections", "tcp", lambda: 4)
    metrics.watch("queue", "history", lambda: 12)
    return metrics


@pytest.mark.parametrize("accept", ["", OPENMETRICS, "text/plain; version=0.0.4", "*/*"])
def test_everything_that_is_counted_is_told(accept: str) -> None:
    metrics = busy()
    assert samples(metrics, "quoracy_heartbeats_total", accept) == {("demo",): 7}
    assert samples(metrics, "quoracy_entries_total", accept) == {("demo",): 1}
    assert samples(metrics, "quoracy_members_lost_total", accept) == {("demo",): 1, ("wit",): 1}
    assert samples(metrics, "quoracy_members", accept) == {("wit", "InStep"): 3, ("wit", "Lost"): 1}
    assert samples(metrics, "quoracy_results_total", accept) == {("wit",): 1}
    assert samples(metrics, "quoracy_rounds_sealed_total", accept) == {("early", "wit"): 1, ("late", "wit"): 1}
    assert samples(metrics, "quoracy_commands_total", accept) == {("accepted",): 1, ("wrong_state",): 1}
    assert samples(metrics, "quoracy_updates_total", accept) == {("admitted", "fed"): 1, ("refused", "fed"): 1}
    assert samples(metrics, "quoracy_participants", accept) == {("fed", "Waiting"): 2}
    assert samples(metrics, "quoracy_barriers_total", accept) == {("released", "demo"): 1, ("aborted", "demo"): 1}
    assert samples(metrics, "quoracy_workers", accept) == {("demo", "Training"): 3, ("demo", "Failed"): 1}
    assert samples(metrics, "quoracy_runs", accept) == {("serving",): 2, ("following",): 1}
    assert samples(metrics, "quoracy_connections", accept) == {("tcp",): 4}
    assert samples(metrics, "quoracy_queue_length", accept) == {("history",): 12}
    unkept = dict.fromkeys(((why,) for why in UNKEPT), 0) | {("no room",): 5}
    assert samples(metrics, "quoracy_points_not_kept_total", accept) == unkept
    assert samples(metrics, "quoracy_commit_seconds_count", accept) == {(): 1}
    assert samples(metrics, "quoracy_barrier_wait_seconds_count", accept) == {("demo",): 2}
    assert samples(metrics, "quoracy_barrier_wait_seconds_sum", accept) == {("demo",): pytest.approx(0.071)}
    assert samples(metrics, "quoracy_heartbeat_age_seconds_count", accept) == {("demo",): 4}
    assert samples(metrics, "process_open_fds", accept)[()] > 0


def test_who_asks_for_openmetrics_gets_it() -> None:
    metrics = busy()
    content, kind = metrics.render(OPENMETRICS)
    assert content.endswith(b"# EOF\n")
    assert kind.startswith("application/openmetrics-text")
    content, kind = metrics.render("text/html")
    assert b"# EOF" not in content
    assert kind.startswith("text/plain; version=0.0.4")


@pytest.mark.parametrize("accept", ["", OPENMETRICS])
def test_names_are_as_prometheus_wants_them(accept: str) -> None:
    """The rules of promtool's linter: help for each, base units, _total for counters and for nothing else."""
    for name, family in families(busy(), accept).items():
        assert re.fullmatch(r"(quoracy|process)_[a-z_]+", name), name
        assert family.documentation, name
        assert not re.search(r"_(ms|milliseconds|us|kb|mb|minutes|count|sum|bucket|total)$", name), name
        for sample in family.samples:
            if family.type == "counter":
                assert sample.name.endswith("_total"), sample
            assert not {"le", "quantile"} & sample.labels.keys() or family.type == "histogram", sample


def test_a_histogram_counts_upto_each_bound() -> None:
    metrics = Metrics()
    metrics.aged("demo", [0.1, 0.2, 30.0, 100.0])
    found = samples(metrics, "quoracy_heartbeat_age_seconds_bucket")
    by_bound = {float(bound): count for bound, _ in found for count in [found[bound, "demo"]]}
    assert by_bound[0.1] == 1
    assert by_bound[0.25] == 2
    assert by_bound[25.0] == 2
    assert by_bound[30.0] == 3
    assert by_bound[60.0] == 3
    assert by_bound[float("inf")] == 4
    assert sorted(by_bound.values()) == [by_bound[bound] for bound in sorted(by_bound)]


@given(st.lists(st.one_of(st.floats(0, 1000), st.sampled_from(AGE_S))))
def test_many_at_once_are_counted_as_each_alone(values: list[float]) -> None:
    together, alone = Tally(AGE_S), Tally(AGE_S)
    together.add_all(values)
    for value in values:
        alone.add(value)
    assert together.counts == alone.counts
    assert sum(together.counts) == len(values)
    assert together.total == pytest.approx(alone.total)


@pytest.mark.parametrize("bounds", [AGE_S, WAIT_S, COMMIT_S])
def test_bounds_rise(bounds: tuple[float, ...]) -> None:
    assert list(bounds) == sorted(set(bounds))


def test_further_runs_are_counted_together() -> None:
    metrics = Metrics(max_runs=3)
    for i in range(10):
        metrics.heard(f"run-{i}", 1)
        metrics.counted(f"run-{i}", {"Training": 2})
        metrics.aged(f"run-{i}", [1.0])
    expected = {("run-0",): 1, ("run-1",): 1, ("run-2",): 1, (OTHER,): 7}
    assert samples(metrics, "quoracy_heartbeats_total") == expected
    assert samples(metrics, "quoracy_workers")[OTHER, "Training"] == 14
    assert samples(metrics, "quoracy_heartbeat_age_seconds_count")[OTHER,] == 7


def test_codes_that_nobody_knows_make_no_new_lines() -> None:
    metrics = Metrics()
    for i in range(50):
        metrics.answered(Refusal(f"made-up-{i}", "", ""))
    assert samples(metrics, "quoracy_commands_total") == {(OTHER,): 50}


def test_a_run_with_an_odd_name_is_escaped() -> None:
    metrics = Metrics()
    odd = 'a "quoted" \\ name\nwith é'
    metrics.heard(odd, 1)
    for accept in ("", OPENMETRICS):
        assert samples(metrics, "quoracy_heartbeats_total", accept) == {(odd,): 1}


def test_commits_are_handed_over_once() -> None:
    metrics = Metrics()
    assert metrics.take_commits("demo") is None
    for seconds in (0.5, 0.25, 1.0):
        metrics.committed("demo", seconds)
    commits = metrics.take_commits("demo")
    assert commits is not None
    assert (commits.count, commits.low, commits.high, commits.total) == (3, 0.25, 1.0, 1.75)
    assert metrics.take_commits("demo") is None
    assert samples(metrics, "quoracy_commit_seconds_count") == {(): 3}


def test_a_run_that_is_gone_has_no_workers() -> None:
    metrics = busy()
    metrics.gone("demo")
    assert samples(metrics, "quoracy_workers") == {}
    assert samples(metrics, "quoracy_heartbeats_total") == {("demo",): 7}


def test_two_servers_in_one_process_count_for_themselves() -> None:
    one, other = busy(), Metrics()
    assert samples(one, "quoracy_heartbeats_total") == {("demo",): 7}
    assert samples(other, "quoracy_heartbeats_total") == {}


def test_the_page_lists_every_metric_with_its_type_and_labels() -> None:
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(quoracy_\w+)` \| (\w+) \| ([^|]*)\|", page, re.MULTILINE)
    listed = {(name, kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    told = set()
    for family in busy().collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        told.add((name, family.type, tuple(sorted(labels, key=("run", *sorted(labels)).index))))
    assert listed == told

"""Curves in the terminal: they show what was measured, fit, and are missing where there is nothing to show."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.cli.test_pages import BIG, barrier, fleet, printed, worker

from quoracy.cli.curves import COLUMNS, LEVELS, Curve, Curves, curve_table, number, pick_metric, spark
from quoracy.cli.top import Looked, page
from quoracy.core.errors import Refusal, Refused

NOW_S = 1_700_000_000.0


def bucket(start_s: float, width_s: int, mean: float, count: int = 1, spread: float = 0.0) -> dict[str, Any]:
    return {
        "start_s": start_s, "width_s": width_s, "count": count, "low": mean - spread, "high": mean + spread,
        "total": mean * count, "last": mean,
    }  # fmt: skip


def falling(name: str = "metric.loss", called: str = "loss", span_s: float = 900.0) -> Curve:
    steps = int(span_s // 10)
    buckets = [bucket(NOW_S - span_s + 10 * i, 10, 2 * math.exp(-i / 20), 3, 0.01) for i in range(steps)]
    return Curve(name, called, buckets, NOW_S, span_s)


SPEED = Curve("steps_per_s", "steps/s", falling().buckets, NOW_S, 900.0)


# -- one curve -----------------------------------------------------------------------------------------------------


def test_the_highest_is_highest_and_what_is_not_known_is_not_drawn() -> None:
    assert spark([0.0, None, 1.0, 0.5]) == f"{LEVELS[0]} {LEVELS[-1]}{LEVELS[4]}"
    assert spark([7.0, 7.0]) == LEVELS[3] * 2
    assert spark([None, None]) == "  "
    assert spark([float(i) for i in range(8)]) == LEVELS


def test_columns_are_means_of_all_that_falls_into_them() -> None:
    curve = Curve("x", "x", [bucket(0, 1, 1.0), bucket(1, 1, 3.0, 3), bucket(8, 1, 5.0)], 10.0, 10.0)
    assert curve.means(5) == [2.5, None, None, None, 5.0]


def test_a_bucket_wider_than_a_column_fills_all_of_them() -> None:
    curve = Curve("x", "x", [bucket(0, 60, 2.0), bucket(60, 60, 4.0)], 90.0, 90.0)
    assert curve.means(9) == [2.0] * 6 + [4.0] * 3


def test_what_lies_outside_is_cut_off() -> None:
    curve = Curve("x", "x", [bucket(-30, 10, 9.0), bucket(-5, 10, 1.0), bucket(95, 10, 2.0)], 100.0, 100.0)
    assert curve.means(10) == [1.0] + [None] * 8 + [2.0]


@pytest.mark.parametrize(
    ("value", "text"), [(0.0294211, "0.02942"), (12345.6, "12,346"), (0.0, "0"), (1e300, "1e+300"), (-3.5, "-3.5")]
)
def test_numbers_have_a_few_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_a_line_says_where_the_curve_stands_and_between_what() -> None:
    (line,) = printed(curve_table([falling()], 120), 120)
    newest = 2 * math.exp(-89 / 20)
    assert line.startswith("loss")
    assert number(newest) in line
    assert f"{number(newest - 0.01)} to 2.01 in 15 min" in line
    drawn = [mark for mark in line if mark in LEVELS]
    assert len(drawn) == min(COLUMNS, 120 - 62)
    assert drawn == sorted(drawn, reverse=True)


def test_a_curve_without_numbers_has_no_line() -> None:
    empty = Curve("metric.loss", "loss", [], NOW_S, 900.0)
    assert curve_table([empty], 80) is None
    assert curve_table([], 80) is None
    both = curve_table([empty, falling()], 80)
    assert both is not None
    assert both.row_count == 1


# -- on the page ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("height", [10, 16, 24, 40])
@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_a_page_with_curves_fits_any_terminal(width: int, height: int) -> None:
    curves = [SPEED, falling(called="a_metric_with_quite_a_long_name")]
    lines = printed(page(BIG, height, {"step": 3.2}, "the coordinator is gone", curves), width, height)
    assert len(lines) <= height
    assert max(len(line) for line in lines) <= width
    assert any(LEVELS[-1] in line for line in lines) == (height >= 16)


def test_a_wide_page_shows_the_metric_of_each_worker() -> None:
    shown = fleet([worker(0, metrics={"loss": 0.123456}), worker(1, "Failed", metrics={"loss": 0.777})], [barrier()])
    lines = printed(page(shown, 24, curves=[SPEED, falling()]), 120)
    assert any("worker-0000" in line and "0.1235" in line for line in lines)
    assert not any("0.777" in line for line in lines)
    narrow = printed(page(shown, 24, curves=[SPEED, falling()]), 80)
    assert not any("worker-0000" in line and "0.1235" in line for line in narrow)


def test_curves_stay_while_the_coordinator_is_away() -> None:
    looked = Looked(fleet([worker(0)], []), curves=[falling()]).in_trouble("gone")
    assert any(LEVELS[-1] in line for line in printed(looked))
    assert any(LEVELS[-1] in line for line in printed(looked.again(fleet([worker(0)], []), [falling()])))


# -- asking --------------------------------------------------------------------------------------------------------


class Told:
    """A coordinator that keeps some curves, or none."""

    def __init__(self, names: list[tuple[str, str]] | None, code: str = "malformed") -> None:
        self.names = names
        self.code = code
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def ask(self, what: str, run: str, **arguments: Any) -> Any:
        assert run == "demo"
        self.asked.append((what, arguments))
        if self.names is None:
            raise Refused(Refusal(self.code, f"{what!r} cannot be asked", ""))
        if what == "series-names":
            return {"series": [{"name": name, "subject": subject} for name, subject in self.names]}
        return {"buckets": [bucket(NOW_S - 5, 1, 2.0)], "now_s": NOW_S}


def curves(told: Told, metric: str = "") -> list[str]:
    return [curve.called for curve in Curves(told, "demo", metric, 900.0).look()]  # type: ignore[arg-type]


def test_the_speed_and_the_loss_are_asked_for() -> None:
    told = Told([("metric.loss", ""), ("metric.lr", ""), ("metric.loss", "w1"), ("steps_per_s", ""), ("cpu", "")])
    assert curves(told) == ["steps/s", "loss"]
    assert [arguments["name"] for what, arguments in told.asked if what == "series"] == ["steps_per_s", "metric.loss"]
    assert all(arguments["last_s"] == 900.0 for what, arguments in told.asked if what == "series")
    assert curves(told, "lr") == ["steps/s", "lr"]
    assert curves(told, "nothing") == ["steps/s"]


def test_a_curve_of_one_worker_is_not_the_fleets() -> None:
    assert curves(Told([("metric.loss", "w1"), ("steps_per_s", "w1")])) == []


def test_a_coordinator_without_history_has_no_curves_and_others_say_why() -> None:
    assert curves(Told(None)) == []
    with pytest.raises(Refused):
        curves(Told(None, "forbidden"))


def test_curves_are_not_asked_for_at_every_look() -> None:
    told = Told([("steps_per_s", "")])
    looking = Curves(told, "demo", "", 900.0)  # type: ignore[arg-type]
    assert looking.look() is looking.look()
    assert len(told.asked) == 2


@pytest.mark.parametrize(
    ("metrics", "wanted", "picked"),
    [
        (["accuracy", "loss"], "", "loss"),
        (["accuracy", "train/loss", "eval_loss"], "", "eval_loss"),
        (["b", "a"], "", "a"),
        ([], "", ""),
        (["loss", "a"], "a", "a"),
        (["loss"], "a", ""),
    ],
)
def test_which_metric_is_drawn(metrics: list[str], wanted: str, picked: str) -> None:
    assert pick_metric(metrics, wanted) == picked

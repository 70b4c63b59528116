"""Settings: what cannot work is said before a run begins, all of it at once."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.federated.study import Study
from tests.core.scribe import created

from quoracy.core.errors import ConfigErrors
from quoracy.core.federated.config import Config, check_config
from quoracy.core.kinds import KINDS
from quoracy.core.run import Run


def problems(config: dict[str, Any]) -> str:
    with pytest.raises(ConfigErrors) as raised:
        Run.create(KINDS, created("federated", config))
    return str(raised.value)


def test_the_defaults_are_sound() -> None:
    check_config(Config())
    assert (Config().heartbeat_interval_s, Config().heartbeat_timeout_s) == (5.0, 15.0)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"heartbeat_interval_s": 8.0}, "heartbeat_timeout_s = 15.0: at least twice heartbeat_interval_s (8.0)"),
        ({"clients": 5, "max_participants": 4}, "clients = 5: at most max_participants (4)"),
        ({"per_round": 5, "max_participants": 4}, "per_round = 5: at most max_participants (4)"),
        ({"over_select": 0.5}, "over_select = 0.5: 0, or set per_round"),
        ({"count_min": 6, "per_round": 5}, "count_min = 6: at most per_round (5)"),
        ({"count_min": 6, "max_participants": 5}, "count_min = 6: at most max_participants (5)"),
        ({"count_min": 4, "count_max": 3, "per_round": 5}, "count_max = 3: at least count_min (4), or 0"),
        ({"time_min_s": 5.0, "time_max_s": 4.0}, "time_min_s = 5.0: at most time_max_s (4.0)"),
        ({"clients": 2, "aggregation": {"rule": "median"}}, "a round may close with 2"),
        ({"clients": 9, "count_max": 2, "aggregation": {"rule": "median"}}, "a round may close with 2"),
        ({"clients": 9, "count_min": 1, "aggregation": {"rule": "median"}}, "a round may close with 1"),
    ],
)
def test_what_cannot_work_is_named_with_field_value_and_fix(config: dict[str, Any], said: str) -> None:
    assert said in problems(config)


@pytest.mark.parametrize(
    "config",
    [
        {"clients": 0}, {"clients": 10_001}, {"rounds": 0}, {"epochs": 0}, {"per_round": -1}, {"over_select": -0.1},
        {"time_max_s": 0}, {"standby_max_s": 0}, {"initial": "xyz"}, {"initial": "A" * 64}, {"evaluation": "no colon"},
        {"evaluation": "module:"}, {"early_stop": {"patience": 0}}, {"early_stop": {"better": "more"}},
        {"norm_bound": -1}, {"max_update_bytes": 0}, {"refused_max": 0}, {"seed": -1}, {"hyper": {"lr": [1]}},
        {"hyper_steps": [{"round": 0}]}, {"aggregation": {"rule": "none"}}, {"unknown": 1},
    ],
)  # fmt: skip
def test_what_is_no_such_setting_is_named(config: dict[str, Any]) -> None:
    (field,) = config
    assert field in problems(config)


def test_a_hyper_parameter_that_the_rule_sets_is_not_set_beside_it() -> None:
    steps = [{"round": 1, "hyper": {"lr": 0.1}}, {"round": 2, "hyper": {"mu": 7}}]
    prox = {"hyper": {"mu": 5, "lr": 0.1}, "hyper_steps": steps, "aggregation": {"rule": "fedprox", "mu": 0.25}}
    said = problems(prox)
    assert "hyper.mu = 5: aggregation.mu = 0.25 is what counts: leave this out" in said
    assert "hyper_steps[1].hyper.mu = 7: aggregation.mu = 0.25 is what counts" in said
    assert "lr" not in said
    Run.create(KINDS, created("federated", prox | {"aggregation": {"rule": "fedavg"}}))


# -- rules that compare each with each -----------------------------------------------------------------------------

COMPARING: list[dict[str, Any]] = [{"rule": "krum"}, {"rule": "multi_krum"}, {"rule": "bulyan"}]


@pytest.mark.parametrize("aggregation", COMPARING, ids=lambda rule: rule["rule"])
@pytest.mark.parametrize(
    ("config", "most"),
    [
        ({}, 10_000),
        ({"max_participants": 1001}, 1001),
        ({"per_round": 1001}, 1001),
        ({"count_max": 1001}, 1001),
        ({"count_max": 20, "time_min_s": 1.0}, 10_000),
        ({"per_round": 600, "over_select": 0.7, "time_min_s": 1.0}, 1020),
    ],
)
def test_the_largest_round_that_can_come_is_not_too_large_to_be_compared(
    aggregation: dict[str, Any], config: dict[str, Any], most: int
) -> None:
    said = problems({"clients": 20, "aggregation": aggregation} | config)
    assert f"aggregation.rule = {aggregation['rule']!r}: a round may close with {most}, " in said
    assert "at most 1000 as per_round, max_participants, or count_max with time_min_s = 0" in said


@pytest.mark.parametrize("aggregation", COMPARING, ids=lambda rule: rule["rule"])
@pytest.mark.parametrize(
    "config",
    [
        {"max_participants": 1000}, {"per_round": 1000}, {"count_max": 1000}, {"per_round": 600, "over_select": 0.7},
        {"per_round": 600, "over_select": 0.6, "time_min_s": 1.0}, {"per_round": 20, "count_max": 5000},
    ],
)  # fmt: skip
def test_a_round_that_stays_small_enough_is_taken(aggregation: dict[str, Any], config: dict[str, Any]) -> None:
    Run.create(KINDS, created("federated", {"clients": 20, "aggregation": aggregation} | config))


def test_a_host_creates_no_such_run() -> None:
    with pytest.raises(ConfigErrors, match="a round may close with 10000"):
        Study(clients=20, aggregation={"rule": "krum"})


def test_everything_that_is_wrong_is_said_at_once() -> None:
    said = problems({"clients": 5, "max_participants": 4, "time_min_s": 9.0, "time_max_s": 1.0, "over_select": 1.0})
    assert [field in said for field in ("clients", "time_min_s", "over_select")] == [True] * 3

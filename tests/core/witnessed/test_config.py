"""Settings of a witnessed run: what is wrong is said at once, with field, value and a value that would do."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import pytest
from tests.core.scribe import created

from quoracy.core.bounds import share
from quoracy.core.errors import ConfigError, ConfigErrors
from quoracy.core.kinds import KINDS
from quoracy.core.run import Run
from quoracy.core.witnessed.config import Config, DataSource, check_config


def wrong(**settings: Any) -> list[tuple[str, Any, str]]:
    """Field, value and way out of each setting that is wrong."""
    try:
        Run.create(KINDS, created("witnessed", settings))
    except ConfigErrors as errors:
        return [(problem.field, problem.value, problem.fix) for problem in errors.problems]
    return []


def test_the_defaults_are_good_and_those_of_the_specification() -> None:
    config = Config()
    check_config(config)
    assert (config.min_clients, config.least_first, config.max_clients) == (1, 1, 256)
    assert (config.warmup_s, config.cooldown_s, config.round_train_max_s, config.round_witness_s) == (60, 60, 300, 10)
    assert (config.waiting_extra_s, config.rounds_per_epoch, config.witness_nodes, config.strikes_max) == (3, 20, 0, 2)
    assert (config.share, config.attestation, config.verification_percent) == (Fraction(2, 3), "bitmap", 0)
    assert (config.heartbeat_interval_s, config.heartbeat_timeout_s) == (5, 30)


def test_init_min_clients_is_min_clients_unless_it_is_given() -> None:
    assert Config(min_clients=3).least_first == 3
    assert Config(min_clients=3, init_min_clients=5).least_first == 5


@pytest.mark.parametrize(
    ("settings", "field", "would_do"),
    [
        ({"witness_quorum": "2/0"}, "witness_quorum", '"2/3" or 0.67'),
        ({"witness_quorum": "most"}, "witness_quorum", '"2/3" or 0.67'),
        ({"witness_quorum": 0.0}, "witness_quorum", "above 0"),
        ({"witness_quorum": "4/3"}, "witness_quorum", "up to 1"),
        ({"verification_percent": 5}, "verification_percent", "0:"),
        ({"data": {"kind": "door"}}, "data.location", 'kind = "local"'),
        ({"min_clients": 3, "init_min_clients": 2}, "init_min_clients", "at least min_clients (3)"),
        ({"min_clients": 4, "max_clients": 3}, "min_clients", "at most max_clients (3)"),
        ({"init_min_clients": 4, "max_clients": 3}, "init_min_clients", "at most max_clients (3)"),
        ({"witness_nodes": 3, "min_clients": 2}, "witness_nodes", "at most min_clients (2)"),
        ({"heartbeat_timeout_s": 9.0}, "heartbeat_timeout_s", "at least twice heartbeat_interval_s (5)"),
        ({"deadline_floor_s": 20.0, "round_train_max_s": 10.0}, "deadline_floor_s", "at most round_train_max_s (10)"),
        ({"rounds_per_epoch": 0}, "rounds_per_epoch", "or set epoch_s"),
        ({"epoch_s": 60.0}, "warmup_s", "less than epoch_s (60)"),
        (
            {"rounds_per_epoch": 1, "round_train_max_s": 40.0, "round_witness_s": 20.0},
            "warmup_s", "less than the rounds of an epoch can take together (60)",
        ),
        ({"min_clients": 9}, "global_batch_size_start", "at least 257: 9 members need"),
        ({"init_min_clients": 9}, "global_batch_size_start", "at least 257: 9 members need"),
        ({"global_batch_size_end": 31, "ramp_steps": 5, "min_clients": 2}, "global_batch_size_end", "at least 33"),
        ({"global_batch_size_end": 512}, "ramp_steps", "at least 1: over how many steps"),
        ({"ramp_steps": 10}, "ramp_steps", "0, or a global_batch_size_end other"),
        ({"global_batch_size_start": 2**40, "batch_size": 1}, "global_batch_size_start", "at most 2147483648 batches"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_value_and_a_way_out(
    settings: dict[str, Any], field: str, would_do: str
) -> None:
    (problem,) = wrong(**settings)
    assert problem[0] == field
    value: Any = msgspec.to_builtins(Config()) | settings
    for part in field.split("."):
        value = value.get(part, "")
    assert problem[1] == value
    assert would_do in problem[2]


def test_everything_that_is_wrong_is_said_at_once() -> None:
    settings: dict[str, Any] = {
        "witness_quorum": "none", "verification_percent": 1, "witness_nodes": 2, "heartbeat_timeout_s": 1.0,
        "rounds_per_epoch": 0, "global_batch_size_end": 512, "data": {"kind": "door"},
    }  # fmt: skip
    fields = {field for field, _, _ in wrong(**settings)}
    assert fields == {
        "witness_quorum", "verification_percent", "witness_nodes", "heartbeat_timeout_s", "rounds_per_epoch",
        "ramp_steps", "data.location",
    }  # fmt: skip


def test_types_and_ranges_are_said_at_once_too() -> None:
    found = wrong(min_clients=0, warmup_s="long", attestation="smoke", bloom_false_positives=0.0, nonsense=1)
    assert [field for field, _, _ in found] == [
        "min_clients", "warmup_s", "attestation", "bloom_false_positives", "nonsense",
    ]  # fmt: skip
    assert "one of: bitmap, bloom" in found[2][2]


def test_shares_are_exact() -> None:
    assert share("2/3") == share(" 2 / 3 ") == Fraction(2, 3)
    assert share(0.67) == Fraction(67, 100)
    assert share("0.67") == Fraction(67, 100)
    assert share(1) == 1
    with pytest.raises(ValueError, match="no share"):
        share("two thirds")


def test_a_ramp_goes_from_start_to_end_in_whole_batches() -> None:
    config = Config(batch_size=10, global_batch_size_start=100, global_batch_size_end=300, ramp_steps=4)
    assert [config.batches_at(step) for step in range(7)] == [10, 15, 20, 25, 30, 30, 30]
    down = Config(batch_size=10, global_batch_size_start=300, global_batch_size_end=100, ramp_steps=4)
    assert [down.batches_at(step) for step in (0, 2, 4, 9)] == [30, 20, 10, 10]
    flat = Config(batch_size=10, global_batch_size_start=95)
    assert {flat.batches_at(step) for step in (0, 1, 1000)} == {10}


def test_data_may_come_from_the_door() -> None:
    check_config(Config(data=DataSource("door", "digits")))
    with pytest.raises(ConfigError):
        check_config(Config(data=DataSource("door")))

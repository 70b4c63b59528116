"""The settings of the rules, and which of them would not do what they promise."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quoracy.core.federated.aggregation import (
    MAX_COMPARED,
    Aggregation,
    Bulyan,
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedProx,
    FedYogi,
    Krum,
    Median,
    MultiKrum,
    Own,
    TrimmedMean,
    client_hyper,
    problems,
    trimmed,
)
from quoracy.core.wanted import wrong_settings

EVERY: list[Any] = [
    FedAvg(), FedAvgM(), FedAdam(), FedYogi(), FedAdagrad(), FedProx(), Median(), TrimmedMean(), Krum(), MultiKrum(),
    Bulyan(), Own("module:Class", {"deep": 1}),
]  # fmt: skip


class Config(msgspec.Struct):
    aggregation: Aggregation = FedAvg()


@pytest.mark.parametrize("settings", EVERY, ids=lambda s: s.__struct_config__.tag)
def test_every_rule_is_written_and_read_by_its_name(settings: Any) -> None:
    plain = msgspec.json.decode(msgspec.json.encode(settings))
    assert plain["rule"] == settings.__struct_config__.tag
    assert msgspec.convert(plain, Aggregation) == settings
    assert problems(settings, 20, 100) == []


def test_every_rule_is_tried_here() -> None:
    assert {type(settings) for settings in EVERY} == set(Aggregation.__args__)


NAMES = "fedavg, fedavgm, fedadam, fedyogi, fedadagrad, fedprox, median, trimmed_mean, krum, multi_krum, bulyan, own"
PLACE = "a text of at most 255 characters that matches ^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$"


@pytest.mark.parametrize(
    ("plain", "why"),
    [
        ({"rule": "fedavgg"}, f"rule = 'fedavgg': one of: {NAMES}"),
        ({"rule": "fedavgm", "server_lr": 0}, "server_lr = 0: a number of at most 1000 and above 0"),
        ({"rule": "fedavgm", "momentum": 1}, "momentum = 1: a number of at least 0 and below 1"),
        ({"rule": "fedadam", "tau": 0}, "tau = 0: a number of at most 1 and above 0"),
        (
            {"rule": "fedadagrad", "beta2": 0.9},
            "beta2 = 0.9: there is no such setting; did you mean beta1? there are: server_lr, beta1, tau",
        ),
        ({"rule": "krum", "byzantine": -1}, "byzantine = -1: a whole number from 0 to 10000"),
        ({"rule": "krum", "f": 1}, "f = 1: there is no such setting; there are: byzantine"),
        ({"rule": "own", "settings": {}}, f"of = None: has to be given: {PLACE}"),
    ],
)
def test_a_mistyped_rule_is_told_at_its_place(plain: dict[str, Any], why: str) -> None:
    assert [str(problem) for problem in wrong_settings({"aggregation": plain}, Config)] == [f"aggregation.{why}"]


@pytest.mark.parametrize(
    ("settings", "least", "why"),
    [
        (Median(), 2, "rule = 'median': a round may close with 2, and the median of fewer than 3 is their mean: raise"),
        (TrimmedMean(0.5), 20, "trim = 0.5: a share of both sides has to leave something: below 0.5"),
        (TrimmedMean(1.5), 20, "trim = 1.5: from 1 on it is a number of updates: make it whole"),
        (TrimmedMean(2), 4, "trim = 2: a round may close with 4, and twice 2 leaves none of them: at most 1"),
        (
            TrimmedMean(0.1),
            9,
            "trim = 0.1: a round may close with 9, and 0.1 of 9 is no update left out: 1, or count_min",
        ),
        (TrimmedMean(0.1), 9, "count_min from 10 on"),
        (TrimmedMean(0), 9, "trim = 0: this leaves nobody out, which is fedavg without samples: 1"),
        (Krum(2), 6, "byzantine = 2: krum needs 2 * 2 + 3 = 7 updates against 2 lies, and a round may close with 6: "),
        (Krum(2), 6, ": count_min from 7 on, or at most 1 here"),
        (Krum(0), 2, "krum needs 2 * 0 + 3 = 3 updates against 0 lies, and a round may close with 2: count_min from 3"),
        (MultiKrum(2), 6, "multi_krum needs 2 * 2 + 3 = 7 updates"),
        (MultiKrum(2, 4), 7, "keep = 4: a round may close with 7, of which at most 7 - 2 - 2 = 3"),
        (Bulyan(2), 10, "bulyan needs 4 * 2 + 3 = 11 updates against 2 lies, and a round may close with 10"),
        (Bulyan(2), 10, ": count_min from 11 on, or at most 1 here"),
    ],
)
def test_a_rule_that_could_not_keep_its_promise_is_refused(settings: Any, least: int, why: str) -> None:
    (problem,) = problems(settings, least, 100)
    assert why in str(problem)


@pytest.mark.parametrize(
    ("settings", "least"), [(Median(), 3), (TrimmedMean(1), 3), (TrimmedMean(0.1), 10), (Krum(2), 7), (Krum(0), 3),
                            (MultiKrum(2), 7), (MultiKrum(2, 3), 7), (Bulyan(2), 11), (FedAvg(), 1)],
)  # fmt: skip
def test_just_enough_is_enough(settings: Any, least: int) -> None:
    assert problems(settings, least, 100) == []


@pytest.mark.parametrize("settings", [Krum(), MultiKrum(), Bulyan()])
def test_rules_that_compare_each_with_each_are_bounded(settings: Any) -> None:
    (problem,) = problems(settings, 20, MAX_COMPARED + 1)
    assert "compares each with each, 500,500 pairs: at most 1000 as per_round" in str(problem)
    assert problems(settings, 20, MAX_COMPARED) == []


@given(st.integers(0, 6), st.integers(0, 8), st.integers(1, 30))
def test_what_is_not_refused_is_sound(f: int, keep: int, least: int) -> None:
    """By the papers' own conditions, and with everybody above the least number too."""
    for n in range(least, 31):
        if not problems(Krum(f), least, 30):
            assert n >= 2 * f + 3
        if not problems(MultiKrum(f, keep), least, 30):
            assert n >= 2 * f + 3
            assert (keep or n - f - 2) <= n - f - 2
        if not problems(Bulyan(f), least, 30):
            assert n >= 4 * f + 3


@given(st.floats(0, 30) | st.integers(1, 30), st.integers(1, 40))
def test_trimming_that_is_not_refused_leaves_somebody_out_and_somebody_in(trim: float, least: int) -> None:
    if not problems(TrimmedMean(trim), least, 40):
        for n in range(least, 41):
            assert trimmed(trim, n) >= 1
            assert 2 * trimmed(trim, n) < n


def test_a_share_is_rounded_down_but_not_by_a_floats_fault() -> None:
    assert [trimmed(0.29, n) for n in (3, 10, 100)] == [0, 2, 29]
    assert trimmed(2.0, 100) == 2


def test_only_fedprox_says_something_to_the_participants() -> None:
    assert [client_hyper(settings) for settings in EVERY if not isinstance(settings, FedProx)] == [{}] * 11
    assert client_hyper(FedProx(0.5)) == {"mu": 0.5}

"""Every type of number that a file may hold: small floats beside torch, complex ones beside their parts, whole ones
beside fractions, which are exact."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file as save_torch
from tests.learn.models import made, update

from quoracy.core.federated import aggregation as rules
from quoracy.learn import BadTensors, CannotAggregate, Rule, Slice, aggregate, digest_of, examine, load, save
from quoracy.learn.dtypes import DTYPES, is_finite, narrow, widen
from quoracy.learn.rules.base import Row
from quoracy.learn.rules.whole import exact_mean
from quoracy.sdk.client.errors import UnfitUpdate
from quoracy.sdk.federated.arrays import load as load_loaded
from quoracy.sdk.federated.arrays import pack

TORCH = {
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E4M3FNUZ": torch.float8_e4m3fnuz,
    "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
}
ALL_CODES = np.arange(256, dtype=np.uint8)


def decoded(stored: Any, code: str) -> Any:
    out = np.empty(len(stored), np.float32)
    widen(stored, DTYPES[code], out)
    return out


# -- floats of eight bits --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", TORCH)
def test_every_float_of_eight_bits_is_what_torch_takes_it_for(code: str) -> None:
    wanted = torch.from_numpy(ALL_CODES.copy()).view(TORCH[code]).float().numpy()
    found = decoded(ALL_CODES, code)
    assert np.array_equal(found, wanted, equal_nan=True)
    numbers = ~np.isnan(wanted)
    assert np.array_equal(np.signbit(found[numbers]), np.signbit(wanted[numbers]))
    for stored in ALL_CODES.reshape(-1, 1):
        assert is_finite(stored, DTYPES[code]) == bool(np.isfinite(decoded(stored, code)).all())


@pytest.mark.parametrize("code", TORCH)
def test_every_float_of_eight_bits_comes_back_as_it_was(code: str) -> None:
    numbers = ALL_CODES[np.isfinite(decoded(ALL_CODES, code))]
    assert np.array_equal(narrow(decoded(numbers, code), DTYPES[code]), numbers)


TOO_LARGE = {"F8_E4M3": 464.0, "F8_E5M2": 61440.0, "F8_E4M3FNUZ": 248.0, "F8_E5M2FNUZ": 61440.0}
"""The middle between the largest and what would come next. It goes to the even one, which is the largest of E4M3."""


def beside_torch(code: str, numbers: Any) -> None:
    """The same wherever there is room. What is too large torch makes smaller in one of the types; here it never is."""
    wanted = torch.from_numpy(numbers.copy()).to(TORCH[code]).float().numpy()
    found = decoded(narrow(numbers, DTYPES[code]), code)
    large = np.abs(numbers) >= TOO_LARGE[code] if code != "F8_E4M3" else np.abs(numbers) > TOO_LARGE[code]
    assert np.array_equal(np.isfinite(found), ~(large | np.isnan(numbers)))
    fits = np.isfinite(found)
    assert np.array_equal(found[fits], wanted[fits])
    assert np.array_equal(np.signbit(found[fits]), np.signbit(wanted[fits]))


@pytest.mark.parametrize("code", TORCH)
def test_numbers_are_rounded_to_eight_bits_as_torch_rounds_them(code: str) -> None:
    """At the middle between any two, just beside it, and far outside."""
    values = np.sort(decoded(ALL_CODES, code)[np.isfinite(decoded(ALL_CODES, code))]).astype(np.float64)
    middles = np.array([*(values[1:] + values[:-1]) / 2, TOO_LARGE[code], -TOO_LARGE[code]], np.float32)
    beside = [np.nextafter(middles, np.float32(side)) for side in (-np.inf, np.inf)]
    far = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e30, -1e30, 1e-30, -1e-30, 480, 65536], np.float32)
    beside_torch(code, np.concatenate([middles, *beside, far]))


@settings(max_examples=300)
@given(st.sampled_from(sorted(TORCH)), st.lists(st.floats(width=32), min_size=1, max_size=30))
def test_any_number_is_rounded_to_eight_bits_as_torch_rounds_it(code: str, numbers: list[float]) -> None:
    beside_torch(code, np.array(numbers, np.float32))


@pytest.mark.parametrize("code", TORCH)
def test_a_file_of_torch_with_eight_bits_is_read_and_written_again(code: str, tmp_path: Path) -> None:
    layer = torch.randn(6, 3).to(TORCH[code])
    save_torch({"w": layer, "b": torch.ones(2)}, tmp_path / "theirs")
    arrays = load(tmp_path / "theirs")
    assert np.array_equal(arrays["w"], layer.float().numpy())
    save(tmp_path / "ours", arrays, codes={"w": code})
    assert digest_of(tmp_path / "ours") == digest_of(tmp_path / "theirs")


def test_eight_bits_are_averaged_as_float32_and_rounded_to_even(tmp_path: Path) -> None:
    code = {"w": "F8_E4M3"}
    rows = ([1.0, 448.0, 1.0, 2.0], [1.125, 448.0, 1.25, 4.0])
    files = [update(tmp_path, f"p{n}", {"w": np.array(row, np.float32)}, codes=code) for n, row in enumerate(rows)]
    save(tmp_path / "previous", {"w": np.zeros(4, np.float32)}, codes=code)
    merged = aggregate(rules.FedAvg(), files, tmp_path / "previous", None, tmp_path)
    assert load(merged.weights)["w"].tolist() == [1.0, 448.0, 1.125, 3.0], "1.0625 is in the middle: the even one"
    assert merged.size_bytes == files[0].path.stat().st_size


def test_what_grows_beyond_eight_bits_is_refused_and_not_made_smaller(tmp_path: Path) -> None:
    code = {"w": "F8_E4M3"}
    files = [update(tmp_path, "p", {"w": np.array([448.0], np.float32)}, codes=code)]
    save(tmp_path / "previous", {"w": np.zeros(1, np.float32)}, codes=code)
    with pytest.raises(CannotAggregate, match="'w' would not be finite"):
        aggregate(rules.FedAvgM(server_lr=2.0), files, tmp_path / "previous", None, tmp_path)


def test_an_update_of_eight_bits_that_is_no_number_is_refused_with_its_place(tmp_path: Path) -> None:
    save(tmp_path / "model", {"w": np.zeros((2, 2), np.float32)}, codes={"w": "F8_E5M2"})
    save(tmp_path / "bad", {"w": np.array([[0, 0], [0, np.inf]], np.float32)}, codes={"w": "F8_E5M2"})
    assert examine(tmp_path / "bad", tmp_path / "model").why == "tensor 'w' is not finite: inf at [1, 1]"


def test_a_participant_gets_float32_and_sends_eight_bits_back(tmp_path: Path) -> None:
    save(tmp_path / "model", {"w": np.ones(3, np.float32), "n": np.ones(1, np.int64)}, codes={"w": "F8_E4M3"})
    given = load_loaded(tmp_path / "model")
    assert given.arrays["w"].dtype == np.float32
    given.arrays["w"] += 1.0
    (tmp_path / "sent").write_bytes(b"".join(pack(given.arrays, given, {}, check=True).pieces()))
    sent = load_loaded(tmp_path / "sent")
    assert (sent.layout["w"], sent.arrays["w"].tolist()) == (("F8_E4M3", (3,)), [2.0] * 3)


def test_what_is_too_large_for_its_type_is_noticed_before_it_is_sent(tmp_path: Path) -> None:
    save(tmp_path / "model", {"w": np.ones(2, np.float32)}, codes={"w": "F8_E4M3"})
    given = load_loaded(tmp_path / "model")
    with pytest.raises(UnfitUpdate, match=r"tensor 'w' of shape \(2,\) holds 1 numbers that are too large for F8_E4M3"):
        pack({"w": np.array([448, 500], np.float32)}, given, {}, check=True)
    sent = pack({"w": np.array([448, 500], np.float32)}, given, {}, check=False)
    (tmp_path / "sent").write_bytes(b"".join(sent.pieces()))
    assert "not finite: nan at [1]" in examine(tmp_path / "sent", tmp_path / "model").why


# -- complex numbers -------------------------------------------------------------------------------------------------


def complexes(*numbers: complex) -> dict[str, Any]:
    return {"c": np.array(numbers, np.complex64).reshape(1, -1), "w": np.ones(1, np.float32)}


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [(rules.FedAvg(), 2.5 - 3.75j), (rules.Median(), 2 + 1j), (rules.TrimmedMean(1), 2 + 1j)],
    ids=["fedavg", "median", "trimmed_mean"],
)
def test_a_complex_number_is_merged_part_by_part(settings: Any, wanted: complex, tmp_path: Path) -> None:
    sent = [(1 + 1j, 1), (2 - 9j, 2), (5 + 2j, 1)]
    files = [update(tmp_path, f"p{n}", complexes(c, 0), samples) for n, (c, samples) in enumerate(sent)]
    merged = load(made(tmp_path, settings, files, complexes(0, 0)).weights)["c"]
    assert (merged.dtype, merged.tolist()) == (np.dtype(np.complex64), [[wanted, 0]])


def test_krum_measures_complex_numbers_by_both_parts(tmp_path: Path) -> None:
    points = (0j, 1j, 1.1j, 1.25j, 9j)
    files = [update(tmp_path, f"p{n}", complexes(point)) for n, point in enumerate(points)]
    merged = load(made(tmp_path, rules.Krum(1), files, complexes(0)).weights)["c"]
    assert merged[0, 0] == np.complex64(1.1j)


def test_an_optimizer_keeps_both_parts_of_a_complex_number(tmp_path: Path) -> None:
    """Two rounds of momentum, of a complex number and of its parts as plain floats: the same numbers."""
    plain = {"c": np.array([[0.0, 0.0]], np.float32)}
    states: list[Any] = [None, None]
    for step in (1.0, 0.5):
        found = []
        for sort in (0, 1):
            folder = tmp_path / f"{step}-{sort}"
            folder.mkdir()
            sent = complexes(step * (3 - 2j)) if sort else {"c": np.array([[step * 3, step * -2]], np.float32)}
            before = complexes(0) if sort else plain
            done = made(folder, rules.FedAvgM(), [update(folder, "p", sent)], before, states[sort])
            states[sort] = done.state
            found.append(load(done.weights)["c"].view(np.float32).tolist())
        assert found[0] == found[1]
    with pytest.raises(CannotAggregate, match="the state is not of this model"):
        made(tmp_path, rules.FedAvgM(), [update(tmp_path, "q", complexes(0))], complexes(0), states[0])


def test_a_complex_number_that_is_none_is_refused_with_its_place_and_moves_the_model_by_both_parts(
    tmp_path: Path,
) -> None:
    save(tmp_path / "model", complexes(0, 0))
    save(tmp_path / "far", complexes(3 + 4j, 0))
    assert examine(tmp_path / "far", tmp_path / "model").norm == 5.0
    save(tmp_path / "bad", complexes(0, complex(0, np.nan)))
    assert examine(tmp_path / "bad", tmp_path / "model").why == "tensor 'c' is not finite: nan at [0, 1]"


def test_complex_numbers_of_128_bits_have_no_place(tmp_path: Path) -> None:
    with pytest.raises(BadTensors, match="is of complex128, which has no place in a file"):
        save(tmp_path / "a", {"c": np.zeros(1, np.complex128)})


# -- whole numbers ---------------------------------------------------------------------------------------------------


def fraction_mean(column: list[int], weights: list[int]) -> int:
    """Exact, and halves to the even one: so rounds a Fraction."""
    return round(Fraction(sum(x * w for x, w in zip(column, weights, strict=True)), sum(weights)))


LIMITS = {"i": (-(2**63), 2**63 - 1), "u": (0, 2**64 - 1)}


@st.composite
def wholes(draw: Any) -> tuple[list[Any], list[int]]:
    kind = draw(st.sampled_from("iu"))
    low, high = LIMITS[kind]
    near = draw(st.integers(low, high))
    some = st.one_of(
        st.integers(low, high), st.sampled_from([low, high, 0, 1]),
        st.integers(max(low, near - 9), min(high, near + 9)),
    )  # fmt: skip
    size = draw(st.integers(1, 4))
    count = draw(st.integers(1, 6))
    rows = [np.array(draw(st.lists(some, min_size=size, max_size=size)), f"<{kind}8") for _ in range(count)]
    most = draw(st.sampled_from([3, 1000, 2**53]))
    weights = draw(st.lists(st.integers(0, most), min_size=count, max_size=count))
    weights[0] += not sum(weights)
    return rows, weights


@settings(max_examples=500)
@given(wholes())
def test_the_mean_of_whole_numbers_is_that_of_fractions(case: tuple[list[Any], list[int]]) -> None:
    rows, weights = case
    columns = [[int(x) for x in column] for column in zip(*rows, strict=True)]
    assert exact_mean(rows, weights).tolist() == [fraction_mean(column, weights) for column in columns]
    once = [1] * len(rows)
    assert exact_mean(rows).tolist() == [fraction_mean(column, once) for column in columns]


HUGE = 2**62 + 1
"""Not a float64: the nearest is one less."""


@pytest.mark.parametrize(
    "settings",
    [
        rules.FedAvg(), rules.FedProx(mu=0.1), rules.FedAvgM(), rules.FedAdam(), rules.FedYogi(), rules.FedAdagrad(),
        rules.Median(), rules.TrimmedMean(1), rules.Krum(1), rules.MultiKrum(1, 3), rules.Bulyan(1),
    ],
    ids=lambda rule: type(rule).__name__,
)  # fmt: skip
@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_every_rule_keeps_all_bits_of_a_whole_number_that_everybody_has(
    settings: Any, dtype: Any, tmp_path: Path
) -> None:
    whole = {"n": np.array([HUGE, HUGE + 2, 3], dtype), "w": np.ones(2, np.float32)}
    files = [update(tmp_path, f"p{n}", whole, 100 + n) for n in range(7)]
    before = {"n": np.zeros(3, dtype), "w": np.zeros(2, np.float32)}
    merged = load(made(tmp_path, settings, files, before).weights)["n"]
    assert (merged.dtype, merged.tolist()) == (np.dtype(dtype), [HUGE, HUGE + 2, 3])


def test_robust_rules_choose_among_whole_numbers_exactly(tmp_path: Path) -> None:
    low, high = -(2**63), 2**63 - 1
    values = [low, HUGE, HUGE + 2, HUGE + 4, HUGE + 7, high, high]
    files = [update(tmp_path, f"p{n}", {"n": np.array([value])}) for n, value in enumerate(values)]
    before = {"n": np.zeros(1, np.int64)}

    def merged(settings: Any) -> int:
        return int(load(made(tmp_path, settings, files, before).weights)["n"][0])

    assert merged(rules.Median()) == HUGE + 4
    assert merged(rules.TrimmedMean(2)) == fraction_mean([HUGE + 2, HUGE + 4, HUGE + 7], [1, 1, 1])


def test_of_an_even_number_the_median_is_the_exact_middle(tmp_path: Path) -> None:
    files = [update(tmp_path, f"p{n}", {"n": np.array([v], np.uint64)}) for n, v in enumerate([2**64 - 1, 2**64 - 2])]
    before = {"n": np.zeros(1, np.uint64)}
    assert load(made(tmp_path, rules.Median(), files, before).weights)["n"].tolist() == [2**64 - 2]


class Largest(Rule):
    """A rule that knows of whole numbers."""

    def merge(self, piece: Slice) -> Row:
        return piece.rows.max(axis=0)

    def merge_whole(self, piece: Slice) -> Row:
        return piece.rows.max(axis=0)


class LargestFloat(Rule):
    """And one that does not: it gets float64."""

    def merge(self, piece: Slice) -> Row:
        assert piece.previous.dtype == np.float64
        return piece.rows.max(axis=0)


@pytest.mark.parametrize(("rule", "wanted"), [("Largest", HUGE), ("LargestFloat", HUGE - 1)])
def test_a_rule_of_ones_own_gets_whole_numbers_exactly_if_it_asks_for_them(
    rule: str, wanted: int, tmp_path: Path
) -> None:
    files = [update(tmp_path, f"p{n}", {"n": np.array([value])}) for n, value in enumerate([HUGE, 5])]
    settings = rules.Own(of=f"{__name__}:{rule}")
    assert load(made(tmp_path, settings, files, {"n": np.zeros(1, np.int64)}).weights)["n"].tolist() == [wanted]


@pytest.mark.parametrize("code", ["I8", "U8", "I32", "U64"])
def test_whole_numbers_stay_within_their_type(code: str) -> None:
    bounds = np.iinfo(np.dtype(DTYPES[code].stored))
    given = np.array([-(2**63), -1, 7, 2**63 - 1])
    wanted = [max(bounds.min, -(2**63)), max(bounds.min, -1), 7, min(bounds.max, 2**63 - 1)]
    assert narrow(given, DTYPES[code]).tolist() == wanted
    assert narrow(np.array([2**64 - 1], np.uint64), DTYPES[code]).tolist() == [bounds.max]

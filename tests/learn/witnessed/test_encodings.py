"""What becomes of a gradient that travels: how far it may move, and that everybody moves it alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.learn.witnessed.some import numbers

from quoracy.core.errors import ConfigError
from quoracy.learn.witnessed.encodings import Encoding, Int8, Plain, TopK, encoding_of
from quoracy.learn.witnessed.packing import layout_of_arrays

ALL: list[Encoding] = [Plain(), TopK(0.1), TopK(1.0), Int8(256), Int8(1), Int8(0), Int8(7)]
finite = st.floats(width=32, allow_nan=False, allow_infinity=False)
arrays = hnp.arrays(np.float32, hnp.array_shapes(max_dims=3, min_side=0, max_side=9), elements=finite)


def there_and_back(encoding: Encoding, array: Any) -> Any:
    return encoding.decode("t", array.shape, encoding.encode("t", array))


@pytest.mark.parametrize("encoding", ALL)
@given(array=arrays)
def test_the_layout_follows_from_the_shape_alone(encoding: Encoding, array: Any) -> None:
    parts = encoding.encode("t", array)
    assert layout_of_arrays(parts) == encoding.layout("t", array.shape)
    decoded = encoding.decode("t", array.shape, parts)
    assert (decoded.dtype.str, decoded.shape) == ("<f4", array.shape)
    assert np.isfinite(decoded).all()


@pytest.mark.parametrize("encoding", [Plain(), TopK(1.0)])
@given(array=arrays)
def test_nothing_is_lost_where_all_is_sent(encoding: Encoding, array: Any) -> None:
    assert (there_and_back(encoding, array) == array).all()


@given(arrays, st.floats(0.01, 1))
def test_the_largest_are_sent_and_of_equals_the_first(array: Any, fraction: float) -> None:
    topk = TopK(fraction)
    flat = array.reshape(-1)
    by_size = sorted(range(flat.size), key=lambda place: (-abs(flat[place]), place))
    wanted = sorted(by_size[: topk.kept(flat.size)])
    parts = topk.encode("t", array)
    assert parts["t/index"].tolist() == wanted
    assert parts["t/value"].tolist() == flat[wanted].tolist()


def test_what_is_not_sent_counts_as_0() -> None:
    array = np.array([[1, -3, 2], [3, 0, -1]], np.float32)
    assert there_and_back(TopK(0.5), array).tolist() == [[0, -3, 2], [3, 0, 0]]
    assert there_and_back(TopK(0.01), array).tolist() == [[0, -3, 0], [0, 0, 0]]


@given(arrays, st.integers(0, 20))
def test_a_byte_is_half_a_step_of_its_block_off_at_most(array: Any, block: int) -> None:
    flat = array.reshape(-1).astype(np.float64)
    back = there_and_back(Int8(block), array).reshape(-1).astype(np.float64)
    width = max(block or flat.size, 1)
    for start in range(0, flat.size, width):
        piece = flat[start : start + width]
        largest = np.abs(piece).max()
        step = largest / 127
        # Half a step, and what single precision adds to it; numbers too small for a scale become 0.
        assert np.abs(back[start : start + width] - piece).max() <= step * 0.5001 + largest * 1e-6 + 2e-43


def test_bytes_are_rounded_to_the_nearest_and_ties_to_even() -> None:
    array = np.array([127, 0.5, 1.5, -2.5, 2.4], np.float32)
    parts = Int8(0).encode("t", array)
    assert parts["t/scale"].tolist() == [1.0]
    assert parts["t/int8"].tolist() == [127, 0, 2, -2, 2]


def test_a_block_of_its_own_keeps_small_numbers_beside_large_ones() -> None:
    array = np.concatenate([np.full(256, 1000, np.float32), np.full(256, 0.001, np.float32)])
    assert there_and_back(Int8(0), array)[-1] == 0
    assert there_and_back(Int8(256), array)[-1] == pytest.approx(0.001)


def test_an_encoding_makes_results_smaller() -> None:
    array = numbers(1, 100, 100)
    sizes = {e.name: sum(p.nbytes for p in e.encode("t", array).values()) for e in (Plain(), TopK(0.1), Int8(256))}
    assert sizes["plain"] == 40_000
    assert sizes["topk"] == 8_000
    assert sizes["int8"] == 10_000 + 4 * 40


@pytest.mark.parametrize("encoding", ALL)
def test_the_same_numbers_give_the_same_bytes_and_no_result_depends_on_the_one_before(encoding: Encoding) -> None:
    """Nothing is carried on: a second trainer that knows only the batch comes to the same result."""
    first, second = numbers(1, 33, 9), numbers(2, 33, 9)
    encoding.encode("t", first)
    after = encoding.encode("t", second)
    fresh = encoding_like(encoding).encode("t", np.asfortranarray(second))
    assert {name: part.tobytes() for name, part in after.items()} == {name: p.tobytes() for name, p in fresh.items()}
    assert not encoding.carries_state


def encoding_like(encoding: Encoding) -> Encoding:
    if isinstance(encoding, TopK):
        return TopK(encoding.fraction)
    return Int8(encoding.block) if isinstance(encoding, Int8) else Plain()


def test_a_large_block_takes_no_more_room_than_the_tensor() -> None:
    """2**31 scales for three numbers would be eight gigabytes."""
    assert there_and_back(Int8(2**31), np.array([1, 2, 127], np.float32)).tolist() == [1, 2, 127]


@pytest.mark.parametrize("index", [[1, 0], [1, 1], [0, 6]])
def test_places_that_do_not_rise_or_are_not_there_mean_nothing(index: list[int]) -> None:
    parts = {"t/index": np.array(index, np.uint32), "t/value": np.ones(2, np.float32)}
    with pytest.raises(ValueError, match="'t/index' does not rise"):
        TopK(0.3).decode("t", (2, 3), parts)


def test_a_scale_below_0_means_nothing() -> None:
    parts: dict[str, Any] = {"t/int8": np.ones(2, np.int8), "t/scale": np.array([-1], np.float32)}
    with pytest.raises(ValueError, match="'t/scale' holds a number below 0"):
        Int8(0).decode("t", (2,), parts)


def test_the_run_s_hyper_parameters_choose() -> None:
    assert isinstance(encoding_of({}), Plain)
    topk, int8 = encoding_of({"encoding": "topk", "topk": 0.25}), encoding_of({"encoding": "int8", "block": 64})
    assert isinstance(topk, TopK)
    assert isinstance(int8, Int8)
    assert (topk.fraction, int8.block) == (0.25, 64)


@pytest.mark.parametrize(
    ("hyper", "said"),
    [
        ({"encoding": "zip"}, "hyper.encoding = 'zip': one of: plain, topk, int8"),
        ({"encoding": "topk", "topk": 0}, "hyper.topk = 0.0"),
        ({"encoding": "topk", "topk": 1.1}, "hyper.topk = 1.1"),
        ({"encoding": "topk", "topk": "many"}, "hyper.topk = 'many'"),
        ({"encoding": "topk", "topk": float("nan")}, "hyper.topk = nan"),
        ({"encoding": "int8", "block": -1}, "hyper.block = -1"),
        ({"encoding": "int8", "block": 1.5}, "hyper.block = 1.5"),
        ({"encoding": "int8", "block": True}, "hyper.block = True"),
    ],
)
def test_what_cannot_be_chosen_is_named(hyper: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said.replace(".", r"\.")):
        encoding_of(hyper)

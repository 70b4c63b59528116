"""What an update must be to count, and what its sender is told if it is not."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quoracy.learn import BadTensors, digest_of, examine, save

MODEL: dict[str, Any] = {
    "dense/kernel": np.arange(12, dtype=np.float32).reshape(4, 3),
    "half": np.zeros(2, np.float16),
    "steps": np.array([5]),
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    save(tmp_path / "model", MODEL)
    return tmp_path / "model"


def sent(model: Path, **arrays: Any) -> Path:
    save(model.parent / "update", {**MODEL, **arrays})
    return model.parent / "update"


def test_a_good_update_passes_with_its_distance_to_the_model(model: Path) -> None:
    path = sent(model, **{"dense/kernel": MODEL["dense/kernel"] + 2, "half": np.array([1, 0], np.float16)})
    verdict = examine(path, model, norm_bound=7.1, max_bytes=path.stat().st_size, digest=digest_of(path))
    assert (verdict.ok, verdict.why) == (True, "")
    assert verdict.norm == pytest.approx(7.0)


def test_integers_do_not_count_in_the_distance(model: Path) -> None:
    assert examine(sent(model, steps=np.array([10**9])), model, norm_bound=0.001).norm == 0


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"dense/kernel": np.zeros((3, 4), np.float32)},
         "tensor 'dense/kernel' has shape (3, 4), the model's is (4, 3)"),
        ({"half": np.zeros(2, np.float32)}, "tensor 'half' has type F32, the model's is F16"),
        ({"extra": np.zeros(1)}, "tensor 'extra' is not in the model"),
        ({"half": np.array([0, math.inf], np.float16)}, "tensor 'half' is not finite: inf at [1]"),
        ({"dense/kernel": np.where(np.arange(12) == 7, math.nan, 0).astype(np.float32).reshape(4, 3)},
         "tensor 'dense/kernel' is not finite: nan at [2, 1]"),
        ({"dense/kernel": MODEL["dense/kernel"] + 1}, "the update moves the model by 3.4641, at most 3 is allowed"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_update_is_said(changes: dict[str, Any], why: str, model: Path) -> None:
    verdict = examine(sent(model, **changes), model, norm_bound=3.0)
    assert (verdict.ok, verdict.why) == (False, why)


def test_a_tensor_that_is_missing_is_named(model: Path, tmp_path: Path) -> None:
    save(tmp_path / "update", {"half": MODEL["half"], "steps": MODEL["steps"]})
    assert examine(tmp_path / "update", model).why == "tensor 'dense/kernel' is missing"


def test_what_was_not_announced_is_refused(model: Path) -> None:
    verdict = examine(sent(model), model, digest="ab" * 32)
    assert verdict.why == f"the update's digest is {digest_of(sent(model))}, announced was {'ab' * 32}"


def test_what_is_too_large_is_refused_before_it_is_read(model: Path, tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(10**12)
    assert examine(tmp_path / "huge", model, max_bytes=1000, digest="00").why == (
        "the update has 1000000000000 bytes, at most 1000 are taken"
    )


def test_what_is_not_there_is_refused(model: Path, tmp_path: Path) -> None:
    assert examine(tmp_path / "nothing", model).why == "there is no such update; upload it before announcing it"


def test_a_pickle_is_refused_by_its_name(model: Path, tmp_path: Path) -> None:
    (tmp_path / "update").write_bytes(b"\x80\x04\x95" + bytes(100))
    verdict = examine(tmp_path / "update", model)
    assert verdict.why == "this is a pickle, which can run any code when it is read; send safetensors"


def test_a_model_that_is_broken_is_not_the_senders_fault(model: Path, tmp_path: Path) -> None:
    path = sent(model)
    model.write_bytes(b"")
    with pytest.raises(BadTensors):
        examine(path, model)


def test_weights_to_begin_with_have_no_reference(tmp_path: Path) -> None:
    save(tmp_path / "first", {"w": np.array([3.0, 4.0])})
    assert examine(tmp_path / "first", None, norm_bound=1.0) == examine(tmp_path / "first", None)
    assert examine(tmp_path / "first", None).norm == 5


def test_weights_without_a_number_are_refused(tmp_path: Path) -> None:
    save(tmp_path / "first", {"w": np.zeros((0, 5))})
    assert examine(tmp_path / "first", None).why == "there are no numbers in it"


def test_a_distance_beyond_every_number_is_refused(tmp_path: Path) -> None:
    save(tmp_path / "first", {"w": np.array([1e300])})
    assert examine(tmp_path / "first", None).why.startswith("the update is so far from the model")


@settings(max_examples=50)
@given(
    st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=40),
    st.integers(0, 39), st.sampled_from([0.0, math.inf, -math.inf, math.nan]), st.integers(1, 7),
)  # fmt: skip
def test_every_slice_is_looked_at(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[float], place: int, planted: float, step: int
) -> None:
    folder = tmp_path_factory.mktemp("slices")
    update = np.array(numbers, np.float32)
    update[place % len(update)] = planted
    save(folder / "model", {"w": np.ones(len(update), np.float32)})
    save(folder / "update", {"w": update})
    with mock.patch("quoracy.learn.admission.ALONE", step):
        verdict = examine(folder / "update", folder / "model")
    assert verdict.ok == math.isfinite(planted)
    if verdict.ok:
        assert verdict.norm == pytest.approx(float(np.linalg.norm(update.astype(np.float64) - 1)))
    else:
        assert verdict.why.endswith(f"at [{place % len(update)}]")

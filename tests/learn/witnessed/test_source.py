"""Batches from sets at hand, from files and through the door: the same samples for the same numbers, everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.learn.witnessed.some import same

from quoracy.core.errors import ConfigError, Refusal, Refused
from quoracy.learn import digits, fashion, save
from quoracy.learn.header import BadTensors
from quoracy.learn.witnessed.batches import rows
from quoracy.learn.witnessed.door import DoorSource
from quoracy.learn.witnessed.packing import pack
from quoracy.learn.witnessed.source import (
    ArraySource,
    digits_source,
    fashion_source,
    file_source,
    open_source,
    packed,
    packed_held_out,
)

ARRAYS: dict[str, Any] = {
    "x": np.arange(60, dtype=np.float32).reshape(20, 3),
    "y": np.arange(20),
    "x_test": np.ones((4, 3), np.float32),
    "y_test": np.zeros(4, np.int64),
}


def some() -> ArraySource:
    return ArraySource({"x": ARRAYS["x"], "y": ARRAYS["y"]}, None, seed=2, batch_size=4)


def test_a_batch_is_the_samples_its_number_says() -> None:
    found = some().samples([3, 0])
    chosen = rows([3, 0], 4, 20, 2)
    assert same(found, {"x": ARRAYS["x"][chosen], "y": ARRAYS["y"][chosen]})


def test_digits_are_at_hand_and_some_are_held_out() -> None:
    source = digits_source(seed=1, batch_size=10)
    x, y = digits.load("train")
    chosen = rows([7], 10, len(x), 1)
    assert same(source.samples([7]), {"x": x[chosen], "y": y[chosen]})
    test = source.held_out()
    assert test is not None
    assert same(test, dict(zip("xy", digits.load("test"), strict=True)))


def test_clothes_are_kept_small_and_come_out_as_they_are() -> None:
    source = fashion_source(seed=1, batch_size=10)
    chosen = rows([7, 8], 10, 60_000, 1)
    assert same(source.samples([7, 8]), dict(zip("xy", fashion.load("train", chosen), strict=True)))
    assert source._arrays["x"].nbytes == 60_000 * 784
    test = source.held_out()
    assert test is not None
    assert same(test, dict(zip("xy", fashion.load("test"), strict=True)))


# -- files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["set.npz", "set.safetensors"])
def test_a_file_is_a_set_and_names_what_is_held_out(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if path.suffix == ".npz":
        np.savez(path, **ARRAYS)
    else:
        save(path, ARRAYS)
    source = open_source("local", str(path), seed=2, batch_size=4)
    assert source is not None
    assert same(source.samples([1, 9]), some().samples([1, 9]))
    test = source.held_out()
    assert test is not None
    assert same(test, {"x": ARRAYS["x_test"], "y": ARRAYS["y_test"]})


def test_a_file_without_held_out_samples_has_none(tmp_path: Path) -> None:
    np.savez(tmp_path / "set.npz", x=ARRAYS["x"])
    assert file_source(tmp_path / "set.npz", 0, 1).held_out() is None


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({}, "at least one"),
        ({"x": np.ones(3), "y": np.ones(4)}, "same number of rows"),
        ({"x": np.ones((0, 4))}, "at least one"),
        ({"x": np.ones(())}, "at least one"),
        ({"x": np.ones(3), "x_test": np.ones(2), "y_test": np.ones(3)}, "held out"),
    ],
)
def test_arrays_that_are_no_set_are_refused(tmp_path: Path, arrays: dict[str, Any], said: str) -> None:
    np.savez(tmp_path / "set.npz", **arrays)
    with pytest.raises(ConfigError, match=said):
        file_source(tmp_path / "set.npz", 0, 1)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "objects.npz", x=np.array([{}, {}]))
    (tmp_path / "text.npz").write_text("no archive")
    (tmp_path / "text.safetensors").write_text("no tensors, but long enough")
    for name in ("objects.npz", "text.npz", "text.safetensors", "missing.npz", "missing.safetensors"):
        with pytest.raises(ConfigError, match=rf"data\.location = '.*{name}': cannot be read"):
            open_source("local", str(tmp_path / name), seed=0, batch_size=1)


# -- by name -------------------------------------------------------------------------------------------------------


def test_settings_that_name_no_samples_leave_them_to_the_trainer() -> None:
    assert open_source("local", "", seed=0, batch_size=1) is None


def test_settings_choose_a_set_by_name() -> None:
    source = open_source("local", "digits", seed=3, batch_size=5)
    assert source is not None
    assert same(source.samples([2]), digits_source(3, 5).samples([2]))


@pytest.mark.parametrize(
    ("kind", "location", "said"),
    [
        ("local", "cats", "one of: digits, fashion, or a file"),
        ("remote", "", "one of: local, door"),
        ("door", "", "need somebody who fetches"),
    ],
)
def test_what_cannot_be_opened_is_named(kind: str, location: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        open_source(kind, location, seed=0, batch_size=1)


# -- the door ------------------------------------------------------------------------------------------------------


def test_what_comes_through_the_door_is_what_is_behind_it() -> None:
    behind = digits_source(seed=4, batch_size=6)
    asked: list[Sequence[int]] = []

    def fetch(batch_ids: Sequence[int]) -> bytes:
        asked.append(batch_ids)
        return packed(behind, batch_ids)

    source = open_source("door", "", seed=4, batch_size=6, fetch=fetch, held_out=lambda: packed_held_out(behind))
    assert source is not None
    wanted = [5, 6, 7, 300, 1, 2]
    assert same(source.samples(wanted), behind.samples(wanted))
    assert asked == [[5, 6, 7], [300], [1, 2]]
    test, held_out = source.held_out(), behind.held_out()
    assert test is not None
    assert held_out is not None
    assert same(test, held_out)


def test_a_long_stretch_is_asked_for_in_pieces() -> None:
    asked: list[list[int]] = []

    def fetch(batch_ids: Sequence[int]) -> bytes:
        asked.append(list(batch_ids))
        return packed(some(), batch_ids)

    source = DoorSource(fetch, batch_size=4, at_once=2)
    assert same(source.samples(range(5)), some().samples(range(5)))
    assert asked == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize(("most", "asked_for"), [(4, [5, 2, 3]), (1, [5, 2, 1, 1, 3, 1, 2, 1, 1])])
def test_a_door_that_finds_it_too_much_is_asked_for_less(most: int, asked_for: list[int]) -> None:
    asked: list[int] = []

    def fetch(batch_ids: Sequence[int]) -> bytes:
        asked.append(len(batch_ids))
        if len(batch_ids) > most:
            raise Refused(Refusal("too_large", "too much at once", "ask for less"))
        return packed(some(), batch_ids)

    assert same(DoorSource(fetch, batch_size=4).samples(range(3, 8)), some().samples(range(3, 8)))
    assert asked == asked_for


@pytest.mark.parametrize("code", ["too_large", "not_yours"])
def test_a_door_that_refuses_a_single_batch_or_for_another_reason_has_said_so(code: str) -> None:
    asked: list[int] = []

    def fetch(batch_ids: Sequence[int]) -> bytes:
        asked.append(len(batch_ids))
        raise Refused(Refusal(code, "no", "never"))

    with pytest.raises(Refused, match="no"):
        DoorSource(fetch, batch_size=4).samples([1, 2])
    assert asked == ([2, 1] if code == "too_large" else [2])


def test_a_door_without_held_out_samples_is_asked_only_where_there_is_one_to_ask() -> None:
    assert DoorSource(lambda ids: b"", batch_size=1).held_out() is None
    assert DoorSource(lambda ids: b"", batch_size=1, held_out=lambda: None).held_out() is None
    assert packed_held_out(some()) is None


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (pack({"x": np.ones((7, 3))}), r"'x' has shape \(7, 3\), 8 samples were asked for"),
        (pack({"x": np.ones(())}), "8 samples were asked for"),
        (pack({}), "there are no arrays"),
        (packed(some(), [4, 5]), "asked for batches 3-5, the door gave 4-6"),
        (b"<html>not found</html>", "no file of tensors"),
        (packed(some(), [3, 4])[:-1], "the file has"),
    ],
)
def test_what_the_door_gives_is_looked_at(answer: bytes, said: str) -> None:
    with pytest.raises(BadTensors, match=said):
        DoorSource(lambda ids: answer, batch_size=4).samples([3, 4])


def test_a_door_that_gives_other_arrays_for_other_batches_is_refused() -> None:
    def fetch(ids: Sequence[int]) -> bytes:
        return pack({"x" if ids[0] else "y": np.ones(4)})

    with pytest.raises(BadTensors, match=r"gave \['y'\] for one batch and \['x'\] for another"):
        DoorSource(fetch, batch_size=4).samples([0, 7])


def test_no_batches_are_no_question() -> None:
    with pytest.raises(ValueError, match="at least one batch"):
        DoorSource(lambda ids: b"", batch_size=4).samples([])

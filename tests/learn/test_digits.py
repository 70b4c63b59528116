"""The digits that come with the package: all of them, whole, and always cut the same way."""

from __future__ import annotations

from importlib import resources

import numpy as np

from quoracy.learn import digits

IN_ALL = [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
"""How often each digit occurs, as the set's authors count."""


def test_every_digit_is_in_exactly_one_part() -> None:
    (train, train_y), (test, test_y) = digits.load("train"), digits.load("test")
    assert train.shape == (1442, digits.FEATURES)
    assert test.shape == (355, digits.FEATURES)
    counts = np.bincount(train_y, minlength=10) + np.bincount(test_y, minlength=10)
    assert counts.tolist() == IN_ALL
    assert np.bincount(test_y).tolist() == [count // digits.EVERY for count in IN_ALL]


def test_pixels_are_those_of_the_set() -> None:
    x, y = digits.load("train")
    assert x.dtype == np.float32
    assert (x.min(), x.max()) == (0.0, 1.0)
    total = sum(int((digits.load(part)[0] * digits.DARKEST).sum(dtype=np.float64)) for part in ("train", "test"))
    assert total == 561_718
    assert y[0] == 0
    drawn = (x[0].reshape(8, 8) * digits.DARKEST).astype(int).tolist()
    assert drawn[0] == [0, 0, 5, 13, 9, 1, 0, 0]
    assert drawn[7] == [0, 0, 6, 13, 10, 0, 0, 0]


def test_rows_are_taken_in_the_order_asked_for() -> None:
    x, y = digits.load("test")
    some, classes = digits.load("test", np.array([7, 3, 7]))
    assert np.array_equal(some, x[[7, 3, 7]])
    assert np.array_equal(classes, y[[7, 3, 7]])
    assert np.array_equal(digits.labels("test"), y)


def test_it_is_small_and_says_whose_it_is() -> None:
    beside = resources.files("quoracy.learn")
    assert len(beside.joinpath("digits.gz").read_bytes()) < 60_000
    said = beside.joinpath("digits.txt").read_text()
    assert "Alpaydin" in said
    assert "CC BY 4.0" in said

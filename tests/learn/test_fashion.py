"""Fashion-MNIST as Debian ships it, and what is said where it is missing or broken."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import numpy as np
import pytest

from quoracy.core.errors import ConfigError
from quoracy.learn import fashion


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for path in fashion.DEBIAN.glob("*-ubyte.gz"):
        shutil.copy(path, tmp_path)
    monkeypatch.setenv(fashion.VARIABLE, str(tmp_path))
    return tmp_path


def test_both_parts_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(fashion.VARIABLE, raising=False)
    assert fashion.folder() == fashion.DEBIAN
    assert fashion.available()
    assert np.bincount(fashion.labels("train")).tolist() == [6_000] * fashion.CLASSES
    x, y = fashion.load("test")
    assert x.shape == (10_000, fashion.FEATURES)
    assert x.dtype == np.float32
    assert (x.min(), x.max()) == (0.0, 1.0)
    assert np.bincount(y).tolist() == [1_000] * fashion.CLASSES
    assert y[:5].tolist() == [9, 2, 1, 1, 6]  # an ankle boot comes first


def test_rows_are_taken_in_the_order_asked_for(copy: Path) -> None:
    x, y = fashion.load("test")
    some, classes = fashion.load("test", np.array([9_999, 0]))
    assert np.array_equal(some, x[[9_999, 0]])
    assert np.array_equal(classes, y[[9_999, 0]])


def test_what_is_missing_is_named_with_what_to_do(copy: Path) -> None:
    assert fashion.available()
    (copy / "train-labels-idx1-ubyte.gz").unlink()
    assert not fashion.available()
    with pytest.raises(ConfigError, match=r"train-labels-idx1-ubyte\.gz") as caught:
        fashion.labels("train")
    assert str(copy) in str(caught.value)
    assert "apt-get install dataset-fashion-mnist" in str(caught.value)
    assert fashion.VARIABLE in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not gzip",
        gzip.compress(b"\0\0\x08\x01" + (10_000).to_bytes(4, "big") + b"\1" * 10_000)[:-4],
        gzip.compress(b"\0\0\x08\x01" + (10_000).to_bytes(4, "big") + b"\1" * 9_999),
        gzip.compress(b"\0\0\x08\x01" + (9_999).to_bytes(4, "big") + b"\1" * 9_999),
        gzip.compress(b"\0\0\x09\x01" + (10_000).to_bytes(4, "big") + b"\1" * 10_000),
    ],
    ids=["empty", "not-gzip", "cut-off", "too-few", "another-size", "another-type"],
)
def test_a_broken_file_is_named(copy: Path, content: bytes) -> None:
    (copy / "t10k-labels-idx1-ubyte.gz").write_bytes(content)
    with pytest.raises(ConfigError, match=r"t10k-labels-idx1-ubyte\.gz"):
        fashion.load("test")

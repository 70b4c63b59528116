"""A large file is written by a thread beside the one that calculates: the same bytes, the same errors."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from quoracy.learn import behind, digest_of, tensors
from quoracy.learn.behind import Behind
from quoracy.learn.header import build
from quoracy.learn.tensors import TensorWriter, load

LAYOUT = {"a": ("F32", (1000,)), "b": ("F64", (500,)), "c": ("BF16", (700,))}


@pytest.fixture(params=["by itself", "behind"])
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(tensors, "WORTH_A_THREAD", 0 if request.param == "behind" else 2**40)
    monkeypatch.setattr(behind, "STRETCH_BYTES", 1500)
    return str(request.param)


def pieces(step: int) -> list[tuple[str, int, int]]:
    """In the order of the file."""
    sizes = {spec.name: spec.size for spec in build(LAYOUT)[1]}
    return [(name, at, min(at + step, size)) for name, size in sizes.items() for at in range(0, size, step)]


def written(path: Path, order: list[tuple[str, int, int]]) -> TensorWriter:
    dice = np.random.default_rng(7)
    numbers = {name: dice.standard_normal(shape[0]) for name, (_, shape) in LAYOUT.items()}
    room = np.empty(1000)
    with TensorWriter(path, LAYOUT) as writer:
        for name, start, stop in order:
            piece = room[: stop - start]
            piece[:] = numbers[name][start:stop]
            writer.write(name, start, piece)
            piece[:] = np.nan  # it is the caller's again
        writer.close()
    return writer


def writers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "quoracy-write"]


@pytest.mark.parametrize("step", [1, 333, 1000])
def test_the_bytes_and_the_digest_do_not_depend_on_how_they_are_written(how: str, step: int, tmp_path: Path) -> None:
    plain = written(tmp_path / "plain", pieces(1000))
    for number, order in enumerate((pieces(step), pieces(step)[::-1])):
        made = written(tmp_path / f"{number}", order)
        assert made.path.read_bytes() == plain.path.read_bytes()
        assert made.digest() == digest_of(made.path) == plain.digest()
    assert np.isfinite(load(plain.path)["a"]).all()
    assert writers() == []


def test_what_was_written_in_order_is_not_read_again(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = written(tmp_path / "made", pieces(100))
    expected = digest_of(made.path)
    monkeypatch.setattr(tensors, "digest_of", lambda _path: "read again")
    assert made.digest() == expected
    assert written(tmp_path / "backwards", pieces(100)[::-1]).digest() == "read again"


def test_a_disk_that_is_full_is_told(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tensors._write_all

    def full(fd: int, raw: memoryview, at: int) -> None:
        if at > 2000:
            raise OSError(28, "No space left on device")
        whole(fd, raw, at)

    monkeypatch.setattr(tensors, "_write_all", full)
    with pytest.raises(OSError, match="No space left"):
        written(tmp_path / "made", pieces(100))
    assert writers() == []


def test_a_file_that_is_given_up_leaves_no_thread(how: str, tmp_path: Path) -> None:
    with TensorWriter(tmp_path / "made", LAYOUT) as writer:
        writer.write("a", 0, np.ones(1000))
        assert len(writers()) == (how == "behind")
    assert writers() == []


def test_whoever_calculates_does_not_run_ahead_for_ever() -> None:
    """What waits to be written is bounded, however slow the disk is."""
    gate, passed = threading.Event(), threading.Event()
    slow = Behind(lambda _raw, _at: gate.wait())

    def give() -> None:
        for number in range(2 * behind.ROOMS):
            slow.give(memoryview(bytes(behind.STRETCH_BYTES)), number * behind.STRETCH_BYTES)
        passed.set()

    giver = threading.Thread(target=give, daemon=True)
    giver.start()
    assert not passed.wait(0.2)
    gate.set()
    assert passed.wait(30)
    giver.join(30)
    slow.finish()
    assert writers() == []

"""What a coordinator reads for its members: the right rows, off the event loop, and never more than it can hold."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

from quoracy.core.errors import ConfigError, Refused
from quoracy.core.witnessed.config import Config, DataSource
from quoracy.hosts.samples import KEPT, Samples
from quoracy.learn.witnessed.source import open_source, packed


def door(location: object, batch_size: int = 4, seed: int = 3) -> Config:
    return Config(batch_size=batch_size, seed=seed, data=DataSource("door", str(location)))


def rows(path: Path, count: int = 10) -> Path:
    x = np.arange(count * 3, dtype=np.float32).reshape(count, 3)
    path.write_bytes(save({"x": x, "y": np.arange(count), "x_test": x[:2], "y_test": np.arange(2)}))
    return path


def test_batches_are_those_that_every_member_would_have_read_itself(tmp_path: Path) -> None:
    path = rows(tmp_path / "set.safetensors")

    async def read() -> tuple[bytes, bytes | None]:
        samples = Samples()
        try:
            return await samples.batches(door(path), 2, 5), await samples.held_out(door(path))
        finally:
            await samples.close()

    content, held_out = asyncio.run(read())
    own = open_source("local", str(path), seed=3, batch_size=4)
    assert own is not None
    wanted = own.samples([2, 3, 4])
    got = load(content)
    assert got.keys() == wanted.keys() == {"x", "y"}
    assert all(np.array_equal(got[name], wanted[name]) for name in wanted)
    assert held_out is not None
    assert load(held_out)["y"].tolist() == [0, 1]


def test_reading_is_not_done_on_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop goes on while a read is held up."""
    path = rows(tmp_path / "set.safetensors")
    entered, go_on = threading.Event(), threading.Event()

    def held(source: Any, ids: Sequence[int]) -> bytes:
        entered.set()
        assert go_on.wait(30)
        return packed(source, ids)

    monkeypatch.setattr("quoracy.learn.witnessed.source.packed", held)

    async def both() -> bytes:
        samples = Samples()
        reading = asyncio.ensure_future(samples.batches(door(path), 0, 1))
        while not entered.is_set():
            await asyncio.sleep(0.001)
        assert not reading.done()
        go_on.set()
        try:
            return await reading
        finally:
            await samples.close()

    assert len(load(asyncio.run(both()))["y"]) == 4


def test_what_would_be_too_much_at_once_is_refused_with_how_much_is_not(tmp_path: Path) -> None:
    path = rows(tmp_path / "set.safetensors")

    async def read(end: int) -> bytes:
        samples = Samples(max_bytes=200)
        try:
            return await samples.batches(door(path), 0, end)
        finally:
            await samples.close()

    assert asyncio.run(read(2))
    with pytest.raises(Refused) as refused:
        asyncio.run(read(3))
    assert refused.value.code == "too_large"
    assert refused.value.refusal.fix == "ask for at most 2 batches at once"


@pytest.mark.parametrize("location", ["nowhere.npz", "what.txt", ""])
def test_what_cannot_be_read_is_named(tmp_path: Path, location: str) -> None:
    place = str(tmp_path / location) if location else ""

    async def check(read: bool) -> None:
        samples = Samples()
        try:
            await (samples.batches(door(place), 0, 1) if read else samples.check(door(place)))
        finally:
            await samples.close()

    with pytest.raises(ConfigError, match=r"data\.location"):
        asyncio.run(check(read=False))
    with pytest.raises(Refused, match=r"data\.location"):
        asyncio.run(check(read=True))


def test_sources_are_opened_once_and_not_all_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def counted(kind: str, location: str, **more: Any) -> Any:
        opened.append(location)
        return open_source(kind, location, **more)

    monkeypatch.setattr("quoracy.learn.witnessed.source.open_source", counted)
    paths = [rows(tmp_path / f"{i}.safetensors") for i in range(KEPT + 1)]

    async def read() -> None:
        samples = Samples()
        for path in (*paths, *paths[1:], paths[0]):
            await samples.batches(door(path), 0, 1)
        await samples.close()

    asyncio.run(read())
    assert opened == [*map(str, paths), str(paths[0])]


def test_a_run_whose_members_have_the_samples_needs_none_here() -> None:
    async def check() -> None:
        await Samples().check(Config())

    asyncio.run(check())

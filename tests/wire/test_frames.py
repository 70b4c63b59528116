"""The frame reader meets a deliberately dumb twin, hostile streams, and a fuzzer that follows its branches."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import tracemalloc
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quoracy.core.errors import Refusal
from quoracy.core.members import Cause
from quoracy.core.messages import Call, Hello, Sign
from quoracy.wire.frames import FrameReader, FrameTooLarge, frame
from quoracy.wire.messages import Ask, Greet, to_server

ROOT = Path(__file__).parents[2]
LIMIT = 64
FUZZ_RUNS = int(os.environ.get("QUORACY_FUZZ_RUNS", "20000"))

bodies = st.lists(st.binary(max_size=LIMIT), max_size=12)
cuts = st.lists(st.integers(0, 2000), max_size=40)


def joined(frames: list[bytes]) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in frames)


def split(stream: bytes, places: list[int]) -> list[bytes]:
    """The stream in pieces, empty ones among them."""
    edges = [0, *sorted(min(place, len(stream)) for place in places), len(stream)]
    return [stream[start:end] for start, end in pairwise(edges)]


def twin(stream: bytes, limit: int = LIMIT) -> tuple[list[bytes], bool]:
    """All frames of a whole stream, and whether one too large follows them. Recursive, wasteful, easy to check."""
    if len(stream) < 4:
        return [], False
    size = int.from_bytes(stream[:4], "big")
    if size > limit:
        return [], True
    if len(stream) < 4 + size:
        return [], False
    rest, broken = twin(stream[4 + size :], limit)
    return [stream[4 : 4 + size], *rest], broken


@given(bodies, st.binary(max_size=3), cuts)
def test_any_split_of_a_stream_gives_the_same_frames(frames: list[bytes], tail: bytes, places: list[int]) -> None:
    stream = joined(frames) + tail
    reader = FrameReader(LIMIT)
    assert [body for chunk in split(stream, places) for body in reader.feed(chunk)] == frames == twin(stream)[0]
    assert reader.kept_bytes() == len(tail)


@given(st.binary(max_size=400), cuts)
def test_any_bytes_in_any_split_are_read_as_the_twin_reads_them(stream: bytes, places: list[int]) -> None:
    expected, broken = twin(stream)
    reader, got, raised = FrameReader(LIMIT), [], False
    for chunk in split(stream, places):
        try:
            got += reader.feed(chunk)
        except FrameTooLarge:
            raised = True
            break
        assert reader.kept_bytes() <= LIMIT + 4
    assert raised is broken
    assert got == (expected[: len(got)] if broken else expected)


@given(bodies, st.integers(LIMIT + 1, 2**32 - 1), st.binary(max_size=100), cuts)
def test_what_is_too_large_is_refused_before_it_is_read(
    frames: list[bytes], size: int, rest: bytes, places: list[int]
) -> None:
    """As soon as the fourth byte of its length is there, and for good."""
    before = joined(frames) + size.to_bytes(4, "big")
    reader = FrameReader(LIMIT)
    fed = 0
    for chunk in split(before + rest, places):
        fed += len(chunk)
        if fed < len(before):
            reader.feed(chunk)
            continue
        with pytest.raises(FrameTooLarge, match=f"a frame of {size} bytes; at most {LIMIT}"):
            reader.feed(chunk)
        assert reader.kept_bytes() == 4


def test_a_frame_of_exactly_the_limit_passes() -> None:
    assert FrameReader(LIMIT).feed(joined([bytes(LIMIT)])) == [bytes(LIMIT)]
    with pytest.raises(FrameTooLarge):
        FrameReader(LIMIT).feed(joined([bytes(LIMIT + 1)]))


def test_a_reader_does_not_hold_on_to_what_it_was_fed() -> None:
    """Frames are copies: a large read with one small frame in it is freed."""
    chunk = joined([b"small", bytes(500_000)])
    reader = FrameReader()
    tracemalloc.start()
    try:
        kept = [reader.feed(bytes(chunk))[0] for _ in range(20)]
        size_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(kept) == 20
    assert size_bytes < 1_000_000


def test_memory_follows_what_came_and_not_what_was_announced() -> None:
    readers = [FrameReader() for _ in range(500)]
    tracemalloc.start()
    try:
        for reader in readers:
            reader.feed((1024 * 1024).to_bytes(4, "big") + b"x")
        size_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size_bytes < 500 * 1024


def test_a_large_frame_in_tiny_pieces_takes_time_in_proportion() -> None:
    """Four times the bytes take about four times as long; copying all that was kept each time would take sixteen."""

    def best_s(size: int) -> float:
        stream = joined([bytes(size)])
        chunks = [stream[at : at + 16] for at in range(0, len(stream), 16)]
        times = []
        for _ in range(5):
            reader = FrameReader()
            began = time.perf_counter()
            for chunk in chunks:
                reader.feed(chunk)
            times.append(time.perf_counter() - began)
            assert reader.kept_bytes() == 0
        return min(times)

    assert best_s(1024 * 1024) < 9 * best_s(256 * 1024)


# -- what a server does with a stream ------------------------------------------------------------------------------

MESSAGES = [
    Greet(2, 2, "qrt1_member_x.y", "test"),
    Hello("bert", "w1", 1, "token"),
    Call("bert", Cause("w1", 1, 1), msgspec.Raw(b"\x90")),
    Sign("bert", msgspec.Raw(b"\x90"), "w1", 1),
    Ask(1, "status", "bert", {"a": [1, None, "x"]}),
]


def test_messages_survive_the_way() -> None:
    reader = FrameReader()
    frames = [body for byte in b"".join(map(frame, MESSAGES)) for body in reader.feed(bytes([byte]))]
    assert [to_server.read(body) for body in frames] == MESSAGES


@given(st.binary(max_size=300))
def test_random_bytes_become_messages_or_refusals(stream: bytes) -> None:
    try:
        frames = FrameReader().feed(stream)
    except FrameTooLarge:
        return
    for body in [*frames, stream]:
        to_server.read(body)


@given(st.sampled_from(MESSAGES), st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), min_size=1, max_size=4))
def test_damaged_messages_are_read_or_refused_by_name(message: object, damage: list[tuple[int, int]]) -> None:
    body = bytearray(frame(message)[4:])
    for place, value in damage:
        body[place % len(body)] = value
    outcome = to_server.read(bytes(body))
    if isinstance(outcome, Refusal):
        assert outcome.code == "malformed"
        assert outcome.why.startswith("message")


@given(st.sampled_from(MESSAGES), st.integers(0, 200))
def test_truncated_messages_are_refused(message: object, size: int) -> None:
    body = frame(message)[4:]
    assert isinstance(to_server.read(body[: size % len(body)]), Refusal)


@pytest.mark.parametrize("opening", [b"\x91", b"\x81\xa1a", b"\xdd\0\0\0\1"], ids=["array", "map", "array32"])
def test_a_bottomless_nest_is_refused(opening: bytes) -> None:
    deep = opening * 200_000
    assert isinstance(to_server.read(deep), Refusal)
    assert isinstance(to_server.read(b"\x95\xa3ask\x01\xa6status\xa0" + deep), Refusal)


def test_a_fuzzer_that_follows_the_branches_finds_nothing(tmp_path: Path) -> None:
    """Coverage-guided, in a process of its own. QUORACY_FUZZ_RUNS makes it longer."""
    apart = ["sh", "-c", '"$0" "$@"; exit $?']  # what a large process starts counts that one's memory as its own
    command = [
        *apart, sys.executable, str(ROOT / "tests/wire/fuzz_frames.py"), f"-runs={FUZZ_RUNS}", "-seed=7",
        "-max_len=4096", f"-artifact_prefix={tmp_path}/", "-rss_limit_mb=1024", "-timeout=10",
    ]  # fmt: skip
    (tmp_path / "inputs").mkdir()
    command.append(str(tmp_path / "inputs"))
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    ran = re.search(r"Done (\d+) runs", done.stderr)
    assert ran is not None, done.stderr[-4000:]
    assert int(ran[1]) >= FUZZ_RUNS
    covered = re.findall(r"cov: (\d+)", done.stderr)
    assert int(covered[-1]) > 20, "nothing was instrumented"

"""Fuzzes the way from bytes to messages with atheris. test_frames.py runs it, as in:

    python tests/wire/fuzz_frames.py -runs=20000 FOLDER

FOLDER is where inputs that reach something new are kept; a few good streams are put there to begin with.

The first bytes of an input say how it is cut into reads and how large a frame may be; the rest is the stream. Nothing
may crash, hang, or be kept beyond one frame; and the cut must not matter.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["quoracy.wire", "quoracy.core.codec", "quoracy.core.messages"]):
    import msgspec

    from quoracy.core.errors import Refusal
    from quoracy.core.messages import decode_to_host
    from quoracy.wire.frames import FrameReader, FrameTooLarge
    from quoracy.wire.messages import Ask, Greet, Hello, Sign, ToServer, to_client, to_server

LIMITS = (0, 1, 16, 255, 4096, 1024 * 1024)


def read_all(stream: bytes, piece: int, limit: int) -> tuple[list[bytes], bool]:
    """The frames, and whether the stream was broken off."""
    reader = FrameReader(limit)
    frames: list[bytes] = []
    for at in range(0, len(stream), piece):
        try:
            frames += reader.feed(stream[at : at + piece])
        except FrameTooLarge:
            return frames, True
        if reader.kept_bytes() > limit + 4:
            raise AssertionError(f"{reader.kept_bytes()} bytes kept with a limit of {limit}")
    return frames, False


def check_message(body: bytes) -> None:
    message = to_server.read(body)
    to_client.read(body)
    decode_to_host(body)
    if not isinstance(message, Refusal) and isinstance(message, ToServer):
        again = to_server.read(msgspec.msgpack.encode(message))
        if again != message and "nan" not in repr(message):
            raise AssertionError(f"{message!r} came back as {again!r}")


def test_one_input(given: bytes) -> None:
    if len(given) < 2:
        return
    piece, limit, stream = given[0] % 32 + 1, LIMITS[given[1] % len(LIMITS)], given[2:]
    cut, cut_broken = read_all(stream, piece, limit)
    whole, whole_broken = read_all(stream, max(1, len(stream)), limit)
    if cut_broken != whole_broken or (not cut_broken and cut != whole):
        raise AssertionError(f"cut into pieces of {piece}: {cut} instead of {whole}")
    for body in [*cut, stream]:
        check_message(body)


def seeds() -> list[bytes]:
    """Streams to begin with, so that the fuzzer need not invent msgpack."""
    sign = Sign("r", msgspec.Raw(b"\x90"), "m", 1)
    messages: list[object] = [Greet(2, 2, "t"), Hello("r", "m", 1), sign, Ask(1, "runs")]
    encoded = [msgspec.msgpack.encode(message) for message in messages]
    framed = b"".join(len(body).to_bytes(4, "big") + body for body in encoded)
    return [b"\x07\x05" + framed, *(b"\x02\x03" + body for body in encoded)]


def main() -> None:
    folder = Path(sys.argv[-1])
    if folder.is_dir():
        for number, stream in enumerate(seeds()):
            (folder / f"seed-{number}").write_bytes(stream)
    atheris.Setup(sys.argv, test_one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()

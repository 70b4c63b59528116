"""Programs that tests run as processes of their own: python programs.py NAME URL [ARGUMENT...].

They speak in lines: what happened goes to standard output, and a line on standard input lets them go on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from quoracy.core.errors import ObjectsError
from quoracy.objects import open_objects
from quoracy.testing.objects import LARGE_BYTES, content_of, digest_of

MIB = 1024 * 1024


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def attempt(what: str, call: Callable[[], object]) -> None:
    """Do it and say how it ended, with the name of the error or the outcome."""
    try:
        say(what, call())
    except ObjectsError as error:
        say(what, type(error).__name__, error)


def race(url: str, me: str, rounds: str) -> None:
    """Create the same keys as others do, and say which were won. Every fourth is large."""
    objects = open_objects(url)
    say("ready")
    input()
    for i in range(int(rounds)):
        content = content_of(f"{me}/{i}", 1000 if i % 4 else LARGE_BYTES)
        if objects.put(f"race/{i}", content, digest_of(content)):
            say(i)


def stall(url: str, key: str, mib: str) -> None:
    """Put so much, and stop short of the end until killed."""

    def chunks() -> Iterator[bytes]:
        for i in range(int(mib)):
            yield content_of(f"{i}", MIB)
        say("stalled")
        input()

    open_objects(url).put_chunks(key, chunks())


def append_for_ever(url: str, upload: str) -> None:
    """Go on with an upload until killed; what it holds is known."""
    objects = open_objects(url)
    at = objects.begin(upload)
    while True:
        at = objects.append(upload, at, pattern(at, 100_000))
        say(at)


def pattern(start: int, size_bytes: int) -> bytes:
    """A stretch of one endless content."""
    first = start // 64
    blocks = b"".join(b"%064d" % i for i in range(first, (start + size_bytes) // 64 + 1))
    return blocks[start - first * 64 :][:size_bytes]


def fill(folder: str) -> None:
    """On a disk of 4 MiB: what fits, what does not, and what is there afterwards."""
    objects = open_objects(folder)
    large = content_of("large", 8 * MIB)
    attempt("small", lambda: objects.put("small", b"x" * 1000))
    attempt("large", lambda: objects.put("large", large))
    attempt("file", lambda: objects.fetch("small", Path(folder, "copy")))
    objects.begin("u")
    attempt("append", lambda: objects.append("u", 0, large))
    attempt("offset", lambda: objects.offset("u"))
    attempt("again", lambda: objects.append("u", 0, large[:MIB]))
    attempt("keys", lambda: [found.key for found in objects.listing()])
    attempt("left", lambda: len(list(Path(folder, ".new").iterdir())))
    attempt("later", lambda: objects.put("later", large[:MIB]))


def only_read(folder: str) -> None:
    """On a disk that is read-only."""
    objects = open_objects(folder)
    attempt("get", lambda: objects.get("small", 10))
    attempt("put", lambda: objects.put("other", b"x"))
    attempt("alias", lambda: objects.alias("small", "other"))
    attempt("begin", lambda: objects.begin("u"))
    attempt("delete", lambda: objects.delete("small"))
    attempt("open", lambda: open_objects(folder + "/another"))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])

"""Models on this machine, by their digest: fetched once, however many participants there are.

Whoever needs one that is not there takes its lock and fetches it; the others wait for the lock and find it. What a
killed participant had begun is gone on with. A model is only in the folder under its digest when it was whole and
right, and is looked at again by everybody who uses it: a machine that lost its power may have lost some of it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from time import time
from typing import Final

from quoracy.core.errors import ConfigError
from quoracy.learn.tensors import digest_of

KEEP: Final = 2
"""Models of one run: this round's, and the last's, which a slower participant may still begin with."""

LEFT_S: Final = 86_400.0


class Cache:
    def __init__(self, folder: Path) -> None:
        """Raises ConfigError if nothing can be written there."""
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise ConfigError("cache", str(folder), f"cannot be made ({error.strerror}): name another folder") from None
        self._sweep()

    def get(self, digest: str, fetch: Callable[[Path], None]) -> Path:
        """The model; ``fetch`` is called with a file to write, in which some of it may be, and raises if it cannot."""
        path = self._folder / digest
        with self._locked(digest):
            if path.exists() and digest_of(path) == digest:
                os.utime(path)
                return path
            self._tidy(KEEP - 1)
            part = self._folder / f".{digest}.part"
            fetch(part)
            part.replace(path)
        return path

    def temporary(self) -> Path:
        """A new name, for what is about to be uploaded."""
        return self._folder / f".{token_hex(16)}.update"

    @contextmanager
    def _locked(self, digest: str) -> Iterator[None]:
        """By one of a few files that stay: one that comes and goes with its model could be held twice."""
        lock = os.open(self._folder / f".{digest[:1]}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _sweep(self) -> None:
        """What killed participants left. One that is under way for longer than that is not: its file is newer."""
        for path in self._folder.glob(".*.*"):
            if path.suffix in (".update", ".part") and time() - _age(path) > LEFT_S:
                path.unlink(missing_ok=True)

    def _tidy(self, keep: int) -> None:
        """Before one comes, so that it finds room. Whoever has mapped one that goes keeps it."""
        found = [path for path in self._folder.iterdir() if not path.name.startswith(".")]
        for path in sorted(found, key=_age, reverse=True)[keep:]:
            for gone in (path, self._folder / f".{path.name}.part"):
                with suppress(FileNotFoundError):
                    gone.unlink()


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def default_folder(run: str) -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "quoracy" / "weights" / run

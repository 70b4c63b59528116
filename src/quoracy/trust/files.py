"""Secrets on disk: readable by their owner alone, there whole or not at all, never overwritten.

A file is written under a temporary name that only the owner can open, fsynced, and then *linked* to its name. A link
fails where something is, so of two processes that create the same secret at the same time one wins and the other
reads what the winner wrote.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path
from typing import Final

from quoracy.core.errors import ConfigError
from quoracy.folders import sync_directory

OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
MAX_FILE_BYTES: Final = 64 * 1024
"""No key or certificate is as large; what is larger is another file."""


def create_file(path: Path, content: bytes, what: str) -> bool:
    """Write the file if nothing has its name yet; whether it was written. Raises ConfigError where it cannot be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            made = _link(temporary, path)
        finally:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
        sync_directory(path.parent)
    except OSError as error:
        fix = f"this file cannot be written ({error.strerror}); choose a folder on a disk of this machine"
        raise ConfigError(what, str(path), fix) from None
    return made


def create_new(path: Path, content: bytes, what: str) -> None:
    """Like ``create_file``, but raises ConfigError where something is."""
    if not create_file(path, content, what):
        raise ConfigError(what, str(path), "this file is there already and is not overwritten; move it away first")


def read_file(path: Path, what: str) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(what, str(path), f"this file cannot be read ({error.strerror})") from None
    if len(content) > MAX_FILE_BYTES:
        raise ConfigError(what, str(path), f"this file is larger than {MAX_FILE_BYTES} bytes: name another")
    return content


def read_secret(path: Path, what: str) -> bytes:
    """The file's bytes. Raises ConfigError if anybody but its owner could have read them too."""
    content = read_file(path, what)
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & OTHERS:
        fix = f"others can open this file (mode {mode:04o}); if nobody has, run: chmod 600 {path}"
        raise ConfigError(what, str(path), fix)
    return content


def _link(temporary: str, path: Path) -> bool:
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    return True

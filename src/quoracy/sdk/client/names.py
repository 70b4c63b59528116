"""A name for a participant or a member that was given none: the same after every restart, and no other's meanwhile.

An id is what a place in a round is kept under, so it must outlive the process: its number does not do. What stays the
same when it is started again is where and how it is started: the machine, the folder, the command. Of
several that are started in the same way at once, each holds the lock of a number, which the system gives back when it
dies.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import sys
from hashlib import blake2b
from pathlib import Path
from typing import Final

from quoracy.core.errors import ConfigError

MAX_HOST: Final = 40
MOST: Final = 1000
FOLDERS: Final = {"participant": "participants", "member": "member-names"}
"""Where the locks are, by what is named."""
_held: list[int] = []
"""Locks, open until this process ends."""


def lasting_name(run: str, what: str = "participant") -> str:
    """``what`` is the setting that gives it a name."""
    host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:MAX_HOST] or "host"
    started = "\0".join((run, str(Path.cwd()), *sys.argv))
    name = f"{host}-{blake2b(started.encode('utf-8', 'surrogateescape'), digest_size=4).hexdigest()}"
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "quoracy" / FOLDERS[what]
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for number in range(1, MOST):
            called = name if number == 1 else f"{name}-{number}"
            if _locked(folder / called):
                return called
    except OSError as error:
        fix = f"name it: {folder}, where names are kept, cannot be used ({error.strerror})"
        raise ConfigError(what, None, fix) from None
    raise ConfigError(what, None, f"name it: {MOST} of the same command run here already")


def _locked(path: Path) -> bool:
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return False
    _held.append(lock)
    return True

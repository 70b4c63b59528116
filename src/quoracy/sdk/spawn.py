"""Starting a process beside the training, and not leaving one behind.

The child gets one end of a pair of sockets and the shared page, and nothing else: no standard input, none of the
training's files. It is a session of its own, so that Ctrl-C and Ctrl-Z at the terminal mean the training alone. What is
secret goes through the socket, never on the command line.
"""

from __future__ import annotations

import contextlib
import os
import site
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

from quoracy.sdk.errors import SidecarFailed
from quoracy.sdk.page import Page

ROOT: Final = Path(__file__).resolve().parents[2]
"""Where the package is found: a training may know it only through its own sys.path."""


class Child:
    def __init__(self, module: str, page: Page | None = None) -> None:
        """``module`` is run with the number of its socket, that of the page if there is one, and that of this process.
        Raises SidecarFailed if no process can be started."""
        self.sock, theirs = socket.socketpair()
        files = [theirs.fileno(), *([] if page is None else [page.fd])]
        arguments = [*map(str, files), str(os.getpid())]
        try:
            self._process = subprocess.Popen(  # noqa: S603 - ourselves
                [sys.executable, "-P", "-m", module, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=files,
                start_new_session=True,
                env=_environment(),
            )
        except OSError as error:
            self.sock.close()
            why = f"no process can be started with {sys.executable!r}: {error.strerror}"
            raise SidecarFailed(why, "free memory or processes, and connect again") from None
        finally:
            theirs.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> int:
        """End it, whatever it does, and reap it. Returns how it ended."""
        self.sock.close()
        self._process.kill()
        return self._process.wait()

    def wait(self, timeout_s: float) -> None:
        """After it was told to go. One that does not is killed."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        self.kill()

    def forget(self) -> None:
        """In a forked child, whose sidecar this is not: close our copy of the socket, reap nobody."""
        self.sock.close()
        self._process.returncode = 0


def _environment() -> dict[str, str]:
    known = {Path(folder) for folder in [*site.getsitepackages(), site.getusersitepackages()]}
    if ROOT in known:
        return dict(os.environ)
    path = [entry for entry in (os.environ.get("PYTHONPATH", ""), str(ROOT)) if entry]
    return os.environ | {"PYTHONPATH": os.pathsep.join(path)}

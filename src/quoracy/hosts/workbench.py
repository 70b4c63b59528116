"""A process of the workshop: ``python -m quoracy.hosts.workbench SOCKET``. Gets duties through a socket, does them, and
says what came of them.

It ends when the other side of the socket is closed, in whatever it does: nothing is lost by that, since a duty that was
not answered is given again. What an evaluation function prints goes to standard error, as the server's own log.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import msgspec

from quoracy.wire.frames import FrameReader, frame

NICE: Final = 5
"""Weights can wait a moment longer than heartbeats."""
RECEIVED_BYTES: Final = 256 * 1024


class Setup(msgspec.Struct, frozen=True, array_like=True, tag="setup"):
    """The first message."""

    objects: str
    scratch: str
    at_once: int
    path: list[str]
    """Where modules are looked for."""


class Given(msgspec.Struct, frozen=True, array_like=True, tag="given"):
    number: int
    run: str
    prefix: str
    what: str
    order: dict[str, Any]


class Ready(msgspec.Struct, frozen=True, array_like=True, tag="ready"):
    """``why`` is empty, or says why this process can do nothing; then it ends."""

    why: str = ""


class Finished(msgspec.Struct, frozen=True, array_like=True, tag="finished"):
    number: int
    result: dict[str, Any] = {}
    later: str = ""
    """It could not be done now, and why: try again in a while."""
    bug: str = ""
    """Where it broke, for the log."""


_in: Final = msgspec.msgpack.Decoder(Setup | Given)
answers: Final = msgspec.msgpack.Decoder(Ready | Finished)


class Workbench:
    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._frames = FrameReader()
        self._say = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None

    def serve(self) -> None:
        while chunk := self._line.recv(RECEIVED_BYTES):
            for body in self._frames.feed(chunk):
                message = _in.decode(body)
                if isinstance(message, Given):
                    self._take(message)
                else:
                    self._set_up(message)

    def _set_up(self, setup: Setup) -> None:
        sys.path[:] = setup.path
        try:
            from quoracy.hosts.duties import Duties
            from quoracy.objects import open_objects

            Path(setup.scratch).mkdir(parents=True, exist_ok=True)
            self._duties = Duties(open_objects(setup.objects), Path(setup.scratch))
        except Exception as error:
            self._answer(Ready(f"{type(error).__name__}: {error}"))
            raise SystemExit(1) from None
        self._pool = ThreadPoolExecutor(setup.at_once)
        self._answer(Ready())

    def _take(self, given: Given) -> None:
        if self._pool is not None:
            self._pool.submit(self._perform, given)

    def _perform(self, given: Given) -> None:
        from quoracy.core.errors import ObjectsError

        try:
            finished = Finished(given.number, self._duties.perform(given.run, given.prefix, given.what, given.order))
        except (ObjectsError, OSError) as error:
            finished = Finished(given.number, later=str(error) or type(error).__name__)
        except Exception as error:
            why = f"the workshop broke at it: {type(error).__name__}: {str(error)[:160]}"
            bug = "".join(traceback.format_exception(error)[-3:])
            finished = Finished(given.number, failure(given.what, why), bug=bug)
        self._answer(finished)

    def _answer(self, message: Ready | Finished) -> None:
        with self._say:
            self._line.sendall(frame(message))


def failure(what: str, why: str) -> dict[str, Any]:
    """A duty that cannot be done, in the words of its kind."""
    return {"ok": False, "why": why} if what == "admit" else {"failed": why}


def main(arguments: list[str]) -> None:
    os.nice(NICE)
    os.dup2(2, 1)
    with socket.socket(fileno=int(arguments[0])) as line:
        try:
            Workbench(line).serve()
        except OSError:
            pass  # the server is gone
        finally:
            os._exit(0)  # whatever is under way is not waited for


if __name__ == "__main__":
    main(sys.argv[1:])

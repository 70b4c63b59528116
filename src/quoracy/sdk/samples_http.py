"""Samples through the coordinator's HTTP door, where a run's data is not at hand. Only those that are this member's.

A door that does not answer is asked again for as long as the batches are wanted: the coordinator may be on its way
back. So is one that refuses: it may know sooner than this member that its life is over and its batches are another's,
and then they are soon not wanted here any more. Only what stays wanted and refused is raised.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from quoracy.core.errors import ObjectMissing, ObjectsError, ObjectsUnreachable, Refused
from quoracy.sdk.http_line import HttpLine, failed

FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 2.0
LOOK_S: Final = 0.1
REFUSED: Final = 10
"""So often something may be refused before it is raised: about ten seconds."""
FOR_GOOD: Final = frozenset({"too_large", "config", "malformed", "contradiction"})
"""Refusals that no waiting changes."""


class HttpSamples:
    def __init__(self, line: Callable[[], HttpLine], check: Callable[[], None]) -> None:
        """``line``: made when it is first needed, since most runs have their data at hand. ``check``: raises if what is
        fetched is not wanted any more."""
        self._line = line
        self._check = check

    def fetch(self, batch_ids: Sequence[int]) -> bytes:
        """Of one contiguous range of batches."""
        first, last = batch_ids[0], batch_ids[-1]
        found = self._get(f"batches/{first}-{last}", f"batches {first} to {last}")
        if found is None:
            raise ObjectMissing(f"batches {first}-{last}")
        return found

    def held_out(self) -> bytes | None:
        return self._get("held-out", "held-out samples")

    def _get(self, path: str, what: str) -> bytes | None:
        pause_s, refused = FIRST_PAUSE_S, 0
        while True:
            error: ObjectsError | Refused
            try:
                with self._line().asked("GET", path, what) as answer:
                    if answer.status == 200:
                        return answer.read()
                    error = failed(answer, "GET", what, what)
            except ObjectsUnreachable as trouble:
                error = trouble
            if isinstance(error, ObjectMissing):
                return None
            if isinstance(error, Refused):
                refused += 1
                if error.code in FOR_GOOD or refused >= REFUSED:
                    raise error
            elif not isinstance(error, ObjectsUnreachable):
                raise error
            self._pause(pause_s)
            pause_s = min(LONGEST_PAUSE_S, 2 * pause_s)

    def _pause(self, pause_s: float) -> None:
        until_s = time.monotonic() + pause_s
        self._check()
        while (left_s := until_s - time.monotonic()) > 0:
            time.sleep(min(LOOK_S, left_s))
            self._check()

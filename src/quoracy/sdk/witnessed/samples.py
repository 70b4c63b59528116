"""Samples through the coordinator's HTTP door, where a run's data is not at hand. Only those that are this member's.

A door that does not answer is asked again for as long as the batches are wanted: the coordinator may be on its way
back. So is one that refuses: it may know sooner than this member that its life is over and its batches are another's,
and then they are soon not wanted here any more. Only what stays wanted and refused is raised.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Final

from quoracy.core.backoff import Backoff, Waits
from quoracy.core.errors import CATALOG, ObjectMissing, ObjectsError, ObjectsUnreachable, Refused
from quoracy.sdk.client.http import HttpLine, failed

WAITS: Final = Waits(first_us=100_000, longest_us=2_000_000)
LOOK_S: Final = 0.1
REFUSED: Final = 10
"""So often something may be refused before it is raised: about ten seconds."""


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
        backoff, refused = Backoff(WAITS), 0
        while True:
            error: ObjectsError | Refused
            advised_s: float | None = None
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
                if CATALOG[error.code].grpc == "INVALID_ARGUMENT" or refused >= REFUSED:
                    raise error  # in the first case the request is wrong in itself, whoever sends it
            elif isinstance(error, ObjectsUnreachable):
                advised_s = error.retry_after_s
            else:
                raise error
            self._pause(backoff.failed_s(time.monotonic(), random.SystemRandom().random(), advised_s))

    def _pause(self, pause_s: float) -> None:
        until_s = time.monotonic() + pause_s
        self._check()
        while (left_s := until_s - time.monotonic()) > 0:
            time.sleep(min(LOOK_S, left_s))
            self._check()

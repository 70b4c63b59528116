"""Which run is meant by one who names none: the only one of its kind that the coordinator has."""

from __future__ import annotations

import os
import random
import time
from typing import Final

from quoracy.core.backoff import Backoff, Waits
from quoracy.core.errors import ConfigError, Refused
from quoracy.sdk.client.ask import Asker
from quoracy.sdk.client.errors import Unreachable

WAITS: Final = Waits(first_us=100_000, longest_us=1_000_000)


def only_run(
    kind: str,
    url: str,
    token: str | None,
    ca: str | os.PathLike[str] | None,
    give_up_s: float | None,
    wait: bool = False,
) -> str:
    """A coordinator that does not answer is asked again and again; with ``wait`` also one that has no such run yet."""
    token = os.environ.get("QUORACY_TOKEN", "") if token is None else token
    ca = os.environ.get("QUORACY_CA") if ca is None and url.startswith("tcps") else ca
    began_s, backoff = time.monotonic(), Backoff(WAITS)
    while True:
        try:
            with Asker(url, token=token, ca=None if ca is None else str(ca)) as asker:
                names = [str(run["run"]) for run in asker.ask("runs") if run.get("kind") == kind]
            if names or not wait:
                break
        except Unreachable:
            if give_up_s is not None and time.monotonic() - began_s >= give_up_s:
                raise
        except Refused as error:
            fix = f"name it: run=..., or QUORACY_RUN ({error.refusal.why})"
            raise ConfigError("run", None, fix) from None
        time.sleep(backoff.failed_s(time.monotonic(), random.SystemRandom().random()))
    if len(names) == 1:
        return names[0]
    there = ", ".join(names) or f"no {kind} run"
    raise ConfigError("run", None, f"name it: run=..., or QUORACY_RUN; the coordinator has {there}")

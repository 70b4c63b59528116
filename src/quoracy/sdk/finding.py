"""Which run is meant by one who names none: the only one of its kind that the coordinator has."""

from __future__ import annotations

import os
import time
from typing import Final

from quoracy.core.errors import ConfigError, Refused
from quoracy.sdk.asking import Asker
from quoracy.sdk.errors import Unreachable

AGAIN_S: Final = 1.0


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
    began_s = time.monotonic()
    while True:
        try:
            with Asker(url, token=token, ca=None if ca is None else str(ca)) as asker:
                names = [str(run["run"]) for run in asker.ask("runs") if run["kind"] == kind]
            if names or not wait:
                break
            time.sleep(AGAIN_S)
        except Unreachable:
            if give_up_s is not None and time.monotonic() - began_s >= give_up_s:
                raise
            time.sleep(AGAIN_S)
        except Refused as error:
            fix = f"name it: run=..., or QUORACY_RUN ({error.refusal.why})"
            raise ConfigError("run", None, fix) from None
    if len(names) == 1:
        return names[0]
    there = ", ".join(names) or f"no {kind} run"
    raise ConfigError("run", None, f"name it: run=..., or QUORACY_RUN; the coordinator has {there}")

"""What was wrong with a life: a promise was broken, or the code failed, which no promise allows either."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import PurePath

from quoracy.sim.checkers.base import Violation
from quoracy.sim.world import World


def lived(live: Callable[[], None], world: World) -> str:
    """Live it. -> what was wrong, which also stands in the transcript; empty if nothing was."""
    try:
        live()
    except Violation as error:
        found = str(error)
    except Exception as error:  # a life that ends like this is one seed that failed, and not the end of them all
        last = traceback.extract_tb(error.__traceback__)[-1]
        found = f"{type(error).__name__}: {error} ({PurePath(last.filename).name}:{last.lineno})"
    else:
        return ""
    world.note("checker", lambda: found)
    return found

"""What a training may report under names of its own, checked where it is reported: nobody would answer later.

Names that a curve, a label and a file can be called: no quotes, no spaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from typing import Any, Final

from quoracy.core.errors import ConfigError

MAX_METRICS: Final = 16
MAX_VALUE: Final = 1e300
"""What a heartbeat can carry. Sixteen names of 64 letters, with their numbers, are 1.2 KB of the shared page."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]{0,63}", re.ASCII)


def check_metrics(new: Iterable[str], known: Set[str]) -> frozenset[str]:
    """All names, if they are names and not too many. Raises ConfigError."""
    for name in new:
        if not _NAME.fullmatch(name):
            raise ConfigError("metric", name, "a letter, then up to 63 letters, digits, '_', '.', '/' and '-'")
    both = frozenset(known) | frozenset(new)
    if len(both) > MAX_METRICS:
        fix = f"at most {MAX_METRICS} names for one worker, these are {len(both)}: report fewer"
        raise ConfigError("metrics", ", ".join(sorted(both)), fix)
    return both


def check_number(name: str, value: Any) -> float:
    """As a float: whole numbers, and whatever converts itself, such as a tensor with one element."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise ConfigError(name, repr(value)[:80], "a number") from None

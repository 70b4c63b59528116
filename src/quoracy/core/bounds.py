"""Numbers from outside, bounded before anything is computed with them.

A number can be short to write and enormous to compute with: ``1e-20000000`` has eleven characters, and as an exact
fraction a denominator of twenty million digits. So digits are counted first, and only then does a text become a number.
Every setting, argument and header that is a number comes through here, or through a type with a least and a most.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, Final

from msgspec import Meta

from quoracy.core.errors import ConfigError, shown

LEAST_INT: Final = -(2**63)
MOST_INT: Final = 2**64 - 1
"""What the journal and the wire can carry."""
Plain = None | bool | int | float | Annotated[str, Meta(max_length=256)]
"""What a hyper-parameter may be. Its numbers are bounded by ``unbounded``, as every setting's are."""
MOST_EXACT: Final = 2.0**53
"""Up to here a float holds every whole number."""
MAX_DEPTH: Final = 16
"""Lists and tables within each other, in a setting that may hold anything."""
MAX_DIGITS: Final = 18
LEAST_SHARE: Final = 10.0**-MAX_DIGITS
_SHARE: Final = re.compile(rf"[0-9]{{1,{MAX_DIGITS}}}([./][0-9]{{1,{MAX_DIGITS}}})?")
_OVER_ZERO: Final = re.compile("/0+$")


def whole(text: str, most: int) -> int | None:
    """A number from 0 to ``most`` in plain digits; None if it is none."""
    digits = text.lstrip("0") or text[:1]
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > len(str(most)):
        return None
    number = int(digits)
    return number if number <= most else None


def exact(value: float) -> float | int:
    """JSON and protobuf's tables have one sort of number: 2.0 is as whole as 2. One so large that floats leave numbers
    out stays a float."""
    return int(value) if value.is_integer() and abs(value) <= MOST_EXACT else value


@lru_cache(64)
def share(given: str | float) -> Fraction:
    """A part of a whole, exactly: "2/3", "0.67", or 0.67, which is 67/100 whatever a float makes of it. Raises
    ValueError for what is no such number above 0 and up to 1."""
    text = given.replace(" ", "") if isinstance(given, str) else repr(given)
    digits = _SHARE.fullmatch(text) is not None if isinstance(given, str) else LEAST_SHARE <= given <= 1
    found = Fraction(text) if digits and not _OVER_ZERO.search(text) else Fraction(0)
    if not 0 < found <= 1:
        raise ValueError(f"{shown(given)} is no share above 0 and up to 1")
    return found


def unbounded(value: Any, name: str = "", depth: int = 0) -> Iterator[ConfigError]:
    """Every number in a value, however deep, that is too large to be written down or is none at all."""
    match value:
        case bool():
            return
        case int() if not LEAST_INT <= value <= MOST_INT:
            yield ConfigError(name, value, f"a whole number from {LEAST_INT} to {MOST_INT}")
        case float() if not math.isfinite(value):
            yield ConfigError(name, value, "a finite number")
        case Mapping() | list() | tuple():
            if depth == MAX_DEPTH:
                yield ConfigError(name, "...", f"at most {MAX_DEPTH} lists and tables within each other")
                return
            named = isinstance(value, Mapping)
            parts = value.items() if isinstance(value, Mapping) else enumerate(value)
            for key, part in parts:
                place = f"{name}.{key}" if named and name else str(key) if named else f"{name}[{key}]"
                yield from unbounded(part, place, depth + 1)

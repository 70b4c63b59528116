"""What a field takes, in words for people. A library's words for its types are no way out for whoever mistyped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_args

import msgspec
from msgspec import inspect as shape

from quorate.core.errors import ConfigError


def wanted(kind: Any) -> str:
    """What a field takes, as a few words."""
    described = shape.type_info(kind)
    match described:
        case shape.BoolType():
            return "true or false"
        case shape.NoneType():
            return "null"
        case shape.LiteralType():
            values = [str(value) for value in get_args(kind)]
            return values[0] if len(values) == 1 else "one of: " + ", ".join(values)
        case shape.IntType() | shape.FloatType():
            sort = "a whole number" if isinstance(described, shape.IntType) else "a number"
            return sort + _bounds(described.ge, described.le)
        case shape.UnionType():
            return ", or ".join(wanted(part) for part in get_args(kind) if part is not msgspec.UnsetType)
        case shape.VarTupleType():
            return f"a list: {wanted(get_args(kind)[0])}"
        case shape.DictType() | shape.StructType():
            return "names with values" + _bounds(None, getattr(described, "max_length", None))
        case shape.StrType():
            least = "empty or " if not (described.min_length or described.pattern) else ""
            size = _bounds(None, described.max_length) + " characters" * bool(described.max_length)
            return f"{least}a text{size}{f' that matches {described.pattern}' if described.pattern else ''}"
    return "a value of another type"


def wrong_settings(given: Mapping[str, Any], wished: type[msgspec.Struct]) -> Iterator[ConfigError]:
    """Everything in ``given`` that cannot become such a struct, in the order in which it was given."""
    types = {field.name: field.type for field in msgspec.structs.fields(wished)}
    for name, value in given.items():
        if name not in types:
            yield ConfigError(name, value, f"there is no such setting; there are: {', '.join(types)}")
            continue
        try:
            msgspec.convert(value, types[name])
        except msgspec.ValidationError:
            yield ConfigError(name, value, wanted(types[name]))


def _bounds(least: float | None, most: float | None) -> str:
    match least, most:
        case None, None:
            return ""
        case None, _:
            return f" of at most {most}"
        case _, None:
            return f" of at least {least}"
    return f" from {least} to {most}"

"""What a field takes, in words for people. A library's words for its types are no way out for whoever mistyped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, get_args, get_origin

import msgspec
from msgspec import inspect as shape

from quoracy.core.bounds import unbounded
from quoracy.core.errors import ConfigError


def wanted(kind: Any) -> str:
    """What a field takes, as a few words."""
    described = shape.type_info(kind)
    match described:
        case shape.BoolType():
            return "true or false"
        case shape.NoneType():
            return "null"
        case shape.LiteralType():
            return _one_of([str(value) for value in get_args(kind)])
        case shape.IntType() | shape.FloatType():
            sort = "a whole number" if isinstance(described, shape.IntType) else "a number"
            return sort + _range(described)
        case shape.UnionType():
            return ", or ".join(_parts(kind))
        case shape.ListType() | shape.VarTupleType():
            return f"a list: {wanted(get_args(_bare(kind))[0])}"
        case shape.DictType() | shape.StructType():
            return "names with values" + _bounds(None, getattr(described, "max_length", None))
        case shape.StrType():
            least = "empty or " if not (described.min_length or described.pattern) else ""
            size = _bounds(None, described.max_length) + " characters" * bool(described.max_length)
            return f"{least}a text{size}{f' that matches {described.pattern}' if described.pattern else ''}"
    return "a value of another type"


def wrong_settings(given: Mapping[str, Any], wished: type[msgspec.Struct], within: str = "") -> Iterator[ConfigError]:
    """Everything in ``given`` that cannot become such a struct, in the order in which it was given, and then what is
    missing. ``within``: the field that ``given`` is the value of, with a dot."""
    fields = {field.name: field for field in msgspec.structs.fields(wished)}
    for name, value in given.items():
        if name in fields:
            yield from _wrong(f"{within}{name}", value, fields[name].type)
        else:
            fix = f"there is no such setting; {_meant(name, fields)}there are: {', '.join(fields)}"
            yield ConfigError(f"{within}{name}", value, fix)
    for name, field in fields.items():
        if field.required and name not in given:
            yield ConfigError(f"{within}{name}", None, f"has to be given: {wanted(field.type)}")


def _meant(name: str, known: Iterable[str]) -> str:
    """The one that looks most like it, if any does."""
    near = get_close_matches(name, list(known), 1)
    return f"did you mean {near[0]}? " if near else ""


def _wrong(name: str, value: Any, kind: Any) -> Iterator[ConfigError]:
    """What is wrong with one value: inside of it, if it has parts and a place among them can be named."""
    if found := list(unbounded(value, name)):
        yield from found
        return
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        deeper = list(_inside(name, value, _bare(kind)))
        yield from deeper or [ConfigError(name, value, wanted(kind))]


def _inside(name: str, value: Any, kind: Any) -> Iterator[ConfigError]:
    if isinstance(value, list | tuple) and get_origin(kind) in (list, tuple):
        for place, one in enumerate(value):
            yield from _wrong(f"{name}[{place}]", one, get_args(kind)[0])
    structs = _structs(kind)
    if not structs or not isinstance(value, Mapping):
        return
    field = structs[0].__struct_config__.tag_field
    if field is None:
        yield from wrong_settings(value, structs[0], f"{name}.")
        return
    tagged = {struct.__struct_config__.tag: struct for struct in structs}
    tag = value.get(field)
    if isinstance(tag, str | int) and tag in tagged:
        rest = {key: one for key, one in value.items() if key != field}
        yield from wrong_settings(rest, tagged[tag], f"{name}.")
    else:
        yield ConfigError(f"{name}.{field}", tag, _one_of([str(one) for one in tagged]))


def _parts(kind: Any) -> list[str]:
    """The choices of a union. Structs that a tag tells apart are one choice: the names of the tag."""
    structs = _structs(kind)
    tagged = [struct for struct in structs if struct.__struct_config__.tag_field]
    said = []
    for part in get_args(_bare(kind)):
        if part is msgspec.UnsetType:
            continue
        if part not in tagged:
            said.append(wanted(part))
        elif part is tagged[0]:
            tags = _one_of([str(struct.__struct_config__.tag) for struct in tagged])
            said.append(f"names with values, of which {part.__struct_config__.tag_field} is {tags}")
    return said


def _structs(kind: Any) -> list[Any]:
    """The structs among the choices of a type, or the type itself if it is one."""
    choices = get_args(kind) or (kind,)
    return [one for one in choices if isinstance(one, type) and issubclass(one, msgspec.Struct)]


def _bare(kind: Any) -> Any:
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _one_of(values: list[str]) -> str:
    return values[0] if len(values) == 1 else "one of: " + ", ".join(values)


def _range(described: shape.IntType | shape.FloatType) -> str:
    """Bounds that belong to the range are said as from and to, those that do not as above and below."""
    above = f" above {described.gt}" if described.gt is not None else ""
    below = f" below {described.lt}" if described.lt is not None else ""
    return " and".join(part for part in (_bounds(described.ge, described.le), above, below) if part)


def _bounds(least: float | None, most: float | None) -> str:
    match least, most:
        case None, None:
            return ""
        case None, _:
            return f" of at most {most}"
        case _, None:
            return f" of at least {least}"
    return f" from {least} to {most}"

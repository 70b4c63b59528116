"""Values made from type information: such as fit a field, and such as do not.

What is known of a type is found out once: every test asks for all of them, in every state of every kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, get_type_hints

import msgspec
from hypothesis import strategies as st
from msgspec import inspect as mi

STRANGE: list[Any] = [None, True, 1.5, 7, -1, "text", b"bytes", [], [1], {}, {"a": 1}, 2**64 - 1]
"""One of each sort of value."""
DIGESTS = ["0" * 64, "ab" * 32]
"""What fits the one pattern there is."""


@cache
def fields(sort: Any) -> tuple[Any, ...]:
    info = mi.type_info(sort)
    assert isinstance(info, mi.StructType)
    return info.fields


@cache
def tag(sort: Any) -> Any:
    info = mi.type_info(sort)
    assert isinstance(info, mi.StructType)
    return info.tag


def fits(kind: Any, value: Any) -> bool:
    """Asked of msgspec itself, by way of the wire."""
    try:
        _reader(kind).decode(msgspec.msgpack.encode([value]))
    except (msgspec.ValidationError, msgspec.DecodeError):
        return False
    return True


@cache
def _reader(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(list[kind])


def example(info: Any) -> Any:
    """The plainest value that fits."""
    match info:
        case mi.StrType():
            return _word(info)
        case mi.IntType():
            return max(info.ge or 0, 1)
        case mi.FloatType():
            return 0.5
        case mi.BoolType():
            return True
        case mi.TupleType() | mi.StructType():
            return [example(item) for item in _parts(info)]
        case mi.BytesType():
            return bytes(info.min_length or 0)
        case mi.ListType() | mi.VarTupleType():
            return []
        case mi.DictType():
            return {}
        case mi.LiteralType():
            return info.values[0]
        case mi.UnionType() if not info.includes_none:
            return example(info.types[0])
        case mi.UnionType() | mi.NoneType():
            return None
    raise AssertionError(info)


def _parts(info: mi.TupleType | mi.StructType) -> list[Any]:
    """Structs travel as arrays too."""
    return [field.type for field in info.fields] if isinstance(info, mi.StructType) else list(info.item_types)


def _word(info: mi.StrType) -> str:
    if info.pattern is not None:
        return DIGESTS[0]
    least = info.min_length or 0
    return "w"[: info.max_length] if least <= 1 else "w" * least


def limits(info: Any) -> list[Any]:
    """Values of the right sort just beyond what is allowed, and far beyond."""
    match info:
        case mi.StrType():
            long = ["w" * (info.max_length + 1), "w" * 100_000] if info.max_length is not None else []
            odd = [DIGESTS[0][1:], DIGESTS[0] + "0", "G" * 64] if info.pattern is not None else []
            return long + odd + ([""] if info.min_length else [])
        case mi.IntType() | mi.FloatType():
            low = [] if info.ge is None else [info.ge - 1, -(2**63)]
            return low + ([] if info.le is None else [info.le + 1, 2**64 - 1]) + [float("nan"), float("inf")]
        case mi.BytesType():
            sizes = [s for s in ((info.min_length or 0) - 1, (info.max_length or 0) + 1) if s >= 0]
            return [bytes(size) for size in sizes if info.max_length is not None]
        case mi.ListType() | mi.VarTupleType():
            many = [[example(info.item_type)] * (info.max_length + 1)] if info.max_length else []
            return many + [[bad] for bad in [*limits(info.item_type), *STRANGE]]
        case mi.DictType():
            many = [{f"k{i}": example(info.value_type) for i in range(info.max_length + 1)}] if info.max_length else []
            bad = [{"k": bad} for bad in [*limits(info.value_type), *STRANGE, [[[]]], {"k": {"k": {}}}]]
            return many + bad + [{key: example(info.value_type)} for key in [*limits(info.key_type), 5]]
        case mi.LiteralType():
            return ["no-such-word", "w" * 100_000]
    return []


@cache
def field_types(sort: Any) -> dict[str, Any]:
    return get_type_hints(sort, include_extras=True)


def misfits(sort: type[Any], name: str, info: Any) -> list[Any]:
    """Everything strange that does not fit this field."""
    kind = field_types(sort)[name]
    return [value for value in [*STRANGE, *limits(info)] if not fits(kind, value)]


def wire(sort: type[Any], **values: Any) -> list[Any]:
    """The event as it travels: its tag, then its fields in order."""
    return [tag(sort), *(values.get(f.name, example(f.type)) for f in fields(sort))]


def fitting(info: Any, words: Sequence[str]) -> st.SearchStrategy[Any]:
    """Values that fit, from so few that they meet what is there."""
    match info:
        case mi.StrType():
            return st.sampled_from([w for w in words if w or not info.min_length] if not info.pattern else DIGESTS)
        case mi.IntType():
            low, high = info.ge or 0, info.le if info.le is not None else 2**53
            return st.sampled_from([n for n in (0, 1, 2, 3, 4, high) if low <= n <= high])
        case mi.FloatType():
            return st.sampled_from([0.0, 0.5, 1.0])
        case mi.BoolType():
            return st.booleans()
        case mi.TupleType() | mi.StructType():
            return _together(info, words)
        case mi.BytesType():
            return st.sampled_from([bytes([n]) * (info.min_length or 3) for n in (0, 1, 2)])
        case mi.ListType() | mi.VarTupleType():
            made = st.lists(fitting(info.item_type, words), max_size=3)
            return made if isinstance(info, mi.ListType) else made.map(tuple)
        case mi.DictType():
            return st.dictionaries(st.sampled_from(words), fitting(info.value_type, words), max_size=2)
        case mi.LiteralType():
            return st.sampled_from(info.values)
        case mi.UnionType() if not info.includes_none:
            return st.one_of(*(fitting(one, words) for one in info.types))
        case mi.UnionType():
            return st.sampled_from([None, 1, "x", True, 0.5, [1, None], {"a": "b"}])
    raise AssertionError(info)


def _together(info: mi.TupleType | mi.StructType, words: Sequence[str]) -> st.SearchStrategy[Any]:
    if isinstance(info, mi.StructType):
        return any_of(info.cls, words)
    return st.tuples(*(fitting(item, words) for item in info.item_types))


def any_of(sort: type[Any], words: Sequence[str]) -> st.SearchStrategy[Any]:
    """Events of this sort in which every field fits, and nothing need fit together."""
    return _any_of(sort, tuple(words))


@cache
def _any_of(sort: Any, words: tuple[str, ...]) -> st.SearchStrategy[Any]:
    return st.builds(sort, **{f.name: fitting(f.type, words) for f in fields(sort)})

"""The fields of a struct as people read them: name, type with its limits, default, and the docstring below it."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any

import msgspec
from msgspec import inspect as shape

LARGEST = 2**53


def field_table(
    struct: type[msgspec.Struct], without: Collection[str] = (), defaults: bool = True, last: str = "meaning"
) -> list[str]:
    """A Markdown table of the struct's fields but those in ``without``; empty if none is left."""
    described = shape.type_info(struct)
    fields = described.fields if isinstance(described, shape.StructType) else ()
    meanings = attribute_docs(struct)
    columns = [
        ("field", [f"`{field.name}`" for field in fields]),
        ("type and limits", [said(field.type) for field in fields]),
        ("default", [_default(field) for field in fields] if defaults else []),
        (last, [meanings.get(field.name, "") for field in fields]),
    ]
    kept = [place for place, field in enumerate(fields) if field.name not in without]
    shown = [(head, cells) for head, cells in columns if any(cells[place] for place in kept if cells)]
    rows = [tuple(cells[place] for _, cells in shown) for place in kept]
    return table(tuple(head for head, _ in shown), rows) if rows else []


def table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    lines = ["| " + " | ".join(heads) + " |", "| " + " | ".join("---" for _ in heads) + " |"]
    lines += ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows]
    return lines


def attribute_docs(struct: type[Any]) -> dict[str, str]:
    """The strings that stand below the fields of a class, its bases included."""
    docs: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        if not base.__module__.startswith(("quoracy.", "tests.")):
            continue
        tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
        for field, below in pairwise(body):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
                and isinstance(below.value.value, str)
            ):
                docs[field.target.id] = prose(below.value.value)
    return docs


def docstring(struct: type[Any]) -> str:
    """The class's own docstring; "" if it has none."""
    return prose(struct.__dict__.get("__doc__") or "")


def prose(text: str) -> str:
    return " ".join(inspect.cleandoc(text).replace("``", "`").split())


def _default(field: shape.Field) -> str:
    if field.default_factory is not msgspec.NODEFAULT:
        return f"`{field.default_factory()!r}`"
    if field.default is msgspec.NODEFAULT:
        return "required"
    return f"`{field.default!r}`"


def said(kind: shape.Type) -> str:
    """A type with its limits, as a few words."""
    match kind:
        case shape.IntType() | shape.FloatType():
            name = "int" if isinstance(kind, shape.IntType) else "float"
            return ", ".join([name, *_range(kind.ge, kind.gt, kind.le, kind.lt)])
        case shape.StrType():
            return ", ".join(["str", *_length(kind.min_length, kind.max_length, "characters")])
        case shape.BytesType():
            return ", ".join(["bytes", *_length(kind.min_length, kind.max_length, "long")])
        case shape.LiteralType():
            return " or ".join(f"`{value}`" for value in kind.values)
        case shape.StructType() | shape.EnumType():
            return kind.cls.__name__
        case shape.BoolType():
            return "bool"
        case shape.NoneType():
            return "none"
    return _said_of_many(kind)


def _said_of_many(kind: shape.Type) -> str:
    match kind:
        case shape.ListType() | shape.VarTupleType():
            head = ", ".join(["list", *_length(kind.min_length, kind.max_length, "items")])
            return f"{head}, each: {said(kind.item_type)}"
        case shape.TupleType():
            return "(" + "; ".join(said(item) for item in kind.item_types) + ")"
        case shape.DictType():
            head = ", ".join(["map", *_length(kind.min_length, kind.max_length, "keys")])
            return f"{head}, from: {said(kind.key_type)}; to: {said(kind.value_type)}"
        case shape.UnionType():
            return " or ".join(said(each) for each in kind.types)
    return "anything"


def _range(ge: float | None, gt: float | None, le: float | None, lt: float | None) -> list[str]:
    words = []
    if ge is not None and le is not None:
        return [f"{_number(ge)} to {_number(le)}"]
    if ge is not None:
        words.append(f"at least {_number(ge)}")
    if gt is not None:
        words.append(f"more than {_number(gt)}")
    if le is not None:
        words.append(f"at most {_number(le)}")
    if lt is not None:
        words.append(f"less than {_number(lt)}")
    return words


def _number(value: float) -> str:
    return "2^53" if value == LARGEST else f"{value:,}"


def _length(least: int | None, most: int | None, of: str) -> list[str]:
    if least and most:
        return [f"{least:,} {of}" if least == most else f"{least:,} to {most:,} {of}"]
    if most is not None:
        return [f"at most {most:,} {of}"]
    return [f"at least {least:,} {of}"] if least else []

"""The server's settings as a TOML file: each with its reason, what it takes, and its default."""

from __future__ import annotations

import json
from collections.abc import Mapping
from textwrap import wrap
from typing import Any

import msgspec

from quoracy.config import ServerConfig
from quoracy.config.load import tables
from quoracy.core.wanted import wanted
from quoracy.docs.fields import attribute_docs, docstring

WIDTH = 112
HEAD = """\
Settings of a Quoracy server: quoracy serve --config FILE

Every setting stands here with its reason, what it takes, and its default, behind a # without a space: take that away to
change it. Later ones win: the defaults, this file, the environment (QUORACY_DATA; QUORACY_LOG or RUST_LOG;
HEARTBEAT_INTERVAL in milliseconds; STORAGE_BACKEND, which is local or s3, and CHECKPOINT_BUCKET with s3), the command
line."""


def settings_page(config: ServerConfig | None = None, sources: Mapping[str, str] | None = None) -> str:
    """``sources``: where the values that were given come from, by field; those are shown as set."""
    config = config or ServerConfig()
    lines = [_comment(line) for line in HEAD.splitlines()]
    for name, struct in tables():
        values = config.runs[name.removeprefix("runs.")] if name.startswith("runs.") else getattr(config, name)
        about = docstring(struct)
        if name.startswith("runs."):
            about = f"New runs of the kind {name.removeprefix('runs.')}, where whoever creates one says nothing else."
        lines += ["", "", *_prose(about), f"[{name}]", *_table(name, struct, values, sources or {})]
    return "\n".join(lines) + "\n"


def _table(name: str, struct: type[msgspec.Struct], values: Any, sources: Mapping[str, str]) -> list[str]:
    whys = attribute_docs(struct)
    lines = []
    for field in msgspec.structs.fields(struct):
        value = getattr(values, field.name)
        lines += ["", *_prose(whys[field.name]), _comment(f"({wanted(field.type)})")]
        source = sources.get(f"{name}.{field.name}")
        if source is None:
            lines.append(f"#{field.name} = {toml(value)}")
        else:
            lines.append(f"{field.name} = {toml(value)}  # from {source}; the default is {toml(field.default)}")
    return lines


def toml(value: Any) -> str:
    """One value as TOML writes it."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, msgspec.Struct | dict):
        inside = ", ".join(f"{name} = {toml(part)}" for name, part in msgspec.to_builtins(value).items())
        return "{ " + inside + " }" if inside else "{}"
    if isinstance(value, int) and value >= 100_000:
        return f"{value:_}"
    return repr(value)


def _prose(text: str) -> list[str]:
    return [_comment(line) for line in wrap(text, WIDTH)]


def _comment(line: str) -> str:
    return f"# {line}".rstrip()

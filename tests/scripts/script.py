"""Stories: plain text in, exact text out.

A story is a text file of comments and steps. A step is a command on one line, a line ``----``, what the command put
out, and an empty line. The stories are read by people first: they tell the protocol one case at a time. The runner
plays the commands against real hosts (see ``world``) and compares; ``--rewrite`` writes what came out into the file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

MARK = "----"


@dataclass(frozen=True)
class Comment:
    """Lines that begin with ``#``, as they are."""

    text: str


@dataclass(frozen=True)
class Step:
    line: int
    command: str
    output: str


class ScriptError(Exception):
    """The file is not a story: says where and why."""


def parse(text: str, name: str = "script") -> list[Comment | Step]:
    items: list[Comment | Step] = []
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        if not lines[at].strip():
            at += 1
            continue
        end = at
        while end < len(lines) and lines[end].strip():
            end += 1
        items.append(_block(lines[at:end], at + 1, name))
        at = end
    return items


def _block(block: list[str], line: int, name: str) -> Comment | Step:
    if all(part.startswith("#") for part in block):
        return Comment("\n".join(block))
    if len(block) < 2 or block[1] != MARK:
        raise ScriptError(f"{name}:{line}: a step is a command, a line {MARK}, output; found {block[0]!r} alone")
    return Step(line, block[0].strip(), "\n".join(block[2:]))


def render(items: list[Comment | Step]) -> str:
    blocks = []
    for item in items:
        if isinstance(item, Comment):
            blocks.append(item.text)
        else:
            blocks.append("\n".join([item.command, MARK, *([item.output] if item.output else [])]))
    return "\n\n".join(blocks) + "\n"


def play(items: list[Comment | Step], run: Callable[[str], str], name: str = "script") -> list[Comment | Step]:
    """The same story with the output that came out."""
    played: list[Comment | Step] = []
    for item in items:
        if isinstance(item, Comment):
            played.append(item)
            continue
        try:
            output = run(item.command)
        except Exception as error:
            error.add_note(f"{name}:{item.line}: {item.command}")
            raise
        if any(not line.strip() for line in output.splitlines()):
            raise ScriptError(f"{name}:{item.line}: output with an empty line cannot be written down")
        played.append(Step(item.line, item.command, output))
    return played


def first_difference(wanted: list[Comment | Step], got: list[Comment | Step], name: str) -> str | None:
    """None if the story went as it is written; else a report of the first step that did not."""
    for want, have in zip(wanted, got, strict=True):
        if isinstance(want, Step) and isinstance(have, Step) and want.output != have.output:
            return "\n".join(
                [
                    f"{name}:{want.line}: {want.command}",
                    "wanted:",
                    *(f"    {line}" for line in want.output.splitlines()),
                    "got:",
                    *(f"    {line}" for line in have.output.splitlines()),
                    "if the new output is right, and you know why: pytest tests/scripts --rewrite",
                ]
            )
    return None


def stories(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.txt"))

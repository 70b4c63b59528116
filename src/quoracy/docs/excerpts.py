"""Pieces of source files inside pages that are written by hand.

A page asks for a piece with a comment, and the code block below it is kept equal to the source:

    <!-- source: tests/core/tally.py Counted Tally.apply -->
    ```python
    ...
    ```

Names are those of classes, functions and assignments at the top of the file, or ``Class.method``. A name that no longer
exists is an error, so renaming something breaks the page that explains it and not its reader.
"""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

from quoracy.core.errors import ConfigError

_ASKED = re.compile(r"^<!-- source: (\S+) (.+?) -->\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def with_excerpts(text: str, root: Path, page: str) -> str | None:
    """The page with every piece as it is in its source; None if it asks for none."""
    if not _ASKED.search(text):
        return None

    def fresh(asked: re.Match[str]) -> str:
        path, names = asked[1], asked[2].split()
        code = excerpt((root / path).read_text(encoding="utf-8"), names, f"{page}: {path}")
        return f"<!-- source: {path} {asked[2]} -->\n```python\n{code}```"

    return _ASKED.sub(fresh, text)


def excerpt(source: str, names: list[str], where: str) -> str:
    """The named pieces in the order asked for, two empty lines apart, each as it is written but not indented."""
    lines = source.splitlines()
    pieces = []
    for name in names:
        node = _find(ast.parse(source).body, name.split("."))
        if node is None:
            raise ConfigError(where, name, "no class, function or assignment of that name: correct the page")
        first = min([node.lineno, *(mark.lineno for mark in getattr(node, "decorator_list", []))])
        pieces.append(textwrap.dedent("\n".join(lines[first - 1 : node.end_lineno])) + "\n")
    return "\n\n".join(pieces) if any("\n" in piece.strip() for piece in pieces) else "".join(pieces)


def _find(body: list[ast.stmt], path: list[str]) -> ast.stmt | None:
    for node in body:
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef() if node.name == path[0]:
                return node if len(path) == 1 else _find(node.body, path[1:])
            case ast.Assign(targets=[ast.Name(id=name)]) if [name] == path:
                return node
            case ast.AnnAssign(target=ast.Name(id=name)) if [name] == path:
                return node
    return None

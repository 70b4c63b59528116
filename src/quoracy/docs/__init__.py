"""Pages that are made from the code, so that they cannot say anything else than the code does.

machines  one page per kind: its tables as diagrams and in full, its events, signals, views and settings
diagram   a table as a Mermaid state diagram
fields    the fields of a struct: types, limits, defaults, and the docstrings below them
catalog   the page of all error codes
ports     the page of what stores promise of each operation
settings  the server's settings as a TOML file
excerpts  pieces of source files inside pages that are written by hand

``python -m quoracy.docs`` writes the pages, ``--check`` names those that are stale. This room reads the core, the
settings and the suites' promises, and writes below ``docs/``; only the command line imports it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from quoracy.core.kinds import ALL
from quoracy.core.machine import Kind
from quoracy.docs.catalog import catalog_page
from quoracy.docs.excerpts import with_excerpts
from quoracy.docs.machines import machine_page
from quoracy.docs.ports import ports_page
from quoracy.docs.settings import settings_page

__all__ = ["pages", "stale", "write"]


def pages(root: Path, kinds: Iterable[Kind] = tuple(ALL)) -> dict[str, str]:
    """Every page that is made from the code, by its path below ``root``, as it should be."""
    made = {f"docs/machines/{kind.name}.md": machine_page(kind) for kind in kinds}
    made["docs/reference/errors.md"] = catalog_page()
    made["docs/reference/ports.md"] = ports_page()
    made["docs/reference/quoracy.toml"] = settings_page()
    for path in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        name = path.relative_to(root).as_posix()
        if name not in made and path.is_file():
            fresh = with_excerpts(path.read_text(encoding="utf-8"), root, name)
            if fresh is not None:
                made[name] = fresh
    return made


def stale(root: Path, kinds: Iterable[Kind] = tuple(ALL)) -> list[str]:
    """The pages that are missing or say something else than the code."""
    return [name for name, text in pages(root, kinds).items() if not _is(root / name, text)]


def write(root: Path, kinds: Iterable[Kind] = tuple(ALL)) -> list[str]:
    """Write what is stale; returns which pages that were."""
    made = pages(root, kinds)
    changed = [name for name, text in made.items() if not _is(root / name, text)]
    for name in changed:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(made[name], encoding="utf-8")
    return changed


def _is(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text

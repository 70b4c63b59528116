"""``python -m quoracy.docs.release [--root FOLDER]``: records what this version promises to those who are built against
it, in ``proto/released/VERSION``: the .proto files and the OpenAPI document, as they are.

The tests compare what there is with what was recorded, so a release is recorded once, when it is made, and never
changed.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Final

import msgspec

from quoracy.doors.http.openapi import document
from quoracy.version import __version__

RELEASED: Final = Path("proto/released")
PROMISED: Final = Path("proto/quoracy/v1")
DOCUMENT: Final = "openapi.json"
SECTION: Final = re.compile(r"^## (\d+\.\d+\.\d+) \((\d{4}-\d{2}-\d{2})\)$", re.MULTILINE)
"""How a release is headed in the changelog."""


def promises(root: Path) -> dict[str, bytes]:
    """What would be recorded now, by file name."""
    files = {path.name: path.read_bytes() for path in sorted((root / PROMISED).glob("*.proto"))}
    return files | {DOCUMENT: msgspec.json.format(msgspec.json.encode(document()), indent=1) + b"\n"}


def releases(root: Path) -> list[Path]:
    """The folders of what was recorded, oldest first."""
    return sorted((root / RELEASED).iterdir(), key=lambda folder: tuple(map(int, folder.name.split("."))))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m quoracy.docs.release", description=__doc__)
    parser.add_argument("--root", type=Path, default=Path.cwd(), help="the repository (default: this folder)")
    root: Path = parser.parse_args(arguments).root
    changes = root / "CHANGELOG.md"
    if not (root / PROMISED).is_dir() or not changes.is_file():
        sys.stderr.write(f"{root} is not the repository: run this there, or give --root\n")
        return 2
    if __version__ not in [version for version, _ in SECTION.findall(changes.read_text(encoding="utf-8"))]:
        sys.stderr.write(f"CHANGELOG.md has no section '## {__version__} (YEAR-MONTH-DAY)': write it first\n")
        return 1
    folder = root / RELEASED / __version__
    if folder.exists():
        sys.stderr.write(f"{folder} is there: {__version__} was released; raise src/quoracy/version.py for the next\n")
        return 1
    folder.mkdir(parents=True)
    for name, content in promises(root).items():
        (folder / name).write_bytes(content)
        sys.stdout.write(f"wrote: {RELEASED / __version__ / name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

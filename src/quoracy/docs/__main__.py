"""``python -m quoracy.docs [--check] [--root FOLDER]``: write the generated pages, or say which are stale."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from quoracy.docs import stale, write


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m quoracy.docs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is stale")
    parser.add_argument("--root", type=Path, default=Path.cwd(), help="the repository (default: this folder)")
    chosen = parser.parse_args(arguments)
    if not (chosen.root / "docs").is_dir():
        sys.stderr.write(f"{chosen.root} has no folder docs: run this in the repository, or give --root\n")
        return 2
    if chosen.check:
        late = stale(chosen.root)
        for name in late:
            sys.stdout.write(f"stale: {name}\n")
        return 1 if late else 0
    for name in write(chosen.root):
        sys.stdout.write(f"wrote: {name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

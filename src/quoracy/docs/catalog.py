"""The page of all error codes, from ``core.errors.CATALOG``."""

from __future__ import annotations

from quoracy.core.errors import CATALOG
from quoracy.docs.fields import table

HEAD = """<!-- Made by `python -m quoracy.docs` from src/quoracy/core/errors.py: do not edit. -->

# Error codes

A refusal or an error has a code from this table, a sentence that says why, and what to do. The code is the same on
every door; how each door tells it is listed here. A code is never renamed and never used for another meaning.

Exit is the exit code of the command line. The tree of exceptions is drawn in
[errors.py](../../src/quoracy/core/errors.py).
"""


def catalog_page() -> str:
    rows = [
        (f"`{name}`", code.meaning, f"`{code.grpc}`", str(code.http), str(code.exit)) for name, code in CATALOG.items()
    ]
    return "\n".join([HEAD, *table(("code", "meaning", "gRPC", "HTTP", "exit"), rows)]) + "\n"

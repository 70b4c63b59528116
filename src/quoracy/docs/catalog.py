"""The page of all error codes, from ``core.errors.CATALOG``."""

from __future__ import annotations

from quoracy.core.errors import CATALOG
from quoracy.docs.fields import table

HEAD = """<!-- Made by `python -m quoracy.docs` from src/quoracy/core/errors.py: do not edit. -->

# Error codes

A refusal or an error has a code from this table, a sentence that says why, and what to do. The code is the same on
every door; how each door tells it is listed here. A code is never renamed and never used for another meaning.

Exit is the exit code of the command line. Retry says what becomes of the same request if it is sent again:

- `later`: it may be taken, since what stands in its way passes without its sender. Send it again, after a wait that
  grows each time; where the answer says how long (`retry_after_s`, `Retry-After`), not sooner.
- `changed`: it fails again. Something in it, or what it is about, has to be another.
- `over`: for its sender the run has no place, or no place any more. Stop.

The doors say it with every refusal, so no client needs a list of codes: a code that a client does not know is treated
as what its `retry` says. The tree of exceptions is drawn in
[errors.py](../../src/quoracy/core/errors.py).
"""


def catalog_page() -> str:
    rows = [
        (f"`{name}`", code.meaning, f"`{code.retry.value}`", f"`{code.grpc}`", str(code.http), str(code.exit))
        for name, code in CATALOG.items()
    ]
    return "\n".join([HEAD, *table(("code", "meaning", "retry", "gRPC", "HTTP", "exit"), rows)]) + "\n"

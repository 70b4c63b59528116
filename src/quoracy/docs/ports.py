"""The page of what stores promise of each operation, from ``testing.promises``."""

from __future__ import annotations

from quoracy.docs.fields import table
from quoracy.testing.promises import PROMISES

HEAD = """<!-- Made by `python -m quoracy.docs` from src/quoracy/testing/promises.py: do not edit. -->

# What a store promises of each operation

The same for every store: in memory, SQLite, etcd, a TCPStore, and any other that passes the
[suites](../../src/quoracy/testing/). How each one keeps it: [journal.md](../journal.md), [etcd.md](../etcd.md).

- *Atomic*: it happens at one moment, whole or not at all, also among callers in different processes.
- *Acknowledged*: when it returns it has happened, and every handle sees it from then on. What raises `OutcomeUnknown`
  may have happened or not; what raises anything else has not.
- *Durable*: once acknowledged it survives whatever the store's own data survives. What is not durable may be forgotten
  at any time; *-* where nothing is changed. A store in memory, such as a TCPStore, is as durable as its process.

After `close`, which may be called twice, every operation raises `ValueError`; that is checked for each port as well.
"""
WORDS = {True: "yes", False: "no", None: "-"}


def ports_page() -> str:
    rows = [
        (
            f"`{each.port}.{each.operation}`", WORDS[each.atomic], WORDS[each.acknowledged], WORDS[each.durable],
            each.means, ", ".join(f"`{name}`" for name in each.checks),
        )
        for each in PROMISES
    ]  # fmt: skip
    head = ("operation", "atomic", "acknowledged", "durable", "what that means", "checked by")
    return "\n".join([HEAD, *table(head, rows)]) + "\n"

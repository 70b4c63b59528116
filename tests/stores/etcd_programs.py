"""Programs that a test runs as processes of their own on one etcd: ``python etcd_programs.py NAME URL ...``."""

from __future__ import annotations

import sys

from quoracy.core.errors import JournalError
from quoracy.ports import Append, Conflict
from quoracy.stores.etcd import EtcdJournal


def say(*words: object) -> None:
    print(*words, flush=True)  # noqa: T201


def contend(url: str, me: str, rounds: str) -> None:
    """Tries to get each entry; says who got it."""
    journal = EtcdJournal(url)
    say("ready")
    sys.stdin.readline()
    for n in range(1, int(rounds) + 1):
        mine = f"{me}:{n}".encode()
        (outcome,) = journal.append([Append("r", n, mine)])
        say((outcome.payload if isinstance(outcome, Conflict) else mine).decode())
    journal.close()


def hold_lock(url: str) -> None:
    """Takes the lock; then says whether it has it, each time it is asked."""
    journal = EtcdJournal(url, patience_s=1.0)
    say("locked", journal.try_lock())
    for _ in sys.stdin:
        try:
            say("locked", journal.try_lock())
        except JournalError as error:
            say(error.code)


if __name__ == "__main__":
    {"contend": contend, "hold_lock": hold_lock}[sys.argv[1]](*sys.argv[2:])

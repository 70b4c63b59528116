"""Programs that tests run as processes of their own: python programs.py NAME DIRECTORY [ARGUMENT...].

They speak in lines: what happened goes to standard output, and a line on standard input lets them go on.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from quoracy.core.errors import JournalError
from quoracy.ports import Append, Conflict, Saved
from quoracy.stores import SqliteJournal


def payload_of(n: int) -> bytes:
    """What entry n of the killed process holds: different sizes, up to several pages."""
    return b"%d " % n * (n * 37 % 3000 + 1)


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def attempt(what: str, call: Callable[[], object]) -> None:
    """Do it and say how it ended, with the name of the error or the outcome."""
    try:
        say(what, call())
    except JournalError as error:
        say(what, type(error).__name__)


def race(directory: Path, me: str, count: str) -> None:
    """Append ``count`` entries beside others that do the same."""
    with closing(SqliteJournal(directory)) as journal:
        say("ready")
        input()
        n = 1
        for i in range(int(count)):
            while isinstance(journal.append([Append("r", n, f"{me}:{i}".encode())])[0], Conflict):
                n += 1
            say("won", n, i)
            n += 1


def contend(directory: Path, me: str, rounds: str) -> None:
    """Wish for the same numbers as others do, and say what is there."""
    with closing(SqliteJournal(directory)) as journal:
        say("ready")
        input()
        for n in range(1, int(rounds) + 1):
            (outcome,) = journal.append([Append("r", n, f"{me}:{n}".encode())])
            say(outcome.payload.decode() if isinstance(outcome, Conflict) else f"{me}:{n}")


def append_for_ever(directory: Path) -> None:
    """Append until killed, checkpointing, saving snapshots and compacting all the time."""
    with closing(SqliteJournal(directory, checkpoint_bytes=64 * 1024)) as journal:
        n = journal.last("r")
        say("begin", n)
        while True:
            n += 1
            journal.append([Append("r", n, payload_of(n))])
            say(n)
            if n % 10 == 0:
                journal.save_snapshot(
                    "r", Saved(n, payload_of(n), {payload_of(i)[:32]: payload_of(i) for i in range(9)})
                )
                say("saved", n)
            if n % 25 == 0:
                journal.compact("r", n - 5)
                say("compacted")


def append_on_demand(directory: Path) -> None:
    with closing(SqliteJournal(directory)) as journal:
        say("ready")
        for line in sys.stdin:
            n = int(line)
            journal.append([Append("r", n, payload_of(n))])
            say("appended", n)


def hold_lock(directory: Path) -> None:
    with closing(SqliteJournal(directory)) as journal:
        say("locked", journal.try_lock())
        input()


def hold_lock_and_fork(directory: Path) -> None:
    """The child lives on after its parent was killed, and must not keep the lock."""
    with closing(SqliteJournal(directory)) as journal:
        say("locked", journal.try_lock())
        child = os.fork()
        if child == 0:
            say("child", os.getpid())
            sys.stdin.read()
            os._exit(0)
        input()


def fail(directory: Path, fault: str) -> None:
    """Append with a disk that fails for a while: see shim.c."""
    switch = Path(os.environ["QUORACY_FAULTS"]) / fault
    with closing(SqliteJournal(directory)) as journal:
        attempt("before", lambda: journal.append([Append("r", 1, payload_of(1))]))
        switch.touch()
        if fault == "fsync-db":
            attempt("checkpoint", journal.checkpoint)
        if fault == "fsync-seg":
            journal.save_snapshot("r", Saved(1, b"root", {}))
            attempt("compact", lambda: journal.compact("r", 1))
        attempt("during", lambda: journal.append([Append("r", 2, payload_of(2))]))
        attempt("during", lambda: journal.append([Append("r", 2, payload_of(2))]))
        switch.unlink()
        attempt("after", lambda: journal.append([Append("r", 2, payload_of(3))]))
        say("last", journal.last("r"))


def append_and_log(directory: Path) -> None:
    """Leave a mark in the log of syncs before and after each append."""
    log = Path(os.environ["QUORACY_FAULTS"]) / "log"
    with closing(SqliteJournal(directory)) as journal, log.open("a", buffering=1) as marks:
        for n in range(1, 6):
            marks.write("append\n")
            journal.append([Append("r", n, payload_of(n))])
            marks.write("acknowledged\n")


PROGRAMS = {
    program.__name__: program
    for program in (
        race,
        contend,
        append_for_ever,
        append_on_demand,
        hold_lock,
        hold_lock_and_fork,
        fail,
        append_and_log,
    )
}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])

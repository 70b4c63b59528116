"""What a training script can be told. Every one is a ``QuoracyError`` with a code of the catalog, a sentence and a fix.

    WorkerError
    ├── Unreachable             nobody answers: names the address, since when, and what was tried
    ├── AccessDenied            token, key or role do not let this worker in
    ├── Rejected                any other no, with the code the coordinator gave
    ├── BarrierError            about one barrier; the worker goes on
    │   ├── BarrierAborted        this generation will not be released: says why
    │   └── BarrierTimeout        the caller's own patience is over; the worker still stands there
    ├── Setback                 work since the last barrier is void: restore, ask ``next_step``, go on
    │   ├── RolledBack            an operator rolled the run back
    │   └── GivenUp               the coordinator took this worker for dead; it has begun a new life
    ├── Ended                   this worker is over: every further call raises the same
    │   ├── Superseded            a newer process has taken the id
    │   ├── RunClosed             the run is over
    │   ├── Stopped               an operator's order; the worker has left
    │   ├── Draining              SIGTERM came; the worker has left
    │   ├── Quarantined           a participant's updates were refused too often: says why
    │   ├── Ejected               a member of a witnessed run was proven to lie: says how
    │   ├── CutOff                a rank's store is out of reach: it has stopped before the others go on without it
    │   └── Closed                ``close`` was called
    ├── UnfitUpdate             what a participant has trained cannot be offered: names the tensor
    ├── WeightsFailed           weights cannot be fetched or brought away: names what was tried
    ├── Forked                  a child process used the worker of its parent
    └── HeartbeatProcessFailed  the process that beats for this member cannot be kept alive

A script needs to know three names. ``Setback``: restore and go on. ``Ended``: stop, nothing is left to do here.
``BarrierError``: this barrier did not open; ask ``next_step`` and try again. Wrong settings raise ``core.ConfigError``.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from quoracy.core.errors import CATALOG, QuoracyError, Refusal

E = TypeVar("E", bound=QuoracyError)
_DENIED = frozenset(code for code, known in CATALOG.items() if known.exit == 3)
"""Another token or another key would do."""


class WorkerError(QuoracyError):
    code: str = "bug"
    fix_default: ClassVar[str] = "see the coordinator's log"

    def __init__(self, why: str, fix: str = "", code: str = "") -> None:
        self.code = code or type(self).code
        self.why = why
        self.fix = fix or self.fix_default
        super().__init__(f"{self.why}; {self.fix} [{self.code}]")

    def __reduce__(self) -> tuple[Any, ...]:
        """So that it survives the way back from a pool of processes."""
        return rebuild, (type(self), self.args, self.__dict__)


class Unreachable(WorkerError):
    code = "unreachable"
    fix_default = "start the coordinator (quoracy serve), or correct the address"


class AccessDenied(WorkerError):
    code = "forbidden"


class Rejected(WorkerError):
    code = "malformed"


class Ended(WorkerError):
    code = "member_gone"
    fix_default = "exit"


class Superseded(Ended):
    code = "superseded"
    fix_default = "exit: a newer process has taken this id"


class RunClosed(Ended):
    code = "run_closed"
    fix_default = "exit; to go on, create a new run"


class Stopped(Ended):
    code = "member_gone"
    fix_default = "save what is worth saving and exit"


class Draining(Ended):
    """``passage``: that of the barrier under way. None if it did not open in time: then that step does not count."""

    code = "draining"
    fix_default = "save what is worth saving and exit"

    def __init__(self, why: str, passage: Any = None) -> None:
        self.passage = passage
        super().__init__(why)


class Quarantined(Ended):
    code = "quarantined"
    fix_default = "mend the training, then ask an operator to let this participant back in"


class Ejected(Ended):
    code = "ejected"
    fix_default = "mend what made it lie, then ask an operator to let this member back in"


class CutOff(Ended):
    code = "unreachable"
    fix_default = "start the store, or mend the way to it, and start the rank again"


class Closed(Ended):
    code = "member_gone"
    fix_default = "connect again to begin a new life"


class UnfitUpdate(WorkerError):
    code = "update_refused"
    fix_default = "return what train was given, trained"


class WeightsFailed(WorkerError):
    code = "objects_unreachable"
    fix_default = "see to the store and to the way to it"


class Forked(WorkerError):
    code = "not_yours"
    fix_default = "connect in the child process, under an id of its own"


class HeartbeatProcessFailed(WorkerError):
    code = "unreachable"


def rebuild(sort: type[E], args: tuple[Any, ...], fields: dict[str, Any]) -> E:
    error = sort.__new__(sort, *args)
    error.__dict__.update(fields)
    return error


def again(error: E) -> E:
    """The same once more, for another caller: with a traceback of its own."""
    return rebuild(type(error), error.args, error.__dict__)


def from_refusal(refusal: Refusal) -> WorkerError:
    """The exception for a no of the coordinator, or of the session."""
    code = refusal.code
    if code == "superseded" or code == "stale_join":
        return Superseded(refusal.why, refusal.fix, code)
    if code == "run_closed":
        return RunClosed(refusal.why)
    if code == "quarantined":
        return Quarantined(refusal.why)
    if code == "ejected":
        return Ejected(refusal.why)
    if code in _DENIED:
        return AccessDenied(refusal.why, refusal.fix, code)
    if code == "unreachable":
        return Unreachable(refusal.why, refusal.fix)
    return Rejected(refusal.why, refusal.fix, code)


def ended_by(refusal: Refusal) -> WorkerError:
    """The exception for the end of a session. Unlike a refusal it stays."""
    error = from_refusal(refusal)
    return Ended(refusal.why, refusal.fix, refusal.code) if isinstance(error, Rejected) else error


def reason_of(error: BaseException | None) -> str:
    """Why a worker or a rank leaves, for the journal."""
    if error is None:
        return "done"
    text = f": {error}" if str(error) else ""
    return f"failed with {type(error).__name__}{text}"[:256]

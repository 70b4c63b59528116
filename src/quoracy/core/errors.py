"""Everything that can go wrong, in one tree, and the catalog that gives each wrong its name.

    QuoracyError
    ├── Bug                       we are wrong: crash loudly, keep the journal
    │   └── FoldDiverged            the same journal gave another state
    ├── ConfigError               a setting is wrong: names field, value and fix
    │   └── ConfigErrors            several are: all of them at once
    ├── ProtocolError             the other side broke the protocol
    │   └── Refused                 a refusal, raised where a caller asked for an exception
    └── WorldError                the world failed: a disk, a network, a process
        ├── ObjectsError
        │   ├── ObjectMissing         nothing is under that key, or there is no such upload
        │   ├── ObjectCorrupt         what is stored is not what its digest says, or changed while it was read
        │   ├── ObjectTooLarge        larger than the caller wants to take
        │   ├── DigestMismatch        what was offered is not what its digest says: nothing was stored
        │   ├── UploadOffset          an upload stands elsewhere: names where
        │   ├── ObjectsUnreachable    nobody answers in time: a change may or may not have happened, try it again
        │   ├── ObjectsFull           no room: nothing was stored
        │   ├── ObjectsDenied         the store does not let us: credentials, permissions, a read-only disk
        │   └── ObjectsBroken         the store failed in another way: nothing half is to be seen
        └── JournalError
            ├── OutcomeUnknown        the append may or may not be there: read the entry, compare the nonce
            ├── JournalFull           no room: nothing was written, the same append may be tried again
            ├── JournalBusy           another writer holds the store for too long: nothing was written
            ├── JournalBroken         a write or fsync failed: this process must not write again
            ├── JournalCorrupt        the bytes are not those that were written: names entry and offset
            ├── JournalNewer          written by a newer Quoracy: names both versions
            ├── JournalOlder          written by Quoracy 0.1, whose journals nobody reads
            ├── JournalGap            append of entry n while n-1 is missing
            └── EntriesGone           compacted away and deleted by retention: names what is left

A *refusal* is not an exception but a value: the machine looked at a command and said no. It carries a code from the
catalog, a sentence for people and a way out. Nothing changes when something is refused.

A code in the catalog is never renamed and never reused for another meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, Final

import msgspec


class Retry(Enum):
    """What becomes of the same request if it is sent again."""

    LATER = "later"
    """It may be taken: what stands in its way passes without its sender. Send it again after a back-off."""
    CHANGED = "changed"
    """It fails again: something in it, or what it is about, has to be another."""
    OVER = "over"
    """For whoever sent it this run has no place, or no place any more: stop."""


class Refusal(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    """A no with a name: ``code`` for programs, ``why`` for people, ``fix`` for whoever wants to go on."""

    code: str
    why: str
    fix: str
    retry_after_s: float | None = None
    """When to ask again, where somebody knows."""

    def __str__(self) -> str:
        return f"{self.code}: {self.why}; {self.fix}"

    @property
    def retry(self) -> Retry:
        return retry_of(self.code)


DENIED: Final = 3
OTHER_VERSION: Final = 8
"""Exit codes that say more than their number: one may not come in, or speaks another version."""
AWHILE_S: Final = 1.0
"""What somebody is asked to wait where nobody can know how long it takes: for a restart, for a queue that is full."""


class Code(msgspec.Struct, frozen=True):
    """How one code is told on each door, and whether asking again helps. ``exit`` is the exit code of the command
    line."""

    meaning: str
    grpc: str
    http: int
    exit: int
    retry: Retry


def _code(meaning: str, grpc: str, http: int, exit_code: int, retry: Retry) -> Code:
    return Code(meaning, grpc, http, exit_code, retry)


LATER: Final = Retry.LATER
CHANGED: Final = Retry.CHANGED
OVER: Final = Retry.OVER


CATALOG: dict[str, Code] = {
    # The request itself is wrong: sending it again cannot help.
    "malformed": _code("a field is missing, of the wrong type, or out of range", "INVALID_ARGUMENT", 400, 2, CHANGED),
    "too_large": _code("the event does not fit into one journal entry", "INVALID_ARGUMENT", 413, 2, CHANGED),
    "contradiction": _code(
        "two parts of the request exclude each other, or its key has stood for another",
        "INVALID_ARGUMENT",
        422,
        2,
        CHANGED,
    ),
    "wrong_kind": _code("the run is of another kind", "INVALID_ARGUMENT", 422, 2, CHANGED),
    "heartbeats_only": _code("the connection was opened for heartbeats only", "INVALID_ARGUMENT", 422, 2, CHANGED),
    "wrong_version": _code("client and server share no protocol version", "FAILED_PRECONDITION", 400, 8, CHANGED),
    "bad_token": _code("the token is missing, false, or too old", "UNAUTHENTICATED", 401, 3, CHANGED),
    "forbidden": _code("the token's role does not allow this", "PERMISSION_DENIED", 403, 3, CHANGED),
    "too_fast": _code(
        "more messages or connections than one identity may have, or the server", "RESOURCE_EXHAUSTED", 429, 6, LATER
    ),
    "not_yours": _code("this sender may not propose this event", "PERMISSION_DENIED", 403, 3, CHANGED),
    "key_mismatch": _code("the id is bound to another key", "PERMISSION_DENIED", 403, 3, OVER),
    "config": _code("a setting is wrong", "INVALID_ARGUMENT", 400, 2, CHANGED),
    # Who is asking.
    "unknown_run": _code("there is no such run here", "NOT_FOUND", 404, 4, CHANGED),
    "unknown_member": _code("nobody of that id has joined", "NOT_FOUND", 404, 4, OVER),
    "superseded": _code("a newer incarnation of this member has joined", "ABORTED", 409, 5, OVER),
    "stale_join": _code("the id moved on since the joiner looked", "ABORTED", 409, 5, CHANGED),
    "member_gone": _code("this incarnation was lost or has left", "FAILED_PRECONDITION", 409, 5, CHANGED),
    "too_many_ids": _code(
        "the token has brought as many ids into the run as it may", "PERMISSION_DENIED", 403, 3, OVER
    ),
    "roster_full": _code("too many ids have ever joined this run", "RESOURCE_EXHAUSTED", 429, 6, OVER),
    # The conversation.
    "sequence_gap": _code("a command before this one is missing", "FAILED_PRECONDITION", 409, 5, CHANGED),
    "answer_forgotten": _code("the sender has moved on; the old answer is gone", "OUT_OF_RANGE", 410, 5, CHANGED),
    "overloaded": _code("the queue of this run is full", "RESOURCE_EXHAUSTED", 429, 6, LATER),
    "unreachable": _code("nobody answers at that address", "UNAVAILABLE", 503, 7, LATER),
    "draining": _code("the server is about to stop", "UNAVAILABLE", 503, 7, LATER),
    "not_serving": _code("this host does not serve the run", "UNAVAILABLE", 503, 7, LATER),
    "stale_token": _code("the token is older than the run's generation", "ABORTED", 409, 5, CHANGED),
    # The run.
    "run_exists": _code("a run of that name exists", "ALREADY_EXISTS", 409, 5, CHANGED),
    "run_closed": _code("the run is over", "FAILED_PRECONDITION", 409, 5, OVER),
    "stale_term": _code("a newer host serves the run", "ABORTED", 409, 7, LATER),
    "unknown_duty": _code("no such duty is open", "NOT_FOUND", 404, 4, CHANGED),
    "unknown_rules": _code("the run was created under rules this host does not have", "UNIMPLEMENTED", 501, 8, CHANGED),
    # Workers and barriers.
    "unknown_worker": _code("no such worker", "NOT_FOUND", 404, 4, OVER),
    "fleet_full": _code("the fleet has as many workers as it may have", "RESOURCE_EXHAUSTED", 429, 6, LATER),
    "wrong_state": _code("the worker is not in a state that allows this", "FAILED_PRECONDITION", 409, 5, CHANGED),
    "barrier_early": _code("a barrier may not open before all have arrived", "FAILED_PRECONDITION", 409, 5, LATER),
    "barrier_settled": _code(
        "this generation of the barrier is settled already", "FAILED_PRECONDITION", 409, 5, CHANGED
    ),
    "barrier_unknown": _code("this generation of the barrier does not exist yet", "NOT_FOUND", 404, 4, CHANGED),
    "barrier_forgotten": _code("this generation of the barrier is too long ago", "OUT_OF_RANGE", 410, 5, CHANGED),
    "step_behind": _code(
        "the barrier was released at this step or a later one", "FAILED_PRECONDITION", 409, 5, CHANGED
    ),
    "still_waiting": _code("the barrier is not settled yet; the arrival counts", "DEADLINE_EXCEEDED", 504, 7, LATER),
    "barriers_full": _code("the worker stands at as many barriers as it may", "RESOURCE_EXHAUSTED", 429, 6, CHANGED),
    # Federated rounds.
    "come_later": _code("there is no room for another participant now", "RESOURCE_EXHAUSTED", 429, 6, LATER),
    "quarantined": _code("the participant's updates were refused too often", "PERMISSION_DENIED", 403, 3, OVER),
    "late_update": _code(
        "the update belongs to no round that is open to its sender", "FAILED_PRECONDITION", 409, 5, CHANGED
    ),
    "update_refused": _code("the update was looked at, and cannot be counted", "INVALID_ARGUMENT", 422, 5, CHANGED),
    "round_early": _code("a round may not close before it has what it waits for", "FAILED_PRECONDITION", 409, 5, LATER),
    # Witnessed rounds.
    "late_result": _code(
        "the result is for no assignment that is its sender's now", "FAILED_PRECONDITION", 409, 5, CHANGED
    ),
    "wrong_step": _code(
        "said of another epoch, round or step than the run is at", "FAILED_PRECONDITION", 409, 5, CHANGED
    ),
    "no_quorum": _code("fewer have said so than have to", "FAILED_PRECONDITION", 409, 5, LATER),
    "saturated": _code("the filter claims nearly everything", "INVALID_ARGUMENT", 422, 2, CHANGED),
    "ejected": _code("the member was proven to lie", "PERMISSION_DENIED", 403, 3, OVER),
    "bad_signature": _code(
        "the signature is not by the key that the id is bound to", "PERMISSION_DENIED", 403, 3, CHANGED
    ),
    "checkpoint_late": _code(
        "the checkpoint is not of the model that counts now", "FAILED_PRECONDITION", 409, 5, CHANGED
    ),
    # The world.
    "outcome_unknown": _code("the append may or may not have happened", "UNKNOWN", 500, 9, LATER),
    "journal_full": _code("no room to write", "RESOURCE_EXHAUSTED", 507, 9, LATER),
    "journal_busy": _code("another writer holds the store", "UNAVAILABLE", 503, 9, LATER),
    "journal_broken": _code("a write or fsync failed", "INTERNAL", 500, 9, LATER),
    "store_lost": _code("the store has lost its memory", "DATA_LOSS", 503, 9, OVER),
    "journal_corrupt": _code("the journal's bytes are not those that were written", "DATA_LOSS", 500, 10, CHANGED),
    "journal_newer": _code("the journal was written by a newer Quoracy", "UNIMPLEMENTED", 501, 8, CHANGED),
    "journal_older": _code("the journal was written by Quoracy 0.1", "UNIMPLEMENTED", 501, 8, CHANGED),
    "journal_gap": _code("the entry before this one is missing", "FAILED_PRECONDITION", 409, 9, CHANGED),
    "entries_gone": _code("the entries were compacted and deleted", "OUT_OF_RANGE", 410, 4, CHANGED),
    # Objects.
    "object_missing": _code("there is no such object", "NOT_FOUND", 404, 4, CHANGED),
    "object_corrupt": _code("the object's bytes are not those that its digest names", "DATA_LOSS", 500, 10, CHANGED),
    "object_too_large": _code("the object is larger than is taken here", "INVALID_ARGUMENT", 413, 2, CHANGED),
    "digest_mismatch": _code("what was sent is not what its digest names", "INVALID_ARGUMENT", 422, 2, CHANGED),
    "upload_offset": _code("the upload stands at another offset", "ABORTED", 409, 5, CHANGED),
    "objects_unreachable": _code("the object store does not answer", "UNAVAILABLE", 503, 9, LATER),
    "objects_full": _code("no room for objects", "RESOURCE_EXHAUSTED", 507, 9, LATER),
    "objects_denied": _code("the object store does not let the server in", "INTERNAL", 500, 9, LATER),
    "objects_broken": _code("the object store failed", "INTERNAL", 500, 9, LATER),
    # Us.
    "bug": _code("Quoracy contradicts itself", "INTERNAL", 500, 70, CHANGED),
    "fold_diverged": _code("the same journal gave another state", "INTERNAL", 500, 70, CHANGED),
}


def retry_of(code: str) -> Retry:
    """A code that is not known here may be one of a newer server: nobody should send such a thing for ever."""
    known = CATALOG.get(code)
    return Retry.CHANGED if known is None else known.retry


MAX_SHOWN = 200
"""Characters of a wrong value that an error repeats."""


def shown(value: Any) -> str:
    """As an error repeats it: short, and without the digits of a number that has thousands of them."""
    try:
        text = repr(value)
    except ValueError:
        text = f"a {type(value).__name__} with more digits than can be shown"
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 3]}..."


class QuoracyError(Exception):
    """The root. ``code`` is a key of the catalog."""

    code = "bug"


class Bug(QuoracyError):
    code = "bug"


class FoldDiverged(Bug):
    code = "fold_diverged"


class ConfigError(QuoracyError):
    """A setting that cannot be used. All three parts are shown: which, what it was, what would do."""

    code = "config"

    def __init__(self, field: str, value: Any, fix: str) -> None:
        super().__init__(f"{field} = {shown(value)}: {fix}")
        self.field = field
        self.value = value
        self.fix = fix


class ConfigErrors(ConfigError):
    """Every setting that cannot be used, so that nobody has to mend one to learn of the next. The parts are those of
    the first."""

    def __init__(self, problems: Sequence[ConfigError]) -> None:
        first = problems[0]
        super().__init__(first.field, first.value, first.fix)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return str(self.problems[0])
        return "\n  ".join([f"{len(self.problems)} settings are wrong:", *map(str, self.problems)])

    def refusal(self) -> Refusal:
        """All of them, each with its own way out."""
        first, *more = [f"{problem.field} = {shown(problem.value)}" for problem in self.problems]
        if not more:
            return Refusal("config", first, self.fix)
        fix = "; ".join(f"{problem.field}: {problem.fix}" for problem in self.problems)
        return Refusal("config", ", ".join((first, *more)), fix)


class ProtocolError(QuoracyError):
    code = "malformed"


class Refused(ProtocolError):
    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal
        self.code = refusal.code


class WorldError(QuoracyError):
    code = "journal_broken"


class ObjectsError(WorldError):
    code = "objects_broken"


class ObjectMissing(ObjectsError):
    code = "object_missing"

    def __init__(self, key: str, what: str = "object") -> None:
        super().__init__(f"there is no {what} {key!r}")
        self.key = key


class ObjectCorrupt(ObjectsError):
    """Names the key, and what is wrong with what is stored there."""

    code = "object_corrupt"

    def __init__(self, key: str, what: str) -> None:
        super().__init__(f"object {key!r}: {what}")
        self.key = key
        self.what = what


class ObjectTooLarge(ObjectsError):
    code = "object_too_large"

    def __init__(self, key: str, size_bytes: int, max_bytes: int) -> None:
        super().__init__(f"object {key!r} has {size_bytes} bytes, at most {max_bytes} are taken here")
        self.key = key
        self.size_bytes = size_bytes
        self.max_bytes = max_bytes


class DigestMismatch(ObjectsError):
    code = "digest_mismatch"

    def __init__(self, key: str, wanted: str, found: str) -> None:
        super().__init__(f"object {key!r}: the digest should be {wanted}, what was sent has {found}; send it anew")
        self.key = key
        self.wanted = wanted
        self.found = found


class UploadOffset(ObjectsError):
    """``at`` is where the upload really stands, and where the sender has to go on."""

    code = "upload_offset"

    def __init__(self, upload: str, offset: int, at: int) -> None:
        super().__init__(f"upload {upload!r} stands at {at}, not at {offset}: go on from there")
        self.upload = upload
        self.offset = offset
        self.at = at


class ObjectsUnreachable(ObjectsError):
    """``retry_after_s``: when to try again, where somebody said so."""

    code = "objects_unreachable"

    def __init__(self, why: str, retry_after_s: float | None = None) -> None:
        super().__init__(why)
        self.retry_after_s = retry_after_s


class ObjectsFull(ObjectsError):
    code = "objects_full"


class ObjectsDenied(ObjectsError):
    code = "objects_denied"


class ObjectsBroken(ObjectsError):
    code = "objects_broken"


class JournalError(WorldError):
    code = "journal_broken"


class OutcomeUnknown(JournalError):
    code = "outcome_unknown"


class JournalFull(JournalError):
    code = "journal_full"


class JournalBusy(JournalError):
    code = "journal_busy"


class JournalBroken(JournalError):
    code = "journal_broken"


class JournalCorrupt(JournalError):
    """Names what is damaged: run, entry number, byte offset in ``where``, and what is wrong there. Without run and
    entry it is the whole store."""

    code = "journal_corrupt"

    def __init__(self, run: str, entry: int, offset: int, what: str, where: str = "") -> None:
        which = f"run {run!r}: entry {entry}" if run or entry else "the store"
        place = f" of {where}" if where else ""
        super().__init__(f"{which} at offset {offset}{place}: {what}")
        self.run = run
        self.entry = entry
        self.offset = offset
        self.what = what
        self.where = where


class JournalNewer(JournalError):
    code = "journal_newer"


class JournalOlder(JournalError):
    code = "journal_older"


class JournalGap(JournalError):
    code = "journal_gap"

    def __init__(self, run: str, entry: int, last: int) -> None:
        super().__init__(f"run {run!r}: entry {entry} cannot follow entry {last}")
        self.run = run
        self.entry = entry
        self.last = last


class EntriesGone(JournalError):
    code = "entries_gone"

    def __init__(self, run: str, first: int, available: int) -> None:
        super().__init__(f"run {run!r}: entry {first} was deleted by retention; the journal begins at {available}")
        self.run = run
        self.first = first
        self.available = available

"""What a member's part is told by its own side, and what it asks of it. Values only: ``part`` is the logic between.

A shell (the SDK's, the simulator's) turns messages and outcomes into facts and carries the actions out. Load, Train,
Apply and Store are work for the one who trains: carried out one after the other, in the order in which they came.
Fetch, Reach and Announce go on beside that.
"""

from __future__ import annotations

from typing import Any

import msgspec

from quoracy.core.errors import Refusal
from quoracy.core.machine import MemberEvent, Signal
from quoracy.core.witnessed.attestation import Scheme
from quoracy.core.witnessed.committee import Ranges
from quoracy.core.witnessed.events import BeatSeen
from quoracy.core.witnessed.views import Pointer, Result


class Work(msgspec.Struct, frozen=True):
    """One assignment of one round. No other work has the same first four fields."""

    epoch: int
    round: int
    assignment: int
    attempt: int
    batches: Ranges
    step: int
    base: bytes
    """Hash of the model to train on, which is the one of ``step``."""

    def key(self) -> tuple[int, int, int, int]:
        return (self.epoch, self.round, self.assignment, self.attempt)


class Blob(msgspec.Struct, frozen=True):
    """A result as the run knows it: what its header must say, beside having this digest."""

    epoch: int
    round: int
    result: Result
    batches: Ranges | None = None
    """None where they are not known any more: one that catches up sees sealed results of rounds it did not draw."""


# -- facts -----------------------------------------------------------------------------------------------------------


class LifeBegan(msgspec.Struct, frozen=True):
    """Joined, as this incarnation. What was under way in the life before is void; what is held is still held."""

    incarnation: int
    scheme: Scheme = Scheme()
    """How this run's attestations are written: the answer to the join says it."""


class Connected(msgspec.Struct, frozen=True):
    """A connection to a host was made again: whatever was said may not have been heard."""


class Shown(msgspec.Struct, frozen=True):
    """A view, as a host shows it."""

    value: Any


class BeatAnswered(msgspec.Struct, frozen=True):
    seen: BeatSeen


class CommandDecided(msgspec.Struct, frozen=True):
    number: int
    refusal: Refusal | None = None


class BlobHeld(msgspec.Struct, frozen=True):
    """It is here. Its bytes have this digest, and its header says what the ``Blob`` says."""

    digest: bytes


class BlobGivenUp(msgspec.Struct, frozen=True):
    """None of those asked gave it."""

    digest: bytes
    lacking: tuple[str, ...] = ()
    """They answered: that they do not have it, or with other bytes."""
    silent: tuple[str, ...] = ()
    """They could not be reached, or did not answer."""


class ResultAnnounced(msgspec.Struct, frozen=True):
    """``sender`` told this member directly what it made. Whether that is so the journal says."""

    sender: str
    epoch: int
    round: int
    result: Result
    signature: bytes


class ModelLoaded(msgspec.Struct, frozen=True):
    """The model is here, with this hash worked out from what was really received."""

    step: int
    model: bytes


class ModelNotLoaded(msgspec.Struct, frozen=True):
    why: str = ""


class ResultTrained(msgspec.Struct, frozen=True):
    """The blob is written and held."""

    work: Work
    digest: bytes
    size_bytes: int
    samples: int
    loss: float = 0.0


class ModelApplied(msgspec.Struct, frozen=True):
    """What was sealed for ``step - 1`` is applied; this is the hash of what came out."""

    step: int
    model: bytes


class ModelNotApplied(msgspec.Struct, frozen=True):
    """Nothing was applied to the model of ``step``: these of the results are here and cannot be read. Nobody can who
    has the same bytes, so that they count as missing."""

    step: int
    unreadable: tuple[bytes, ...]


class ModelStored(msgspec.Struct, frozen=True):
    step: int
    model: bytes
    digest: bytes
    size_bytes: int = 0


class ModelNotStored(msgspec.Struct, frozen=True):
    step: int
    why: str = ""


class PeersTried(msgspec.Struct, frozen=True):
    """All who were to be reached were tried; what could not be reached is not waited for."""

    epoch: int
    incarnation: int
    unreached: tuple[str, ...] = ()


class Tick(msgspec.Struct, frozen=True):
    """Time has passed."""


Fact = (
    LifeBegan
    | Connected
    | Shown
    | BeatAnswered
    | CommandDecided
    | BlobHeld
    | BlobGivenUp
    | ResultAnnounced
    | ModelLoaded
    | ModelNotLoaded
    | ResultTrained
    | ModelApplied
    | ModelNotApplied
    | ModelStored
    | ModelNotStored
    | PeersTried
    | Tick
)


# -- actions ---------------------------------------------------------------------------------------------------------


class Load(msgspec.Struct, frozen=True):
    """Get this model, check every tensor of it, and say ModelLoaded or ModelNotLoaded. A newer Load replaces one that
    is under way. ``agreed``: hashes of other steps that would do as well, newest first."""

    pointer: Pointer
    agreed: tuple[tuple[int, bytes], ...] = ()


class Fetch(msgspec.Struct, frozen=True):
    """Get this blob from any of these, the first ones first; then BlobHeld or BlobGivenUp. Asked for again while it is
    under way, it adds holders."""

    blob: Blob
    holders: tuple[str, ...]
    why: str
    """attest: of the round that runs. apply: sealed."""


class Train(msgspec.Struct, frozen=True):
    work: Work


class Cease(msgspec.Struct, frozen=True):
    """Nobody waits for this work any more: stop at the next occasion. No fact answers."""

    work: Work


class Command(msgspec.Struct, frozen=True):
    """Propose this; CommandDecided with the same number says what came of it."""

    number: int
    event: type[MemberEvent]
    fields: dict[str, Any]


class Announce(msgspec.Struct, frozen=True):
    """Tell every peer: this is what I made, and here it is to be had."""

    epoch: int
    round: int
    result: Result
    signature: bytes


class Send(msgspec.Struct, frozen=True):
    signal: Signal


class Apply(msgspec.Struct, frozen=True):
    """To the model of ``step``, in this order; then ModelApplied with step + 1."""

    step: int
    epoch: int
    round: int
    results: tuple[Result, ...]


class Store(msgspec.Struct, frozen=True):
    """Put the model of this step into the object store; then ModelStored or ModelNotStored."""

    step: int
    model: bytes


class Lend(msgspec.Struct, frozen=True):
    """Others need this model, and nobody who has it can be reached: put it where they can get it, with the
    coordinator."""

    step: int
    model: bytes


class Reach(msgspec.Struct, frozen=True):
    """Try to reach these peers, in bounded time; then PeersTried with the same epoch and incarnation. A newer one
    replaces one that is under way."""

    epoch: int
    incarnation: int
    peers: tuple[str, ...]
    """In an order in which each member begins with another."""


class Drop(msgspec.Struct, frozen=True):
    """These blobs are needed by nobody any more; a fetch of one ends."""

    digests: tuple[bytes, ...]


class Ask(msgspec.Struct, frozen=True):
    """Something does not fit, or nothing was heard for long: say hello, so that all views are shown again."""


class Done(msgspec.Struct, frozen=True):
    """This member's part is over."""

    reason: str
    state: str
    """Done: the run is over. Removed: it goes on without this member."""


Action = Load | Fetch | Train | Cease | Command | Announce | Send | Apply | Store | Lend | Reach | Drop | Ask | Done


class Pace(msgspec.Struct, frozen=True):
    """How patient a member is."""

    resend_us: int = 2_000_000
    """A signal that nothing has come of is sent again after so long."""
    partial_us: int = 100_000
    """So long one waits for the rest before it says that it holds only a part."""
    retry_us: int = 500_000
    """Before a blob or a model that nobody gave is asked for again; doubled with every try."""
    retry_max_us: int = 8_000_000
    accuse_us: int = 30_000_000
    """A holder that does not answer may be cut off for a while. After so long it is accused."""
    reach_us: int = 15_000_000
    """So long one waits to be told that all peers were tried. It takes less, unless the answer is lost."""
    ask_us: int = 10_000_000
    """One that has nothing to do and hears nothing asks whether it has missed something."""

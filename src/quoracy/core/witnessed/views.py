"""What a member is shown. All but ``standing`` looks the same to everybody, and is made once.

A member computes the rest by itself: ``committee.draw`` gives, from what is in ``RoundShown``, who is a witness and who
trains which batches.
"""

from __future__ import annotations

from typing import Final

import msgspec

from quoracy.core.codec import ready

STANDING: Final = "standing"
ROUND: Final = "round"
RESULTS: Final = "results"
SEALED: Final = "sealed"
SEALED_BRIEF: Final = "sealed-brief"
"""To those in step, with every seal: the newest alone, without what they were shown in the round's list."""
PEERS: Final = "peers"


class Pointer(msgspec.Struct, frozen=True, array_like=True):
    """Where the model of a step is to be had."""

    source: str
    """initial: made from the settings; stored: a file in the object store; p2p: from the members ``holders``."""
    step: int
    model: bytes = b""
    """Its hash; empty where none was agreed yet (the very first)."""
    digest: bytes = b""
    """stored: of the file."""
    size_bytes: int = 0
    holders: tuple[str, ...] = ()


class Standing(msgspec.Struct, frozen=True, array_like=True):
    """One member's own: whether it takes part, and which model it should have."""

    incarnation: int
    state: str
    """Pending, Warming, InStep, Resyncing, Left, Lost, Removed, Done."""
    phase: str
    epoch: int
    strikes: int
    reason: str
    load: Pointer | None
    """Warming and Resyncing: get this model; then report it (Loaded, or ModelHash)."""
    store: bool
    """Cooldown: this member was drawn to store the checkpoint."""


class RoundShown(msgspec.Struct, frozen=True, array_like=True):
    """All that the draws of a round come from, and when it ends."""

    phase: str
    epoch: int
    round: int
    step: int
    """Rounds applied before this one, since the run began: the model's age."""
    seed: bytes
    roster: tuple[str, ...]
    """In step when the round began. An index into it means the same member for as long as the round lasts."""
    speeds: tuple[int, ...]
    """Of each of the roster, relative: whole numbers, so that everybody divides alike."""
    batches: tuple[tuple[int, int], ...]
    """Ranges: first, and one past the last."""
    witness_nodes: int
    moved: tuple[tuple[int, int, str], ...]
    """Assignments that went to another member: assignment, attempt, member."""
    left_us: int
    """Until the phase ends by itself, when this was made."""
    reason: str
    """Paused, Finished: why."""


class Result(msgspec.Struct, frozen=True, array_like=True):
    assignment: int
    attempt: int
    member: str
    digest: bytes
    size_bytes: int
    base: bytes


class ResultsShown(msgspec.Struct, frozen=True, array_like=True):
    """The journaled list of a round's results. Shown when all are in, or when time is over."""

    epoch: int
    round: int
    results: tuple[Result, ...]
    base: bytes = b""
    """Of those results whose own is empty: in most rounds all were trained on the same model."""
    salt: bytes = b""
    """Where attestations are filters: drawn when the last of these was taken in."""


class SealedShown(msgspec.Struct, frozen=True, array_like=True):
    """Apply these, in this order, to the model of ``step``; that gives the model of ``step + 1``."""

    step: int
    epoch: int
    round: int
    model: bytes
    """The hash most members had at ``step``."""
    results: tuple[Result, ...]
    """In the order in which they are applied; their base is ``model``, and empty here. In a brief there are none: they
    are those at ``positions`` of the round's list."""
    holders: tuple[tuple[str, ...], ...]
    """Some of those who attested each. Empty: everybody in step has them all."""
    voided: tuple[int, ...] = ()
    """Positions in ``results`` that nobody has any more: applied by nobody."""
    positions: tuple[int, ...] = ()
    """Index of each in the round's list, in the order in which they are applied."""


class SealedList(msgspec.Struct, frozen=True, array_like=True):
    """As a brief: the newest. To one that catches up or reconnects: the last few, oldest first."""

    rounds: tuple[SealedShown, ...]


class Peer(msgspec.Struct, frozen=True, array_like=True):
    member: str
    incarnation: int
    key: bytes
    addresses: tuple[str, ...]


class PeersShown(msgspec.Struct, frozen=True, array_like=True):
    epoch: int
    peers: tuple[Peer, ...]


ready(Standing, RoundShown, ResultsShown, SealedList, PeersShown)

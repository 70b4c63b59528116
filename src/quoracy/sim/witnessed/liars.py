"""Members that lie, each in one way. Everything else they do as they should.

mismatch    gives other bytes than it has committed to
header      commits to bytes that say they are of another round
two-faced   signs two results for one assignment, and tells half of its peers of the other
boasts      attests what it does not hold
saturated   attests with every bit set
hash        reports a model that it does not have
poisons     gives newcomers another model than they ask for
slanders    accuses everybody else of not delivering
hollow      says that it has stored the model, and has not
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

import msgspec

from quoracy.core.codec import digest
from quoracy.core.machine import Signal
from quoracy.core.witnessed.attestation import salt_of
from quoracy.core.witnessed.events import Attest, HealthCheck, Holds, Loaded, ModelHash, signed_by_trainer
from quoracy.core.witnessed.facts import Announce
from quoracy.core.witnessed.part import Part
from quoracy.sim.witnessed.making import hashed, sign

HOLLOW: Final = "hollow"
"""Drawn apart: one alone seldom harms anybody."""
LIES: Final = ("mismatch", "header", "two-faced", "boasts", "saturated", "hash", "poisons", "slanders")


def said(signal: Signal, lie: str, part: Part) -> Signal:
    """What a liar says instead."""
    replace: Any = msgspec.structs.replace
    if isinstance(signal, Attest | Holds) and lie == "boasts":
        return replace(signal, held=_everything(signal, part))  # type: ignore[no-any-return]
    if isinstance(signal, Attest) and lie == "saturated":
        return replace(signal, held=b"\xff" * len(signal.held))  # type: ignore[no-any-return]
    if isinstance(signal, ModelHash | Loaded) and lie == "hash":
        return replace(signal, model=hashed("no model of mine", signal.model))  # type: ignore[no-any-return]
    return signal


def slander(signal: ModelHash, others: list[str]) -> HealthCheck:
    """Whenever it reports its model."""
    named = tuple(others[:64])
    about = (max(0, signal.step - 1), named, (0,) * len(named), signal.epoch)
    return HealthCheck(signal.member, signal.incarnation, *about)


def _everything(signal: Attest | Holds, part: Part) -> bytes:
    """That all results known are here, written as an honest member would."""
    digests = [result.digest for result in part.sight.listed()][: signal.known]
    drawn = part.sight.lists.salt(signal.epoch, signal.round)
    salt = salt_of(signal.epoch, signal.round, drawn, signal.member)
    return part.telling.scheme.write(range(len(digests)), digests, salt)


def other_face(announce: Announce, run: str, key: bytes, payload: bytes, rng: Random) -> tuple[Announce, bytes]:
    """A second result for the same assignment, signed like the first, and its bytes."""
    other = payload + rng.randbytes(4)
    result = msgspec.structs.replace(announce.result, digest=digest(other))
    signed = signed_by_trainer(
        run, announce.epoch, announce.round, result.assignment, result.attempt, result.member, result.digest,
        result.base,
    )  # fmt: skip
    return Announce(announce.epoch, announce.round, result, sign(key, signed)), other

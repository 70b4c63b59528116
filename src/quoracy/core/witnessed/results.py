"""What a member has made: each result once, whatever happens to its commitment.

Kept here: never two different commitments for one epoch, round, assignment and attempt. What was trained first is what
is committed to, also if the answer to the commitment got lost, also in a later life of the member: the same digest is
said again. A second training of the same work counts for nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from quoracy.core.witnessed.events import signed_by_trainer
from quoracy.core.witnessed.facts import ResultTrained, Work
from quoracy.core.witnessed.views import Result

Sign = Callable[[bytes], bytes]
Key = tuple[int, int, int, int]
"""Epoch, round, assignment, attempt."""


class Made(msgspec.Struct):
    work: Work
    result: Result
    samples: int
    loss: float
    signature: bytes
    asked: int = 0
    """The number of the command that commits to it, while that is open."""
    committed: bool = False
    refused: bool = False
    announced: bool = False

    def fields(self) -> dict[str, Any]:
        """Of the commitment."""
        work, result = self.work, self.result
        return {
            "epoch": work.epoch, "round": work.round, "assignment": work.assignment, "attempt": work.attempt,
            "digest": result.digest, "size_bytes": result.size_bytes, "base": result.base, "samples": self.samples,
            "loss": self.loss, "signature": self.signature,
        }  # fmt: skip


class Results:
    def __init__(self, run: str, member: str, sign: Sign | None) -> None:
        self._run = run
        self._member = member
        self._sign = sign
        self.made: dict[Key, Made] = {}

    def add(self, fact: ResultTrained) -> Made | None:
        """None: there is a result of this work already, and it stays the only one."""
        work = fact.work
        if work.key() in self.made:
            return None
        result = Result(work.assignment, work.attempt, self._member, fact.digest, fact.size_bytes, work.base)
        signed = signed_by_trainer(self._run, *work.key(), self._member, fact.digest, work.base)
        signature = b"" if self._sign is None else self._sign(signed)
        made = Made(work, result, fact.samples, fact.loss, signature)
        self.made[work.key()] = made
        return made

    def asked_as(self, number: int) -> Made | None:
        return next((made for made in self.made.values() if made.asked == number), None)

    def uncommitted(self, epoch: int, round_: int) -> dict[tuple[int, int], Made]:
        """Of this round, by assignment and attempt."""
        return {key[2:]: made for key, made in self.made.items() if not made.committed and key[:2] == (epoch, round_)}

    def begin_again(self) -> None:
        """A new life: nobody answers what the old one asked."""
        for made in self.made.values():
            made.asked = 0

    def forget_before(self, epoch: int, round_: int) -> None:
        for key in [key for key in self.made if key[:2] < (epoch, round_)]:
            del self.made[key]

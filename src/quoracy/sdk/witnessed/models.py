"""The last models a member had, kept to be given to others: a manifest and its tensors, each under its digest.

The trainer goes on changing its arrays, so they are copied when a model is kept. The last two are kept: who has begun
to fetch one while the next round ends can still finish.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from quoracy.learn.witnessed.manifest import Manifest, manifest_of, tensor_bytes
from quoracy.learn.witnessed.trainer import Weights
from quoracy.sdk.witnessed.exchange import Exchange

KEEP: Final = 2


class Kept(msgspec.Struct, frozen=True):
    step: int
    manifest: Manifest
    weights: Weights


class Models:
    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._kept: list[Kept] = []
        """In the order in which they came. After a roll-back a later one has a smaller step."""
        self._uses: dict[bytes, int] = {}
        """Digest -> how many kept models have it."""

    def keep(self, step: int, weights: Weights) -> Manifest:
        """The model of a step, and its hash."""
        copies = {name: np.array(array, order="C", copy=True) for name, array in weights.items()}
        manifest = manifest_of(copies)
        self._kept.append(Kept(step, manifest, copies))
        for digest, view in _offered(manifest, copies).items():
            self._uses[digest] = self._uses.get(digest, 0) + 1
            if self._uses[digest] == 1:
                self._exchange.offer(digest, view)
        while len(self._kept) > KEEP:
            self._forget(self._kept.pop(0))
        return manifest

    def weights(self, step: int, model: bytes) -> Weights:
        """A copy of one of those that are kept."""
        found = next(kept for kept in self._kept if (kept.step, kept.manifest.model) == (step, model))
        return {name: array.copy() for name, array in found.weights.items()}

    def lend(self, step: int, model: bytes) -> None:
        """Through the coordinator, to those who can get it nowhere else. One that is gone meanwhile is not needed."""
        for kept in self._kept:
            if (kept.step, kept.manifest.model) == (step, model):
                for digest, view in _offered(kept.manifest, kept.weights).items():
                    self._exchange.offer(digest, view, relay=True)
                return

    def _forget(self, kept: Kept) -> None:
        for digest in _offered(kept.manifest, kept.weights):
            self._uses[digest] -= 1
            if not self._uses[digest]:
                del self._uses[digest]
                self._exchange.withdraw(digest)


def _offered(manifest: Manifest, weights: Weights) -> dict[bytes, memoryview]:
    """Each once: two tensors of the same bytes are one blob."""
    tensors = {entry.digest: tensor_bytes(weights[entry.name]) for entry in manifest.entries}
    return {manifest.model: memoryview(manifest.packed)} | tensors

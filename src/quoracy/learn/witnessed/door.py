"""Samples that are not on this machine: the coordinator hands out the batches that were assigned, and no others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from quoracy.core.errors import Refused
from quoracy.learn.header import BadTensors
from quoracy.learn.witnessed.batches import ids_of, ranges_of
from quoracy.learn.witnessed.packing import unpack
from quoracy.learn.witnessed.trainer import Samples

AT_ONCE: Final = 256
"""Batches in one answer. More would only have to be kept in memory twice."""

Fetch = Callable[[Sequence[int]], bytes]
"""Batches that follow one another, first to last, to their samples as the bytes of a safetensors file."""


class DoorSource:
    """``fetch`` is asked once for each stretch of batches that follow one another."""

    def __init__(
        self,
        fetch: Fetch,
        *,
        batch_size: int,
        held_out: Callable[[], bytes | None] | None = None,
        at_once: int = AT_ONCE,
    ) -> None:
        self._fetch, self._ask_held_out = fetch, held_out
        self.batch_size, self.at_once = batch_size, at_once
        self._test: Samples | None = None

    def samples(self, batch_ids: Sequence[int]) -> Samples:
        pieces = [piece for ids in self._stretches(batch_ids) for piece in self._in_parts(ids)]
        if not pieces:
            raise ValueError("batch_ids = []: at least one batch")
        for piece in pieces[1:]:
            if piece.keys() != pieces[0].keys():
                raise BadTensors(f"the door gave {sorted(pieces[0])} for one batch and {sorted(piece)} for another")
        return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}

    def held_out(self) -> Samples | None:
        """Asked for once: it does not change."""
        if self._test is None and self._ask_held_out is not None:
            blob = self._ask_held_out()
            self._test = None if blob is None else unpack(blob)[0]
        return self._test

    def _stretches(self, batch_ids: Sequence[int]) -> list[list[int]]:
        whole = [ids_of([stretch]) for stretch in ranges_of(batch_ids)]
        return [ids[at : at + self.at_once] for ids in whole for at in range(0, len(ids), self.at_once)]

    def _in_parts(self, ids: list[int]) -> list[Samples]:
        """In one piece, or in as many as the door wants it to be asked for."""
        try:
            return [self._fetched(ids)]
        except Refused as error:
            if error.code != "too_large" or len(ids) == 1:
                raise
        half = len(ids) // 2
        return self._in_parts(ids[:half]) + self._in_parts(ids[half:])

    def _fetched(self, ids: list[int]) -> Samples:
        arrays, metadata = unpack(self._fetch(ids))
        asked = f"{ids[0]}-{ids[-1] + 1}"
        if (said := metadata.get("batches", asked)) != asked:
            raise BadTensors(f"asked for batches {asked}, the door gave {said[:100]}")
        wanted = len(ids) * self.batch_size
        for name, array in arrays.items():
            if array.ndim < 1 or len(array) != wanted:
                raise BadTensors(f"batches {asked}: {name!r} has shape {array.shape}, {wanted} samples were asked for")
        if not arrays:
            raise BadTensors(f"batches {asked}: there are no arrays in what the door gave")
        return arrays

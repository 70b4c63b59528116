"""The same few numbers of every file of a round, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from quoracy.learn.header import Spec
from quoracy.learn.rules import Row, Slice, Weights
from quoracy.learn.tensors import TensorFile


class Inputs(msgspec.Struct):
    """What a round has to read: the updates with their samples, the model they began with, and what the rule kept."""

    files: list[TensorFile]
    weights: Weights
    before: TensorFile
    kept: TensorFile | None
    begins: Mapping[str, float]
    flat: dict[tuple[str, str], list[Row] | None] = {}
    """By tensor, and how it is calculated with: all of it in each file, where that needs no copy."""

    def only(self, places: Sequence[int]) -> Inputs:
        """The same with some of the updates."""
        files = [self.files[place] for place in places]
        return msgspec.structs.replace(self, files=files, weights=self.weights[list(places)], flat={})

    def flats(self, name: str, works_as: str) -> list[Row] | None:
        if (name, works_as) not in self.flat:
            specs = [file.by_name[name] for file in self.files]
            plain = all(
                file.mapped and spec.dtype.number == works_as for file, spec in zip(self.files, specs, strict=True)
            )
            found = [file.flat(spec) for file, spec in zip(self.files, specs, strict=True)] if plain else None
            self.flat[name, works_as] = found
        return self.flat[name, works_as]


def read(inputs: Inputs, spec: Spec, start: int, stop: int, keeps: Sequence[str] = (), exact: bool = False) -> Slice:
    """A slice of one tensor. What is mapped, and stored as it is calculated with, is not copied. ``exact``: whole
    numbers as such, and not as floats."""
    works_as = spec.dtype.counts_as if exact else spec.dtype.works_as
    flats = inputs.flats(spec.name, works_as)
    if flats is None:
        views = [_view(file, spec.name, start, stop, works_as) for file in inputs.files]
    else:
        views = [flat[start:stop] for flat in flats]
    previous = _view(inputs.before, spec.name, start, stop, works_as)
    state = {name: _state(inputs, name, spec, start, previous) for name in keeps}
    return Slice(views, inputs.weights, previous, state)


def _view(file: TensorFile, name: str, start: int, stop: int, works_as: str) -> Row:
    spec = file.by_name[name]
    if file.mapped and spec.dtype.number == works_as:
        return file.view(spec, start, stop)
    worked = np.empty(stop - start, works_as)
    file.read_into(spec, start, worked)
    return worked


def _state(inputs: Inputs, name: str, spec: Spec, start: int, like: Row) -> Row:
    numbers = np.full_like(like, inputs.begins.get(name, 0.0))
    if inputs.kept is not None:
        inputs.kept.read_into(inputs.kept.by_name[f"{name}/{spec.name}"], start, numbers)
    return numbers

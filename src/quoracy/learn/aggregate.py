"""From the files of a round's updates to the file of the next model, slice by slice.

A slice is the same few thousand numbers of every file. It is read, merged by the rule, rounded to the tensor's type and
written before the next one is read, so that the memory needed does not depend on how many updates there are, nor on the
size of the model. Updates are taken in the order of the participants' ids, however they came in.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from quoracy.core.federated.aggregation import Aggregation
from quoracy.learn.dtypes import Numbers, is_finite
from quoracy.learn.header import Layout, Spec, difference
from quoracy.learn.reader import Inputs, read
from quoracy.learn.rules import CannotAggregate, Rule, rule_for
from quoracy.learn.slices import pieces, width
from quoracy.learn.tensors import BadTensors, TensorFile, TensorWriter

HELD_OPEN: Final = 256
"""Files of more updates are opened for each read: processes may have but so many open."""


class Update(msgspec.Struct, frozen=True):
    participant: str
    path: Path
    samples: int


class Aggregated(msgspec.Struct, frozen=True):
    """The next model, and what the rule keeps for the round after it, if it keeps anything."""

    weights: Path
    digest: str
    size_bytes: int
    state: Path | None
    state_digest: str


def aggregate(
    settings: Aggregation,
    updates: Sequence[Update],
    previous: Path,
    state: Path | None,
    out_dir: Path,
    *,
    sync: bool = False,
) -> Aggregated:
    """Make the next model in ``out_dir``. ``previous`` is the model that the round began with, ``state`` what the last
    round kept. Raises CannotAggregate with the reason; what is left in the folder then is of no use."""
    ordered = _in_order(updates)
    rule = rule_for(settings)
    with ExitStack() as stack:
        before = stack.enter_context(_opened("the previous model", previous))
        files = []
        for update in ordered:
            name = f"the update of {update.participant}"
            file = stack.enter_context(_opened(name, update.path, len(ordered) <= HELD_OPEN))
            if different := difference(file.layout, before.layout):
                raise CannotAggregate(f"{name}: {different}")
            files.append(file)
        kept = _open_state(rule, state, before)
        if kept is not None:
            stack.enter_context(kept)
        weights = np.array([update.samples for update in ordered], np.float64)
        return _Round(rule, Inputs(files, weights, before, kept, rule.begins())).run(out_dir, sync)


class _Round:
    def __init__(self, rule: Rule, inputs: Inputs) -> None:
        self.rule = rule
        self.inputs = inputs
        self.before = inputs.before
        self.width = width(len(inputs.files), self.before.size_bytes)

    def run(self, out_dir: Path, sync: bool) -> Aggregated:
        if not any(spec.size for spec in self.before.specs):
            raise CannotAggregate("the model has no numbers")
        with ExitStack() as stack, np.errstate(all="ignore"):
            if self.rule.surveys:
                self._survey()
            model = stack.enter_context(TensorWriter(out_dir / "weights.safetensors", self.before.layout))
            memory = None
            if self.rule.keeps:
                layout = _state_layout(self.rule, self.before)
                memory = stack.enter_context(TensorWriter(out_dir / "state.safetensors", layout))
            for spec in model.specs:
                self._merge(spec, model, memory)
            model.close(sync)
            if memory is not None:
                memory.close(sync)
        if memory is None:
            return Aggregated(model.path, model.digest(), model.size_bytes, None, "")
        return Aggregated(model.path, model.digest(), model.size_bytes, memory.path, memory.digest())

    def _survey(self) -> None:
        floating = [spec for spec in self.before.specs if spec.dtype.floating and spec.size]
        for spec in floating or self.before.specs:
            for start, stop in pieces(spec.size, self.width):
                self.rule.survey(read(self.inputs, spec, start, stop))
        shown = self.rule.decide()
        if shown is not None:
            count = len(self.inputs.files)
            if not shown or not all(0 <= place < count for place in shown):
                raise CannotAggregate(f"the rule chose {list(shown)} of {count} updates, wanted are places from 0 on")
            self.inputs = self.inputs.only(shown)

    def _merge(self, spec: Spec, model: TensorWriter, memory: TensorWriter | None) -> None:
        for start, stop in pieces(spec.size, self.width):
            if not spec.dtype.floating:
                piece = read(self.inputs, spec, start, stop, exact=True)
                _write(model, spec.name, start, self.rule.merge_whole(piece))
                continue
            piece = read(self.inputs, spec, start, stop, self.rule.keeps)
            _write(model, spec.name, start, self.rule.merge(piece))
            if memory is not None:
                for kept in self.rule.keeps:
                    _write(memory, f"{kept}/{spec.name}", start, piece.state[kept])


def _write(file: TensorWriter, name: str, start: int, numbers: Numbers) -> None:
    if not is_finite(file.write(name, start, numbers), file.by_name[name].dtype):
        raise CannotAggregate(f"tensor {name!r} would not be finite: its numbers are too large for the rule")


def _in_order(updates: Sequence[Update]) -> list[Update]:
    ordered = sorted(updates, key=lambda update: update.participant)
    if not ordered:
        raise CannotAggregate("there are no updates")
    for one, other in pairwise(ordered):
        if one.participant == other.participant:
            raise CannotAggregate(f"there are two updates of {one.participant}")
    for update in ordered:
        if update.samples < 0:
            raise CannotAggregate(f"the update of {update.participant} was trained on {update.samples} samples")
    return ordered


def _opened(name: str, path: Path, held: bool = True) -> TensorFile:
    try:
        return TensorFile(path, mapped=held, held=held)
    except (BadTensors, OSError) as error:
        raise CannotAggregate(f"{name}: {error}") from error


def _open_state(rule: Rule, state: Path | None, before: TensorFile) -> TensorFile | None:
    if state is None:
        return None
    if not rule.keeps:
        raise CannotAggregate("there is a state of the round before, and the rule keeps none: was it another rule?")
    kept = _opened("the state", state)
    if different := difference(kept.layout, _state_layout(rule, before)):
        kept.close()
        raise CannotAggregate(f"the state is not of this model under this rule: {different}")
    return kept


def _state_layout(rule: Rule, before: TensorFile) -> Layout:
    """A float per number of the model and name that the rule keeps, two where the number is complex; of whole numbers
    nothing is kept."""
    layout: Layout = {}
    for spec in before.specs:
        if spec.dtype.floating:
            code = "F64" if spec.dtype.works_as == "<f8" else "F32"
            shape = (*spec.shape, spec.dtype.parts) if spec.dtype.parts > 1 else spec.shape
            layout |= {f"{kept}/{spec.name}": (code, shape) for kept in rule.keeps}
    return layout

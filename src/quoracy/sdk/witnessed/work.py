"""What only the one who trains can do: load, train, apply, store. One thing at a time, in the order it was asked for.

Each returns a fact for the member's part. Nothing is decided here; a trainer that raises ends the member.

Kept here: the model that the trainer has is the one of which the part was told last. A load that was replaced when it
was nearly done has changed the model all the same, so the one before is put back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from quoracy.core.errors import ObjectsError, QuoracyError
from quoracy.core.witnessed.facts import (
    Apply,
    Blob,
    Lend,
    Load,
    ModelApplied,
    ModelLoaded,
    ModelNotApplied,
    ModelNotLoaded,
    ModelNotStored,
    ModelStored,
    ResultTrained,
    Store,
    Train,
)
from quoracy.core.witnessed.views import Pointer
from quoracy.learn.header import BadTensors, Layout
from quoracy.learn.witnessed.batches import ids_of
from quoracy.learn.witnessed.encodings import Encoding
from quoracy.learn.witnessed.manifest import load_checkpoint, load_weights, save_checkpoint
from quoracy.learn.witnessed.results import encode, layout_of
from quoracy.learn.witnessed.trainer import Result, Trainer, Weights
from quoracy.sdk.federated.weights import Depot
from quoracy.sdk.witnessed.blobs import Blobs
from quoracy.sdk.witnessed.models import Models
from quoracy.sdk.witnessed.newcomer import Newcomer, NotThere

MAX_WHY: Final = 240

Outcome = ModelLoaded | ModelNotLoaded | ResultTrained | ModelApplied | ModelNotApplied | ModelStored | ModelNotStored
OnBad = Callable[[str, int, str], None]
"""Whose result, of which round, and what is wrong with it."""


class Workroom:
    def __init__(
        self, member: str, trainer: Trainer, encoding: Encoding, blobs: Blobs, models: Models, newcomer: Newcomer,
        depot: Depot, temporary: Callable[[], Path], check: Callable[[], None],
    ) -> None:  # fmt: skip
        """``check``: raises if what is being done is not wanted any more."""
        self._member = member
        self._trainer = trainer
        self._encoding = encoding
        self._blobs = blobs
        self._models = models
        self._newcomer = newcomer
        self._depot = depot
        self._temporary = temporary
        self._check = check
        self.step = -1
        """Of the model the trainer has; -1 before it has one."""
        self.model = b""
        self.layout: Layout | None = None
        """What a result for this model holds."""
        self.trained = 0
        self.applied = 0
        self.measured: dict[str, float] = {}
        """What the last training has measured beside its loss."""
        self.came_from = ""
        """Where the model was found that was loaded last, for people."""
        self._told = (-1, b"")
        """Step and hash that the member's part knows of."""

    def load(self, job: Load, wanted: Callable[[], bool]) -> Outcome | None:
        """None: replaced by another load, which says what became of it."""
        try:
            step, weights = self._found(job)
        except (NotThere, BadTensors, ObjectsError, OSError, QuoracyError) as error:
            self._check()
            return ModelNotLoaded(str(error)[:MAX_WHY])
        self._check()
        self._trainer.load(weights)
        self._keep(step)
        if not wanted():
            self._put_back()
            return None
        self._told = (self.step, self.model)
        return ModelLoaded(step, self.model)

    def lend(self, job: Lend) -> None:
        self._models.lend(job.step, job.model)

    def evaluate(self) -> dict[str, float]:
        return dict(self._trainer.evaluate())

    # -- the model --------------------------------------------------------------------------------------------------

    def _found(self, job: Load) -> tuple[int, Weights | None]:
        pointer = job.pointer
        if pointer.source == "initial":
            self.came_from = "made"
            return pointer.step, None
        if pointer.source == "p2p":
            try:
                self.came_from = "from the others"
                return self._newcomer.fetch(job)
            except NotThere:
                if not pointer.digest:
                    raise
        self.came_from = "from the store"
        return pointer.step, self._stored(pointer)

    def _stored(self, pointer: Pointer) -> Weights:
        try:
            path = self._depot.fetch(pointer.digest.hex())
            return load_checkpoint(path, pointer.model) if pointer.model else load_weights(path)
        except (ObjectsError, OSError, QuoracyError):
            self._depot.forget()
            raise

    def _put_back(self) -> None:
        step, model = self._told
        if step >= 0:
            self._trainer.load(self._models.weights(step, model))
            self._keep(step)

    def _keep(self, step: int) -> None:
        weights = self._trainer.weights()
        self.layout = layout_of(weights)
        self.step = step
        self.model = self._models.keep(step, weights).model

    # -- rounds -----------------------------------------------------------------------------------------------------

    def train(self, job: Train) -> Outcome:
        work = job.work
        if self.layout is None or (self.step, self.model) != (work.step, work.base):
            raise RuntimeError(f"asked to train on the model of step {work.step} while {self.step} is here")
        result = self._trainer.train(ids_of(work.batches))
        about = self._blobs.about(
            work.epoch, work.round, work.assignment, work.attempt, self._member, work.batches, work.base
        )  # fmt: skip
        blob = encode(result, about, self._encoding, self.layout)
        self.trained += 1
        self.measured = dict(result.metrics)
        return ResultTrained(work, self._blobs.put(blob), len(blob), about.samples, float(result.loss))

    def apply(self, job: Apply, on_bad: OnBad) -> Outcome:
        if self.layout is None or self.step != job.step:
            raise RuntimeError(f"asked to apply results to the model of step {job.step} while {self.step} is here")
        if unreadable := self._unreadable(job, self.model, self.layout, on_bad):
            return ModelNotApplied(job.step, unreadable)
        self._trainer.apply(self._results(job, self.model, self.layout))
        self._keep(job.step + 1)
        self._told = (self.step, self.model)
        self.applied += 1
        return ModelApplied(self.step, self.model)

    def _unreadable(self, job: Apply, base: bytes, layout: Layout, on_bad: OnBad) -> tuple[bytes, ...]:
        """What was sealed by witnesses that did not look at it. It is the same bytes to everybody."""
        found = []
        for result in job.results:
            if why := self._blobs.why_not(Blob(job.epoch, job.round, result), base, layout):
                on_bad(result.member, job.round, why)
                found.append(result.digest)
        return tuple(found)

    def _results(self, job: Apply, base: bytes, layout: Layout) -> Iterator[Result]:
        """One by one, so that many of them need the room of one."""
        for result in job.results:
            yield self._blobs.read(Blob(job.epoch, job.round, result), base, layout)

    def store(self, job: Store) -> Outcome:
        if (self.step, self.model) != (job.step, job.model):
            return ModelNotStored(job.step, f"the model here is that of step {self.step}")
        path = self._temporary()
        try:
            digest, size_bytes, model = save_checkpoint(path, self._trainer.weights())
            self._depot.upload(path, digest.hex())
        except (ObjectsError, OSError, QuoracyError) as error:
            self._check()
            self._depot.forget()
            return ModelNotStored(job.step, str(error)[:MAX_WHY])
        finally:
            path.unlink(missing_ok=True)
        return ModelStored(job.step, model, digest, size_bytes)

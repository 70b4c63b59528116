"""A trainer tried without a run: alone, and as several members that exchange their results as they would in a run.

``alone`` gives the figure that training together is compared with. ``together`` shows whether a trainer is fit: its
results can be sent, and whoever applies them has the same model as everybody, also one that came in the middle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from quoracy.core.errors import ConfigError
from quoracy.learn.witnessed.batches import ranges_of
from quoracy.learn.witnessed.encodings import encoding_of
from quoracy.learn.witnessed.manifest import (
    assemble,
    check_weights,
    manifest_of,
    model_hash,
    read_manifest,
    tensor_bytes,
)
from quoracy.learn.witnessed.results import About, decode, encode, layout_of
from quoracy.learn.witnessed.trainer import Factory, RunTask, Trainer


def rounds_of(first: int, count: int, size: int) -> list[range]:
    """So many rounds of so many batches each, one after the other."""
    return [range(at, at + size) for at in range(first, first + count * size, size)]


def alone(make: Factory, task: RunTask, rounds: Iterable[Sequence[int]]) -> dict[str, float]:
    """What one machine gets that trains these batches: one step for each round, and nothing is sent to anybody."""
    trainer = make(task)
    trainer.load(None)
    for batches in rounds:
        trainer.apply([trainer.train(batches)])
    return trainer.evaluate()


class Together:
    """Members in one process."""

    def __init__(self, make: Factory, task: RunTask, members: int) -> None:
        if members < 1:
            raise ConfigError("members", members, "at least 1")
        self._make, self._task = make, task
        self._encoding = encoding_of(task.hyper)
        self.members: list[Trainer] = []
        for number in range(members):
            self.members.append(make(replace(task, member=f"m{number}")))
            self.members[-1].load(None)
        self.step = 0
        self.sent_bytes = 0
        self.model = self._agreed()

    def round(self, batches: Sequence[int]) -> None:
        """One round: the batches are divided, trained, sent and applied by all."""
        share = -(-len(batches) // len(self.members))
        parts = [batches[at : at + share] for at in range(0, len(batches), share)]
        layout = layout_of(self.members[0].weights())
        blobs = []
        for number, (trainer, part) in enumerate(zip(self.members, parts, strict=False)):
            about = self._about(number, part)
            blobs.append((encode(trainer.train(part), about, self._encoding, layout), about))
        self.sent_bytes += sum(len(blob) for blob, _ in blobs)
        if self._agreed() != self.model:
            raise ConfigError("trainer", "train", "training a batch changes the model: only apply may")
        for trainer in self.members:
            trainer.apply(decode(blob, about, self._encoding, layout) for blob, about in blobs)
        self.step += 1
        self.model = self._agreed()

    def join(self) -> None:
        """One more, that takes the model from the others, tensor by tensor."""
        weights = self.members[0].weights()
        manifest = read_manifest(manifest_of(weights).packed, self.model)
        trainer = self._make(replace(self._task, member=f"m{len(self.members)}"))
        trainer.load(assemble(manifest, lambda entry: tensor_bytes(weights[entry.name])))
        self.members.append(trainer)
        self._agreed()

    def _about(self, number: int, part: Sequence[int]) -> About:
        samples = len(part) * self._task.batch_size
        return About(self._task.run, 1, self.step, number, 1, f"m{number}", ranges_of(part), self.model, samples)

    def _agreed(self) -> bytes:
        """The hash of the model all have. Raises BadModel, naming the tensor, if one has another."""
        first = manifest_of(self.members[0].weights())
        for trainer in self.members[1:]:
            if model_hash(trainer.weights()) != first.model:
                check_weights(trainer.weights(), first)
        return first.model


def together(
    make: Factory, task: RunTask, rounds: Iterable[Sequence[int]], members: int
) -> tuple[dict[str, float], bytes]:
    """What so many members get on these batches, and the hash of the model that all of them have at the end."""
    crew = Together(make, task, members)
    for batches in rounds:
        crew.round(batches)
    return crew.members[0].evaluate(), crew.model

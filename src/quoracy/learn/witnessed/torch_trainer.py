"""A torch module as a trainer. Imported only for those who bring one: torch is an extra.

torch computes gradients, on whatever device; the step itself is taken in numpy, element by element, so that members
with other devices and other versions of torch have the same bits. Then the weights are copied into the module.

Buffers are the same for everybody and stay as they are: a module whose training changes one, as batch norm does, is
refused, since each member would change it in its own way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch

from quoracy.core.errors import ConfigError
from quoracy.learn.witnessed.gradient import GradientTrainer
from quoracy.learn.witnessed.trainer import BUFFER, Array, Result, RunTask, Source, Weights

AT_ONCE: Final = 16
"""Batches that are on the device together."""

Loss = Callable[[Any, dict[str, Any]], Any]
"""Module and samples, as tensors on its device, to the mean loss over the samples."""
Evaluate = Callable[[Any, dict[str, Any]], Mapping[str, float]]


class TorchTrainer(GradientTrainer):
    """``module``: the model, with the weights to begin with. Make it after ``torch.manual_seed(task.seed)``: every
    member must begin with the same bits. ``evaluate``: called with the module and the samples that are held out."""

    def __init__(
        self,
        task: RunTask,
        module: torch.nn.Module,
        loss: Loss,
        *,
        source: Source | None = None,
        evaluate: Evaluate | None = None,
        device: str = "",
    ) -> None:
        super().__init__(task)
        if not isinstance(module, torch.nn.Module):
            raise ConfigError("module", type(module).__name__, "a torch.nn.Module")
        chosen = source or task.source
        if chosen is None:
            raise ConfigError("source", None, "name data in the run's settings, or give the trainer a source")
        self.source: Source = chosen
        self.device = _device(device or task.device)
        self._loss, self._evaluate = loss, evaluate
        self._first = _read(module)
        self.module = module.to(self.device)

    def initial(self) -> Weights:
        return self._first

    def load(self, weights: Weights | None) -> None:
        super().load(weights)
        self._put(self.weights())

    def apply(self, results: Iterable[Result]) -> None:
        super().apply(results)
        self._put(self.model)

    def train(self, batch_ids: Sequence[int]) -> Result:
        size = self.task.batch_size
        total = len(batch_ids) * size
        before = {name: buffer.clone() for name, buffer in self.module.named_buffers()}
        self.module.train()
        self.module.zero_grad(set_to_none=True)
        loss = 0.0
        for at in range(0, len(batch_ids), AT_ONCE):
            chosen = batch_ids[at : at + AT_ONCE]
            mean = self._loss(self.module, self._on_device(self.source.samples(chosen)))
            share = len(chosen) * size / total
            (mean * share).backward()
            loss += float(mean.detach()) * share
            self.task.progress(len(chosen))
        self._check_buffers(before)
        return Result({name: _slope(one) for name, one in self.module.named_parameters()}, total, loss)

    def evaluate(self) -> dict[str, float]:
        samples = self.source.held_out()
        if self._evaluate is None or samples is None:
            return {}
        self.module.eval()
        with torch.no_grad():
            return {name: float(value) for name, value in self._evaluate(self.module, self._on_device(samples)).items()}

    def _on_device(self, samples: Mapping[str, Array]) -> dict[str, Any]:
        # A copy where the array is not to be changed: torch has no such tensors.
        arrays = {name: array if array.flags.writeable else array.copy() for name, array in samples.items()}
        return {name: torch.from_numpy(array).to(self.device) for name, array in arrays.items()}

    def _put(self, weights: Weights) -> None:
        tensors = dict(self.module.named_parameters())
        tensors |= {BUFFER + name: buffer for name, buffer in self.module.named_buffers()}
        with torch.no_grad():
            for name, array in weights.items():
                if name in tensors:
                    tensors[name].copy_(torch.from_numpy(array))

    def _check_buffers(self, before: Mapping[str, Any]) -> None:
        changed = [name for name, buffer in self.module.named_buffers() if not torch.equal(buffer, before[name])]
        if changed:
            fix = "each member would have its own; for batch norm, track_running_stats=False, or layer or group norm"
            raise ConfigError("module", changed[0], f"training changes this buffer: {fix}")


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        said = str(error).splitlines()[0][:200]
        raise ConfigError("device", name, f"cannot be used here ({said}); cpu always can") from None
    return device


def _read(module: torch.nn.Module) -> Weights:
    """Parameters by their names, and buffers. Raises ConfigError for parameters that are not of full precision."""
    made: Weights = {}
    for name, parameter in module.named_parameters():
        if parameter.dtype not in (torch.float32, torch.float64):
            fix = "parameters of float32, with torch.autocast in the loss for speed"
            raise ConfigError(name, str(parameter.dtype), fix)
        made[name] = _copied(parameter)
    for name, buffer in module.named_buffers():
        if buffer.dtype == torch.bfloat16:
            raise ConfigError(name, str(buffer.dtype), "numpy has no such type: buffers of float32")
        made[BUFFER + name] = _copied(buffer)
    return made


def _copied(tensor: Any) -> Array:
    array: Array = tensor.detach().cpu().contiguous().numpy().copy()
    return array


def _slope(parameter: Any) -> Array:
    """Of a parameter that took no part: 0."""
    return np.zeros(tuple(parameter.shape), np.float32) if parameter.grad is None else _copied(parameter.grad)

"""The trainer most people want: three functions to write, and the bits are taken care of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from quoracy.core.errors import ConfigError
from quoracy.learn.header import difference
from quoracy.learn.witnessed.apply import Descent
from quoracy.learn.witnessed.packing import layout_of_arrays
from quoracy.learn.witnessed.trainer import OPTIMIZER, Result, RunTask, Weights


class GradientTrainer(ABC):
    """Its results are mean gradients, and the optimizer named in ``hyper`` applies them: ``optimizer`` (sgd, adam),
    ``lr``, ``momentum``, ``beta_1``, ``beta_2``, ``epsilon``, ``clip``.

    ``initial`` must make the same bits on every machine: zeros, ``numpy.random.PCG64(seed).random_raw``, arithmetic. In
    ``train`` the model is ``self.model``, by name.
    """

    def __init__(self, task: RunTask) -> None:
        self.task = task
        self._descent = Descent(task.hyper)

    @property
    def model(self) -> Weights:
        """The tensors that are trained, as they are now. Not to be changed."""
        return self._descent.trained

    @abstractmethod
    def initial(self) -> Weights:
        """The weights to begin with: float32 or float64."""

    @abstractmethod
    def train(self, batch_ids: Sequence[int]) -> Result:
        """The mean gradient of ``self.model`` over the samples of these batches."""

    def evaluate(self) -> dict[str, float]:
        return {}

    def load(self, weights: Weights | None) -> None:
        first = self.initial()
        if weights is not None:
            given = {name: array for name, array in weights.items() if not name.startswith(OPTIMIZER)}
            if found := difference(layout_of_arrays(given), layout_of_arrays(first)):
                raise ConfigError("weights", found, "bring the trainer of this run, with its hyper-parameters")
        self._descent.load(first if weights is None else weights)

    def apply(self, results: Iterable[Result]) -> None:
        self._descent.apply(results)

    def weights(self) -> Weights:
        return self._descent.weights()

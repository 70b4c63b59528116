"""A torch module as a participant's model: loaded from the weights before a training, read after it.

Imported only for those who bring a module: torch is an extra.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from quorate.core.errors import ConfigError
from quorate.sdk.errors import UnfitUpdate
from quorate.sdk.participant import Means
from quorate.sdk.tasks import Task


def torch_means(
    train: Callable[[Any, Task], Any],
    module: torch.nn.Module,
    initial: Any,
    dataset: Any,
    check: bool,
) -> Means:
    if not isinstance(module, torch.nn.Module):  # whatever the type says, anything may come in
        raise ConfigError("model", type(module).__name__, "a torch.nn.Module")

    def once(weights: dict[str, Any], task: Task) -> tuple[dict[str, Any], int, Mapping[str, Any] | None]:
        put(module, weights)
        returned = train(module, task)
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise UnfitUpdate(f"train returned {type(returned).__name__}", "with model= return (samples, metrics)")
        return read(module), *returned

    gives = (
        initial if callable(initial) else (lambda: initial) if isinstance(initial, Mapping) else lambda: read(module)
    )
    return Means(once, None if initial is False else gives, lambda: _bf16(module), dataset, check)


def put(module: torch.nn.Module, weights: Mapping[str, Any]) -> None:
    """Raises UnfitUpdate if the run's model is another one than this."""
    try:
        module.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    except RuntimeError as error:
        raise UnfitUpdate(f"the run's weights do not fit this module: {error}", "bring the model of the run") from None


def read(module: torch.nn.Module) -> dict[str, Any]:
    """numpy knows no bfloat16: such numbers are float32 here, and written as what they were."""
    made: dict[str, Any] = {}
    for name, tensor in module.state_dict().items():
        plain = tensor.detach().cpu().contiguous()
        made[name] = (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()
    return made


def _bf16(module: torch.nn.Module) -> frozenset[str]:
    return frozenset(name for name, tensor in module.state_dict().items() if tensor.dtype == torch.bfloat16)

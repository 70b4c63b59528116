"""A torch module as a participant's model: loaded from the weights before a training, read after it.

Imported only for those who bring a module: torch is an extra.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch

from quoracy.core.errors import ConfigError
from quoracy.sdk.client.errors import UnfitUpdate
from quoracy.sdk.federated.participant import Means
from quoracy.sdk.federated.task import Task

CODES: Final = {
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.float8_e4m3fnuz: "F8_E4M3FNUZ",
    torch.float8_e5m2fnuz: "F8_E5M2FNUZ",
}
"""What numpy does not have."""


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
    return Means(once, None if initial is False else gives, lambda: _codes(module), dataset, check)


def put(module: torch.nn.Module, weights: Mapping[str, Any]) -> None:
    """Raises UnfitUpdate if the run's model is another one than this."""
    try:
        module.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    except RuntimeError as error:
        raise UnfitUpdate(f"the run's weights do not fit this module: {error}", "bring the model of the run") from None


def read(module: torch.nn.Module) -> dict[str, Any]:
    """What numpy does not have, such as bfloat16, is float32 here, and written as what it was."""
    made: dict[str, Any] = {}
    for name, tensor in module.state_dict().items():
        plain = tensor.detach().cpu().contiguous()
        made[name] = (plain.float() if plain.dtype in CODES else plain).numpy()
    return made


def _codes(module: torch.nn.Module) -> dict[str, str]:
    return {name: CODES[tensor.dtype] for name, tensor in module.state_dict().items() if tensor.dtype in CODES}

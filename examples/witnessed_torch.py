"""A torch module in a witnessed run. Gradients are computed where --device says, results are applied bit for bit.

python examples/witnessed_torch.py                                             # tried first, without a run
cd examples && quoracy join URL --run digits --trainer witnessed_torch:Trainer # then on every machine
"""

from typing import Any

try:
    import torch
    from torch.nn.functional import cross_entropy
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("this needs torch: pip install torch==2.13.0", name=error.name) from None

from quoracy.learn.witnessed import RunTask, alone, together
from quoracy.learn.witnessed.rehearsal import rounds_of
from quoracy.learn.witnessed.source import digits_source
from quoracy.learn.witnessed.torch_trainer import TorchTrainer


def loss(module: torch.nn.Module, samples: dict[str, Any]) -> Any:
    return cross_entropy(module(samples["x"]), samples["y"])


def evaluate(module: torch.nn.Module, samples: dict[str, Any]) -> dict[str, float]:
    found = module(samples["x"]).argmax(dim=1)
    return {"accuracy": (found == samples["y"]).float().mean().item()}


def Trainer(task: RunTask) -> TorchTrainer:  # noqa: N802
    torch.manual_seed(task.seed)
    module = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    source = task.source or digits_source(task.seed, task.batch_size)
    return TorchTrainer(task, module, loss, source=source, evaluate=evaluate)


if __name__ == "__main__":
    task = RunTask(seed=1, batch_size=16, hyper={"optimizer": "adam", "lr": 0.01})
    rounds = rounds_of(0, count=100, size=4)
    print("alone", alone(Trainer, task, rounds)["accuracy"])
    figures, model = together(Trainer, task, rounds, members=4)
    print("four together", figures["accuracy"], "model", model.hex()[:16])

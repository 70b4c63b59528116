"""A torch module takes part in a federated run: its weights are loaded before each training, and read after it.

python examples/federated_torch.py tcp://127.0.0.1:7700 north
"""

import sys

import torch

import quoracy


def train(module: torch.nn.Module, task: quoracy.Task) -> tuple[int, dict[str, float]]:
    x = torch.linspace(-1, 1, 100).reshape(-1, 1)
    optimizer = torch.optim.SGD(module.parameters(), lr=task.hyper["lr"])
    for epoch in range(task.epochs):
        loss = torch.nn.functional.mse_loss(module(x), 3 * x + 1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        task.epoch(epoch, loss=loss.item())
    return len(x), {"loss": loss.item()}


if __name__ == "__main__":
    print(quoracy.participate(sys.argv[1], train, run="lines", participant=sys.argv[2], model=torch.nn.Linear(1, 1)))

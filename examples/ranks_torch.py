"""Data-parallel training with torch.distributed that survives the loss of any rank, with no coordinator.

    python examples/ranks_torch.py --store sqlite:///tmp/run --rank 0 --folder /tmp/run-files &
    python examples/ranks_torch.py --store sqlite:///tmp/run --rank 1 --folder /tmp/run-files &
    python examples/ranks_torch.py --store sqlite:///tmp/run --rank 2 --folder /tmp/run-files

Kill any of them with -9, start it again, whenever you like. A process group belongs to one set of members: when an
attempt failed, or somebody came or went, the next attempt forms a new one, under a name that no other attempt has.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import time
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import quoracy


class Group:
    """The process group of the attempts under way."""

    def __init__(self, folder: Path, patience_s: float) -> None:
        self._folder = folder
        self._patience = timedelta(seconds=patience_s)
        self._members: list[int] = []

    def form(self, it: quoracy.Iteration) -> bool:
        """For exactly the members of this attempt. Whether it is a new one."""
        if self._members == it.members:
            return False
        self.leave()
        store = dist.FileStore(str(self._folder / it.group), len(it.members))
        self._meet(store, it)
        dist.init_process_group(
            "gloo", store=store, rank=it.index, world_size=len(it.members), timeout=self._patience
        )  # fmt: skip
        self._members = it.members
        return True

    def _meet(self, store: dist.Store, it: quoracy.Iteration) -> None:
        """Until all are here. One that was killed before it came has no connections that could break, and gloo would
        wait for it for the whole time-out: its heartbeats say sooner that it will not come."""
        until = time.monotonic() + self._patience.total_seconds()
        store.set(f"here-{it.index}", "")
        while not store.check([f"here-{index}" for index in range(len(it.members))]):
            if it.missing() or time.monotonic() > until:
                raise RuntimeError("not all members have come")
            time.sleep(0.01)

    def leave(self) -> None:
        """Everybody leaves when an attempt has failed, because everybody is told that it has. Whoever notices leaves
        before it votes: gloo closes its connections then, and those who still wait for it notice too, instead of
        waiting for the whole time-out."""
        self._members = []
        if dist.is_initialized():
            dist.destroy_process_group()


def share_model(model: torch.nn.Module, have_model: bool) -> None:
    """Whoever has no model yet takes that of the first who has one."""
    having = torch.zeros(dist.get_world_size())
    having[dist.get_rank()] = float(have_model)
    dist.all_reduce(having)
    if having.sum() == 0:
        return  # nobody has: everybody begins with the same seed
    source = int(having.argmax())
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=source)


def save(folder: Path, model: torch.nn.Module, it: quoracy.Iteration) -> bool:
    """Fenced by the token: a rank that was given up, and does not know it yet, must not overwrite what came later. The
    token is in the checkpoint, so both are there together or not at all, whenever the process is killed."""
    it.check()
    with (folder / "checkpoint.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (there := load(folder)) is not None and there["token"] > it.token:
            return False
        unfinished = folder / f"checkpoint-{os.getpid()}.unfinished"
        with unfinished.open("wb") as file:
            torch.save({"token": it.token, "number": it.number, "model": model.state_dict()}, file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(folder / "checkpoint.pt")
        return True


def load(folder: Path) -> dict[str, Any] | None:
    """The newest checkpoint: its token, the iteration it was made after, the model."""
    path = folder / "checkpoint.pt"
    return torch.load(path) if path.exists() else None


def mark(model: torch.nn.Module) -> str:
    """The same for the same parameters, to the last bit."""
    raw = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    return hashlib.sha256(raw).hexdigest()[:16]


def batch(rank: int, number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What this rank sees in this iteration: noisy points of one curve."""
    dice = torch.Generator().manual_seed(1000 * number + rank)
    x = torch.rand(64, 1, generator=dice) * 6 - 3
    return x, torch.sin(x) + 0.05 * torch.randn(64, 1, generator=dice)


def train(ranks: quoracy.Ranks, group: Group, folder: Path, steps: int) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(1, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    have_model = False
    for it in ranks.iterations():
        if it.number >= steps:
            break
        have_model = have_model and not it.joined
        try:
            if group.form(it):
                share_model(model, have_model)
                have_model = True
            x, y = batch(ranks.rank, it.number)
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
                parameter.grad /= len(it.members)
            dist.all_reduce(loss.detach())
            worked = True
        except RuntimeError as error:  # somebody is gone: gloo says so, or its time-out
            print(json.dumps({"failed": it.attempt, "why": str(error)[:80]}), flush=True)
            group.leave()
            worked = False
        if it.vote(ok=worked):
            optimizer.step()
            mean = loss.item() / len(it.members)
            told = {"number": it.number, "members": it.members, "loss": mean, "mark": mark(model)}
            print(json.dumps(told), flush=True)
            if it.index == 0 and it.number % 10 == 0:
                save(folder, model, it)
        else:
            group.leave()
    print(json.dumps({"end": mark(model)}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--store", required=True, help="what all ranks share: sqlite:///FOLDER, tcpstore://, etcd://")
    parser.add_argument("--run", default="demo")
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True, help="one that all ranks can reach")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--begin-with", type=int, default=1, help="wait for so many ranks before the first iteration")
    parser.add_argument("--dead", type=float, default=1.5, help="seconds of silence after which a rank is given up")
    parser.add_argument("--patience", type=float, default=10.0, help="gloo's time-out: seconds for the slowest step")
    told = parser.parse_args()
    told.folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")  # torch warns about its own ways
    settings = {"t_dead_s": told.dead, "form_members": told.begin_with}
    with quoracy.ranks(told.store, told.run, told.rank, **settings) as ranks:
        group = Group(told.folder, patience_s=told.patience)
        try:
            train(ranks, group, told.folder, told.steps)
        finally:
            group.leave()


if __name__ == "__main__":
    main()

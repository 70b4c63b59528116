"""``python -m quoracy.demo.rank_process STORE RUN RANK FOLDER STEPS JSON``: the training of one rank.

The gradients of an attempt are exchanged through a folder that is named by the attempt and its members, so that nobody
else's can get in. A rank that has no model yet says so there, and two of those who have one give it theirs. What
happens is printed, one JSON object a line.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import quoracy
from quoracy.demo.model import Weights, fresh, gradient, mark, points_of, step

PAUSE_S = 0.002
NEED = "needs the model"


class GaveUp(Exception):
    """Somebody whose part is needed will not come."""


def say(**facts: Any) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


class Exchange:
    """What the members of one attempt tell each other."""

    def __init__(self, folder: Path, it: quoracy.Iteration) -> None:
        self._it = it
        self._folder = folder / it.group
        self._folder.mkdir(exist_ok=True)

    def put(self, name: str, value: Any) -> None:
        """There whole or not at all."""
        unfinished = self._folder / f".{name}.{os.getpid()}"
        unfinished.write_text(json.dumps(value))
        unfinished.rename(self._folder / name)

    def get(self, names: list[str]) -> Any:
        """The first of these that is there. Raises GaveUp."""
        while True:
            for name in names:
                path = self._folder / name
                if path.exists():
                    return json.loads(path.read_text())
            if missing := self._it.missing():
                raise GaveUp(f"ranks {missing} do not come")
            time.sleep(PAUSE_S)


class Trainer:
    def __init__(self, rank: int, folder: Path) -> None:
        self.rank = rank
        self.folder = folder
        self.points = points_of(rank)
        self.weights: Weights | None = None
        self.taken_from_others = 0

    def attempt(self, it: quoracy.Iteration) -> tuple[Weights, float]:
        """The weights after this iteration, if it is committed, and the loss before it."""
        exchange = Exchange(self.folder, it)
        if it.number == 0 and self.weights is None:
            self.weights = fresh()
        if self.weights is None:
            exchange.put(f"{self.rank}", NEED)
        else:
            exchange.put(f"{self.rank}", gradient(self.weights, self.points))
        parts = [exchange.get([str(member)]) for member in it.members]
        having = [member for member, part in zip(it.members, parts, strict=True) if part != NEED]
        if self.weights is not None and len(having) < len(it.members) and self.rank in having[:2]:
            exchange.put(f"model-{self.rank}", self.weights)
        if not having:
            raise RuntimeError(f"nobody has the model of iteration {it.number}")
        if self.weights is None:
            self.weights = exchange.get([f"model-{member}" for member in having[:2]])
            self.taken_from_others += 1
        given = [part for part in parts if part != NEED]
        return step(self.weights, [part[0] for part in given]), sum(part[1] for part in given) / len(given)


def main() -> None:
    store, run, rank, folder, steps, settings = sys.argv[1:7]
    wanted = json.loads(settings)
    dies_at: int | None = wanted.pop("dies_at", None)
    trainer = Trainer(int(rank), Path(folder))
    stages: dict[str, float] = {}
    at: dict[str, Any] = {"stage": "Joining", "since_s": time.monotonic(), "number": -1}

    def on_news(news: quoracy.News) -> None:
        if news.what != "stage":
            return
        stages[at["stage"]] = stages.get(at["stage"], 0.0) + news.at_s - at["since_s"]
        at["stage"], at["since_s"] = news.stage, news.at_s
        if news.stage == "Consensus" and dies_at is not None and at["number"] >= dies_at:
            _die_first(Path(folder), int(rank), at["number"])

    with quoracy.ranks(store, run, int(rank), on_news=on_news, **wanted) as ranks:
        for it in ranks.iterations():
            if it.joined:
                trainer.weights = None
                say(what="joined", number=it.number, attempt=it.attempt)
            at["number"] = it.number
            if it.number >= int(steps):
                break
            stages.clear()
            time.sleep(_pace_s(Path(folder)))
            try:
                after, loss = trainer.attempt(it)
            except GaveUp as error:
                say(what="gave up", number=it.number, attempt=it.attempt, why=str(error))
                it.vote(ok=False)
                continue
            if it.vote():
                trainer.weights = after
                phases = {name: round(spent_s, 6) for name, spent_s in stages.items()}
                say(what="committed", number=it.number, attempt=it.attempt, loss=loss, mark=mark(after), phases=phases)
    say(what="end", weights=mark(trainer.weights or []), taken=trainer.taken_from_others)


def _pace_s(folder: Path) -> float:
    path = folder / "pace"
    return float(path.read_text()) if path.exists() else 0.0


def _die_first(folder: Path, rank: int, number: int) -> None:
    """Of all who are about to decide, the first."""
    try:
        (folder / "died").touch(exist_ok=False)
    except FileExistsError:
        return
    say(what="dies", number=number, rank=rank)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()

"""Participants for tests: ``partakers.py NAME URL ...`` runs the function NAME, which says what happens to it."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from typing import Any

import numpy as np
from tests.sdk.scripts import RUN, hear, say

import quoracy
from quoracy.sdk.federated import weights as depot

Weights = dict[str, Any]


def start() -> Weights:
    return {"a": np.zeros((2, 3), np.float32), "b": np.zeros(4, np.float64)}


def step(weights: Weights, by: float) -> Weights:
    for array in weights.values():
        array += by
    return weights


def _take_part(url: str, name: str, train: Any, **more: Any) -> None:
    try:
        summary = quoracy.participate(
            url,
            train,
            RUN,
            participant=name,
            initial=start,
            weights="http" if os.environ.get("WAY") == "http" else "store",
            on_news=lambda news: say("news", [news.what, news.round, news.text]),
            **more,
        )
        refused = [list(pair) for pair in summary.refused]
        say("summary", [summary.trained, summary.admitted, refused, summary.ended, summary.reason])
    except quoracy.WorkerError as error:
        say("raised", [type(error).__name__, error.code, str(error)])


def plain(url: str, name: str, by: str = "1") -> None:
    """Trains without asking anybody."""

    def train(weights: Weights, task: quoracy.Task) -> tuple[Weights, int, dict[str, float]]:
        say("trains", task.round)
        task.epoch(0, loss=1.0 / (task.round + 1))
        return step(weights, float(by)), 10, {"loss": 0.5}

    _take_part(url, name, train)


def told(url: str, name: str, drain_s: str = "20") -> None:
    """Says when it trains, and does there what it is told, line by line, until it is told to be done."""

    def train(weights: Weights, task: quoracy.Task) -> tuple[Weights, int, dict[str, float]]:
        say("trains", [task.round, os.getpid()])
        while (line := hear()) != "done":
            what, _, value = line.partition(" ")
            if what == "gil":
                began = time.monotonic()
                ctypes.PyDLL(None).usleep(ctypes.c_uint(round(float(value) * 1e6)))
                say("held", time.monotonic() - began)
            elif what == "progress":
                task.progress(metrics={"loss": 0.25})
                say("moved")
            elif what == "dropped":
                say("dropped", task.dropped())
            elif what == "fail":
                raise ValueError("the disk is on fire")
        return step(weights, 1.0), 10, {}

    _take_part(url, name, train, drain_s=float(drain_s))


def held_up(url: str, name: str, where: str, drain_s: str = "20") -> None:
    """Stops and says so before or after it has uploaded, and goes on when it is told to."""
    upload = depot.StoreWeights.upload

    def stop(self: depot.StoreWeights, path: Any, digest: str) -> None:
        if where == "before":
            say("before")
            hear()
        upload(self, path, digest)
        if where == "after":
            say("after")
            hear()

    def train(weights: Weights, task: quoracy.Task) -> tuple[Weights, int, dict[str, float]]:
        if task.round == 0:
            depot.StoreWeights.upload = stop  # type: ignore[method-assign]
        say("trains", task.round)
        return step(weights, 1.0), 10, {}

    _take_part(url, name, train, drain_s=float(drain_s))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])

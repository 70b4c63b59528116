"""Prints the hashes of models after some rounds, and with which instructions numpy was to calculate."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
from tests.learn.witnessed.some import ABOUT, LAYOUT, weights

from quoracy.learn.witnessed.apply import Descent
from quoracy.learn.witnessed.encodings import encoding_of
from quoracy.learn.witnessed.manifest import model_hash
from quoracy.learn.witnessed.results import decode, encode
from quoracy.learn.witnessed.trainer import Result, Weights

HYPER: dict[str, dict[str, Any]] = {
    "sgd": {"lr": 0.1, "momentum": 0.9},
    "bare": {"lr": 0.1, "momentum": 0.0, "clip": 0.3},
    "adam": {"optimizer": "adam", "lr": 0.01},
    "topk": {"lr": 0.1, "encoding": "topk", "topk": 0.07},
    "int8": {"optimizer": "adam", "lr": 0.01, "encoding": "int8", "block": 100},
}
ROUNDS = 4
MEMBERS = 5


def shifted(arrays: Weights, offset: int) -> Weights:
    """The same numbers, so many bytes beside where they would lie best."""
    moved: Weights = {}
    for name, array in arrays.items():
        room = np.empty(array.nbytes + offset + 64, np.uint8)
        place = room[offset : offset + array.nbytes]
        place[:] = array.reshape(-1).view(np.uint8)
        moved[name] = place.view(array.dtype).reshape(array.shape)
    return moved


def after_rounds(hyper: dict[str, Any], offset: int = 0) -> str:
    descent = Descent(hyper)
    descent.load(shifted(weights(), offset))
    encoding = encoding_of(hyper)
    for number in range(ROUNDS):
        results = []
        for member in range(MEMBERS):
            samples = 8 * (member + 1)
            about = type(ABOUT)("run", 1, number, member, 1, f"m{member}", ((0, 1),), bytes(32), samples)
            blob = encode(Result(weights(1000 * number + 10 * member), samples), about, encoding, LAYOUT)
            got = decode(memoryview(b" " * offset + blob)[offset:], about, encoding, LAYOUT)
            results.append(Result(shifted(got.arrays, offset), samples))
        descent.apply(results)
    return model_hash(descent.weights()).hex()


def instructions() -> list[str]:
    inside: Any = np._core._multiarray_umath  # type: ignore[attr-defined]
    return [name for name in inside.__cpu_dispatch__ if inside.__cpu_features__[name]]


if __name__ == "__main__":
    made = {name: after_rounds(hyper, int(sys.argv[1])) for name, hyper in HYPER.items()}
    sys.stdout.write(json.dumps({"hashes": made, "instructions": instructions()}))

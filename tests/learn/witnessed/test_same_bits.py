"""The same results give the same model to the last bit: with any instructions, threads, alignment and company."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.learn.witnessed.bits import HYPER, after_rounds, instructions

import quoracy.learn.witnessed.apply
import quoracy.learn.witnessed.optimizers
from quoracy.core.errors import ConfigError
from quoracy.learn.witnessed.apply import Descent
from quoracy.learn.witnessed.trainer import Result

ROOT = Path(__file__).parents[3]
RECORDED = {
    "sgd": "d6ccbb8fbc741f4627f8d2fd3153e090479e0c790a3b223e174faec2b9a7fcb3",
    "bare": "f66ad8b9db909fa46591d34e06326b38e05d667000c0dcc10274ce5dace124ce",
    "adam": "69e213c2512c4134832588543d0e02fc2830a563e31b731d057400bb89c9f7aa",
    "topk": "afb274d0b0395dcd956298919e3fc392c66ea742dd086aa10a145993d07becf8",
    "int8": "a5991b4830346485a28263574ca75ecd10ee31f9e96babfeda4781d2e9bd2065",
}


def start(offset: int = 0, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.learn.witnessed.bits", str(offset)]
    inherited = {name: value for name, value in os.environ.items() if name != "NPY_DISABLE_CPU_FEATURES"}
    return subprocess.Popen(
        command, cwd=ROOT, env={**inherited, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def told(process: subprocess.Popen[str]) -> Any:
    out, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (0, "")
    return json.loads(out)


def test_the_model_is_the_one_that_was_recorded() -> None:
    """On other machines, with other versions of numpy: the hashes in this file were made on one of them."""
    assert {name: after_rounds(hyper) for name, hyper in HYPER.items()} == RECORDED


@pytest.mark.parametrize("offset", [1, 4, 13])
def test_it_does_not_matter_where_arrays_lie(offset: int) -> None:
    assert {name: after_rounds(hyper, offset) for name, hyper in HYPER.items()} == RECORDED


@pytest.mark.parametrize("threads", ["1", "2"])
def test_it_does_not_matter_how_many_threads_and_processes_there_are(threads: str) -> None:
    environment = {f"{name}_NUM_THREADS": threads for name in ("OPENBLAS", "OMP", "MKL")}
    for process in [start(offset, **environment) for offset in range(int(threads))]:
        assert told(process)["hashes"] == RECORDED


@pytest.mark.parametrize("left", range(len(instructions())))
def test_it_does_not_matter_with_which_instructions_numpy_calculates(left: int) -> None:
    """As on an older processor: of those that this one has, only the first few."""
    disabled = instructions()[left:]
    found = told(start(NPY_DISABLE_CPU_FEATURES=" ".join(disabled)))
    assert found["instructions"] == instructions()[:left]
    assert found["hashes"] == RECORDED


def test_there_are_instructions_to_do_without() -> None:
    """Or the test above would have no case. True of every processor of the last ten years."""
    assert instructions()


def test_results_that_come_one_by_one_give_the_same_as_all_at_once() -> None:
    results = [Result({"a": np.full(3, 0.1 * n, np.float32)}, n) for n in (1, 2, 3)]
    models = []
    for given in (results, iter(results), (result for result in results)):
        descent = Descent({})
        descent.load({"a": np.ones(3, np.float32)})
        descent.apply(given)
        models.append(descent.weights()["a"].tobytes())
    assert len(set(models)) == 1


def test_what_is_no_number_is_the_same_no_number() -> None:
    """The sign of what comes of infinity minus infinity is the processor's own."""
    descent = Descent({"lr": 1.0, "momentum": 0.0})
    descent.load({"a": np.array([np.inf, -np.inf, -np.nan], np.float32)})
    descent._optimizer.lr = np.inf  # type: ignore[attr-defined]
    descent.apply([Result({"a": np.array([1, -1, 1], np.float32)}, 1)])
    assert descent.weights()["a"].view(np.uint32).tolist() == [0x7FC00000] * 3


def test_a_thread_that_takes_tiny_numbers_for_0_is_found_out() -> None:
    descent = Descent({})
    descent.load({"a": np.ones(1, np.float32)})
    assert torch.set_flush_denormal(True)
    try:
        with pytest.raises(ConfigError, match=r"torch\.set_flush_denormal"):
            descent.apply([])
    finally:
        torch.set_flush_denormal(False)
    descent.apply([])


FORBIDDEN = {
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "tanh", "sinh", "cosh", "power",
    "float_power", "cbrt", "hypot", "reciprocal", "sum", "mean", "average", "std", "var", "prod", "cumsum", "dot",
    "vdot", "inner", "outer", "matmul", "einsum", "tensordot", "linalg", "norm", "trapezoid", "convolve", "pow",
}  # fmt: skip


@pytest.mark.parametrize("module", [quoracy.learn.witnessed.apply, quoracy.learn.witnessed.optimizers])
def test_nothing_is_used_whose_bits_are_not_fixed(module: Any) -> None:
    tree = ast.parse(Path(module.__file__).read_text())
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    operators = {type(node.op) for node in ast.walk(tree) if isinstance(node, ast.BinOp)}
    assert used & FORBIDDEN == set()
    assert operators.isdisjoint({ast.MatMult, ast.Pow})

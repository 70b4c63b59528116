"""The examples of participants do what they say, as separate processes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sdk.test_examples import EXAMPLES, Crew, last_line

from quoracy.coordinator import Coordinator
from quoracy.sdk.federated.arrays import load

TORCH_S = 100.0
"""On a busy machine importing torch takes the most of it."""


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    with Coordinator(tmp_path) as running:
        yield running


@pytest.mark.parametrize(
    ("name", "places", "slope", "offset"),
    [
        ("federated.py", ["north", "south-west", "east"], "slope", "offset"),
        ("federated_torch.py", ["a"], "weight", "bias"),
    ],
)
def test_participants_find_the_line_together(
    coordinator: Coordinator, tmp_path: Path, name: str, places: list[str], slope: str, offset: str
) -> None:
    coordinator.create("lines", "federated", clients=len(places), rounds=30, epochs=5, hyper={"lr": 0.3})
    with Crew() as crew:
        processes = [crew.start(name, coordinator.url, place) for place in places]
        lines = [last_line(process, TORCH_S) for process in processes]
    assert all("trained=30, admitted=30, refused=(), ended='finished'" in line for line in lines)
    digest = coordinator.show("lines")["weights"]
    model = load(tmp_path / "objects" / "lines" / "blobs" / digest).arrays
    assert abs(model[slope].item() - 3) < 0.1
    assert abs(model[offset].item() - 1) < 0.1


def test_a_client_is_written_in_fifteen_lines() -> None:
    code = (EXAMPLES / "federated.py").read_text()
    docstring = ast.get_docstring(ast.parse(code), clean=False) or ""
    lines = [line for line in code.replace(f'"""{docstring}"""', "").splitlines() if line.strip()]
    assert len(lines) <= 15

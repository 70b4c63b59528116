"""Imports point downwards only: the contracts of import-linter hold, and would be noticed to break."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINTER = Path(sys.executable).parent / "lint-imports"


def lint(home: Path) -> subprocess.CompletedProcess[str]:
    """On the package as it is under ``home/src``, whatever is installed."""
    return subprocess.run(
        [str(LINTER), "--config", str(home / "pyproject.toml"), "--no-cache"],
        cwd=home,
        env={**os.environ, "PYTHONPATH": str(home / "src")},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def plant(home: Path, module: str, line: str) -> None:
    path = home / "src" / "quoracy" / module
    path.write_text(f"{path.read_text()}\n\n{line}\n")


def test_every_contract_is_kept() -> None:
    result = lint(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "0 broken" in result.stdout


def test_a_copy_without_a_planted_fault_keeps_every_contract(copy: Path) -> None:
    assert lint(copy).returncode == 0


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("core/dice.py", "import random", "The core has no clock"),
        ("core/cluster/rules.py", "import time", "The core has no clock"),
        ("core/host.py", "from quoracy.ports import Journal", "Imports point downwards only"),
        ("core/run.py", "import quoracy.core.cluster", "Nothing below the kinds knows a kind"),
        ("core/peer.py", "import quoracy.core.ranks", "Nothing below the kinds knows a kind"),
        ("core/ranks/rules.py", "import quoracy.core.cluster", "The kinds do not know each other"),
        ("core/cluster/rules.py", "import quoracy.core.ranks", "The kinds do not know each other"),
    ],
)
def test_a_planted_import_breaks_the_contract(copy: Path, module: str, line: str, contract: str) -> None:
    plant(copy, module, line)
    result = lint(copy)
    assert result.returncode != 0
    broken = [row for row in result.stdout.splitlines() if "BROKEN" in row]
    assert any(contract in row for row in broken), result.stdout

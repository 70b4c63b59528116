"""What a process imports before it needs it, everybody waits for: at every command, and whenever a coordinator is
started again. What is slow to import is imported where it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

SLOW = ("numpy", "torch", "grpc", "starlette", "cryptography.x509", "pygments")


@pytest.mark.parametrize(
    ("module", "needs"),
    [
        ("quoracy.coordinator", set()),
        ("quoracy.sdk.sidecar", set()),
        ("quoracy.sdk.connecting", set()),
        ("quoracy.cli.status", set()),
        ("quoracy.sdk.participating", {"numpy"}),
        ("quoracy.sdk.joining", {"numpy", "cryptography.x509"}),
    ],
)
def test_nothing_slow_is_imported_that_is_not_needed(module: str, needs: set[str]) -> None:
    code = f"import sys, {module}; print(*(name for name in {SLOW} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert set(done.stdout.split()) == needs

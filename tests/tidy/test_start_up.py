"""What a process imports before it needs it, everybody waits for: at every command, and whenever a coordinator is
started again. What is slow to import is imported where it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

from quoracy.bench.sdk import SERVERS

SLOW = ("numpy", "torch", "grpc", "starlette", "cryptography.x509", "pygments")


@pytest.mark.parametrize(
    ("module", "needs"),
    [
        ("quoracy.coordinator", set()),
        ("quoracy.sdk.client.heartbeat", set()),
        ("quoracy.sdk.cluster.api", set()),
        ("quoracy.cli.status", set()),
        ("quoracy.sdk.federated.api", {"numpy"}),
        ("quoracy.sdk.witnessed.api", {"numpy", "cryptography.x509"}),
    ],
)
def test_nothing_slow_is_imported_that_is_not_needed(module: str, needs: set[str]) -> None:
    code = f"import sys, {module}; print(*(name for name in {SLOW} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert set(done.stdout.split()) == needs


def test_a_training_script_imports_nothing_that_only_servers_need() -> None:
    """Nor asyncio: a script that blocks does without."""
    code = "import sys, quoracy; quoracy.connect; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    imported = set(done.stdout.split())
    assert "quoracy.sdk.cluster.worker" in imported
    assert imported.isdisjoint({*SERVERS, "asyncio", "numpy", "torch"})

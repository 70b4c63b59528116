"""The tests pass wherever they are started, and ``make shake`` says which run did not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
IGNORING = ["sh", "-c", 'trap "" INT QUIT HUP; exec "$@"', "sh", sys.executable]
LISTENS = """
import signal

def test_ctrl_c_is_heard():
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
"""
CHILDREN = """
import signal, subprocess, sys
if sys.argv[1] == "mended":
    import tests.conftest
signal.raise_signal(signal.SIGINT)
child = "import signal; print(*(signal.getsignal(number) is signal.SIG_IGN for number in (1, 2, 3)))"
print(subprocess.run([sys.executable, "-c", child], capture_output=True, text=True).stdout)
"""


def shake(*arguments: object, **named: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tests" / "shake.py"), *map(str, arguments)]
    return subprocess.run(
        command, env=os.environ | named, capture_output=True, text=True, check=False, timeout=100, cwd=ROOT
    )


def test_children_of_the_tests_listen_to_the_signals_that_the_tests_were_told_to_ignore() -> None:
    for how, heard in (("not mended", "True True True"), ("mended", "False False False")):
        done = subprocess.run([*IGNORING, "-c", CHILDREN, how], capture_output=True, text=True, check=True, cwd=ROOT)
        assert done.stdout.strip() == heard, "and the process itself stays deaf, or it would not print"


def test_a_shake_names_the_run_that_failed(tmp_path: Path) -> None:
    (tmp_path / "test_signals.py").write_text(LISTENS)
    done = shake(tmp_path, "--rootdir", tmp_path, "-c", os.devnull, RUNS="1", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    assert "run 1 of 1: passed in" in done.stdout
    assert "the run with SIGINT ignored: FAILED in" in done.stdout
    assert "test_ctrl_c_is_heard" in done.stdout
    assert done.stdout.endswith("1 of 2 runs passed; failed: the run with SIGINT ignored\n")
    assert done.returncode == 1


def test_a_run_that_does_not_end_is_ended(tmp_path: Path) -> None:
    (tmp_path / "test_forever.py").write_text("import time\n\ndef test_forever():\n    time.sleep(1e6)\n")
    done = shake(tmp_path, "--rootdir", tmp_path, "-c", os.devnull, RUNS="0", RUN_TIMEOUT_S="0.5")
    assert "not over after 0.5 s" in done.stdout
    assert done.returncode == 1


def test_a_shake_of_nothing_says_how_to_name_tests() -> None:
    done = shake()
    assert (done.returncode, done.stdout) == (2, "")
    assert "make shake TESTS=" in done.stderr

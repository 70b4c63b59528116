"""``make shake TESTS=…``: the same tests again and again beside a busy process per core, and once with SIGINT ignored.

A test that waits for luck instead of a condition passes on an idle machine and fails here. Every argument goes to
pytest; RUNS says how often (20), RUN_TIMEOUT_S how long one run may take (600).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))"
"""Until who started it is gone."""


@contextlib.contextmanager
def busy_cores() -> Iterator[None]:
    """A process per core that computes."""
    command = [sys.executable, "-c", BUSY]
    busy = [subprocess.Popen(command) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def run(arguments: Sequence[str], timeout_s: float, ignored: bool) -> str:
    """What pytest printed if it failed or took too long; nothing if it passed. It gets a process group of its own, so
    that nothing it started is left behind after a time-out."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    if ignored:
        command = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        try:
            printed, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return f"not over after {timeout_s:g} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return printed if process.returncode else ""


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> int:
    """0 if every run passed, 1 if not, 2 if it was not said what to run."""
    if not arguments:
        sys.stderr.write("say which tests: make shake TESTS=tests/e2e/test_verbs.py\n")
        return 2
    count, timeout_s = int(os.environ.get("RUNS", "20")), float(os.environ.get("RUN_TIMEOUT_S", "600"))
    names = [*(f"run {number} of {count}" for number in range(1, count + 1)), "the run with SIGINT ignored"]
    failed = []
    with busy_cores():
        for name in names:
            began_s = time.monotonic()
            printed = run(arguments, timeout_s, ignored=name == names[-1])
            say(f"{name}: {'FAILED' if printed else 'passed'} in {time.monotonic() - began_s:.1f} s")
            if printed:
                failed.append(name)
                say(printed)
    say(f"{len(names) - len(failed)} of {len(names)} runs passed" + "".join(f"; failed: {name}" for name in failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""``python -m quoracy.demo.worker URL RUN NAME STEPS WORK_MS``: the training script of the demonstration.

Each step works for a moment and meets the others. What it passed is printed, one JSON object a line, so that the
demonstration can compare it with the journal.
"""

from __future__ import annotations

import json
import sys
import time

import quoracy


def main() -> None:
    url, run, name, steps, work_ms = sys.argv[1:6]
    with quoracy.connect(url, run=run, member=name) as worker:
        for step in range(worker.next_step("step"), int(steps)):
            time.sleep(float(work_ms) / 1000)
            began = time.monotonic()
            passage = worker.barrier("step", step)
            told = {"step": step, "generation": passage.generation, "waited_s": time.monotonic() - began}
            sys.stdout.write(json.dumps(told) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()

"""One training script of ``quoracy bench sdk``, run as a file: so that it imports what a script imports, and nothing
of the benches. Jobs come as lines of JSON, the answer to each is one line.

It stands at barriers back to back: those of a run, those of ``torch.distributed`` with gloo, and the cheapest that a
TCPStore allows, which is a counter and a key that opens. Each call is timed as its caller sees it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import quoracy

PATIENCE = timedelta(seconds=60)
BEATING_S = 60.0
_ = quoracy.connect  # names are looked up when they are first used: that is part of the import


class Script:
    def __init__(self) -> None:
        self._workers: dict[str, quoracy.Worker] = {}
        self._barriers: dict[str, Callable[[int], object]] = {}
        self._steps: dict[str, int] = {}
        self._kept: list[Any] = []

    def connect(self, name: str, url: str, run: str, member: str) -> dict[str, Any]:
        began = time.perf_counter()
        worker = quoracy.connect(url, run, member)
        took_ms = (time.perf_counter() - began) * 1000
        self._workers[name] = worker
        self._barriers[name] = lambda step: worker.barrier("step", step)
        return {"ms": took_ms}

    def tcpstore(self, name: str, host: str, port: int, size: int) -> dict[str, Any]:
        from torch.distributed import TCPStore

        store = TCPStore(host, port, is_master=False, wait_for_workers=False, timeout=PATIENCE)

        def barrier(step: int) -> None:
            opens = f"{name}/open/{step}"
            if store.add(f"{name}/count/{step}", 1) == size:
                store.set(opens, "1")
            else:
                store.wait([opens])

        self._kept.append(store)
        self._barriers[name] = barrier
        return {}

    def gloo(self, name: str, host: str, port: int, rank: int, size: int) -> dict[str, Any]:
        import torch.distributed as dist

        store = dist.TCPStore(host, port, is_master=False, wait_for_workers=False, timeout=PATIENCE)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=PATIENCE)
        self._barriers[name] = lambda _step: dist.barrier()
        return {"torch": sys.modules["torch"].__version__}

    def barriers(self, name: str, warm: int, rounds: int) -> dict[str, Any]:
        barrier, clock = self._barriers[name], time.perf_counter
        first = self._steps.get(name, 0)
        self._steps[name] = first + warm + rounds
        for step in range(first, first + warm):
            barrier(step)
        times = []
        for step in range(first + warm, first + warm + rounds):
            began = clock()
            barrier(step)
            times.append(clock() - began)
        return {"ms": [1000 * seconds for seconds in times]}

    def heartbeat_process(self, name: str) -> dict[str, Any]:
        """Which process it is, once it beats."""
        worker = self._workers[name]
        deadline_s = time.monotonic() + BEATING_S
        while not worker._memory.beats_for(worker.incarnation, time.monotonic_ns() // 1000, 60_000_000):
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"the heartbeat process of {worker.member} did not beat within {BEATING_S:.0f} s")
            time.sleep(0.01)
        return {"pid": worker._heartbeats.pid}

    def close(self) -> dict[str, Any]:
        for worker in self._workers.values():
            worker.close()
        return {}


def main() -> None:
    script, out = Script(), os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is not an answer
    out.write("{}\n")
    out.flush()
    for line in sys.stdin:
        job = json.loads(line)
        answer = getattr(script, job.pop("do"))(**job)
        out.write(json.dumps(answer) + "\n")
        out.flush()
    os._exit(0)


if __name__ == "__main__":
    main()

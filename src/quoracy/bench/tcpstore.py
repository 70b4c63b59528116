"""The peer: a barrier of many clients on PyTorch's TCPStore, measured as ours is.

Its server is a process of its own on the core where ours would be; its clients are on the other core. A client counts
itself with ``add`` and waits for a key; the last one sets that key, and need not wait. That is as little as a TCPStore
allows. Clients are threads of one process with a connection each, and the last one is a process of its own, so that it
need not wait for their interpreter. That was the fastest in the quietest run; spread over 4, 10 or 100 processes they
took longer in every run, and one process or two came close. Only if torch is installed, which is an extra.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from datetime import timedelta
from multiprocessing import get_context
from threading import Thread
from typing import Any

import msgspec

from quoracy.bench.crowd import SETTLE_S, WARM, clock, on_server_core

PATIENCE = timedelta(seconds=60)
PROGRAM = "import sys; from quoracy.bench.tcpstore import main; main(*map(int, sys.argv[1:]))"


def has_torch() -> bool:
    return importlib.util.find_spec("torch") is not None


def tcpstore_barrier_ms(clients: int, rounds: int) -> list[float]:
    """From the last arrival to the last release, each round."""
    with on_server_core():
        command = [sys.executable, "-m", "quoracy.stores.tcpstore", "--port", "0"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE)  # noqa: S603
    try:
        if server.stdout is None:
            raise RuntimeError("a process started with pipes has none")
        port = server.stdout.readline().decode().strip().rpartition(":")[2]
        command = [sys.executable, "-c", PROGRAM, port, str(clients), str(WARM + rounds)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=300)  # noqa: S603
    finally:
        server.kill()
        server.communicate()
    times_ms: list[float] = msgspec.json.decode(done.stdout.splitlines()[-1])
    return times_ms[WARM:]


class Clients:
    """Client 0 comes last, when all others stand there; the gate lets those begin the next round."""

    def __init__(self, port: int, clients: int, rounds: int) -> None:
        self._port, self._rounds = port, rounds
        shared = get_context("fork")
        self._counted = shared.RawArray("q", clients)
        self._passed = shared.RawArray("d", clients)
        self._gate = shared.Semaphore(0)
        self.others = shared.Process(target=self._follow_all)

    def _follow_all(self) -> None:
        threads = [Thread(target=self._follow, args=(client,)) for client in range(1, len(self._passed))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _follow(self, client: int) -> None:
        store = self._store()
        for step in range(self._rounds):
            self._gate.acquire()
            store.add(f"count/{step}", 1)
            self._counted[client] = step + 1
            store.wait([f"open/{step}"])
            self._passed[client] = clock()

    def lead(self) -> list[float]:
        store = self._store()
        size = len(self._passed)
        times_ms = []
        for step in range(self._rounds):
            self._counted[0] = step + 1
            for _ in range(size - 1):
                self._gate.release()
            while min(self._counted) <= step:
                time.sleep(SETTLE_S)
            time.sleep(SETTLE_S)  # they have counted themselves, and now also wait
            began = clock()
            if store.add(f"count/{step}", 1) != size:
                raise RuntimeError("not everybody was counted")
            store.set(f"open/{step}", "1")
            self._passed[0] = clock()
            while min(self._passed) < began:
                time.sleep(SETTLE_S)
            times_ms.append((max(self._passed) - began) * 1000)
        return times_ms

    def _store(self) -> Any:
        from torch.distributed import TCPStore

        return TCPStore("127.0.0.1", self._port, is_master=False, wait_for_workers=False, timeout=PATIENCE)


def main(port: int, clients: int, rounds: int) -> None:
    """The clients. Prints one JSON array: milliseconds."""
    import torch.distributed  # noqa: F401  before the fork, so that it is done once

    crowd = Clients(port, clients, rounds)
    crowd.others.start()
    try:
        times_ms = crowd.lead()
    except BaseException:
        crowd.others.kill()
        raise
    crowd.others.join()
    sys.stdout.write(msgspec.json.encode(times_ms).decode() + "\n")

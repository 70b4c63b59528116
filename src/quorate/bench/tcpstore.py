"""The peer: a barrier of many clients on PyTorch's TCPStore, counted with ``add`` and opened with ``set``.

Clients are threads with a connection each. Only if torch is installed, which is an extra.
"""

from __future__ import annotations

import importlib.util
import threading
from datetime import timedelta
from typing import Any

from quorate.bench.crowd import clock


def tcpstore_barrier_ms(clients: int, rounds: int) -> list[float] | None:
    """From the last arrival to the last release, each round; None without torch."""
    if importlib.util.find_spec("torch") is None:
        return None
    from torch.distributed import TCPStore

    patience = timedelta(seconds=30)
    server = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=patience)
    stores = [
        TCPStore("127.0.0.1", server.port, is_master=False, wait_for_workers=False, timeout=patience)
        for _ in range(clients)
    ]
    arrived = [[0.0] * clients for _ in range(rounds)]
    passed = [[0.0] * clients for _ in range(rounds)]
    start = threading.Barrier(clients)

    def work(index: int, store: Any) -> None:
        start.wait()
        for step in range(rounds):
            arrived[step][index] = clock()
            if store.add(f"count/{step}", 1) == clients:
                store.set(f"open/{step}", "1")
            store.wait([f"open/{step}"])
            passed[step][index] = clock()

    threads = [threading.Thread(target=work, args=(i, store)) for i, store in enumerate(stores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [(max(passed[step]) - max(arrived[step])) * 1000 for step in range(rounds)][10:]

"""What the benchmark measures can be measured; how fast it is, is told there."""

from __future__ import annotations

import os

from quoracy.bench.exchange import measure_exchange


def test_the_exchange_is_measured_beside_a_plain_copy() -> None:
    cores = os.sched_getaffinity(0)
    found = measure_exchange(size_bytes=5_000_001, turns=1)
    assert 0 < found.ratio == found.exchange_mb_per_s / found.copy_mb_per_s
    assert "plain copy" in found.against
    assert os.sched_getaffinity(0) == cores

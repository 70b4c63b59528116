"""What `quorate bench` measures, one file each. Every figure has its target, and stands beside a limit that was
measured in the same run, since machines are noisy and shared."""

from collections.abc import Callable

from quorate.bench.aggregate import bench_aggregate
from quorate.bench.barrier import bench_barrier
from quorate.bench.fold import bench_fold
from quorate.bench.grpc_door import bench_grpc
from quorate.bench.heartbeats import bench_heartbeats
from quorate.bench.http_door import bench_http
from quorate.bench.journal import bench_journal
from quorate.bench.memory import bench_memory
from quorate.bench.participants import bench_participants
from quorate.bench.ranks import bench_ranks
from quorate.bench.rounds import bench_rounds
from quorate.bench.sim import bench_sim
from quorate.bench.witnessed import bench_witnessed
from quorate.report import Report

BENCHES: dict[str, Callable[[], Report]] = {
    "fold": bench_fold,
    "journal": bench_journal,
    "sim": bench_sim,
    "heartbeats": bench_heartbeats,
    "http": bench_http,
    "barrier": bench_barrier,
    "memory": bench_memory,
    "grpc": bench_grpc,
    "ranks": bench_ranks,
    "aggregate": bench_aggregate,
    "rounds": bench_rounds,
    "participants": bench_participants,
    "witnessed": bench_witnessed,
}

__all__ = ["BENCHES"]

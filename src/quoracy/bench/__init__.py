"""What `quoracy bench` measures, one file each. Every figure has its target, and stands beside a limit that was
measured in the same run, since machines are noisy and shared."""

from collections.abc import Callable

from quoracy.bench.aggregate import bench_aggregate
from quoracy.bench.barrier import bench_barrier
from quoracy.bench.fold import bench_fold
from quoracy.bench.grpc_door import bench_grpc
from quoracy.bench.heartbeats import bench_heartbeats
from quoracy.bench.http_door import bench_http
from quoracy.bench.journal import bench_journal
from quoracy.bench.memory import bench_memory
from quoracy.bench.participants import bench_participants
from quoracy.bench.ranks import bench_ranks
from quoracy.bench.rounds import bench_rounds
from quoracy.bench.sdk import bench_sdk
from quoracy.bench.sim import bench_sim
from quoracy.bench.witnessed import bench_witnessed
from quoracy.report import Report

BENCHES: dict[str, Callable[[], Report]] = {
    "fold": bench_fold,
    "journal": bench_journal,
    "sim": bench_sim,
    "heartbeats": bench_heartbeats,
    "http": bench_http,
    "barrier": bench_barrier,
    "sdk": bench_sdk,
    "memory": bench_memory,
    "grpc": bench_grpc,
    "ranks": bench_ranks,
    "aggregate": bench_aggregate,
    "rounds": bench_rounds,
    "participants": bench_participants,
    "witnessed": bench_witnessed,
}

__all__ = ["BENCHES"]

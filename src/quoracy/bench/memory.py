"""How much memory a coordinator needs for a thousand workers, and how soon it is back after kill -9."""

from __future__ import annotations

from quoracy.bench.crowd import Crowd, child, clock, create_run, on_other_core
from quoracy.bench.recovery import recovery
from quoracy.report import Measurement, Report

WORKERS = 1000
BEATS = 20


def bench_memory() -> Report:
    on_other_core()
    with child("sqlite") as server:
        create_run(server.address(), max_workers=WORKERS, heartbeat_timeout_s=600.0)
        empty_mb = server.rss_mb()
        crowd = Crowd(server.address(), WORKERS)
        try:
            beats = {link.name: link.beats() for link in crowd.links}
            for _ in range(BEATS):
                for link in crowd.links:
                    link.socket.send(beats[link.name].next())
                _drain(crowd)
            full_mb = server.rss_mb()
        finally:
            crowd.close()
    back = recovery(300)
    memory = (
        f"Memory: {empty_mb:.0f} of {full_mb:.0f} MB are the interpreter and its libraries, before anybody comes; "
        f"a worker adds {(full_mb - empty_mb) / WORKERS * 1000:.0f} kB."
    )
    recovered = (
        f"Recovery: {back.start_s:.2f} of {back.whole_s:.2f} s pass until the new process listens, most of them with "
        "imports; the rest is 300 connections, 300 greetings and one barrier."
    )
    return Report(
        "bench memory",
        measurements=[
            Measurement("rss_mb_1000_workers", round(full_mb, 1), "MB", 150.0, "at most", f"idle: {empty_mb:.1f} MB"),
            Measurement(
                "recovery_s", round(back.whole_s, 2), "s", 3.0, "at most", "kill -9 to 300 workers past a barrier"
            ),
        ],
        notes=[memory, recovered],
    )


def _drain(crowd: Crowd) -> None:
    """Until nothing has come for a tenth of a second."""
    quiet_since = clock()
    while clock() - quiet_since < 0.1:
        for fd, _ in crowd.poll.poll(0.02):
            if crowd.by_fd[fd].replies():
                quiet_since = clock()

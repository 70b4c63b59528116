"""A fleet in figures: what every worker and every barrier does, for the command line and the dashboard."""

from __future__ import annotations

from typing import Any

from quoracy.core.cluster.explain import stuck_for_us
from quoracy.core.cluster.heard import Heard
from quoracy.core.cluster.state import Fleet, Worker
from quoracy.core.codec import seconds

MISSING_SHOWN = 100


def overview(fleet: Fleet, heard: Heard, now_us: int) -> dict[str, Any]:
    """Plain values, times in seconds."""
    stands = heard.stands_at()
    workers = sorted(fleet.workers.values(), key=lambda worker: (worker.seat not in fleet.by_seat, worker.rank))
    return {
        "phase": fleet.state.value,
        "generation": fleet.generation,
        "here": len(fleet.by_seat),
        "taking_part": len(fleet.taking_part),
        "workers": [_worker(worker, fleet, heard, stands, now_us) for worker in workers],
        "barriers": [_barrier(name, fleet, heard, now_us) for name in sorted(fleet.barriers.keys() | heard.gatherings)],
    }


def _worker(worker: Worker, fleet: Fleet, heard: Heard, stands: dict[int, str], now_us: int) -> dict[str, Any]:
    pulse = heard.pulses.get(worker.id)
    silent_us = heard.detector.silent_us(worker.id, now_us)
    shown: dict[str, Any] = {
        "id": worker.id, "state": worker.state.value, "rank": worker.rank, "incarnation": worker.incarnation,
        "address": worker.address, "gpus": worker.gpus, "losses": worker.losses, "reason": worker.reason,
        "silent_s": None if silent_us is None else seconds(silent_us),
        "stuck_s": seconds(stuck_for_us(worker, fleet, heard, stands, now_us)),
        "waits": worker.seat in stands,
    }  # fmt: skip
    if pulse is not None:
        beat = pulse.beat
        shown |= {
            "step": beat.step, "epoch": beat.epoch, "progress": beat.progress, "cpu": beat.cpu, "gpu": beat.gpu,
            "memory": beat.memory, "task": beat.task, "metrics": beat.metrics,
        }  # fmt: skip
    return shown


def _barrier(name: str, fleet: Fleet, heard: Heard, now_us: int) -> dict[str, Any]:
    barrier = fleet.barriers.get(name)
    gathering = heard.gatherings.get(name)
    shown: dict[str, Any] = {"name": name, "generation": 0, "step": -1, "released": 0, "aborted": 0}
    if barrier is not None:
        shown |= {
            "generation": barrier.generation, "step": barrier.step, "released": barrier.released,
            "aborted": barrier.aborted,
        }  # fmt: skip
        last = barrier.settled[-1]
        seat = last.seats[-1] if last.seats else None
        shown["last_to_come"] = fleet.by_seat[seat].id if seat in fleet.by_seat else None
        shown["longest_wait_s"] = seconds(max(last.waits_us, default=0))
    if gathering is not None:
        missing = sorted(fleet.taking_part.keys() - gathering.arrivals.keys())
        shown["arrived"] = len(gathering.arrivals)
        shown["missing"] = [fleet.taking_part[seat].id for seat in missing[:MISSING_SHOWN]]
        shown["waited_s"] = seconds(now_us - gathering.since_us)
    return shown

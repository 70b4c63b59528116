"""A fleet in words and figures: what it is waiting for and why, and what everybody does.

Alive but stuck is told apart from dead: a worker whose heartbeats go on while its training does not move, and which
stands at no barrier, is named as stuck. It is not given up for that; it may be compiling.
"""

from __future__ import annotations

from typing import Any

from quoracy.core.cluster.heard import Gathering, Heard
from quoracy.core.cluster.state import Fleet, Phase, Worker
from quoracy.core.codec import said_s, seconds, us
from quoracy.core.machine import Explanation, Wait

NAMES_SHOWN = 5
WAITS_TOLD = 8
"""In the sentence. When a switch fails a thousand workers are silent at once, and all of them are in ``waits``."""


def explain(fleet: Fleet, heard: Heard, now_us: int) -> Explanation:
    if fleet.state is Phase.CLOSED:
        return Explanation(f"the run is over: {fleet.reason or 'it was stopped'}")
    waits = [_barrier_wait(gathering, fleet, now_us) for gathering in heard.gatherings.values()]
    waits += _worker_waits(fleet, heard, now_us)
    if waits:
        more = [f"and {len(waits) - WAITS_TOLD} more waits"] if len(waits) > WAITS_TOLD else []
        return Explanation("; ".join([*map(_sentence, waits[:WAITS_TOLD]), *more]), tuple(waits))
    here, part = len(fleet.by_seat), len(fleet.taking_part)
    if not here:
        return Explanation("no worker is here: waits for one to register")
    return Explanation(f"waits for nobody (workers here: {here}, taking part in barriers: {part})")


def _barrier_wait(gathering: Gathering, fleet: Fleet, now_us: int) -> Wait:
    missing = tuple(fleet.taking_part[s].id for s in sorted(fleet.taking_part.keys() - gathering.arrivals.keys()))
    arrived = f"{len(gathering.arrivals)} of {len(fleet.taking_part)} have arrived"
    what = f"barrier {gathering.name}, generation {gathering.generation}: {arrived}"
    if len(fleet.taking_part) < fleet.config.barrier_min:
        what += f"; {too_few(fleet)}"
    left_us = max(0, gathering.deadline_us - now_us)
    return Wait(what, missing, now_us - gathering.since_us, left_us, "it is aborted for all")


def _worker_waits(fleet: Fleet, heard: Heard, now_us: int) -> list[Wait]:
    """Those who have missed a heartbeat and more, and those who are stuck: people want to know before it is a loss."""
    waits = []
    for seat in sorted(fleet.by_seat):
        worker = fleet.by_seat[seat]
        silent_us = heard.detector.silent_us(worker.id, now_us) or 0
        if silent_us >= 2 * us(fleet.config.heartbeat_interval_s):
            left_us = max(0, us(fleet.config.heartbeat_timeout_s) - silent_us)
            waits.append(Wait("a heartbeat", (worker.id,), silent_us, left_us, "it is lost"))
        elif stuck_us := stuck_for_us(worker, fleet, heard, now_us):
            waits.append(Wait("progress: alive but stuck", (worker.id,), stuck_us, None, ""))
    return waits


def stuck_for_us(worker: Worker, fleet: Fleet, heard: Heard, now_us: int) -> int:
    """How long its training has not moved, if that is too long; 0 if it is not stuck."""
    pulse = heard.pulses.get(worker.id)
    if pulse is None or worker.seat not in fleet.taking_part or heard.waits_somewhere(worker.seat):
        return 0
    still_us = now_us - pulse.progress_us
    return still_us if still_us >= us(fleet.config.stuck_after_s) else 0


def overview(fleet: Fleet, heard: Heard, now_us: int) -> dict[str, Any]:
    """For the command line and the dashboard: plain values, times in seconds."""
    workers = sorted(fleet.workers.values(), key=lambda worker: (worker.seat not in fleet.by_seat, worker.rank))
    return {
        "phase": fleet.state.value,
        "generation": fleet.generation,
        "here": len(fleet.by_seat),
        "taking_part": len(fleet.taking_part),
        "workers": [_worker(worker, fleet, heard, now_us) for worker in workers],
        "barriers": [_barrier(name, fleet, heard, now_us) for name in sorted(fleet.barriers.keys() | heard.gatherings)],
    }


def _worker(worker: Worker, fleet: Fleet, heard: Heard, now_us: int) -> dict[str, Any]:
    pulse = heard.pulses.get(worker.id)
    silent_us = heard.detector.silent_us(worker.id, now_us)
    shown: dict[str, Any] = {
        "id": worker.id, "state": worker.state.value, "rank": worker.rank, "incarnation": worker.incarnation,
        "address": worker.address, "gpus": worker.gpus, "losses": worker.losses, "reason": worker.reason,
        "silent_s": None if silent_us is None else seconds(silent_us),
        "stuck_s": seconds(stuck_for_us(worker, fleet, heard, now_us)),
        "waits": heard.waits_somewhere(worker.seat),
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
        shown["missing"] = [fleet.taking_part[seat].id for seat in missing[:100]]
        shown["waited_s"] = seconds(now_us - gathering.since_us)
    return shown


def few(names: list[str]) -> str:
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more


def too_few(fleet: Fleet) -> str:
    return f"{len(fleet.taking_part)} of barrier_min = {fleet.config.barrier_min} take part"


def _sentence(wait: Wait) -> str:
    whom = f", waits for {few(list(wait.missing))}" if wait.missing else ""
    left = "" if wait.left_us is None else f"; {wait.then} in {said_s(wait.left_us)}"
    return f"{wait.what}{whom} ({said_s(wait.waited_us)} so far{left})"

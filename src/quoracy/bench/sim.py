"""How fast the simulator lives, on one core."""

from __future__ import annotations

import time

from quoracy.report import Measurement, Report
from quoracy.sim import live

SEEDS = 500


def bench_sim() -> Report:
    began = time.perf_counter()
    events = simulated = 0
    failures = []
    for seed in range(1, SEEDS + 1):
        outcome = live(seed)
        events += outcome.events
        simulated += 1
        if not outcome.ok:
            failures.append(f"seed {seed}: {outcome.violation}")
    seconds = time.perf_counter() - began
    note = (
        f"{simulated} lives of 26 simulated seconds, one core. The limit is the interpreter: by a profile two fifths "
        "of the time are the core's own logic and the sessions', a third the simulated world (network, clock, members, "
        "dice), and a quarter the checkers."
    )
    return Report(
        "bench sim",
        measurements=[
            Measurement("sim_events_per_s", round(events / seconds), "events/s"),
            Measurement(f"sim_{SEEDS}_seeds_s", round(seconds, 1), "s", 180.0, "at most"),
            Measurement("sim_speed", round(simulated * 26 / seconds), "x real time"),
        ],
        notes=[note],
        failures=failures,
    )

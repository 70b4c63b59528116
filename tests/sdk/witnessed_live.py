"""A coordinator process with a witnessed run, its members as processes, and the judge of what came out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.sdk.live import RUN, LiveServer, Process, script, wait_for

from quoracy.core.journal import decode_entry, recorded_decoder
from quoracy.core.witnessed.kind import KIND
from quoracy.launch import journal_of
from quoracy.learn.tensors import load

ROOT = Path(__file__).parents[2]
STEPS = 4
QUICK: dict[str, Any] = {
    "init_min_clients": 3, "min_clients": 2, "waiting_extra_s": 0.2, "warmup_s": 15.0, "round_train_max_s": 40.0,
    "adaptive_deadline": False, "round_witness_s": 30.0, "cooldown_s": 30.0, "checkpoint_retry_s": 20.0,
    "rounds_per_epoch": 2, "total_steps": STEPS, "batch_size": 2, "global_batch_size_start": 12,
    "heartbeat_interval_s": 0.1, "heartbeat_timeout_s": 2.0, "strikes_max": 100,
}  # fmt: skip
"""Nothing ends because time is over: whatever a test waits for follows from something else."""


class Witnessed(LiveServer):
    def __init__(self, folder: Path, settings: dict[str, Any] | None = None, **config: Any) -> None:
        super().__init__(folder / "server", kind="witnessed", config=QUICK | config, **(settings or {}))
        self.folder = folder
        self._members: list[Process] = []

    def member(self, what: str, *arguments: Any, **env: str) -> Process:
        """Ended with the server, at the latest."""
        known = {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}", "FOLDER": str(self.folder)}
        self._members.append(script(what, self.url, *arguments, file="members.py", env=known | env))
        return self._members[-1]

    def __exit__(self, *exc: object) -> None:
        for member in self._members:
            member.close()
        super().__exit__(*exc)

    def shown(self) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("show")
        return found

    def of(self, member: str) -> dict[str, Any]:
        """As people are shown it; empty if there is none."""
        return next((one for one in self.shown()["members"] if one["id"] == member), {})

    def wait_phase(self, phase: str) -> dict[str, Any]:
        def there() -> dict[str, Any]:
            shown = self.shown()
            return shown if shown["phase"] == phase else {}

        return wait_for(there, f"the run is {phase}")

    def wait_state(self, member: str, *states: str) -> None:
        wait_for(lambda: self.of(member).get("state") in states, f"{member} is {' or '.join(states)}")

    def stored(self) -> list[float]:
        """How often each batch is in the model that was stored last."""
        digest = self.shown()["stored"]["digest"]
        counts: list[float] = load(self.folder / "server" / "objects" / RUN / "blobs" / digest)["seen"].tolist()
        return counts

    def judge(self, *summaries: dict[str, Any]) -> dict[str, Any]:
        """All have the agreed model, and every batch is in it once."""
        shown = self.wait_phase("Finished")
        account = shown["account"]
        assert account["open"] == account["waiting"] == 0
        assert account["applied"] + account["skipped"] == shown["next_batch"]
        skipped = {
            batch for skip in account["newest_skipped"] for batch in range(skip["first"], skip["end"])
        }  # fmt: skip
        counts = self.stored()
        begun = shown["next_batch"]
        assert [counts[batch] for batch in range(begun)] == [float(batch not in skipped) for batch in range(begun)]
        assert not any(counts[begun:])
        assert {one["model"] for one in summaries} <= {shown["stored"]["model"]}
        assert shown["stored"]["model"] == shown["checkpoint"]["model"]
        return shown


def events(run: Witnessed) -> list[Any]:
    """All that happened, in order, as the journal has it."""
    decoder = recorded_decoder(KIND.events)
    entries = journal_of(run.folder / "server", RUN)
    decoded = [decode_entry(payload, RUN, number) for number, payload in enumerate(entries, start=1)]
    return [event for entry in decoded for _, event in decoder.decode(entry.events)]


def summaries(*members: Process, count: int = 1) -> list[dict[str, Any]]:
    """What each process says at the end; a crew says it for each of its members."""
    return [member.hear("summary") for member in members for _ in range(count)]

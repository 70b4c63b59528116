"""What calls itself late and is not, and rounds that lead nowhere, are noticed: a bug is planted, and some seed finds
it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sim.witnessed.planting import found_by, plant

from quoracy.core.machine import Applied
from quoracy.core.witnessed import rounds, rules, sealing
from quoracy.core.witnessed.collect import Collector, Window
from quoracy.core.witnessed.facts import Work
from quoracy.core.witnessed.state import Course, Phase
from quoracy.sim.world import MS


def hasty(monkeypatch: pytest.MonkeyPatch, phase: Phase, least_us: int) -> None:
    """The collector takes the time of this phase to be over as soon as that."""
    whole = Collector._over

    def over(self: Collector, window: Window, whole_us: int, now_us: int) -> bool:
        soon = window is self._phase and isinstance(window.what, tuple) and window.what[0] is phase
        return whole(self, window, min(whole_us, least_us) if soon else whole_us, now_us)

    monkeypatch.setattr(Collector, "_over", over)


# -- late ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phase", "event"),
    [(Phase.WARMUP, "WarmupEnded"), (Phase.TRAIN, "TrainEnded"), (Phase.COOLDOWN, "CooldownEnded")],
)
def test_what_is_late_before_its_time_is_noticed(monkeypatch: pytest.MonkeyPatch, phase: Phase, event: str) -> None:
    hasty(monkeypatch, phase, 50 * MS)
    plant(monkeypatch, event, check=lambda *_: None)
    assert f"{event} is late" in found_by("quorums")


def test_a_seal_that_is_late_before_its_time_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    hasty(monkeypatch, Phase.WITNESS, 20 * MS)
    monkeypatch.setattr(sealing, "_too_late", lambda *_: None)
    assert "RoundSealed is late" in found_by("quorums")


def test_a_deadline_that_does_not_grow_after_a_round_that_was_too_long_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The run's own rule is wrong: what it allows, its own check allows too."""
    whole = rounds.allowed_us

    def stubborn(course: Course) -> int:
        course.overran = False
        return whole(course)

    monkeypatch.setattr(rounds, "allowed_us", stubborn)
    assert "TrainEnded is late" in found_by("quorums")


# -- rounds ----------------------------------------------------------------------------------------------------------


def test_a_run_that_throws_most_of_its_rounds_away_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """In two of three, members say that they trained on another model: nothing counts, and nobody waits longer."""

    def confused(epoch: int, round_: int, assignment: int, attempt: int, *rest: Any) -> Work:
        batches, step, base = rest
        return Work(epoch, round_, assignment, attempt, batches, step, bytes(32) if round_ % 3 else base)

    monkeypatch.setattr("quoracy.core.witnessed.part.Work", confused)
    assert "rounds after the faults stopped" in found_by("ending")


# -- boasters --------------------------------------------------------------------------------------------------------


def test_who_attested_what_it_misses_and_stays_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def kind(*rest: Any) -> Applied:
        applied = rules.do_voided(*rest)
        rest[0].moving = {}
        return applied

    plant(monkeypatch, "ResultVoided", do=kind)
    assert "still in the roster" in found_by("outcasts", since=6)

"""Every checker of federated rounds can fail: a bug is planted, and some seed finds it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from quoracy.core.dice import Dice
from quoracy.core.federated import reports, rounds, rules, views
from quoracy.core.federated.collect import Collector
from quoracy.core.federated.machine import Federated
from quoracy.core.federated.state import Fate, Participant, Round, Task
from quoracy.core.federated.views import Standing
from quoracy.core.host import Host
from quoracy.core.machine import Applied
from quoracy.core.members import Cause, Roster
from quoracy.sdk.federated.session import ParticipantSession, Work
from quoracy.sim.federated import live
from quoracy.sim.federated.workshop import Workshop
from quoracy.sim.store import Store, Write, WriteDone

SEEDS = 200


def found_by(checker: str, since: int = 1) -> str:
    """What the first seed that breaks this promise says. Other promises may break too; this one must. ``since``: where
    to begin, for bugs that few lives show."""
    for seed in range(since, since + SEEDS):
        outcome = live(seed)
        if outcome.violation.startswith(f"{checker}:"):
            return outcome.violation
    pytest.fail(f"{SEEDS} lives with a planted bug, and {checker} noticed nothing")


# -- updates -------------------------------------------------------------------------------------------------------


def test_poison_that_counts_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "admitted", lambda _event: True)
    assert "accepted" in found_by("updates", since=20)


def test_late_work_without_a_reason_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rounds.do_close

    def mute(task: Task, *rest: Any) -> Applied:
        applied = whole(task, *rest)
        if task.history:
            task.history[-1].dropped.clear()
        return applied

    _plant_close(monkeypatch, mute)
    assert "no reason is kept" in found_by("updates")


def test_a_round_that_counts_what_it_has_not_looked_at_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rounds.do_close

    def greedy(task: Task, *rest: Any) -> Applied:
        assert task.round is not None
        for assignment in task.round.having(rounds.Fate.OFFERED):
            assignment.fate = rounds.Fate.ADMITTED
        return whole(task, *rest)

    _plant_close(monkeypatch, greedy)
    assert "accepted" in found_by("updates")


def _plant_close(monkeypatch: pytest.MonkeyPatch, do: Any) -> None:
    from quoracy.core.federated.events import RoundClosed
    from quoracy.core.federated.state import Phase
    from quoracy.core.federated.table import RUN

    moves = RUN._moves[RoundClosed]
    move = moves[Phase.ROUND.value]
    monkeypatch.setitem(moves, Phase.ROUND.value, msgspec.structs.replace(move, do=do))


# -- weights -------------------------------------------------------------------------------------------------------


def test_a_participant_that_trains_an_old_model_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Work.of
    seen: list[str] = []

    def stale(standing: Standing) -> Work:
        seen.append(standing.weights)
        return msgspec.structs.replace(whole(standing), weights=seen[0])

    monkeypatch.setattr(Work, "of", stale)
    assert "was not trained on" in found_by("weights")


def test_an_aggregation_without_the_last_update_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rounds._aggregate

    def careless(task: Task) -> Any:
        duty = whole(task)
        duty.order["updates"] = duty.order["updates"][:1]
        return duty

    monkeypatch.setattr(rounds, "_aggregate", careless)
    assert "and the run has" in found_by("weights")


def test_a_boast_that_counts_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "samples_bound", lambda _claims, _most: 0)
    assert "accepted" in found_by("updates")


def test_a_store_that_does_not_know_who_uploaded_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def anybodys(self: Workshop, _member: str, digest: str) -> dict[str, Any]:
        known = digest in {put for _, put in self.objects.good}
        return {"ok": True, "norm": 1.0} if known else {"ok": False, "why": "no such object"}

    monkeypatch.setattr(Workshop, "_verdict", anybodys)
    assert "was not trained on" in found_by("weights")


# -- reports -------------------------------------------------------------------------------------------------------


def test_reports_that_go_with_their_round_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rounds.do_close

    def forgetful(task: Task, *rest: Any) -> Applied:
        applied = whole(task, *rest)
        task.reports.clear()
        return applied

    _plant_close(monkeypatch, forgetful)
    assert "nothing is kept of what" in found_by("reports")


def test_initial_weights_that_are_counted_as_an_update_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = reports.keep

    def generous(task: Task, round_: Round, mine: Any, *rest: Any) -> None:
        whole(task, round_, mine, *rest)
        task.participants[mine.member].updates += round_.number < 0

    monkeypatch.setattr(reports, "keep", generous)
    assert "updates that count" in found_by("reports")


# -- drawing -------------------------------------------------------------------------------------------------------


def test_a_draw_by_other_dice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def loaded(run: str, purpose: str, epoch: int, round_: int, seed: bytes) -> Dice:
        return Dice(run, purpose, epoch, round_, seed[::-1] + b"x")

    monkeypatch.setattr(rounds, "Dice", loaded)
    assert "is taken in" in found_by("drawing")


def test_a_round_that_closes_with_too_few_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("rounds", "collect", "drawing"):
        monkeypatch.setattr(f"quoracy.core.federated.{module}.least", lambda _task, _round: 1)
    monkeypatch.setattr(rounds, "most", lambda _task, _round: 1)
    assert "and it needs" in found_by("drawing")


# -- verdicts ------------------------------------------------------------------------------------------------------


def test_a_participant_that_is_told_what_is_not_so_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = views.look

    def kind(task: Task, topic: str, member: str) -> Any:
        shown = whole(task, topic, member)
        if shown is None or shown.verdict is None:
            return shown
        return msgspec.structs.replace(shown, verdict=msgspec.structs.replace(shown.verdict, admitted=True))

    monkeypatch.setattr(views, "look", kind)
    assert "was told" in found_by("verdicts")


def test_a_no_without_a_reason_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = views.look

    def curt(task: Task, topic: str, member: str) -> Any:
        shown = whole(task, topic, member)
        if shown is None or shown.verdict is None:
            return shown
        return msgspec.structs.replace(shown, verdict=msgspec.structs.replace(shown.verdict, why=""))

    monkeypatch.setattr(views, "look", curt)
    assert "without a reason" in found_by("verdicts")


# -- lives ---------------------------------------------------------------------------------------------------------


def test_a_zombie_that_is_believed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not listen when it is told to go, either."""
    whole, one = Roster.check_cause, Federated._one

    def gullible(self: Roster, cause: Cause) -> Any:
        before = whole(self, cause)
        return None if getattr(before, "code", "") == "superseded" else before

    def whoever(self: Federated, event: Any, *rest: Any) -> Any:
        known: Participant | None = self.task.participants.get(event.member)
        if known is not None and "incarnation" in event.__struct_fields__:
            event = msgspec.structs.replace(event, incarnation=known.incarnation)
        return one(self, event, *rest)

    monkeypatch.setattr(Roster, "check_cause", gullible)
    monkeypatch.setattr(Federated, "_one", whoever)
    monkeypatch.setattr(ParticipantSession, "_superseded", lambda self, _newer: None)
    monkeypatch.setattr(ParticipantSession, "_declined", lambda self, _declined, _now_us: None)
    found_by("newest")


# -- ending --------------------------------------------------------------------------------------------------------


def test_a_round_that_waits_for_the_dead_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is ever replaced: not those who died, not those who took too long."""
    whole = Collector._in_round

    def patient(self: Collector, *rest: Any) -> Any:
        event = whole(self, *rest)
        return None if type(event).__name__ == "RoundSuspended" else event

    monkeypatch.setattr(Collector, "_in_round", patient)
    assert "not finished" in found_by("ending")


def test_a_round_that_waits_for_ever_for_what_nobody_looks_at_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "patience_us", lambda _task: 3_600_000_000)
    assert "not finished" in found_by("ending")


def test_a_round_that_goes_on_and_keeps_what_nobody_looked_at_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays offered, and its sender waits for a verdict that does not come; or it counts when that comes late."""
    whole = Round.having

    def forgetful(self: Round, *fates: Any) -> Any:
        return [] if fates == (Fate.OFFERED,) else whole(self, *fates)

    monkeypatch.setattr(Round, "having", forgetful)
    found_by("ending")


def test_a_collector_that_sleeps_too_long_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Collector, "_wake_after", lambda self, _delay_us: None)
    assert "not finished" in found_by("ending")


def test_a_participant_that_never_hears_of_the_end_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ParticipantSession, "_finish", lambda self, _standing: None)
    assert "does not know that the run is over" in found_by("ending")


# -- what every kind promises --------------------------------------------------------------------------------------


def test_an_acknowledgement_before_the_sync_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Store.receive

    def hasty(self: Store, source: str, message: Any) -> None:
        whole(self, source, message)
        if isinstance(message, Write) and message.n == len(self.entries) + 1 and not self.full:
            self._answer(source, WriteDone(message.nonce))

    monkeypatch.setattr(Store, "receive", hasty)
    found_by("durability", since=70)


def test_an_answer_before_the_entry_is_written_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Host._launch

    def hasty(self: Host, batch: Any) -> None:
        whole(self, batch)
        if self.desk is not None:
            self._out.extend(self.desk.publish(batch))

    monkeypatch.setattr(Host, "_launch", hasty)
    found_by("durability")


def test_a_forgotten_answer_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Roster.check_cause

    def forgetful(self: Roster, cause: Cause) -> Any:
        before = whole(self, cause)
        return None if type(before).__name__ == "Repeat" else before

    monkeypatch.setattr(Roster, "check_cause", forgetful)
    found_by("answers")


def test_a_fold_that_forgets_what_a_snapshot_held_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Task.rebuild

    def lossy(self: Task) -> None:
        whole(self)
        for participant in self.participants.values():
            participant.updates = 0

    monkeypatch.setattr(Task, "rebuild", lossy)
    found_by("folds")


def test_without_a_planted_bug_nothing_is_noticed() -> None:
    assert [live(seed).violation for seed in range(1, 6)] == [""] * 5

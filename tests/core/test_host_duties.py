"""Rules: two kinds of effect only; every command is answered once and remembered; sizes; snapshots."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.core import byhand, tally
from tests.core.byhand import Hand, answers, count, join, serving, sheet, takeover, tallying, written
from tests.core.scribe import RUN, created

from quoracy.core.batch import MAX_EVENTS
from quoracy.core.codec import encode
from quoracy.core.errors import Bug, Refusal
from quoracy.core.journal import ENVELOPE_BYTES, MAX_ENTRY_BYTES, CommandRefused, DutyDone
from quoracy.core.limits import Limits
from quoracy.core.machine import Duty, Event
from quoracy.core.members import Accepted, Cause, command_digest
from quoracy.core.messages import Told
from quoracy.core.run import Kinds, fold
from quoracy.core.shell import Append, DutyFinished, Perform, Save, Take, Taken

ANNOUNCE = Duty("announce", {"total": 3}, 3, 0)


def full(land: bool = True) -> Hand:
    """A tally of a whose goal is reached by entry 3."""
    hand = tallying("a", goal=3, most=3)
    hand.call("a", *count("a", 1, 3))
    if land:
        hand.land()
    return hand


def performs(actions: list[Any]) -> list[Duty]:
    return [action.duty for action in actions if isinstance(action, Perform)]


# -- duties --------------------------------------------------------------------------------------------------------


def test_a_duty_is_issued_when_its_entry_is_written_and_not_before() -> None:
    hand = full(land=False)
    assert performs(hand.actions) == []
    assert performs(hand.land()) == [ANNOUNCE]


def test_a_duty_is_named_by_entry_and_place_so_that_doing_it_twice_does_no_harm() -> None:
    hand = tallying("a", "b", goal=3, most=3)
    hand.call("b", *count("b", 1, 1))
    hand.call("a", *count("a", 1, 1))
    hand.call("b", *count("b", 2, 1))
    hand.land()
    assert performs(hand.land()) == [Duty("announce", {"total": 3}, 5, 1)]


def test_a_duty_is_issued_again_by_every_host_until_it_is_done() -> None:
    journal = full().journal
    for name in ("beta", "gamma", "alpha"):
        assert performs(takeover(tally.KINDS, journal, name).actions) == [ANNOUNCE]


def test_a_duty_that_is_done_is_not_issued_again() -> None:
    hand = full()
    hand.report(DutyFinished(3, 0, {"by": "crier"}))
    actions = hand.land()
    assert written(hand) == [DutyDone(3, 0, {"by": "crier"})]
    assert [m for _, m in byhand.sent(actions) if isinstance(m, Told)]
    assert sheet(hand).announced == "crier"
    assert performs(takeover(tally.KINDS, hand.journal, "beta").actions) == []


def test_a_duty_finished_twice_is_written_once() -> None:
    hand = full()
    hand.report(DutyFinished(3, 0, {"by": "crier"}))
    hand.report(DutyFinished(3, 0, {"by": "another"}))
    hand.land()
    assert hand.take_out(Append) == []
    assert sheet(hand).announced == "crier"


def test_a_duty_whose_result_is_refused_stays_open() -> None:
    hand = full()
    assert hand.report(DutyFinished(3, 0, None)) == []
    assert performs(takeover(tally.KINDS, hand.journal, "beta").actions) == [ANNOUNCE]


def test_a_duty_finished_while_the_journal_is_read_again_is_not_forgotten() -> None:
    hand = full()
    hand.call("b", *join("b"))
    (append,) = hand.take_out(Append)
    other = full()
    other.call("c", *join("c"))
    (theirs,) = other.take_out(Append)
    hand.journal.entries = [*other.journal.entries, theirs.payload]
    hand.report(Taken(append.nonce, theirs.payload))
    hand.report(DutyFinished(3, 0, {"by": "crier"}))
    hand.load()
    hand.land()
    assert written(hand)[-1] == DutyDone(3, 0, {"by": "crier"})


def test_a_duty_finished_on_a_host_that_does_not_serve_is_left_to_the_one_that_does() -> None:
    hand = full()
    beta = Hand(tally.KINDS, hand.journal, "beta")
    beta.load()
    assert beta.report(DutyFinished(3, 0, {"by": "crier"})) == []
    beta.report(Take())
    assert performs(beta.land()) == [ANNOUNCE]
    assert beta.take_out(Append) == []


# -- answered once and remembered ----------------------------------------------------------------------------------


def test_a_refusal_is_remembered_across_hosts() -> None:
    hand = tallying("a")
    hand.call("a", *count("a", 1, 6))
    (refusal,) = answers(hand.land())
    assert isinstance(refusal, Refusal)
    assert refusal.code == "malformed"
    beta = takeover(tally.KINDS, hand.journal, "beta")
    assert answers(beta.call("a", *count("a", 1, 6))) == [refusal]
    (other,) = answers(beta.call("a", *count("a", 1, 1)))
    assert other.code == "contradiction"  # type: ignore[union-attr]
    beta.call("a", *count("a", 2, 1))
    assert answers(beta.land()) == [Accepted(5, {"total": 1})]


def test_a_command_that_cannot_be_read_is_remembered_as_refused() -> None:
    hand = tallying("a")
    garbled = byhand.call(Cause("a", 1, 1), ["no-such-event"])
    hand.report(byhand.Received("a", garbled))
    (refusal,) = answers(hand.land())
    assert isinstance(refusal, Refusal)
    assert written(hand) == [CommandRefused(refusal, command_digest(["no-such-event"]))]
    assert answers(hand.report(byhand.Received("a", garbled))) == [refusal]
    (other,) = answers(hand.call("a", *count("a", 1)))
    assert other.code == "contradiction"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("cause", "code"),
    [
        (Cause("a", 1, 3), "sequence_gap"),
        (Cause("a", 2, 1), "contradiction"),
        (Cause("z", 1, 1), "unknown_member"),
    ],
)
def test_a_command_out_of_sequence_is_refused_and_not_remembered(cause: Cause, code: str) -> None:
    hand = tallying("a")
    (refusal,) = answers(hand.call("a", cause, tally.Counted(cause.member, cause.incarnation, 1)))
    assert refusal.code == code  # type: ignore[union-attr]
    assert hand.take_out(Append) == []
    hand.call("a", *count("a", 1))
    assert answers(hand.land()) == [Accepted(3, {"total": 1})]


def test_what_cannot_be_read_is_no_repeat_of_a_command_that_was_answered() -> None:
    hand = tallying("a")
    hand.call("a", *count("a", 1))
    (answer,) = answers(hand.land())
    assert isinstance(answer, Accepted)
    garbled = byhand.call(Cause("a", 1, 1), ["no-such-event"])
    (refusal,) = answers(hand.report(byhand.Received("a", garbled)))
    assert refusal.code == "malformed"  # type: ignore[union-attr]
    assert answers(hand.call("a", *count("a", 1))) == [answer]
    assert hand.take_out(Append) == []


def test_a_refusal_for_which_an_entry_has_no_room_is_remembered_in_the_next() -> None:
    hand = tallying("a", "b", goal=100_000)
    hand.call("a", *count("a", 1))
    for seq in range(2, MAX_EVENTS + 2):
        hand.call("a", *count("a", seq))
    hand.call("b", *count("b", 1, 6))
    hand.land()
    hand.land()
    assert len(written(hand)) == MAX_EVENTS
    (refusal,) = answers(hand.land())
    assert isinstance(refusal, Refusal)
    assert written(hand) == [CommandRefused(refusal, command_digest(count("b", 1, 6)[1]))]


def test_a_refused_join_is_not_remembered_and_may_be_tried_again() -> None:
    hand = tallying("a")
    hand.order(tally.Ended("enough"))
    hand.land()
    (refusal,) = answers(hand.call("b", *join("b")))
    assert refusal.code == "run_closed"  # type: ignore[union-attr]
    assert hand.take_out(Append) == []
    assert hand.host.desk is not None
    assert "b" not in hand.host.desk.peers


def test_an_operators_repeat_is_answered_alike() -> None:
    hand = tallying("a")
    cause = Cause("@me", 0, 12345)
    hand.call("desk", cause, tally.Ended("enough"))
    (answer,) = answers(hand.land())
    assert answers(hand.call("desk", cause, tally.Ended("enough"))) == [answer]


# -- what is collected ---------------------------------------------------------------------------------------------


def test_signals_that_were_not_consumed_by_a_written_entry_are_kept() -> None:
    """The entry that would have consumed them was lost; nobody has to nod again."""
    hand = tallying("a", "b")
    hand.sign("a", tally.Nod("a", 1))
    hand.sign("b", tally.Nod("b", 1))
    (append,) = hand.take_out(Append)
    assert append.n == 4
    desk = hand.host.desk
    assert desk is not None
    assert set(desk.collector.nodded) == {"a", "b"}  # type: ignore[attr-defined]
    hand.actions.append(append)
    hand.land()
    assert desk.collector.nodded == {}  # type: ignore[attr-defined]
    assert not desk.unsettled
    assert written(hand) == [tally.Agreed(1, ["a", "b"])]


def test_what_follows_from_a_command_is_in_the_entry_of_the_command() -> None:
    hand = tallying("a")
    hand.call("b", *join("b"))
    hand.sign("a", tally.Nod("a", 1))
    hand.sign("b", tally.Nod("b", 1))
    hand.call("a", *count("a", 1))
    hand.land()
    hand.land()
    assert written(hand) == [tally.Counted("a", 1, 1), tally.Agreed(1, ["a", "b"])]


# -- sizes ---------------------------------------------------------------------------------------------------------

ROOM = MAX_ENTRY_BYTES - ENVELOPE_BYTES


def note_of(size: int) -> str:
    """Such that the recorded event takes exactly this many bytes."""
    bare = len(encode(count("a", 1, 1, "x" * 70_000)))
    return "x" * (70_000 + size - bare)


def test_an_event_that_does_not_fit_into_an_entry_is_refused_and_remembered() -> None:
    hand = tallying("a")
    hand.call("a", *count("a", 1, 1, note_of(ROOM + 1)))
    (refusal,) = answers(hand.land())
    assert refusal.code == "too_large"  # type: ignore[union-attr]
    assert sheet(hand).total == 0
    hand.call("a", *count("a", 2, 1, note_of(ROOM)))
    assert answers(hand.land()) == [Accepted(4, {"total": 1})]
    assert MAX_ENTRY_BYTES - ENVELOPE_BYTES < len(hand.journal.entries[-1]) <= MAX_ENTRY_BYTES


def test_a_batch_that_does_not_fit_is_split_and_nothing_is_lost_or_reordered() -> None:
    members = [f"m{i}" for i in range(8)]
    hand = tallying(*members)
    hand.call("m0", *count("m0", 1))
    for member in members[1:]:
        hand.call(member, *count(member, 1, 1, "y" * 200_000))
    hand.land()
    hand.land_all()
    sizes = [len(written(hand, back)) for back in range(1, 5)]
    assert sizes == [1, 2, 2, 2]
    said = [event.member for back in range(4, 0, -1) for event in written(hand, back)]  # type: ignore[attr-defined]
    assert said == members[1:]
    assert sheet(hand).total == 8
    assert max(len(payload) for payload in hand.journal.entries) <= MAX_ENTRY_BYTES


def test_a_batch_holds_so_many_events_and_the_rest_begins_the_next() -> None:
    hand = tallying("a", goal=100_000)
    hand.call("a", *count("a", 1))
    for seq in range(2, MAX_EVENTS + 12):
        hand.call("a", *count("a", seq))
    hand.land()
    hand.land()
    assert len(written(hand)) == MAX_EVENTS
    hand.land()
    assert len(written(hand)) == 10
    assert sheet(hand).total == MAX_EVENTS + 11


class Talkative(tally.Nods):
    """Proposes more than one entry holds."""

    def due(self, machine: tally.Tally, now_us: int) -> list[Event]:
        if not machine.sheet.members or machine.sheet.agreements >= MAX_EVENTS + 100 or not self.nodded:
            return []
        first = machine.sheet.agreements + 1
        return [tally.Agreed(first + i, sorted(machine.sheet.members)) for i in range(MAX_EVENTS + 101 - first)]

    def committed(self, events: list[Event], machine: tally.Tally, now_us: int) -> None:
        """Keeps its nods."""


def test_what_a_collector_proposes_beyond_one_entry_goes_into_the_next_without_waiting() -> None:
    kinds = Kinds((msgspec.structs.replace(tally.KIND, collector=Talkative),))
    hand = serving(kinds, created("tally"))
    hand.call("a", *join("a"))
    hand.land()
    hand.sign("a", tally.Nod("a", 1))
    hand.land()
    assert len(written(hand)) == MAX_EVENTS
    hand.land()
    assert len(written(hand)) == 100
    assert sheet(hand).agreements == MAX_EVENTS + 100


class Wrong(tally.Nods):
    def due(self, machine: tally.Tally, now_us: int) -> list[Event]:
        return [tally.Agreed(99, [])] if self.nodded else []


def test_a_collector_that_proposes_what_the_machine_refuses_is_a_bug() -> None:
    kinds = Kinds((msgspec.structs.replace(tally.KIND, collector=Wrong),))
    hand = serving(kinds, created("tally"))
    hand.call("a", *join("a"))
    hand.land()
    with pytest.raises(Bug, match="the collector proposed"):
        hand.sign("a", tally.Nod("a", 1))


# -- snapshots -----------------------------------------------------------------------------------------------------


def test_a_snapshot_is_saved_every_so_many_entries_after_the_world_was_told() -> None:
    hand = tallying("a", limits=Limits(snapshot_every=5), goal=1000)
    saved = []
    for seq in range(1, 14):
        hand.call("a", *count("a", seq))
        actions = hand.land()
        saves = [action for action in actions if isinstance(action, Save)]
        if saves:
            assert isinstance(actions[-1], Save)
            assert answers(actions)
            saved.append(saves[0].snapshot.n)
            assert saves[0].snapshot.root == hand.host.run.snapshot().root  # type: ignore[union-attr]
    assert saved == [5, 10, 15]


def test_a_host_restarts_from_a_snapshot_and_what_follows_it() -> None:
    hand = tallying("a", limits=Limits(snapshot_every=5), goal=7, most=3)
    for seq in range(1, 5):
        hand.call("a", *count("a", seq))
        hand.land()
    hand.journal.snapshot = next(save.snapshot for save in hand.take_out(Save))
    assert hand.journal.snapshot.n == 5
    hand.call("a", *count("a", 5, 3))
    hand.land()
    beta = Hand(tally.KINDS, hand.journal, "beta", Limits(snapshot_every=5))
    assert len(hand.journal.loaded().entries) == 2
    beta.load()
    assert beta.host.run.state_digest() == hand.host.run.state_digest()  # type: ignore[union-attr]
    beta.report(Take())
    actions = beta.land()
    assert performs(actions) == [Duty("announce", {"total": 7}, 7, 0)]
    assert [a for a in actions if isinstance(a, Save)] == []
    assert answers(beta.call("a", *count("a", 5, 3))) == [Accepted(7, {"total": 7})]
    again = fold(tally.KINDS, RUN, beta.journal.entries)
    assert again is not None
    assert again.state_digest() == beta.host.run.state_digest()  # type: ignore[union-attr]


def test_the_next_snapshot_counts_from_the_one_that_was_loaded() -> None:
    hand = tallying("a", limits=Limits(snapshot_every=5), goal=1000)
    for seq in range(1, 5):
        hand.call("a", *count("a", seq))
        hand.land()
    hand.journal.snapshot = next(save.snapshot for save in hand.take_out(Save))
    beta = takeover(tally.KINDS, hand.journal, "beta", Limits(snapshot_every=5))
    saved = []
    for seq in range(5, 12):
        beta.call("a", *count("a", seq))
        beta.land()
        saved += [save.snapshot.n for save in beta.take_out(Save)]
    assert saved == [10]


def test_a_snapshot_that_was_taken_is_not_changed_by_what_happens_later() -> None:
    hand = tallying("a", limits=Limits(snapshot_every=3), goal=1000)
    hand.call("a", *count("a", 1, 5))
    hand.land()
    (save,) = hand.take_out(Save)
    root = save.snapshot.root
    hand.call("a", *count("a", 2, 5))
    hand.land()
    assert save.snapshot.root == root
    hand.journal.snapshot = save.snapshot
    beta = Hand(tally.KINDS, hand.journal, "beta")
    beta.load()
    assert sheet(beta).total == 10

"""The shell under a rank when its store fails, and the run seen from outside: without joining, and after compaction."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from quoracy.core import asks as ops
from quoracy.core.asks import Steps
from quoracy.core.errors import EntriesGone, JournalBroken, JournalBusy, OutcomeUnknown, Refused
from quoracy.core.journal import RunCreated
from quoracy.core.kinds import PEERLESS
from quoracy.core.peer import SNAPSHOT_EVERY, Peer
from quoracy.core.ranks.part import Part
from quoracy.core.ranks.state import REMEMBERED
from quoracy.core.ranks.times import derive
from quoracy.hosts.onlooker import Onlooker, UnknownRun
from quoracy.hosts.peerless import OutOfReach, Peerless, Shared
from quoracy.stores import MemoryJournal, MemoryMailbox, MemoryPulse
from quoracy.stores.keyvalue import KeyValueJournal, KeyValueMailbox, KeyValuePulse, MemoryKeyValue, Rack

TIMES = derive(0.6, look_s=0.01)


class Lone:
    """One rank on a store in memory."""

    def __init__(self, rank: str = "0", shared: Shared | None = None) -> None:
        self.shared = shared or Shared(MemoryJournal(), MemoryPulse(), MemoryMailbox())
        self.host = Peerless(self.shared, "demo", TIMES)
        created = RunCreated("demo", "ranks", PEERLESS.newest("ranks").rules, {"t_dead_s": 0.6}, seeding="chain")
        self.peer = Peer(rank, bytes(32), PEERLESS, created)
        self.part = Part(self.peer, TIMES)

    def join(self) -> None:
        self.host.drive(self.peer, self.part.join())

    def go_on(self, attempts: int) -> None:
        for _ in range(attempts):
            self.host.drive(self.peer, self.part.vote(True))

    def look(self) -> Onlooker:
        return Onlooker(self.shared, "demo", "memory")


class Failing:
    """A port that fails as often as it is told to, and then does what it should."""

    def __init__(self, port: Any, errors: list[Exception]) -> None:
        self._port = port
        self.errors = errors

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if self.errors:
            raise self.errors.pop(0)
        method: Callable[..., Any] = getattr(self._port, name)
        return method


def ask(op: ops.Op) -> Steps:
    return (yield op)


def test_what_may_pass_is_tried_again() -> None:
    lone = Lone()
    lone.shared.pulse = Failing(lone.shared.pulse, [JournalBusy("held"), OutcomeUnknown("no answer")])
    assert lone.host.drive(lone.peer, ask(ops.Beats())) == []


def test_what_is_broken_for_good_ends_it_at_once_with_a_fix() -> None:
    lone = Lone()
    lone.shared.pulse = Failing(lone.shared.pulse, [JournalBroken("another store answers")] * 2)
    with pytest.raises(OutOfReach, match=r"another store answers; see to the store") as caught:
        lone.host.drive(lone.peer, ask(ops.Beats()))
    assert caught.value.code == "journal_broken"
    assert len(lone.shared.pulse.errors) == 1


def test_an_append_whose_outcome_is_unknown_is_never_repeated_blindly() -> None:
    lone = Lone()
    lone.shared.journal = Failing(lone.shared.journal, [OutcomeUnknown("no answer")])
    assert lone.host.drive(lone.peer, ask(ops.Append(1, b"x"))) == ops.Unclear()


def test_entries_that_are_gone_are_told_to_whoever_reads_them() -> None:
    def steps() -> Steps:
        try:
            yield ops.Read(1)
        except EntriesGone as gone:
            return gone.available

    lone = Lone()
    lone.shared.journal = Failing(lone.shared.journal, [EntriesGone("demo", 1, 7)])
    assert lone.host.drive(lone.peer, steps()) == 7


def test_a_store_that_stays_silent_ends_it_before_it_is_given_up() -> None:
    lone = Lone()
    lone.shared.pulse = Failing(lone.shared.pulse, [JournalBusy("held")] * 10_000)
    with pytest.raises(OutOfReach, match=r"no word from the store for 0\.[45].*gives? this rank up after 0\.6 s"):
        lone.host.drive(lone.peer, ask(ops.Beats()))


def test_one_that_stood_still_for_longer_than_the_others_wait_asks_again_before_it_stops() -> None:
    """What it had asked before fails when it wakes up. The store answers the next question."""
    lone = Lone()
    beats = lone.shared.pulse.beats
    slept: list[bool] = []

    def sleepy(run: str) -> Any:
        if not slept:
            slept.append(True)
            time.sleep(TIMES.dead_s + 0.05)
            raise JournalBusy("the time is over")
        return beats(run)

    lone.shared.pulse.beats = sleepy  # type: ignore[method-assign]
    assert lone.host.drive(lone.peer, ask(ops.Beats())) == []


def test_a_run_that_is_not_there_is_not_made_by_looking() -> None:
    lone = Lone()
    with pytest.raises(UnknownRun, match="no run 'demo' in memory"):
        lone.look()
    assert lone.shared.journal.last("demo") == 0


def test_the_log_goes_on_after_compaction() -> None:
    lone = Lone()
    lone.join()
    lone.go_on(SNAPSHOT_EVERY + 5)
    lone.host.drive(lone.peer, lone.part.settle())
    seen = lone.look()
    attempts = [line.decision.attempt for line in seen.lines]
    assert attempts == list(range(attempts[0], lone.part.crew.attempt + 1))
    assert len(attempts) >= REMEMBERED
    assert seen.crew.number == lone.part.crew.number


def test_the_last_iteration_of_a_rank_is_the_one_that_the_newest_record_names_it_for() -> None:
    """Whoever decides 42 records 43 for all who go on."""
    lone = Lone()
    lone.join()
    (shown,) = lone.look().watch(0.0)["ranks"]
    assert (shown["state"], shown["last_iteration"]) == ("Member", 0)
    lone.go_on(3)
    lone.host.drive(lone.peer, lone.part.settle())
    seen = lone.look().watch(0.0)
    (shown,) = seen["ranks"]
    assert shown["last_iteration"] == seen["number"] == 3


def test_a_rank_that_left_keeps_its_last_iteration_when_its_records_are_compacted_away() -> None:
    first = Lone()
    first.join()
    first.go_on(2)
    first.host.drive(first.peer, first.part.leave("enough"))
    second = Lone("1", first.shared)
    second.join()
    second.go_on(SNAPSHOT_EVERY + REMEMBERED)
    second.host.drive(second.peer, second.part.settle())
    seen = second.look()
    assert all("0" not in line.decision.members for line in seen.lines), "no record is left that names it"
    left, stays = seen.watch(0.0)["ranks"]
    assert (left["state"], left["last_iteration"]) == ("Left", 2)
    assert stays["last_iteration"] == seen.crew.number == 2 + SNAPSHOT_EVERY + REMEMBERED


def test_stopping_wins_against_a_record_that_came_first() -> None:
    lone = Lone()
    lone.join()
    looker = lone.look()
    lone.go_on(3)
    entry = looker.stop("enough")
    assert entry == lone.shared.journal.last("demo")
    with pytest.raises(Refused, match="the run is over: enough"):
        lone.go_on(1)
    with pytest.raises(Refused, match="run_closed"):
        lone.look().stop("again")


@pytest.mark.parametrize("bare", [True, False], ids=["a bare store", "any store"])
def test_who_has_arrived_is_seen_from_outside(bare: bool) -> None:
    lone = Lone()
    if bare:
        rack = Rack()
        journal, pulse = KeyValueJournal(MemoryKeyValue(rack)), KeyValuePulse(MemoryKeyValue(rack))
        lone.shared = Shared(journal, pulse, KeyValueMailbox(MemoryKeyValue(rack)))
        lone.host = Peerless(lone.shared, "demo", TIMES)
    lone.join()
    (shown,) = lone.look().watch(0.0)["ranks"]
    assert not shown["arrived"]
    lone.host.carry_out(next(lone.part.vote(True)))
    seen = lone.look().watch(0.0)
    assert [rank["arrived"] for rank in seen["ranks"]] == [True]
    assert "all have arrived" in seen["awaited"]


def test_whether_a_rank_beats_is_seen_by_looking_twice() -> None:
    lone = Lone()
    lone.join()
    (shown,) = lone.look().watch(0.1)["ranks"]
    assert (shown["state"], shown["beating"]) == ("Member", False)
    assert shown["beat_age_s"] >= 0.1
    looker, count = lone.look(), 0
    beats = lone.shared.pulse.beats

    def beat_and_look(run: str) -> Any:
        nonlocal count
        count += 1
        lone.host.carry_out(lone.part.beat(count))
        return beats(run)

    lone.shared.pulse.beats = beat_and_look  # type: ignore[method-assign]
    (shown,) = looker.watch(5.0)["ranks"]
    assert shown["beating"]
    assert shown["beat_age_s"] < 0.1

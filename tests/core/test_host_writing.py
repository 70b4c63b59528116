"""Rule: persist before send. One page at a time; nothing is read out before the ink is dry, whatever the store says."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core import byhand, tally
from tests.core.byhand import Hand, answers, call, count, entry_of, join, sheet, takeover, tallying, written
from tests.core.scribe import RUN

from quoracy.core.errors import CATALOG, Refusal
from quoracy.core.host import Phase
from quoracy.core.journal import CommandRefused, HostTook
from quoracy.core.limits import Limits
from quoracy.core.members import Accepted, Cause, command_digest
from quoracy.core.messages import Answered, Moved, Told, Welcome
from quoracy.core.run import fold
from quoracy.core.shell import (
    Append,
    Asked,
    Broken,
    Delayed,
    Disconnected,
    DutyFinished,
    EntryRead,
    Explained,
    Load,
    PulseSeen,
    ReadEntry,
    Received,
    Save,
    Send,
    Stop,
    Take,
    Taken,
    Unknown,
    Written,
)

LIMITS = Limits(retry_us=200_000, max_tries=3)


def under_way(hand: Hand) -> Append:
    """The one append the host has asked for."""
    (append,) = hand.take_out(Append)
    return append


def leaves(actions: list[Any]) -> list[Any]:
    """What the world would learn."""
    return [action for action in actions if isinstance(action, Send | Explained | Save)]


# -- persist before send -------------------------------------------------------------------------------------------


def test_persist_before_send_an_answer_waits_for_its_entry() -> None:
    hand = tallying("a")
    actions = hand.call("a", *count("a", 1))
    assert [type(action) for action in actions] == [Append]
    assert answers(hand.land()) == [Accepted(3, {"total": 1})]


def test_persist_before_send_nothing_leaves_while_an_entry_is_under_way() -> None:
    """Replies, refusals, views, welcomes, declined signals, explanations: all of it waits."""
    hand = tallying("a", "b")
    hand.call("a", *count("a", 1))
    silent = [
        hand.call("b", *count("b", 1)),
        hand.call("b", *count("b", 2, 999)),
        hand.call("x", *join("x")),
        hand.call("a", *count("a", 1)),
        hand.call("stranger", *count("stranger", 1)),
        hand.hello("a", "a", 1),
        hand.sign("a", tally.Nod("a", 1)),
        hand.sign("z", tally.Nod("z", 1)),
        hand.report(Asked("someone")),
        hand.report(DutyFinished(1, 0)),
        hand.report(PulseSeen({})),
        hand.tick(),
    ]
    assert [leaves(actions) for actions in silent] == [[]] * len(silent)
    assert len(hand.take_out(Append)) == 1


def test_persist_before_send_a_refusal_that_is_remembered_waits_for_its_entry() -> None:
    hand = tallying("a")
    assert leaves(hand.call("a", *count("a", 1, 6))) == []
    (answer,) = answers(hand.land())
    assert isinstance(answer, Refusal)
    assert written(hand) == [CommandRefused(answer, command_digest(count("a", 1, 6)[1]))]


def test_persist_before_send_a_repeat_of_what_is_not_written_yet_waits_too() -> None:
    hand = tallying("a")
    hand.call("a", *count("a", 1))
    assert leaves(hand.call("a", *count("a", 1))) == []
    assert answers(hand.land()) == [Accepted(3, {"total": 1}), Accepted(3, {"total": 1})]
    assert sheet(hand).total == 1


def test_persist_before_send_replies_come_before_views() -> None:
    """Whoever joined knows its life before it is shown anything."""
    hand = tallying("a")
    hand.call("b", *join("b"))
    actions = hand.land()
    kinds = [(action.peer, type(action.message)) for action in actions if isinstance(action, Send)]
    assert kinds == [("b", Answered), ("a", Told), ("b", Told)]


def test_what_changes_nothing_is_answered_at_once_without_an_entry() -> None:
    hand = tallying("a")
    actions = hand.call("x", *count("x", 1))
    assert [answer.code for answer in answers(actions) if isinstance(answer, Refusal)] == ["unknown_member"]
    assert [type(m) for _, m in byhand.sent(hand.hello("p", "new"))] == [Welcome]
    assert hand.take_out(Append) == []


# -- one batch in flight, group commit -----------------------------------------------------------------------------


def test_an_idle_host_commits_at_once() -> None:
    hand = tallying("a")
    (append,) = hand.call("a", *count("a", 1))
    assert isinstance(append, Append)
    assert append.n == 3


def test_group_commit_what_arrived_meanwhile_goes_into_one_entry() -> None:
    hand = tallying("a", "b", "c", "d")
    hand.call("a", *count("a", 1, 1))
    for name in "bcd":
        assert hand.call(name, *count(name, 1, 2)) == []
    hand.land()
    assert sheet(hand).total == 7
    actions = hand.land()
    assert written(hand) == [tally.Counted(name, 1, 2) for name in "bcd"]
    assert answers(actions) == [Accepted(7, {"total": total}) for total in (3, 5, 7)]


def test_one_batch_in_flight_what_queues_is_not_applied() -> None:
    hand = tallying("a", "b")
    hand.call("a", *count("a", 1, 1))
    assert sheet(hand).total == 1
    hand.call("b", *count("b", 1, 2))
    assert sheet(hand).total == 1
    assert len(hand.take_out(Append)) == 1


def test_one_batch_in_flight_commands_are_decided_in_the_order_they_came() -> None:
    hand = tallying("a")
    hand.call("a", *count("a", 1, 1))
    for seq in (2, 3, 4):
        hand.call("a", *count("a", seq, seq))
    hand.land()
    assert [a.result for a in answers(hand.land()) if isinstance(a, Accepted)] == [
        {"total": 3}, {"total": 6}, {"total": 10},
    ]  # fmt: skip


def test_an_entry_names_its_host_term_and_a_nonce_that_is_never_used_twice() -> None:
    hand = tallying("a")
    nonces, seeds = set(), set()
    for seq in range(1, 20):
        hand.call("a", *count("a", seq))
        entry = entry_of(next(a for a in hand.actions if isinstance(a, Append)))
        assert (entry.host, entry.term, entry.n, entry.run) == ("alpha", 1, seq + 2, RUN)
        nonces.add(entry.nonce)
        seeds.add(entry.seed)
        hand.land()
    assert len(nonces) == len(seeds) == 19
    assert not nonces & seeds


# -- conflict ------------------------------------------------------------------------------------------------------


def rivals() -> tuple[Hand, Hand]:
    """Alpha serves a and b; beta has taken over, and alpha does not know it."""
    alpha = tallying("a", "b")
    beta = takeover(tally.KINDS, alpha.journal, "beta")
    beta.actions.clear()
    return alpha, beta


def test_conflict_what_was_decided_is_discarded_and_its_senders_are_sent_to_the_new_host() -> None:
    alpha, beta = rivals()
    alpha.call("a", *count("a", 1, 5))
    alpha.call("b", *count("b", 1, 5))
    append = under_way(alpha)
    assert leaves(alpha.report(Taken(append.nonce, alpha.journal.entries[append.n - 1]))) == []
    assert alpha.host.run is None
    sent = byhand.sent(alpha.load())
    assert sent == [("a", Moved(RUN, 2, "beta:7700")), ("b", Moved(RUN, 2, "beta:7700"))]
    assert alpha.host.phase is Phase.FOLLOWING
    assert sheet(alpha).total == 0
    assert alpha.host.run.state_digest() == beta.host.run.state_digest()  # type: ignore[union-attr]


def test_conflict_a_command_that_lost_is_decided_once_by_the_new_host() -> None:
    alpha, beta = rivals()
    alpha.call("a", *count("a", 1, 5))
    append = under_way(alpha)
    alpha.report(Taken(append.nonce, alpha.journal.entries[append.n - 1]))
    alpha.load()
    beta.call("a", *count("a", 1, 5))
    assert answers(beta.land()) == [Accepted(5, {"total": 5})]


def test_conflict_while_taking_over_the_loser_follows_the_winner() -> None:
    first = tallying("a")
    beta = Hand(tally.KINDS, first.journal, "beta")
    beta.load()
    beta.report(Take())
    append = under_way(beta)
    gamma = takeover(tally.KINDS, first.journal, "gamma")
    beta.call("a", *count("a", 1))
    beta.report(Taken(append.nonce, first.journal.entries[append.n - 1]))
    assert byhand.sent(beta.load()) == [("a", Moved(RUN, 2, "gamma:7700"))]
    assert beta.host.phase is Phase.FOLLOWING
    assert gamma.host.phase is Phase.SERVING


def test_conflict_while_nobody_took_over_everything_is_decided_again_in_its_order() -> None:
    """Somebody wrote in this host's name and term; it must not matter who."""
    hand = tallying("a", "b")
    hand.call("a", *count("a", 1, 1))
    mine = under_way(hand)
    hand.call("a", *count("a", 2, 2))
    hand.call("b", *count("b", 1, 4))
    other = tallying("a", "b")
    other.call("b", *count("b", 1, 4))
    theirs = under_way(other)
    assert mine.n == theirs.n
    hand.journal.entries = [*other.journal.entries, theirs.payload]
    hand.report(Taken(mine.nonce, theirs.payload))
    hand.load()
    assert hand.host.phase is Phase.SERVING
    actions = hand.land()
    assert [a.result for a in answers(actions) if isinstance(a, Accepted)] == [
        {"total": 5}, {"total": 7}, {"total": 4},
    ]  # fmt: skip
    assert written(hand) == [tally.Counted("a", 1, 1), tally.Counted("a", 1, 2)]


def test_conflict_somebody_else_made_the_run_first() -> None:
    hand = Hand(tally.KINDS)
    hand.load()
    hand.report(byhand.Create(byhand.created("tally")))
    append = under_way(hand)
    other = tallying("a")
    hand.journal = other.journal
    hand.report(Taken(append.nonce, other.journal.entries[0]))
    hand.load()
    assert hand.host.phase is Phase.FOLLOWING
    assert hand.host.run.head.n == 2  # type: ignore[union-attr]


def test_conflict_with_an_entry_that_cannot_be_read_stops_the_host() -> None:
    hand = tallying("a")
    hand.call("a", *count("a", 1))
    append = under_way(hand)
    (*_, stop) = hand.report(Taken(append.nonce, b"junk"))
    assert isinstance(stop, Stop)
    assert stop.code == "journal_corrupt"


# -- unknown outcome -----------------------------------------------------------------------------------------------


def test_unknown_outcome_the_entry_is_read_and_found_to_be_ours() -> None:
    hand = tallying("a")
    hand.call("a", *count("a", 1))
    append = under_way(hand)
    assert hand.report(Unknown(append.nonce)) == [ReadEntry(3)]
    hand.journal.write(append)
    assert answers(hand.report(EntryRead(3, append.payload))) == [Accepted(3, {"total": 1})]
    assert hand.host.quiet()


def test_unknown_outcome_the_entry_is_read_and_found_to_be_anothers() -> None:
    alpha, _ = rivals()
    alpha.call("a", *count("a", 1))
    append = under_way(alpha)
    alpha.report(Unknown(append.nonce))
    actions = alpha.report(EntryRead(append.n, alpha.journal.entries[append.n - 1]))
    assert actions == [Load()]
    assert byhand.sent(alpha.load())[0] == ("a", Moved(RUN, 2, "beta:7700"))


def test_unknown_outcome_nothing_is_there_and_the_same_bytes_are_written_again() -> None:
    hand = tallying("a")
    hand.call("a", *count("a", 1))
    append = under_way(hand)
    hand.report(Unknown(append.nonce))
    assert hand.report(EntryRead(3, None)) == [append]
    assert answers(hand.land()) == [Accepted(3, {"total": 1})]


def test_unknown_outcome_nothing_is_there_but_the_first_write_lands_after_all() -> None:
    """The second try then finds an entry in its place: its own."""
    hand = tallying("a")
    hand.call("a", *count("a", 1))
    append = under_way(hand)
    hand.report(Unknown(append.nonce))
    hand.report(EntryRead(3, None))
    again = under_way(hand)
    hand.journal.write(append)
    assert answers(hand.report(Taken(again.nonce, append.payload))) == [Accepted(3, {"total": 1})]
    assert sheet(hand).total == 1
    assert fold(tally.KINDS, RUN, hand.journal.entries).state_digest() == hand.host.run.state_digest()  # type: ignore[union-attr]


def test_unknown_outcome_nothing_is_read_out_until_it_is_known() -> None:
    hand = tallying("a")
    hand.call("a", *count("a", 1))
    append = under_way(hand)
    assert leaves(hand.report(Unknown(append.nonce))) == []
    assert leaves(hand.report(EntryRead(3, None))) == []
    assert leaves(hand.hello("a", "a", 1)) == []


def test_unknown_outcome_again_and_again_stops_the_host_after_so_many_tries() -> None:
    hand = tallying("a", limits=LIMITS)
    hand.call("a", *count("a", 1))
    append = under_way(hand)
    for _ in range(2):
        assert hand.report(Unknown(append.nonce)) == [ReadEntry(3)]
        assert hand.report(EntryRead(3, None)) == [append]
    (*_, stop) = hand.report(Unknown(append.nonce))
    assert isinstance(stop, Stop)
    assert stop.code == "outcome_unknown"
    assert "in 3 tries" in stop.why


# -- no room, broken -----------------------------------------------------------------------------------------------


def test_delayed_the_same_append_is_tried_again_after_a_while() -> None:
    hand = tallying("a", limits=LIMITS)
    hand.tick()
    hand.call("a", *count("a", 1))
    append = under_way(hand)
    assert hand.report(Delayed(append.nonce, "no room")) == []
    assert hand.host.wake_us() == hand.now_us + 200_000
    assert [a for a in hand.tick(199_999) if isinstance(a, Append)] == []
    assert [a for a in hand.tick(1) if isinstance(a, Append)] == [append]
    assert [a for a in hand.tick(1_000_000) if isinstance(a, Append)] == []
    assert answers(hand.land()) == [Accepted(3, {"total": 1})]


def test_delayed_too_often_stops_the_host_and_says_why() -> None:
    hand = tallying("a", limits=LIMITS)
    hand.call("a", *count("a", 1))
    append = under_way(hand)
    for _ in range(2):
        hand.report(Delayed(append.nonce, "no room"))
        hand.tick(200_000)
        under_way(hand)
    (*_, stop) = hand.report(Delayed(append.nonce, "no room", "journal_full"))
    assert stop == Stop("journal_full", "entry 3 could not be written in 3 tries: no room")
    assert hand.host.phase is Phase.STOPPED
    assert hand.host.wake_us() is None


def test_delayed_tries_are_counted_for_each_entry_anew() -> None:
    hand = tallying("a", limits=LIMITS)
    for seq in range(1, 6):
        hand.call("a", *count("a", seq))
        append = under_way(hand)
        for _ in range(2):
            hand.report(Delayed(append.nonce, "no room"))
            hand.tick(200_000)
            append = under_way(hand)
        hand.journal.write(append)
        hand.report(Written(append.nonce))
    assert sheet(hand).total == 5


@pytest.mark.parametrize("idle", [False, True])
def test_broken_stops_for_good(idle: bool) -> None:
    hand = tallying("a", "b")
    if not idle:
        hand.call("a", *count("a", 1))
        hand.call("b", *count("b", 1))
    actions = hand.report(Broken("journal_broken", "fsync failed"))
    assert actions[-1] == Stop("journal_broken", "fsync failed")
    assert hand.host.stopped == actions[-1]
    assert {peer for peer, m in byhand.sent(actions) if m == Moved(RUN, 0, "")} == {"a", "b"}
    assert answers(actions) == []
    assert hand.host.wake_us() is None
    hand.actions.clear()
    for report in (Take(), byhand.Tick(), Written(bytes(16)), hand.journal.loaded(), DutyFinished(1, 0)):
        assert hand.report(report, 10_000_000) == []
    assert byhand.sent(hand.call("a", *count("a", 1))) == [("a", Moved(RUN, 0, ""))]
    assert hand.host.phase is Phase.STOPPED


def test_broken_leaves_nobody_waiting_whose_entry_was_under_way() -> None:
    hand = tallying("a")
    hand.call("newcomer", *join("x"))
    hand.call("another", *join("y"))
    actions = hand.report(Broken("journal_broken", "fsync failed"))
    assert [peer for peer, _ in byhand.sent(actions, Moved)] == ["newcomer", "another", "a"]


def test_a_stopped_host_says_why_to_whoever_asks() -> None:
    hand = tallying("a")
    hand.call("a", *count("a", 1))
    hand.report(Asked("early"))
    hand.report(Broken("journal_broken", "fsync failed"))
    hand.report(Asked("late"))
    assert [(e.peer, e.explanation.sentence) for e in hand.take_out(Explained)] == [
        ("early", "this host has stopped: fsync failed"),
        ("late", "this host has stopped: fsync failed"),
    ]


def test_every_way_to_stop_has_a_code_of_the_catalog() -> None:
    hand = tallying("a", limits=Limits(max_tries=1))
    hand.call("a", *count("a", 1))
    (*_, stop) = hand.report(Delayed(under_way(hand).nonce, "no room"))
    assert isinstance(stop, Stop)
    assert stop.code in CATALOG


# -- answers that come late ----------------------------------------------------------------------------------------


def test_answers_of_a_store_to_something_long_past_do_nothing() -> None:
    hand = tallying("a")
    hand.call("a", *count("a", 1))
    first = next(a for a in hand.actions if isinstance(a, Append))
    hand.land()
    hand.actions.clear()
    stale = (
        Written(first.nonce), Taken(first.nonce, first.payload), Unknown(first.nonce), Delayed(first.nonce, "x"),
        EntryRead(3, first.payload), EntryRead(3, None),
    )  # fmt: skip
    for report in stale:
        assert hand.report(report) == []
    hand.call("a", *count("a", 2))
    for report in stale:
        assert hand.report(report) == []
    assert [a.n for a in hand.take_out(Append)] == [4]
    assert hand.host._writer.flight is not None


def test_an_answer_that_came_twice_counts_once() -> None:
    hand = tallying("a")
    hand.call("a", *count("a", 1))
    append = under_way(hand)
    hand.journal.write(append)
    hand.report(Written(append.nonce))
    n = hand.host.run.head.n  # type: ignore[union-attr]
    assert hand.report(Written(append.nonce)) == []
    assert hand.host.run.head.n == n  # type: ignore[union-attr]


def test_a_peer_that_went_away_meanwhile_is_shown_nothing_more() -> None:
    hand = tallying("a", "b")
    hand.call("b", *count("b", 1))
    hand.report(Disconnected("a"))
    assert {peer for peer, _ in byhand.sent(hand.land())} == {"b"}


def read_again(hand: Hand) -> list[Any]:
    """Somebody wrote in this host's name and term: it folds the journal anew, and goes on serving."""
    hand.call("a", *count("a", 1, 1))
    mine = under_way(hand)
    other = tallying("a", "b")
    other.call("b", *count("b", 1, 4))
    theirs = under_way(other)
    hand.journal.entries = [*other.journal.entries, theirs.payload]
    hand.report(Taken(mine.nonce, theirs.payload))
    return [mine, theirs]


def test_whoever_listened_is_told_everything_when_the_journal_was_read_again() -> None:
    """One that waits says nothing by which it could be found again, and heartbeats come another way."""
    hand = tallying("a", "b")
    read_again(hand)
    hand.sent()
    hand.load()
    assert hand.host.phase is Phase.SERVING
    told = hand.sent(Told)
    assert {peer for peer, _ in told} == {"a", "b"}
    assert {message.topic for peer, message in told if peer == "b"} == set(machine_topics(hand, "b"))
    assert {peer for peer, _ in byhand.sent(hand.land(), Told)} == {"a", "b"}, "and of what comes next"


def test_whoever_went_away_while_the_journal_was_read_again_is_told_nothing() -> None:
    hand = tallying("a", "b")
    read_again(hand)
    hand.report(Disconnected("b"))
    hand.sent()
    hand.load()
    assert {peer for peer, _ in hand.sent(Told)} == {"a"}


def machine_topics(hand: Hand, member: str) -> list[str]:
    assert hand.host.run is not None
    return hand.host.run.machine.topics(member)


# -- a slow store --------------------------------------------------------------------------------------------------


def test_explain_answers_while_a_write_is_slow_without_showing_what_is_not_written() -> None:
    hand = tallying("a", goal=1000, limits=Limits(beat_us=60_000_000))
    hand.tick(7_000_000)
    hand.call("a", *count("a", 1, 5))
    assert hand.host.wake_us() == 67_000_000
    assert hand.report(Asked("someone"), 400_000) == []
    assert hand.host.wake_us() == 8_000_000
    assert [a for a in hand.tick(599_999) if isinstance(a, Explained)] == []
    hand.tick(1)
    (explained,) = hand.take_out(Explained)
    assert explained.peer == "someone"
    assert explained.explanation.sentence == "entry 3 is being written (1.0 s so far)"
    hand.report(Asked("another"), 500_000)
    (explained,) = hand.take_out(Explained)
    assert "1.5 s so far" in explained.explanation.sentence
    hand.land()
    hand.report(Asked("later"))
    (explained,) = hand.take_out(Explained)
    assert explained.explanation.sentence == "counted 5 of 1000"


def test_explain_says_what_is_wrong_with_a_write_that_is_tried_again() -> None:
    hand = tallying("a", limits=Limits(max_tries=9))
    hand.call("a", *count("a", 1))
    append = under_way(hand)
    hand.report(Delayed(append.nonce, "the disk is full"))
    hand.report(Asked("someone"), 2_000_000)
    (explained,) = hand.take_out(Explained)
    assert explained.explanation.sentence == ("entry 3 is being written (2.0 s so far, try 2 of 9): the disk is full")


def test_explain_asked_during_a_quick_write_is_answered_when_it_has_landed() -> None:
    hand = tallying("a", goal=1000)
    hand.call("a", *count("a", 1, 5))
    assert hand.report(Asked("someone")) == []
    hand.land()
    (explained,) = hand.take_out(Explained)
    assert explained.explanation.sentence == "counted 5 of 1000"


def test_explain_asked_during_a_write_that_is_lost_is_answered_at_once() -> None:
    alpha, _ = rivals()
    alpha.call("a", *count("a", 1))
    alpha.report(Asked("someone"))
    append = under_way(alpha)
    alpha.report(Taken(append.nonce, alpha.journal.entries[append.n - 1]))
    (explained,) = alpha.take_out(Explained)
    assert explained.explanation.sentence == "the journal is being read"


# -- what is written -----------------------------------------------------------------------------------------------


def test_a_run_is_created_and_taken_in_one_entry() -> None:
    hand = Hand(tally.KINDS)
    hand.load()
    made = byhand.created("tally")
    hand.report(byhand.Create(made))
    hand.land()
    assert written(hand) == [made, HostTook(1, "alpha", "alpha:7700")]


def test_a_command_that_came_while_a_host_takes_over_is_decided_when_it_serves() -> None:
    first = tallying("a")
    hand = Hand(tally.KINDS, first.journal, "beta")
    hand.load()
    hand.report(Take())
    assert hand.report(Received("a", call(*count("a", 1)))) == []
    hand.land()
    assert answers(hand.land()) == [Accepted(4, {"total": 1})]


def test_a_repeat_across_hosts_gets_the_answer_that_was_given() -> None:
    """Written, and the host died before it could say so."""
    hand = tallying("a")
    hand.call("a", *count("a", 1, 5))
    hand.journal.write(under_way(hand))
    beta = takeover(tally.KINDS, hand.journal, "beta")
    assert answers(beta.call("a", *count("a", 1, 5))) == [Accepted(3, {"total": 5})]
    assert sheet(beta).total == 5
    assert Cause("a", 1, 1) == count("a", 1)[0]


def test_messages_that_came_together_are_decided_together() -> None:
    hand = tallying("a", "b")
    together = [("a", call(*count("a", 1, 1))), ("b", call(*count("b", 1, 2))), ("a", call(*count("a", 2, 3)))]
    hand.now_us += 5_000_000
    hand.actions.extend(hand.host.receive(together, hand.now_us))
    hand.land()
    assert hand.host.run.head.at_us == 5_000_000  # type: ignore[union-attr]
    assert written(hand) == [tally.Counted("a", 1, 1), tally.Counted("b", 1, 2), tally.Counted("a", 1, 3)]
    hand.report(Broken("journal_broken", "fsync failed"))
    moved = hand.host.receive(together, hand.now_us)
    assert byhand.sent(moved) == [(peer, Moved(RUN, 0, "")) for peer in ("a", "b", "a")]


def test_an_overview_is_of_what_is_written_and_is_not_given_while_something_is_under_way() -> None:
    hand = tallying("a", goal=1000)
    hand.report(Asked("before"))
    (before,) = hand.take_out(Explained)
    assert before.overview is not None
    assert (before.overview["run"], before.overview["entry"], before.overview["total"]) == (RUN, 2, 0)
    hand.call("a", *count("a", 1, 5))
    hand.report(Asked("during"), 2_000_000)
    (during,) = hand.take_out(Explained)
    assert during.overview is None
    hand.land()
    hand.report(Asked("after"))
    (after,) = hand.take_out(Explained)
    assert after.overview is not None
    assert (after.overview["entry"], after.overview["total"]) == (3, 5)


def test_a_host_is_busy_while_something_is_under_way_or_waits() -> None:
    hand = tallying("a")
    assert not hand.host.busy()
    hand.call("a", *count("a", 1))
    assert hand.host.busy()
    hand.land()
    assert not hand.host.busy()
    reading = Hand(tally.KINDS, hand.journal, "beta")
    reading.hello("a", "a", 1)
    assert reading.host.busy()
    hand.call("a", *count("a", 2))
    hand.report(Broken("journal_broken", "fsync failed"))
    assert not hand.host.busy()

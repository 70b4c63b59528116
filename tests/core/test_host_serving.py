"""Rules: run time; one serving host per run, fenced by terms; identity; seeds from the chain; rules that may change."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.core import byhand, tally
from tests.core.byhand import Hand, answers, count, entry_of, join, serving, sheet, takeover, tallying
from tests.core.cluster.yard import standing
from tests.core.scribe import RUN, bare_entry, created

from quoracy.core.codec import digest
from quoracy.core.errors import Bug, ConfigError
from quoracy.core.host import Host, Phase, pulse_key
from quoracy.core.journal import STATE_DIGEST_EVERY, HostTook, RunCreated, chain_seed
from quoracy.core.limits import Limits
from quoracy.core.members import Accepted
from quoracy.core.messages import Declined, Hello, Moved, Told, Welcome
from quoracy.core.run import Kinds, Run, UnknownRules, fold
from quoracy.core.shell import (
    Append,
    Asked,
    Beat,
    Create,
    Disconnected,
    Explained,
    Followed,
    Load,
    Loaded,
    PulseSeen,
    Received,
    Stop,
    Take,
    Taken,
    Tick,
    Written,
)
from quoracy.core.snapshot import Snapshot

LIMITS = Limits(beat_us=500_000, takeover_us=3_000_000, stagger_us=0)
SECOND = 1_000_000


def follower(journal: byhand.Journal, name: str = "beta", now_us: int = 0) -> Hand:
    hand = Hand(tally.KINDS, journal, name, LIMITS, now_us)
    hand.load()
    assert hand.host.phase is Phase.FOLLOWING
    return hand


def head(hand: Hand) -> Any:
    assert hand.host.run is not None
    return hand.host.run.head


def at_us(hand: Hand) -> int:
    """The run time of the entry under way, which lands."""
    (append,) = [action for action in hand.actions if isinstance(action, Append)]
    hand.land()
    return entry_of(append).at_us


# -- run time ------------------------------------------------------------------------------------------------------


def test_run_time_is_that_of_the_last_entry_plus_the_hosts_own_time_since() -> None:
    hand = tallying("a")
    hand.now_us += 7 * SECOND
    hand.call("a", *count("a", 1))
    assert at_us(hand) == 7 * SECOND
    hand.now_us += 2 * SECOND
    hand.call("a", *count("a", 2))
    assert at_us(hand) == 9 * SECOND


def test_run_time_begins_at_nothing_whatever_the_hosts_clock_says() -> None:
    hand = serving(tally.KINDS, created("tally"), now_us=10**15)
    assert head(hand).at_us == 0


def test_run_time_downtime_counts_zero() -> None:
    hand = tallying("a")
    hand.now_us += 5 * SECOND
    hand.call("a", *count("a", 1))
    hand.land()
    later = Hand(tally.KINDS, hand.journal, "beta", now_us=10**12)
    later.load()
    later.report(Take())
    assert at_us(later) == 5 * SECOND
    later.now_us += SECOND
    later.call("a", *count("a", 2))
    assert at_us(later) == 6 * SECOND


def test_run_time_never_decreases_even_if_the_clock_does() -> None:
    hand = tallying("a")
    hand.now_us += 5 * SECOND
    hand.call("a", *count("a", 1))
    hand.land()
    hand.now_us -= 4 * SECOND
    hand.call("a", *count("a", 2))
    assert at_us(hand) == 5 * SECOND


def test_run_time_of_a_follower_goes_on_from_the_entry_it_read_last() -> None:
    alpha = tallying("a")
    beta = follower(alpha.journal, now_us=500)
    alpha.now_us += 60 * SECOND
    alpha.call("a", *count("a", 1))
    alpha.land()
    beta.now_us += SECOND
    beta.report(Followed(3, alpha.journal.entries[2:]))
    beta.now_us += 2 * SECOND
    beta.report(Take())
    assert at_us(beta) == 62 * SECOND


def test_run_time_goes_on_when_a_follower_is_shown_what_it_has_read_before() -> None:
    alpha = tallying("a")
    beta = follower(alpha.journal)
    beta.report(Followed(2, alpha.journal.entries[1:]), 5 * SECOND)
    beta.report(Followed(3, []))
    beta.report(Take(), 2 * SECOND)
    assert at_us(beta) == 7 * SECOND
    nobody = Hand(tally.KINDS)
    nobody.load()
    assert nobody.report(Followed(1, [])) == []
    assert nobody.host.run is None


def test_run_time_is_what_a_batch_is_decided_at_not_when_it_is_written() -> None:
    hand = tallying("a")
    hand.now_us += 3 * SECOND
    hand.call("a", *count("a", 1))
    hand.now_us += 9 * SECOND
    assert at_us(hand) == 3 * SECOND


def test_detectors_start_afresh_at_takeover() -> None:
    yard = standing("a", "b")
    yard.pass_s(25, "a")
    assert yard.collector.silent_us("a", yard.hand.now_us) == 25 * SECOND
    yard.hand = byhand.takeover(yard.hand.host.kinds, yard.hand.journal, "beta", now_us=77)
    assert yard.collector.silent_us("a", 77) == 0
    yard.pass_s(30, "a")
    assert yard.worker("a").state.value == "Idle"
    yard.pass_s(1, "a")
    assert yard.worker("a").state.value == "Failed"


# -- one serving host ----------------------------------------------------------------------------------------------


def test_one_serving_host_taking_is_an_entry_with_the_next_term() -> None:
    alpha = tallying("a")
    beta = takeover(tally.KINDS, alpha.journal, "beta")
    assert byhand.written(beta) == [HostTook(2, "beta", "beta:7700")]
    assert (head(beta).term, head(beta).host, head(beta).address) == (2, "beta", "beta:7700")
    entry = entry_of(Append(3, beta.journal.entries[-1], b""))
    assert (entry.term, entry.host) == (2, "beta")


def test_one_serving_host_others_send_everyone_to_it() -> None:
    alpha = tallying("a")
    beta = follower(alpha.journal)
    moved = Moved(RUN, 1, "alpha:7700")
    assert byhand.sent(beta.call("a", *count("a", 1))) == [("a", moved)]
    assert byhand.sent(beta.hello("a", "a", 1)) == [("a", moved)]
    assert byhand.sent(beta.sign("a", tally.Nod("a", 1))) == [("a", moved)]
    assert beta.take_out(Append) == []


def test_one_serving_host_a_host_without_the_run_sends_people_nowhere() -> None:
    hand = Hand(tally.KINDS)
    hand.hello("early", "a")
    assert byhand.sent(hand.load()) == [("early", Moved(RUN, 0, ""))]
    assert byhand.sent(hand.hello("p", "a")) == [("p", Moved(RUN, 0, ""))]


def test_one_serving_host_one_that_learns_of_a_newer_term_steps_down_and_sends_its_peers_on() -> None:
    alpha = tallying("a", "b")
    beta = takeover(tally.KINDS, alpha.journal, "beta")
    actions = alpha.report(Followed(4, beta.journal.entries[3:]))
    assert byhand.sent(actions) == [(name, Moved(RUN, 2, "beta:7700")) for name in "ab"]
    assert alpha.host.phase is Phase.FOLLOWING
    assert alpha.host.desk is None
    assert byhand.sent(alpha.call("a", *count("a", 1))) == [("a", Moved(RUN, 2, "beta:7700"))]
    alpha.tick(10)
    assert alpha.take_out(Beat) == []


def test_one_serving_host_one_that_finds_a_newer_term_in_its_place_steps_down() -> None:
    alpha = tallying("a")
    beta = takeover(tally.KINDS, alpha.journal, "beta")
    alpha.call("a", *count("a", 1))
    (append,) = alpha.take_out(Append)
    alpha.report(Taken(append.nonce, beta.journal.entries[2]))
    alpha.load()
    assert alpha.host.phase is Phase.FOLLOWING
    assert head(alpha).term == 2


def test_one_serving_host_entries_of_the_deposed_are_refused_by_the_fold() -> None:
    alpha = tallying("a")
    alpha.call("a", *count("a", 1))
    (append,) = alpha.take_out(Append)
    beta = takeover(tally.KINDS, alpha.journal, "beta")
    forged = msgspec.structs.replace(entry_of(append), n=4, prev=head(beta).digest)
    beta.report(Followed(4, [byhand.encode(forged)]))
    assert beta.host.stopped is not None
    assert beta.host.stopped.code == "journal_corrupt"
    assert "in term 1, while 'beta' serves term 2" in beta.host.stopped.why


def test_one_serving_host_only_it_collects_and_beats() -> None:
    alpha = tallying("a")
    beta = follower(alpha.journal)
    assert alpha.host.wake_us() == alpha.now_us
    alpha.tick()
    assert alpha.take_out(Beat) == [Beat("alpha/1", 1)]
    assert alpha.host.wake_us() == alpha.now_us + 500_000
    alpha.tick(499_999)
    assert alpha.take_out(Beat) == []
    alpha.tick(1)
    assert alpha.take_out(Beat) == [Beat("alpha/1", 2)]
    beta.tick(600_000)
    assert beta.take_out(Beat) == []


def test_one_serving_host_a_new_term_beats_under_a_new_key_from_one() -> None:
    alpha = tallying("a")
    for _ in range(5):
        alpha.tick(500_000)
    again = takeover(tally.KINDS, alpha.journal, "alpha")
    again.tick()
    assert again.take_out(Beat) == [Beat("alpha/2", 1)]
    assert pulse_key("alpha", 2) == "alpha/2"


def test_one_serving_host_while_it_reads_again_it_still_beats_and_keeps_everyone_waiting() -> None:
    alpha = tallying("a")
    alpha.call("a", *count("a", 1))
    (append,) = alpha.take_out(Append)
    twin = tallying("a")
    twin.call("a", *count("a", 1, 2))
    (other,) = twin.take_out(Append)
    alpha.journal.entries.append(other.payload)
    alpha.report(Taken(append.nonce, other.payload))
    assert alpha.host.phase is Phase.LOADING
    alpha.tick(500_000)
    assert alpha.take_out(Beat) == [Beat("alpha/1", 1)]
    assert byhand.sent(alpha.call("b", *join("b"))) == []


# -- takeover ------------------------------------------------------------------------------------------------------


def watch(hand: Hand, until_us: int, beats: Any = None) -> None:
    """Tick as the host asks for it; a pulse is seen every half second, if there is one."""
    while hand.now_us < until_us and hand.host.phase is Phase.FOLLOWING:
        wake_us = hand.host.wake_us()
        assert wake_us is not None
        hand.now_us = min(until_us, max(hand.now_us, wake_us))
        if beats is not None:
            hand.report(PulseSeen(beats(hand.now_us)))
        hand.report(Tick())


def test_takeover_when_the_pulse_stood_still_for_too_long() -> None:
    beta = follower(tallying("a").journal)
    beta.report(PulseSeen({"alpha/1": 7}))
    watch(beta, 3_000_000, lambda _: {"alpha/1": 7})
    assert beta.host.phase is Phase.FOLLOWING
    watch(beta, 10 * SECOND, lambda _: {"alpha/1": 7})
    assert beta.host.phase is Phase.TAKING
    assert beta.now_us == 3 * SECOND + 1
    beta.land()
    assert head(beta).term == 2


def test_takeover_does_not_happen_while_the_pulse_moves() -> None:
    beta = follower(tallying("a").journal)
    watch(beta, 30 * SECOND, lambda now_us: {"alpha/1": now_us // SECOND})
    assert beta.host.phase is Phase.FOLLOWING


def test_takeover_is_not_held_up_by_the_pulse_of_another_host_or_term() -> None:
    beta = follower(tallying("a").journal)
    watch(beta, 10 * SECOND, lambda now_us: {"alpha/0": now_us, "gamma/1": now_us, "alpha/2": now_us})
    assert beta.host.phase is Phase.TAKING
    assert beta.now_us == 3 * SECOND + 1


def test_takeover_is_held_up_by_entries_of_the_serving_host() -> None:
    alpha = tallying("a")
    beta = follower(alpha.journal)
    watch(beta, 2 * SECOND)
    alpha.call("a", *count("a", 1))
    alpha.land()
    beta.report(Followed(3, alpha.journal.entries[2:]))
    watch(beta, 5 * SECOND)
    assert beta.host.phase is Phase.FOLLOWING
    watch(beta, 5 * SECOND + 1)
    assert beta.host.phase is Phase.TAKING


def test_takeover_begins_to_watch_a_new_serving_host_afresh() -> None:
    alpha = tallying("a")
    gamma = follower(alpha.journal, "gamma")
    watch(gamma, 2 * SECOND)
    beta = takeover(tally.KINDS, alpha.journal, "beta")
    gamma.report(Followed(3, beta.journal.entries[2:]))
    watch(gamma, 5 * SECOND)
    assert gamma.host.phase is Phase.FOLLOWING
    watch(gamma, 5 * SECOND + 1)
    assert gamma.host.phase is Phase.TAKING


def test_takeover_is_not_begun_by_a_host_that_stood_still_itself() -> None:
    beta = follower(tallying("a").journal)
    beta.tick(3600 * SECOND)
    assert beta.host.phase is Phase.FOLLOWING


def test_takeover_under_way_needs_no_more_waking_for_the_rival() -> None:
    beta = follower(tallying("a").journal)
    watch(beta, 10 * SECOND)
    assert beta.host.wake_us() is None


def test_take_when_the_shell_says_so() -> None:
    beta = follower(tallying("a").journal)
    beta.report(Take())
    assert beta.host.phase is Phase.TAKING
    beta.report(Take())
    assert len(beta.take_out(Append)) == 1


def test_take_said_before_the_journal_was_read_is_done_when_it_is() -> None:
    alpha = tallying("a")
    beta = Hand(tally.KINDS, alpha.journal, "beta")
    beta.report(Take())
    beta.load()
    assert beta.host.phase is Phase.TAKING


def test_take_said_once_is_done_once() -> None:
    """Said while this host reads again what it serves: it serves. When it is deposed later it must not fight back."""
    alpha = tallying("a")
    alpha.report(Followed(9, []))
    alpha.report(Take())
    alpha.load()
    assert alpha.host.phase is Phase.SERVING
    beta = takeover(tally.KINDS, alpha.journal, "beta")
    alpha.call("a", *count("a", 1))
    (append,) = alpha.take_out(Append)
    alpha.report(Taken(append.nonce, beta.journal.entries[2]))
    alpha.load()
    assert alpha.host.phase is Phase.FOLLOWING


def test_take_said_before_there_is_a_run_is_over_when_the_run_is_made_here() -> None:
    alpha = Hand(tally.KINDS)
    alpha.load()
    alpha.report(Take())
    alpha.report(Create(created("tally")))
    alpha.land()
    takeover(tally.KINDS, alpha.journal, "beta")
    alpha.call("a", *join("a"))
    (append,) = alpha.take_out(Append)
    alpha.report(Taken(append.nonce, alpha.journal.entries[1]))
    alpha.load()
    assert alpha.host.phase is Phase.FOLLOWING


def test_a_host_that_reads_the_journal_again_does_not_judge_its_rival_meanwhile() -> None:
    beta = follower(tallying("a").journal)
    watch(beta, 2 * SECOND)
    beta.report(Followed(9, []))
    for _ in range(10):
        beta.tick(SECOND)
    assert beta.host.wake_us() is None
    beta.load()
    assert beta.host.phase is Phase.FOLLOWING


def test_whoever_was_sent_on_is_not_answered_here_later_and_not_sent_on_twice() -> None:
    alpha = tallying("a", "b")
    beta = takeover(tally.KINDS, alpha.journal, "beta")
    alpha.call("a", *count("a", 1))
    (append,) = alpha.take_out(Append)
    alpha.report(Taken(append.nonce, beta.journal.entries[3]))
    assert len(byhand.sent(alpha.load(), Moved)) == 2
    gamma = takeover(tally.KINDS, alpha.journal, "gamma")
    assert byhand.sent(alpha.report(Followed(5, gamma.journal.entries[4:]))) == []
    alpha.report(Take())
    assert answers(alpha.land()) == []
    assert alpha.take_out(Append) == []
    alpha.take_out(Beat)
    alpha.tick()
    assert alpha.take_out(Beat) == [Beat("alpha/4", 1)]


def test_a_run_that_nobody_serves_yet_is_taken_after_the_same_wait() -> None:
    made = created("tally", seeding="chain")
    hand = Hand(tally.KINDS, limits=LIMITS)
    batch = byhand.Journal()
    batch.entries = [first_entry_without_a_host(made)]
    hand.journal = batch
    hand.load()
    assert byhand.sent(hand.hello("p", "a")) == [("p", Moved(RUN, 0, ""))]
    watch(hand, 10 * SECOND)
    hand.land()
    assert (head(hand).term, hand.now_us) == (1, 3 * SECOND + 1)


def first_entry_without_a_host(made: RunCreated) -> bytes:
    run = Run.create(tally.KINDS, made)
    return bare_entry(run, (None, made), seed=chain_seed(run.head.digest, 1))


# -- following -----------------------------------------------------------------------------------------------------


def test_a_follower_folds_what_it_sees_whatever_overlaps() -> None:
    alpha = tallying("a")
    beta = follower(alpha.journal)
    for seq in range(1, 5):
        alpha.call("a", *count("a", seq))
        alpha.land()
    entries = alpha.journal.entries
    for first, last in ((1, 3), (2, 4), (4, 6), (1, 6)):
        beta.report(Followed(first, entries[first - 1 : last]))
    assert head(beta).n == 6
    assert beta.host.run.state_digest() == alpha.host.run.state_digest()  # type: ignore[union-attr]


def test_a_follower_that_missed_entries_reads_the_journal_again() -> None:
    alpha = tallying("a")
    beta = follower(alpha.journal)
    for seq in (1, 2):
        alpha.call("a", *count("a", seq))
        alpha.land()
    assert beta.report(Followed(4, alpha.journal.entries[3:])) == [Load()]
    beta.load()
    assert head(beta).n == 4


def test_a_follower_that_sees_the_first_entries_of_all_begins_to_follow() -> None:
    beta = Hand(tally.KINDS, name="beta", limits=LIMITS)
    beta.load()
    alpha = tallying("a")
    beta.report(Followed(1, alpha.journal.entries))
    assert head(beta).n == 2
    assert byhand.sent(beta.hello("p", "a")) == [("p", Moved(RUN, 1, "alpha:7700"))]
    watch(beta, 4 * SECOND)
    assert beta.host.phase is Phase.TAKING


def test_a_follower_that_sees_damage_stops_and_names_it() -> None:
    beta = follower(tallying("a").journal)
    (*_, stop) = beta.report(Followed(3, [b"junk"]))
    assert isinstance(stop, Stop)
    assert stop.code == "journal_corrupt"
    assert beta.host.wake_us() is None


def test_entries_seen_while_one_of_our_own_is_under_way_change_nothing() -> None:
    alpha = tallying("a")
    alpha.call("a", *count("a", 1))
    beta = takeover(tally.KINDS, alpha.journal, "beta")
    assert alpha.report(Followed(3, beta.journal.entries[2:])) == []
    assert alpha.host.phase is Phase.SERVING


def test_our_own_entries_seen_again_change_nothing() -> None:
    hand = tallying("a")
    before = hand.host.run.state_digest()  # type: ignore[union-attr]
    assert hand.report(Followed(1, hand.journal.entries)) == []
    assert hand.host.run.state_digest() == before  # type: ignore[union-attr]
    assert hand.host.phase is Phase.SERVING


def test_a_journal_that_comes_late_is_ignored() -> None:
    hand = tallying("a")
    assert hand.report(Loaded(None, [])) == []
    assert hand.host.phase is Phase.SERVING


def test_a_damaged_journal_stops_the_host_when_it_is_read() -> None:
    alpha = tallying("a")
    beta = Hand(tally.KINDS, alpha.journal, "beta")
    beta.hello("waiting", "a")
    beta.report(Asked("someone"))
    alpha.journal.entries[1] = alpha.journal.entries[1][:-1]
    actions = beta.load()
    assert byhand.sent(actions) == [("waiting", Moved(RUN, 0, ""))]
    assert isinstance(actions[-1], Stop)
    assert actions[-1].code == "journal_corrupt"


def test_rules_may_change_a_host_without_the_rules_of_a_run_refuses_it() -> None:
    journal = tallying("a").journal
    other = Kinds((msgspec.structs.replace(tally.KIND, rules=2),))
    hand = Hand(other, journal)
    (stop,) = hand.load()
    assert isinstance(stop, Stop)
    assert stop.code == "unknown_rules"


def test_a_damaged_snapshot_stops_the_host() -> None:
    alpha = tallying("a")
    saved = alpha.host.run.snapshot()  # type: ignore[union-attr]
    alpha.journal.snapshot = Snapshot(saved.n, saved.root, {})
    beta = Hand(tally.KINDS, alpha.journal, "beta")
    (stop,) = beta.load()
    assert isinstance(stop, Stop)
    assert stop.code == "journal_corrupt"
    assert "is missing" in stop.why


# -- explaining who serves -----------------------------------------------------------------------------------------


def explained(hand: Hand) -> str:
    hand.report(Asked("someone"))
    (answer,) = hand.take_out(Explained)
    return answer.explanation.sentence


def test_whoever_asks_another_host_learns_who_serves() -> None:
    alpha = tallying("a")
    beta = Hand(tally.KINDS, alpha.journal, "beta")
    assert explained(beta) == "the journal is being read"
    beta.load()
    assert "alpha does" in explained(beta)
    nobody = Hand(tally.KINDS)
    nobody.load()
    assert "nobody does" in explained(nobody)


# -- making a run --------------------------------------------------------------------------------------------------


def test_a_run_that_cannot_be_is_not_made_and_leaves_no_trace() -> None:
    hand = Hand(tally.KINDS)
    hand.load()
    bad = [
        (created("tally", {"goal": 0}), ConfigError),
        (created("tally", {"most": 99}), ConfigError),
        (created("parliament"), UnknownRules),
        (created("tally", run="other"), ConfigError),
        (RunCreated(RUN, "tally", 1, {}, label="x" * 300), ConfigError),
    ]
    for made, error in bad:
        with pytest.raises(error):
            hand.report(Create(made))
        assert hand.host.phase is Phase.FOLLOWING
        assert hand.host.run is None
    hand.report(Create(created("tally")))
    hand.land()
    assert hand.host.phase is Phase.SERVING


def test_a_run_is_made_once() -> None:
    hand = tallying("a")
    with pytest.raises(Bug, match="create is for a journal without entries"):
        hand.report(Create(created("tally")))


@pytest.mark.parametrize(("name", "address"), [("", "a:1"), ("x" * 129, "a:1"), ("a", "x" * 257)])
def test_a_host_whose_name_the_journal_cannot_hold_cannot_be_made(name: str, address: str) -> None:
    with pytest.raises(ConfigError):
        Host(RUN, name, address, bytes(32), tally.KINDS)


# -- identity ------------------------------------------------------------------------------------------------------


def test_identity_a_newer_life_displaces_the_older_which_is_told() -> None:
    hand = tallying("a")
    hand.call("new process", *join("a", 1))
    actions = hand.land()
    assert [type(m) for peer, m in byhand.sent(actions) if peer == "a"] == [Told]
    (answer,) = answers(hand.call("a", *count("a", 1)))
    assert answer.code == "superseded"  # type: ignore[union-attr]
    hand.call("b", *join("b"))
    assert {peer for peer, m in byhand.sent(hand.land()) if isinstance(m, Told)} == {"new process", "b"}


def test_identity_the_same_join_again_moves_to_the_connection_it_came_from() -> None:
    hand = tallying("a")
    (answer,) = answers(hand.call("reconnected", *join("a")))
    assert isinstance(answer, Accepted)
    assert hand.host.desk is not None
    assert hand.host.desk.peers == {"a": "reconnected"}
    assert hand.take_out(Append) == []


def test_views_again_on_hello() -> None:
    hand = tallying("a", "b")
    hand.call("b", *count("b", 1, 3))
    hand.land()
    hand.report(byhand.Received("again", Hello(RUN, "a", 1)))
    sent = hand.sent()
    assert [m for peer, m in sent if peer == "again"] == [
        Welcome("a", 1, 1, 4),
        Told("a", 1, "total", {"topic": "total", "total": 3}),
    ]


# -- overload ------------------------------------------------------------------------------------------------------


def test_overload_is_refused_by_name_and_what_waits_is_kept() -> None:
    hand = tallying("a", "b", limits=Limits(max_waiting=2))
    hand.call("a", *count("a", 1))
    hand.call("a", *count("a", 2))
    hand.call("a", *count("a", 3))
    (refused,) = answers(hand.call("b", *count("b", 1)))
    assert refused.code == "overloaded"  # type: ignore[union-attr]
    for actions, topic in ((hand.hello("b", "b", 1), "hello"), (hand.sign("b", tally.Nod("b", 1)), "signal")):
        ((peer, declined),) = byhand.sent(actions, Declined)
        assert (peer, declined.topic, declined.refusal.code) == ("b", topic, "overloaded")  # type: ignore[union-attr]
    hand.land_all()
    assert sheet(hand).total == 3
    hand.call("b", *count("b", 1))
    assert len(answers(hand.land())) == 1


# -- chance and the digest of the state ----------------------------------------------------------------------------


def test_where_the_chain_draws_the_seed_the_host_does_not() -> None:
    hand = serving(tally.KINDS, created("tally", seeding="chain"))
    hand.call("a", *join("a"))
    (append,) = hand.take_out(Append)
    assert entry_of(append).seed == chain_seed(digest(hand.journal.entries[0]), 2)


def test_where_the_host_draws_the_seed_two_hosts_draw_differently() -> None:
    seeds = []
    for name in ("alpha", "beta"):
        hand = takeover(tally.KINDS, byhand_copy(tallying("a").journal), name)
        hand.call("a", *count("a", 1))
        (append,) = hand.take_out(Append)
        seeds.append(entry_of(append).seed)
    assert seeds[0] != seeds[1]


def byhand_copy(journal: byhand.Journal) -> byhand.Journal:
    copy = byhand.Journal()
    copy.entries = list(journal.entries)
    return copy


def test_every_thousandth_entry_carries_the_digest_of_the_state_before_it() -> None:
    hand = tallying("a", goal=10_000)
    for seq in range(1, STATE_DIGEST_EVERY):
        before = hand.host.run.state_digest() if seq == STATE_DIGEST_EVERY - 2 else b""  # type: ignore[union-attr]
        hand.call("a", *count("a", seq))
        (append,) = hand.take_out(Append)
        assert entry_of(append).state == before
        hand.journal.write(append)
        hand.report(Written(append.nonce))
    assert head(hand).n == STATE_DIGEST_EVERY + 1
    again = fold(tally.KINDS, RUN, hand.journal.entries)
    assert again is not None
    assert again.state_digest() == hand.host.run.state_digest()  # type: ignore[union-attr]


def test_a_message_to_a_run_that_is_being_read_waits() -> None:
    hand = Hand(tally.KINDS, tallying("a").journal, "beta")
    assert hand.report(Received("a", Hello(RUN, "a", 1))) == []
    assert byhand.sent(hand.load()) == [("a", Moved(RUN, 1, "alpha:7700"))]


# -- waking --------------------------------------------------------------------------------------------------------


class Sleepy(tally.Nods):
    def wake_us(self) -> int | None:
        return 42 * SECOND


def test_a_host_asks_to_be_woken_when_its_collector_does_and_not_while_an_entry_is_under_way() -> None:
    kinds = Kinds((msgspec.structs.replace(tally.KIND, collector=Sleepy),))
    hand = serving(kinds, created("tally"), Limits(beat_us=100 * SECOND))
    hand.tick()
    assert hand.host.wake_us() == 42 * SECOND
    hand.call("a", *join("a"))
    assert hand.host.wake_us() == 100 * SECOND
    hand.land()
    assert hand.host.wake_us() == 42 * SECOND


def test_a_peer_that_leaves_a_host_which_does_not_serve_is_no_matter() -> None:
    beta = follower(tallying("a").journal)
    assert beta.report(Disconnected("a")) == []

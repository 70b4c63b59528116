"""The fold: the same from any point, refusing what its rules could not have accepted, changing all or nothing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core import histories, tally
from tests.core.scribe import HOST, RUN, Scribe, bare_entry, created, doctored

from quoracy.core.cluster.events import RunRolledBack, WorkerLost, WorkerReady, WorkerRegistered
from quoracy.core.codec import NO_DIGEST, encode
from quoracy.core.dice import Cup
from quoracy.core.errors import Bug, ConfigError, FoldDiverged, JournalCorrupt, Refusal
from quoracy.core.journal import STATE_DIGEST_EVERY, CommandRefused, DutyDone, HostTook, RunCreated, chain_seed
from quoracy.core.kinds import KINDS
from quoracy.core.machine import Applied, Duty, View
from quoracy.core.members import Accepted, Cause, Repeat, command_digest
from quoracy.core.run import Decided, Kinds, Run, UnknownRules, fold

A1 = Cause("a", 1, 1)
NO = Refusal("wrong_state", "no", "wait")


def joined(member: str, life: int = 0) -> tuple[Cause, tally.Joined]:
    return Cause(member, life, 0), tally.Joined(member, life, bytes([life + 1] * 16))


def tallying(config: dict[str, Any] | None = None, *members: str) -> Scribe:
    scribe = Scribe(tally.KINDS, created("tally", config))
    for member in members:
        scribe.write(joined(member))
    return scribe


def code(outcome: object) -> str:
    assert isinstance(outcome, Refusal), outcome
    return outcome.code


def said(outcome: Any) -> Any:
    """An outcome with everybody named who is to be shown something."""
    if not isinstance(outcome, Decided):
        return outcome
    return outcome.answer, [(e.topic, list(e.to)) if isinstance(e, View) else e for e in outcome.effects]


def again(scribe: Scribe, payloads: list[bytes] | None = None) -> Run:
    run = fold(scribe.kinds, RUN, scribe.payloads if payloads is None else payloads)
    assert run is not None
    return run


# -- folding -------------------------------------------------------------------------------------------------------


@settings(max_examples=80)
@given(histories.steps, st.sampled_from(["host", "chain"]))
def test_a_fold_from_a_snapshot_at_any_entry_is_the_fold_in_one_go(entries: Any, seeding: str) -> None:
    scribe = histories.write_history(entries, seeding)
    whole = scribe.run.state_digest()
    run = again(scribe, scribe.payloads[:1])
    for n in range(1, len(scribe.payloads) + 1):
        saved = run.snapshot()
        restored = Run.restore(KINDS, RUN, n, saved.root, saved.pages)
        assert restored.state_digest() == run.state_digest()
        for payload in scribe.payloads[n:]:
            restored.extend(payload)
        assert restored.state_digest() == whole
        if n < len(scribe.payloads):
            run.extend(scribe.payloads[n])
    assert run.state_digest() == whole


@settings(max_examples=60)
@given(histories.steps, histories.steps)
def test_a_restored_run_goes_on_deciding_as_the_one_it_was_taken_from(before: Any, after: Any) -> None:
    live = histories.write_history(before)
    saved = live.run.snapshot()
    other = histories.write_history([])
    other.run = Run.restore(KINDS, RUN, live.run.head.n, saved.root, saved.pages)
    other.payloads = list(live.payloads)
    for entry in after:
        for one in entry:
            pairs = [histories.pair(scribe, *one) for scribe in (live, other)]
            assert pairs[0] == pairs[1]
            if pairs[0] is not None:
                assert said(live.decide(*pairs[0])) == said(other.decide(*pairs[0]))  # type: ignore[misc]
    assert live.run.state_digest() == other.run.state_digest()


def test_no_entries_make_no_run() -> None:
    assert fold(KINDS, RUN, []) is None


def test_entries_go_on_after_a_base() -> None:
    scribe = histories.busy_history()
    base = again(scribe, scribe.payloads[:4])
    assert fold(KINDS, RUN, scribe.payloads[4:], base) is base
    assert base.state_digest() == scribe.run.state_digest()


def test_a_new_run_stands_at_nothing() -> None:
    head = Run.create(KINDS, created("cluster")).head
    assert (head.n, head.digest, head.at_us, head.term, head.host) == (0, NO_DIGEST, 0, 0, "")


def test_an_entry_the_rules_could_not_have_accepted_has_diverged() -> None:
    run = again(tallying(None, "a"))
    with pytest.raises(FoldDiverged, match=r"entry 3 holds Counted, which these rules refuse \(malformed"):
        run.extend(bare_entry(run, (A1, tally.Counted("a", 1, 6))))


def test_an_entry_that_repeats_a_command_has_diverged() -> None:
    scribe = tallying(None, "a")
    scribe.write((A1, tally.Counted("a", 1, 1)))
    run = again(scribe)
    with pytest.raises(FoldDiverged, match="it repeats an earlier command"):
        run.extend(bare_entry(run, (A1, tally.Counted("a", 1, 1))))


def test_events_of_an_entry_draw_from_its_seed_each_at_its_place() -> None:
    scribe = tallying()
    scribe.write(joined("a"), joined("b"))
    run = again(scribe)
    results = [run.roster.members[name].joined.result for name in ("a", "b")]
    seed = msgspec.msgpack.decode(scribe.payloads[1])[4]
    for index, result in enumerate(results):
        cup = Cup(RUN, seed)
        cup.index = index
        assert result == {"incarnation": 1, "luck": cup.dice("luck").below(1000)}
    assert results[0] != results[1]


# -- who writes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("term", "host"), [(0, HOST), (2, HOST), (1, "beta"), (0, "")], ids=["older", "newer", "impostor", "nobody"]
)
def test_an_entry_that_the_serving_host_did_not_write_is_refused(term: int, host: str) -> None:
    run = again(tallying(None, "a"))
    with pytest.raises(JournalCorrupt, match="while 'alpha' serves term 1"):
        run.extend(bare_entry(run, term=term, host=host))


def test_a_host_that_takes_over_writes_in_its_own_term() -> None:
    run = again(tallying())
    run.extend(bare_entry(run, (None, HostTook(2, "beta", "beta:1")), term=2, host="beta"))
    assert (run.head.term, run.head.host, run.head.address) == (2, "beta", "beta:1")
    with pytest.raises(JournalCorrupt, match="written by 'alpha' in term 1, while 'beta' serves term 2"):
        run.extend(bare_entry(run, term=1, host=HOST))


def test_taking_over_in_another_hosts_name_or_term_is_refused() -> None:
    for term, host in ((1, "beta"), (2, HOST)):
        run = again(tallying())
        with pytest.raises(JournalCorrupt, match="was written by"):
            run.extend(bare_entry(run, (None, HostTook(2, "beta")), term=term, host=host))


@pytest.mark.parametrize("term", [1, 3])
def test_terms_follow_each_other_without_gaps(term: int) -> None:
    scribe = tallying()
    refusal = scribe.decide(None, HostTook(term, "beta"))
    assert code(refusal) == "stale_term"
    assert "take term 2" in str(refusal)
    assert (scribe.run.head.term, scribe.run.head.host) == (1, HOST)


def test_a_run_that_nobody_serves_yet_may_be_written_by_anyone() -> None:
    run = Run.create(tally.KINDS, created("tally", seeding="chain"))
    run.extend(bare_entry(run, (None, created("tally", seeding="chain")), seed=chain_seed(NO_DIGEST, 1), host="x"))
    assert run.head.n == 1


# -- chance --------------------------------------------------------------------------------------------------------


def test_where_the_chain_draws_the_seed_no_appender_may_choose_it() -> None:
    scribe = Scribe(tally.KINDS, created("tally", seeding="chain"))
    scribe.write(joined("a"))
    assert again(scribe).state_digest() == scribe.run.state_digest()
    run = again(scribe, scribe.payloads[:1])
    with pytest.raises(JournalCorrupt, match="the seed was chosen by the appender"):
        run.extend(doctored(scribe.payloads[1], seed=bytes(16)))


def test_where_the_host_draws_the_seed_it_may_be_any() -> None:
    scribe = tallying()
    scribe.write(joined("a"))
    run = again(scribe, scribe.payloads[:1])
    run.extend(doctored(scribe.payloads[1], seed=b"x" * 16))
    assert run.head.n == 2


# -- the digest of the state ---------------------------------------------------------------------------------------


class Generous(tally.Tally):
    """The same table, but it adds one more than was counted."""

    def apply(self, event: Any, at_us: int, cup: Cup) -> Applied | Refusal:
        applied = super().apply(event, at_us, cup)
        if isinstance(event, tally.Counted):
            self.sheet.total += 1
        return applied


OTHER = Kinds((msgspec.structs.replace(tally.KIND, create=Generous.create, restore=Generous.restore),))


def test_a_state_digest_that_fits_is_accepted_and_one_that_does_not_has_diverged() -> None:
    scribe = tallying(None, "a")
    scribe.write(state=scribe.run.state_digest())
    assert again(scribe).head.n == 3
    with pytest.raises(FoldDiverged, match="the state before entry 3 differs from the one its host had"):
        again(scribe, [*scribe.payloads[:2], doctored(scribe.payloads[2], state=bytes(32))])


def test_a_machine_that_folds_differently_is_noticed_at_the_next_thousandth_entry() -> None:
    scribe = tallying({"goal": 100_000}, "a")
    while scribe.run.head.n < STATE_DIGEST_EVERY:
        n = scribe.run.head.n + 1
        state = scribe.run.state_digest() if n % STATE_DIGEST_EVERY == 0 else b""
        scribe.write((Cause("a", 1, n - 2), tally.Counted("a", 1, 1)), state=state)
    assert again(scribe).state_digest() == scribe.run.state_digest()
    run = fold(OTHER, RUN, scribe.payloads[:-1])
    assert run is not None
    with pytest.raises(FoldDiverged, match="the state before entry 1000"):
        run.extend(scribe.payloads[-1])


# -- snapshots -----------------------------------------------------------------------------------------------------


def test_a_snapshot_of_rules_that_are_not_known_here_is_refused() -> None:
    saved = tallying().run.snapshot()
    with pytest.raises(UnknownRules, match="rules 1 of kind 'tally' are not known here"):
        Run.restore(KINDS, RUN, 1, saved.root, saved.pages)


def test_a_snapshot_that_lacks_a_section_is_corrupt() -> None:
    saved = tallying().run.snapshot()
    root = msgspec.msgpack.decode(saved.root)
    for name in root[3]:
        less = {kept: pages for kept, pages in root[3].items() if kept != name}
        with pytest.raises(JournalCorrupt, match="the snapshot: cannot be restored"):
            Run.restore(tally.KINDS, RUN, 1, encode([*root[:3], less]), saved.pages)


def test_everything_that_a_run_remembers_survives_in_a_snapshot() -> None:
    scribe = tallying({"goal": 3, "most": 3}, "a", "b")
    scribe.write((Cause("@op", 0, 5), CommandRefused(NO)), (A1, tally.Counted("a", 1, 3)))
    saved = scribe.run.snapshot()
    run = Run.restore(tally.KINDS, RUN, scribe.run.head.n, saved.root, saved.pages)
    assert run.head == scribe.run.head
    assert run.roster == scribe.run.roster
    assert run.duties == {"4.1": Duty("announce", {"total": 3}, 4, 1)}
    cup = Cup(RUN, bytes(16))
    assert run.decide(Cause("@op", 0, 5), tally.Ended("x"), 0, cup, 5) == Repeat(NO)
    assert run.decide(A1, tally.Counted("a", 1, 3), 0, cup, 5) == Repeat(Accepted(4, {"total": 3}))


# -- who may propose what ------------------------------------------------------------------------------------------


def test_what_members_say_needs_the_command_of_a_member() -> None:
    scribe = tallying(None, "a")
    assert code(scribe.decide(None, tally.Counted("a", 1, 1))) == "not_yours"
    assert code(scribe.decide(None, tally.Joined("b", 0, bytes(16)))) == "not_yours"


def test_a_member_speaks_only_for_itself_and_its_own_life() -> None:
    scribe = tallying(None, "a", "b")
    assert code(scribe.decide(A1, tally.Counted("b", 1, 1))) == "contradiction"
    assert code(scribe.decide(A1, tally.Counted("a", 2, 1))) == "contradiction"
    assert isinstance(scribe.decide(A1, tally.Counted("a", 1, 1)), Decided)


@pytest.mark.parametrize("event", [tally.Ended("x"), tally.Agreed(1, ["a"]), HostTook(2, "a"), DutyDone(1, 1)])
def test_a_member_may_not_do_what_is_for_operators_and_hosts(event: Any) -> None:
    refusal = tallying(None, "a").decide(A1, event)
    assert code(refusal) == "not_yours"
    assert f"only the {event.by.value} may do this" in str(refusal)


@pytest.mark.parametrize("event", [tally.Counted("a", 1, 1), tally.Agreed(1, ["a"]), HostTook(2, "a")])
def test_an_operator_may_not_do_what_is_for_members_and_hosts(event: Any) -> None:
    assert code(tallying(None, "a").decide(Cause("@op", 0, 1), event)) == "not_yours"


def test_an_operator_may_do_what_is_for_operators() -> None:
    scribe = tallying(None, "a")
    assert scribe.decide(Cause("@op", 0, 1), tally.Ended("done")) == Decided(Accepted(3))
    assert scribe.decide(Cause("@op", 0, 1), tally.Ended("done")) == Repeat(Accepted(3))


def test_a_joins_cause_is_the_member_the_life_it_follows_and_zero() -> None:
    scribe = tallying(None, "a")
    join = tally.Joined("a", 1, bytes([9] * 16))
    for cause in (Cause("b", 1, 0), Cause("a", 0, 0), Cause("a", 1, 1), Cause("@op", 1, 0)):
        refusal = scribe.decide(cause, join)
        assert code(refusal) == "contradiction"
        assert "must be (a, 1, 0)" in str(refusal)
    assert isinstance(scribe.decide(Cause("a", 1, 0), join), Decided)


def test_an_operator_cannot_join() -> None:
    scribe = tallying()
    assert code(scribe.decide(Cause("@op", 0, 0), tally.Joined("@op", 0, bytes(16)))) == "malformed"


def test_a_join_that_the_machine_refuses_enters_nobody() -> None:
    scribe = tallying()
    scribe.write((Cause("@op", 0, 1), tally.Ended("x")))
    before = scribe.run.state_digest()
    assert code(scribe.decide(*joined("a"))) == "run_closed"
    assert scribe.run.state_digest() == before


def test_a_join_that_is_taken_tells_the_life_it_began() -> None:
    scribe = tallying()
    assert scribe.result(*joined("a"))["incarnation"] == 1
    assert scribe.result(*joined("a", 1))["incarnation"] == 2
    assert code(scribe.decide(A1, tally.Counted("a", 1, 1))) == "superseded"


def test_a_refused_command_is_remembered_and_changes_nothing_else() -> None:
    scribe = tallying(None, "a")
    before = scribe.run.machine.sections()
    assert scribe.decide(A1, CommandRefused(NO)) == Decided(NO)
    assert scribe.decide(A1, tally.Counted("a", 1, 1)) == Repeat(NO)
    assert scribe.run.machine.sections() == before


def test_another_command_under_a_used_number_is_refused_also_after_a_restart() -> None:
    """It would be acknowledged with the answer to the first, and never happen."""
    scribe = tallying(None, "a")
    first, other = tally.Counted("a", 1, 1), tally.Counted("a", 1, 2)
    assert isinstance(scribe.decide(A1, first), Decided)
    for _ in range(2):
        assert isinstance(scribe.decide(A1, first), Repeat)
        refusal = scribe.decide(A1, other)
        assert code(refusal) == "contradiction"
        assert "command 1 of a was another one before" in refusal.why  # type: ignore[union-attr]
        assert "the next is 2" in refusal.fix  # type: ignore[union-attr]
        saved = scribe.run.snapshot()
        scribe.run = Run.restore(tally.KINDS, RUN, saved.n, saved.root, saved.pages)


def test_another_command_under_the_number_of_a_refused_one_is_refused_as_that() -> None:
    scribe = tallying(None, "a")
    first, other = tally.Counted("a", 1, 1), tally.Counted("a", 1, 2)
    scribe.decide(A1, CommandRefused(NO, command_digest(first)))
    assert scribe.decide(A1, first) == Repeat(NO)
    assert code(scribe.decide(A1, other)) == "contradiction"
    assert code(scribe.decide(A1, CommandRefused(NO, command_digest(other)))) == "contradiction"


def test_a_refusal_needs_the_command_it_refuses() -> None:
    assert code(tallying().decide(None, CommandRefused(NO))) == "contradiction"


def test_a_member_out_of_sequence_is_refused_before_anything_else() -> None:
    scribe = tallying(None, "a")
    assert code(scribe.decide(Cause("a", 1, 2), tally.Ended("x"))) == "sequence_gap"
    assert code(scribe.decide(Cause("z", 1, 1), tally.Ended("x"))) == "unknown_member"


def test_what_is_refused_is_not_remembered_by_deciding_alone() -> None:
    scribe = tallying(None, "a")
    assert code(scribe.decide(A1, tally.Counted("a", 1, 6))) == "malformed"
    assert isinstance(scribe.decide(A1, tally.Counted("a", 1, 5)), Decided)


# -- duties --------------------------------------------------------------------------------------------------------


def full() -> Scribe:
    """A tally whose announcement is due as duty 3.0."""
    scribe = tallying({"goal": 3, "most": 3}, "a")
    scribe.write((A1, tally.Counted("a", 1, 3)))
    return scribe


def test_a_duty_stays_in_the_state_under_the_entry_and_place_of_its_event() -> None:
    scribe = full()
    assert scribe.run.duties == {"3.0": Duty("announce", {"total": 3}, 3, 0)}
    assert again(scribe).duties == scribe.run.duties


def test_a_duty_done_is_gone_and_the_machine_learns_its_result() -> None:
    scribe = full()
    scribe.write((None, DutyDone(3, 0, {"by": "crier"})))
    assert scribe.run.duties == {}
    assert scribe.run.machine.sheet.announced == "crier"  # type: ignore[attr-defined]


def test_a_duty_that_is_not_open_cannot_be_done() -> None:
    scribe = full()
    for entry, index in ((3, 1), (2, 0)):
        assert code(scribe.decide(None, DutyDone(entry, index, {"by": "x"}))) == "unknown_duty"
    scribe.write((None, DutyDone(3, 0, {"by": "x"})))
    assert code(scribe.decide(None, DutyDone(3, 0, {"by": "x"}))) == "unknown_duty"


def test_a_result_that_the_machine_refuses_leaves_the_duty_open() -> None:
    scribe = full()
    before = scribe.run.state_digest()
    assert code(scribe.decide(None, DutyDone(3, 0, {}))) == "malformed"
    assert scribe.run.state_digest() == before


class Eager(tally.Tally):
    def apply(self, event: Any, at_us: int, cup: Cup) -> Applied | Refusal:
        return Applied(None, (Duty("one", {}), Duty("two", {})))


def test_an_event_that_wants_two_duties_is_a_bug() -> None:
    kinds = Kinds((msgspec.structs.replace(tally.KIND, create=Eager.create),))
    scribe = Scribe(kinds, created("tally"))
    with pytest.raises(Bug, match="wants two duties"):
        scribe.decide(Cause("@op", 0, 1), tally.Ended("x"))


# -- making a run --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"goal": 0}, "goal"),
        ({"goal": "ten"}, "goal"),
        ({"gaol": 10}, "gaol"),
        ({"most": 11}, "most"),
    ],
)
def test_a_setting_that_cannot_be_is_named(config: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Run.create(tally.KINDS, created("tally", config))
    assert (raised.value.field, raised.value.value) == (field, config[field])


@pytest.mark.parametrize(
    "made",
    [
        RunCreated("", "tally", 1, {}),
        RunCreated("x" * 129, "tally", 1, {}),
        RunCreated(RUN, "tally", 1, {}, label="x" * 257),
        RunCreated(RUN, "tally", 1, {}, seeding="mine"),  # type: ignore[arg-type]
    ],
    ids=["no name", "long name", "long label", "seeding"],
)
def test_a_run_that_nobody_could_read_again_cannot_be_made(made: RunCreated) -> None:
    with pytest.raises(ConfigError):
        Run.create(tally.KINDS, made)


def test_the_newest_rules_of_a_kind_are_those_for_new_runs() -> None:
    newer = msgspec.structs.replace(tally.KIND, rules=2)
    kinds = Kinds((tally.KIND, newer))
    assert kinds.newest("tally") is newer
    assert kinds.get("tally", 1) is tally.KIND
    with pytest.raises(ConfigError, match="choose one of: tally"):
        kinds.newest("parliament")
    with pytest.raises(UnknownRules, match="known: none"):
        Kinds(()).get("tally", 1)


# -- refusing changes nothing --------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(histories.steps, st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 3)), max_size=20))
def test_a_refusal_changes_no_byte_of_the_state(entries: Any, odd: list[tuple[int, int, int]]) -> None:
    scribe = histories.write_history(entries)
    for who, life, seq in odd:
        name = f"w{who}"
        for cause, event in (
            (Cause(name, life, seq), WorkerReady(name, life)),
            (Cause(name, life, 0), WorkerRegistered(name, life, bytes([seq] * 16), b"other")),
            (None, WorkerLost(name, life, 1, "x")),
            (Cause(name, life, seq), RunRolledBack("x")),
        ):
            before = scribe.run.snapshot().root
            outcome = scribe.decide(cause, event)
            if not isinstance(outcome, Decided):
                assert scribe.run.snapshot().root == before

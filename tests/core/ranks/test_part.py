"""Whole ranks over one store: joining, agreeing, being given up, returning, learning, leaving."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.ranks.deck import SECOND, Boat, Sailor

from quoracy.core import asks as ops
from quoracy.core.errors import Bug, ConfigError, Refused
from quoracy.core.journal import decode_entry
from quoracy.core.kinds import PEERLESS
from quoracy.core.members import Cause
from quoracy.core.ranks.events import AttemptDecided, RankJoined, RunStopped
from quoracy.core.ranks.part import Stage
from quoracy.core.ranks.state import Crew
from quoracy.core.run import fold


def crew_of(boat: Boat) -> Crew:
    run = fold(PEERLESS, "demo", boat.entries)
    assert run is not None
    machine: Any = run.machine
    crew: Crew = machine.crew
    return crew


def joined(boat: Boat, rank: int, **how: Any) -> Sailor:
    sailor = boat.sailor(rank, **how)
    sailor.go(sailor.part.join())
    return sailor


# -- in step -------------------------------------------------------------------------------------------------------


def test_ranks_that_begin_together_are_in_step() -> None:
    boat = Boat(form_members=3)
    turns = [sailor.turn for sailor in boat.board(0, 1, 2)]
    assert [(turn.attempt, turn.number, turn.members, turn.index) for turn in turns] == [
        (2, 0, ["0", "1", "2"], index) for index in range(3)
    ]
    assert all(turn.joined and turn.donors == [] for turn in turns)


def test_an_attempt_is_committed_if_all_say_yes_and_repeated_if_one_says_no() -> None:
    boat = Boat(form_members=3)
    crew = boat.board(0, 1, 2)
    for against, number in (((), 1), ((crew[1],), 1), ((), 2)):
        turns = boat.all_vote(*crew, against=against)
        assert {turn.number for turn in turns} == {number}
        assert not any(turn.joined for turn in turns)
    assert {turn.attempt for turn in turns} == {5}


def test_whoever_wrote_the_record_is_named_in_it() -> None:
    boat = Boat(form_members=2)
    crew = boat.board(0, 1)
    for sailor in reversed(crew):
        sailor.go(sailor.part.vote(True))
        boat.pass_s(0.01)
    boat.until(lambda: not crew[1].busy)
    for sailor in crew:
        assert boat.read_on(sailor).decider == "0"


def test_two_that_propose_at_once_adopt_the_same_record() -> None:
    boat = Boat(form_members=2)
    crew = boat.board(0, 1)
    boat.store.miscount[2] = 5
    before = len(boat.entries)
    first, second = boat.all_vote(*crew)
    assert all(any(isinstance(op, ops.Append) for op in sailor.asked) for sailor in crew)
    assert (first.before, first.number) == (second.before, second.number)
    assert len(boat.entries) == before + 1


def test_a_tally_that_is_too_high_lets_nobody_through_early() -> None:
    boat = Boat(form_members=2)
    crew = boat.board(0, 1)
    boat.store.miscount[2] = 5
    crew[0].go(crew[0].part.vote(True))
    boat.pass_s(0.6)
    assert crew[0].busy
    assert crew_of(boat).attempt == 1


def test_a_tally_that_is_too_low_costs_a_look() -> None:
    boat = Boat(form_members=2)
    crew = boat.board(0, 1)
    boat.store.miscount[2] = -9
    began_us = boat.world.now_us
    assert {turn.number for turn in boat.all_vote(*crew)} == {1}
    assert boat.world.now_us - began_us < 2 * crew[0].part.times.wait_s() * SECOND + 10_000


def test_a_vote_that_the_store_lost_is_given_again() -> None:
    boat = Boat(form_members=2)
    crew = boat.board(0, 1)
    crew[0].go(crew[0].part.vote(True))
    boat.pass_s(0.01)
    boat.store.forget_notes()
    boat.pass_s(0.5)
    crew[1].go(crew[1].part.vote(True))
    boat.until(lambda: not any(sailor.busy for sailor in crew), 2)
    assert crew[0].turn.number == 1


@pytest.mark.parametrize("size", [2, 8, 32])
def test_an_iteration_without_faults_costs_at_most_six_operations_a_rank_and_ten(size: int) -> None:
    boat = Boat(form_members=size)
    crew = boat.board(*range(size))
    for _ in range(3):
        before = sum(len(sailor.asked) for sailor in crew)
        boat.all_vote(*crew)
        asked = sum(len(sailor.asked) for sailor in crew) - before
        assert asked <= 6 * size + 10
        assert asked == 2 * size + 1, "a look more than needed"


# -- death and return ----------------------------------------------------------------------------------------------


def test_the_rest_go_on_without_the_dead_within_the_time_and_a_second() -> None:
    boat = Boat(form_members=3)
    crew = boat.board(0, 1, 2)
    crew[2].kill()
    began_us = boat.world.now_us
    turns = boat.all_vote(*crew[:2])
    assert boat.world.now_us - began_us < (boat.dead_s + 1) * SECOND
    assert [turn.members for turn in turns] == [["0", "1"]] * 2
    assert turns[0].before is not None
    assert turns[0].before.gone[0][0] == "2"
    assert "no sign of life" in turns[0].before.gone[0][1]


def test_the_last_one_goes_on_alone() -> None:
    boat = Boat(form_members=3)
    crew = boat.board(0, 1, 2)
    crew[0].kill()
    crew[2].kill()
    (turn,) = boat.all_vote(crew[1])
    assert (turn.members, turn.index, turn.number) == (["1"], 0, 1)


@pytest.mark.parametrize("when", range(9))
def test_a_proposer_that_dies_between_any_two_operations_leaves_nothing_half_done(when: int) -> None:
    boat = Boat(form_members=3)
    crew = boat.board(0, 1, 2)
    left = [when]

    def die(_op: ops.Op) -> None:
        if left[0] == 0:
            crew[2].kill()
        left[0] -= 1

    crew[2].before = die
    boat.sail(lambda: not crew[2].alive)
    again = joined(boat, 2)
    boat.sail(lambda: not again.busy)
    turn = again.turn
    assert (turn.joined, turn.donors, turn.members) == (True, ["0", "1"], ["0", "1", "2"])
    boat.sail(lambda: not again.busy and again.turn.number > turn.number + 3)


def test_a_restarted_rank_supersedes_its_old_life_without_a_time_out() -> None:
    boat = Boat(form_members=2)
    crew = boat.board(0, 1)
    crew[1].kill()
    began_us = boat.world.now_us
    again = joined(boat, 1)
    boat.all_vote(crew[0])
    boat.until(lambda: not again.busy)
    assert boat.world.now_us - began_us < boat.dead_s * SECOND
    assert again.turn.members == ["0", "1"]
    assert again.part.incarnation == 2


def test_one_that_is_given_up_while_it_stood_still_begins_a_new_life() -> None:
    """A false suspicion costs it work, and nobody safety."""
    boat = Boat(form_members=2)
    crew = boat.board(0, 1)
    crew[1].frozen = True
    turn = boat.all_vote(crew[0])[0]
    assert (turn.members, turn.number) == (["0"], 1)
    crew[1].thaw()
    crew[1].go(crew[1].part.vote(False))
    boat.sail(lambda: not crew[1].busy)
    assert crew[1].turn.joined
    assert crew[1].turn.donors == ["0"]
    assert crew[1].part.lives == 2


def test_all_of_them_stopped_for_long_suspect_nobody() -> None:
    boat = Boat(form_members=3)
    crew = boat.board(0, 1, 2)
    for sailor in crew:
        sailor.frozen = True
    boat.pass_s(10)
    for sailor in crew:
        sailor.thaw()
    assert [turn.members for turn in boat.all_vote(*crew)] == [["0", "1", "2"]] * 3


def test_below_min_members_the_rest_wait_for_one_to_come_back() -> None:
    boat = Boat(form_members=3, min_members=2)
    crew = boat.board(0, 1, 2)
    crew[1].kill()
    crew[2].kill()
    crew[0].go(crew[0].part.vote(True))
    boat.pass_s(5)
    assert crew[0].busy
    assert "1 would go on and 2 are needed" in crew[0].peer.explain().sentence
    again = joined(boat, 2)
    boat.until(lambda: not crew[0].busy and not again.busy)
    assert crew[0].turn.members == ["0", "2"]


# -- twins and letters ---------------------------------------------------------------------------------------------


def test_of_two_processes_under_one_rank_the_newer_stays_and_the_older_ends() -> None:
    boat = Boat(form_members=2)
    crew = boat.board(0, 1)
    twin = joined(boat, 1)
    boat.pass_s(1)
    boat.all_vote(crew[0])
    crew[1].go(crew[1].part.vote(True))
    boat.until(lambda: not crew[1].busy and not twin.busy)
    with pytest.raises(Refused, match="another process has taken rank 1"):
        _ = crew[1].turn
    assert crew[1].part.stage is Stage.STOPPED
    assert "1" in twin.turn.members


def test_of_two_that_start_at_once_exactly_one_stays() -> None:
    boat = Boat()
    twins = [joined(boat, 0), joined(boat, 0)]
    boat.pass_s(3)
    for twin in twins:
        if not twin.busy and twin.error is None:
            twin.go(twin.part.vote(True))
    boat.pass_s(5)
    assert sum(twin.error is None for twin in twins) == 1


def test_the_letter_of_a_dead_process_harms_nobody() -> None:
    boat = Boat(form_members=2)
    crew = boat.board(0, 1)
    dead = boat.sailor(2)
    dead.before = lambda op: dead.kill() if isinstance(op, ops.Watch) else None
    dead.go(dead.part.join())
    boat.pass_s(0.1)
    assert not dead.alive
    for _ in range(3):
        boat.all_vote(*crew)
    assert crew[0].turn.members == ["0", "1"]
    assert crew_of(boat).ranks["2"].state.value == "Lost"


def test_letters_are_discarded_by_whoever_wrote_them_in() -> None:
    boat = Boat(form_members=2)
    crew = boat.board(0, 1)
    boat.all_vote(*crew)
    assert boat.store._letters == {}


def test_junk_in_the_mailbox_is_passed_over_and_thrown_away() -> None:
    boat = Boat(form_members=2)
    crew = boat.board(0, 1)
    for number, payload in enumerate((b"", b"\xc1", b"\x93\x01\x02\x03"), start=1):
        boat.store._post(ops.Post(ops.Letter("junk", number, payload)))
    strange = ops.letter("7.x", 1, Cause("7", 0, 0), RankJoined("7x", 0, bytes(16)))
    boat.store._post(ops.Post(strange))
    assert {turn.number for turn in boat.all_vote(*crew)} == {1}
    assert boat.store._letters == {}


def test_a_letter_that_came_before_the_one_its_sender_wrote_earlier_waits() -> None:
    boat = Boat(form_members=2)
    crew = boat.board(0, 1)
    part = crew[1].part
    steps = part.leave("done")
    first: Any = next(steps)
    sender, cause = first.letter.sender, Cause("1", 1, 2)
    gap = ops.letter(sender, first.letter.seq + 1, cause, RunStopped())
    boat.store._post(ops.Post(gap))
    boat.all_vote(*crew)
    assert len(boat.store._letters) == 1


def test_more_letters_than_an_entry_holds_do_not_stop_the_run() -> None:
    boat = Boat(form_members=1)
    (alone,) = boat.board(0)
    for rank in range(1, 900):
        event = RankJoined(str(rank), 0, bytes(16), b"k" * 64, b"p" * 128, address="\N{SHIP}" * 255)
        boat.store._post(ops.Post(ops.letter(f"{rank}.x", 1, Cause(str(rank), 0, 0), event)))
    alone.go(alone.part.vote(True))
    boat.until(lambda: not alone.busy)
    assert alone.turn.number == 1
    assert len(boat.store._letters) + len(crew_of(boat).ranks) == 900
    assert boat.store._letters
    boat.sail(lambda: not boat.store._letters)
    assert len(crew_of(boat).ranks) == 900


@pytest.mark.parametrize("rank", [4, 9])
def test_a_rank_that_the_run_does_not_have_is_refused_at_once(rank: int) -> None:
    boat = Boat(max_ranks=4)
    boat.board(0)
    sailor = joined(boat, rank)
    boat.pass_s(0.1)
    with pytest.raises(Refused, match=f"rank '{rank}' is no number from 0 to 3"):
        _ = sailor.turn


def test_times_that_do_not_fit_the_run_are_refused_at_once() -> None:
    boat = Boat()
    boat.board(0)
    sailor = joined(boat, 1, t_dead_s=30.0)
    boat.pass_s(0.1)
    with pytest.raises(ConfigError, match=r"t_dead_s = 30.0: the run was created with 1.2"):
        _ = sailor.turn


# -- leaving, learning, the end ------------------------------------------------------------------------------------


def test_one_that_says_goodbye_is_not_waited_for() -> None:
    boat = Boat(form_members=2)
    crew = boat.board(0, 1)
    crew[1].go(crew[1].part.leave("enough"))
    boat.pass_s(0.01)
    crew[1].kill()
    began_us = boat.world.now_us
    assert boat.all_vote(crew[0])[0].members == ["0"]
    assert boat.world.now_us - began_us < boat.dead_s * SECOND
    assert crew_of(boat).ranks["1"].reason == "enough"


def test_a_learner_has_donors_and_nobody_waits_for_its_download() -> None:
    boat = Boat(form_members=2)
    crew = boat.board(0, 1)
    learner = joined(boat, 2, learner=True)
    boat.until(lambda: not learner.busy)
    assert (learner.turn.index, learner.turn.donors, learner.part.stage) == (-1, ["0", "1"], Stage.LEARNER)
    for _ in range(3):
        boat.all_vote(*crew)
    learner.go(learner.part.ready())
    boat.pass_s(0.5)
    boat.all_vote(*crew)
    boat.until(lambda: not learner.busy)
    turn = learner.turn
    assert (turn.number, turn.members, turn.joined, turn.donors) == (4, ["0", "1", "2"], True, ["0", "1"])


def test_a_learner_whose_donors_are_all_gone_begins_with_what_there_is() -> None:
    boat = Boat()
    (first,) = boat.board(0)
    learner = joined(boat, 1, learner=True)
    boat.until(lambda: not learner.busy)
    first.kill()
    learner.go(learner.part.ready())
    boat.until(lambda: not learner.busy)
    assert (learner.turn.members, learner.turn.donors, learner.turn.number) == (["1"], [], 0)


def stop(boat: Boat) -> None:
    boat.store._post(ops.Post(ops.letter("@op", 1, Cause("@op", 0, 1), RunStopped("enough"))))


def test_a_run_that_is_stopped_ends_for_everybody_who_waits() -> None:
    boat = Boat(form_members=2)
    crew = boat.board(0, 1)
    stop(boat)
    for sailor in crew:
        sailor.go(sailor.part.vote(True))
    boat.until(lambda: not any(sailor.busy for sailor in crew))
    for sailor in crew:
        with pytest.raises(Refused, match="the run is over: enough"):
            _ = sailor.turn
        assert sailor.part.stage is Stage.STOPPED


def test_one_that_reads_of_its_commit_and_of_the_end_together_is_told_of_the_commit() -> None:
    """Or it would end without a step that the others took."""
    boat = Boat(form_members=2)
    crew = boat.board(0, 1)
    crew[0].go(crew[0].part.vote(True))
    boat.pass_s(0.01)
    crew[0].frozen = True
    crew[1].go(crew[1].part.vote(True))
    boat.until(lambda: not crew[1].busy)
    stop(boat)
    crew[1].go(crew[1].part.vote(True))
    boat.until(lambda: not crew[1].busy)
    crew[0].thaw()
    boat.until(lambda: not crew[0].busy)
    assert crew[0].turn.number == 1
    crew[0].go(crew[0].part.vote(True))
    boat.until(lambda: not crew[0].busy)
    with pytest.raises(Refused, match="the run is over"):
        _ = crew[0].turn


# -- snapshots -----------------------------------------------------------------------------------------------------


def test_one_that_finds_its_entries_gone_in_the_middle_of_a_vote_reads_anew_and_goes_on() -> None:
    boat = Boat(form_members=2, snapshot_every=4)
    crew = boat.board(0, 1)
    crew[1].go(crew[1].part.vote(True))
    crew[1].frozen = True
    for _ in range(8):
        boat.all_vote(crew[0])
    assert boat.store.compactions
    crew[1].thaw()
    boat.pass_s(0.5)
    boat.all_vote(crew[0])
    boat.until(lambda: not crew[1].busy)
    assert sum(isinstance(op, ops.Load) for op in crew[1].asked) == 2
    assert crew[1].turn.members == ["0", "1"]
    for _ in range(2):
        crew[1].go(crew[1].part.vote(True))
        boat.pass_s(0.01)
        boat.all_vote(crew[0])
        boat.until(lambda: not crew[1].busy)


def test_one_that_read_anew_decides_under_its_own_name() -> None:
    boat = Boat(form_members=2, snapshot_every=4)
    crew = boat.board(0, 1)
    crew[1].frozen = True
    for _ in range(8):
        boat.all_vote(crew[0])
    crew[1].thaw()
    crew[0].kill()
    crew[1].go(crew[1].part.vote(True))
    boat.until(lambda: not crew[1].busy)
    boat.all_vote(crew[1])
    assert boat.read_on(crew[1]).decider == "1"


def test_one_that_stood_still_before_it_began_the_run_finds_what_others_made() -> None:
    boat = Boat(snapshot_every=4)
    late = boat.sailor(1)
    late.before = lambda op: setattr(late, "frozen", isinstance(op, ops.Load))
    late.go(late.part.join())
    late.before = lambda _op: None
    (first,) = boat.board(0)
    for _ in range(6):
        boat.all_vote(first)
    late.thaw()
    boat.pass_s(0.5)
    boat.all_vote(first)
    boat.until(lambda: not late.busy)
    assert late.turn.members == ["0", "1"]


# -- duties --------------------------------------------------------------------------------------------------------


def test_a_duty_is_done_by_one_and_everybody_gets_the_same() -> None:
    boat = Boat(form_members=3)
    crew = boat.board(0, 1, 2)
    made: list[str] = []

    def make(sailor: Sailor) -> bytes:
        made.append(sailor.peer.me)
        return b"id of " + sailor.peer.me.encode()

    for sailor in crew:
        sailor.go(sailor.part.once("group", lambda sailor=sailor: make(sailor)))  # type: ignore[misc]
    boat.until(lambda: not any(sailor.busy for sailor in crew))
    turn = crew[0].part._trying()
    assert turn.before is not None
    assert made == [turn.before.decider]
    assert {sailor.result for sailor in crew} == {b"id of " + made[0].encode()}


def test_a_duty_that_the_one_named_does_not_do_is_done_by_another_and_the_first_counts() -> None:
    boat = Boat(form_members=3)
    crew = boat.board(0, 1, 2)
    turn = crew[0].turn
    assert turn.before is not None
    named = crew[int(turn.before.decider)]
    others = [sailor for sailor in crew if sailor is not named]
    began_us = boat.world.now_us
    for sailor in others:
        sailor.go(sailor.part.once("group", sailor.peer.me.encode))
    boat.until(lambda: not any(sailor.busy for sailor in others))
    waited_us = boat.world.now_us - began_us
    help_us = named.part.times.help_s * SECOND
    assert help_us <= waited_us < help_us + 2 * named.part.times.wait_s() * SECOND
    named.go(named.part.once("group", lambda: b"too late"))
    boat.until(lambda: not named.busy)
    assert {sailor.result for sailor in crew} == {others[0].peer.me.encode()}


def test_a_duty_is_no_command_and_goes_with_its_attempt() -> None:
    boat = Boat(form_members=2)
    crew = boat.board(0, 1)
    for sailor in crew:
        sailor.go(sailor.part.once("group", lambda: b"x"))
    boat.until(lambda: not any(sailor.busy for sailor in crew))
    joined(boat, 2)
    boat.pass_s(1)
    assert [slot[0] for slot in boat.store._letters] == ["duty/group"]
    boat.all_vote(*crew)
    assert boat.store._letters == {}
    assert not boat.store._post(ops.Post(ops.Letter("duty/group", 2, b"resurrected")))


def test_one_whose_attempt_went_on_without_it_is_told_so_and_can_vote_to_return() -> None:
    boat = Boat(form_members=2)
    crew = boat.board(0, 1)
    crew[1].frozen = True
    boat.all_vote(crew[0])
    boat.all_vote(crew[0])
    crew[1].thaw()
    crew[1].go(crew[1].part.once("group", lambda: b"zombie's"))
    boat.until(lambda: not crew[1].busy)
    assert isinstance(crew[1].error, Refused) or crew[1].result == b"zombie's"
    crew[1].go(crew[1].part.vote(True))
    boat.pass_s(1)
    boat.all_vote(crew[0])
    boat.until(lambda: not crew[1].busy)
    assert crew[1].turn.joined


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "é", "a\n"])
def test_a_duty_has_a_plain_name(name: str) -> None:
    (alone,) = Boat().board(0)
    alone.go(alone.part.once(name, lambda: b""))
    assert isinstance(alone.error, ConfigError)


def test_a_learner_and_one_that_has_not_joined_have_no_duties_and_no_vote() -> None:
    sailor = Boat().sailor(0)
    for steps in (sailor.part.vote(True), sailor.part.once("x", lambda: b"")):
        sailor.go(steps)
        assert isinstance(sailor.error, Bug)


def test_an_entry_holds_letters_and_at_most_one_record() -> None:
    boat = Boat(form_members=3)
    crew = boat.board(0, 1, 2)
    new = joined(boat, 3)
    crew[0].go(crew[0].part.leave("enough"))
    boat.sail(lambda: not new.busy and new.turn.number > 2)
    kind = PEERLESS.newest("ranks")
    for n, payload in enumerate(boat.entries[1:], start=2):
        recorded = PEERLESS.decoder(kind).decode(decode_entry(payload, "demo", n).events)
        records = [place for place, (_, event) in enumerate(recorded) if isinstance(event, AttemptDecided)]
        assert records in ([], [len(recorded) - 1])


def test_a_rank_says_at_which_stage_it_is_and_what_it_waits_for() -> None:
    boat = Boat(form_members=2)
    one, other = boat.board(0, 1)
    assert one.part.explain().startswith("rank 0 is in stage NewIteration; attempt 2 of iteration 0 (0 of 2 ranks")
    one.go(one.part.vote(True))
    boat.pass_s(0.01)
    assert one.part.explain().startswith("rank 0 is in stage Ready; attempt 2 of iteration 0")
    other.kill()
    boat.until(lambda: one.part.stage is Stage.CONSENSUS)
    assert one.part.explain().startswith("rank 0 is in stage Consensus; attempt 2 of iteration 0 (1 of 2 ranks")
    assert "waits for rank 1 (alive)" in one.part.explain()

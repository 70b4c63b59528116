"""The decision log as people and programs read it: every attempt, who was in, who came and went, each phase."""

from __future__ import annotations

from tests.core.ranks.deck import RUN, Boat

from quoracy.cli.decision_log import as_object, log_rows, ranges, sentences, stretches
from quoracy.core.ranks.state import Decision
from quoracy.hosts.decisions import Line, Phases, restored
from quoracy.hosts.onlooker import Onlooker
from quoracy.hosts.peerless import Shared
from quoracy.ports import Append
from quoracy.stores import MemoryJournal, MemoryMailbox, MemoryPulse

EVERYBODY = ["0", "1", "2"]


def usual(attempt: int, decider: str = "1", training_us: int = 5_000) -> Line:
    decision = Decision(attempt, attempt - 2, "committed", decider, EVERYBODY, [], [], [], attempt * 20_000, 3_000, "2")
    return Line(decision, was_in=EVERYBODY, learners=[], phases=Phases(training_us, 2_000, 1_000))


def formed() -> Line:
    decision = Decision(1, 0, "formed", "0", EVERYBODY, [], [], EVERYBODY, 20_000, 0, "")
    return Line(decision, joined=EVERYBODY, learners=[], phases=Phases(0, 20_000, 0))


def faulty(attempt: int) -> Line:
    gone = [("2", "no sign of life for 3.0 s")]
    decision = Decision(
        attempt, attempt - 2, "repeated", "0", ["0", "4"], ["0"], gone, ["4"], 3_200_000, 3_001_000, "1"
    )
    return Line(
        decision, left=[("1", "SIGTERM")], was_in=EVERYBODY, learners=["5"], phases=Phases(7_000, 500_000, 2_500_000)
    )


def printed(lines: list[Line], fold: bool) -> list[str]:
    return [row.plain for row in log_rows(stretches(lines, fold))]


def test_a_row_says_who_was_in_who_decided_who_left_and_why_and_how_long_each_phase_took() -> None:
    assert printed([faulty(5)], fold=False) == [
        "   at  attempt  of  outcome   by  in    train    wait  decide  last",
        "3.2 s        5   3  repeated   0  0-2  7.0 ms  500 ms   2.5 s     1",
        "  2 given up: no sign of life for 3.0 s; 1 left: SIGTERM; no from 0; counted in 4; learning: 5",
    ]


def test_attempts_in_which_nothing_happened_are_one_row_with_medians() -> None:
    lines = [formed(), usual(2, training_us=4_000), usual(3, "0", 6_000), usual(4, training_us=9_000), faulty(5)]
    assert printed(lines, fold=True)[1:5] == [
        "20 ms        1    0  formed      0  none    0 ms   20 ms    0 ms",
        "  counted in 0-2",
        "80 ms      2-4  0-2  committed      0-2   6.0 ms  2.0 ms  1.0 ms",
        "  by 1 (2), 0 (1)",
    ]
    assert len(printed(lines, fold=False)) == 1 + len(lines) + 2


def test_the_same_as_sentences_names_every_attempt() -> None:
    assert sentences([formed(), usual(2), usual(3), faulty(4)]) == [
        "attempt 1 of iteration 0: formed by 0; in nobody; training 0 ms, waiting 20 ms, deciding 0 ms; counted in 0-2",
        ("attempts 2-3 of iterations 0-1: committed by 1 (2); in 0-2; median training 5.0 ms, waiting 2.0 ms, "
        "deciding 1.0 ms"),
        ("attempt 4 of iteration 2: repeated by 0; in 0-2; training 7.0 ms, waiting 500 ms, deciding 2.5 s; "
        "2 given up: no sign of life for 3.0 s; 1 left: SIGTERM; no from 0; counted in 4; learning: 5"),
    ]  # fmt: skip


def test_usual_attempts_with_others_in_them_are_told_apart() -> None:
    other = usual(3)
    other.was_in = ["0", "1"]
    assert [len(each) for each in stretches([usual(2), other, usual(5)], fold=True)] == [1, 1, 1]


def test_a_program_gets_names_and_phases() -> None:
    shown = as_object(faulty(5))
    assert (shown["in"], shown["members"], shown["learners"]) == (EVERYBODY, ["0", "4"], ["5"])
    assert shown["gone"] == [{"rank": "2", "why": "no sign of life for 3.0 s"}]
    assert (shown["training_us"], shown["waiting_us"], shown["deciding_us"]) == (7_000, 500_000, 2_500_000)


def test_ranks_that_follow_each_other_are_one_span() -> None:
    assert ranges(["0", "1", "2", "5", "10", "11"]) == "0-2 5 10-11"
    assert ranges([]) == ""


def logged(boat: Boat) -> list[Line]:
    journal = MemoryJournal()
    for n, payload in enumerate(boat.entries, start=1):
        journal.append([Append(RUN, n, payload)])
    return Onlooker(Shared(journal, MemoryPulse(), MemoryMailbox()), RUN, "memory").lines


def test_the_phases_of_an_attempt_are_those_that_went_by() -> None:
    """The first is done after 0.1 s, the last 0.2 s later, and the last one decides: nobody saw anything before."""
    boat = Boat()
    first, second = boat.board(0, 1)
    attempt = first.turn.attempt
    boat.pass_s(0.1)
    first.go(first.part.vote(True))
    boat.pass_s(0.2)
    second.go(second.part.vote(True))
    boat.until(lambda: not first.busy and not second.busy)
    boat.read_on(first)
    line = next(line for line in logged(boat) if line.decision.attempt == attempt)
    assert (line.was_in, line.decision.decider, line.decision.last_to_come) == (["0", "1"], "1", "1")
    assert abs(line.phases.training_us - 100_000) < 5_000
    assert abs(line.phases.waiting_us - 200_000) < 5_000
    assert line.phases.deciding_us is not None
    assert line.phases.deciding_us < 5_000


def test_where_somebody_is_given_up_the_time_went_by_after_the_last_arrival() -> None:
    boat = Boat(dead_s=1.2)
    first, second = boat.board(0, 1)
    second.kill()
    boat.pass_s(0.1)
    boat.all_vote(first)
    boat.read_on(first)
    line = logged(boat)[-1]
    assert [rank for rank, _ in line.decision.gone] == ["1"]
    assert line.was_in == ["0", "1"]
    assert line.decision.members == ["0"]
    assert line.phases.deciding_us is not None
    assert line.phases.deciding_us > 900_000
    assert abs(line.phases.training_us - 100_000) < 5_000


def test_what_a_snapshot_has_of_an_attempt_is_shown_without_what_it_has_not() -> None:
    first, second = restored([usual(2).decision, usual(3).decision])
    assert (first.was_in, second.was_in) == (EVERYBODY, EVERYBODY)
    assert second.phases == Phases(17_000, 3_000, None)
    assert second.learners is None
    assert as_object(second)["deciding_us"] is None
    assert sentences([second])[0].endswith("in 0-2; training 17 ms, waiting 3.0 ms")

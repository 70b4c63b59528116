"""Who is who: joining as a compare-and-set, and answers that are given once and remembered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quoracy.core.errors import Refusal
from quoracy.core.members import MAX_OPERATOR_ANSWERS, Accepted, Answer, Cause, Repeat, Roster, superseded

KEY = b"key"


def nonce(life: int) -> bytes:
    return life.to_bytes(16, "big")


def join(roster: Roster, member: str, supersedes: int, life: int, key: bytes = KEY) -> Refusal | Repeat | Accepted:
    before = roster.check_join(member, supersedes, nonce(life), key)
    if before is not None:
        return before
    joined = Accepted(life, {"life": life})
    roster.enter(member, nonce(life), key, joined)
    return joined


def code(outcome: object) -> str:
    assert isinstance(outcome, Refusal), outcome
    return outcome.code


def test_the_first_join_begins_incarnation_one() -> None:
    roster = Roster(10)
    assert join(roster, "a", 0, 1) == Accepted(1, {"life": 1})
    assert roster.members["a"].incarnation == 1


def test_a_join_that_follows_the_newest_life_begins_the_next() -> None:
    roster = Roster(10)
    join(roster, "a", 0, 1)
    assert isinstance(join(roster, "a", 1, 2), Accepted)
    assert roster.members["a"].incarnation == 2


def test_a_delayed_duplicate_of_an_old_join_cannot_displace_the_life_after_it() -> None:
    roster = Roster(10)
    join(roster, "a", 0, 1)
    join(roster, "a", 1, 2)
    assert code(join(roster, "a", 0, 1)) == "stale_join"
    assert roster.members["a"].nonce == nonce(2)


@pytest.mark.parametrize("supersedes", [0, 2, 7])
def test_a_join_that_follows_any_other_life_than_the_newest_is_stale(supersedes: int) -> None:
    roster = Roster(10)
    join(roster, "a", 0, 1)
    refusal = roster.check_join("a", supersedes, nonce(9), KEY)
    assert code(refusal) == "stale_join"
    assert "incarnation 1" in str(refusal)


def test_a_first_join_cannot_follow_a_life_that_never_was() -> None:
    assert code(Roster(10).check_join("a", 1, nonce(1), KEY)) == "stale_join"


def test_the_same_join_sent_twice_is_answered_alike() -> None:
    roster = Roster(10)
    join(roster, "a", 0, 1)
    assert join(roster, "a", 0, 1) == Repeat(Accepted(1, {"life": 1}))
    join(roster, "a", 1, 2)
    assert join(roster, "a", 1, 2) == Repeat(Accepted(2, {"life": 2}))


def test_an_id_is_bound_to_the_key_of_its_first_join() -> None:
    roster = Roster(10)
    join(roster, "a", 0, 1)
    assert code(join(roster, "a", 1, 2, key=b"another")) == "key_mismatch"
    assert code(join(roster, "a", 1, 2, key=b"")) == "key_mismatch"
    assert isinstance(join(roster, "a", 1, 2), Accepted)
    assert code(join(roster, "a", 2, 3, key=b"another")) == "key_mismatch"


def test_an_id_that_joined_without_a_key_stays_without() -> None:
    roster = Roster(10)
    join(roster, "a", 0, 1, key=b"")
    assert code(join(roster, "a", 1, 2)) == "key_mismatch"


def test_a_new_life_has_said_nothing_yet() -> None:
    roster = Roster(10)
    join(roster, "a", 0, 1)
    roster.remember(Cause("a", 1, 1), Accepted(5))
    join(roster, "a", 1, 2)
    assert (roster.members["a"].seq, roster.members["a"].answer) == (0, None)
    assert roster.check_cause(Cause("a", 2, 1)) is None


def test_a_full_roster_takes_no_new_id_but_known_ones_come_back() -> None:
    roster = Roster(2)
    join(roster, "a", 0, 1)
    join(roster, "b", 0, 1)
    assert code(join(roster, "c", 0, 1)) == "roster_full"
    assert isinstance(join(roster, "a", 1, 2), Accepted)


@pytest.mark.parametrize("member", ["@a", "a b", "a/b", "a\n", "ä", "a\0", "a:b", "a'", "​"])
def test_an_id_of_other_than_plain_characters_is_refused(member: str) -> None:
    refusal = Roster(10).check_join(member, 0, nonce(1), KEY)
    assert code(refusal) == "malformed"
    assert repr(member) in str(refusal)


@given(st.text("abcXYZ019._-", min_size=1, max_size=64))
def test_an_id_of_plain_characters_is_taken(member: str) -> None:
    assert Roster(10).check_join(member, 0, nonce(1), KEY) is None


def test_commands_are_numbered_from_one_without_gaps() -> None:
    roster = Roster(10)
    join(roster, "a", 0, 1)
    refusal = roster.check_cause(Cause("a", 1, 2))
    assert code(refusal) == "sequence_gap"
    assert "send command 1 first" in str(refusal)
    assert code(roster.check_cause(Cause("a", 1, 0))) == "sequence_gap"
    assert roster.check_cause(Cause("a", 1, 1)) is None


@pytest.mark.parametrize("answer", [Accepted(7, {"rank": 3}), Refusal("wrong_state", "no", "wait")])
def test_the_last_command_again_gets_the_same_answer(answer: Answer) -> None:
    roster = Roster(10)
    join(roster, "a", 0, 1)
    roster.remember(Cause("a", 1, 1), answer)
    assert roster.check_cause(Cause("a", 1, 1)) == Repeat(answer)
    assert roster.check_cause(Cause("a", 1, 2)) is None


def test_a_command_before_the_last_one_is_forgotten() -> None:
    roster = Roster(10)
    join(roster, "a", 0, 1)
    for seq in (1, 2, 3):
        roster.remember(Cause("a", 1, seq), Accepted(seq))
    assert code(roster.check_cause(Cause("a", 1, 2))) == "answer_forgotten"
    assert code(roster.check_cause(Cause("a", 1, 0))) == "answer_forgotten"


def test_answers_of_one_member_are_not_those_of_another() -> None:
    roster = Roster(10)
    join(roster, "a", 0, 1)
    join(roster, "b", 0, 1)
    roster.remember(Cause("a", 1, 1), Accepted(7))
    assert roster.check_cause(Cause("b", 1, 1)) is None


def test_a_stranger_must_join_first() -> None:
    assert code(Roster(10).check_cause(Cause("a", 1, 1))) == "unknown_member"


def test_an_older_life_is_told_that_it_is_superseded_and_a_future_one_that_it_does_not_exist() -> None:
    roster = Roster(10)
    join(roster, "a", 0, 1)
    join(roster, "a", 1, 2)
    assert code(roster.check_cause(Cause("a", 1, 1))) == "superseded"
    assert code(roster.check_cause(Cause("a", 3, 1))) == "contradiction"
    assert "exit" in superseded("a", 1, 2).fix


def test_an_operators_repeat_gets_the_same_answer() -> None:
    roster = Roster(10)
    refusal = Refusal("wrong_state", "no", "wait")
    assert roster.check_cause(Cause("@me", 0, 77)) is None
    roster.remember(Cause("@me", 0, 77), refusal)
    assert roster.check_cause(Cause("@me", 0, 77)) == Repeat(refusal)
    assert roster.check_cause(Cause("@me", 0, 3)) is None


def test_the_nonce_of_a_join_does_not_stand_for_its_key() -> None:
    roster = Roster(10)
    roster.enter("a", b"n" * 16, b"mine", Accepted(1))
    assert roster.check_join("a", 0, b"n" * 16, b"mine") == Repeat(Accepted(1))
    assert code(roster.check_join("a", 0, b"n" * 16, b"another")) == "key_mismatch"


def test_an_operators_number_does_not_mean_two_commands() -> None:
    roster = Roster(10)
    roster.remember(Cause("@me", 5, 77), Accepted(3))
    assert roster.check_cause(Cause("@me", 5, 77)) == Repeat(Accepted(3))
    assert code(roster.check_cause(Cause("@me", 6, 77))) == "contradiction"


def test_two_operators_with_the_same_number_are_two_commands() -> None:
    roster = Roster(10)
    roster.remember(Cause("@alice", 0, 7), Accepted(3))
    assert roster.check_cause(Cause("@bob", 0, 7)) is None
    assert roster.check_cause(Cause("@alice", 0, 7)) == Repeat(Accepted(3))


def test_of_operators_answers_the_newest_are_kept_and_the_oldest_goes_first() -> None:
    roster = Roster(10)
    for seq in range(MAX_OPERATOR_ANSWERS):
        roster.remember(Cause("@me", 0, seq), Accepted(seq))
    assert roster.check_cause(Cause("@me", 0, 0)) == Repeat(Accepted(0))
    roster.remember(Cause("@me", 0, 10_000), Accepted(9))
    assert len(roster.operator_answers) == MAX_OPERATOR_ANSWERS
    assert roster.check_cause(Cause("@me", 0, 0)) is None
    assert roster.check_cause(Cause("@me", 0, 1)) == Repeat(Accepted(1))
    assert roster.check_cause(Cause("@me", 0, 10_000)) == Repeat(Accepted(9))


def test_operators_leave_no_trace_among_the_members() -> None:
    roster = Roster(10)
    roster.remember(Cause("@me", 0, 1), Accepted(1))
    assert roster.members == {}


class TwinRoster:
    """Keeps every join and every answer there ever was, and looks through all of them."""

    def __init__(self) -> None:
        self.joins: list[tuple[str, int, int]] = []
        self.answers: dict[tuple[str, int, int], int] = {}

    def newest(self, member: str) -> int:
        return max((life for name, life, _ in self.joins if name == member), default=0)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("join"), st.sampled_from("ab"), st.integers(0, 3), st.integers(1, 4)),
            st.tuples(st.just("say"), st.sampled_from("ab"), st.integers(0, 4), st.integers(0, 4)),
        ),
        max_size=40,
    )
)
def test_the_roster_decides_as_its_dumb_twin_does(steps: list[tuple[str, str, int, int]]) -> None:
    roster, twin = Roster(10), TwinRoster()
    for at, (what, member, first, second) in enumerate(steps):
        newest = twin.newest(member)
        if what == "join":
            current = next((n for name, life, n in reversed(twin.joins) if name == member and life == newest), None)
            if current == second:
                assert isinstance(roster.check_join(member, first, nonce(second), KEY), Repeat)
            elif first == newest:
                assert isinstance(join(roster, member, first, second), Accepted)
                twin.joins.append((member, newest + 1, second))
            else:
                assert code(join(roster, member, first, second)) == "stale_join"
            continue
        cause = Cause(member, first, second)
        said = [seq for name, life, seq in twin.answers if (name, life) == (member, first)]
        outcome = roster.check_cause(cause)
        if newest == 0:
            assert code(outcome) == "unknown_member"
        elif first != newest:
            assert code(outcome) == ("contradiction" if first > newest else "superseded")
        elif second == len(said) + 1:
            assert outcome is None
            roster.remember(cause, Accepted(at))
            twin.answers[member, first, second] = at
        elif said and second == len(said):
            assert outcome == Repeat(Accepted(twin.answers[member, first, second]))
        else:
            assert code(outcome) == ("answer_forgotten" if second < len(said) else "sequence_gap")


def brought(roster: Roster, member: str, token: str, most: int) -> str:
    """Joins, if the token lets it; what it is refused as."""
    known = roster.members.get(member)
    supersedes = 0 if known is None else known.incarnation
    assert roster.check_join(member, supersedes, nonce(7), KEY) is None
    refusal = roster.check_token(member, token, most)
    if refusal is None:
        roster.enter(member, nonce(supersedes + 100), KEY, Accepted(1), token)
    return "" if refusal is None else refusal.code


def test_a_token_brings_as_many_ids_as_it_may_and_a_restored_roster_counts_alike() -> None:
    roster = Roster(100)
    assert [brought(roster, name, "t", 2) for name in "abc"] == ["", "", "too_many_ids"]
    assert brought(roster, "a", "t", 2) == "", "a known id costs nothing"
    assert brought(roster, "a", "u", 1) == "", "and stays the first token's"
    assert brought(roster, "d", "u", 1) == ""
    assert [brought(roster, f"n{i}", "", 0) for i in range(5)] == [""] * 5, "without a token nothing is counted"
    again = Roster(100, dict(roster.members))
    assert again.brought == roster.brought == {"t": 2, "u": 1}
    assert brought(again, "e", "t", 2) == brought(again, "f", "u", 1) == "too_many_ids"

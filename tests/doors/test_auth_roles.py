"""Who may do what: the whole table, cell by cell."""

from __future__ import annotations

import pytest

from quoracy.doors.auth import ANYONE, Action, Identity, Role
from quoracy.doors.roles import _TABLE

ALLOWED = {
    ("member", "join"), ("member", "look"),
    ("viewer", "look"),
    ("operator", "look"), ("operator", "operate"), ("operator", "create"),
    ("admin", "join"), ("admin", "look"), ("admin", "operate"), ("admin", "create"), ("admin", "administer"),
}  # fmt: skip


def test_every_role_answers_for_every_action() -> None:
    assert set(_TABLE) == {(role, action) for role in Role for action in Action}


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("action", Action)
def test_a_role_allows_what_the_table_says(role: Role, action: Action) -> None:
    assert role.allows(action) is ((role.value, action.value) in ALLOWED)


def test_a_refusal_names_the_role_and_what_it_does_not_allow() -> None:
    refusal = Identity(Role.VIEWER).check(Action.OPERATE, "bert")
    assert refusal is not None
    assert refusal.code == "forbidden"
    assert refusal.why == "the role viewer does not allow to operate"


@pytest.mark.parametrize(
    ("pattern", "run", "covered"),
    [
        ("*", "bert", True),
        ("bert", "bert", True),
        ("bert", "bert-2", False),
        ("bert", "Bert", False),
        ("bert-*", "bert-2", True),
        ("bert-*", "bert-", True),
        ("bert-*", "bert", False),
        ("[a-z]", "b", False),
        ("b?rt", "bert", False),
    ],
)
def test_a_token_is_for_the_runs_its_pattern_says(pattern: str, run: str, covered: bool) -> None:
    identity = Identity(Role.MEMBER, pattern)
    assert identity.covers(run) is covered
    refusal = identity.check(Action.JOIN, run)
    assert (refusal is None) is covered
    assert refusal is None or refusal.code == "forbidden"


def test_without_a_run_only_the_role_counts() -> None:
    assert Identity(Role.VIEWER, "bert").check(Action.LOOK) is None


def test_where_no_tokens_are_asked_anyone_may_do_anything() -> None:
    assert [action for action in Action if ANYONE.check(action, "bert") is not None] == []

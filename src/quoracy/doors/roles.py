"""Who may do what. One table, total: every role answers for every action."""

from __future__ import annotations

from enum import Enum
from typing import Final


class Action(Enum):
    """What somebody wants to do, as far as rights go."""

    JOIN = "join"
    """Hello, calls and signals of members."""
    LOOK = "look"
    """Status, explanations, lists."""
    OPERATE = "operate"
    """Stop a run, order workers, roll back."""
    CREATE = "create"
    """Create runs."""
    ADMINISTER = "administer"
    """Everything that concerns the server and not one run."""


class Role(Enum):
    MEMBER = "member"
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def allows(self, action: Action) -> bool:
        return _TABLE[self, action]


_ROWS: Final = {
    #              join   look  operate create administer
    Role.MEMBER:   (True,  True, False, False, False),
    Role.VIEWER:   (False, True, False, False, False),
    Role.OPERATOR: (False, True, True,  True,  False),
    Role.ADMIN:    (True,  True, True,  True,  True),
}  # fmt: skip
_TABLE: Final = {(role, action): allowed for role in Role for action, allowed in zip(Action, _ROWS[role], strict=True)}

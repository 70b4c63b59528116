"""What goes wrong with processes of our own, for people."""

from __future__ import annotations

from quoracy.core.errors import QuoracyError


class TookTooLong(QuoracyError):
    """Something on this machine did not come to its end in time."""

    code = "still_waiting"

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why
        self.fix = "try again when this machine has less to do; if it stays so, that is a bug: say what you see above"


class NotStarted(QuoracyError):
    code = "unreachable"

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why
        self.fix = "what it said stands above; quoracy serve, started by hand, says more"

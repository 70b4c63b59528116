"""A member's side of witnessed rounds, without I/O: what ``client.session`` does for every kind, and what it is shown.

What a member does in a round is decided by ``core.witnessed.part``, which also sends its signals again until something
has come of them. Here they are sent, and what the run shows is handed on.

- A signal belongs to one incarnation, and to one round. What was meant for an earlier one is not said; and one that
  came too late for its round was refused rightly, which is no trouble: the views say what is wanted now.
- News may be lost like anything else. Every heartbeat's answer says where the run stands; if that is not what was
  shown, this member asks.
- One that was removed for its strikes joins again, for the next epoch; one that lied is told so and ends.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

import msgspec

from quoracy.core.errors import Refusal, Retry
from quoracy.core.machine import Join, MemberEvent, Signal
from quoracy.core.messages import Declined, ToMember
from quoracy.core.witnessed import views
from quoracy.core.witnessed.events import (
    Attest,
    Beat,
    BeatSeen,
    HealthCheck,
    Holds,
    Loaded,
    MemberJoined,
    MemberLeft,
    ModelHash,
)
from quoracy.core.witnessed.views import ROUND, Standing
from quoracy.sdk.client.session import Session, Stage

TOPICS: Final = frozenset({views.ROUND, views.RESULTS, views.SEALED, views.SEALED_BRIEF, views.PEERS})
LIFE: Final = "life"
"""Under this topic the training process learns what the answer to a join said."""
_GONE: Final = frozenset({"Lost", "Left", "Removed"})
OVER: Final = "Finished"
SORTS: Final = frozenset(
    str(sort.__struct_config__.tag) for sort in (Loaded, Attest, Holds, ModelHash, HealthCheck)
)  # fmt: skip
_INCARNATION_OVER: Final = frozenset({"member_gone", "stale_token", "bad_token"})


class MemberSession(Session):
    """Notes beside those of every member: shown (topic and value), finished (why)."""

    joins: ClassVar[type[Join]] = MemberJoined
    leaves: ClassVar[type[MemberEvent]] = MemberLeft

    def __init__(
        self,
        run: str,
        member: str,
        secret: bytes,
        retry_us: int = 1_000_000,
        key: bytes = b"",
        about: dict[str, Any] | None = None,
    ) -> None:
        """``about``: addresses and labels."""
        super().__init__(run, member, secret, retry_us, key, about)
        self.standing: Standing | None = None
        self.finished = False
        self._stands: tuple[str, int, int] | None = None
        """Phase, epoch and round that were shown last."""
        self._now_us = 0

    def say(self, signal: Signal) -> None:
        if signal.incarnation != self.incarnation or self.stage is not Stage.JOINED:
            return
        self._sign(signal)

    # -- time and messages ------------------------------------------------------------------------------------------

    def tick(self, now_us: int) -> None:
        self._now_us = now_us
        super().tick(now_us)

    def receive(self, message: ToMember, now_us: int) -> None:
        self._now_us = now_us
        super().receive(message, now_us)

    # -- what membership leaves to the kind -------------------------------------------------------------------------

    def _beat(self, seq: int) -> Signal:
        return Beat(self.member, self.incarnation, seq, **({"progress": self.progress} | self.vitals))

    def _arrived(self, result: dict[str, Any]) -> None:
        self._note("shown", (LIFE, result))

    def _forget(self) -> None:
        self.standing = None
        self._stands = None

    def _new_life(self, why: str, now_us: int) -> None:
        """One that has said goodbye does not come back because nobody heard it."""
        if self._leaving or any(event is self.leaves for event, _ in self._wishes):
            self._end(Refusal("member_gone", f"{self.member} has left", "nothing"))
        else:
            super()._new_life(why, now_us)

    def _told(self, topic: str, value: Any) -> None:
        if topic == "heartbeat":
            seen = value if isinstance(value, BeatSeen) else msgspec.convert(value, BeatSeen)
            if self._stands is not None and self._stands != (seen.phase, seen.epoch, seen.round):
                self.look_again()
            return
        if topic not in TOPICS or value is None:
            return
        if topic == ROUND:
            phase, epoch, round_, *_ = value if isinstance(value, list | tuple) else msgspec.structs.astuple(value)
            self._stands = (phase, epoch, round_)
        self._note("shown", (topic, value))

    def _declined(self, declined: Declined, now_us: int) -> None:
        refusal = declined.refusal
        if declined.topic not in SORTS or refusal.retry is Retry.OVER or refusal.code in _INCARNATION_OVER:
            super()._declined(declined, now_us)

    def look_again(self) -> None:
        """Say hello again: the answer shows everything."""
        if self._hello is None:
            self._send_hello(self._now_us)

    def _stand(self, value: Any, now_us: int) -> None:
        standing = value if isinstance(value, Standing) else msgspec.convert(value, Standing)
        if self.stage is not Stage.JOINED or standing.incarnation < self.incarnation:
            return
        if standing.incarnation > self.incarnation:
            self._superseded(standing.incarnation)
        elif standing.phase == OVER:
            self._finish(standing)
        elif standing.state in _GONE:
            self._new_life(standing.reason or "the host has given this member up", now_us)
        else:
            self.standing = standing

    def _finish(self, standing: Standing) -> None:
        self.standing = standing
        if not self.finished:
            self.finished = True
            self._note("finished", standing.reason)
        if standing.state in _GONE:
            self._end(Refusal("run_closed", f"the run is over: {standing.reason}", "nothing"))

"""What a witnessed member is shown and has not looked at yet, in the order it came."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import msgspec

from quoracy.core.errors import Refusal
from quoracy.core.machine import Signal
from quoracy.core.witnessed import views
from quoracy.core.witnessed.views import PeersShown, ResultsShown, RoundShown, SealedList, Standing
from quoracy.sdk.client.client import Client
from quoracy.sdk.client.session import Note
from quoracy.sdk.witnessed import heartbeat
from quoracy.sdk.witnessed.session import LIFE, MemberSession

SHOWN: Final[dict[str, Any]] = {
    views.ROUND: RoundShown,
    views.RESULTS: ResultsShown,
    views.SEALED: SealedList,
    views.SEALED_BRIEF: SealedList,
    views.PEERS: PeersShown,
}


class Fell(msgspec.Struct, frozen=True):
    """A life is over, for this reason. The next one begins by itself."""

    why: str


View = Standing | RoundShown | ResultsShown | SealedList | PeersShown


class Life(msgspec.Struct, frozen=True):
    """A life has begun, with this answer."""

    result: dict[str, Any]


class MemberClient(Client[MemberSession]):
    called = "member"
    heartbeat = heartbeat.__name__

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.views: deque[View | Life | Fell] = deque()
        """Not looked at yet."""
        self.over: str | None = None
        """Why the run is over; None while it is not."""
        self._standing: Standing | None = None

    def say(self, signal: Signal) -> None:
        """Sent again after every loss of the connection, until it is void."""
        self.session.say(signal)

    def look(self) -> None:
        self.session.look_again()

    # -- what happened ----------------------------------------------------------------------------------------------

    def settle(self, now_us: int) -> None:
        super().settle(now_us)
        standing = self.session.standing
        if standing is not None and standing is not self._standing:
            self._standing = standing
            self.views.append(standing)
            self.version += 1

    def _heartbeat_fields(self, now_us: int) -> dict[str, Any]:
        return heartbeat.fields(self._vitals, now_us)

    def _note_of_kind(self, note: Note) -> None:
        match note.what:
            case "shown":
                topic, value = note.value
                if topic in SHOWN:
                    self.views.append(msgspec.convert(value, SHOWN[topic]))
                elif topic == LIFE:
                    self.views.append(Life(value))
            case "finished":
                self.over = note.value

    def _lost_of_kind(self, over: Refusal) -> None:
        """What was shown to that incarnation is void."""
        self.views.clear()
        self.views.append(Fell(over.why))

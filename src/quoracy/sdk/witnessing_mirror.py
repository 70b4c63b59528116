"""What the training process knows of its part in a witnessed run: everything it is shown, in the order it came."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import msgspec

from quoracy.core.codec import encode
from quoracy.core.errors import Refusal
from quoracy.core.machine import Signal
from quoracy.core.witnessed import views
from quoracy.core.witnessed.views import PeersShown, ResultsShown, RoundShown, SealedList, Standing
from quoracy.sdk import pipe
from quoracy.sdk.reflection import Reflection
from quoracy.sdk.settings import Settings
from quoracy.sdk.witnessing import LIFE
from quoracy.wire.frames import frame

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


class WitnessingMirror(Reflection):
    called = "member"

    def __init__(self, settings: Settings, secret: bytes) -> None:
        super().__init__(settings, secret)
        self.views: deque[View | Life | Fell] = deque()
        """Not looked at yet."""
        self.over: str | None = None
        """Why the run is over; None while it is not."""

    def say(self, signal: Signal) -> None:
        """Said once: the sidecar says it again as often as needed."""
        self.outbox.append(frame(pipe.Said(encode(signal))))

    def look(self) -> None:
        self.outbox.append(frame(pipe.Look()))

    # -- being told -------------------------------------------------------------------------------------------------

    def _stood(self, standing: Any) -> None:
        self.views.append(msgspec.convert(standing, Standing))

    def _hear_of_kind(self, message: pipe.OfKind) -> None:
        match message:
            case pipe.Shown(topic=topic, value=value) if topic in SHOWN:
                self.views.append(msgspec.convert(value, SHOWN[topic]))
            case pipe.Shown(topic=topic, value=value) if topic == LIFE:
                self.views.append(Life(value))
            case pipe.Over(reason=reason):
                self.over = reason

    def _fell(self, over: Refusal) -> None:
        """What was shown to that life is void."""
        self.views.clear()
        self.views.append(Fell(over.why))

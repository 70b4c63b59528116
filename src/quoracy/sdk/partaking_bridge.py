"""The crossing of a participant, without I/O: work goes to the training process, offers come back.

The training process sends an offer once. From there on it is the logic's: said again after every loss, in every life,
until there is a verdict or nobody waits for it.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from quoracy.core.codec import ready
from quoracy.core.federated.events import ParticipantLeft
from quoracy.core.machine import MemberEvent
from quoracy.sdk import pipe
from quoracy.sdk.crossing import Crossing
from quoracy.sdk.line import Line
from quoracy.sdk.membership import Note
from quoracy.sdk.partaking import Offer, Partaking, Work
from quoracy.sdk.vitals import Vitals


class Held(msgspec.Struct, frozen=True):
    """What the training process has begun, for the sidecar after this one."""

    work: Work
    offer: Offer | None = None


class PartakingBridge(Crossing):
    events: ClassVar[dict[str, type[MemberEvent]]] = {"left": ParticipantLeft}
    session: Partaking

    def __init__(self, session: Partaking, line: Line, holds: Any = None) -> None:
        super().__init__(session, line)
        if holds is not None:
            held = msgspec.convert(holds, Held)
            session.works_on(held.work, held.offer)
        self._work: Work | None = session.work

    def look(self, vitals: Vitals, _now_us: int) -> None:
        self.session.progress, self.session.vitals = vitals.of_training()

    def _place(self, result: dict[str, Any]) -> int:
        return int(result["seat"])

    def _offered(self, request: pipe.Offered, now_us: int) -> None:
        offer = msgspec.convert(request.offer, Offer)
        if self.session.offer(offer):
            self.line.tick(now_us)
        else:
            self._out.append(pipe.Dropped(offer.ticket, "nobody waits for this update any more"))

    def _note_of_kind(self, note: Note, _now_us: int) -> None:
        match note.what:
            case "train":
                self._work = note.value
                self._out.append(pipe.Trains(note.value))
            case "drop":
                self._out.append(pipe.Dropped(0 if self._work is None else self._work.ticket, note.value))
            case "verdict":
                self._out.append(pipe.Judged(note.value))
            case "phase":
                self._out.append(pipe.Passes(*note.value))
            case "finished":
                self._out.append(pipe.Over(note.value))


ready(Held)

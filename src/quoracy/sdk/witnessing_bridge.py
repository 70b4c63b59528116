"""The crossing of a witnessed member, without I/O: what it is shown goes to the training process, signals come back."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from quoracy.core.machine import MemberEvent
from quoracy.core.witnessed.events import (
    CheckpointStored,
    MemberLeft,
    ResultCommitted,
    TwoFacedShown,
    WitnessedSignal,
)
from quoracy.sdk import pipe
from quoracy.sdk.crossing import Crossing
from quoracy.sdk.line import Line
from quoracy.sdk.membership import Note
from quoracy.sdk.vitals import Vitals
from quoracy.sdk.witnessing import Witnessing

_signal: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(WitnessedSignal)


class WitnessingBridge(Crossing):
    events: ClassVar[dict[str, type[MemberEvent]]] = {
        "left": MemberLeft, "committed": ResultCommitted, "stored": CheckpointStored, "two-faced": TwoFacedShown,
    }  # fmt: skip
    session: Witnessing

    def __init__(self, session: Witnessing, line: Line) -> None:
        super().__init__(session, line)

    def look(self, vitals: Vitals, _now_us: int) -> None:
        self.session.progress, self.session.vitals = vitals.of_training()

    def _place(self, result: dict[str, Any]) -> int:
        return int(result.get("seat", 0))

    def _said(self, request: pipe.Said | pipe.Look, now_us: int) -> None:
        if isinstance(request, pipe.Look):
            self.session.look_again()
        else:
            self.session.say(_signal.decode(request.signal))
        self.line.tick(now_us)

    def _note_of_kind(self, note: Note, _now_us: int) -> None:
        match note.what:
            case "shown":
                topic, value = note.value
                self._out.append(pipe.Shown(topic, value))
            case "finished":
                self._out.append(pipe.Over(note.value))

"""What the training process knows of its membership: requests under way, answers that came, bad news not yet raised.

What the kinds have in common. Without I/O and without waiting: ``feed`` takes what the sidecar says, ``do`` makes a
request and ``outbox`` holds what has to be said to the sidecar. It remembers enough to begin again with a new sidecar,
in the middle of the same life.
"""

from __future__ import annotations

from typing import Any

from quoracy.core.cluster.views import Passage
from quoracy.core.errors import ConfigError, QuoracyError, Refusal
from quoracy.core.members import Accepted
from quoracy.sdk import pipe
from quoracy.sdk.errors import ended_by
from quoracy.sdk.line import Outage
from quoracy.sdk.membership import Known
from quoracy.sdk.settings import Settings
from quoracy.wire.frames import FrameReader, frame

Answer = Accepted | Refusal | Passage


class Reflection:
    def __init__(self, settings: Settings, secret: bytes) -> None:
        self.settings = settings
        self.known = Known()
        self.restarts = 0
        self.place = -1
        self.outage: Outage | None = None
        self.found = False
        """A coordinator has answered at least once."""
        self.turned: Refusal | None = None
        self.ended: QuoracyError | None = None
        self.finished = False
        """The sidecar has ended the session and answers nothing more."""
        self.outbox: list[bytes] = []
        self.version = 0
        """Counts what was fed: whoever waits for news waits for it to change."""
        self._secret = secret
        self._number = 0
        self._open: dict[int, pipe.Do | pipe.Stand] = {}
        self._wanted: set[int] = set()
        self._answers: dict[int, Answer] = {}
        self._reader = FrameReader()

    # -- asking -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """The first words to a sidecar: who we are, where we were, and all that is still open."""
        self._reader = FrameReader()
        self.outbox = [frame(pipe.Start(self.settings, self._secret, self.known, self.restarts, self._holds()))]
        self.outbox += [frame(request) for request in self._open.values()]

    def do(self, event: str, **fields: Any) -> int:
        self._number += 1
        return self._ask(pipe.Do(self._number, self.known.lives, event, fields))

    def bye(self) -> None:
        self.outbox.append(frame(pipe.Bye()))

    def _ask(self, request: pipe.Do | pipe.Stand) -> int:
        self._open[request.number] = request
        self._wanted.add(request.number)
        self.outbox.append(frame(request))
        return request.number

    def answer(self, number: int) -> Answer | None:
        """Given once."""
        answer = self._answers.pop(number, None)
        if answer is not None:
            self._wanted.discard(number)
        return answer

    def abandon(self, number: int) -> None:
        """Nobody waits for this any more. It happens all the same: what was said cannot be unsaid."""
        self._wanted.discard(number)
        kept = self._answers.pop(number, None)
        if kept is not None:
            self._unwanted(kept)

    @property
    def joined(self) -> bool:
        return self.known.incarnation > 0

    # -- being told -------------------------------------------------------------------------------------------------

    def feed(self, chunk: bytes) -> None:
        for payload in self._reader.feed(chunk):
            self._hear(pipe.to_training.decode(payload))
            self.version += 1

    def _hear(self, message: pipe.ToTraining) -> None:
        match message:
            case pipe.Done(number=number, answer=answer):
                self._done(number, answer)
            case pipe.Stands(standing=standing):
                self._stood(standing)
            case pipe.Joined(known=known, place=place):
                self.known, self.place, self.turned = known, place, None
            case pipe.Lost(why=why):
                self._lost(why)
            case _ if isinstance(message, pipe.OfKind):
                self._hear_of_kind(message)
            case _:
                self._hear_aside(message)

    def _hear_aside(self, message: pipe.ToTraining) -> None:
        """About the conversation, not about the run."""
        match message:
            case pipe.Token(token=token):
                self.known.token = token
            case pipe.Turned(refusal=refusal):
                self.turned = refusal
            case pipe.Finished(refusal=refusal):
                self.finished = True
                self.ended = self.ended or ended_by(refusal)
            case pipe.Unfit(field=field, value=value, fix=fix):
                self.finished = True
                self.ended = ConfigError(field, value, fix)
            case pipe.Up():
                self.outage = None
                self.found = True
            case Outage():
                self.outage = message

    def _done(self, number: int, answer: Accepted | Refusal) -> None:
        request = self._open.pop(number, None)
        if isinstance(request, pipe.Do) or number == 0:
            self.known.seq += 1
        if number in self._wanted:
            self._answers[number] = answer

    def _lost(self, why: str) -> None:
        """Everything that was open is void, and so is all that was known of the life."""
        self.known = Known(lives=self.known.lives + 1)
        self.turned = None
        over = Refusal("member_gone", f"the coordinator gave this {self.called} up: {why}", "recover and go on")
        self._answers.update((number, over) for number in self._open if number in self._wanted)
        self._open.clear()
        self._fell(over)

    # -- what a kind adds -------------------------------------------------------------------------------------------

    called = "member"

    def _stood(self, standing: Any) -> None:
        """What the run thinks of this member now."""
        raise NotImplementedError

    def _hear_of_kind(self, message: pipe.OfKind) -> None:
        """What not every kind is told."""

    def _holds(self) -> Any:
        """What a new sidecar has to know beside ``known``."""
        return None

    def _unwanted(self, answer: Answer) -> None:
        """An answer that nobody waits for any more."""

    def _fell(self, over: Refusal) -> None:
        """The life is over, and another one begins."""

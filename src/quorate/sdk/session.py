"""A worker's side of the conversation, without I/O: joining, numbering, repeating, waiting, giving up.

A shell hands in what arrived (``receive``) and the time (``tick``), sends what ``take`` returns, and reads ``notes``
for what the training script has to know. The rules a session keeps:

- One command at a time, repeated until it is answered; the answer may come from another host than the one first asked.
- An arrival is repeated until its barrier is settled; ``after`` makes the repeat recognisable. It is the newest
  generation known to be settled while standing nowhere: one that was settled while waiting may be the awaited one.
- Newest wins. A session that learns that it was superseded ends, and never joins again.
- A session that was given up (its host could not hear it for too long) begins a new life with a new nonce. Whatever
  the old life had not been answered is void, and the script is told.
- A join that stays unanswered may have happened. If such a session then finds its id at another life, it cannot know
  whether it was superseded, and ends: two processes under one name must not take turns.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Any, Final

import msgspec
from msgspec import Raw

from quorate.core.cluster.events import Arrive, Heartbeat, HeartbeatSeen, WorkerLeft, WorkerRegistered
from quorate.core.cluster.state import Order
from quorate.core.cluster.views import Passage, Standing
from quorate.core.codec import digest, encode, us
from quorate.core.errors import Refusal
from quorate.core.machine import MemberEvent
from quorate.core.members import Accepted, Cause
from quorate.core.messages import Answered, Call, Declined, Hello, Moved, Sign, ToHost, Told, ToMember, Welcome

ENDING: Final = frozenset(
    {"superseded", "key_mismatch", "run_closed", "unknown_member", "unknown_worker", "roster_full"}
)
"""Refusals after which going on makes no sense."""

NOT_NOW: Final = frozenset({"overloaded", "draining", "not_serving"})
"""Refusals that nobody wrote down: what was refused is still open, and is sent again after a while."""


class Stage(Enum):
    LOOKING = "Looking"
    JOINING = "Joining"
    JOINED = "Joined"
    ENDED = "Ended"


class Note(msgspec.Struct, frozen=True):
    """Something the script has to know. ``what`` is one of: joined, answered, passed, aborted, rolled-back, ordered,
    refused, lost, ended, moved."""

    what: str
    value: Any = None


class Pending(msgspec.Struct):
    """Something sent that has not been answered. ``since_us``: for the first time."""

    message: ToHost
    sent_us: int
    since_us: int = 0


class Known(msgspec.Struct):
    """What has to be remembered of a life so that another process can go on with it."""

    lives: int = 0
    incarnation: int = 0
    token: str = ""
    fence: int = 0
    order: int = 0
    seq: int = 0
    """Commands that were answered."""
    after: dict[str, int] = {}
    """Per barrier the newest generation whose end the script was told."""
    beat_interval_us: int = 0
    beat_timeout_us: int = 0


class Session:
    def __init__(
        self,
        run: str,
        member: str,
        secret: bytes,
        retry_us: int = 1_000_000,
        key: bytes = b"",
        about: dict[str, Any] | None = None,
    ) -> None:
        """``secret``: random bytes of this process. Nonces of its lives are made from it. ``about``: what a join says
        beside who joins: address, gpus, labels."""
        self.run = run
        self.member = member
        self.stage = Stage.LOOKING
        self.incarnation = 0
        self.standing: Standing | None = None
        self.notes: deque[Note] = deque()
        self.beat_interval_us = retry_us
        self.beat_timeout_us = 0
        """Silent for so long, this worker is given up; 0 before it has joined."""
        self.progress = 0
        self.vitals: dict[str, Any] = {}
        """Further fields of the next heartbeats: step, epoch, task, cpu..."""
        self._secret = secret
        self._key = key
        self._about = about or {}
        self._token = ""
        self._retry_us = retry_us
        self._lives = 0
        self._nonce = self._draw_nonce()
        self._unsure = False
        self._hello: Pending | None = None
        self._join: Pending | None = None
        self._seq = 0
        self._wishes: deque[tuple[type[MemberEvent], dict[str, Any]]] = deque()
        self._command: Pending | None = None
        self._leaving = False
        self._arrivals: dict[str, Pending] = {}
        self._after: dict[str, int] = {}
        self._fence = 0
        self._order = 0
        self._beats = 0
        self._beat_us = 0
        self._out: list[ToHost] = []

    # -- what a script asks for -------------------------------------------------------------------------------------

    def connect(self, now_us: int) -> None:
        """A connection was made, for the first time or again: say who is there, and repeat what is open."""
        if self.stage is Stage.ENDED:
            return
        self._unsure = self._unsure or self._join is not None
        self._send_hello(now_us)
        for pending in (self._join, self._command, *self._arrivals.values()):
            if pending is not None:
                self._repeat(pending, now_us)

    def resume(self, known: Known, restarts: int) -> None:
        """Go on with the life that an earlier session of the same process began. ``restarts`` counts such sessions:
        heartbeats must be numbered higher than any before."""
        self._lives = known.lives
        self._nonce = self._draw_nonce()
        self._beats = restarts << 32
        if known.incarnation:
            self.stage = Stage.JOINED
            self.incarnation = known.incarnation
            self._token = known.token
            self._fence = known.fence
            self._order = known.order
            self._seq = known.seq
            self._after = dict(known.after)
            self.beat_interval_us = known.beat_interval_us
            self.beat_timeout_us = known.beat_timeout_us
        else:
            self._unsure = restarts > 0

    def granted(self, incarnation: int, token: str) -> None:
        """The token that proves, on the next connection, that this is that life."""
        if incarnation == self.incarnation:
            self._token = token

    def known(self) -> Known:
        return Known(
            self._lives, self.incarnation, self._token, self._fence, self._order, self._seq, dict(self._after),
            self.beat_interval_us, self.beat_timeout_us,
        )  # fmt: skip

    @property
    def lives(self) -> int:
        return self._lives

    @property
    def fence(self) -> int:
        return self._fence

    @property
    def token(self) -> str:
        return self._token

    def wish(self, event: type[MemberEvent], **fields: Any) -> None:
        """A command of this member, sent when the ones before it are answered."""
        self._wishes.append((event, fields))

    def leave(self, reason: str = "") -> None:
        self.wish(WorkerLeft, reason=reason)

    def give_up(self) -> None:
        """The shell knows that nobody will answer any more, and has said so."""
        self.stage = Stage.ENDED

    def arrive(self, barrier: str, step: int, now_us: int) -> Arrive:
        """Stand at the barrier. Ends with a note: passed, aborted, rolled-back, refused, lost or ended."""
        after = self._after.get(barrier, 0)
        arrive = Arrive(self.member, self.incarnation, barrier, step, after, self._fence)
        pending = Pending(Sign(self.run, Raw(encode(arrive)), self.member), now_us)
        self._arrivals[barrier] = pending
        self._out.append(pending.message)
        return arrive

    def waits_at(self, barrier: str) -> bool:
        return barrier in self._arrivals

    def standing_at(self) -> list[str]:
        return list(self._arrivals)

    def idle(self) -> bool:
        """No command is open or waits to be sent."""
        return self._command is None and not self._wishes

    def open_command(self) -> Cause | None:
        message = None if self._command is None else self._command.message
        return message.cause if isinstance(message, Call) else None

    def waited_us(self, now_us: int) -> int:
        """How long the open command has not been answered."""
        return 0 if self._command is None else now_us - self._command.since_us

    # -- what a shell does ------------------------------------------------------------------------------------------

    def take(self) -> list[ToHost]:
        out, self._out = self._out, []
        return out

    def tick(self, now_us: int) -> None:
        """Repeat what was not answered, beat, and send the next command."""
        if self.stage is Stage.ENDED:
            return
        for pending in (self._hello, self._join, self._command, *self._arrivals.values()):
            if pending is not None and now_us - pending.sent_us >= self._retry_us:
                self._unsure = self._unsure or pending is self._join
                self._repeat(pending, now_us)
        if self.stage is not Stage.JOINED:
            return
        if now_us >= self._beat_us:
            self._beat_us = now_us + self.beat_interval_us
            self._beats += 1
            vitals = self.vitals | {"progress": self.progress, "order": self._order}
            beat = Heartbeat(self.member, self.incarnation, self._beats, **vitals)
            self._out.append(Sign(self.run, Raw(encode(beat)), self.member))
        if self._command is None and self._wishes:
            event, fields = self._wishes.popleft()
            self._leaving = event is WorkerLeft
            self._seq += 1
            if "fence" in event.__struct_fields__:
                fields.setdefault("fence", self._fence)
            cause = Cause(self.member, self.incarnation, self._seq)
            body = Raw(encode(event(self.member, self.incarnation, **fields)))
            self._command = Pending(Call(self.run, cause, body), now_us, now_us)
            self._out.append(self._command.message)

    def beat_due(self, now_us: int) -> bool:
        """Whether the next ``tick`` sends a heartbeat: a shell that knows more for it says so before."""
        return self.stage is Stage.JOINED and now_us >= self._beat_us

    def wake_us(self) -> int | None:
        """When to ``tick`` next."""
        if self.stage is Stage.ENDED:
            return None
        open_ = (self._hello, self._join, self._command, *self._arrivals.values())
        times = [pending.sent_us + self._retry_us for pending in open_ if pending is not None]
        if self.stage is Stage.JOINED:
            times.append(self._beat_us)
        return min(times, default=None)

    def receive(self, message: ToMember, now_us: int) -> None:
        if self.stage is Stage.ENDED:
            return
        match message:
            case Welcome():
                self._welcome(message, now_us)
            case Answered(cause=cause, answer=answer) if cause.member == self.member:
                if cause.seq == 0:
                    self._join_answered(cause, answer, now_us)
                else:
                    self._answered(cause, answer)
            case Told(member=self.member) if message.topic == "standing":
                self._stand(msgspec.convert(message.value, Standing, from_attributes=True), now_us)
            case Told(member=self.member, incarnation=self.incarnation):
                self._told(message.topic, message.value)
            case Declined(member=self.member, incarnation=self.incarnation):
                self._declined(message, now_us)
            case Moved(address=address):
                self._note("moved", address)
            case _:
                pass
        if self.stage is Stage.JOINED:
            self.tick(now_us)

    # -- joining ----------------------------------------------------------------------------------------------------

    def _draw_nonce(self) -> bytes:
        return digest(self._secret, b"life", self._lives.to_bytes(8, "big"))[:16]

    def _send_hello(self, now_us: int) -> None:
        self._hello = Pending(Hello(self.run, self.member, self.incarnation, self._token), now_us)
        self._out.append(self._hello.message)

    def _welcome(self, welcome: Welcome, now_us: int) -> None:
        self._hello = None
        if self.stage is Stage.JOINED:
            if welcome.incarnation > self.incarnation:
                self._superseded(welcome.incarnation)
        elif self.stage is Stage.LOOKING:
            self.stage = Stage.JOINING
            known = welcome.incarnation
            event = WorkerRegistered(self.member, known, self._nonce, self._key, **self._about)
            self._join = Pending(Call(self.run, Cause(self.member, known, 0), Raw(encode(event))), now_us)
            self._out.append(self._join.message)

    def _join_answered(self, cause: Cause, answer: Accepted | Refusal, now_us: int) -> None:
        join = None if self._join is None else self._join.message
        if not isinstance(join, Call) or join.cause != cause:
            return
        if isinstance(answer, Refusal):
            if answer.code == "stale_join" and not self._unsure:
                self._join = None
                self.stage = Stage.LOOKING
                self._send_hello(now_us)
            elif answer.code in ENDING or answer.code == "stale_join":
                self._end(answer)
            elif answer.code not in NOT_NOW:
                self._note("refused", answer)
            return
        result = answer.result or {}
        self._join = None
        self._unsure = False
        self.stage = Stage.JOINED
        self.incarnation = result["incarnation"]
        self._fence = result["fence"]
        self.beat_interval_us = us(result["heartbeat_interval_s"])
        self.beat_timeout_us = us(result.get("heartbeat_timeout_s", 0))
        self._beat_us = now_us
        self._note("joined", result)

    def _new_life(self, why: str, now_us: int) -> None:
        """Given up by the host. What the old life had open is void."""
        self._lives += 1
        self._nonce = self._draw_nonce()
        self.stage = Stage.LOOKING
        self.incarnation = 0
        self.standing = None
        self._token = ""
        self._unsure = False
        self._join = self._command = None
        self._seq = self._order = 0
        self._wishes.clear()
        self._arrivals.clear()
        self._after.clear()
        self._note("lost", why)
        self._send_hello(now_us)

    def _superseded(self, newer: int) -> None:
        why = f"incarnation {self.incarnation} of {self.member} was superseded by incarnation {newer}"
        self._end(Refusal("superseded", why, "exit: a newer process has taken this id"))

    def _end(self, why: Refusal) -> None:
        self.stage = Stage.ENDED
        self._hello = self._join = self._command = None
        self._arrivals.clear()
        self._note("ended", why)

    # -- answers and views ------------------------------------------------------------------------------------------

    def _answered(self, cause: Cause, answer: Accepted | Refusal) -> None:
        if self._command is None or self.open_command() != cause:
            return
        if isinstance(answer, Refusal) and answer.code in NOT_NOW:
            return
        self._command = None
        if isinstance(answer, Refusal) and answer.code in ENDING:
            self._end(answer)
            return
        self._note("answered", (cause, answer))
        if self._leaving and isinstance(answer, Accepted):
            self._end(Refusal("member_gone", f"{self.member} has left", "nothing"))

    def _told(self, topic: str, value: Any) -> None:
        if topic.startswith("barrier/"):
            self._passed(msgspec.convert(value, Passage, from_attributes=True))
        elif topic == "heartbeat":
            self._ordered(value if isinstance(value, HeartbeatSeen) else msgspec.convert(value, HeartbeatSeen))
        elif topic == "order" and value is not None:
            order = value if isinstance(value, Order) else msgspec.convert(value, Order)
            self._ordered(HeartbeatSeen(0, order.number, order.command, order.arguments, order.fence))

    def _ordered(self, seen: HeartbeatSeen) -> None:
        if seen.order > self._order:
            self._order = seen.order
            self._note("ordered", seen)

    def _stand(self, standing: Standing, now_us: int) -> None:
        if self.stage is not Stage.JOINED or standing.incarnation < self.incarnation:
            return
        if standing.incarnation > self.incarnation:
            self._superseded(standing.incarnation)
            return
        self.standing = standing
        for barrier, (generation, _) in standing.barriers.items():
            if barrier not in self._arrivals:
                self._after[barrier] = max(generation, self._after.get(barrier, 0))
        if standing.run == "Closed":
            self._end(Refusal("run_closed", f"the run is over: {standing.reason}", "nothing"))
        elif standing.state == "Failed":
            self._new_life(standing.reason, now_us)
        elif standing.fence > self._fence:
            self._fence = standing.fence
            self._arrivals.clear()
            self._note("rolled-back", standing)

    def _passed(self, passage: Passage) -> None:
        """How a generation ended. One that this session knows already, or did not stand at, changes nothing. Nor does
        one of another fence: every hello brings the newest end, which may be older than the roll-back, and the abort
        that a roll-back brings may come before the news of it."""
        known = self._after.get(passage.barrier, 0)
        stale = passage.generation <= known or passage.fence != self._fence
        if stale or passage.barrier not in self._arrivals:
            return
        self._after[passage.barrier] = passage.generation
        del self._arrivals[passage.barrier]
        self._note("passed" if passage.released else "aborted", passage)

    def _declined(self, declined: Declined, now_us: int) -> None:
        code = declined.refusal.code
        if code in ENDING:
            self._end(declined.refusal)
        elif code == "member_gone" and self.stage is Stage.JOINED:
            self._new_life(declined.refusal.why, now_us)
        elif code == "stale_token":
            self._send_hello(now_us)
        elif code == "bad_token" and declined.topic == "hello" and self.stage is Stage.JOINED:
            self._new_life(declined.refusal.why, now_us)
        elif code not in NOT_NOW:
            self._arrivals.pop(declined.topic.removeprefix("barrier/"), None)
            self._note("refused", declined.refusal)

    def _repeat(self, pending: Pending, now_us: int) -> None:
        pending.sent_us = now_us
        self._out.append(pending.message)

    def _note(self, what: str, value: Any = None) -> None:
        self.notes.append(Note(what, value))

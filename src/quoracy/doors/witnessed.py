"""Members of witnessed runs that have no connection of their own: each call comes alone.

What a member is shown changes at moments of its own. A heartbeat may be held until something is different from what the
member knows, and is answered with all that is. What it knows is told by marks, one for each view, that the member gets
with every answer and sends with the next heartbeat; so nothing has to be remembered here, and the next server answers
as this one would.

Commands (commit, checkpoint done, leave) are numbered by the member, as those of workers are. Signals (loaded, attest
and so on) are answered when they were taken in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Any, Final

import msgspec

from quoracy.core.codec import digest, encode
from quoracy.core.errors import Refusal, Refused
from quoracy.core.machine import MemberEvent, Signal
from quoracy.core.members import Accepted, Cause, superseded
from quoracy.core.messages import Hello, Welcome
from quoracy.core.witnessed.events import Beat, BeatSeen, MemberJoined, Taken
from quoracy.core.witnessed.views import (
    PEERS,
    RESULTS,
    ROUND,
    SEALED,
    SEALED_BRIEF,
    STANDING,
    RoundShown,
    SealedList,
)
from quoracy.doors.auth import Identity
from quoracy.doors.questions_witnessed import course_of
from quoracy.doors.service import Service
from quoracy.doors.standin import Standin, Standins

VIEWS: Final = (STANDING, PEERS, ROUND, SEALED, RESULTS)
SIGNALS: Final = ("loaded", "attest", "holds", "model-hash", "health-check")
MARK_BYTES: Final = 8


class Entered(msgspec.Struct, frozen=True):
    """The answer to a join. ``token`` is empty where no tokens are asked for."""

    run: str
    member: str
    incarnation: int
    token: str
    entry: int
    status: str
    """accepted: into ``epoch``, which has not begun; pending: for ``epoch``, the one after that which is under way."""
    epoch: int
    heartbeat_interval_s: float
    heartbeat_timeout_s: float
    config: dict[str, Any]


class Seen(msgspec.Struct, frozen=True):
    """The answer to a heartbeat."""

    beat: BeatSeen
    views: dict[str, Any]
    """Those that are different from what the member knows."""
    known: dict[str, str]
    """What it knows now."""
    token: str
    """The next session token, if it is time for one."""


class View(msgspec.Struct, frozen=True):
    value: Any
    mark: str


class Views(msgspec.Struct, frozen=True):
    """Waiting for all that this life is shown."""

    life: int


class News(msgspec.Struct, frozen=True):
    """Waiting for something else than these marks tell of."""

    life: int
    known: tuple[tuple[str, str], ...]


class WitnessStandin(Standin):
    def __init__(self, service: Service, run: str, member: str) -> None:
        super().__init__(service, run, member)
        self.saying = asyncio.Lock()
        """One signal at a time: then an answer is to the one that was said."""
        self.views: dict[str, View] = {}
        self._marked: dict[str, View] = {}
        """Views are made once for all: most that come are known, with their marks."""
        self._news = False
        self._whole = False
        """All views have come, one after the other, and not only one that changed."""
        self._brief = self._asked = False
        """Something was sealed, and only the beginning of it was shown; and whether all was asked for again."""

    def send(self, message: Any, run: str = "") -> None:
        if isinstance(message, Welcome):
            self.views.clear()  # all of them follow, as they are now
            self._news = self._whole = True
            self._brief = self._asked = False
        super().send(message, run)

    def told(self, topic: str, value: Any) -> None:
        super().told(topic, value)
        if topic in SIGNALS:
            self.resolve(("said", topic), value)
        elif topic == SEALED_BRIEF:
            self._brief = True
        elif topic in VIEWS:
            self._news = True
            if value is None:
                self.views.pop(topic, None)
            else:
                self.views[topic] = self._view(topic, value)

    def _view(self, topic: str, value: Any) -> View:
        before = self._marked.get(topic)
        if before is None or before.value is not value:
            before = self._marked[topic] = View(value, mark_of(value))
        return before

    def flush(self) -> None:
        """All that belongs together has come: is it news for those who wait?"""
        if self._brief:
            if self.waiting and not self._asked:
                self._asked = True
                life = self.entered.get((self.run, self.member), 0)
                self._service.hello(self, Hello(self.run, self.member, life))
            return
        if not self._news:
            return
        whole, self._news, self._whole = self._whole, False, False
        standing = self.views.get(STANDING)
        newest = 0 if standing is None else standing.value.incarnation
        for what in [what for what in self.waiting if isinstance(what, Views | News)]:
            if newest > what.life:
                self.refuse(what, superseded(self.member, what.life, newest))
            elif whole if isinstance(what, Views) else changed(self.views, dict(what.known)):
                self.resolve(what, dict(self.views))

    def concerns(self, topic: str, what: Hashable) -> bool:
        if topic in SIGNALS:
            return what == ("said", topic)
        return super().concerns(topic, what) or (topic == "hello" and isinstance(what, Views | News))


class WitnessedCalls(Standins[WitnessStandin]):
    def __init__(self, service: Service) -> None:
        super().__init__(service, WitnessStandin)

    async def enter(self, identity: Identity, run: str, join: MemberJoined) -> Entered:
        """Raises Refused."""
        self._may_join(identity, run, "witnessed")
        config = course_of(self._service.served(run, identity)).config
        standin, accepted = await self.join(identity, run, join, False)
        result = accepted.result or {}
        token = standin.token if self._service.proves(identity) else ""
        return Entered(
            run, join.member, int(result["incarnation"]), token, accepted.entry, str(result["status"]),
            int(result["epoch"]), config.heartbeat_interval_s, config.heartbeat_timeout_s,
            msgspec.to_builtins(config),
        )  # fmt: skip

    async def beat(
        self, identity: Identity, token: str, run: str, beat: Beat, known: dict[str, str], wait_s: float = 0.0
    ) -> Seen:
        """With ``wait_s``: held until something is different from what is ``known``, but not so long that the next
        heartbeat would be late. Raises Refused."""
        config = course_of(self._service.served(run)).config
        standin = self._admit(identity, token, run, beat.member, beat.incarnation)
        seen: BeatSeen = await self._heard(standin, ("heartbeat", beat.seq), lambda: self._sign(standin, beat))
        hello = Hello(run, beat.member, beat.incarnation)

        def greet() -> None:
            self._service.hello(standin, hello)

        views: dict[str, View] = await self._heard(standin, Views(beat.incarnation), greet)
        wait_s = min(wait_s, config.heartbeat_interval_s)
        if wait_s > 0 and not changed(views, known):
            try:
                news = News(beat.incarnation, tuple(sorted(known.items())))
                views = await standin.hear(news, greet, wait_s)
            except TimeoutError:
                views = dict(standin.views)
        shown = views.get(ROUND)
        if shown is not None:
            seen = BeatSeen(seen.seq, shown.value.phase, shown.value.epoch, shown.value.round)
        marks = {topic: view.mark for topic, view in views.items()}
        return Seen(seen, changed(views, known), marks, self._renewed(standin))

    async def say(self, identity: Identity, token: str, run: str, signal: Signal) -> Taken:
        """A signal, until it is taken in. Raises Refused."""
        course_of(self._service.served(run))
        said: Any = signal
        standin = self._admit(identity, token, run, said.member, said.incarnation)
        async with standin.saying:
            taken: Taken = await self._heard(standin, ("said", signal.topic()), lambda: self._sign(standin, signal))
        return taken

    async def command(self, identity: Identity, token: str, run: str, seq: int, event: MemberEvent) -> Accepted:
        """``seq`` is 1, 2, 3... in each life; the same again gets the same answer. Raises Refused."""
        course_of(self._service.served(run))
        if seq == 0:
            raise Refused(Refusal("malformed", "seq = 0", "number the commands of a life 1, 2, 3..."))
        standin = self._admit(identity, token, run, event.member, event.incarnation)
        return await self._call(standin, Cause(event.member, event.incarnation, seq), encode(event))


def changed(views: dict[str, View], known: dict[str, str]) -> dict[str, Any]:
    """What is to be shown to one who knows this. Of what was sealed, only the rounds it does not know."""
    found = {topic: view.value for topic, view in views.items() if known.get(topic, "") != view.mark}
    if SEALED in found:
        before = set(known.get(SEALED, "").split())
        new = tuple(one for one in found[SEALED].rounds if _mark(one) not in before)
        found[SEALED] = SealedList(new)
        if not new:
            del found[SEALED]
    return found


def mark_of(value: Any) -> str:
    """Other views, other marks. That time passes makes no other view. Sealed rounds have a mark each."""
    if isinstance(value, SealedList):
        return " ".join(_mark(one) for one in value.rounds)
    return _mark(msgspec.structs.replace(value, left_us=0) if isinstance(value, RoundShown) else value)


def _mark(value: Any) -> str:
    return digest(encode(value))[:MARK_BYTES].hex()

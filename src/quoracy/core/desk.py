"""The desk: where a serving host decides what came in, and reads out what was decided.

``consider`` takes one waiting message into a batch, ``settle`` adds what follows, ``publish`` is called when the batch
is in the journal. The desk knows who is reached through which peer, and holds the collector; it knows nothing of
stores, terms or phases.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, repeat
from typing import Any, Final

import msgspec

from quoracy.core.batch import Batch, Full
from quoracy.core.codec import Reader
from quoracy.core.errors import Bug, Refusal
from quoracy.core.journal import CommandRefused, DutyDone
from quoracy.core.machine import Collector, Event, Explanation, View
from quoracy.core.members import Repeat, command_digest
from quoracy.core.messages import Answered, Call, Declined, Hello, Sign, Told, Welcome
from quoracy.core.run import Decided, Run
from quoracy.core.shell import Action, DutyFinished, Peer, Perform, Send

SETTLING_ROUNDS: Final = 4
"""How often what is due may make other things due within one entry: a loss may end a barrier's waiting."""


class Waiting(msgspec.Struct, frozen=True):
    """Something in the queue, with the time at which it came."""

    came_us: int
    peer: Peer
    what: Hello | Call | Sign | DutyFinished


class Desk:
    def __init__(self, run: Run, now_us: int, peers: dict[str, Peer] | None = None) -> None:
        """``peers``: where members listen, as far as it is known."""
        self.run = run
        self.collector: Collector = run.kind.collector(run.machine, now_us)
        self.peers: dict[str, Peer] = {} if peers is None else peers
        """Where each member listens: through this one it said hello, joined, or gave its last signal other than a
        heartbeat; if there is none, where its commands come from. Heartbeats may come through a connection that is read
        by somebody else."""
        self.unsettled = False
        """Something may be due that the last entry had no room for: settle again as soon as it is written."""
        self._events: Reader[Event] = Reader(run.kind.events, "event")
        self._signals: Reader[Any] = Reader(run.kind.signals, "signal")

    # -- deciding ---------------------------------------------------------------------------------------------------

    def consider(self, waiting: Waiting, batch: Batch) -> Full | None:
        match waiting.what:
            case Call():
                return self._call(waiting.peer, waiting.what, batch)
            case Sign():
                self._sign(waiting, waiting.what, batch)
            case Hello():
                batch.hellos.append((waiting.peer, waiting.what))
            case DutyFinished(entry=entry, index=index, result=result):
                if batch.decide(None, DutyDone(entry, index, result)) is Full.FULL:
                    return Full.FULL
        return None

    def _call(self, peer: Peer, call: Call, batch: Batch) -> Full | None:
        cause = call.cause
        event = self._events.read(call.event)
        joins = not isinstance(event, Refusal) and event.joins
        decided = event if isinstance(event, Refusal) else batch.decide(cause, event)
        if isinstance(decided, Refusal) and not joins:
            decided = self._remember(call, event, decided, batch)
        if isinstance(decided, Full):
            return decided
        if joins and not isinstance(decided, Refusal):
            batch.joined.append((peer, cause.member))
        elif cause.incarnation and cause.incarnation == self.run.machine.incarnation_of(cause.member):
            self.peers.setdefault(cause.member, peer)
        answer = decided if isinstance(decided, Refusal) else decided.answer
        batch.replies.append((peer, Answered(cause, answer)))
        return None

    def _remember(
        self, call: Call, event: Event | Refusal, refusal: Refusal, batch: Batch
    ) -> Decided | Repeat | Refusal | Full:
        """A no to a command in sequence is an answer, and answers are kept. A no to anything else is just said."""
        command = command_digest(call.event if isinstance(event, Refusal) else event)
        decided = batch.decide(call.cause, CommandRefused(refusal, command))
        return refusal if isinstance(decided, Refusal) else decided

    def _sign(self, waiting: Waiting, sign: Sign, batch: Batch) -> None:
        reply = self.hear(waiting.peer, sign, waiting.came_us)
        if reply is not None:
            batch.replies.append((waiting.peer, reply))

    def hear(self, peer: Peer, sign: Sign, now_us: int) -> Declined | Told | None:
        """Take a signal in. The reply may be given at once, while no entry is on its way: it depends on nothing that
        is not written. None: what follows, if anything does, is said when it is settled."""
        signal = self._signals.read(sign.signal)
        if isinstance(signal, Refusal):
            return Declined(sign.member, sign.incarnation, "signal", signal)
        if sign.incarnation != signal.incarnation or sign.member != signal.member:
            why = (
                f"{sign.member} (incarnation {sign.incarnation}) gives a signal of {signal.member} "
                f"(incarnation {signal.incarnation})"
            )
            refusal = Refusal("contradiction", why, "speak for yourself")
            return Declined(sign.member, sign.incarnation, signal.topic(), refusal)
        heard = self.collector.hear(signal, self.run.machine, now_us)
        if isinstance(heard, Refusal):
            return Declined(signal.member, signal.incarnation, signal.topic(), heard)
        if not signal.heartbeat:
            self.peers[signal.member] = peer
        return None if heard is None else Told(signal.member, signal.incarnation, signal.topic(), heard)

    def settle(self, batch: Batch, now_us: int) -> None:
        """What follows from the signals, and from what has just been decided: all in this entry, if it has room."""
        self.unsettled = True
        for _ in range(SETTLING_ROUNDS):
            events = self.collector.due(self.run.machine, now_us)
            for event in events:
                decided = batch.decide(None, event)
                if isinstance(decided, Full):
                    return
                if not isinstance(decided, Decided):
                    raise Bug(
                        f"run {self.run.head.run!r}: the collector proposed {event}, which was answered {decided}"
                    )
            if not events:
                self.unsettled = False
                return

    # -- reading out ------------------------------------------------------------------------------------------------

    def publish(self, batch: Batch) -> list[Action]:
        out: list[Action] = [Send(peer, message) for peer, message in batch.replies]
        for peer, member in batch.joined:
            before = self.peers.get(member)
            if before is not None and before != peer:
                out.append(Send(before, self._told(member, "standing")))
            self.peers[member] = peer
        if batch.views:
            out += self._news(batch.views)
        for peer, hello in batch.hellos:
            out.extend(self._welcome(peer, hello))
        out.extend(Perform(duty) for duty in batch.duties)
        return out

    def _news(self, views: list[View]) -> list[Action]:
        """What looks different now, to each member that is reached: once, in the order in which it came about."""
        news: Iterable[tuple[str, str]] = chain.from_iterable(zip(repeat(view.topic), view.to) for view in views)
        if len(views) > 1:
            news = dict.fromkeys(news)
        peers, look, life = self.peers, self.run.machine.look, self.run.machine.incarnation_of
        return [
            Send(peers[member], Told(member, life(member), topic, look(topic, member)))
            for topic, member in news
            if member in peers
        ]

    def _welcome(self, peer: Peer, hello: Hello) -> list[Action]:
        """Where the run stands; and to one that has joined and listens, all its views again."""
        machine, head = self.run.machine, self.run.head
        current = machine.incarnation_of(hello.member)
        out: list[Action] = [Send(peer, Welcome(hello.member, current, head.term, head.n))]
        if hello.incarnation == 0 or not hello.views:
            return out
        if hello.incarnation == current:
            self.peers[hello.member] = peer
        return out + self._all_views(hello.member, peer)

    def tell_all(self) -> list[Action]:
        """All its views to each member that is reached: what they were told last is not known."""
        return [action for member, peer in self.peers.items() for action in self._all_views(member, peer)]

    def _all_views(self, member: str, peer: Peer) -> list[Action]:
        return [Send(peer, self._told(member, topic)) for topic in self.run.machine.topics(member)]

    def _told(self, member: str, topic: str) -> Told:
        machine = self.run.machine
        return Told(member, machine.incarnation_of(member), topic, machine.look(topic, member))

    def gone(self, peer: Peer) -> None:
        for member in [member for member, reached in self.peers.items() if reached == peer]:
            del self.peers[member]

    def explain(self, now_us: int) -> Explanation:
        return self.collector.explain(self.run.machine, now_us)

    def overview(self, now_us: int) -> dict[str, Any]:
        return self.run.about() | self.collector.overview(self.run.machine, now_us)

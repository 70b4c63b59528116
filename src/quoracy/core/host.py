"""The host's logic without I/O: when to decide, what to do when the world answers badly, who serves.

Everyday analogy: a notary with one book. People queue; the notary takes whoever stands there, decides each case in
turn, writes all decisions on one page, and only when the ink is dry reads them out. Whoever comes meanwhile waits for
the next page. If the page turns out to be written on already, by a colleague who took over the book, nothing is read
out: the notary reads what is there and either decides again or points to the colleague.

Invariants:

1. One page at a time. Between ``Append`` and ``Written`` nothing that depends on the new state leaves: no answer, no
   refusal, no view, no explanation. What arrives meanwhile queues unapplied.
2. A page that did not become part of the journal leaves no trace: the run is folded anew from the store, and what the
   page was made of is decided again, or sent to whoever serves.
3. If it is unknown whether the page was written, the entry is read and the nonce compared; if nothing is there, the
   same page is written again, never another one.
4. Only the serving host collects, detects and answers. ``HostTook`` makes it so; any entry of a newer term ends it.
5. Run time is the last entry's time plus this host's monotonic time since it read that entry. It never decreases.
6. After a write that failed for good, this host stops.

``handle(report, now_us)`` takes one report of the shell and returns what the shell is to do. ``now_us`` is the host's
own monotonic clock.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Any, Final

from quoracy.core.batch import Batch, Full
from quoracy.core.codec import digest
from quoracy.core.desk import Desk, Waiting
from quoracy.core.detector import Detector
from quoracy.core.dice import SEED_BYTES
from quoracy.core.errors import AWHILE_S, Bug, ConfigError, QuoracyError, Refusal
from quoracy.core.journal import NONCE_BYTES, STATE_DIGEST_EVERY, HostTook, chain_seed
from quoracy.core.limits import STAGGER_PLACES, Limits
from quoracy.core.machine import Event, Explanation
from quoracy.core.messages import Answered, Call, Declined, Hello, Moved, Sign, ToHost, ToMember
from quoracy.core.run import Decided, Kinds, Run, fold, readable
from quoracy.core.shell import (
    Action,
    Asked,
    Beat,
    Broken,
    Create,
    Delayed,
    Disconnected,
    DutyFinished,
    EntryRead,
    Explained,
    Followed,
    Load,
    Loaded,
    Peer,
    Perform,
    PulseSeen,
    Received,
    Report,
    Save,
    Send,
    Stop,
    Take,
    Taken,
    Tick,
    Unknown,
    Written,
)
from quoracy.core.stagger import lone_delay_us
from quoracy.core.writer import Answer, Failed, Flight, Landed, Lost, Writer


class Phase(Enum):
    LOADING = "Loading"
    FOLLOWING = "Following"
    TAKING = "Taking"
    SERVING = "Serving"
    STOPPED = "Stopped"


class Host:
    """The logic of one run on one host. ``secret`` is what its nonces and seeds are drawn from: 32 random bytes from
    the shell, new in every life of the process."""

    def __init__(self, run: str, name: str, address: str, secret: bytes, kinds: Kinds, limits: Limits | None = None):
        """Raises ConfigError for a name or address that the journal cannot hold."""
        readable(HostTook(1, name, address), "host")
        self.run_name = run
        self.name = name
        self.address = address
        self.kinds = kinds
        self.limits = limits or Limits()
        self.phase = Phase.LOADING
        self.run: Run | None = None
        self.desk: Desk | None = None
        self.stopped: Stop | None = None
        self._secret = secret
        self._drawn = 0
        self._writer = Writer(run, self.limits.retry_us, self.limits.max_tries)
        self._inbox: deque[Waiting] = deque()
        self._served: dict[str, Peer] = {}
        """Where members listened that were served here, while the journal is read again."""
        self._asked: list[Peer] = []
        self._take_when_loaded = False
        self._term = 0
        self._anchor_us = (0, 0)
        self._beats = 0
        self._beat_us: int | None = None
        self._rival: Detector | None = None
        self._saved_n = 0
        self._now_us = 0
        self._out: list[Action] = []
        self.landed: list[Event] = []
        """What the entry that landed last has brought, for a shell that counts; it empties this."""

    def start(self, now_us: int) -> list[Action]:
        self._now_us = now_us
        return [Load()]

    def handle(self, report: Report, now_us: int) -> list[Action]:
        self._now_us = max(self._now_us, now_us)
        self._out = []
        if self.phase is not Phase.STOPPED:
            _HANDLERS[type(report)](self, report)
            self._pump()
        elif isinstance(report, Received):
            self._send(report.peer, Moved(self.run_name, 0, ""))
        elif isinstance(report, Asked):
            self._out.append(Explained(report.peer, self._stopped_because()))
        out, self._out = self._out, []
        return out

    def receive(self, messages: list[tuple[Peer, ToHost]], now_us: int) -> list[Action]:
        """Messages that came together are decided together: the same as ``Received`` for each, with one entry."""
        if self.phase is Phase.STOPPED:
            return [action for peer, message in messages for action in self.handle(Received(peer, message), now_us)]
        self._now_us = max(self._now_us, now_us)
        self._out = []
        for peer, message in messages:
            self._on_received(peer, message)
        self._pump()
        out, self._out = self._out, []
        return out

    def wake_us(self) -> int | None:
        """When to ``Tick`` next."""
        flight = self._writer.flight
        times = [self._beat_us, None if self._rival is None else self._rival.wake_us()]
        if flight is not None:
            times.append(flight.retry_us)
            times.append(flight.began_us + self.limits.slow_write_us if self._asked else None)
        elif self.desk is not None:
            times.append(self.desk.collector.wake_us())
        return min((time for time in times if time is not None), default=None)

    def busy(self) -> bool:
        """Whether an entry is on its way, or messages wait to be decided."""
        return self.phase is not Phase.STOPPED and (self._writer.flight is not None or bool(self._inbox))

    def quiet(self) -> bool:
        """Whether the run is as the journal says, with nothing applied that is not written."""
        return self.run is not None and self._writer.flight is None

    # -- reading the journal ----------------------------------------------------------------------------------------

    def _on_loaded(self, report: Loaded) -> None:
        if self.phase is not Phase.LOADING:
            return
        try:
            base = None
            if (saved := report.snapshot) is not None:
                base = Run.restore(self.kinds, self.run_name, saved.n, saved.root, saved.pages)
                self._saved_n = saved.n
            run = fold(self.kinds, self.run_name, report.entries, base)
        except QuoracyError as error:
            self._stop(error.code, str(error))
            return
        self._adopt(run)
        if self._take_when_loaded and run is not None:
            self._take_when_loaded = False
            self._on_take(Take())

    def _adopt(self, run: Run | None) -> None:
        """This is the journal as it is. If this host served before and nobody else took over, it goes on serving."""
        self.run = run
        if run is None:
            self.phase = Phase.FOLLOWING
            self._send_on(self._moved())
            return
        self._anchor_us = (run.head.at_us, self._now_us)
        if self._term and (run.head.term, run.head.host) == (self._term, self.name):
            self._serve(run)
        else:
            self._follow(run)

    def _follow(self, run: Run) -> None:
        """Somebody else serves, or nobody does: send everyone on, and watch whether that host lives."""
        self.phase = Phase.FOLLOWING
        self._leave_desk()
        self._term = 0
        self._beat_us = None
        self._rival = Detector(self._patience_us(run), self._now_us)
        self._rival.watch(pulse_key(run.head.host, run.head.term), self._now_us)
        self._send_on(self._moved())

    def _patience_us(self, run: Run) -> int:
        """How long the serving host may be silent. Not the same for all followers, or all but one would take over in
        vain. Who else follows is in no journal, so each draws its place alone, anew whenever it begins to follow."""
        head, limits = run.head, self.limits
        drawn_us = lone_delay_us(head.run, head.digest, head.n + 1, self.name, STAGGER_PLACES, limits.stagger_us)
        return limits.takeover_us + drawn_us

    def _leave_desk(self) -> None:
        if self.desk is not None:
            self._served = self.desk.peers
        self.desk = None

    def _send_on(self, moved: Moved) -> None:
        """Whoever waits here, or was served here, must ask somewhere else."""
        waiting = (waiting.peer for waiting in self._inbox if not isinstance(waiting.what, DutyFinished))
        for peer in dict.fromkeys((*waiting, *self._served.values())):
            self._send(peer, moved)
        self._inbox.clear()
        self._served = {}

    def _on_followed(self, report: Followed) -> None:
        """Somebody's entries. While an entry of our own is under way they are not needed: its fate tells."""
        if self.phase not in (Phase.FOLLOWING, Phase.SERVING) or self._writer.flight is not None:
            return
        before_n, before_term = (0, 0) if self.run is None else (self.run.head.n, self.run.head.term)
        news = report.entries[max(0, before_n + 1 - report.first) :]
        if report.first > before_n + 1:
            self._reload()
            return
        try:
            run = fold(self.kinds, self.run_name, news, self.run)
        except QuoracyError as error:
            self._stop(error.code, str(error))
            return
        if run is None or not news:
            return
        self._anchor_us = (run.head.at_us, self._now_us)
        if run.head.term != before_term or self.run is None:
            self._adopt(run)
        elif self._rival is not None:
            self._rival.touch(pulse_key(run.head.host, run.head.term), self._now_us)

    def _reload(self) -> None:
        """What was applied but not written must leave no trace: fold again from what the store has."""
        self.phase = Phase.LOADING
        self.run = None
        self._leave_desk()
        self._rival = None
        self._answer_asked(Explanation("the journal is being read"))
        self._out.append(Load())

    # -- who serves -------------------------------------------------------------------------------------------------

    def _on_create(self, report: Create) -> None:
        """Raises ConfigError or UnknownRules if such a run cannot be; nothing has changed then."""
        if self.run is not None or self._writer.flight is not None:
            raise Bug(f"run {self.run_name!r} exists: create is for a journal without entries")
        if report.created.run != self.run_name:
            raise ConfigError("run", report.created.run, f"this host holds the journal of {self.run_name!r}")
        run = Run.create(self.kinds, report.created)
        self.run = run
        self.phase = Phase.TAKING
        self._anchor_us = (0, self._now_us)
        batch = self._open(run)
        batch.write(None, report.created)
        self._take(batch)

    def _on_take(self, _report: Take) -> None:
        if self.run is None:
            self._take_when_loaded = True
        elif self.phase is Phase.FOLLOWING:
            self.phase = Phase.TAKING
            self._take(self._open(self.run))

    def _take(self, batch: Batch) -> None:
        self._rival = None
        self._take_when_loaded = False
        took = HostTook(batch.run.head.term + 1, self.name, self.address)
        if not isinstance(batch.decide(None, took), Decided):
            raise Bug(f"run {self.run_name!r}: {took} was refused")
        self._launch(batch)

    def _serve(self, run: Run) -> None:
        """Detectors and collectors start afresh, duties are issued again. Whoever listened goes on listening, and is
        told everything: a member that waits says nothing by which it could be found again."""
        self.phase = Phase.SERVING
        self.desk = Desk(run, self._now_us, self._served)
        self._served = {}
        self._out.extend(self.desk.tell_all())
        self._term = run.head.term
        self._rival = None
        self._beats = 0
        self._beat_us = self._now_us
        self._out.extend(Perform(duty) for duty in run.duties.values())

    def _on_pulse(self, report: PulseSeen) -> None:
        if self._rival is not None and self.run is not None:
            key = pulse_key(self.run.head.host, self.run.head.term)
            self._rival.hear(key, report.beats.get(key, -1), self._now_us)

    def _moved(self) -> Moved:
        if self.run is None:
            return Moved(self.run_name, 0, "")
        return Moved(self.run_name, self.run.head.term, self.run.head.address)

    # -- deciding ---------------------------------------------------------------------------------------------------

    def _on_received(self, peer: Peer, message: ToHost) -> None:
        """A signal is taken in at once if nothing is under way: it is not written, so it needs no entry. All else
        waits for the next one."""
        if self.desk is not None and type(message) is Sign and not self._inbox and self._writer.flight is None:
            if (reply := self.desk.hear(peer, message, self._now_us)) is not None:
                self._send(peer, reply)
        elif self.phase is Phase.FOLLOWING:
            self._send(peer, self._moved())
        elif len(self._inbox) >= self.limits.max_waiting:
            why = f"{len(self._inbox)} messages wait for run {self.run_name}"
            self._refuse(peer, message, Refusal("overloaded", why, "send it again in a while", AWHILE_S))
        else:
            self._inbox.append(Waiting(self._now_us, peer, message))

    def _refuse(self, peer: Peer, message: ToHost, refusal: Refusal) -> None:
        match message:
            case Call(cause=cause):
                self._send(peer, Answered(cause, refusal))
            case Hello(member=member):
                self._send(peer, Declined(member, message.incarnation, "hello", refusal))
            case Sign(member=member, incarnation=incarnation):
                self._send(peer, Declined(member, incarnation, "signal", refusal))

    def _on_duty_finished(self, report: DutyFinished) -> None:
        if self.phase in (Phase.SERVING, Phase.LOADING):
            self._inbox.append(Waiting(self._now_us, None, report))

    def _on_tick(self, _report: Tick) -> None:
        if self._beat_us is not None and self._now_us >= self._beat_us:
            self._beats += 1
            self._beat_us = self._now_us + self.limits.beat_us
            self._out.append(Beat(pulse_key(self.name, self._term), self._beats))
        if self._rival is not None and self._rival.look(self._now_us):
            self._on_take(Take())
        if (again := self._writer.due(self._now_us)) is not None:
            self._out.append(again)
        if self._writer.slow_for_us(self._now_us) >= self.limits.slow_write_us:
            self._answer_asked(Explanation(self._writer.explain(self._now_us)))

    def _pump(self) -> None:
        """Decide what there is to decide, until an entry is on its way or nothing is left."""
        more = self._has_work()
        while more and self.desk is not None and self._writer.flight is None:
            self._decide(self.desk)
            more = bool(self._inbox)

    def _has_work(self) -> bool:
        if self.desk is None or self._inbox or self.desk.unsettled or self.desk.collector.unsettled:
            return self.desk is not None
        due_us = self.desk.collector.wake_us()
        return due_us is not None and due_us <= self._now_us

    def _decide(self, desk: Desk) -> None:
        batch = self._open(desk.run)
        while self._inbox:
            waiting = self._inbox.popleft()
            if desk.consider(waiting, batch) is Full.FULL:
                self._inbox.appendleft(waiting)
                break
            batch.items.append(waiting)
        desk.settle(batch, self._now_us)
        if batch.recorded:
            self._launch(batch)
        else:
            self._publish(desk, batch)

    def _open(self, run: Run) -> Batch:
        """At run time, with the seed its events are decided with."""
        at_us, since_us = self._anchor_us
        at_us = max(run.head.at_us, at_us + self._now_us - since_us)
        n = run.head.n + 1
        seed = chain_seed(run.head.digest, n) if run.head.seeding == "chain" else self._draw(b"seed")[:SEED_BYTES]
        state = run.state_digest() if n % STATE_DIGEST_EVERY == 0 else b""
        return Batch(run, at_us, seed, state)

    # -- writing ----------------------------------------------------------------------------------------------------

    def _draw(self, purpose: bytes) -> bytes:
        """Bytes that nobody else draws, and this host never twice."""
        self._drawn += 1
        return digest(self._secret, purpose, self._drawn.to_bytes(8, "big"))

    def _launch(self, batch: Batch) -> None:
        nonce = self._draw(b"nonce")[:NONCE_BYTES]
        self._out.append(self._writer.launch(batch, self.name, nonce, self._now_us))

    def _on_store(self, report: Answer) -> None:
        under_way = self._writer.flight
        match self._writer.answered(report, self._now_us):
            case Landed(flight=flight):
                self._landed(flight)
            case Lost(flight=flight):
                self._inbox.extendleft(reversed(flight.batch.items))
                self._reload()
            case Failed(code=code, why=why):
                if under_way is not None:
                    self._inbox.extendleft(reversed(under_way.batch.items))
                self._stop(code, why)
            case None:
                pass
            case action:
                self._out.append(action)

    def _landed(self, flight: Flight) -> None:
        """The entry is in the journal: now, and not before, the world may know."""
        run = flight.batch.run
        self.landed = flight.batch.events
        run.sealed(flight.entry, flight.payload)
        if self.phase is Phase.TAKING:
            self._serve(run)
        if self.desk is None:
            raise Bug("an entry of a host that does not serve")
        self.desk.collector.committed(flight.batch.events, run.machine, self._now_us)
        self._publish(self.desk, flight.batch)
        if run.head.n - self._saved_n >= self.limits.snapshot_every:
            self._saved_n = run.head.n
            self._out.append(Save(run.snapshot()))

    def _publish(self, desk: Desk, batch: Batch) -> None:
        self._out.extend(desk.publish(batch))
        if self._asked:
            self._answer_asked(desk.explain(self._now_us), desk.overview(self._now_us))

    def _send(self, peer: Peer, message: ToMember) -> None:
        self._out.append(Send(peer, message))

    def _on_disconnected(self, report: Disconnected) -> None:
        if self.desk is not None:
            self.desk.gone(report.peer)
        self._served = {member: peer for member, peer in self._served.items() if peer != report.peer}

    # -- for people -------------------------------------------------------------------------------------------------

    def _on_asked(self, report: Asked) -> None:
        """Answered at once, unless an entry is under way: then when it has landed, or has taken long enough to be
        the answer itself."""
        self._asked.append(report.peer)
        if self._writer.flight is not None:
            if self._writer.slow_for_us(self._now_us) >= self.limits.slow_write_us:
                self._answer_asked(Explanation(self._writer.explain(self._now_us)))
        elif self.desk is not None:
            self._answer_asked(self.desk.explain(self._now_us), self.desk.overview(self._now_us))
        elif self.phase is Phase.LOADING:
            self._answer_asked(Explanation("the journal is being read"))
        else:
            serves = "nobody does yet" if self.run is None or not self.run.head.host else f"{self.run.head.host} does"
            self._answer_asked(Explanation(f"this host does not serve the run; {serves}"))

    def _answer_asked(self, explanation: Explanation, overview: dict[str, Any] | None = None) -> None:
        self._out.extend(Explained(peer, explanation, overview) for peer in self._asked)
        self._asked.clear()

    def _stop(self, code: str, why: str) -> None:
        self.phase = Phase.STOPPED
        self.stopped = Stop(code, why)
        self._leave_desk()
        self._beat_us = None
        self._rival = None
        self._send_on(Moved(self.run_name, 0, ""))
        self._answer_asked(self._stopped_because())
        self._out.append(self.stopped)

    def _stopped_because(self) -> Explanation:
        return Explanation(f"this host has stopped: {self.stopped.why if self.stopped else ''}")


def pulse_key(host: str, term: int) -> str:
    """A host that restarts takes a new term, and so begins to count under a new key."""
    return f"{host}/{term}"


_HANDLERS: Final[dict[type, Any]] = {
    Loaded: Host._on_loaded,
    Create: Host._on_create,
    Take: Host._on_take,
    Received: lambda host, report: host._on_received(report.peer, report.message),
    Disconnected: Host._on_disconnected,
    Written: Host._on_store,
    Taken: Host._on_store,
    Unknown: Host._on_store,
    Delayed: Host._on_store,
    Broken: Host._on_store,
    EntryRead: Host._on_store,
    Followed: Host._on_followed,
    PulseSeen: Host._on_pulse,
    DutyFinished: Host._on_duty_finished,
    Asked: Host._on_asked,
    Tick: Host._on_tick,
}

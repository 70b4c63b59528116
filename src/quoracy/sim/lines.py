"""The two processes of a member that uses the SDK: the training, with the real ``Client``, ``Session`` and
``Connection`` over simulated streams; and beside it the heartbeat process, with the real ``Sender`` on a connection
of its own. They share the real ``Memory``.

``Line`` does what the SDK's drivers do with a socket. ``Training`` does what ``sdk.client.driver`` does: it reads,
ticks and writes while the script is in a call, and nothing at all while the script computes. ``Beats`` does what
``sdk.client.heartbeat`` does, all the time, as long as it is there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from quoracy.core.errors import Refusal
from quoracy.core.machine import MemberEvent
from quoracy.core.members import Accepted
from quoracy.core.messages import Answered, Call, Hello, Told
from quoracy.sdk.client.address import PORT, Address
from quoracy.sdk.client.client import Client, Request
from quoracy.sdk.client.connection import Connection, Signer
from quoracy.sdk.client.heartbeat import Beating, Sender, Task
from quoracy.sdk.client.memory import Memory
from quoracy.sdk.client.session import Note, Stage
from quoracy.sdk.client.settings import Settings
from quoracy.sdk.client.vitals import Vitals
from quoracy.sim.checkers import Checkers, Violation
from quoracy.sim.streams import Dial, End, Streams
from quoracy.sim.world import MS, World

WAIT_US: Final = 1_000 * MS
"""How long a process sleeps at most while it waits."""
STARTS_US: Final = (20 * MS, 300 * MS)
"""A heartbeat process takes so long to start."""
ENDS_US: Final = (0, 20 * MS)
"""And so long to notice that its training is gone."""
LOOK_US: Final = 400 * MS
LOOKS: Final = 3
"""A heartbeat process whose loop has not moved between so many looks stands still: the SDK's rule, in a life's time."""
GAP_US: Final = 600 * MS
"""A script that does not call for longer cannot beat."""
TURNS: Final = 8
"""What follows from what was done in a turn is done in the same one, but not for ever."""
AT_ONCE: Final = 50
NEVER: Final = 2**62


class Watched:
    """A session, or the heartbeats of one, that says what it hears and says. Mixed into the real ones."""

    watch: Watch
    incarnation: int

    def _note(self, what: str, value: Any = None) -> None:
        self.watch.noted.append(self.incarnation)
        super()._note(what, value)  # type: ignore[misc]

    def receive(self, message: Any, now_us: int) -> None:
        self.watch.hears(message)
        super().receive(message, now_us)  # type: ignore[misc]

    def take(self) -> list[Any]:
        out: list[Any] = super().take()  # type: ignore[misc]
        for message in out:
            self.watch.says(message)
        return out


class Watch:
    """What the checkers are told of one connection of a process."""

    def __init__(self, world: World, process: str, checkers: Checkers) -> None:
        self._world = world
        self._process = process
        self._checkers = checkers
        self.line: Line | None = None
        self.noted: deque[int] = deque()
        """As which incarnation the session made the notes that its client has not looked at yet."""

    def says(self, message: Any) -> None:
        if isinstance(message, Call):
            self._checkers.attempted(self._process, message.cause)
        elif isinstance(message, Hello):
            self._checkers.greeted(self._process)
        said = f"{type(message).__name__} {getattr(message, 'cause', '')}"
        self._world.note(self._process, lambda: f"says {said}")

    def hears(self, message: Any) -> None:
        if isinstance(message, Answered):
            self._checkers.answered(self._process, message.cause, message.answer)
        elif isinstance(message, Told):
            if message.topic == "heartbeat":
                self._checkers.heard(self._process, message.member, message.incarnation)
            elif self.line is not None and self.line.end is not None:
                self._checkers.shown(self._process, self.line.end, message)


def watched(session: type[Any]) -> Any:
    """The same session, watched."""
    if session not in _WATCHED:
        _WATCHED[session] = type(f"Watched{session.__name__}", (Watched, session), {})
    return _WATCHED[session]


_WATCHED: dict[type, type] = {}


class WatchedSender(Watched, Sender):
    """What the heartbeat process runs."""


class TrainingVitals(Vitals):
    """What a heartbeat says of the training. The kernel knows nothing of simulated processes."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def look(self, _now_us: int) -> dict[str, Any]:
        step, epoch, gpu = self._memory.read_report()
        return {"progress": self._memory.read_progress(), "step": step, "epoch": epoch, "gpu": gpu}


class Line:
    """A socket, or none, and the connection that says what to do with it."""

    def __init__(
        self,
        streams: Streams,
        place: str,
        connection: Connection,
        received: Callable[[bytes, int], None],
        settle: Callable[[int], None],
        wake: Callable[[], None],
    ) -> None:
        """``wake``: called when there is something to take in."""
        self.connection = connection
        self.end: End | None = None
        self.hampered_us = 0
        """When a connect of it went wrong that could have gone well."""
        self._streams = streams
        self._place = place
        self._received = received
        self._settle = settle
        self._wake = wake
        self._dialed: deque[tuple[End | None, str]] = deque()
        self._dial: Dial | None = None

    def read(self, now_us: int) -> None:
        connection = self.connection
        while self._dialed:
            end, why = self._dialed.popleft()
            if end is None:
                connection.failed(why, now_us)
            elif connection.over is not None:
                end.close()
            else:
                self.end = end
                connection.connected(now_us)
                end.readable = self._wake
            self._settle(now_us)
        while self.end is not None:
            chunk = self.end.read()
            if chunk:
                self._received(chunk, now_us)
            elif self.end.over:
                connection.closed(self.end.over, now_us)
                self._settle(now_us)
            else:
                return
            if connection.close_wanted:
                self.close()

    def act(self, now_us: int) -> None:
        """Close, connect and write, as the connection wants."""
        connection = self.connection
        if connection.close_wanted:
            self.close()
        address = connection.connect_to(now_us)
        if address is not None:
            self._dial = self._streams.dial(self._place, address.host, self._connected)
            if self._dial.hampered:
                self.hampered_us = self._streams.world.now_us
        out = connection.take_out()
        if out and self.end is not None:
            self.end.write(out)

    def _connected(self, end: End | None, why: str) -> None:
        self._dialed.append((end, why))
        self._wake()

    def close(self) -> None:
        self.connection.close_wanted = False
        if self.end is not None:
            self.end.close()
            self.end = None

    def die(self) -> None:
        """The process is gone; its system closes what it had open."""
        if self._dial is not None:
            self._dial.give_up()
        for end in [self.end, *(end for end, _ in self._dialed)]:
            if end is not None and self._streams.world.chance(0.5):
                end.abort()
            elif end is not None:
                end.close()
        self._dialed.clear()
        self.end = None


class Clocked:
    """One timer of a process: the earliest that was wanted."""

    def __init__(
        self, world: World, name: str, rate: float, clock: Callable[[], int], wake: Callable[[], None]
    ) -> None:
        self._world = world
        self._name = name
        self._rate = rate
        self._clock = clock
        self._wake = wake
        self._armed_us = NEVER
        self._at_once = 0

    def arm(self, wake_us: int) -> None:
        """On the clock of the process. One that wants to be woken at once, again and again, burns a processor."""
        wait_us = wake_us - self._clock()
        self._at_once = self._at_once + 1 if wait_us <= 0 else 0
        if self._at_once > AT_ONCE:
            raise Violation("idle", f"{self._name} wants to be woken at once for the {self._at_once}th time")
        after_us = int(max(0, wait_us) / self._rate) + 1
        at_us = self._world.now_us + after_us
        if at_us < self._armed_us:
            self._armed_us = at_us
            self._world.after(after_us, self._ring, at_us)

    def _ring(self, at_us: int) -> None:
        if at_us == self._armed_us:
            self._armed_us = NEVER
            self._wake()


class Beats:
    """A heartbeat process."""

    def __init__(self, training: Training, number: int) -> None:
        self.name = f"{training.name}'s heartbeats {number}"
        self.alive = True
        self.begun = False
        self.stopped = False
        self.calm_since_us = NEVER
        """Since when it is there, is not stopped, and knows for whom to beat."""
        self._training = training
        self._world = world = training.world
        self._told: Beating | None = None
        settings = training.client.settings
        task = Task(
            settings.run, settings.member, settings.addresses, False, None, "", type(training.client).heartbeat
        )  # fmt: skip
        self.sender = WatchedSender(task, training.memory, TrainingVitals(training.memory))
        self.sender.watch = Watch(world, training.name, training.checkers)
        connection = Connection(
            self.sender, settings.addresses, "", None, world.rng.random, training.clock(), heartbeats=True
        )  # fmt: skip
        self.line = Line(training.streams, settings.member, connection, connection.received, _nothing, self.loop)
        self.sender.watch.line = self.line
        self._timer = Clocked(world, self.name, training.rate, training.clock, self.loop)
        self._answers = training.memory.answer_count()
        world.after(world.between(*STARTS_US), self._begin)

    def _begin(self) -> None:
        if self.alive:
            self.begun = True
            self._world.note(self.name, lambda: "begin")
            self.loop()

    def tell(self, beating: Beating) -> None:
        """What is told while it starts or is stopped, waits."""
        self._told = beating
        self.loop()

    def loop(self) -> None:
        """As ``ConnectionHeartbeats.loop``."""
        training, sender, connection = self._training, self.sender, self.line.connection
        if not self.alive or self.stopped or not self.begun:
            return
        now_us = training.clock()
        training.memory.loop()
        if self._told is not None:
            told, self._told = self._told, None
            if told.incarnation != sender.incarnation:
                self.calm_since_us = self._world.now_us
            sender.beat_for(told, now_us)
        self.line.read(now_us)
        if sender.incarnation:
            connection.tick(now_us)
        if sender.moved is not None:
            moved, sender.moved = sender.moved, None
            connection.moved(moved, now_us)
        if sender.incarnation:
            self.line.act(now_us)
        sender.note_outage(0 if connection.outage is None else connection.outage.since_us)
        wake_us = connection.wake_us() if sender.incarnation else None
        self._timer.arm(now_us + WAIT_US if wake_us is None else min(wake_us, now_us + WAIT_US))
        count = training.memory.answer_count()
        if count != self._answers:
            self._answers = count
            training.wake()

    def kill(self) -> None:
        if self.alive:
            self.alive = False
            self._world.note(self.name, lambda: "are killed")
            self.line.die()

    def stop(self) -> None:
        self.stopped = True
        self._world.note(self.name, lambda: "are stopped")

    def go_on(self) -> None:
        if self.stopped:
            self.stopped = False
            self.calm_since_us = self._world.now_us
            self._world.note(self.name, lambda: "go on")
            self.loop()


class Training:
    """A training process over the SDK's client."""

    def __init__(
        self,
        world: World,
        streams: Streams,
        name: str,
        member: str,
        hosts: list[str],
        checkers: Checkers,
        clock: Callable[[], int],
        rate: float,
        took_turn: Callable[[], None],
    ) -> None:
        """``took_turn``: called when something may have happened, while the script is in a call."""
        self.world = world
        self.streams = streams
        self.name = name
        self.checkers = checkers
        self.clock = clock
        self.rate = rate
        self.memory = Memory.anonymous()
        self.computes = False
        """The script is not in a call: nobody reads, and nobody looks."""
        self.stopped = False
        self.alive = True
        self.noted: deque[tuple[int, Note]] = deque()
        """What the session noted, and as which incarnation."""
        self.replaced = 0
        self.beats: Beats | None = None
        self._addresses = [Address(host, PORT) for host in world.rng.sample(hosts, len(hosts))]
        self._member = member
        self._took_turn = took_turn
        self._timer = Clocked(world, name, rate, clock, self.wake)
        self._beating: Beating | None = None
        self._requests: dict[Request, type[MemberEvent]] = {}
        self._loops, self._still, self._looked_us = 0, 0, 0
        self._turning = False
        self._looks_since_us = self._looked_last_us = 0
        self._joined_as = self._joined_us = 0

    def use(self, session: Any, client: type[Client[Any]], key: Signer | None = None) -> None:
        """``session``: a ``Watched`` one."""
        settings = Settings(session.run, self._member, self._addresses, False)
        session.watch = Watch(self.world, self.name, self.checkers)
        connection = Connection(
            session, self._addresses, "", key, self.world.rng.random, self.clock(), False, type(session).joins
        )  # fmt: skip
        self.session = session
        self.client = _noting(client)(settings, session, connection, self.memory, TrainingVitals(self.memory))
        self.client.noted = self.noted
        self.line = Line(
            self.streams, self._member, connection, self.client.received, self.client.settle, self.wake
        )  # fmt: skip
        session.watch.line = self.line

    # -- what the script does ---------------------------------------------------------------------------------------

    def compute(self) -> None:
        """The call is over."""
        self.computes = True
        self.memory.progress()

    def call(self) -> None:
        """The script calls, and waits."""
        self.computes = False
        self.wake()

    def idle(self) -> bool:
        """Nothing that was asked for is open."""
        return not self._requests

    def command(self, event: type[MemberEvent], **fields: Any) -> int:
        """-> the number it has."""
        request = self.client.command(event, **fields)
        self._requests[request] = event
        return int(request[1])

    # -- what the driver does ---------------------------------------------------------------------------------------

    def wake(self) -> None:
        """One turn, if somebody waits."""
        if not self._is_in_call() or self._turning:
            return
        self._turning = True
        now_us = self.clock()
        if self.world.now_us - self._looked_last_us > GAP_US or not self.line.connection.is_open():
            self._looks_since_us = self.world.now_us
        self._looked_last_us = self.world.now_us
        self.line.read(now_us)
        self.progress(now_us)
        self._took_turn()
        for _ in range(TURNS):
            if not self.noted or not self._is_in_call():
                break
            self._took_turn()
        self._turning = False
        if self.session.stage is Stage.ENDED:
            self.ended()
        elif self._is_in_call():
            self._arm()

    def _is_in_call(self) -> bool:
        return self.alive and not self.computes and not self.stopped

    def progress(self, now_us: int) -> None:
        """What follows from what was read, from the time, and from what the script has asked for."""
        self.client.tick(now_us)
        self.line.act(now_us)
        self._look_after_heartbeats(now_us)
        for request in [*self._requests]:
            answer: Accepted | Refusal | None = self.client.answer(request)
            if answer is not None:
                del self._requests[request]

    def _arm(self) -> None:
        now_us, wake_us = self.clock(), self.line.connection.wake_us()
        self._timer.arm(now_us + WAIT_US if wake_us is None else min(wake_us, now_us + WAIT_US))

    # -- the heartbeat process --------------------------------------------------------------------------------------

    def _look_after_heartbeats(self, now_us: int) -> None:
        """As the SDK's driver and supervisor do: start it, tell it of each incarnation, replace it."""
        session, beats = self.session, self.beats
        if session.stage is Stage.ENDED:
            self._end_beats()
            return
        if session.incarnation != self._joined_as:
            self._joined_as, self._joined_us = session.incarnation, self.world.now_us
        beating = Beating(session.incarnation, session.token, session.beat_interval_us, session.beat_timeout_us)
        if beating != self._beating and (session.token or not session.incarnation):
            self._beating = beating
            if beats is not None:
                beats.tell(beating)
        if beats is None:
            if session.incarnation and session.token:
                self._start_beats(now_us)
        elif not beats.alive or self._stands_still(now_us):
            beats.kill()
            self.replaced += 1
            self._start_beats(now_us)

    def _start_beats(self, now_us: int) -> None:
        self.beats = Beats(self, self.replaced + 1)
        self._loops, self._still, self._looked_us = self.memory.loops(), 0, now_us
        if self._beating is not None:
            self.beats.tell(self._beating)

    def _stands_still(self, now_us: int) -> bool:
        if now_us - self._looked_us < max(LOOK_US, WAIT_US):
            return False
        self._looked_us = now_us
        loops = self.memory.loops()
        self._still = self._still + 1 if loops == self._loops else 0
        self._loops = loops
        return self._still >= LOOKS

    def _end_beats(self) -> None:
        if self.beats is not None:
            self.beats.kill()

    # -- life -------------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """The training alone: its heartbeats go on."""
        self.stopped = True

    def go_on(self) -> None:
        self.stopped = False
        self.wake()

    def die(self) -> None:
        self.alive = False
        self.line.die()
        if self.beats is not None:
            self.beats.stopped = False
            self.world.after(self.world.between(*ENDS_US), self.beats.kill)

    def ended(self) -> None:
        """The session is over, and the script with it."""
        if self.alive:
            self.line.act(self.clock())
            self.die()

    def looks_since_us(self, incarnation: int) -> int:
        """Since when its session has been looked after as this incarnation, over one connection."""
        if self.stopped or self.session.incarnation != incarnation:
            return NEVER
        if self.world.now_us - self._looked_last_us > GAP_US:
            return NEVER
        return max(self._looks_since_us, self._joined_us, self._broken_us())

    def _broken_us(self) -> int:
        end = self.line.end
        return NEVER if end is None or end.stream.broken else end.since_us

    def beats_since_us(self, incarnation: int) -> int:
        """Since when its heartbeat process has been there for this incarnation, free to beat."""
        beats = self.beats
        if beats is None or not beats.alive or not beats.begun or beats.stopped:
            return NEVER
        if beats.sender.incarnation != incarnation:
            return NEVER
        return max(beats.calm_since_us, beats.line.hampered_us)


class _Noting:
    """Keeps what the session notes, for whoever simulates the script."""

    noted: deque[tuple[int, Note]]
    session: Any

    def _note(self, note: Note, now_us: int) -> None:
        self.noted.append((self.session.watch.noted.popleft(), note))
        super()._note(note, now_us)  # type: ignore[misc]


_NOTING: dict[type, type] = {}


def _noting(client: type[Client[Any]]) -> Any:
    if client not in _NOTING:
        _NOTING[client] = type(f"Noting{client.__name__}", (_Noting, client), {})
    return _NOTING[client]


def _nothing(_now_us: int) -> None:
    """A sender has nothing to settle."""

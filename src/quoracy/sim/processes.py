"""What every simulated member has in common, whatever it does: an address, a clock of its own that drifts, a host that
it talks to until that falls silent, and a life that can be ended or stopped at any moment.

Most members use the SDK (``lines``): its client and connection over streams, and a heartbeat process beside the
training. The others speak as those who use no SDK do, message by message over a network that loses, doubles and
reorders them; what reaches such a process while it is stopped is held, and done when it goes on: later than anybody
expects.
"""

from __future__ import annotations

from typing import Any, Final

from quoracy.core.machine import MemberEvent
from quoracy.core.members import Cause
from quoracy.core.messages import Answered, Call, Hello, Moved, Told
from quoracy.sdk.client.client import Client
from quoracy.sdk.client.connection import Signer
from quoracy.sdk.client.session import Note, Session, Stage
from quoracy.sim.checkers import Checkers
from quoracy.sim.lines import Training, watched
from quoracy.sim.streams import Streams
from quoracy.sim.world import MS, World

TICK_US: Final = 150 * MS
RETRY_US: Final = 300 * MS
DEAF_US: Final = 900 * MS
"""Nothing heard for so long: try another host."""
OVERDUE_US: Final = 4_000 * MS
"""A command that nobody has answered for longer than anything takes."""


class SimProcess:
    """One process. ``name`` is its address; several processes may come to live under one member id."""

    logic: Session

    def __init__(
        self, world: World, streams: Streams, member: str, process: int, hosts: list[str], checkers: Checkers
    ) -> None:
        """Whoever is made from this says what it uses, and then begins."""
        self.world = world
        self.network = streams.network
        self.member = member
        self.name = f"{member}#{process}"
        self.alive = True
        self.leaving = False
        self._hosts = hosts
        self._host = world.rng.choice(hosts)
        self._checkers = checkers
        self._secret = world.rng.randbytes(32)
        self._clock = (world.between(0, 10**9), world.rng.uniform(0.97, 1.03))
        self._heard_us = world.now_us
        self._stopped = False
        self._held: list[tuple[Any, tuple[Any, ...]]] = []
        self._noted_as = 0
        """As which incarnation the note was made that was looked at last."""
        self.training: Training | None = None
        """None: it uses no SDK."""
        if not world.chance(streams.plain):
            self.training = Training(
                world, streams, self.name, member, hosts, checkers, self.clock_us, self._clock[1], self._act
            )  # fmt: skip

    def _use(
        self, session: type[Session], client: type[Client[Any]], *given: Any, key: Signer | None = None, **more: Any
    ) -> Any:
        """-> the session that it speaks with. ``given``, ``more``: what that is made of."""
        if self.training is None:
            return session(*given, **more)
        logic = watched(session)(*given, **more)
        self.training.use(logic, client, key)
        return logic

    @property
    def _notes(self) -> int:
        """How many have not been looked at."""
        return len(self.logic.notes if self.training is None else self.training.noted)

    def _next_note(self) -> Note:
        if self.training is None:
            self._noted_as = self.logic.incarnation
            return self.logic.notes.popleft()
        self._noted_as, note = self.training.noted.popleft()
        return note

    def _begin(self) -> None:
        self.network.attach(self.name, self._receive)
        self.world.note(self.name, lambda: "starts" if self.training is None else "starts, with the SDK")
        if self.training is not None:
            self.world.after(0, self.training.call)
            return
        self.logic.connect(self.clock_us())
        self._flush()
        self.world.after(self.world.between(0, TICK_US), self._tick)

    # -- life -------------------------------------------------------------------------------------------------------

    def ended(self) -> bool:
        return self.logic.stage is Stage.ENDED

    def present(self) -> bool:
        return self.alive and not self.ended()

    def kill(self) -> None:
        self.alive = False
        self.network.detach(self.name)
        self.world.note(self.name, lambda: "is killed")
        if self.training is not None:
            self.training.die()

    def stop(self) -> None:
        """The training; its heartbeat process goes on."""
        self._stopped = True
        if self.training is not None:
            self.training.stop()
        self.world.note(self.name, lambda: "is stopped")

    def go_on(self) -> None:
        if not self._stopped:
            return
        self._stopped = False
        self.world.note(self.name, lambda: "goes on")
        held, self._held = self._held, []
        if self.training is not None:
            self.training.stopped = False
        for action, args in held:
            action(*args)
        if self.training is not None:
            self.training.go_on()

    def leave(self) -> None:
        self.leaving = True
        self._command(self.logic.leaves, reason="had enough")

    def _command(self, event: type[MemberEvent], **fields: Any) -> int:
        """-> its number."""
        if self.training is not None:
            return self.training.command(event, **fields)
        return self.logic.wish(event, **fields)

    def _advance(self) -> None:
        """What is due by now."""
        if self.training is None:
            self.logic.tick(self.clock_us())

    def clock_us(self) -> int:
        offset_us, rate = self._clock
        return offset_us + int(self.world.now_us * rate)

    def overdue_command(self) -> Cause | None:
        overdue = self.logic.waited_us(self.clock_us()) > OVERDUE_US
        return self.logic.open_command() if overdue else None

    def _holds(self, action: Any, *args: Any) -> bool:
        """Whether the process cannot do this now: it is dead, or stopped and will do it when it goes on."""
        if self._stopped and self.alive:
            self._held.append((action, args))
        return self._stopped or not self.alive

    # -- talking ----------------------------------------------------------------------------------------------------

    def _receive(self, source: str, message: Any) -> None:
        if self._holds(self._receive, source, message):
            return
        if source == self._host:
            self._heard_us = self.world.now_us
        if isinstance(message, Answered):
            self._checkers.answered(self.name, message.cause, message.answer)
        elif isinstance(message, Told) and message.topic == "heartbeat":
            self._checkers.heard(self.name, message.member, message.incarnation)
        self._hear(message)
        if isinstance(message, Moved) and message.address and message.address != self._host:
            self._turn_to(message.address)
        self._act()

    def _hear(self, message: Any) -> None:
        self.logic.receive(message, self.clock_us())

    def _tick(self) -> None:
        if self._holds(self._tick) or self.ended():
            return
        if self.world.now_us - self._heard_us > DEAF_US:
            self._turn_to(self.world.rng.choice(self._hosts))
        self._look()
        self._act()
        self.world.after(TICK_US, self._tick)

    def _look(self) -> None:
        """Every moment, whether something was heard or not."""
        self.logic.tick(self.clock_us())

    def _turn_to(self, host: str) -> None:
        self._host = host
        self._heard_us = self.world.now_us
        self.logic.connect(self.clock_us())

    def _flush(self) -> None:
        if self.training is not None:
            self.training.progress(self.clock_us())
            return
        for message in self.logic.take():
            if isinstance(message, Call):
                self._checkers.attempted(self.name, message.cause)
            elif isinstance(message, Hello):
                self._checkers.greeted(self.name)
            said = f"{type(message).__name__} {getattr(message, 'cause', '')}"
            self.world.note(self.name, lambda said=said: f"-> {self._host}: {said}")  # type: ignore[misc]
            self.network.send(self.name, self._host, message)

    def _act(self) -> None:
        """Whatever follows from what was heard."""
        raise NotImplementedError

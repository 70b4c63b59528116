"""A simulated host process: the simulator's shell over ``core.host``.

It carries out what the host asks, over a network that may lose any of it, on a clock of its own that drifts and jumps.
It can be killed between any two actions, stopped and continued, and started again with nothing but the journal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quoracy.core import shell
from quoracy.core.host import Host, Phase
from quoracy.core.journal import RunCreated
from quoracy.core.limits import Limits
from quoracy.core.machine import Duty
from quoracy.core.members import OPERATOR_MARK, Accepted, joined_as
from quoracy.core.messages import Answered, Call, Hello, Sign, ToMember
from quoracy.core.run import Kinds
from quoracy.sim.checkers import Checkers
from quoracy.sim.doors import SimDoor, SimGuest
from quoracy.sim.network import Network
from quoracy.sim.store import (
    STORE,
    KeepBeat,
    KeepSnapshot,
    Look,
    ReadAll,
    ReadAnswer,
    ReadOne,
    Seen,
    Write,
    WriteDone,
    WriteFull,
    WriteTaken,
)
from quoracy.sim.streams import Streams
from quoracy.sim.world import MS, World

ANSWER_US = 60 * MS
"""A store that has not answered by then may or may not have heard."""
LOOK_US = 100 * MS


class SimHost:
    def __init__(
        self,
        world: World,
        streams: Streams,
        name: str,
        run: str,
        kinds: Kinds,
        limits: Limits,
        checkers: Checkers,
        session_s: float = 86_400.0,
    ) -> None:
        """``session_s``: how long session tokens are good."""
        self.world = world
        self.network: Network = streams.network
        self.streams = streams
        self.name = name
        self.run = run
        self.kinds = kinds
        self.limits = limits
        self.checkers = checkers
        self.alive = False
        self.lives = 0
        self.host: Host | None = None
        self.die_after: int | None = None
        """Kill the process after so many more actions: between an append and its answer, or between two sends."""
        self.dies_dark = False
        """And then its machine falls silent with it."""
        self.alone = False
        """Nobody else may serve: take over at once after a restart."""
        self.perform: Callable[[SimHost, Duty], None] | None = None
        """Who carries out duties; without anybody they are done at once, with nothing to say."""
        self.lost_races = 0
        self.door: SimDoor | None = None
        self.admit: Callable[[Call], Call] = _as_it_is
        """What a door writes into a join: by which token it came."""
        self.calm_since_us = 0
        """Since when it serves without having been stopped, and its clock has not jumped."""
        self._session_s = session_s
        self._clock = (0, 0, 1.0)
        self._stopped = False
        self._held: list[tuple[Any, tuple[Any, ...]]] = []
        self._asks: dict[int, tuple[str, int]] = {}
        self._asked = 0
        self._unsure: set[bytes] = set()
        self._wake_us: int | None = None

    # -- life -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.alive = True
        self.lives += 1
        self.die_after = None
        self._stopped = False
        self._held.clear()
        self._asks.clear()
        self._unsure.clear()
        self._wake_us = None
        self._clock = (self.world.now_us, self.world.between(0, 10**9), self.world.rng.uniform(0.97, 1.03))
        secret = self.world.rng.randbytes(32)
        self.host = Host(self.run, self.name, self.name, secret, self.kinds, self.limits)
        self.network.attach(self.name, self._receive)
        self.door = SimDoor(self, self._session_s, self.admit)
        self.streams.listen(self.name, self.door.accept)
        self.world.after(self.world.between(0, 500 * MS), self.door.look_round)
        self.world.note(self.name, lambda: f"starts, life {self.lives}")
        self._do(self.host.start(self.clock_us()))
        if self.alone:
            self._handle(shell.Take())
        self._look(self.lives)

    def create(self, created: RunCreated) -> None:
        """The first host makes the run before anybody else looks."""
        self._handle(shell.Loaded(None, []))
        self._handle(shell.Create(created))

    def kill(self, dark: bool = False) -> None:
        """``dark``: with its machine, so that nobody is told that its connections are gone."""
        self.alive = False
        self.host = None
        self.network.detach(self.name)
        self.world.note(self.name, lambda: "is killed, and its machine falls silent" if dark else "is killed")
        self.streams.silence(self.name, dark)
        if self.door is not None:
            self._flush_some()
            self.door.crash(dark)
            self.door = None

    def _flush_some(self) -> None:
        """Between two sends: some have left, some have not."""
        dirty = [] if self.door is None else list(self.door.dirty)
        for guest in dirty[: self.world.between(0, len(dirty))]:
            guest.flush()

    def is_stopped(self) -> bool:
        return self._stopped

    def stop(self) -> None:
        """As SIGSTOP: the clock goes on, nothing else does."""
        self._stopped = True
        self.world.note(self.name, lambda: "is stopped")

    def go_on(self) -> None:
        if not self._stopped:
            return
        self._stopped = False
        self.calm_since_us = self.world.now_us
        self.world.note(self.name, lambda: "goes on")
        held, self._held = self._held, []
        for action, args in held:
            if self.alive:
                action(*args)
        if self.door is not None:
            self.door.catch_up()

    def jump(self, by_us: int) -> None:
        """The machine slept: its monotonic clock stands elsewhere when it wakes."""
        world_us, own_us, rate = self._clock
        self._clock = (world_us, own_us + by_us, rate)
        self.calm_since_us = self.world.now_us
        self.world.note(self.name, lambda: f"clock jumps by {by_us / 1e6:.1f} s")

    def clock_us(self) -> int:
        world_us, own_us, rate = self._clock
        return own_us + int((self.world.now_us - world_us) * rate)

    def serves(self) -> bool:
        return self.alive and self.host is not None and self.host.phase is Phase.SERVING

    def report_done(self, duty: Duty, result: dict[str, Any] | None) -> None:
        """Whoever carried a duty out reports to the process that is there now, if there is one."""
        if self._stopped:
            self._held.append((self.report_done, (duty, result)))
            return
        self._handle(shell.DutyFinished(duty.entry, duty.index, result))

    # -- in ---------------------------------------------------------------------------------------------------------

    def _receive(self, source: str, message: Any) -> None:
        if self._stopped:
            self._held.append((self._receive, (source, message)))
            return
        if isinstance(message, WriteDone | WriteTaken | WriteFull):
            self._unsure.discard(message.nonce)
        match message:
            case Hello() | Call() | Sign() if self._lets_in(source, message):
                self._handle(shell.Received(source, message))
            case WriteDone(nonce=nonce):
                self._handle(shell.Written(nonce))
            case WriteTaken(nonce=nonce, payload=payload):
                self._handle(shell.Taken(nonce, payload))
            case WriteFull(nonce=nonce):
                self._handle(shell.Delayed(nonce, "no room"))
            case ReadAnswer(ask=ask, snapshot=snapshot, entries=entries):
                what, n = self._asks.pop(ask, ("", 0))
                if what == "all":
                    self._handle(shell.Loaded(snapshot, entries))
                elif what == "one":
                    self._handle(shell.EntryRead(n, entries[0] if entries else None))
            case Seen(first=first, entries=entries, beats=beats):
                self._handle(shell.PulseSeen(beats))
                if entries:
                    self._handle(shell.Followed(first, entries))

    def _lets_in(self, source: str, message: Hello | Call | Sign) -> bool:
        """As doors do: nobody enters as an incarnation whose token it does not have. What is inside of a signal they do
        not see."""
        match message:
            case Sign(member=member, incarnation=incarnation):
                return (source, member, incarnation) in self.network.sessions
            case Call(cause=cause) if cause.seq and not cause.member.startswith(OPERATOR_MARK):
                return (source, cause.member, cause.incarnation) in self.network.sessions
        return True

    def report(self, report: shell.Report) -> None:
        """Of the door."""
        self._handle(report)

    def _handle(self, report: shell.Report) -> None:
        if self.host is None:
            return
        host = self.host
        before = host.phase
        self._do(host.handle(report, self.clock_us()))
        self.lost_races += before is Phase.TAKING and host.phase is Phase.LOADING
        if host.phase is Phase.SERVING and before is not Phase.SERVING:
            self.calm_since_us = self.world.now_us
        if self.door is not None:
            self.door.flush()
        if self.alive and host.run is not None:
            self.checkers.folded(self.name, host)
        self._arm()

    def _arm(self) -> None:
        """One timer, at the host's next wish."""
        wake_us = None if self.host is None else self.host.wake_us()
        if wake_us is None or (self._wake_us is not None and self._wake_us <= wake_us):
            return
        self._wake_us = wake_us
        _, _, rate = self._clock
        self.world.after(int(max(0, wake_us - self.clock_us()) / rate) + 1, self._wake, self.lives, wake_us)

    def _wake(self, life: int, wake_us: int) -> None:
        if life != self.lives or self.host is None or wake_us != self._wake_us:
            return
        if self._stopped:
            self._held.append((self._wake, (life, wake_us)))
            return
        self._wake_us = None
        self._handle(shell.Tick())

    def _look(self, life: int) -> None:
        """Follow the journal and the pulses, as a watch does."""
        if life != self.lives or self.host is None:
            return
        if not self._stopped:
            run = self.host.run
            self.network.send(self.name, STORE, Look(0 if run is None else run.head.n))
        self.world.after(LOOK_US, self._look, life)

    # -- out --------------------------------------------------------------------------------------------------------

    def _do(self, actions: list[shell.Action]) -> None:
        for action in actions:
            if self.die_after is not None:
                self.die_after -= 1
                if self.die_after < 0:
                    self.kill(self.dies_dark)
            if not self.alive:
                return
            self._carry_out(action)

    def _carry_out(self, action: shell.Action) -> None:
        match action:
            case shell.Send(peer=peer, message=message):
                self._send(peer, message)
            case shell.Append(n=n, payload=payload, nonce=nonce):
                self.world.note(self.name, lambda: f"writes entry {n}")
                self.network.send(self.name, STORE, Write(n, payload, nonce))
                self._unsure.add(nonce)
                self.world.after(ANSWER_US, self._unanswered, self.lives, nonce)
            case shell.Load():
                self._ask("all", 0)
            case shell.ReadEntry(n=n):
                self._ask("one", n)
            case shell.Beat(key=key, seq=seq):
                self.network.send(self.name, STORE, KeepBeat(key, seq))
            case shell.Save(snapshot=snapshot):
                self.network.send(self.name, STORE, KeepSnapshot(snapshot))
            case shell.Perform(duty=duty):
                if self.perform is None:
                    self.world.after(MS, self.report_done, duty, None)
                else:
                    self.perform(self, duty)
            case shell.Stop(code=code, why=why):
                self.checkers.host_stopped(self.name, code, why)
            case shell.Explained():
                pass

    def _send(self, peer: Any, message: ToMember) -> None:
        """Through the door, or to one that uses no streams."""
        if isinstance(peer, SimGuest):
            peer.send(message, self.run)
            peer.door.dirty[peer] = None
            return
        if isinstance(message, Answered) and message.cause.seq == 0 and isinstance(message.answer, Accepted):
            self.network.sessions.add((str(peer), message.cause.member, joined_as(message.answer)))
        self.world.note(self.name, lambda: f"-> {peer}: {message}")
        self.network.send(self.name, str(peer), message)

    def _ask(self, what: str, n: int) -> None:
        self._asked += 1
        self._asks[self._asked] = (what, n)
        self.network.send(self.name, STORE, ReadAll(self._asked) if what == "all" else ReadOne(self._asked, n))
        self.world.after(ANSWER_US, self._ask_again, self.lives, self._asked)

    def _ask_again(self, life: int, ask: int) -> None:
        if life != self.lives or self.host is None or ask not in self._asks:
            return
        self._ask(*self._asks.pop(ask))

    def _unanswered(self, life: int, nonce: bytes) -> None:
        if life != self.lives or self.host is None:
            return
        if self._stopped:
            self._held.append((self._unanswered, (life, nonce)))
            return
        if nonce in self._unsure:
            self._handle(shell.Unknown(nonce))


def _as_it_is(call: Call) -> Call:
    return call

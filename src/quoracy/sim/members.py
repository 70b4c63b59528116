"""Simulated worker processes and an operator.

A worker drives the same session logic as a real one. It joins, gets ready, recovers if it has to, and then trains and
stands at the barrier, step after step. It can be killed, stopped beyond every time-out, slow, or one of two processes
under one name. As in earnest, the session lives in a sidecar that may die alone: the next one goes on with the life as
far as the training knows it, which is less than the session knew.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec
from msgspec import Raw

from quoracy.core.cluster.events import (
    Arrive,
    Heartbeat,
    RunRolledBack,
    WorkerCheckpointing,
    WorkerIdle,
    WorkerLeft,
    WorkerLoading,
    WorkerOrdered,
    WorkerReady,
    WorkerTraining,
)
from quoracy.core.cluster.views import Passage
from quoracy.core.codec import encode
from quoracy.core.machine import Event, MemberEvent, Signal
from quoracy.core.members import Cause
from quoracy.core.messages import Answered, Call, Sign, Told
from quoracy.sdk import Note, Session, Stage
from quoracy.sdk.session import Known
from quoracy.sim.checkers import Checkers
from quoracy.sim.network import Network
from quoracy.sim.processes import RETRY_US, TICK_US, SimProcess
from quoracy.sim.world import MS, World

BARRIER = "step"
TAKES_PART = ("Idle", "LoadingData", "Training", "Checkpointing")


FAR = 900_000
"""The number of a forged heartbeat: all honest ones would look like repeats of it."""


class PlainSession(Session):
    """Sends what plain clients do: where it stands and at which step, but not after which generation."""

    def _sign(self, signal: Signal) -> Sign:
        plain = msgspec.structs.replace(signal, after=None) if isinstance(signal, Arrive) else signal
        return super()._sign(plain)


class SimWorker(SimProcess):
    logic: Session

    def __init__(
        self, world: World, network: Network, run: str, member: str, process: int, hosts: list[str], checkers: Checkers
    ) -> None:
        super().__init__(world, network, member, process, hosts, checkers)
        self.train_us = (20 * MS, 200 * MS)
        self.passed = 0
        self._run = run
        self._known = Known()
        self._commands: deque[type[MemberEvent]] = deque()
        self._stands = False
        """At the barrier, as far as the training knows."""
        self._restarts = 0
        self.sidecar_dies = ""
        """hearing: with the next message, which the training is never told. standing: unnoticed until the training
        stands at a barrier, so that the arrival is among the first words of the next one. rolled-back: so, but not
        before the next roll-back."""
        self._part = False
        self._step = 0
        self._refreshed_us = 0
        self._session = PlainSession if world.chance(0.3) else Session
        self.logic = self._session(run, member, self._secret, retry_us=RETRY_US)
        self._begin()

    # -- life -------------------------------------------------------------------------------------------------------

    def leave(self) -> None:
        self._commands.append(WorkerLeft)
        self.logic.leave("had enough")

    def replace_sidecar(self) -> None:
        """It died. What is open is asked again, by a session that knows what the training was told and no more."""
        self.sidecar_dies = ""
        if self._holds(self.replace_sidecar) or self.ended():
            return
        self.world.note(self.name, lambda: f"goes on with another sidecar: {self._known}")
        progress = self.logic.progress
        self._restarts += 1
        self.logic = session = self._session(self._run, self.member, self._secret, retry_us=RETRY_US)
        session.progress = progress
        session.resume(self._known, self._restarts)
        for event in self._commands:
            session.wish(event)
        session.connect(self.clock_us())
        if self._stands:
            self._stand()
        self._flush()

    def impersonate(self, successor: SimWorker) -> None:
        """It was superseded, and gives signals of its successor all the same: as far ahead as it can, and where the
        successor is not."""
        newer, own = successor.logic, self.logic.incarnation
        fence = 0 if newer.standing is None else newer.standing.fence
        for signal in (
            Heartbeat(self.member, newer.incarnation, FAR),
            Arrive(self.member, newer.incarnation, BARRIER, successor.step, None, fence),
        ):
            for host in self._hosts:
                self.network.send(self.name, host, Sign(self._run, Raw(encode(signal)), self.member, own))

    @property
    def step(self) -> int:
        return self._step

    def _wish(self, event: type[MemberEvent]) -> None:
        self._commands.append(event)
        self.logic.wish(event)

    # -- talking ----------------------------------------------------------------------------------------------------

    def _hear(self, message: Any) -> None:
        if isinstance(message, Told) and isinstance(message.value, Passage):
            self._checkers.told(self.name, message.value)
        super()._hear(message)
        if self.sidecar_dies == "hearing":
            self.replace_sidecar()

    def _look(self) -> None:
        super()._look()
        if not self._part and self.world.now_us - self._refreshed_us > 4 * TICK_US:
            self._refresh()

    def _refresh(self) -> None:
        """Views may be lost, like anything else: ask for them again."""
        self._refreshed_us = self.world.now_us
        if self.logic.stage is Stage.JOINED:
            self.logic.connect(self.clock_us())

    # -- working ----------------------------------------------------------------------------------------------------

    def _act(self) -> None:
        while self.logic.notes:
            self._react(self.logic.notes.popleft())
        standing = self.logic.standing
        if standing is not None and not self._part and self.logic.stage is Stage.JOINED:
            if standing.state in TAKES_PART:
                self._part = True
                self._step = standing.barriers.get(BARRIER, (0, -1))[1] + 1
                self._train()
            elif standing.state == "Recovering" and self.logic.idle():
                self._wish(WorkerIdle)
                self.logic.tick(self.clock_us())
        self._flush()

    def _react(self, note: Note) -> None:
        session = self.logic
        self._learn(note)
        match note.what:
            case "joined":
                self._part = False
                self._wish(WorkerReady)
            case "passed":
                self.passed += 1
                session.progress += 1
                self._checkers.passed(self.name, self.member, session.incarnation, note.value)
                self._step = note.value.step + 1
                self._report_state()
                self._train()
            case "aborted" | "rolled-back" | "refused":
                if note.what == "aborted":
                    self._checkers.aborted(self.name, self.member, session.incarnation, note.value)
                self._part = False
                session.standing = None
                self._refresh()
                if note.what == self.sidecar_dies:
                    self.sidecar_dies = "standing"
            case "ordered":
                self._checkers.ordered(self.name, self.member, session.incarnation, note.value)
            case "lost" | "ended":
                self._part = False
                self.world.note(self.name, lambda: f"{note.what}: {note.value}")

    def _learn(self, note: Note) -> None:
        """What the training keeps of its life, for the next sidecar."""
        known = self._known
        if note.what in ("passed", "aborted", "rolled-back", "refused", "lost", "ended"):
            self._stands = self.logic.waits_at(BARRIER)
        match note.what:
            case "joined":
                self._known = self.logic.known()
            case "passed" | "aborted":
                known.after[note.value.barrier] = note.value.generation
            case "answered":
                known.seq += 1
                self._commands.popleft()
            case "rolled-back":
                known.fence = note.value.fence
            case "ordered":
                known.order = note.value.order
            case "lost":
                self._known = Known(lives=known.lives + 1)
                self._commands.clear()

    def _report_state(self) -> None:
        """Now and then a worker says that it does something else, along the rows of the worker's table."""
        standing = self.logic.standing
        if standing is None or not self.world.chance(0.2):
            return
        for event in self.world.rng.choice(((WorkerLoading, WorkerTraining), (WorkerCheckpointing,), (WorkerIdle,))):
            self._wish(event)

    def _train(self) -> None:
        self.world.after(self.world.between(*self.train_us), self._arrive, self.logic.incarnation, self._step)

    def _arrive(self, incarnation: int, step: int) -> None:
        if self._holds(self._arrive, incarnation, step):
            return
        session = self.logic
        stale = session.incarnation != incarnation or self._step != step or not self._part
        if stale or session.stage is not Stage.JOINED or session.waits_at(BARRIER):
            return
        if self.sidecar_dies == "standing":
            self.replace_sidecar()
        self._stand()
        self._flush()

    def _stand(self) -> None:
        self._stands = True
        arrive = self.logic.arrive(BARRIER, self._step, self.clock_us())
        self._checkers.arrived(self.name, arrive)


class SimOperator:
    """Gives orders and rolls the run back, repeating each command until it is answered."""

    def __init__(self, world: World, network: Network, run: str, hosts: list[str], checkers: Checkers) -> None:
        self.world = world
        self.network = network
        self.name = "@op#1"
        self._run = run
        self._hosts = hosts
        self._checkers = checkers
        self._open: dict[int, Call] = {}
        network.attach(self.name, self._receive)

    def command(self, event: Event) -> None:
        seq = self.world.between(1, 2**50)
        self._open[seq] = Call(self._run, Cause("@op", 0, seq), Raw(encode(event)))
        self._checkers.attempted(self.name, self._open[seq].cause)
        self._send(seq)

    def roll_back(self) -> None:
        self.command(RunRolledBack("the operator said so"))

    def order_all(self) -> None:
        self.command(WorkerOrdered("", self.world.rng.choice(("pause", "resume", "checkpoint"))))

    def _send(self, seq: int) -> None:
        call = self._open.get(seq)
        if call is not None:
            self.network.send(self.name, self.world.rng.choice(self._hosts), call)
            self.world.after(300 * MS, self._send, seq)

    def _receive(self, _source: str, message: Any) -> None:
        if isinstance(message, Answered):
            self._checkers.answered(self.name, message.cause, message.answer)
            self._open.pop(message.cause.seq, None)

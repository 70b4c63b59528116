"""Simulated worker processes and an operator.

A worker joins, gets ready, recovers if it has to, and then trains and stands at the barrier, step after step. Most use
the SDK's client, and read nothing while they train; the others drive its session alone, over messages. Each can be
killed, stopped beyond every time-out, slow, or one of two processes under one name.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from quoracy.core.cluster.events import (
    Arrive,
    Heartbeat,
    RunRolledBack,
    WorkerCheckpointing,
    WorkerIdle,
    WorkerLoading,
    WorkerOrdered,
    WorkerReady,
    WorkerTraining,
)
from quoracy.core.cluster.views import Passage, Standing
from quoracy.core.codec import encode
from quoracy.core.errors import Refusal
from quoracy.core.machine import Event, Signal
from quoracy.core.members import Cause
from quoracy.core.messages import Answered, Call, Sign, Told
from quoracy.sdk.client.session import Note, Stage
from quoracy.sdk.cluster.client import Wait, WorkerClient
from quoracy.sdk.cluster.session import WorkerSession
from quoracy.sim.checkers import Checkers
from quoracy.sim.lines import Training
from quoracy.sim.network import Network
from quoracy.sim.processes import RETRY_US, TICK_US, SimProcess
from quoracy.sim.streams import Streams
from quoracy.sim.world import MS, World
from quoracy.wire.frames import frame

BARRIER = "step"
IMPATIENT = 0.1
"""The share of calls that wait only for a while; the script comes back to the barrier later."""
TAKES_PART = ("Idle", "LoadingData", "Training", "Checkpointing")


FAR = 2**52
"""The number of a forged heartbeat: all honest ones would look like repeats of it."""


class PlainSession(WorkerSession):
    """Sends what plain clients do: where it stands and at which step, but not after which generation."""

    def _sign(self, signal: Signal) -> Sign:
        plain = msgspec.structs.replace(signal, after=None) if isinstance(signal, Arrive) else signal
        return super()._sign(plain)


class ScriptSession(WorkerSession):
    """Keeps how it said last that it stands somewhere."""

    stood: Arrive

    def arrive(self, barrier: str, step: int, now_us: int) -> Arrive:
        self.stood = super().arrive(barrier, step, now_us)
        return self.stood


class SimWorker(SimProcess):
    logic: WorkerSession

    def __init__(
        self, world: World, streams: Streams, run: str, member: str, process: int, hosts: list[str], checkers: Checkers
    ) -> None:
        super().__init__(world, streams, member, process, hosts, checkers)
        self.train_us = (20 * MS, 200 * MS)
        self.passed = 0
        self._run = run
        self._part = False
        self._step = 0
        self._refreshed_us = 0
        self._wait: Wait | None = None
        """The barrier at which the script waits."""
        self._gives_up_us = 0
        """When it stops waiting there; 0: never."""
        self._trains_next = False
        """As soon as what it has said is answered."""
        plain = PlainSession if world.chance(0.3) else WorkerSession
        session = plain if self.training is None else ScriptSession
        self.logic = self._use(session, WorkerClient, run, member, self._secret, retry_us=RETRY_US)
        self._begin()

    # -- life -------------------------------------------------------------------------------------------------------

    def impersonate(self, successor: SimWorker) -> None:
        """It was superseded, and gives signals of its successor all the same: as far ahead as it can, and where the
        successor is not."""
        if self._stopped:
            return
        newer, own = successor.logic, self.logic.incarnation
        fence = 0 if newer.standing is None else newer.standing.fence
        for signal in (
            Heartbeat(self.member, newer.incarnation, FAR),
            Arrive(self.member, newer.incarnation, BARRIER, successor.step, None, fence),
        ):
            sign = Sign(self._run, Raw(encode(signal)), self.member, own)
            if self.training is not None and self.training.line.end is not None:
                self.training.line.end.write(frame(sign))
            elif self.training is None:
                for host in self._hosts:
                    self.network.send(self.name, host, sign)

    @property
    def step(self) -> int:
        return self._step

    # -- talking ----------------------------------------------------------------------------------------------------

    def _hear(self, message: Any) -> None:
        if isinstance(message, Told) and isinstance(message.value, Passage):
            self._checkers.told(self.name, message.value)
        super()._hear(message)

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
        while self._notes:
            self._react(self._next_note())
        self._look_at_barrier()
        standing = self.logic.standing
        if standing is not None and not self._part and self.logic.stage is Stage.JOINED:
            if standing.state in TAKES_PART:
                self._part = True
                self._step = self._next_step(standing)
                self._train()
            elif standing.state == "Recovering" and self.logic.idle():
                self._command(WorkerIdle)
                self._advance()
        self._flush()
        if self._trains_next and self.training is not None and self.training.idle():
            self._trains_next = False
            self._compute(self.world.between(*self.train_us))

    def _react(self, note: Note) -> None:
        match note.what:
            case "joined":
                self._part = False
                self._command(WorkerReady)
            case "passed" | "aborted":
                if self.training is None:
                    self._barrier_ended(note.value)
            case "rolled-back" | "refused":
                self._part = False
                if self.training is None:
                    self._ask_again()
            case "ordered":
                self._checkers.ordered(self.name, self.member, self._noted_as, note.value)
            case "lost" | "ended":
                self._part = False
                self.world.note(self.name, lambda: f"{note.what}: {note.value}")

    def _next_step(self, standing: Standing) -> int:
        if self.training is not None:
            return self.logic.next_step(BARRIER)
        return standing.barriers.get(BARRIER, (0, -1))[1] + 1

    def _barrier_ended(self, passage: Passage) -> None:
        told = self._checkers.passed if passage.released else self._checkers.aborted
        session = self.logic
        life = session.stood.incarnation if isinstance(session, ScriptSession) else session.incarnation
        told(self.name, self.member, life, passage)
        if passage.released:
            self.passed += 1
            self.logic.progress += 1
            self._step = passage.step + 1
            self._report_state()
            self._train()
        else:
            self._part = False
            if self.training is None:
                self._ask_again()

    def _ask_again(self) -> None:
        self.logic.standing = None
        self._refresh()

    def _look_at_barrier(self) -> None:
        """What became of the call that waits there."""
        wait, training = self._wait, self.training
        if wait is None or training is None:
            return
        if wait.ended is not None:
            self._wait = None
            training.client.stop_waiting(wait, told=True)
            if isinstance(wait.ended, Refusal):
                self._part = False
            else:
                self._barrier_ended(wait.ended)
        elif self._gives_up_us and self.world.now_us >= self._gives_up_us:
            self._wait = None
            training.client.stop_waiting(wait, told=False)
            self._compute(self.world.between(*self.train_us))

    def _compute(self, for_us: int) -> None:
        """And then come to the barrier, for the first time or again."""
        if self.training is not None:
            self.training.compute()
        self.world.after(for_us, self._arrive, self.logic.incarnation, self._step)

    def _report_state(self) -> None:
        """Now and then a worker says that it does something else, along the rows of the worker's table."""
        standing = self.logic.standing
        if standing is None or not self.world.chance(0.2):
            return
        for event in self.world.rng.choice(((WorkerLoading, WorkerTraining), (WorkerCheckpointing,), (WorkerIdle,))):
            self._command(event)

    def _train(self) -> None:
        if self.training is None:
            self._compute(self.world.between(*self.train_us))
        else:
            self._trains_next = True

    def _arrive(self, incarnation: int, step: int) -> None:
        if self._holds(self._arrive, incarnation, step):
            return
        if self.training is not None:
            self.training.call()
            self._arrive_by_call(self.training)
            return
        session = self.logic
        stale = session.incarnation != incarnation or self._step != step or not self._part
        if stale or session.stage is not Stage.JOINED or session.waits_at(BARRIER):
            return
        self._stand()
        self._flush()

    def _stand(self) -> None:
        arrive = self.logic.arrive(BARRIER, self._step, self.clock_us())
        self._checkers.arrived(self.name, arrive)

    def _arrive_by_call(self, training: Training) -> None:
        """As ``Worker.barrier``: bad news first; then stand there, unless that is done."""
        if not self._part or self._wait is not None or not training.client.takes_part:
            self._part = self._part and self._wait is not None
            training.wake()
            return
        assert isinstance(self.logic, ScriptSession)
        stands = self.logic.waits_at(BARRIER)
        wait = training.client.arrive(BARRIER, self._step, self.clock_us())
        if isinstance(wait, Refusal):
            self._part = False
        else:
            self._wait = wait
            if not stands and wait.ended is None:
                self._checkers.arrived(self.name, self.logic.stood)
            self._gives_up_us = 0
            if self.world.chance(IMPATIENT):
                for_us = self.world.between(100 * MS, 1_500 * MS)
                self._gives_up_us = self.world.now_us + for_us
                self.world.after(for_us, training.wake)
        training.wake()


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

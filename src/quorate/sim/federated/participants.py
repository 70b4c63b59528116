"""Simulated participants: each drives the same logic as a real one, trains for a while, uploads, and offers.

One can be killed at any time or at a stage of its work, stopped beyond every time-out, slow, poisonous, or one of two
processes under one name.
"""

from __future__ import annotations

from typing import Any, Final

from quorate.core.federated.state import Verdict
from quorate.core.members import Cause
from quorate.core.messages import Answered, Call, Moved
from quorate.sdk.partaking import Note, Offer, Partaking, Stage, Work
from quorate.sim.federated.checkers import FederatedCheckers
from quorate.sim.federated.workshop import Objects, hexed, samples_of, trained
from quorate.sim.network import Network
from quorate.sim.world import MS, World

TICK_US: Final = 150 * MS
RETRY_US: Final = 300 * MS
DEAF_US: Final = 900 * MS
"""Nothing heard for so long: try another host."""
USUAL_US: Final = (100 * MS, 900 * MS)
STAGES: Final = ("assigned", "training", "trained", "uploaded", "offered", "judged")


class SimParticipant:
    """One process. ``name`` is its address; several processes may come to live under one member id."""

    def __init__(
        self, world: World, network: Network, run: str, member: str, process: int, hosts: list[str],
        checkers: FederatedCheckers, objects: Objects, initial: bool,
    ) -> None:  # fmt: skip
        self.world = world
        self.network = network
        self.member = member
        self.name = f"{member}#{process}"
        self.alive = True
        self.train_us = USUAL_US
        self.trainings = 0
        self.finished = False
        self.poison = False
        """Its next update is."""
        self.forgets = False
        """To upload what it offers next."""
        self.dies_at = ""
        """The stage of its work at which it dies."""
        self._hosts = hosts
        self._host = world.rng.choice(hosts)
        self._checkers = checkers
        self._objects = objects
        self.logic = Partaking(run, member, world.rng.randbytes(32), RETRY_US, about={"initial": initial})
        self._clock = (world.between(0, 10**9), world.rng.uniform(0.97, 1.03))
        self._heard_us = world.now_us
        self._stopped = False
        self._held: list[tuple[Any, tuple[Any, ...]]] = []
        network.attach(self.name, self._receive)
        world.note(self.name, lambda: "starts")
        self.logic.connect(self.clock_us())
        self._flush()
        world.after(world.between(0, TICK_US), self._tick)

    # -- life -------------------------------------------------------------------------------------------------------

    def ended(self) -> bool:
        return self.logic.stage is Stage.ENDED

    def present(self) -> bool:
        return self.alive and not self.ended()

    def kill(self) -> None:
        self.alive = False
        self.network.detach(self.name)
        self.world.note(self.name, lambda: "is killed")

    def stop(self) -> None:
        self._stopped = True
        self.world.note(self.name, lambda: "is stopped")

    def go_on(self) -> None:
        if not self._stopped:
            return
        self._stopped = False
        self.world.note(self.name, lambda: "goes on")
        held, self._held = self._held, []
        for action, args in held:
            action(*args)

    def overdue_command(self) -> Cause | None:
        """The command that nobody has answered for longer than anything takes."""
        overdue = self.logic.waited_us(self.clock_us()) > 4_000 * MS
        return self.logic.open_command() if overdue and self.present() else None

    def leave(self) -> None:
        self.logic.leave("had enough")

    def clock_us(self) -> int:
        offset_us, rate = self._clock
        return offset_us + int(self.world.now_us * rate)

    def _holds(self, action: Any, *args: Any) -> bool:
        """Whether the process cannot do this now: it is dead, or stopped and will do it when it goes on."""
        if self._stopped and self.alive:
            self._held.append((action, args))
        return self._stopped or not self.alive

    def _reaches(self, stage: str) -> bool:
        """Whether it lives on after this stage of its work."""
        self.world.note(self.name, lambda: f"{stage}: {self.logic.work}")
        if self.dies_at == stage:
            self.kill()
        return self.alive

    # -- talking ----------------------------------------------------------------------------------------------------

    def _receive(self, source: str, message: Any) -> None:
        if self._holds(self._receive, source, message):
            return
        if source == self._host:
            self._heard_us = self.world.now_us
        if isinstance(message, Answered):
            self._checkers.answered(self.name, message.cause, message.answer)
        self.logic.receive(message, self.clock_us())
        if isinstance(message, Moved) and message.address and message.address != self._host:
            self._turn_to(message.address)
        self._act()

    def _tick(self) -> None:
        if self._holds(self._tick) or self.ended():
            return
        if self.world.now_us - self._heard_us > DEAF_US:
            self._turn_to(self.world.rng.choice(self._hosts))
        self.logic.progress += 1
        self.logic.tick(self.clock_us())
        self._act()
        self.world.after(TICK_US, self._tick)

    def _turn_to(self, host: str) -> None:
        self._host = host
        self._heard_us = self.world.now_us
        self.logic.connect(self.clock_us())

    def _flush(self) -> None:
        for message in self.logic.take():
            if isinstance(message, Call):
                self._checkers.attempted(self.name, message.cause)
            said = f"{type(message).__name__} {getattr(message, 'cause', '')}"
            self.world.note(self.name, lambda said=said: f"-> {self._host}: {said}")  # type: ignore[misc]
            self.network.send(self.name, self._host, message)

    # -- working ----------------------------------------------------------------------------------------------------

    def _act(self) -> None:
        while self.logic.notes and self.alive:
            self._react(self.logic.notes.popleft())
        if self.alive:
            self._flush()

    def _react(self, note: Note) -> None:
        match note.what:
            case "train":
                if self._reaches("assigned"):
                    self.world.after(self.world.between(0, 20 * MS), self._train, note.value)
            case "verdict":
                self._checkers.judged(self.name, self.member, note.value)
                self._judged(note.value)
            case "finished":
                self.finished = True
            case "drop" | "lost" | "ended" | "refused":
                self.world.note(self.name, lambda: f"{note.what}: {note.value}")

    def _judged(self, verdict: Verdict) -> None:
        self.world.note(self.name, lambda: f"is told {verdict}")
        self._reaches("judged")

    def _train(self, work: Work) -> None:
        if self._holds(self._train, work) or self._is_stale(work):
            return
        if self._reaches("training"):
            self.trainings += 1
            self.world.after(self.world.between(*self.train_us), self._upload, work)

    def _upload(self, work: Work) -> None:
        if self._holds(self._upload, work) or self._is_stale(work) or not self._reaches("trained"):
            return
        digest = trained(self.member, work.round, work.weights)
        if self.poison:
            self.poison = False
            digest = hexed("poison", digest)
            self._objects.put(digest, poison=True)
        elif self.forgets:
            self.forgets = False
            digest = hexed("forgotten", digest)
        else:
            self._objects.put(digest, poison=False)
        if self._reaches("uploaded"):
            self.world.after(self.world.between(0, 20 * MS), self._offer, work, digest)

    def _offer(self, work: Work, digest: str) -> None:
        if self._holds(self._offer, work, digest):
            return
        samples = samples_of(self.member) if work.round >= 0 else 0
        metrics: dict[str, float | list[float]] = {"loss": samples / 7}
        if self.logic.offer(Offer(work.round, work.ticket, samples, digest, 100, metrics)):
            self.logic.tick(self.clock_us())
            self._act()
            self._reaches("offered")

    def _is_stale(self, work: Work) -> bool:
        """Told to drop it, or somebody else's offer is being looked at."""
        return self.logic.work is None or self.logic.work.ticket != work.ticket or self.logic.waits or self.ended()

"""Simulated participants: each drives the same logic as a real one, trains for a while, uploads, and offers.

One can be killed at any time or at a stage of its work, stopped beyond every time-out, slow, poisonous, or one of two
processes under one name.
"""

from __future__ import annotations

from typing import Final

from quoracy.core.federated.events import Array, Metrics
from quoracy.core.federated.state import Verdict
from quoracy.core.members import Cause
from quoracy.sdk.client.session import Note
from quoracy.sdk.federated.client import ParticipantClient
from quoracy.sdk.federated.session import Offer, ParticipantSession, Work
from quoracy.sim.federated.checkers import FederatedCheckers
from quoracy.sim.federated.workshop import Objects, hexed, samples_of, trained
from quoracy.sim.processes import RETRY_US, SimProcess
from quoracy.sim.streams import Streams
from quoracy.sim.world import MS, World

USUAL_US: Final = (100 * MS, 900 * MS)
STAGES: Final = ("assigned", "training", "trained", "uploaded", "offered", "judged")


class SimParticipant(SimProcess):
    logic: ParticipantSession
    _checkers: FederatedCheckers

    def __init__(
        self, world: World, streams: Streams, run: str, member: str, process: int, hosts: list[str],
        checkers: FederatedCheckers, objects: Objects, initial: bool,
    ) -> None:  # fmt: skip
        super().__init__(world, streams, member, process, hosts, checkers)
        self.train_us = USUAL_US
        self.trainings = 0
        self.finished = False
        self.poison = False
        """Its next update is."""
        self.forgets = False
        """To upload what it offers next."""
        self.copies = False
        """It offers next what another has uploaded last."""
        self.boasts = False
        """It claims as many samples as there are numbers for with its next update."""
        self.dies_at = ""
        """The stage of its work at which it dies."""
        self._objects = objects
        self._blind = world.chance(0.6)
        """It reads nothing while it trains."""
        self.logic = self._use(
            ParticipantSession, ParticipantClient, run, member, self._secret, RETRY_US, about={"initial": initial}
        )
        self._begin()

    # -- life -------------------------------------------------------------------------------------------------------

    def overdue_command(self) -> Cause | None:
        return super().overdue_command() if self.present() else None

    def _reaches(self, stage: str) -> bool:
        """Whether it lives on after this stage of its work."""
        self.world.note(self.name, lambda: f"{stage}: {self.logic.work}")
        if self.dies_at == stage:
            self.kill()
        return self.alive

    def _look(self) -> None:
        self.logic.progress += 1
        super()._look()

    # -- working ----------------------------------------------------------------------------------------------------

    def _act(self) -> None:
        while self._notes and self.alive:
            self._react(self._next_note())
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
            if self.training is not None and self._blind:
                self.training.compute()
            self.world.after(self.world.between(*self.train_us), self._upload, work)

    def _upload(self, work: Work) -> None:
        if self._holds(self._upload, work):
            return
        if self.training is not None:
            self.training.call()
        if not self.alive or self._is_stale(work) or not self._reaches("trained"):
            return
        digest = trained(self.member, work.round, work.weights)
        if self.poison:
            self.poison = False
            digest = hexed("poison", digest)
            self._objects.put(self.member, digest, poison=True)
        elif self.forgets:
            self.forgets = False
            digest = hexed("forgotten", digest)
        elif self.copies and (others := sorted(put for put in self._objects.good if put[0] != self.member)):
            self.copies = False
            _, digest = self.world.rng.choice(others)
        else:
            self._objects.put(self.member, digest, poison=False)
        if self._reaches("uploaded"):
            self.world.after(self.world.between(0, 20 * MS), self._offer, work, digest)

    def _offer(self, work: Work, digest: str) -> None:
        if self._holds(self._offer, work, digest):
            return
        samples = samples_of(self.member) if work.round >= 0 else 0
        if self.boasts and samples:
            self.boasts, samples = False, 2**53
        metrics: Metrics = {"loss": samples / 7, "confusion": Array((2, 2), [0.0, 1.0, 2.0, samples / 3])}
        history = {"loss": [samples / 5, samples / 7]}
        if self._hand_in(Offer(work.round, work.ticket, samples, digest, 100, metrics, history)):
            self._advance()
            self._act()
            self._reaches("offered")

    def _hand_in(self, offer: Offer) -> bool:
        if self.training is None:
            return self.logic.offer(offer)
        self.training.client.offer(offer)
        work = self.training.client.work
        return work is not None and work.ticket == offer.ticket

    def _is_stale(self, work: Work) -> bool:
        """Told to drop it, or somebody else's offer is being looked at."""
        return self.logic.work is None or self.logic.work.ticket != work.ticket or self.logic.waits or self.ended()

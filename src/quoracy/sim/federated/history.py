"""A deliberately simple model of a federated run, walked along the journal.

No code of the machine is used: what happened to whom is worked out from the meaning of the events alone, so that a
mistake in the tables cannot hide itself. Only the dice are the same, since a draw has to be repeatable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import ceil
from statistics import median
from typing import Any

import msgspec

from quoracy.core.dice import Dice
from quoracy.core.federated.events import (
    ParticipantJoined,
    ParticipantLeft,
    ParticipantLost,
    ParticipantReadmitted,
    RoundBegan,
    RoundClosed,
    RoundSuspended,
    RunPaused,
    RunResumed,
    RunStopped,
    StandbyExpired,
    UpdateOffered,
)
from quoracy.core.journal import DutyDone, RunCreated
from quoracy.sim.checkers.journal import Happened, read


class Update(msgspec.Struct):
    """One update that was offered and accepted for looking at."""

    member: str
    round: int
    ticket: int
    digest: str
    samples: int
    """That it claims; when its round is closed, that it counts for."""
    fate: str = "offered"
    """offered, admitted, refused, dropped"""
    reported: tuple[Any, Any] = ({}, {})
    """Its metrics, and the history of its epochs."""


class Place(msgspec.Struct):
    ticket: int
    fate: str = "training"
    update: Update | None = None


class Closed(msgspec.Struct):
    number: int
    previous: str
    state: str
    accepted: list[Update]
    weights: str = ""


class Course:
    """``fail`` is called with what the model cannot explain: one checker says so, the others go on as they can."""

    def __init__(self, fail: Callable[[str], None] = lambda _what: None) -> None:
        self._fail = fail
        self.config: dict[str, Any] = {}
        self.run = ""
        self.phase = "standby"
        """standby, round, closing, evaluating, paused, finished, stopped"""
        self.number = -1
        self.weights = ""
        self.state = ""
        self.newest: dict[str, int] = {}
        self.here: set[str] = set()
        self.quarantined: set[str] = set()
        self.updates: list[Update] = []
        self.closed: list[Closed] = []
        self.places: dict[str, Place] = {}
        self.tickets = 0
        self._open = False
        self.target = 0
        self._attempt = 0
        self._givers: dict[str, bool] = {}
        self._refused: dict[str, int] = {}
        self._duties: dict[tuple[int, int], Update | str] = {}
        self._pausing = False

    def walk(self, journal: list[bytes], run: str) -> Iterator[Happened]:
        """Each event, before it counts in the model."""
        self.run = run
        entry = index = 0
        for happened in read(journal, run):
            index = index + 1 if happened.entry == entry else 0
            entry = happened.entry
            yield happened
            self._take((entry, index), happened.event)

    def set(self, name: str, default: Any = 0) -> Any:
        return self.config.get(name, default)

    def over(self) -> bool:
        return self.phase in ("finished", "stopped")

    def _take(self, at: tuple[int, int], event: Any) -> None:
        match event:
            case RunCreated(config=config):
                self.config = config
                self.weights = config.get("initial", "")
                self.number = 0 if self.weights else -1
            case ParticipantJoined():
                self._join(event)
            case ParticipantLeft() | ParticipantLost():
                self.here.discard(event.member)
            case ParticipantReadmitted(member=member) if member in self.quarantined:
                self.quarantined.discard(member)
                self._refused[member] = 0
            case UpdateOffered():
                self._offer(at, event)
            case DutyDone():
                self._done(at, event)
            case _:
                self._rounds(at, event)

    def _rounds(self, at: tuple[int, int], event: Any) -> None:
        match event:
            case RoundBegan():
                self._begin()
            case RoundSuspended(overdue=overdue, unseen=unseen):
                self.phase = "standby"
                for place in self.places.values():
                    if overdue and (place.fate == "training" or (unseen and place.fate == "offered")):
                        place.fate = "dropped"
                        if place.update is not None:
                            place.update.fate = "dropped"
            case RoundClosed():
                self._close(at)
            case RunPaused() | StandbyExpired():
                self._pause()
            case RunResumed():
                self._resume(at)
            case RunStopped() if not self.over():
                self.phase = "stopped"
                self._drop_open()

    # -- people -----------------------------------------------------------------------------------------------------

    def _join(self, event: ParticipantJoined) -> None:
        if event.member in self.quarantined:
            self._fail(f"{event.member} joins in quarantine")
        self.newest[event.member] = event.supersedes + 1
        self._givers.setdefault(event.member, False)
        self._givers[event.member] = event.initial
        self.here.add(event.member)

    def _offer(self, at: tuple[int, int], event: UpdateOffered) -> None:
        told = (event.member, event.round, event.ticket, event.digest)
        if any((u.member, u.round, u.ticket, u.digest) == told for u in self.updates):
            return
        place = self.places.get(event.member)
        if place is None or (place.ticket, place.fate) != (event.ticket, "training") or event.round != self.number:
            self._fail(f"entry {at[0]}: {told} is taken in, and its sender has {place} in round {self.number}")
            return
        place.fate = "offered"
        place.update = Update(event.member, event.round, event.ticket, event.digest, event.samples)
        place.update.reported = (event.metrics, event.history)
        self.updates.append(place.update)
        self._duties[at] = place.update

    def _done(self, at: tuple[int, int], event: DutyDone) -> None:
        duty = self._duties.pop((event.entry, event.index), None)
        result = event.result or {}
        if isinstance(duty, Update):
            self._judge(duty, bool(result.get("ok")))
        elif duty is None:
            self._fail(f"entry {at[0]}: duty {event.entry}.{event.index} is done and was never wanted, or done before")
        elif not self.over():
            self._made(at, duty, result)

    def _judge(self, update: Update, good: bool) -> None:
        if update.fate != "offered":
            return
        update.fate = "admitted" if good else "refused"
        self.places[update.member].fate = update.fate
        if not good:
            self._refused[update.member] = self._refused.get(update.member, 0) + 1
            if self._refused[update.member] >= self.set("refused_max", 1):
                self.quarantined.add(update.member)
                self.here.discard(update.member)

    # -- rounds -----------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self.phase = "round"
        if not self._open:
            self._open, self._attempt = True, 0
            target = max(self.set("per_round") or len(self.here), self.set("count_min"))
            self.target = 1 if self.number < 0 else target
        self._attempt += 1
        fates = [p.fate for who, p in self.places.items() if p.fate != "training" or who in self.here]
        reachable = sum(fate in ("training", "offered", "admitted") for fate in fates)
        share = Fraction(str(self.set("over_select")))
        wanted = 1 if self.number < 0 else ceil(self.target * (1 + share))
        drawn = self._draw(max(0, wanted - reachable))
        for member in sorted(drawn):
            self.tickets += 1
            self.places[member] = Place(self.tickets)

    def _draw(self, missing: int) -> list[str]:
        fresh = sorted(self.here - self.places.keys())
        again = sorted(who for who in self.here if who in self.places and self.places[who].fate == "refused")
        if self.number < 0:
            seats = list(self._givers)
            givers = [who for who in fresh if self._givers[who]] or [who for who in again if self._givers[who]]
            return sorted(givers, key=seats.index)[: min(1, missing)]
        seed = self.set("seed").to_bytes(16, "big")
        dice = Dice(self.run, "select", self._attempt, self.number + 1, seed)
        drawn = dice.sample(fresh, min(missing, len(fresh)))
        return drawn + dice.sample(again, min(missing - len(drawn), len(again)))

    def _drop_open(self) -> None:
        for place in self.places.values():
            if place.fate in ("training", "offered"):
                place.fate = "dropped"
                if place.update is not None:
                    place.update.fate = "dropped"

    def _close(self, at: tuple[int, int]) -> None:
        self._drop_open()
        admitted = [p.update for _, p in sorted(self.places.items()) if p.fate == "admitted" and p.update is not None]
        self.places = {}
        self._open = False
        if self.number < 0:
            if not admitted:
                self._fail(f"entry {at[0]} closes the round for the initial weights without any")
            self.weights, self.number, self.phase = admitted[0].digest if admitted else "", 0, "standby"
            return
        self._clip(admitted)
        self.closed.append(Closed(self.number, self.weights, self.state, admitted))
        self.phase = "closing"
        self._duties[at] = "aggregate"

    def _clip(self, admitted: list[Update]) -> None:
        for update in admitted:
            update.samples = min(update.samples, self.set("samples_max") or update.samples)
        if len(admitted) >= 4:
            bound = 10 * median(Fraction(update.samples) for update in admitted)
            for update in admitted:
                update.samples = int(min(Fraction(update.samples), bound))

    def _made(self, at: tuple[int, int], duty: str, result: dict[str, Any]) -> None:
        if "failed" in result:
            self.phase, self._pausing = "paused", False
            return
        if duty == "aggregate":
            self.weights, self.state = result["weights"], result["state"]
            self.closed[-1].weights = self.weights
            if self.set("evaluation", ""):
                self.phase = "evaluating"
                self._duties[at] = "evaluate"
                return
        self.number += 1
        self.phase = "finished" if self.number >= self.set("rounds", 10) else "standby"
        if self._pausing and self.phase == "standby":
            self.phase = "paused"
        self._pausing = False

    # -- operators --------------------------------------------------------------------------------------------------

    def _pause(self) -> None:
        if self.phase in ("standby", "round"):
            self.phase = "paused"
        elif self.phase in ("closing", "evaluating"):
            self._pausing = True

    def _resume(self, at: tuple[int, int]) -> None:
        if self.phase != "paused":
            self._pausing = False
            return
        self.places = {who: place for who, place in self.places.items() if place.fate != "dropped"}
        undone = self.closed[-1] if self.closed and self.closed[-1].number == self.number else None
        self.phase = "standby" if undone is None else "evaluating" if undone.weights else "closing"
        if undone is not None:
            self._duties[at] = "evaluate" if undone.weights else "aggregate"

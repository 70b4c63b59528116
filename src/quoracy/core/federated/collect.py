"""The collector of a federated run: heartbeats become losses, windows become rounds that begin, close or are suspended.

Signals are volatile, and so is the clock of a window: after a restart everyone and every window starts afresh, so that
downtime counts for nothing. The machine checks by the run's own time that nothing comes early.

Losses come first and alone: what follows from them is judged when they have been applied, in the same entry. Then, in
a round: it closes if it may; it is suspended if it cannot come to an end with those who are here, or if too many take
too long. In standby: a round begins if enough are there, and the run pauses if that takes too long.
"""

from __future__ import annotations

from typing import Any

import msgspec

from quoracy.core.codec import said_s, us
from quoracy.core.detector import Detector
from quoracy.core.errors import Refusal
from quoracy.core.federated import drawing, rounds
from quoracy.core.federated.events import (
    Beat,
    BeatSeen,
    ParticipantJoined,
    ParticipantLeft,
    ParticipantLost,
    RoundBegan,
    RoundClosed,
    RoundSuspended,
    StandbyExpired,
)
from quoracy.core.federated.explain import Heard, Pulse, explain, overview
from quoracy.core.federated.machine import Federated
from quoracy.core.federated.state import Participant, ParticipantState, Phase, Round, Task, count, least
from quoracy.core.federated.views import passing, phase_for
from quoracy.core.machine import Event, Explanation, MemberEvent
from quoracy.core.members import superseded


class Window(msgspec.Struct, frozen=True):
    """Which wait it is: another one begins whenever one of these changes."""

    phase: Phase
    since_us: int
    """By the run's time: what was left and entered again within one entry is another wait."""
    number: int
    attempt: int


class Collector:
    def __init__(self, machine: Federated, now_us: int) -> None:
        task = machine.task
        self._detector = Detector(us(task.config.heartbeat_timeout_s), now_us)
        self._pulses: dict[str, Pulse] = {}
        self._window = _window(task)
        self._since_us = now_us
        """When this window began, on this host's clock."""
        self._looked = -1
        """The state of the machine in which nothing was due, until ``_next_us``."""
        self._next_us: int | None = now_us
        """At first at once: where nobody is here, nothing else would begin the wait for somebody."""
        self.unsettled = True
        """See ``machine.Collector``. Nothing follows from a heartbeat alone."""
        self.beats = 0
        self._began_us = now_us
        self._found = frozenset(task.here)
        """With whom it began, giving each of them a fresh time-out."""
        for participant in task.here.values():
            self._watch(participant.id, participant.incarnation, now_us)

    # -- signals in -------------------------------------------------------------------------------------------------

    def hear(self, signal: Beat, machine: Federated, now_us: int) -> Refusal | BeatSeen:
        participant = machine.task.participants.get(signal.member)
        if participant is None:
            return Refusal("unknown_member", f"participant {signal.member} has not joined", "join first")
        if signal.incarnation != participant.incarnation:
            return superseded(participant.id, signal.incarnation, participant.incarnation)
        if participant.id not in machine.task.here:
            return _gone(participant)
        self.beats += 1
        if self._detector.hear(participant.id, signal.seq, now_us):
            known = self._pulses.get(participant.id)
            if known is None:
                self._pulses[participant.id] = Pulse(signal, now_us)
            else:
                if signal.progress != known.beat.progress:
                    known.progress_us = now_us
                known.beat = signal
        return BeatSeen(signal.seq, *phase_for(machine.task, participant.id), *passing(machine.task))

    # -- events out -------------------------------------------------------------------------------------------------

    def due(self, machine: Federated, now_us: int) -> list[Event]:
        task = machine.task
        self.unsettled = False
        verdicts = self._detector.look(now_us)
        self._since_us += self._detector.stalled_us
        lost: list[Event] = []
        for verdict in verdicts:
            participant = task.here.get(verdict.who)
            if participant is None:
                self._forget(verdict.who)  # quarantined since
            elif participant.incarnation != verdict.life:
                self._watch(participant.id, participant.incarnation, now_us)  # just come: an older life was silent
            else:
                lost.append(ParticipantLost(participant.id, participant.incarnation, verdict.silent_us, verdict.why))
        if lost:
            return lost
        self._notice(task, now_us)
        if task.changes == self._looked and (self._next_us is None or now_us < self._next_us):
            return []
        self._next_us = None
        event = self._follows(task, now_us)
        if event is None:
            self._looked = task.changes
            return []
        self._looked = -1
        return [event]

    def _follows(self, task: Task, now_us: int) -> Event | None:
        elapsed_us = now_us - self._since_us
        if task.state is Phase.ROUND and task.round is not None:
            return self._in_round(task, task.round, elapsed_us + task.round.spent_us)
        if task.state is not Phase.STANDBY:
            return None
        if not drawing.why_not_begin(task):
            return RoundBegan(task.number)
        if elapsed_us >= us(task.config.standby_max_s):
            return StandbyExpired(drawing.missing(task)[:256])
        self._wake_after(us(task.config.standby_max_s))
        return None

    def _in_round(self, task: Task, round_: Round, open_us: int) -> Event | None:
        standing = count(task, round_)
        if why := rounds.why_close(task, round_, standing, open_us):
            return RoundClosed(round_.number, why, rounds.bound_of(task, round_))
        if standing.reachable < least(task, round_):
            why = f"{standing.reachable} of at least {least(task, round_)} updates can still come"
            away = sorted(task.tally.away)
            absent = f"gone: {drawing.few(away)}" if away else "nobody is gone, but some were refused"
            return RoundSuspended(round_.number, f"{why}; {absent}"[:256])
        over = open_us >= us(task.config.time_max_s)
        long_over = open_us >= rounds.patience_us(task)
        if over and standing.admitted + (0 if long_over else standing.offered) < least(task, round_):
            why = f"{standing.admitted} of at least {least(task, round_)} updates within {said_s(open_us)}"
            return RoundSuspended(round_.number, why, True, long_over)
        if open_us < us(task.config.time_min_s):
            self._wake_after(us(task.config.time_min_s) - round_.spent_us)
        elif not over:
            self._wake_after(us(task.config.time_max_s) - round_.spent_us)
        elif not long_over:
            self._wake_after(rounds.patience_us(task) - round_.spent_us)
        return None

    def _wake_after(self, delay_us: int) -> None:
        """So long after this window began."""
        self._next_us = self._since_us + delay_us

    def _notice(self, task: Task, now_us: int) -> None:
        window = _window(task)
        if window != self._window:
            self._window, self._since_us = window, now_us

    # -- after a commit ---------------------------------------------------------------------------------------------

    def committed(self, events: list[Event], machine: Federated, now_us: int) -> None:
        for event in events:
            match event:
                case ParticipantJoined():
                    self._watch(event.member, event.supersedes + 1, now_us)
                case ParticipantLost() | ParticipantLeft():
                    self._forget(event.member)
                case MemberEvent():
                    self._detector.touch(event.member, now_us)
        self._notice(machine.task, now_us)

    def _watch(self, member: str, incarnation: int, now_us: int) -> None:
        self._forget(member)
        self._detector.watch(member, now_us, incarnation)

    def _forget(self, member: str) -> None:
        self._detector.drop(member)
        self._pulses.pop(member, None)

    def wake_us(self) -> int | None:
        """With a window that ends, also often enough that waiting for it is not taken for a stall."""
        wake_us = self._detector.wake_us()
        if self._next_us is None:
            return wake_us
        return min(self._next_us, self._detector.patrol_us() if wake_us is None else wake_us)

    # -- for people -------------------------------------------------------------------------------------------------

    def silent_us(self, member: str, now_us: int) -> int | None:
        return self._detector.silent_us(member, now_us)

    def explain(self, machine: Federated, now_us: int) -> Explanation:
        return explain(machine.task, self._heard(), now_us)

    def overview(self, machine: Federated, now_us: int) -> dict[str, Any]:
        return overview(machine.task, self._heard(), now_us)

    def _heard(self) -> Heard:
        return Heard(self._pulses, self._detector, self._since_us, self._began_us, self._found)


def _window(task: Task) -> Window:
    return Window(task.state, task.since_us, task.number, 0 if task.round is None else task.round.attempt)


def _gone(participant: Participant) -> Refusal:
    if participant.state is ParticipantState.QUARANTINED:
        why = f"participant {participant.id} is {participant.state.value}: {participant.reason}"
        return Refusal("quarantined", why, "ask an operator to let it back in")
    why = f"participant {participant.id} is {participant.state.value}: {participant.reason or 'it left'}"
    return Refusal("member_gone", why, "join again to begin a new life")

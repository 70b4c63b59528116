"""The collector of a fleet: heartbeats become losses, arrivals become releases.

Signals are volatile. What is kept here is lost with the process and comes back by itself: workers beat on, and repeat
every arrival that was not answered. A gathering (the arrivals at the open generation of one barrier) is forgotten only
when an entry that settles that generation is committed, so a conflict or a failed append loses nothing.

A barrier is settled by the first of these that holds:

1. the run was rolled back since the first arrival: aborted, because those who stand there hold void tokens;
2. all who take part have arrived at one step, and at least ``barrier_min`` do: released;
3. all have arrived, but at different steps: aborted, naming who stood where;
4. a loss brought it below ``barrier_min``, which it had reached before: aborted;
5. ``barrier_deadline_s`` passed since the first arrival: aborted, naming who was missing.

Losses come first and alone: what follows from them is judged when they have been applied, in the same entry.
"""

from __future__ import annotations

from typing import Any

from quoracy.core.cluster.events import (
    Arrive,
    BarrierAborted,
    BarrierDropped,
    BarrierReleased,
    Heartbeat,
    HeartbeatSeen,
    RunRolledBack,
    RunStopped,
    WorkerLeft,
    WorkerLost,
    WorkerRegistered,
)
from quoracy.core.cluster.explain import by_step, explain, too_few
from quoracy.core.cluster.heard import Gathering, Heard, Pulse
from quoracy.core.cluster.machine import Cluster
from quoracy.core.cluster.overview import overview
from quoracy.core.cluster.state import GONE, MAY_ARRIVE, Barrier, BarrierState, Fleet, Phase, Settled, Worker
from quoracy.core.cluster.views import Passage, passage
from quoracy.core.codec import said_s, us
from quoracy.core.detector import Detector
from quoracy.core.errors import Refusal
from quoracy.core.machine import Event, Explanation, MemberEvent
from quoracy.core.members import superseded
from quoracy.core.waits import few


class Collector:
    def __init__(self, machine: Cluster, now_us: int) -> None:
        config = machine.fleet.config
        self._detector = Detector(us(config.heartbeat_timeout_s), now_us)
        self.gatherings: dict[str, Gathering] = {}
        self.pulses: dict[str, Pulse] = {}
        self._aborted_us: dict[str, int] = {}
        """By name: when its newest generation was aborted, if it was."""
        self.beats = 0
        """Heartbeats taken in, for people who watch the load."""
        self.unsettled = True
        """See ``machine.Collector``: a barrier was arrived at for the first time, or by as many as take part."""
        self._began_us = now_us
        self._found = frozenset(machine.fleet.by_seat)
        for worker in machine.fleet.by_seat.values():
            self._detector.watch(worker.id, now_us, worker.incarnation)

    # -- signals in -------------------------------------------------------------------------------------------------

    def hear(self, signal: Any, machine: Cluster, now_us: int) -> Refusal | HeartbeatSeen | Passage | None:
        worker = machine.fleet.workers.get(signal.member)
        if worker is None:
            return Refusal("unknown_worker", f"worker {signal.member} has not registered", "register first")
        if signal.incarnation != worker.incarnation:
            return superseded(worker.id, signal.incarnation, worker.incarnation)
        if worker.seat not in machine.fleet.by_seat:
            why = f"worker {worker.id} is {worker.state.value}: {worker.reason or 'it left'}"
            return Refusal("member_gone", why, "register again to begin a new life")
        if type(signal) is Heartbeat:
            return self._beat(worker, signal, now_us)
        return self._arrive(worker, signal, machine.fleet, now_us)

    def _beat(self, worker: Worker, beat: Heartbeat, now_us: int) -> HeartbeatSeen:
        self.beats += 1
        if self._detector.hear(worker.id, beat.seq, now_us):
            known = self.pulses.get(worker.id)
            if known is None:
                self.pulses[worker.id] = Pulse(beat, now_us, now_us)
            else:
                if beat.progress != known.beat.progress:
                    known.progress_us = now_us
                known.beat = beat
                known.heard_us = now_us
        order = worker.order
        if order is None or order.number <= beat.order:
            return HeartbeatSeen(beat.seq)
        return HeartbeatSeen(beat.seq, order.number, order.command, order.arguments, order.fence)

    def _arrive(self, worker: Worker, arrive: Arrive, fleet: Fleet, now_us: int) -> Refusal | Passage | None:
        self._detector.touch(worker.id, now_us)
        if fleet.state is Phase.CLOSED:
            return Refusal("run_closed", f"the run is over: {fleet.reason}", "leave")
        if arrive.fence != fleet.generation:
            why = f"the arrival belongs to generation {arrive.fence} of the run, which is at {fleet.generation}"
            return Refusal("stale_token", why, "recover to where the run was rolled back to, then arrive again")
        if worker.state not in MAY_ARRIVE:
            why = f"worker {worker.id} is {worker.state.value} and cannot stand at a barrier"
            return Refusal("wrong_state", why, "report ready, or idle after recovering, before arriving")
        barrier = fleet.barriers.get(arrive.barrier)
        settled = fleet.settled_of(arrive.barrier)
        over: Refusal | Settled | None = None
        if arrive.after is not None and arrive.after > settled:
            why = f"barrier {arrive.barrier} is at generation {settled}; {arrive.after} is not settled"
            over = Refusal("contradiction", why, "send the last generation you were told of")
        elif barrier is not None:
            by_step = arrive.after is None
            over = (
                self._by_step(worker, arrive, barrier, now_us) if by_step else _by_generation(worker, arrive, barrier)
            )
        if over is None:
            return self._gather(worker, arrive, fleet, settled + 1, now_us)
        return passage(arrive.barrier, over, over.place(worker.seat)) if isinstance(over, Settled) else over

    def _by_step(self, worker: Worker, arrive: Arrive, barrier: Barrier, now_us: int) -> Settled | Refusal | None:
        """What an arrival without ``after`` is told. Steps grow: the step of the newest release again is a repeat of
        that visit, a later one is the next visit, and an earlier one would let its sender through, or hold the others
        up, where they have been long ago. None: it stands at the open generation."""
        if arrive.step > barrier.step:
            return self._crossed(worker, arrive, barrier, now_us)
        if arrive.step == barrier.step:
            over = barrier.newest_release(arrive.fence)
            if over is not None and over.place(worker.seat) >= 0:
                return over
        why = f"barrier {barrier.name} was released at step {barrier.step}; {worker.id} comes with step {arrive.step}"
        fix = f"go on at step {barrier.step + 1}; where steps do not grow, send the last generation as after"
        return Refusal("step_behind", why, fix)

    def _crossed(self, worker: Worker, arrive: Arrive, barrier: Barrier, now_us: int) -> Settled | None:
        """The newest generation, if it was aborted while this arrival was under way: its sender did not know, so it is
        an arrival at that generation and not at the next."""
        over = barrier.settled[-1]
        crossed = over.state is BarrierState.ABORTED and now_us < self._aborted_us.get(barrier.name, 0)
        return over if crossed and over.fence == arrive.fence and over.place(worker.seat) > -2 else None

    def _gather(self, worker: Worker, arrive: Arrive, fleet: Fleet, generation: int, now_us: int) -> Refusal | None:
        gathering = self.gatherings.get(arrive.barrier)
        if gathering is None or worker.seat not in gathering.arrivals:
            stands_at = [name for name, other in self.gatherings.items() if worker.seat in other.arrivals]
            if len(stands_at) >= fleet.config.open_barriers_max:
                return _too_many(worker, arrive.barrier, stands_at)
        if gathering is None:
            deadline_us = now_us + us(fleet.config.barrier_deadline_s)
            gathering = Gathering(arrive.barrier, generation, now_us, deadline_us, fleet.generation)
            self.gatherings[arrive.barrier] = gathering
            self.unsettled = True
        step = gathering.steps.setdefault(worker.seat, arrive.step)
        if step != arrive.step:
            why = f"worker {worker.id} arrived at step {step} and now says {arrive.step}"
            return Refusal("contradiction", why, "wait for the barrier to be settled")
        gathering.arrivals.setdefault(worker.seat, now_us)
        if len(gathering.arrivals) >= len(fleet.taking_part):
            self.unsettled = True
        return None

    # -- events out -------------------------------------------------------------------------------------------------

    def due(self, machine: Cluster, now_us: int) -> list[Event]:
        fleet = machine.fleet
        events: list[Event] = []
        self.unsettled = False
        verdicts = self._detector.look(now_us)
        for gathering in self.gatherings.values():
            gathering.deadline_us += self._detector.stalled_us
        for verdict in verdicts:
            worker = fleet.workers.get(verdict.who)
            if worker is None or worker.state in GONE:
                continue
            if worker.incarnation != verdict.life:  # just come: an older life was silent
                self._detector.watch(worker.id, now_us, worker.incarnation)
            else:
                events.append(WorkerLost(worker.id, worker.incarnation, verdict.silent_us, verdict.why))
        if fleet.state is Phase.OPEN and not events:
            for gathering in self.gatherings.values():
                settled = self._settle(gathering, fleet, now_us)
                if settled is not None:
                    events.append(settled)
                    if gathering.name not in fleet.barriers:
                        break  # for a new name an old one may be forgotten: look again when that has been applied
        return events

    def _settle(self, gathering: Gathering, fleet: Fleet, now_us: int) -> Event | None:
        barrier = fleet.barriers.get(gathering.name)
        if barrier is None:
            gathering.generation = fleet.forgotten + 1  # its name may have been forgotten since the first arrival
        elif barrier.generation >= gathering.generation:
            return None
        if gathering.fence != fleet.generation:
            return _abort(gathering, fleet, "the run was rolled back")
        here = fleet.taking_part
        enough = len(here) >= fleet.config.barrier_min
        if enough:
            gathering.reached_min = True
            if len(gathering.arrivals) >= len(here) and here.keys() <= gathering.arrivals.keys() and here:
                return self._full(gathering, fleet, now_us)
        elif gathering.reached_min:
            return _abort(gathering, fleet, too_few(fleet))
        if now_us >= gathering.deadline_us:
            waited = said_s(now_us - gathering.since_us)
            names = _missing_names(gathering, fleet)
            why = f"missing: {names}" if names else too_few(fleet)
            return _abort(gathering, fleet, f"not full within {waited}; {why}")
        return None

    def _full(self, gathering: Gathering, fleet: Fleet, now_us: int) -> Event:
        arrivals, steps = gathering.arrivals, gathering.steps
        if len(arrivals) > len(fleet.taking_part):
            arrivals = {seat: at_us for seat, at_us in arrivals.items() if seat in fleet.taking_part}
            steps = {seat: steps[seat] for seat in arrivals}
        if len(set(steps.values())) > 1:
            return _abort(gathering, fleet, f"different steps: {by_step(steps, fleet)}")
        waits_us = [now_us - at_us if at_us < now_us else 0 for at_us in arrivals.values()]
        step = next(iter(steps.values()))
        return BarrierReleased(gathering.name, gathering.generation, step, list(arrivals), waits_us)

    # -- after a commit ---------------------------------------------------------------------------------------------

    def committed(self, events: list[Event], machine: Cluster, now_us: int) -> None:
        for event in events:
            match event:
                case WorkerRegistered():
                    self._forget(event.member)
                    self._detector.watch(event.member, now_us, event.supersedes + 1)
                case WorkerLost() | WorkerLeft():
                    self._forget(event.member)
                case BarrierReleased() | BarrierAborted() | BarrierDropped():
                    gathering = self.gatherings.get(event.name)
                    if gathering is not None and gathering.generation <= machine.fleet.settled_of(event.name):
                        del self.gatherings[event.name]
                    self._aborted_us.pop(event.name, None)
                    if not isinstance(event, BarrierReleased):
                        self._aborted_us[event.name] = now_us
                case RunRolledBack() | RunStopped():
                    self.gatherings.clear()
                case MemberEvent():
                    self._detector.touch(event.member, now_us)
        for name in list(self._aborted_us)[: -machine.fleet.config.max_barriers]:
            del self._aborted_us[name]
        if any(isinstance(event, WorkerRegistered | WorkerLost | WorkerLeft) for event in events):
            self._sweep(machine.fleet)

    def _forget(self, member: str) -> None:
        self._detector.drop(member)
        self.pulses.pop(member, None)

    def _sweep(self, fleet: Fleet) -> None:
        """Arrivals of lives that are over. A gathering without arrivals is none."""
        for name, gathering in list(self.gatherings.items()):
            for seat in [seat for seat in gathering.arrivals if seat not in fleet.by_seat]:
                del gathering.arrivals[seat], gathering.steps[seat]
            if not gathering.arrivals:
                del self.gatherings[name]

    def wake_us(self) -> int | None:
        wake_us = self._detector.wake_us()
        for gathering in self.gatherings.values():
            if wake_us is None or gathering.deadline_us < wake_us:
                wake_us = gathering.deadline_us
        return wake_us

    # -- for people -------------------------------------------------------------------------------------------------

    def silent_us(self, member: str, now_us: int) -> int | None:
        return self._detector.silent_us(member, now_us)

    def explain(self, machine: Cluster, now_us: int) -> Explanation:
        return explain(machine.fleet, self._heard(), now_us)

    def overview(self, machine: Cluster, now_us: int) -> dict[str, Any]:
        return overview(machine.fleet, self._heard(), now_us)

    def _heard(self) -> Heard:
        return Heard(self.gatherings, self.pulses, self._detector, self._began_us, self._found)


def _by_generation(worker: Worker, arrive: Arrive, barrier: Barrier) -> Settled | Refusal | None:
    """What an arrival with ``after`` is told: how the oldest generation past it ended that concerns the worker. None:
    it stands at the open generation."""
    after = arrive.after or 0
    if after >= barrier.generation:
        return None
    over = barrier.answer_for(worker.seat, after, arrive.fence)
    if over is None:
        if after == 0 or not barrier.forgot(after):
            return None
        why = f"generations after {after} of barrier {barrier.name} are no longer remembered"
        return Refusal("barrier_forgotten", why, f"arrive with after = {barrier.generation}")
    if over.state is BarrierState.RELEASED and over.step != arrive.step:
        why = (
            f"after = {after} asks how generation {over.generation} of barrier {barrier.name} ended, which was "
            f"released at step {over.step}; {worker.id} comes with step {arrive.step}"
        )
        return Refusal("contradiction", why, "send the last generation you were told of, or leave after out")
    return over


def _too_many(worker: Worker, name: str, stands_at: list[str]) -> Refusal:
    why = f"no room for barrier {name}: {worker.id} stands at {len(stands_at)} already ({few(stands_at)})"
    return Refusal("barriers_full", why, "wait until one of them is settled, or raise open_barriers_max")


def _abort(gathering: Gathering, fleet: Fleet, reason: str) -> BarrierAborted:
    seats = [seat for seat in gathering.arrivals if seat in fleet.by_seat]
    step = min((gathering.steps[seat] for seat in seats), default=0)
    missing = sorted(fleet.taking_part.keys() - gathering.arrivals.keys())
    return BarrierAborted(gathering.name, gathering.generation, step, seats, missing, reason[:256])


def _missing_names(gathering: Gathering, fleet: Fleet) -> str:
    missing = sorted(fleet.taking_part.keys() - gathering.arrivals.keys())
    return few([fleet.taking_part[seat].id for seat in missing])

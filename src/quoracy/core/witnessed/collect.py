"""The collector of a witnessed run: heartbeats become losses, attestations become quorums, windows become phases.

Signals are volatile, and so is the clock of a window: after a restart everyone and every window starts afresh, so that
downtime counts for nothing, and members say again what was not answered. The machine checks all evidence, and by the
run's own time that nothing comes early.

Losses come first and alone: what follows from them is judged when they have been applied, in the same entry. Asking
whether anything follows is cheap while nothing does (see ``tally``).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from quoracy.core.codec import us
from quoracy.core.detector import Detector
from quoracy.core.errors import Refusal
from quoracy.core.machine import Event, Explanation, MemberEvent
from quoracy.core.members import superseded
from quoracy.core.witnessed import checkpoint, evidence, reopening
from quoracy.core.witnessed.complaints import Complaints
from quoracy.core.witnessed.events import (
    Attest,
    Attested,
    Beat,
    BeatSeen,
    CooldownEnded,
    HealthCheck,
    Holds,
    Loaded,
    MemberJoined,
    MemberLeft,
    MemberLost,
    ModelAgreed,
    ModelHash,
    Report,
    ResultVoided,
    RoundSealed,
    Taken,
    TrainEnded,
    WarmupBegan,
    WarmupEnded,
)
from quoracy.core.witnessed.explain import Heard, Pulse, explain
from quoracy.core.witnessed.machine import Witnessed
from quoracy.core.witnessed.overview import overview
from quoracy.core.witnessed.state import HERE, Course, Member, MemberState, Phase, Round, with_state
from quoracy.core.witnessed.tally import Tally

S = MemberState


class Window:
    """How long something has been as it is, on this host's clock."""

    def __init__(self, what: Hashable, now_us: int) -> None:
        self.what = what
        self.since_us = now_us

    def notice(self, what: Hashable, now_us: int) -> None:
        if what != self.what:
            self.what, self.since_us = what, now_us


class Collector:
    def __init__(self, machine: Witnessed, now_us: int) -> None:
        course = machine.course
        self._detector = Detector(us(course.config.heartbeat_timeout_s), now_us)
        self.pulses: dict[str, Pulse] = {}
        self._phase = Window(_phase(course), now_us)
        self._storing = Window(course.storing, now_us)
        self._loaded: dict[str, Report] = {}
        self._warms_up = -1
        """The epoch for which those have loaded."""
        self._tally = Tally()
        self._complaints = Complaints()
        self._moves = -1
        """The members as of whom the signals were sorted out."""
        self._heard = 0
        self._looked = (-1, -1)
        """The machine and the signals in which nothing was due, until ``_next_us``."""
        self._next_us: int | None = None
        self.unsettled = True
        """See ``machine.Collector``. Nothing follows from a heartbeat alone."""
        self.beats = 0
        self._began_us = now_us
        self._found = frozenset(course.here)
        """With whom it began, giving each of them a fresh time-out."""
        for member in course.here.values():
            self._watch(member.id, member.incarnation, now_us)

    # -- signals in -------------------------------------------------------------------------------------------------

    def hear(self, signal: Any, machine: Witnessed, now_us: int) -> Refusal | BeatSeen | Taken:
        course = machine.course
        member = course.members.get(signal.member)
        if member is None:
            return Refusal("unknown_member", f"member {signal.member} has not joined", "join first")
        if signal.incarnation != member.incarnation:
            return superseded(member.id, signal.incarnation, member.incarnation)
        if member.state not in HERE:
            if member.state is S.DONE and isinstance(signal, Beat):
                return BeatSeen(signal.seq, course.state.value, course.epoch, course.number)
            return _gone(member)
        if isinstance(signal, Beat):
            return self._beat(signal, course, now_us)
        self.unsettled = True
        self._sort_out(course)
        refusal: Refusal | None = _HANDLERS[type(signal)](self, signal, member, course)
        if refusal is not None:
            return refusal
        self._detector.touch(member.id, now_us)
        self._heard += 1
        return Taken(course.state.value, course.epoch, course.number)

    def _beat(self, signal: Beat, course: Course, now_us: int) -> BeatSeen:
        self.beats += 1
        if self._detector.hear(signal.member, signal.seq, now_us):
            known = self.pulses.get(signal.member)
            if known is None:
                self.pulses[signal.member] = Pulse(signal, now_us)
            else:
                if signal.progress != known.beat.progress:
                    known.progress_us = now_us
                known.beat = signal
        return BeatSeen(signal.seq, course.state.value, course.epoch, course.number)

    def _on_loaded(self, signal: Loaded, member: Member, course: Course) -> Refusal | None:
        if course.state is not Phase.WARMUP or member.state is not S.WARMING or signal.epoch != course.epoch:
            return _elsewhere(course, member, f"has loaded the model for epoch {signal.epoch}")
        if signal.step != course.place.step:
            return _elsewhere(course, member, f"has loaded step {signal.step}, not {course.place.step}")
        self._loaded_for(course)[member.id] = Report(member.id, member.incarnation, signal.step, signal.model)
        return None

    def _on_attest(self, signal: Attest | Holds, member: Member, course: Course) -> Refusal | None:
        round_ = course.round
        if round_ is None or (signal.epoch, signal.round) != (round_.epoch, round_.number):
            return _elsewhere(course, member, f"speaks of round {signal.round} of epoch {signal.epoch}")
        if member.state is not S.IN_STEP:
            return _elsewhere(course, member, "is not in this round")
        witness = member.id in round_.witnesses
        if isinstance(signal, Attest) and not witness:
            why = f"{member.id} is no witness in {round_.called()}"
            return Refusal("not_yours", why, "say what you hold with holds")
        if signal.known > len(round_.results):
            why = f"known = {signal.known}: {round_.called()} has {len(round_.results)} results"
            return Refusal("contradiction", why, "speak of the journaled list")
        if witness and isinstance(signal, Holds):
            return None  # a witness attests; it says with this only what it misses
        mask = evidence.read(course.scheme, round_, member.id, signal.held, signal.known)
        if isinstance(mask, Refusal):
            return mask
        said = Attested(member.id, member.incarnation, signal.known, signal.held)
        self._tally_of(course, round_).take(said, mask, witness)
        return None

    def _on_holds(self, signal: Holds, member: Member, course: Course) -> Refusal | None:
        """What it misses, what it holds, or both."""
        if not signal.missing:
            return self._on_attest(signal, member, course)
        if member.state is not S.IN_STEP:
            return _elsewhere(course, member, "is not in step")
        if (refusal := self._complaints.misses(signal, course)) is not None:
            return refusal
        return None if course.round is None else self._on_attest(signal, member, course)

    def _on_model_hash(self, signal: ModelHash, member: Member, course: Course) -> Refusal | None:
        behind = member.state is S.RESYNCING and (
            signal.step == course.step or bool(checkpoint.agreed_at(course, signal.step))
        )
        right = course.state in (Phase.TRAIN, Phase.WITNESS, Phase.COOLDOWN) and signal.epoch == course.epoch
        if not right or not (behind or (member.state is S.IN_STEP and signal.step == course.step)):
            return _elsewhere(course, member, f"has the model of step {signal.step} in epoch {signal.epoch}")
        if signal.voided != (void := _void(course, signal)):
            made = f"has made the model of step {signal.step} with voided = {signal.voided}"
            return _elsewhere(course, member, f"{made}, and {void} results are void")
        report = Report(member.id, member.incarnation, signal.step, signal.model)
        self._tally_of(course, course.round).models[member.id] = report
        return None

    def _on_health_check(self, signal: HealthCheck, member: Member, course: Course) -> Refusal | None:
        if member.state is not S.IN_STEP:
            return _elsewhere(course, member, "is not in step")
        if signal.accused and not signal.results:
            round_ = course.round
            if round_ is None or (signal.epoch, signal.step) != (round_.epoch, round_.step):
                said = f"reports who is inactive at step {signal.step} of epoch {signal.epoch}"
                return _elsewhere(course, member, said)
            return self._complaints.accuses(signal, course)
        sealed = [past for past in course.past if past.epoch == course.epoch == signal.epoch]
        if not any(past.step == signal.step and past.positions for past in sealed):
            return _elsewhere(course, member, f"accuses others for step {signal.step} of epoch {signal.epoch}")
        return self._complaints.accuses(signal, course)

    def _tally_of(self, course: Course, round_: Round | None) -> Tally:
        """Of the open round; in Cooldown of what is said then."""
        tally = self._tally
        needed = 0 if round_ is None else evidence.quorum(course, round_)
        if (tally.epoch, tally.number, tally.needed) != (course.epoch, course.number, needed):
            tally = self._tally = Tally(course.epoch, course.number, needed)
        if round_ is not None:
            tally.grow(len(round_.results))
        return tally

    def _sort_out(self, course: Course) -> None:
        """Somebody came or went, or changed places: what does not count any more is forgotten."""
        if course.moves == self._moves:
            return
        self._moves = course.moves
        for name in [name for name in self._tally.masks if name not in course.in_step]:
            self._tally.drop(name)
        for some in (self._tally.models, self._loaded):
            for name in [name for name, said in some.items() if not _same_life(course, said)]:
                del some[name]
        self._complaints.keep(course)

    # -- events out -------------------------------------------------------------------------------------------------

    def due(self, machine: Witnessed, now_us: int) -> list[Event]:
        course = machine.course
        self.unsettled = False
        verdicts = self._detector.look(now_us)
        for window in (self._phase, self._storing):
            window.since_us += self._detector.stalled_us
        lost: list[Event] = []
        for verdict in verdicts:
            member = course.here.get(verdict.who)
            if member is None:
                self._forget(verdict.who)  # removed since
            elif member.incarnation != verdict.life:
                self._watch(member.id, member.incarnation, now_us)  # just come: an older life was silent
            else:
                lost.append(MemberLost(member.id, member.incarnation, verdict.silent_us, verdict.why))
        if lost:
            return lost
        looked = (course.changes, self._heard)
        if looked == self._looked and (self._next_us is None or now_us < self._next_us):
            return []
        self._sort_out(course)
        self._notice(course, now_us)
        self._next_us = None
        events = self._follows(course, now_us)
        self._looked = (-1, -1) if events else looked
        return events

    def _follows(self, course: Course, now_us: int) -> list[Event]:
        rounds = course.state in (Phase.TRAIN, Phase.WITNESS, Phase.COOLDOWN)
        models = self._tally_of(course, course.round).models
        if rounds and (complaints := self._complaints.follows(course, course.at_us, models)):
            return complaints
        event: Event | None = None
        match course.state:
            case Phase.WAITING:
                event = self._waiting(course, now_us)
            case Phase.WARMUP:
                event = self._warmup(course, now_us)
            case Phase.TRAIN if course.round is not None:
                event = self._training(course, course.round, now_us)
            case Phase.WITNESS if course.round is not None:
                event = self._witnessing(course, course.round, now_us)
            case Phase.COOLDOWN:
                event = self._cooling(course, now_us)
        return [] if event is None else [event]

    def _over(self, window: Window, whole_us: int, now_us: int) -> bool:
        """Whether this window is over; if not, when to look again."""
        if now_us - window.since_us >= whole_us:
            return True
        end_us = window.since_us + whole_us
        self._next_us = end_us if self._next_us is None else min(self._next_us, end_us)
        return False

    def _waiting(self, course: Course, now_us: int) -> Event | None:
        if course.met_us >= 0 and self._over(self._phase, us(course.config.waiting_extra_s), now_us):
            return WarmupBegan(course.epoch)
        return None

    def _warmup(self, course: Course, now_us: int) -> Event | None:
        warming = with_state(course, S.WARMING)
        said = self._loaded_for(course)
        reports = [said[m.id] for m in warming if m.id in said]
        loaded = tuple(report for report in reports if report.step == course.place.step)
        if len(loaded) == len(warming) or len(warming) < course.config.min_clients:
            return WarmupEnded(course.epoch, loaded)
        if self._over(self._phase, us(course.config.warmup_s), now_us):
            return WarmupEnded(course.epoch, loaded, True)
        return None

    def _loaded_for(self, course: Course) -> dict[str, Report]:
        """A warm-up may follow another in the same entry: what was said in that one was not meant for this one."""
        if self._warms_up != course.epoch:
            self._warms_up = course.epoch
            self._loaded.clear()
        return self._loaded

    def _training(self, course: Course, round_: Round, now_us: int) -> Event | None:
        tally = self._tally_of(course, round_)
        if not course.missing and tally.enough() == len(round_.results):
            return TrainEnded(round_.epoch, round_.number, _sorted(tally.attested))
        if not course.in_step or self._over(self._phase, round_.allowed_us, now_us):
            return TrainEnded(round_.epoch, round_.number, (), True)
        return reopening.due(course, round_, tally)

    def _witnessing(self, course: Course, round_: Round, now_us: int) -> Event | None:
        tally = self._tally_of(course, round_)
        everybody = len(course.in_step)
        ready = 0 < everybody <= min(len(tally.complete), len(tally.models)) and len(tally.attested) >= tally.needed
        late = not (ready and all(name in tally.models for name in course.in_step))
        if late and everybody and not self._over(self._phase, us(course.config.round_witness_s), now_us):
            return None
        models = tuple(tally.models[name] for name in sorted(tally.models))
        words = (_sorted(tally.attested), _sorted(tally.holding), models)
        inactive = self._complaints.reported(course, round_)
        return RoundSealed(round_.epoch, round_.number, *words, late, inactive)

    def _cooling(self, course: Course, now_us: int) -> Event | None:
        if checkpoint.done(course):
            return CooldownEnded(course.epoch)
        over = self._over(self._phase, us(course.config.cooldown_s), now_us)
        if over or not checkpoint.voters(course):
            return CooldownEnded(course.epoch, True)
        if course.storing is not None:
            here = course.here.get(course.storing.member)
            gone = here is None or here.incarnation != course.storing.incarnation
            again_us = us(course.config.checkpoint_retry_s)
            if not course.storing.member or not (gone or self._over(self._storing, again_us, now_us)):
                return None
        reports = self._tally_of(course, None).models
        models = tuple(reports[name] for name in sorted(reports) if reports[name].step == course.step)
        agreed = ModelAgreed(course.step, models, any(name not in reports for name in checkpoint.voters(course)))
        if not checkpoint.outcome(course, agreed):
            return None
        if not agreed.late or course.storing is not None:
            return agreed
        return agreed if self._over(self._phase, checkpoint.patience_us(course), now_us) else None

    # -- after a commit ---------------------------------------------------------------------------------------------

    def committed(self, events: list[Event], machine: Witnessed, now_us: int) -> None:
        for event in events:
            match event:
                case MemberJoined():
                    self._watch(event.member, event.supersedes + 1, now_us)
                case MemberLost() | MemberLeft():
                    self._forget(event.member)
                case WarmupEnded():
                    self._loaded.clear()
                case ResultVoided(step=step):
                    models = self._tally.models
                    self._tally.models = {name: one for name, one in models.items() if one.step <= step}
                case MemberEvent():
                    self._detector.touch(event.member, now_us)
        self._notice(machine.course, now_us)

    def _notice(self, course: Course, now_us: int) -> None:
        self._phase.notice(_phase(course), now_us)
        self._storing.notice(course.storing, now_us)

    def _watch(self, member: str, incarnation: int, now_us: int) -> None:
        self._forget(member)
        self._detector.watch(member, now_us, incarnation)

    def _forget(self, member: str) -> None:
        self._detector.drop(member)
        self.pulses.pop(member, None)

    def wake_us(self) -> int | None:
        """With a window that ends, also often enough that waiting for it is not taken for a stall."""
        wake_us = self._detector.wake_us()
        if self._next_us is None:
            return wake_us
        return min(self._next_us, self._detector.patrol_us() if wake_us is None else wake_us)

    # -- for people -------------------------------------------------------------------------------------------------

    def silent_us(self, member: str, now_us: int) -> int | None:
        return self._detector.silent_us(member, now_us)

    def explain(self, machine: Witnessed, now_us: int) -> Explanation:
        return explain(machine.course, self._told(machine.course), now_us)

    def overview(self, machine: Witnessed, now_us: int) -> dict[str, Any]:
        return overview(machine.course, self._told(machine.course), now_us)

    def _told(self, course: Course) -> Heard:
        self._sort_out(course)
        tally = self._tally_of(course, course.round)
        return Heard(
            self.pulses, self._detector, self._phase.since_us, self._storing.since_us, self._loaded, tally,
            self._complaints, self._began_us, self._found,
        )  # fmt: skip


def _phase(course: Course) -> tuple[Hashable, ...]:
    """Which wait it is: another one begins whenever one of these changes."""
    return course.state, course.since_us, course.epoch, course.number, course.met_us


def _void(course: Course, signal: ModelHash) -> int:
    """How many results must be left out of this model. Of what is not remembered: whatever it says."""
    made = [past for past in course.past if (past.epoch, past.step + 1) == (course.epoch, signal.step)]
    return next((len(past.voided) for past in reversed(made) if past.positions), signal.voided)


def _sorted(said: dict[str, Attested]) -> tuple[Attested, ...]:
    return tuple(said[name] for name in sorted(said))


def _same_life(course: Course, said: Report) -> bool:
    member = course.here.get(said.member)
    return member is not None and member.incarnation == said.incarnation


def _elsewhere(course: Course, member: Member, said: str) -> Refusal:
    where = f"epoch {course.epoch}, round {course.number}, step {course.step}"
    why = f"{member.id} ({member.state.value}) {said}; the run is {course.state.value}: {where}"
    return Refusal("wrong_step", why, "look at the newest view, and say what it asks for")


def _gone(member: Member) -> Refusal:
    why = f"member {member.id} is {member.state.value}: {member.reason or 'its time is over'}"
    if member.ejected:
        return Refusal("ejected", why, "ask an operator to let it back in")
    if member.state is S.DONE:
        return Refusal("run_closed", why, "leave: the run is over")
    return Refusal("member_gone", why, "join again to begin a new life")


_HANDLERS: dict[type, Any] = {
    Loaded: Collector._on_loaded,
    Attest: Collector._on_attest,
    Holds: Collector._on_holds,
    ModelHash: Collector._on_model_hash,
    HealthCheck: Collector._on_health_check,
}

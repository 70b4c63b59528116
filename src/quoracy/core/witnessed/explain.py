"""A witnessed run in words: what it is waiting for, who is missing, and what happens if they stay away."""

from __future__ import annotations

import msgspec

from quoracy.core.codec import said_s, us
from quoracy.core.detector import Detector
from quoracy.core.machine import Explanation, Wait
from quoracy.core.waits import few, heartbeat, joined, members_told, soon, stuck
from quoracy.core.witnessed import checkpoint, epochs, evidence
from quoracy.core.witnessed.complaints import Complaints
from quoracy.core.witnessed.events import Beat, Report
from quoracy.core.witnessed.state import TAKING_PART, Course, Member, MemberState, Phase, Round, with_state
from quoracy.core.witnessed.tally import Tally

S = MemberState


class Pulse(msgspec.Struct):
    """What a member's last heartbeat said, for people; and when its training last moved."""

    beat: Beat
    progress_us: int


class Heard(msgspec.Struct, frozen=True):
    """What the collector knows beside the machine."""

    pulses: dict[str, Pulse]
    detector: Detector
    since_us: int
    """When the present wait began, on this host's clock."""
    drawn_us: int
    """When the one who stores the checkpoint was drawn."""
    loaded: dict[str, Report]
    tally: Tally
    complaints: Complaints


def explain(course: Course, heard: Heard, now_us: int) -> Explanation:
    if course.state is Phase.FINISHED:
        return Explanation(f"the run is over after {course.step} steps: {course.reason}")
    if course.state is Phase.PAUSED:
        return Explanation(f"paused after {course.step} steps: {course.reason}; resume it to go on")
    phase, members = _waits(course, heard, now_us), _silent(course, heard, now_us)
    return Explanation(joined([*map(_sentence, phase), *members_told(members)]), (*phase, *members))


def _waits(course: Course, heard: Heard, now_us: int) -> list[Wait]:
    waited_us = max(0, now_us - heard.since_us)
    match course.state:
        case Phase.WAITING:
            return [_waiting(course, waited_us)]
        case Phase.WARMUP:
            return [_warmup(course, heard, waited_us)]
        case Phase.TRAIN if course.round is not None:
            return _training(course, course.round, heard, waited_us)
        case Phase.WITNESS if course.round is not None:
            return _witnessing(course, course.round, heard, waited_us)
        case Phase.COOLDOWN:
            return _cooling(course, heard, waited_us, now_us)
    return []


def _left_us(whole_s: float, waited_us: int) -> int:
    return max(0, us(whole_s) - waited_us)


def _waiting(course: Course, waited_us: int) -> Wait:
    config, here = course.config, len(course.here)
    why = f" ({course.reason})" if course.reason else ""
    if course.met_us >= 0:
        what = f"epoch {course.epoch}: {here} members are there, more may come{why}"
        return Wait(what, (), waited_us, _left_us(config.waiting_extra_s, waited_us), "it begins")
    gone = tuple(sorted(m.id for m in course.members.values() if m.state in (S.LOST, S.LEFT, S.REMOVED)))
    name = "min_clients" if course.epochs else "init_min_clients"
    what = f"epoch {course.epoch}: {here} of {name} = {epochs.least(course)} members are there{why}"
    return Wait(what, gone, waited_us, None, "")


def _warmup(course: Course, heard: Heard, waited_us: int) -> Wait:
    warming = with_state(course, S.WARMING)
    missing = tuple(m.id for m in warming if m.id not in heard.loaded)
    what = f"epoch {course.epoch} warms up: {len(warming) - len(missing)} of {len(warming)} have the model"
    where = f"{what} of step {course.place.step} ({course.place.source})"
    enough = len(warming) - len(missing) >= course.config.min_clients
    then = "the first round begins without them" if enough else "it waits for members again"
    return Wait(where, missing, waited_us, _left_us(course.config.warmup_s, waited_us), then)


def _training(course: Course, round_: Round, heard: Heard, waited_us: int) -> list[Wait]:
    left_us = max(0, round_.allowed_us - waited_us)
    waits = []
    if course.missing:
        open_ = [work for work in round_.works if work.result < 0]
        gone = [work.index for work in open_ if work.member not in course.in_step]
        what = f"{round_.called()}: {len(round_.works) - len(open_)} of {len(round_.works)} results are committed"
        if gone:
            what += f", assignments {few([str(index) for index in gone])} wait for the next round"
        owners = tuple(sorted({work.member for work in open_ if work.member in course.in_step}))
        waits.append(Wait(what, owners, waited_us, left_us, "it goes on without those"))
    needed = evidence.quorum(course, round_)
    held = heard.tally.held_by()
    short = sum(work.result >= 0 and held[work.result] < needed for work in round_.works)
    if short or not course.missing:
        what = f"{round_.called()}: {short} results lack a quorum of {needed} of {len(round_.witnesses)} witnesses"
        waits.append(Wait(what, _unattested(round_, heard), waited_us, left_us, "it goes on without those"))
    return waits


def _unattested(round_: Round, heard: Heard) -> tuple[str, ...]:
    """Witnesses that have not attested all results; also those who are gone, and stay elected."""
    return tuple(sorted(name for name in round_.witnesses if name not in heard.tally.complete))


def _witnessing(course: Course, round_: Round, heard: Heard, waited_us: int) -> list[Wait]:
    left_us = _left_us(course.config.round_witness_s, waited_us)
    tally, waits = heard.tally, []
    witnesses = _unattested(round_, heard)
    if witnesses:
        what = f"{round_.called()}: {len(tally.attested)} of {len(round_.witnesses)} witnesses have attested"
        waits.append(Wait(what, witnesses, waited_us, left_us, "it is sealed without them"))
    lacking = tuple(sorted(n for n in course.in_step if n not in tally.complete and n not in round_.witnesses))
    if lacking:
        waits.append(Wait(f"{round_.called()}: all results", lacking, waited_us, left_us, "they fetch them later"))
    silent = tuple(sorted(name for name in course.in_step if name not in tally.models))
    if silent:
        what = f"{round_.called()}: the hash of the model of step {round_.step}"
        waits.append(Wait(what, silent, waited_us, left_us, "they have to catch up"))
    return waits or [Wait(f"{round_.called()}: a quorum of witnesses", witnesses, waited_us, left_us, "it is sealed")]


def _cooling(course: Course, heard: Heard, waited_us: int, now_us: int) -> list[Wait]:
    left_us = _left_us(course.config.cooldown_s, waited_us)
    back = f"back to step {course.stored.step}"
    if course.storing is None:
        missing = tuple(n for n in checkpoint.voters(course) if n not in heard.tally.models)
        what = f"epoch {course.epoch} cools down ({course.reason}): the hash of the model of step {course.step}"
        return [Wait(what, missing, waited_us, left_us, f"without a majority it goes {back}")]
    what = f"epoch {course.epoch} cools down ({course.reason}): the checkpoint of step {course.step}"
    drawn_us = max(0, now_us - heard.drawn_us)
    retry_us = max(0, us(course.config.checkpoint_retry_s) - drawn_us)
    waits = [Wait(what, (course.storing.member,), drawn_us, retry_us, "another one is drawn")]
    return [*waits, Wait("cooling down", (), waited_us, left_us, "it goes on with the model that the members have")]


def _silent(course: Course, heard: Heard, now_us: int) -> list[Wait]:
    """Those who have missed a heartbeat and more, those who are stuck, and those who catch up."""
    waits = []
    for name in sorted(course.here):
        silent_us = heard.detector.silent_us(name, now_us) or 0
        if silent_us >= 2 * us(course.config.heartbeat_interval_s):
            waits.append(heartbeat(name, silent_us, us(course.config.heartbeat_timeout_s)))
        elif stuck_us := stuck_for_us(course.here[name], course, heard, now_us):
            waits.append(stuck(name, stuck_us))
    return waits


def stuck_for_us(member: Member, course: Course, heard: Heard, now_us: int) -> int:
    pulse = heard.pulses.get(member.id)
    if pulse is None or member.state not in TAKING_PART:
        return 0
    still_us = now_us - max(pulse.progress_us, heard.since_us)
    return still_us if still_us >= us(course.config.stuck_after_s) else 0


def _sentence(wait: Wait) -> str:
    whom = f", waits for {few(list(wait.missing))}" if wait.missing else ""
    left = "" if wait.left_us is None else f"; {wait.then} {soon(wait.left_us)}"
    return f"{wait.what}{whom} ({said_s(wait.waited_us)} so far{left})"

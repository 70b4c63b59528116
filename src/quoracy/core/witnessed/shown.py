"""What members are shown, and to whom something looks different after an event.

All but ``standing`` looks the same to everybody, is made once after a change, and is sent as the same value to all:
that is what lets one coordinator tell hundreds of members about every round.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from quoracy.core.codec import us
from quoracy.core.machine import Effect, Event, View
from quoracy.core.witnessed import rounds
from quoracy.core.witnessed.attestation import positions
from quoracy.core.witnessed.checkpoint import HOLDERS_SHOWN, load_of
from quoracy.core.witnessed.events import MemberJoined, ResultVoided, RoundSealed, WarmupBegan
from quoracy.core.witnessed.state import (
    TAKING_PART,
    Course,
    Given,
    Member,
    MemberState,
    Past,
    Phase,
    taking_part,
)
from quoracy.core.witnessed.views import (
    PEERS,
    RESULTS,
    ROUND,
    SEALED,
    SEALED_BRIEF,
    STANDING,
    Peer,
    PeersShown,
    Result,
    ResultsShown,
    RoundShown,
    SealedList,
    SealedShown,
    Standing,
)

TOPICS = (STANDING, PEERS, ROUND, SEALED, RESULTS)
"""What one that reconnects is shown again."""


class Shown:
    """Makes the views of one course, and keeps those that all are shown until something changes."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._at = -1
        self._made: dict[str, Any] = {}
        self._sealed: dict[tuple[int, int, int], SealedShown] = {}

    def look(self, topic: str, name: str) -> Any:
        member = self._course.members.get(name)
        if member is None:
            return None
        if topic == STANDING:
            return standing(self._course, member)
        if topic not in _MAKERS or (topic != ROUND and member.state not in TAKING_PART):
            return None
        if self._course.changes != self._at:
            self._at = self._course.changes
            self._made.clear()
        if topic not in self._made:
            self._made[topic] = _MAKERS[topic](self)
        return self._made[topic]

    def _round(self) -> RoundShown:
        return round_shown(self._course)

    def _results(self) -> ResultsShown | None:
        round_ = self._course.round
        if round_ is None:
            return None
        usual = Counter(result.base for result in round_.results).most_common(1)
        base = usual[0][0] if usual else b""
        shown = tuple(_result(result, b"" if result.base == base else result.base) for result in round_.results)
        salt = round_.results[-1].salt if round_.results else b""
        return ResultsShown(round_.epoch, round_.number, shown, base, salt)

    def _list(self) -> SealedList:
        course = self._course
        return SealedList(tuple(self._full(past) for past in course.past if _applied(course, past)))

    def _brief(self) -> SealedList:
        course = self._course
        newest = next((past for past in reversed(course.past) if _applied(course, past)), None)
        if newest is None:
            return SealedList(())
        return SealedList((msgspec.structs.replace(self._full(newest), results=()),))

    def _full(self, past: Past) -> SealedShown:
        key = _key(past)
        if key not in self._sealed:
            known = {_key(one) for one in self._course.past}
            self._sealed = {one: shown for one, shown in self._sealed.items() if one in known}
            self._sealed[key] = sealed_shown(past)
        return self._sealed[key]

    def _peers(self) -> PeersShown:
        """Who takes part, and who else has the model that the epoch begins with."""
        course = self._course
        holders = {name for name, life in course.holders if name in course.here and life == _life(course, name)}
        names = sorted({*taking_part(course), *holders})
        members = [course.here[name] for name in names]
        return PeersShown(course.epoch, tuple(Peer(m.id, m.incarnation, m.key, m.addresses) for m in members))


_MAKERS: dict[str, Any] = {
    ROUND: Shown._round,
    RESULTS: Shown._results,
    SEALED: Shown._list,
    SEALED_BRIEF: Shown._brief,
    PEERS: Shown._peers,
}


def _life(course: Course, name: str) -> int:
    return course.here[name].incarnation


def _key(past: Past) -> tuple[int, int, int]:
    return past.epoch, past.number, len(past.voided)


def _applied(course: Course, past: Past) -> bool:
    """Whether who catches up in this epoch has to apply it."""
    return bool(past.positions) and past.epoch == course.epoch


def standing(course: Course, member: Member) -> Standing:
    storing = course.storing is not None and (course.storing.member, course.storing.incarnation) == (
        member.id, member.incarnation,
    )  # fmt: skip
    return Standing(
        member.incarnation, member.state.value, course.state.value, course.epoch, member.strikes, member.reason,
        load_of(course, member), storing and course.state is Phase.COOLDOWN,
    )  # fmt: skip


def left_us(course: Course, at_us: int) -> int | None:
    """Until the phase ends by itself; None if it does not."""
    config = course.config
    match course.state:
        case Phase.WAITING:
            if course.met_us < 0:
                return None
            return max(0, us(config.waiting_extra_s) - (at_us - course.met_us))
        case Phase.WARMUP:
            whole_us = us(config.warmup_s)
        case Phase.TRAIN:
            whole_us = 0 if course.round is None else course.round.allowed_us
        case Phase.WITNESS:
            whole_us = us(config.round_witness_s)
        case Phase.COOLDOWN:
            whole_us = us(config.cooldown_s)
        case _:
            return None
    return max(0, whole_us - (at_us - course.since_us))


def round_shown(course: Course) -> RoundShown:
    """Also between rounds: which phase it is, and which step comes next."""
    left = left_us(course, course.at_us) or 0
    if course.round is not None:
        return msgspec.structs.replace(rounds.shown(course, course.round), left_us=left)
    reason = course.reason if course.state in (Phase.WAITING, Phase.COOLDOWN, Phase.PAUSED, Phase.FINISHED) else ""
    return RoundShown(
        course.state.value, course.epoch, course.number, course.step, b"", (), (), (), course.config.witness_nodes, (),
        left, reason,
    )  # fmt: skip


def _result(given: Given, base: bytes) -> Result:
    return Result(given.assignment, given.attempt, given.member, given.digest, given.size_bytes, base)


def sealed_shown(past: Past) -> SealedShown:
    results = tuple(_result(past.results[position], b"") for position in past.positions)
    holders: tuple[tuple[str, ...], ...] = ()
    if not past.all_hold:
        held: list[list[str]] = [[] for _ in past.results]
        for claim in past.claims:
            for position in positions(int.from_bytes(claim.mask, "little")):
                held[position].append(claim.member)
        holders = tuple(_some(held[position], place) for place, position in enumerate(past.positions))
    return SealedShown(
        past.step, past.epoch, past.number, past.model, results, holders, tuple(past.voided), tuple(past.positions)
    )


def _some(names: list[str], place: int) -> tuple[str, ...]:
    """Other ones for each result, or all would ask the same few."""
    shift = place % len(names) if names else 0
    return tuple((names[shift:] + names[:shift])[:HOLDERS_SHOWN])


# -- to whom it looks different ------------------------------------------------------------------------------------


class Mark(msgspec.Struct, frozen=True):
    """Where the run stood: of what everybody is shown, what may be different afterwards."""

    phase: Phase
    epoch: int
    number: int
    moved: tuple[tuple[int, int, str], ...]
    reason: str
    step: int
    catching_up: frozenset[str]


def mark(course: Course) -> Mark:
    moved = () if course.round is None else tuple(course.round.moved)
    behind = frozenset(m.id for m in course.here.values() if m.state is MemberState.RESYNCING)
    return Mark(course.state, course.epoch, course.number, moved, course.reason, course.step, behind)


def news(course: Course, event: Event, before: Mark) -> tuple[Effect, ...]:
    """What looks different to whom. ``course.retold`` has those to whom something of their own does."""
    views: list[Effect] = []
    after = mark(course)
    part = taking_part(course)
    if isinstance(event, RoundSealed) and event.epoch == course.epoch and course.step > before.step:
        behind = {*before.catching_up, *after.catching_up}
        views.append(View(SEALED_BRIEF, tuple(name for name in part if name not in behind)))
        views.append(View(SEALED, tuple(name for name in part if name in behind)))
    elif isinstance(event, ResultVoided):
        views.append(View(SEALED, tuple(part)))
    if isinstance(event, WarmupBegan):
        views.append(View(PEERS, tuple(part)))
    elif isinstance(event, MemberJoined) and event.member in part:
        views.append(View(PEERS, tuple(part)))
        views += [View(topic, (event.member,)) for topic in (ROUND, SEALED, RESULTS)]
    if (before.phase, before.epoch, before.number, before.moved, before.reason) != (
        after.phase, after.epoch, after.number, after.moved, after.reason,
    ):  # fmt: skip
        views.append(View(ROUND, tuple(sorted({*course.here, *course.retold}))))
    if after.phase is Phase.WITNESS and before.phase is Phase.TRAIN and course.missing:
        views.append(View(RESULTS, tuple(part)))
    if course.retold:
        views.append(View(STANDING, tuple(course.retold)))
    return tuple(views)

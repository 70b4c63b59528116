"""A witnessed run in figures, for ``quoracy top``, dashboards and scripts: plain values, times in seconds."""

from __future__ import annotations

from typing import Any

from quoracy.core.codec import seconds
from quoracy.core.witnessed import evidence
from quoracy.core.witnessed.committee import relative
from quoracy.core.witnessed.explain import Heard, stuck_for_us
from quoracy.core.witnessed.shown import left_us
from quoracy.core.witnessed.state import Course, EpochPast, Member, Phase, Place, Round, Sealed, Work, alive

MEMBERS_SHOWN = 1000
RESULTS_SHOWN = 64
"""Results of which is said who holds them not."""


def overview(course: Course, heard: Heard, now_us: int) -> dict[str, Any]:
    left = left_us(course, course.since_us if course.met_us < 0 else course.met_us)
    waited_us = max(0, now_us - heard.since_us)
    current = None if course.round is None else _current(course.round, heard)
    account = course.account
    return {
        "phase": course.state.value,
        "epoch": course.epoch,
        "round": course.number,
        "step": course.step,
        "total_steps": course.config.total_steps,
        "left_s": None if left is None else seconds(max(0, left - waited_us)),
        "reason": course.reason,
        "pausing": course.pausing,
        "stopping": course.stopping,
        "here": len(course.here),
        "in_step": len(course.in_step),
        "min_clients": course.config.min_clients,
        "quorum": 0 if course.round is None else evidence.quorum(course, course.round),
        "roll_backs": course.roll_backs,
        "model": _model(course),
        "next_batch": account.next_batch,
        "account": account_shown(course),
        "checkpoint": _place(course.place, alive(course, course.holders)),
        "stored": _place(course.stored, []),
        "storing": None if course.storing is None else course.storing.member,
        "current": current,
        "members": _members(course, heard, now_us),
        "sealed": [sealed_shown(one) for one in course.sealed],
        "epochs": [epoch_shown(one) for one in course.epochs],
    }


def account_shown(course: Course) -> dict[str, Any]:
    """Every batch below ``next_batch`` is in exactly one of applied, open, waiting and skipped."""
    account = course.account
    open_ = 0 if course.round is None else sum(span.end - span.first for span in course.round.spans)
    return {
        "trained": account.trained,
        "applied": account.applied_in_all,
        "open": open_,
        "waiting": account.waiting_in_all,
        "skipped": account.skipped_in_all,
        "reasons": dict(account.reasons),
        "moved": account.moved,
        "again": account.again,
        "returned": account.returned,
        "newest_skipped": [
            {"first": skip.first, "end": skip.end, "reason": skip.reason} for skip in account.skipped[-20:]
        ],
    }


def _model(course: Course) -> str:
    """The newest that was agreed on."""
    return course.agreed[-1][1].hex() if course.agreed else course.place.model.hex()


def _place(place: Place, holders: list[str]) -> dict[str, Any]:
    return {
        "source": place.source, "step": place.step, "model": place.model.hex(), "digest": place.digest.hex(),
        "size_bytes": place.size_bytes, "holders": holders,
    }  # fmt: skip


def _current(round_: Round, heard: Heard) -> dict[str, Any]:
    tally = heard.tally
    missing = [name for name in round_.witnesses if name not in tally.complete]
    short = [i for i, held in enumerate(tally.held_by()) if held < tally.needed and i not in round_.forsaken]
    return {
        "round": round_.number, "step": round_.step, "roster": list(round_.roster),
        "witnesses": list(round_.witnesses), "attested": sorted(tally.attested),
        "results": len(round_.results) - len(round_.forsaken),
        "assignments": [_work(work) for work in round_.works], "missing": missing,
        "holding": sorted(tally.complete), "reported": sorted(tally.models),
        "short_of_quorum": short[:RESULTS_SHOWN], "moved": len(round_.moved),
        "allowed_s": seconds(round_.allowed_us),
    }  # fmt: skip


def _work(work: Work) -> dict[str, Any]:
    return {
        "assignment": work.index, "attempt": work.attempt, "member": work.member,
        "batches": [list(span) for span in work.batches], "committed": work.result >= 0,
    }  # fmt: skip


def _members(course: Course, heard: Heard, now_us: int) -> list[dict[str, Any]]:
    here = sorted(course.members.values(), key=lambda m: (m.id not in course.here, m.seat))[:MEMBERS_SHOWN]
    speeds = dict(zip((m.id for m in here), relative([m.pace for m in here]), strict=True))
    works: dict[str, list[int]] = {}
    for work in course.round.works if course.round is not None and course.state is Phase.TRAIN else []:
        works.setdefault(work.member, []).append(work.index)
    witnesses = frozenset() if course.round is None else frozenset(course.round.witnesses)
    shown = []
    for member in here:
        one = _member(member, course, heard, now_us)
        one |= {
            "speed": speeds[member.id] if member.pace else None, "witness": member.id in witnesses,
            "assignments": works.get(member.id, []),
        }  # fmt: skip
        shown.append(one)
    return shown


def _member(member: Member, course: Course, heard: Heard, now_us: int) -> dict[str, Any]:
    silent_us = heard.detector.silent_us(member.id, now_us)
    report = heard.tally.models.get(member.id)
    shown: dict[str, Any] = {
        "id": member.id, "state": member.state.value, "incarnation": member.incarnation, "seat": member.seat,
        "score": member.held if member.elected else None, "of": member.elected, "strikes": member.strikes,
        "ejected": member.ejected, "losses": member.losses, "reason": member.reason,
        "silent_s": None if silent_us is None else seconds(silent_us),
        "stuck_s": seconds(stuck_for_us(member, course, heard, now_us)), "keyed": bool(member.key),
        "addresses": list(member.addresses), "labels": member.labels,
        "model": "" if report is None else report.model.hex(),
        "reported_by": sorted(heard.complaints.inactive.get(member.id, ())),
        "stores": course.storing is not None and course.storing.member == member.id,
    }  # fmt: skip
    pulse = heard.pulses.get(member.id)
    if pulse is not None:
        shown |= {"progress": pulse.beat.progress, "metrics": pulse.beat.metrics}
    return shown


def sealed_shown(one: Sealed) -> dict[str, Any]:
    return {
        "step": one.step, "epoch": one.epoch, "round": one.number, "loss": one.loss, "samples": one.samples,
        "results": one.results, "applied": one.batches, "back": one.back, "late": one.late,
        "train_s": seconds(one.train_us), "witness_s": seconds(one.witness_us), "done_s": seconds(one.sealed_us),
        "model": one.model.hex(), "rolled_back": one.rolled_back, "counts": one.applied,
    }  # fmt: skip


def epoch_shown(one: EpochPast) -> dict[str, Any]:
    return {
        "epoch": one.number, "began_s": seconds(one.began_us), "ended_s": seconds(one.ended_us),
        "first_step": one.first_step, "step": one.step, "rounds": one.rounds, "roster": list(one.roster),
        "checkpoint": _place(one.checkpoint, []), "because": one.because,
        "account": {
            "applied": one.applied, "skipped": one.skipped, "moved": one.moved, "waiting": one.waiting,
        },
    }  # fmt: skip

"""Random but valid histories of a witnessed run: what is refused is simply not written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from tests.core.scribe import HOST, Pair, Scribe, created
from tests.core.witnessed.camp import blob, model

from quoracy.core.errors import Refusal
from quoracy.core.journal import CommandRefused, HostTook
from quoracy.core.kinds import KINDS
from quoracy.core.members import Cause
from quoracy.core.witnessed import events as e
from quoracy.core.witnessed.attestation import bitmap
from quoracy.core.witnessed.committee import count
from quoracy.core.witnessed.state import Course, Member, MemberState, with_state

CONFIG: dict[str, Any] = {
    "min_clients": 2, "waiting_extra_s": 0.0, "warmup_s": 3.0, "round_train_max_s": 6.0, "round_witness_s": 2.0,
    "cooldown_s": 3.0, "rounds_per_epoch": 3, "total_steps": 12, "batch_size": 1, "global_batch_size_start": 7,
    "strikes_max": 1, "attempts_max": 3, "max_clients": 4, "checkpoint_retry_s": 1.0, "witness_nodes": 2,
}  # fmt: skip
NO = Refusal("wrong_state", "no", "wait")
S = MemberState

step = st.tuples(
    st.sampled_from(
        ["join"] * 6 + ["warm"] * 5 + ["loaded"] * 6 + ["commit"] * 20 + ["ended"] * 8 + ["sealed"] * 10
        + ["agreed"] * 4 + ["stored"] * 4 + ["cooled"] * 4 + ["lost"] * 2 + ["reopened"] * 2
        + ["leave", "two-faced", "voided", "accused", "readmit", "operator", "refused"]
    ),
    st.integers(0, 5),
    st.integers(0, 15),
)  # fmt: skip
steps = st.lists(st.lists(step, min_size=1, max_size=6), min_size=1, max_size=40)


def course_of(scribe: Scribe) -> Course:
    course = scribe.run.machine.course  # type: ignore[attr-defined]
    assert isinstance(course, Course)
    return course


def pair(scribe: Scribe, what: str, who: int, which: int) -> Pair | None:
    """The event this step stands for, as things are now. ``which`` says how badly it goes."""
    name = f"p{who}"
    life = scribe.run.machine.incarnation_of(name)
    known = scribe.run.roster.members.get(name)
    cause = Cause(name, life, known.seq + 1) if known else None
    match what:
        case "join":
            nonce = bytes([who, which, life % 256]) + bytes(13)
            joined = e.MemberJoined(name, life, nonce, b"key", addresses=("h:1",))
            return Cause(name, life, 0), joined
        case "operator":
            orders: tuple[Any, ...] = (e.RunPaused("lunch"), e.RunResumed(), e.RunResumed(), e.RunResumed())
            return _operator(scribe, who, which), orders[which % 4]
        case "readmit":
            return _operator(scribe, who, which), e.MemberReadmitted(name)
        case "stop":
            return _operator(scribe, who, which), e.RunStopped("enough")
    if what in _BY_MEMBER:
        event = _BY_MEMBER[what](course_of(scribe), name, life, which)
        return None if cause is None or event is None else (cause, event)
    if what == "take":
        return None, HostTook(scribe.run.head.term + 1, HOST)
    event = _BY_HOST[what](course_of(scribe), name, which)
    return None if event is None else (None, event)


def _operator(scribe: Scribe, who: int, which: int) -> Cause:
    return Cause("@op", 0, scribe.run.head.n * 100 + len(scribe.payloads) + which + 10 * who)


# -- members -------------------------------------------------------------------------------------------------------


def _commit(course: Course, name: str, life: int, which: int) -> Any:
    round_ = course.round
    if round_ is None:
        return None
    works = [work for work in round_.works if work.member == name and work.result < 0] or round_.works
    work = works[0]
    mark = "" if which else "other"
    base = model(round_.step, "other" if which == 1 else "")
    digest = blob(name, round_.epoch, round_.number, work.index, work.attempt, mark)
    samples = count(work.batches) * course.config.batch_size
    return e.ResultCommitted(
        name, life, round_.epoch, round_.number, work.index, work.attempt, digest, 10, base, samples, which / 3
    )


def _stored(course: Course, name: str, life: int, which: int) -> Any:
    of = course.place.model or model(course.place.step)
    if course.keepers and which:
        name, life = course.keepers[0]
    return e.CheckpointStored(name, life, course.epoch, course.place.step, of, model(which, "file"), 10)


def _two_faced(course: Course, name: str, life: int, which: int) -> Any:
    lists = [(past.epoch, past.number, past.results) for past in course.past]
    if course.round is not None:
        lists.append((course.round.epoch, course.round.number, course.round.results))
    found = [(epoch, number, result) for epoch, number, results in lists for result in results]
    if not found:
        return None
    epoch, number, result = found[which % len(found)]
    return e.TwoFacedShown(
        name, life, result.member, epoch, number, result.assignment, result.attempt, model(which, "lie"), result.base,
        b"signed",
    )  # fmt: skip


_BY_MEMBER: dict[str, Callable[[Course, str, int, int], Any]] = {
    "commit": _commit,
    "stored": _stored,
    "two-faced": _two_faced,
    "leave": lambda _course, name, life, _which: e.MemberLeft(name, life, "bye"),
    "refused": lambda _course, _name, _life, _which: CommandRefused(NO),
}


# -- the host ------------------------------------------------------------------------------------------------------


def _reports(members: list[Member], step_: int, which: int) -> tuple[e.Report, ...]:
    """All, with the same model; or one has another; or half of them; or one says nothing."""
    said = []
    for i, member in enumerate(members):
        if (which == 1 and i == 0) or (which == 15 and len(members) > 1 and i == 0):
            continue
        mark = "other" if (which == 2 and i == 0) or (which == 3 and i % 2) else ""
        said.append(e.Report(member.id, member.incarnation, step_, model(step_, mark)))
    return tuple(said)


def _attested(course: Course, names: list[str], which: int) -> tuple[e.Attested, ...]:
    round_ = course.round
    if round_ is None:
        return ()
    known = len(round_.results)
    said = []
    for i, name in enumerate(sorted(names)):
        if name not in course.in_step or (which == 4 and i == 0):
            continue
        held = range(known - 1) if which == 5 and known and i == 0 else range(known)
        said.append(e.Attested(name, course.in_step[name].incarnation, known, bitmap(held, known)))
    return tuple(said)


def _ended(course: Course, _name: str, which: int) -> Any:
    round_ = course.round
    if round_ is None:
        return None
    return e.TrainEnded(round_.epoch, round_.number, _attested(course, list(round_.witnesses), which), which >= 8)


def _sealed(course: Course, _name: str, which: int) -> Any:
    round_ = course.round
    if round_ is None:
        return None
    others = [name for name in round_.roster if name not in round_.witnesses]
    models = _reports(with_state(course, S.IN_STEP), round_.step, which)
    if which % 2:
        models += _reports(with_state(course, S.RESYNCING), round_.step, 0)
    attested = _attested(course, list(round_.witnesses), which)
    return e.RoundSealed(round_.epoch, round_.number, attested, _attested(course, others, which), models, which >= 8)


def _reopened(course: Course, _name: str, which: int) -> Any:
    """The result of one who is gone, which nobody has; or all have everything."""
    round_ = course.round
    gone = [] if round_ is None else [w for w in round_.works if w.result >= 0 and w.member not in course.in_step]
    if round_ is None or not gone:
        return None
    work, known = gone[which % len(gone)], len(round_.results)
    held = range(known) if which == 5 else [place for place in range(known) if place != work.result]
    words = [e.Attested(name, m.incarnation, known, bitmap(held, known)) for name, m in sorted(course.in_step.items())]
    attested = tuple(word for word in words if word.member in round_.witnesses)
    holding = tuple(word for word in words if word.member not in round_.witnesses)
    return e.WorkReopened(round_.epoch, round_.number, work.index, work.attempt, attested, holding)


def _voided(course: Course, _name: str, which: int) -> Any:
    return e.ResultVoided(max(0, course.step - 1), which % 3, tuple(sorted(course.in_step)))


def _accused(course: Course, name: str, _which: int) -> Any:
    life = course.members[name].incarnation if name in course.members else 1
    step = max(0, course.step - 1)
    words = tuple(e.Accusation(by, step, 0) for by in sorted(course.in_step.keys() - {name}))
    return e.MemberRemoved(name, life, words, "does not deliver")


def _lost(course: Course, name: str, _which: int) -> Any:
    return e.MemberLost(name, course.members[name].incarnation if name in course.members else 1, 30_000_000, "silent")


def _agreed(course: Course, _name: str, which: int) -> Any:
    return e.ModelAgreed(
        course.step, _reports(with_state(course, S.IN_STEP, S.RESYNCING), course.step, which), which >= 8
    )


_BY_HOST: dict[str, Callable[[Course, str, int], Any]] = {
    "warm": lambda course, _name, _which: e.WarmupBegan(course.epoch),
    "loaded": lambda course, _name, which: e.WarmupEnded(
        course.epoch, _reports(with_state(course, S.WARMING), course.place.step, which), which >= 8
    ),
    "ended": _ended,
    "sealed": _sealed,
    "reopened": _reopened,
    "voided": _voided,
    "accused": _accused,
    "lost": _lost,
    "agreed": _agreed,
    "cooled": lambda course, _name, which: e.CooldownEnded(course.epoch, which >= 8),
}


def write_history(entries: list[list[tuple[str, int, int]]], **config: Any) -> Scribe:
    scribe = Scribe(KINDS, created("witnessed", CONFIG | config))
    for entry in entries:

        def pairs(entry: list[tuple[str, int, int]] = entry) -> Any:
            for one in entry:
                if (made := pair(scribe, *one)) is not None:
                    yield made

        scribe.try_each(pairs())
    return scribe


JOINS = [("join", who, 0) for who in range(4)]
ROUND = [[("commit", who, 6) for who in range(4)], [("ended", 0, 0), ("sealed", 0, 0)]]
COOL = [[("agreed", 0, 0)], [("stored", who, 0) for who in range(4)], [("cooled", 0, 0)]]
EPOCH = [[("warm", 0, 0)], [("loaded", 0, 0)], *ROUND, *ROUND, *ROUND, *COOL]


def busy_history() -> Scribe:
    """One fixed history with something of everything in it."""
    nap = [[("refused", 0, 0)]] * 8
    commits = [("commit", who, 6) for who in range(5)]
    begin = [[("warm", 0, 0)], [("loaded", 0, 0)]]
    return write_history(
        [
            JOINS, *EPOCH,
            # One has another model, one is lost and its work moves, a result was trained on the wrong model.
            [("join", 4, 0)], [("warm", 0, 0)], [("loaded", 0, 2)], [("commit", 3, 1)], [("lost", 2, 0)],
            [*commits, *commits], [("ended", 0, 0)], *nap, [("sealed", 0, 9)], [("join", 2, 3)], *ROUND,
            # A liar is out and let back in, one leaves; then most of the witnesses are silent.
            [("two-faced", 1, 0)], [("leave", 4, 0)], *nap, [("ended", 0, 12)], *nap, [("sealed", 0, 12)],
            [("take", 0, 0)], [("agreed", 0, 0)], *nap, [("cooled", 0, 9)], [("readmit", who, 0) for who in range(5)],
            # Two models, and no majority for either.
            [("join", who, 5) for who in range(5)], *begin, commits, *nap, [("ended", 0, 8)], *nap, [("sealed", 0, 8)],
            [("warm", 0, 0)], [("loaded", 0, 0)], commits, [("ended", 0, 0)], *nap, [("sealed", 0, 3)],
            *nap, [("ended", 0, 8)], *nap, [("sealed", 0, 11)],
            # A pause, a pause in a round, and the end.
            [("operator", 1, 0)], [("operator", 2, 1)], *begin, [("operator", 3, 0)], commits,
            [("ended", 0, 0), ("sealed", 0, 0)], *COOL, [("operator", 3, 1)], *begin, [("stop", 0, 0)],
            commits[:3], *nap, [("ended", 0, 8)], *nap, [("sealed", 0, 8)], *COOL,
        ],
        witness_nodes=0, max_clients=6,
    )  # fmt: skip

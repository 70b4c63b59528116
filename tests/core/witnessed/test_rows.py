"""Every row of the tables is reached: what moves, to each state it declares; and what does not, by its name."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest
from tests.core import shapes
from tests.core.scribe import RUN
from tests.core.witnessed.camp import LOST_S, Camp, camping, training
from tests.core.witnessed.histories import busy_history, write_history
from tests.core.witnessed.scenes import SCENES

from quoracy.core.codec import encode
from quoracy.core.dice import SEED_BYTES, Cup
from quoracy.core.errors import CATALOG, Refusal
from quoracy.core.machine import Choose, Ignore, Refuse, Table, To
from quoracy.core.members import Accepted
from quoracy.core.witnessed.events import RunPaused, RunResumed, RunStopped, TwoFacedShown
from quoracy.core.witnessed.state import Member, MemberState
from quoracy.core.witnessed.table import MEMBER, TABLES

Move = tuple[str, str, str, str]
SLOW: dict[str, Any] = {"round_train_max_s": 100.0, "round_witness_s": 10.0, "adaptive_deadline": False}
WHATS = (
    ["join"] * 8 + ["warm"] * 5 + ["loaded"] * 6 + ["commit"] * 20 + ["ended"] * 8 + ["sealed"] * 10 + ["agreed"] * 4
    + ["stored"] * 4 + ["cooled"] * 4 + ["lost"] * 3 + ["leave"] * 2 + ["two-faced", "voided", "accused", "readmit"]
    + ["operator"] * 2
)  # fmt: skip


def declared() -> set[Move]:
    moves = set()
    for table in TABLES:
        for (state, event), row in table.rows.items():
            ends = (row.target,) if isinstance(row, To) else row.targets if isinstance(row, Choose) else ()
            moves |= {(table.name, state.value, event.__name__, end.value) for end in ends}
    return moves


def wander(seed: int) -> None:
    """A history of nothing in particular, with an end now and then."""
    random = Random(seed)
    entries = [
        [(random.choice(WHATS), random.randrange(6), random.randrange(16)) for _ in range(random.randrange(1, 6))]
        for _ in range(60)
    ]
    if seed % 5 == 0:
        entries.insert(random.randrange(60), [("stop", 0, 0)])
    write_history(entries, max_clients=6, total_steps=0, witness_nodes=seed % 3 and 2)


def returns() -> None:
    """Coming back in every state, and going from it."""
    for how in ("leave", "lose"):
        camp = camping("a", "b", min_clients=1, warmup_s=90.0)
        camp.leave("b") if how == "leave" else camp.pass_s(LOST_S, "b")
        camp.join("b")
        camp = training("a", "b", "c", rounds_per_epoch=1, **SLOW)
        camp.turn()
        camp.leave("b") if how == "leave" else camp.pass_s(LOST_S, "b")
        camp.join("b", "c")
    camp = camping("a", "b", init_min_clients=3)
    camp.join("a")
    camp.pass_s(LOST_S, "a")
    camp = camping("a", "b", min_clients=1, warmup_s=90.0)
    camp.join("b")
    camp.pass_s(LOST_S, "b")
    camp = training("a", "b", "c", **SLOW)
    camp.join("c")
    camp.join("c")
    camp.leave("c")


def orders() -> None:
    """Pauses and stops at every point, also where a roll-back ends the epoch."""
    for phase in ("RoundTrain", "RoundWitness", "Cooldown"):
        camp = Camp(SCENES["run", phase]())
        for order in (RunPaused(), RunResumed(), RunStopped()):
            camp.order(order)
    for order in (RunPaused(), RunStopped()):
        camp = training("a", "b", "c", "d", **SLOW)
        camp.join("d")
        camp.join("e")
        camp.order(order)
        camp.commit()
        camp.hold()
        camp.hash("a")
        camp.hash("b", mark="x")
        camp.hash("c", mark="y")
        assert camp.phase == ("Paused" if isinstance(order, RunPaused) else "Finished")
    camp = training("a", "b", "c", "d", rounds_per_epoch=1, **SLOW)
    camp.join("d", "e")
    camp.order(RunStopped())
    camp.turn()
    camp.cool()
    assert camp.phase == "Finished"


def accusations() -> None:
    """Of one that catches up, by those in step; and a void result while witnesses are waited for."""
    camp = training("a", "b", "c", "d", **SLOW)
    camp.turn()
    camp.hash("a", "b", "c")
    camp.hash("d", mark="x")
    camp.commit()
    camp.hold()
    camp.accuse("a", "d")
    camp.accuse("b", "d")
    assert camp.states()["d"] == "Removed"
    camp = training("a", "b", "c", "d", witness_quorum="1/2", **SLOW)
    camp.hash()
    camp.commit()
    camp.hold("c", "d")
    camp.hold("a", "b", positions=[1, 2, 3])
    camp.pass_s(10.0)
    camp.leave("c")
    camp.pass_s(100.0)
    assert camp.phase == "RoundWitness"
    camp.leave("d")
    position = camp.course.past[0].positions.index(0)
    camp.miss("a", position)
    camp.miss("b", position)
    assert (camp.phase, camp.course.past[0].voided) == ("RoundWitness", [position])
    camp = training("a", "b", **SLOW)
    camp.turn()
    camp.miss("a", 0)
    camp.miss("b", 0)
    assert camp.states() == {"a": "Removed", "b": "Removed"}
    Camp(SCENES["member", "Removed"]()).join("w")


def two_faced() -> None:
    """Shown in the next warm-up only."""
    camp = Camp(init_min_clients=3, rounds_per_epoch=1, **SLOW)
    camp.join("a", "b", "c", key=b"key")
    camp.load()
    camp.turn()
    camp.cool()
    given = next(one for one in camp.course.past[0].results if one.member == "c")
    lie = TwoFacedShown("a", 1, "c", 0, 0, given.assignment, given.attempt, bytes(32), given.base, b"signed")
    assert isinstance(camp.say("a", lie), Accepted)
    assert (camp.phase, camp.states()["c"]) == ("Warmup", "Removed")


def undone() -> None:
    """One goes with a result that nobody has."""
    camp = training("a", "b", "c", **SLOW)
    camp.commit()
    (work,) = camp.works("c")
    camp.hold("a", "b", positions=[place for place in range(3) if place != work.result])
    camp.leave("c")
    assert work.attempt == 2


def stored_late() -> None:
    """By one that catches up, where nobody is in step any more; and when the run is over."""
    camp = training("a", "b", "c", **SLOW)
    camp.turn()
    camp.commit()
    camp.hold("a", "b")
    camp.hash("a")
    camp.pass_s(10.0)
    camp.leave("a")
    camp.hash("b", "c")
    assert isinstance(camp.store(camp.course.keepers[0][0]), Accepted)
    camp = training("a", "b", rounds_per_epoch=1, cooldown_s=20.0, **SLOW)
    camp.turn()
    camp.order(RunStopped())
    camp.hash()
    camp.pass_s(20.0)
    assert camp.phase == "Finished"
    assert isinstance(camp.store(camp.course.keepers[0][0]), Accepted)


def test_every_move_that_is_declared_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: set[Move] = set()
    step = Table.step

    def noting(self: Table, machine: Any, subject: Any, event: Any, at_us: int, cup: Cup) -> Any:
        before = subject.state.value
        passed = step(self, machine, subject, event, at_us, cup)
        if not isinstance(passed, Refusal):
            made.add((self.name, before, type(event).__name__, subject.state.value))
        return passed

    monkeypatch.setattr(Table, "step", noting)
    busy_history()
    returns()
    orders()
    accusations()
    two_faced()
    undone()
    stored_late()
    for scene in SCENES.values():
        scene()
    missing = declared() - made
    for seed in range(400):
        if not missing:
            break
        wander(seed)
        missing = declared() - made
    assert sorted(missing) == []


def _named(value: Any) -> str:
    return str(value.name)


@pytest.mark.parametrize(("table", "state"), [(table, state) for table in TABLES for state in table.states], ids=_named)
def test_every_row_that_ignores_or_refuses_does_so_by_its_name(table: Table, state: Any) -> None:
    camp = Camp(SCENES[table.name, state.value]())
    course = camp.course
    blank = Member("w", 0, MemberState.ABSENT, 0, 0)
    subject: Any = course.members.get("w", blank) if table is MEMBER else course
    before = camp.state()
    for event in table.events:
        row = table.rows[state, event]
        if not isinstance(row, Ignore | Refuse):
            continue
        made = msgspec.msgpack.decode(encode(shapes.wire(event)), type=event)
        passed = table.step(course, subject, made, camp.hand.now_us, Cup(RUN, bytes(SEED_BYTES)))
        assert camp.state() == before
        assert subject.state is state
        if isinstance(row, Refuse):
            assert isinstance(passed, Refusal)
            assert (passed.code, passed.code in CATALOG, row.why in passed.why) == (row.code, True, True)
        else:
            assert not isinstance(passed, Refusal)

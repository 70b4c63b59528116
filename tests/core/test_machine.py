"""Tables: total, honest about their edges, and unable to half-happen."""

from __future__ import annotations

from enum import Enum
from typing import Any

import msgspec
import pytest
from tests.core import tally

from quoracy.core.dice import Cup
from quoracy.core.errors import CATALOG, Bug, Refusal
from quoracy.core.kinds import KINDS
from quoracy.core.machine import DONE, Applied, Choose, DutyEnded, Event, Ignore, Refuse, Row, Table, To

CUP = Cup("demo", bytes(16))
SERVED = [KINDS.newest(name) for name in ("cluster", "federated", "witnessed")]
ALL_TABLES = [table for kind in (*SERVED, tally.KIND) for table in kind.tables]


class Light(Enum):
    RED = "Red"
    GREEN = "Green"


class Push(Event, frozen=True, array_like=True, tag="push"):
    pass


class Break(Event, frozen=True, array_like=True, tag="break"):
    pass


class Lamp(msgspec.Struct):
    state: Light = Light.RED
    log: list[str] = []

    def called(self) -> str:
        return "the lamp"


def rows(**changes: Row) -> dict[tuple[Any, type[Event]], Row]:
    whole = {
        "red_push": To(Light.GREEN, "go"),
        "green_push": To(Light.RED, "stop"),
        "red_break": Ignore("it stands anyway"),
        "green_break": Refuse("wrong_state", "cars are moving", "push first"),
    } | changes
    keys = {
        "red_push": (Light.RED, Push),
        "green_push": (Light.GREEN, Push),
        "red_break": (Light.RED, Break),
        "green_break": (Light.GREEN, Break),
    }
    return {keys[name]: row for name, row in whole.items()}


def table(**changes: Row) -> Table:
    return Table("lamp", Light, (Push, Break), Light.RED, rows(**changes))


def write(word: str) -> Any:
    def do(_machine: Any, lamp: Lamp, _event: Event, _at_us: int, _cup: Cup) -> Applied:
        lamp.log.append(f"{word} in {lamp.state.value}")
        return Applied({"word": word})

    return do


def test_a_table_with_a_missing_pair_cannot_be_built() -> None:
    missing = rows()
    del missing[Light.GREEN, Break]
    with pytest.raises(Bug, match=r"not listed \['\(Green, Break\)'\], unknown \[\]"):
        Table("lamp", Light, (Push, Break), Light.RED, missing)


def test_a_table_with_a_pair_of_an_unknown_event_cannot_be_built() -> None:
    with pytest.raises(Bug, match=r"not listed \[\], unknown \['\(Green, Break\)', '\(Red, Break\)'\]"):
        Table("lamp", Light, (Push,), Light.RED, rows())


def test_a_row_moves_its_subject() -> None:
    lamp = Lamp()
    assert table().step(lamp, lamp, Push(), 0, CUP) is DONE
    assert lamp.state is Light.GREEN
    table().step(lamp, lamp, Push(), 0, CUP)
    assert lamp.state is Light.RED


def test_what_a_row_does_sees_the_state_it_leaves_and_its_result_is_handed_on() -> None:
    lamp = Lamp()
    applied = table(red_push=To(Light.GREEN, "go", write("go"))).step(lamp, lamp, Push(), 0, CUP)
    assert applied == Applied({"word": "go"})
    assert lamp.log == ["go in Red"]


def test_ignoring_changes_nothing_and_is_no_refusal() -> None:
    lamp = Lamp()
    assert table().step(lamp, lamp, Break(), 0, CUP) is DONE
    assert lamp == Lamp()


def test_a_refused_pair_is_refused_by_name_with_state_reason_and_way_out() -> None:
    lamp = Lamp(Light.GREEN)
    refusal = table().step(lamp, lamp, Break(), 0, CUP)
    assert refusal == Refusal("wrong_state", "the lamp is Green: cars are moving", "push first")
    assert lamp == Lamp(Light.GREEN)


@pytest.mark.parametrize("sort", ["to", "choose"])
def test_a_check_that_refuses_stops_everything_after_it(sort: str) -> None:
    no = Refusal("contradiction", "no", "stop")

    def check(_machine: Any, _lamp: Any, _event: Event, _at_us: int) -> Refusal:
        return no

    def pick(*_: Any) -> Light:
        raise AssertionError("picked after a refusal")

    row = (
        To(Light.GREEN, "go", write("go"), check)
        if sort == "to"
        else Choose(pick, (Light.GREEN,), "go", write("go"), check)
    )
    lamp = Lamp()
    assert table(red_push=row).step(lamp, lamp, Push(), 0, CUP) is no
    assert lamp == Lamp()


def test_a_choice_goes_where_it_was_picked_to_go() -> None:
    row = Choose(lambda _m, _l, _e, at_us: Light.GREEN if at_us else Light.RED, (Light.RED, Light.GREEN), "chooses")
    lamp = Lamp()
    table(red_push=row).step(lamp, lamp, Push(), 0, CUP)
    assert lamp.state is Light.RED
    table(red_push=row).step(lamp, lamp, Push(), 1, CUP)
    assert lamp.state is Light.GREEN


def test_choosing_what_was_not_declared_is_a_bug_and_happens_before_anything_changed() -> None:
    row = Choose(lambda *_: Light.GREEN, (Light.RED,), "chooses", write("go"))
    lamp = Lamp()
    with pytest.raises(Bug, match=r"Push chose Light.GREEN, declared are \['Red'\]"):
        table(red_push=row).step(lamp, lamp, Push(), 0, CUP)
    assert lamp == Lamp()


@pytest.mark.parametrize("known", ALL_TABLES, ids=lambda t: t.name)
def test_every_refusal_of_a_table_is_in_the_catalog_and_every_row_says_why(known: Table) -> None:
    for row in known.rows.values():
        assert row.why
        if isinstance(row, Refuse):
            assert row.code in CATALOG
            assert row.fix


@pytest.mark.parametrize("known", ALL_TABLES, ids=lambda t: t.name)
def test_every_state_of_a_table_can_be_reached_from_its_start(known: Table) -> None:
    reached, fresh = {known.start}, {known.start}
    while fresh:
        rows_of = [row for (state, _), row in known.rows.items() if state in fresh]
        ends = {row.target for row in rows_of if isinstance(row, To)}
        ends |= {end for row in rows_of if isinstance(row, Choose) for end in row.targets}
        fresh = ends - reached
        reached |= fresh
    assert reached == set(known.states)


@pytest.mark.parametrize("known", ALL_TABLES, ids=lambda t: t.name)
def test_a_choice_is_between_at_least_two_states_of_its_table(known: Table) -> None:
    for row in known.rows.values():
        if isinstance(row, Choose):
            assert len(set(row.targets)) >= 2
            assert set(row.targets) <= set(known.states)


def test_every_event_of_a_kind_is_in_one_of_its_tables() -> None:
    for kind in (*SERVED, tally.KIND):
        in_tables = {event for known in kind.tables for event in known.events}
        assert in_tables - {DutyEnded} == set(kind.events.__args__)

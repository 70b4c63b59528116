"""Notes that are left at a place in turns, and counted: over every pulse that can, and over one that cannot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.stores.etcd import Etcd
from tests.stores.tcpserver import Server, tcpstore_server

from quoracy.ports.pulse import Gathered, Gathering
from quoracy.stores.etcd import EtcdPulse
from quoracy.stores.keyvalue import KeyValuePulse, MemoryKeyValue, Rack
from quoracy.stores.memory import MemoryPulse
from quoracy.stores.sqlite import SqlitePulse
from quoracy.stores.tcpstore import open_pulse
from quoracy.testing.expect import Together


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with tcpstore_server() as running:
        yield running


@pytest.fixture(params=["keyvalue", "tcpstore", "etcd", "memory", "sqlite"])
def pulses(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[Any]]:
    """Two handles on one store."""
    match request.param:
        case "keyvalue":
            rack = Rack()
            yield [KeyValuePulse(MemoryKeyValue(rack)) for _ in range(2)]
        case "tcpstore":
            url = request.getfixturevalue("server").url()
            yield from closing([open_pulse(url) for _ in range(2)])
        case "etcd":
            url = request.getfixturevalue("etcd").url()
            yield from closing([EtcdPulse(url) for _ in range(2)])
        case "memory":
            yield [Gathered(MemoryPulse())] * 2
        case "sqlite":
            held = [SqlitePulse(str(tmp_path)) for _ in range(2)]
            yield [Gathered(each) for each in held]
            list(closing(held))


def closing(pulses: list[Any]) -> Iterator[list[Any]]:
    yield pulses
    for pulse in pulses:
        pulse.close()


def test_whoever_comes_is_counted_and_its_note_can_be_read(pulses: list[Any]) -> None:
    one, other = pulses
    assert isinstance(one, Gathering)
    assert one.arrivals("r", "door", 7) == []
    assert [one.arrive("r", "door", 7, "a", b"from a"), other.arrive("r", "door", 7, "b", b"")] == [1, 2]
    assert sorted(one.arrivals("r", "door", 7)) == sorted(other.arrivals("r", "door", 7)) == [b"", b"from a"]


def test_places_runs_and_turns_are_apart(pulses: list[Any]) -> None:
    one, other = pulses
    one.arrive("r", "door", 7, "a", b"7")
    assert one.arrive("r", "window", 7, "a", b"w") == 1
    assert one.arrive("s", "door", 7, "a", b"s") == 1
    assert other.arrive("r", "door", 8, "b", b"8") == 1
    assert other.arrivals("r", "door", 8) == [b"8"]
    assert one.arrivals("r", "window", 7) == [b"w"]
    assert one.arrivals("s", "door", 7) == [b"s"]
    assert one.arrivals("r", "door", 7) == [b"7"]


def test_who_comes_twice_is_still_one_of_those_who_came(pulses: list[Any]) -> None:
    one, other = pulses
    for _ in range(2):
        one.arrive("r", "door", 1, "a", b"a")
    assert other.arrive("r", "door", 1, "b", b"b") in (2, 3)
    assert set(other.arrivals("r", "door", 1)) == {b"a", b"b"}


def test_of_those_who_come_at_once_somebody_is_told_that_all_have_come(pulses: list[Any]) -> None:
    def come(who: int) -> int:
        count: int = pulses[who % 2].arrive("r", "door", 3, str(who), b"%d" % who)
        return count

    with Together() as together:
        for who in range(12):
            together.call(come, who)
    assert max(together.wait()) == 12
    assert set(pulses[0].arrivals("r", "door", 3)) == {b"%d" % who for who in range(12)}


def test_what_is_outside_the_limits_is_refused(pulses: list[Any]) -> None:
    one, _ = pulses
    for wrong in (("r", "door", -1, "a", b""), ("r", "", 1, "a", b""), ("", "door", 1, "a", b""),
                  ("r", "door", 1, "a", bytes(4097))):  # fmt: skip
        with pytest.raises(ValueError, match=r"a (turn|place|run|note|beat|beater)"):
            one.arrive(*wrong)


def test_old_turns_leave_nothing_behind_in_a_bare_store() -> None:
    rack = Rack()
    pulse = KeyValuePulse(MemoryKeyValue(rack))
    for turn in range(1, 20):
        for who in "abc":
            pulse.arrive("r", "door", turn, who, b"note")
    left = sorted(key for key in rack.values if "/tally/" in key)
    assert left == [f"quoracy/run/r/tally/door/{key}" for key in ("notes/18", "notes/19")]


def test_old_turns_leave_nothing_behind_in_etcd(etcd: Etcd) -> None:
    pulse = EtcdPulse(etcd.url())
    for turn in (*range(1, 8), 20):
        for who in "abc":
            pulse.arrive("r", "door", turn, who, b"note")
    pulse.tally("r", "door", 21)
    turns = [pulse.arrivals("r", "door", turn) for turn in range(22)]
    assert [turn for turn, notes in enumerate(turns) if notes] == [20, 21]
    assert len(turns[21]) == 1
    pulse.close()

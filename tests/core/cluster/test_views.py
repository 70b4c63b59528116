"""Views: what a worker is shown, when it changes and again when it reconnects."""

from __future__ import annotations

from tests.core.cluster.yard import Yard, standing

from quoracy.core.cluster.events import RunRolledBack, RunStopped, WorkerLeft, WorkerLoading, WorkerOrdered, WorkerReady
from quoracy.core.cluster.state import Order
from quoracy.core.cluster.views import Passage, Standing
from quoracy.core.messages import Told, Welcome


def told(messages: list[object]) -> dict[str, object]:
    return {m.topic: m.value for m in messages if isinstance(m, Told)}


def test_a_standing_says_all_that_the_run_thinks_of_a_worker() -> None:
    yard = standing("a", "b")
    yard.say(WorkerLoading, "b")
    yard.order(RunRolledBack("worse"))
    assert yard.last_told("b", "standing") == Standing(1, "Recovering", 1, "worse", 1, "Open", {})
    assert yard.last_told("a", "standing") == Standing(1, "Recovering", 0, "worse", 1, "Open", {})


def test_a_worker_is_shown_its_standing_when_it_registers_and_when_it_begins_to_take_part() -> None:
    yard = Yard()
    yard.register("a")
    assert [value.state for _, value in yard.told["a"]] == ["Initializing"]
    yard.say(WorkerReady, "a")
    assert [value.state for _, value in yard.told["a"]] == ["Initializing", "Idle"]


def test_a_worker_that_is_lost_is_shown_so_if_it_is_still_there() -> None:
    yard = standing("a", "b")
    yard.lose("a")
    shown = yard.last_told("a", "standing")
    assert (shown.state, shown.reason) == ("Failed", "no sign of life for 30.0 s; 30.0 s are allowed")
    assert "b" not in yard.told or all(topic == "heartbeat" for topic, _ in yard.told["b"])


def test_everyone_is_shown_the_end_with_its_reason() -> None:
    yard = standing("a", "b", "c")
    yard.say(WorkerLeft, "c")
    yard.told.clear()
    yard.order(RunStopped("enough"))
    for name in "ab":
        shown = yard.last_told(name, "standing")
        assert (shown.run, shown.reason) == ("Closed", "enough")
    assert "c" not in yard.told


def test_an_older_life_is_shown_that_a_newer_one_has_taken_its_place() -> None:
    """On another connection: the old process must learn it without asking."""
    yard = Yard()
    yard.register("a")
    first_peer = yard.hand.host.desk.peers["a"]  # type: ignore[union-attr]
    assert first_peer == "a"
    yard.hello("a", peer="elsewhere")
    yard.told.clear()
    yard.register("a")
    assert yard.last_told("elsewhere", "standing").incarnation == 2
    assert yard.hand.host.desk.peers["a"] == "a"  # type: ignore[union-attr]


def test_an_order_is_shown_at_once() -> None:
    yard = standing("a", "b")
    yard.order(WorkerOrdered("a", "pause", {"x": 1}))
    assert yard.told == {"a": [("order", Order(1, "pause", {"x": 1}, 0))]}


def test_a_stranger_that_says_hello_learns_where_the_run_stands_and_nothing_else() -> None:
    yard = standing("a")
    assert yard.hello("new", 0) == [Welcome("new", 0, 1, yard.n)]


def test_one_that_has_not_joined_in_this_life_learns_which_life_to_supersede() -> None:
    yard = standing("a")
    yard.register("a")
    assert yard.hello("a", 0, peer="new process") == [Welcome("a", 2, 1, yard.n)]
    assert yard.hand.host.desk.peers["a"] == "a"  # type: ignore[union-attr]


def test_one_that_reconnects_is_shown_everything_again() -> None:
    yard = standing("a", "b")
    yard.order(WorkerOrdered("a", "pause"))
    yard.arrive("a", 4)
    yard.arrive("b", 4)
    yard.disconnect("a")
    messages = yard.hello("a", peer="again")
    assert messages[0] == Welcome("a", 1, 1, yard.n)
    shown = told(messages)
    assert list(shown) == ["standing", "order", "barrier/b"]
    assert shown["barrier/b"] == Passage("b", 1, 4, True, 0, 2, "", 0)
    assert yard.hand.host.desk.peers["a"] == "again"  # type: ignore[union-attr]


def test_one_that_was_superseded_and_reconnects_is_shown_the_newer_life_and_is_reached_no_more() -> None:
    yard = standing("a")
    yard.register("a")
    messages = yard.hello("a", 1, peer="old process")
    assert messages[0].incarnation == 2
    assert told(messages)["standing"].incarnation == 2  # type: ignore[attr-defined]
    assert yard.hand.host.desk.peers["a"] == "a"  # type: ignore[union-attr]


def test_a_worker_is_not_shown_barriers_that_did_not_concern_it() -> None:
    yard = standing("a")
    yard.arrive("a")
    yard.join("b")
    assert "barrier/b" not in told(yard.hello("b"))
    assert yard.machine.look("barrier/b", "b") is None
    assert yard.machine.look("barrier/nowhere", "b") is None


def test_one_that_was_missing_is_shown_that_it_was() -> None:
    yard = standing("a", "b", barrier_deadline_s=5.0)
    yard.arrive("a")
    yard.pass_s(5)
    yard.disconnect("b")
    shown = told(yard.hello("b"))["barrier/b"]
    assert isinstance(shown, Passage)
    assert (shown.order, shown.released) == (-1, False)


def test_only_the_newest_generation_is_shown() -> None:
    yard = standing("a", "b")
    for step in (1, 2):
        yard.arrive("a", step)
        yard.arrive("b", step)
        assert [yard.machine.look("barrier/b", name).order for name in "ab"] == [0, 1]
    yard.arrive("b", 3)
    yard.arrive("a", 3)
    assert [yard.machine.look("barrier/b", name) for name in "ab"] == [
        Passage("b", 3, 3, True, 1, 2, "", 0),
        Passage("b", 3, 3, True, 0, 2, "", 0),
    ]


def test_a_new_life_is_not_shown_what_the_one_before_has_passed() -> None:
    yard = standing("a", "b")
    yard.arrive("a")
    yard.arrive("b")
    assert yard.machine.look("barrier/b", "a").order == 0
    yard.register("a")
    assert yard.machine.look("barrier/b", "a") is None
    assert yard.machine.look("barrier/b", "b").order == 1


def test_nothing_is_shown_to_a_stranger() -> None:
    machine = standing("a").machine
    assert machine.topics("nobody") == []
    assert machine.look("standing", "nobody") is None
    assert machine.incarnation_of("nobody") == 0


def test_one_that_is_not_connected_is_shown_nothing() -> None:
    yard = standing("a", "b")
    yard.disconnect("a")
    yard.order(WorkerOrdered("a", "pause"))
    assert yard.told == {}
    assert yard.beat("a").command == "pause"  # type: ignore[union-attr]

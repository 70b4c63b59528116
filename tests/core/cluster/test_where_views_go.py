"""Where a member listens: through which connection it said hello, joined or arrived last. A heartbeat tells nothing of
that, since it may come from a process beside the training.
"""

from __future__ import annotations

from typing import Any

from tests.core.byhand import sent
from tests.core.cluster.yard import Yard
from tests.core.scribe import RUN

from quoracy.core.cluster.events import Arrive, Heartbeat, WorkerOrdered, WorkerReady
from quoracy.core.kinds import KINDS
from quoracy.core.machine import Signal
from quoracy.core.members import Cause
from quoracy.core.messages import Hello, Told, Welcome
from quoracy.core.shell import Disconnected, Received


def yard() -> Yard:
    made = Yard()
    made.join("a")
    made.hand.actions.clear()
    return made


def told_by_an_order(made: Yard) -> set[Any]:
    made.hand.order(WorkerOrdered("a", "pause"))
    made.hand.land_all()
    return {peer for peer, message in made.hand.sent(Told) if message.topic == "order"}


def test_a_heartbeat_through_another_connection_is_answered_there_and_takes_no_views() -> None:
    made = yard()
    made.hand.sign("beside", Heartbeat("a", 1, 1))
    assert [(peer, told.topic) for peer, told in made.hand.sent(Told)] == [("beside", "heartbeat")]
    assert told_by_an_order(made) == {"a"}


def test_a_heartbeat_takes_no_views_though_nobody_else_is_there() -> None:
    made = yard()
    made.hand.report(Disconnected("a"))
    made.hand.sign("beside", Heartbeat("a", 1, 1))
    made.hand.sent()
    assert told_by_an_order(made) == set()


def test_a_hello_without_views_is_welcomed_and_takes_none() -> None:
    made = yard()
    actions = made.hand.report(Received("beside", Hello(RUN, "a", 1, views=False)))
    assert [type(message) for _, message in sent(actions)] == [Welcome]
    assert told_by_an_order(made) == {"a"}


def test_hello_and_arrival_say_where_the_member_listens() -> None:
    made = yard()
    made.hand.hello("again", "a", 1)
    made.hand.sent()
    assert told_by_an_order(made) == {"again"}
    made.hand.sign("third", Arrive("a", 1, "step", 0, 0))
    made.hand.land_all()
    made.hand.sent()
    assert told_by_an_order(made) == {"third"}


def test_each_kind_that_a_server_serves_has_one_heartbeat_and_it_is_called_so() -> None:
    for kind in KINDS:
        signals: tuple[type[Signal], ...] = getattr(kind.signals, "__args__", (kind.signals,))
        named = [signal for signal in signals if signal.__struct_config__.tag == "heartbeat"]
        assert [signal for signal in signals if signal.heartbeat] == named
        assert len(named) == 1


def test_whoever_listens_nowhere_is_reached_where_its_commands_come_from() -> None:
    made = yard()
    made.hand.report(Disconnected("a"))
    made.hand.call("again", Cause("a", 1, 1), WorkerReady("a", 1))
    made.hand.land_all()
    made.hand.sent()
    assert told_by_an_order(made) == {"again"}


def test_a_command_takes_no_views_from_whoever_listens() -> None:
    made = yard()
    made.hand.call("again", Cause("a", 1, 1), WorkerReady("a", 1))
    made.hand.land_all()
    made.hand.sent()
    assert told_by_an_order(made) == {"a"}

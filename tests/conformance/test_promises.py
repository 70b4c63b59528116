"""What is promised of each operation is complete, and every promise is looked after by a check that is there."""

from __future__ import annotations

import pytest

from quoracy.ports import Journal, Mailbox, Pulse
from quoracy.testing import JOURNAL_CHECKS, MAILBOX_CHECKS, PROMISES, PULSE_CHECKS

PORTS = {"Journal": Journal, "Pulse": Pulse, "Mailbox": Mailbox}
SUITES = {"Journal": JOURNAL_CHECKS, "Pulse": PULSE_CHECKS, "Mailbox": MAILBOX_CHECKS}


@pytest.mark.parametrize("port", PORTS)
def test_every_operation_of_a_port_has_its_promise(port):
    promised = [promise.operation for promise in PROMISES if promise.port == port]
    operations = [name for name, value in vars(PORTS[port]).items() if callable(value) and not name.startswith("_")]
    assert sorted([*promised, "close"]) == sorted(operations)


@pytest.mark.parametrize("promise", PROMISES, ids=lambda each: f"{each.port}.{each.operation}")
def test_every_promise_is_looked_after_by_checks_of_its_suite(promise):
    names = {check.__name__ for check in SUITES[promise.port]}
    assert promise.checks
    assert set(promise.checks) <= names


def test_what_changes_something_and_is_durable_has_a_check_that_opens_the_store_again():
    again = {"an_entry_survives_closing_and_opening", "letters_survive_closing_and_opening"}
    said = {promise.operation for promise in PROMISES if again & set(promise.checks)}
    assert said == {"append", "post", "discard"}


def test_only_what_changes_nothing_says_nothing_of_durability():
    assert {promise.operation for promise in PROMISES if promise.durable is None} == {
        "runs", "last", "read", "watch", "load_snapshot", "segments", "beats", "collect",
    }  # fmt: skip

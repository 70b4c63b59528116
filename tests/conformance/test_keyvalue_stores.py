"""Journal, pulse and mailbox over a bare key-value store keep the contracts of the ports: in memory, and on a real
TCPStore in a process of its own."""

from __future__ import annotations

import pytest
from tests.stores.tcpserver import tcpstore_server

from quoracy.stores.keyvalue import KeyValueJournal, KeyValueMailbox, KeyValuePulse, MemoryKeyValue, Rack
from quoracy.stores.tcpstore import open_journal, open_mailbox, open_pulse
from quoracy.testing import JOURNAL_CHECKS, MAILBOX_CHECKS, PULSE_CHECKS


@pytest.fixture(scope="session")
def server():
    with tcpstore_server() as running:
        yield running


@pytest.mark.parametrize("check", JOURNAL_CHECKS, ids=lambda check: check.__name__)
def test_a_journal_in_memory_keeps_the_contract(check):
    rack = Rack()
    check(lambda: KeyValueJournal(MemoryKeyValue(rack)))


@pytest.mark.parametrize("check", PULSE_CHECKS, ids=lambda check: check.__name__)
def test_a_pulse_in_memory_keeps_the_contract(check):
    rack = Rack()
    check(lambda: KeyValuePulse(MemoryKeyValue(rack)))


@pytest.mark.parametrize("check", MAILBOX_CHECKS, ids=lambda check: check.__name__)
def test_a_mailbox_in_memory_keeps_the_contract(check):
    rack = Rack()
    check(lambda: KeyValueMailbox(MemoryKeyValue(rack)))


@pytest.mark.parametrize("check", JOURNAL_CHECKS, ids=lambda check: check.__name__)
def test_a_journal_on_a_tcpstore_keeps_the_contract(check, server):
    url = server.url()
    check(lambda: open_journal(url))


@pytest.mark.parametrize("check", PULSE_CHECKS, ids=lambda check: check.__name__)
def test_a_pulse_on_a_tcpstore_keeps_the_contract(check, server):
    url = server.url()
    check(lambda: open_pulse(url))


@pytest.mark.parametrize("check", MAILBOX_CHECKS, ids=lambda check: check.__name__)
def test_a_mailbox_on_a_tcpstore_keeps_the_contract(check, server):
    url = server.url()
    check(lambda: open_mailbox(url))

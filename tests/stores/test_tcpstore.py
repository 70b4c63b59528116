"""A real TCPStore that dies, falls silent, or comes back empty; its addresses and its command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from time import monotonic

import pytest
from tests.stopping import stop
from tests.stores.tcpserver import LIMIT_S, tcpstore_server

from quoracy.core.errors import ConfigError, OutcomeUnknown
from quoracy.ports import Append, Appended, Beat
from quoracy.ports.keyvalue import StoreLost, Unreachable
from quoracy.stores import tcpwire as wire
from quoracy.stores.tcpstore import TcpStoreKeyValue, open_journal, open_mailbox, open_pulse, parse_url

SHORT_S = 0.5
BOUND_S = 30
"""Far more than it takes, far less than for ever."""


@contextmanager
def stopped(server):
    """Silent, not dead: the kernel still takes connections for it."""
    stop(server.popen.pid)
    try:
        yield
    finally:
        os.kill(server.popen.pid, signal.SIGCONT)


@pytest.fixture(scope="module")
def server():
    """For those who let it live."""
    with tcpstore_server() as running:
        yield running


def test_a_killed_server_is_told_and_not_waited_for():
    with tcpstore_server() as server:
        journal, pulse = open_journal(server.url()), open_pulse(server.url())
        assert journal.append([Append("r", 1, b"one")]) == [Appended(1)]
        pulse.beat("r", "a", Beat(1))
        server.kill()
        began = monotonic()
        with pytest.raises(OutcomeUnknown, match=f"127.0.0.1:{server.port} does not answer"):
            journal.append([Append("r", 2, b"two")])
        for call in (
            lambda: journal.append([Append("r", 2, b"two")]),
            lambda: journal.read("r", 1),
            lambda: journal.watch("r", 1, 5.0),
        ):
            with pytest.raises(Unreachable, match="Connection refused"):
                call()
        with pytest.raises(OutcomeUnknown):
            pulse.beat("r", "a", Beat(2))
        with pytest.raises(Unreachable):
            open_mailbox(server.url())
        assert monotonic() - began < BOUND_S
        journal.close()
        pulse.close()


def test_a_new_empty_server_at_the_same_address_is_noticed():
    with tcpstore_server() as server:
        url = server.url()
        journal = open_journal(url)
        known = journal.store_id
        journal.append([Append("r", 1, b"one")])
        server.kill()
    with tcpstore_server(server.port) as empty:
        assert empty.address == server.address
        with pytest.raises(OutcomeUnknown):
            journal.append([Append("r", 2, b"two")])
        for _ in range(2):
            with pytest.raises(StoreLost, match="is missing: the store lost its memory"):
                journal.append([Append("r", 2, b"two")])
        with pytest.raises(StoreLost):
            open_journal(url, store_id=known)
        fresh = open_journal(url)
        assert (fresh.runs(), fresh.store_id == known) == ([], False)
        with pytest.raises(StoreLost):
            journal.read("r", 1)
        fresh.close()
        journal.close()


def test_a_lost_connection_to_the_same_store_is_dialled_anew(server):
    journal = open_journal(server.url())
    journal.append([Append("r", 1, b"one")])
    hang_up(journal)
    assert journal.read("r", 1) == [b"one"]
    hang_up(journal)
    with pytest.raises(OutcomeUnknown):
        journal.append([Append("r", 2, b"two")])
    assert journal.append([Append("r", 2, b"two")]) == [Appended(2)]
    journal.close()


def hang_up(journal):
    """The server hangs up on whoever adds to what is no number; nobody has noticed yet."""
    store = journal._session.store
    store.create("quoracy-no-number", b"x")
    (line,) = store._idle
    line._send(wire.add("quoracy-no-number", 1).said)
    assert line._ready(LIMIT_S)


def test_a_silent_server_is_told_in_bounded_time_and_answers_again_later(server):
    url = server.url()
    journal = open_journal(url, timeout_s=SHORT_S)
    journal.append([Append("r", 1, b"one")])
    with stopped(server):
        began = monotonic()
        with pytest.raises(OutcomeUnknown, match=r"no answer within 0\.5 s"):
            journal.append([Append("r", 2, b"two")])
        assert monotonic() - began < BOUND_S
    (outcome,) = journal.append([Append("r", 2, b"two")])
    assert outcome == Appended(2) or outcome.payload == b"two"
    assert journal.read("r", 1) == [b"one", b"two"]
    journal.close()


def test_an_answer_that_nobody_waited_for_is_no_answer_to_the_next_question(monkeypatch, server):
    store = TcpStoreKeyValue(server.host, server.port)
    store.create("a", b"of a")
    store.create("b", b"of b")
    whole = wire.Wire.read_values

    def interrupted(line, count):
        monkeypatch.setattr(wire.Wire, "read_values", whole)
        raise KeyboardInterrupt

    monkeypatch.setattr(wire.Wire, "read_values", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.get("a")
    assert store.get("b") == b"of b"
    store.close()


def test_dialling_a_silent_server_ends(server):
    store = TcpStoreKeyValue(server.host, server.port, timeout_s=SHORT_S)
    with stopped(server):
        began = monotonic()
        with pytest.raises(Unreachable, match=r"no answer within 0\.5 s"):
            store.get("x")
        assert monotonic() - began < BOUND_S
    assert store.get("x") is None
    store.close()


@pytest.mark.parametrize(
    ("url", "parsed"),
    [
        ("tcpstore://host:29500", ("host", 29500, "quoracy")),
        ("tcpstore://10.0.0.1:1/a/b", ("10.0.0.1", 1, "a/b")),
        ("tcpstore://[::1]:29500/", ("::1", 29500, "quoracy")),
    ],
)
def test_an_address_names_host_port_and_prefix(url, parsed):
    assert parse_url(url) == parsed


@pytest.mark.parametrize(
    "url",
    ["tcpstore://host", "tcp://host:1", "tcpstore://:1", "tcpstore://host:x", "tcpstore://h:99999", "tcpstore://[::1",
     "tcpstore://me@host:1", "tcpstore://host:1/a?b", "tcpstore://host:1#c", ""],
)  # fmt: skip
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(ConfigError, match="write tcpstore://host:port"):
        parse_url(url)


def test_without_torch_a_store_can_be_used_and_a_server_names_the_extra(server):
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from quoracy.stores.tcpstore import open_journal, serve\n"
        "from quoracy.core.errors import ConfigError\n"
        f"print(open_journal({server.address!r}).runs())\n"
        "try: serve(['--port', '0'])\n"
        "except ConfigError as error: print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT_S, check=True)
    runs, error = said.stdout.splitlines()
    assert runs == "[]"
    assert "pip install torch==" in error


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_the_command_says_its_address_and_ends_by_signal(ending):
    with tcpstore_server() as server:
        assert server.address == f"tcpstore://127.0.0.1:{server.port}"
        server.popen.send_signal(ending)
        assert server.popen.wait(LIMIT_S) == 0

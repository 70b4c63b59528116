"""etcd is killed, stopped, cut off, full: nothing acknowledged is lost, nothing is written twice, and what is not known
is said to be unknown."""

from __future__ import annotations

import threading
import time
from contextlib import closing

import pytest
from tests.stores.etcd import Etcd, Node, ctl, free_ports, until

from quoracy.core.errors import JournalBusy, JournalError, JournalFull, OutcomeUnknown
from quoracy.ports import Append, Appended, Conflict
from quoracy.stores.etcd import EtcdJournal, tide
from quoracy.stores.etcd.client import Compacted
from quoracy.stores.etcd.words import under
from quoracy.testing.faults import append_surely


class Appender(threading.Thread):
    """Appends one entry after the other, as a host does: what is not known is read, what is there is compared."""

    def __init__(self, url: str, me: str = "a") -> None:
        super().__init__(daemon=True)
        self._journal = EtcdJournal(url, call_s=1.0, patience_s=1.0)
        self._me = me
        self.acknowledged: list[bytes] = []
        self.troubles: list[str] = []
        self.stop = threading.Event()

    def run(self) -> None:
        while not self.stop.is_set():
            n = len(self.acknowledged) + 1
            wish = Append("r", n, f"{self._me}:{n}".encode())
            while not self._try(wish):
                pass
        self._journal.close()

    def _try(self, wish: Append) -> bool:
        try:
            mine = append_surely(self._journal, wish)
        except JournalError as error:
            self.troubles.append(error.code)
            return False
        assert mine
        self.acknowledged.append(wish.payload)
        return True

    def goes_on(self, entries: int = 20) -> None:
        goal = len(self.acknowledged) + entries
        until(lambda: len(self.acknowledged) >= goal or not self.is_alive(), "it appends")
        assert self.is_alive()

    def end(self) -> list[bytes]:
        self.stop.set()
        self.join(30)
        assert not self.is_alive()
        return self.acknowledged


def entries(url: str) -> list[bytes]:
    with closing(EtcdJournal(url)) as journal:
        return journal.read("r", 1, 100_000)


def test_an_etcd_that_is_killed_and_started_again_loses_nothing(tmp_path):
    with Etcd(tmp_path) as etcd:
        url = etcd.url()
        appender = Appender(url)
        appender.start()
        for _ in range(3):
            appender.goes_on()
            etcd.restart(etcd.nodes[0])
            etcd.wait()
        appender.goes_on()
        assert appender.end() == entries(url)
        assert set(appender.troubles) <= {"outcome_unknown", "journal_busy"}


@pytest.mark.parametrize("fate", [Node.kill, Node.stop], ids=["killed", "stopped"])
def test_three_nodes_go_on_without_their_leader(tmp_path, fate):
    with Etcd(tmp_path, nodes=3) as etcd:
        url = etcd.url()
        appender = Appender(url)
        appender.start()
        for _ in range(2):
            appender.goes_on()
            leader = etcd.leader()
            fate(leader)
            appender.goes_on()
            etcd.restart(leader)
            etcd.wait()
        appender.goes_on()
        assert appender.end() == entries(url)


def test_without_a_majority_nothing_is_written_and_afterwards_it_goes_on(tmp_path):
    with Etcd(tmp_path, nodes=3) as etcd:
        url = etcd.url()
        with closing(EtcdJournal(url, call_s=1.0, patience_s=2.0)) as journal:
            assert journal.append([Append("r", 1, b"one")]) == [Appended(1)]
            for node in etcd.nodes[:2]:
                node.kill()
            with pytest.raises((OutcomeUnknown, JournalBusy)):
                journal.append([Append("r", 2, b"two")])
            with pytest.raises(JournalBusy, match=r"does not answer within 2 s"):
                journal.read("r", 1)
            for node in etcd.nodes[:2]:
                node.launch(etcd.nodes)
            etcd.wait()
            assert append_surely(journal, Append("r", 2, b"two"))
            assert journal.read("r", 1) == [b"one", b"two"]


@pytest.fixture
def stopped(tmp_path):
    """An etcd that a test may stop."""
    with Etcd(tmp_path) as etcd:
        yield etcd
        etcd.nodes[0].go_on()


def test_an_append_that_is_not_answered_is_unknown_and_resolved_by_its_nonce(stopped):
    node = stopped.nodes[0]
    with closing(EtcdJournal(stopped.url(), call_s=0.3, patience_s=20.0)) as journal:
        assert journal.append([Append("r", 1, b"one")]) == [Appended(1)]
        node.stop()
        with pytest.raises(OutcomeUnknown, match=r"127\.0\.0\.1:\d+ did not answer"):
            journal.append([Append("r", 2, b"nonce-2")])
        node.go_on()
        assert append_surely(journal, Append("r", 2, b"nonce-2"))
        assert journal.append([Append("r", 2, b"else")]) == [Conflict(2, b"nonce-2")]
        assert journal.append([Append("r", 3, b"three")]) == [Appended(3)]
        assert journal.read("r", 1) == [b"one", b"nonce-2", b"three"]


def test_an_etcd_that_stays_silent_is_named(stopped):
    with closing(EtcdJournal(stopped.url(), call_s=0.2, patience_s=0.6)) as journal:
        stopped.nodes[0].stop()
        with pytest.raises(JournalBusy, match=r"does not answer within 0\.6 s .*: is it running"):
            journal.last("r")
        with pytest.raises(JournalBusy):
            journal.append([Append("r", 1, b"x")])  # nothing was sent: the last call had not been answered either


def test_closing_ends_a_call_that_waits(stopped):
    journal = EtcdJournal(stopped.url(), call_s=20.0, patience_s=20.0)
    stopped.nodes[0].stop()
    said: list[Exception] = []

    def read() -> None:
        try:
            journal.last("r")
        except Exception as error:
            said.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    until(lambda: reader.is_alive() or said, "it reads")
    journal.close()
    reader.join(30)
    assert [type(error) for error in said] == [ValueError]


def test_members_that_are_dead_are_passed_over(etcd):
    dead = free_ports(2)
    prefix = "/" + etcd.url().rpartition("/")[2]
    endpoint = etcd.nodes[0].endpoint
    url = f"etcd://127.0.0.1:{dead[0]},{endpoint},127.0.0.1:{dead[1]}{prefix}"
    for _ in range(3):
        with closing(EtcdJournal(url)) as journal:
            n = journal.last("r") + 1
            assert journal.append([Append("r", n, b"%d" % n)]) == [Appended(n)]
    assert entries(url) == [b"1", b"2", b"3"]


def test_a_full_etcd_writes_nothing_and_goes_on_when_there_is_room(tmp_path):
    with Etcd(tmp_path, 1, "--quota-backend-bytes", str(4 * 1024 * 1024)) as etcd:
        node = etcd.nodes[0]
        with closing(EtcdJournal(etcd.url())) as journal, closing(EtcdJournal(etcd.url("/junk"))) as junk:
            journal.append([Append("r", 1, b"one")])
            fill_up(junk)
            with pytest.raises(JournalFull, match=r"space exceeded.*etcdctl alarm disarm"):
                journal.append([Append("r", 2, b"two")])
            assert journal.read("r", 1) == [b"one"], "reading goes on"
            make_room(node)
            assert journal.append([Append("r", 2, b"zwei")]) == [Appended(2)]
            assert journal.read("r", 1) == [b"one", b"zwei"]


def fill_up(journal: EtcdJournal) -> None:
    for n in range(1, 50):
        try:
            journal.append([Append("r", n, bytes(400_000))])
        except JournalFull:
            assert n > 3
            return
    raise AssertionError("there is no end to it")


def make_room(node: Node) -> None:
    """What an operator does."""
    ctl(node, "del", "--prefix", "/junk/")
    status = ctl(node, "endpoint", "status", "--write-out=fields")
    (current,) = [line.split(":")[1].strip() for line in status.splitlines() if line.startswith('"Revision"')]
    ctl(node, "compact", "--physical", current)
    ctl(node, "defrag")
    ctl(node, "alarm", "disarm")


def test_wishes_that_were_written_in_part_are_unknown(etcd, monkeypatch):
    with closing(EtcdJournal(etcd.url())) as journal:
        write, calls = journal._client.write, []

        def fails_later(*arguments):
            calls.append(arguments)
            if len(calls) == 2:
                raise JournalBusy("no")
            return write(*arguments)

        monkeypatch.setattr(journal._client, "write", fails_later)
        wishes = [Append("r", n, bytes(500_000)) for n in range(1, 6)]
        with pytest.raises(OutcomeUnknown, match=r"only some of 5 wishes were written: no"):
            journal.append(wishes)
        assert journal.last("r") == 2
        answered = journal.append(wishes)
        assert [type(outcome) for outcome in answered] == [Conflict] * 5, "decided on top of what was there before"


def test_more_wishes_than_one_transaction_takes_are_all_written(etcd):
    runs = [f"run-{i}" for i in range(130)]
    with closing(EtcdJournal(etcd.url())) as journal:
        wishes = [Append(run, n, f"{run}/{n}".encode()) for run in runs for n in (1, 2)]
        assert journal.append(wishes) == [Appended(wish.n) for wish in wishes]
        assert journal.runs() == sorted(runs)
        assert all(journal.read(run, 1) == [f"{run}/{n}".encode() for n in (1, 2)] for run in runs)


def test_a_read_begins_again_when_etcd_forgets_the_moment(etcd, monkeypatch):
    with closing(EtcdJournal(etcd.url())) as journal, closing(EtcdJournal(etcd.url())) as other:
        wanted = [b"%d" % n for n in range(1, 41)]
        journal.append([Append("r", n, payload) for n, payload in enumerate(wanted, 1)])
        read, forgotten = journal._client.read, []

        def forgets(*reaches, revision=0):
            if revision and not forgotten:
                forgotten.append(revision)
                other.append([Append("x", 1, b"x")])
                ctl(etcd.nodes[0], "compact", str(revision + 1))
            return read(*reaches, revision=revision)

        monkeypatch.setattr(journal._client, "read", forgets)
        assert journal.read("r", 1) == wanted
        assert forgotten
        with pytest.raises(Compacted):
            read(under(journal._keys.heads), revision=forgotten[0])


def test_a_watch_outlives_its_etcd(tmp_path):
    with Etcd(tmp_path) as etcd:
        url = etcd.url()
        with closing(EtcdJournal(url, patience_s=30.0)) as journal, closing(EtcdJournal(url, patience_s=30.0)) as other:
            other.append([Append("r", 1, b"one")])
            assert journal.watch("r", 0, 20) == 1
            etcd.restart(etcd.nodes[0])
            etcd.wait()
            seen: list[int] = []
            watcher = threading.Thread(target=lambda: seen.append(journal.watch("r", 1, 30)))
            watcher.start()
            assert append_surely(other, Append("r", 2, b"two"))
            watcher.join(30)
            assert seen == [2]


def test_a_watch_wakes_without_looking_by_itself(etcd, monkeypatch):
    """The watch of etcd is what makes it quick; looking now and then is only for when that breaks."""
    monkeypatch.setattr(tide, "LOOK_S", 1000.0)
    url = etcd.url()
    with closing(EtcdJournal(url)) as journal, closing(EtcdJournal(url)) as other:
        seen: list[int] = []
        watcher = threading.Thread(target=lambda: seen.append(journal.watch("r", 0, 30)))
        began = time.monotonic()
        watcher.start()
        until(lambda: journal._tide._watching, "it watches")
        other.append([Append("r", 1, b"one")])
        watcher.join(30)
        assert seen == [1]
        assert time.monotonic() - began < 25

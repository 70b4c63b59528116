"""What hosts on one etcd share: the lock, the secret, and that one at a time does the upkeep of a run."""

from __future__ import annotations

import os
import signal
from contextlib import closing
from pathlib import Path

import pytest
from tests.stores.etcd import Etcd, ctl, until
from tests.stores.process import running

from quoracy.core.errors import JournalBusy, JournalError
from quoracy.ports import Append, Saved
from quoracy.stores.etcd import EtcdJournal
from quoracy.stores.etcd.words import Reach, put, under

PROGRAMS = Path(__file__).with_name("etcd_programs.py")


def test_of_racing_processes_exactly_one_wins_each_entry(etcd):
    url, rounds = etcd.url(), 40
    with (
        running("contend", url, "a", rounds, file=PROGRAMS) as a,
        running("contend", url, "b", rounds, file=PROGRAMS) as b,
        running("contend", url, "c", rounds, file=PROGRAMS) as c,
    ):
        racers = (a, b, c)
        assert [racer.line() for racer in racers] == ["ready"] * 3
        for racer in racers:
            racer.tell()
        told = [racer.rest() for racer in racers]
    with closing(EtcdJournal(url)) as journal:
        there = [payload.decode() for payload in journal.read("r", 1)]
    assert len(there) == rounds
    assert told == [there] * 3


def test_the_lock_is_free_soon_after_its_holder_is_dead(etcd):
    url = etcd.url()
    with closing(EtcdJournal(url)) as journal:
        assert journal.lock_holder() == ""
        with running("hold_lock", url, file=PROGRAMS) as holder:
            assert holder.line() == "locked True"
            assert journal.try_lock() is False
            assert journal.lock_holder().endswith(f" process {holder.popen.pid}")
            holder.kill()
            until(journal.try_lock, "the lock is free")
        assert journal.try_lock() is True
        with closing(EtcdJournal(url)) as second:
            assert second.try_lock() is False
            journal.close()
            assert second.try_lock() is True, "at once: the lease was given back"


def test_a_holder_that_was_stopped_for_too_long_knows_that_it_has_lost_the_lock(etcd):
    url = etcd.url()
    with closing(EtcdJournal(url)) as journal, running("hold_lock", url, file=PROGRAMS) as holder:
        assert holder.line() == "locked True"
        os.kill(holder.popen.pid, signal.SIGSTOP)
        until(journal.try_lock, "the lease has run out")
        os.kill(holder.popen.pid, signal.SIGCONT)
        holder.tell()
        assert holder.line() == "locked False"
        assert journal.try_lock() is True


def test_a_lease_that_was_taken_away_is_noticed(etcd):
    with closing(EtcdJournal(etcd.url())) as journal:
        assert journal.try_lock() is True
        lease = journal._locked
        ctl(etcd.nodes[0], "lease", "revoke", f"{lease:x}")
        until(lambda: not journal._session.alive(lease), "it is noticed")
        assert journal.try_lock() is True, "it is free, and taken again"
        assert journal._locked != lease


def test_a_lock_whose_etcd_is_silent_is_lost_when_its_time_is_over(tmp_path):
    with Etcd(tmp_path) as etcd, closing(EtcdJournal(etcd.url(), call_s=0.3, patience_s=0.5)) as journal:
        assert journal.try_lock() is True
        etcd.nodes[0].stop()
        until(lambda: not journal._session.alive(journal._locked), "it has run out")
        with pytest.raises(JournalError):
            journal.try_lock()
        etcd.nodes[0].go_on()
        until(lambda: _locked(journal), "it comes back")


def _locked(journal: EtcdJournal) -> bool:
    try:
        return journal.try_lock()
    except JournalError:
        return False


def test_the_secret_is_the_same_for_all(etcd):
    url = etcd.url()
    with closing(EtcdJournal(url)) as a, closing(EtcdJournal(url)) as b, closing(EtcdJournal(etcd.url())) as elsewhere:
        assert a.shared_secret(lambda: b"first") == b"first"
        assert b.shared_secret(lambda: b"second") == b"first"
        assert a.shared_secret(lambda: b"third") == b"first"
        assert elsewhere.shared_secret(lambda: b"another prefix") == b"another prefix"


def filled(url: str, count: int = 9) -> EtcdJournal:
    journal = EtcdJournal(url)
    journal.append([Append("r", n, b"%d" % n) for n in range(1, count + 1)])
    return journal


def test_whoever_lost_the_upkeep_of_a_run_changes_nothing_any_more(etcd):
    url = etcd.url()
    with closing(filled(url)) as slow, closing(EtcdJournal(url)) as other:
        key = slow._keys.of_run(b"r", "snapshot")
        with slow._snapshots._upkeep.hold(b"r") as hold:
            ctl(etcd.nodes[0], "lease", "revoke", f"{slow._session.lease():x}")
            other.save_snapshot("r", Saved(5, b"root", {b"page": b"page"}))
            with pytest.raises(JournalBusy, match=r"another process does the upkeep"):
                hold.write([put(key, b"wrong")])
        assert other.load_snapshot("r") == Saved(5, b"root", {b"page": b"page"})


def test_a_page_that_did_not_change_is_not_written_again_and_others_go(etcd):
    url = etcd.url()
    with closing(filled(url)) as journal:
        journal.save_snapshot("r", Saved(3, b"root 3", {b"same": b"x" * 1_300_000, b"old": b"old"}))
        before = pages(journal)
        left = journal._keys.of_run(b"r", "pages", b"crash".hex(), "000000")
        journal._client.write([], [put(left, journal._keys.wrap(left, b"nobody names it"))])
        journal.save_snapshot("r", Saved(6, b"root 6", {b"same": b"x" * 1_300_000, b"new": b"new"}))
        after = pages(journal)
        same = {key for key in before if b"same".hex().encode() in key}
        assert len(same) == 3, "cut into parts"
        assert {key: after[key] for key in same} == {key: before[key] for key in same}
        assert {bytes.fromhex(key.split(b"/")[-2].decode()) for key in after} == {b"same", b"new"}
        assert journal.load_snapshot("r") == Saved(6, b"root 6", {b"same": b"x" * 1_300_000, b"new": b"new"})


def pages(journal: EtcdJournal) -> dict[bytes, int]:
    """Every key with the revision at which it was written."""
    (found,) = journal._client.read(under(journal._keys.of_run(b"r", "pages", ""))).found
    return {kv.key: kv.mod_revision for kv in found}


def test_what_a_crash_left_of_a_segment_is_replaced(etcd):
    with closing(filled(etcd.url())) as journal:
        left = journal._segments._chunk_key(b"r", 1, 4)
        journal._client.write([], [put(left, b"half of it")])
        journal.save_snapshot("r", Saved(6, b"root", {}))
        assert journal.compact("r", 6).last == 6
        assert journal._client.read(Reach(left)).one(0) is None
        assert journal.read("r", 1) == [b"%d" % n for n in range(1, 10)]


def test_entries_of_a_segment_are_cut_into_chunks_and_found_in_them(etcd):
    payloads = [bytes([n]) * (200_000 if n % 3 else 500_000) for n in range(1, 13)]
    with closing(EtcdJournal(etcd.url())) as journal:
        journal.append([Append("r", n, payload) for n, payload in enumerate(payloads, 1)])
        journal.save_snapshot("r", Saved(11, b"root", {}))
        journal.compact("r", 11)
        (row,) = journal._segments._rows("r", b"r", 12, 0)
        assert len(row.chunks) > 3
        for first in range(1, 13):
            for limit in (1, 2, 5, 12):
                assert journal.read("r", first, limit) == payloads[first - 1 : first - 1 + limit]

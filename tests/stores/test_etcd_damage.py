"""What somebody else wrote, or a disk did, is noticed and named: run, entry and key."""

from __future__ import annotations

from contextlib import closing

import pytest
from tests.stores.etcd import ctl

from quoracy.core.errors import JournalCorrupt, JournalNewer
from quoracy.ports import Append, Beat, Letter, Saved
from quoracy.stores.etcd import EtcdJournal, EtcdMailbox, EtcdPulse
from quoracy.stores.etcd.words import Reach, delete, put, under


@pytest.fixture
def journal(etcd):
    """Entries 1 to 3 in a segment, 4 to 6 hot, a snapshot of 5."""
    with closing(EtcdJournal(etcd.url())) as opened:
        opened.append([Append("run/1", n, b"entry %d" % n) for n in range(1, 7)])
        opened.save_snapshot("run/1", Saved(3, b"root", {b"page": b"page"}))
        opened.compact("run/1", 3)
        opened.save_snapshot("run/1", Saved(5, b"root", {b"page": b"page", b"more": b"more"}))
        yield opened


def keys(journal: EtcdJournal) -> dict[str, bytes]:
    (found,) = journal._client.read(under(journal._keys.at(""))).found
    return {kv.key.decode(): kv.value for kv in found}


def key_of(journal: EtcdJournal, what: str) -> str:
    (key,) = [key for key in keys(journal) if what in key]
    return key


def flip(journal: EtcdJournal, key: str) -> None:
    value = bytearray(keys(journal)[key])
    value[-1] ^= 1
    journal._client.write([], [put(key.encode(), bytes(value))])


def remove(journal: EtcdJournal, key: str) -> None:
    journal._client.write([], [delete(Reach(key.encode()))])


def test_a_value_that_was_changed_is_named(journal):
    key = key_of(journal, "/runs/run%2F1/entries/00000000000000000005")
    flip(journal, key)
    with pytest.raises(JournalCorrupt) as caught:
        journal.read("run/1", 4)
    assert (caught.value.run, caught.value.entry, caught.value.where) == ("run/1", 5, f"the key {key}")
    assert journal.read("run/1", 1, 4) == [b"entry %d" % n for n in range(1, 5)], "the others can be read"


def test_a_whole_value_in_the_wrong_place_is_named(journal):
    four = key_of(journal, "entries/00000000000000000004")
    five = key_of(journal, "entries/00000000000000000005")
    journal._client.write([], [put(five.encode(), keys(journal)[four])])
    with pytest.raises(JournalCorrupt, match=r"entry 5 .*entries/00000000000000000005"):
        journal.read("run/1", 1)


@pytest.mark.parametrize(
    ("key", "what"),
    [
        ("entries/00000000000000000005", "entry 5 .*the entry is missing"),
        ("archive/", "entry 1 .*a chunk of a segment is missing"),
        ("segments/", "entry 1 .*the row of a segment is missing"),
        ("/heads/", "the run is said to end at 0, but there is more"),
        ("/hot", "entry 1 .*the entry is missing"),
    ],
)
def test_a_key_that_is_missing_is_named(journal, key, what):
    remove(journal, key_of(journal, key))
    with pytest.raises(JournalCorrupt, match=what):
        journal.read("run/1", 1)


def test_an_entry_beyond_the_end_is_named_and_never_overwritten(journal):
    key = journal._keys.entry(b"run/1", 7)
    journal._client.write([], [put(key, journal._keys.wrap(key, b"from where?"))])
    for look in (lambda: journal.read("run/1", 7), lambda: journal.append([Append("run/1", 7, b"x")])):
        with pytest.raises(JournalCorrupt, match=r"entry 7 .*said to end at 6, but there is more"):
            look()
    assert keys(journal)[key.decode()].endswith(b"from where?")


@pytest.mark.parametrize("what", ["/snapshot", "/index/", f"/pages/{b'page'.hex()}/"])
@pytest.mark.parametrize("spoil", [flip, remove])
def test_a_damaged_snapshot_is_named(journal, what, spoil):
    key = key_of(journal, what)
    spoil(journal, key)
    if (what, spoil) == ("/snapshot", remove):
        assert journal.load_snapshot("run/1") is None, "then there is none; the entries are there"
        return
    with pytest.raises(JournalCorrupt) as caught:
        journal.load_snapshot("run/1")
    assert caught.value.where == f"the key {key}"


@pytest.mark.parametrize("what", ["/heads/", "/hot", "/segments/", "/archive/"])
def test_a_damaged_row_is_named(journal, what):
    key = key_of(journal, what)
    flip(journal, key)
    with pytest.raises(JournalCorrupt) as caught:
        journal.read("run/1", 1)
    assert caught.value.where == f"the key {key}"


def test_a_damaged_beat_letter_or_secret_is_named(etcd):
    url = etcd.url()
    with closing(EtcdJournal(url)) as journal, closing(EtcdPulse(url)) as pulse, closing(EtcdMailbox(url)) as mailbox:
        pulse.beat("r", "a", Beat(1))
        mailbox.post("r", Letter("a", 1, b"letter"))
        journal.shared_secret(lambda: b"secret")
        for what, look in {
            "/beats/": lambda: pulse.beats("r"),
            "/letters/": lambda: mailbox.collect("r"),
            "/secret": lambda: journal.shared_secret(lambda: b""),
        }.items():
            flip(journal, key_of(journal, what))
            with pytest.raises(JournalCorrupt, match=what):
                look()


@pytest.mark.parametrize("store", [EtcdJournal, EtcdMailbox, EtcdPulse])
def test_what_a_newer_quoracy_wrote_is_left_alone(etcd, store):
    url = etcd.url()
    with closing(EtcdJournal(url)) as journal:
        key = journal._keys.schema
        journal._client.write([], [put(key, journal._keys.wrap(key, b"2"))])
        with pytest.raises(JournalNewer, match=r"has schema version 2, this Quoracy reads up to 1"):
            store(url)
        flip(journal, key.decode())
        with pytest.raises(JournalCorrupt, match=r"/schema"):
            store(url)


def test_the_keys_are_what_the_documentation_says(journal, etcd):
    """Seen with etcd's own tool."""
    prefix = journal._client.address.prefix
    shown = ctl(etcd.nodes[0], "get", "--prefix", "--keys-only", f"{prefix}/").split()
    n = "0000000000000000000"
    assert shown == [
        f"{prefix}/heads/run%2F1",
        f"{prefix}/runs/run%2F1/archive/{n}1/{n}1",
        *(f"{prefix}/runs/run%2F1/entries/{n}{i}" for i in (4, 5, 6)),
        f"{prefix}/runs/run%2F1/hot",
        f"{prefix}/runs/run%2F1/index/{n}5/000000",
        f"{prefix}/runs/run%2F1/pages/{b'more'.hex()}/000000",
        f"{prefix}/runs/run%2F1/pages/{b'page'.hex()}/000000",
        f"{prefix}/runs/run%2F1/segments/{n}1",
        f"{prefix}/runs/run%2F1/snapshot",
        f"{prefix}/schema",
    ]

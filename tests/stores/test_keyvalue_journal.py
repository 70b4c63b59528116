"""What the suites cannot see: pauses at the worst moment, lost replies, damage, a store that forgot."""

from __future__ import annotations

import pytest

from quoracy.core.errors import EntriesGone, JournalCorrupt, JournalNewer, OutcomeUnknown
from quoracy.ports import Append, Appended, Beat, Conflict, Letter, Saved
from quoracy.ports.keyvalue import StoreLost, Unreachable
from quoracy.stores.keyvalue import KeyValueJournal, KeyValueMailbox, KeyValuePulse, MemoryKeyValue, Rack
from quoracy.stores.keyvalue.entries import Entries
from quoracy.stores.keyvalue.keys import RunKeys, Sealed, part
from quoracy.stores.keyvalue.session import Session
from quoracy.stores.keyvalue.steps import perform
from quoracy.testing.expect import Together
from quoracy.testing.journal_archive import snapshot_of
from quoracy.testing.journal_reads import ODD_NAMES

NONCE = bytes(16)
CHANGING = ("create", "create_then_get", "append_then_get", "announce", "swap", "add", "delete")


class Watched(MemoryKeyValue):
    """Writes down each operation; ``before`` may do something in between, or fail."""

    def __init__(self, rack):
        super().__init__(rack)
        self.asked: list[str] = []
        self.before = lambda number, name: None

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        if name in ("get", "get_many", "wait", "fetch", *CHANGING):
            self.asked.append(name)
            self.before(len(self.asked), name)
        return found


@pytest.fixture
def rack():
    return Rack()


@pytest.fixture
def journal(rack):
    return KeyValueJournal(MemoryKeyValue(rack))


def fill(journal, count, run="r"):
    for n in range(journal.last(run) + 1, count + 1):
        assert journal.append([Append(run, n, b"%d" % n)]) == [Appended(n)]


def forget(journal, upto, run="r"):
    journal.save_snapshot(run, snapshot_of(upto))
    journal.compact(run, upto, keep_segments=0)


def test_a_proposer_that_was_paused_brings_no_deleted_entry_back(rack, journal):
    store = MemoryKeyValue(rack)
    keys = RunKeys("quoracy", "r")
    paused = Entries(keys).create(2, b"late", NONCE)
    step = next(paused)  # it is about to create entry 2, and sleeps
    fill(journal, 3)
    forget(journal, 2)
    step = paused.send(perform(store, step))
    assert store.get(keys.entry(2)) is not None
    with pytest.raises(EntriesGone, match="begins at 3"):
        KeyValueJournal(MemoryKeyValue(rack)).read("r", 2)
    with pytest.raises(EntriesGone, match="begins at 3"):
        paused.send(perform(store, step))
    assert store.get(keys.entry(2)) is None


def test_whoever_dies_while_sweeping_is_finished_by_the_next(rack, journal):
    fill(journal, 6)
    store = Watched(rack)
    dying = KeyValueJournal(store)

    def die(_, name):
        if name == "delete" and store.asked.count("delete") == 2:
            raise KeyboardInterrupt

    journal.save_snapshot("r", Saved(4, b"root", {}))
    store.before = die
    with pytest.raises(KeyboardInterrupt):
        dying.compact("r", 4, keep_segments=0)
    keys = RunKeys("quoracy", "r")
    assert [keys.entry(n) in rack.values for n in (1, 2, 3, 4, 5)] == [False, True, True, True, True]
    with pytest.raises(EntriesGone, match="begins at 5"):
        journal.read("r", 2)
    journal.compact("r", 0, keep_segments=9)
    assert [keys.entry(n) in rack.values for n in (1, 2, 3, 4, 5)] == [False, False, False, False, True]


def test_equal_bytes_of_two_appenders_are_one_win(rack):
    keys = RunKeys("quoracy", "r")
    store = MemoryKeyValue(rack)
    session = Session(store)
    outcomes = [session.run(Entries(keys).create(1, b"same", nonce)) for nonce in (b"a" * 16, b"b" * 16)]
    assert outcomes == [Appended(1), Conflict(1, b"same")]


def test_wishes_behind_one_that_lost_a_race_are_not_written(rack, journal):
    fill(journal, 1)
    store = Watched(rack)
    slow = KeyValueJournal(store)
    assert slow.last("r") == 1
    store.before = lambda number, name: fill(journal, 3) if name == "create_then_get" else None
    wishes = [Append("r", n, b"x%d" % n) for n in (2, 3, 4)]
    lost = Conflict(2, b"2")
    assert slow.append(wishes) == [lost, Conflict(3, b"3"), lost]
    assert slow.last("r") == 3


def test_an_entry_gone_after_another_was_written_leaves_the_outcome_open(rack, journal):
    fill(journal, 1)
    store = Watched(rack)
    slow = KeyValueJournal(store)
    slow.last("r")

    def overtake(_, name):
        if name == "create_then_get" and store.asked.count(name) == 2:
            fill(journal, 3)
            forget(journal, 3)

    slow.append([Append("s", 1, b"s1")])
    store.asked.clear()
    store.before = overtake
    with pytest.raises(OutcomeUnknown, match="other entries of this call were written"):
        slow.append([Append("s", 2, b"s2"), Append("r", 2, b"x")])
    assert journal.read("s", 2) == [b"s2"]


@pytest.mark.parametrize(("failing", "raised"), [(1, Unreachable), (2, OutcomeUnknown)])
def test_nothing_was_done_is_only_said_if_nothing_was(rack, journal, failing, raised):
    """Of two entries the first is there when the second fails."""
    fill(journal, 1)
    store = Watched(rack)
    cut_off = KeyValueJournal(store)
    cut_off.last("r")
    store.asked.clear()

    def fail(number, _):
        if number == failing:
            raise Unreachable("cut off")

    store.before = fail
    with pytest.raises((Unreachable, OutcomeUnknown)) as told:
        cut_off.append([Append("r", 2, b"two"), Append("r", 3, b"three")])
    assert type(told.value) is raised
    assert journal.last("r") == failing


def test_what_follows_costs_one_operation_and_so_does_a_beat(rack):
    store = Watched(rack)
    journal = KeyValueJournal(store)
    fill(journal, 2)
    store.asked.clear()
    journal.append([Append("r", 3, b"3")])
    assert store.asked == ["create_then_get"]
    store.asked.clear()
    journal.read("r", 3, 1)
    assert store.asked == ["get_many"]
    pulse = KeyValuePulse(store)
    pulse.beat("r", "a", Beat(1))
    store.asked.clear()
    pulse.beat("r", "a", Beat(2))
    assert store.asked == ["swap"]


def test_a_watch_costs_one_operation_and_reading_what_it_found_none(rack, journal):
    store = Watched(rack)
    watcher = KeyValueJournal(store)
    fill(journal, 2)
    assert watcher.last("r") == 2
    store.asked.clear()
    with Together() as together:
        together.call(watcher.watch, "r", 2, 20.0)
        fill(journal, 3)
        assert together.wait() == [3]
    assert watcher.read("r", 3, 1) == [b"3"]
    assert [name for name in store.asked if name != "wait"] == ["fetch", "get_many"]  # the second within the first
    store.asked.clear()
    assert watcher.read("r", 3, 1) == [b"3"]
    assert store.asked == ["get_many"]


def test_a_watch_finds_the_last_entry_also_if_the_one_it_waits_for_was_deleted(rack, journal):
    watcher = KeyValueJournal(MemoryKeyValue(rack))
    fill(journal, 2)
    assert watcher.last("r") == 2
    fill(journal, 5)
    assert watcher.watch("r", 2, 20.0) == 5
    assert watcher.watch("r", 5, 0.0) == 5
    fill(journal, 8)
    forget(journal, 8)
    assert watcher.watch("r", 5, 20.0) == 8


def test_an_empty_mailbox_costs_one_question_however_many_have_posted(rack):
    store = Watched(rack)
    mailbox, other = KeyValueMailbox(store), KeyValueMailbox(MemoryKeyValue(rack))
    for i in range(20):
        other.post("r", Letter(f"sender {i}", 1, b"x"))
        other.discard("r", f"sender {i}", 1)
    assert mailbox.collect("r") == []
    store.asked.clear()
    assert mailbox.collect("r") == []
    assert store.asked == ["add"]
    other.post("r", Letter("sender 7", 2, b"new"))
    assert mailbox.collect("r") == mailbox.collect("r") == [Letter("sender 7", 2, b"new")]
    other.discard("r", "sender 7", 2)
    assert mailbox.collect("r") == []


def test_a_letter_that_was_posted_before_it_was_counted_is_found_when_the_post_is_repeated(rack):
    store = Watched(rack)
    dying, reader = KeyValueMailbox(store), KeyValueMailbox(MemoryKeyValue(rack))

    def die(_, name):
        if name == "add":
            raise KeyboardInterrupt

    store.before = die
    with pytest.raises(KeyboardInterrupt):
        dying.post("r", Letter("a", 1, b"one"))
    assert reader.collect("r") == []
    store.before = lambda *_: None
    assert dying.post("r", Letter("a", 1, b"one")) is False
    assert reader.collect("r") == [Letter("a", 1, b"one")]


def test_the_end_of_a_long_run_is_found_in_a_few_steps(rack, journal):
    journal.append([Append("r", n, b"x") for n in range(1, 1001)])
    store = Watched(rack)
    newcomer = KeyValueJournal(store)
    store.asked.clear()
    assert newcomer.last("r") == 1000
    assert len(store.asked) <= 25


def damage(rack, key):
    value = rack.values[key]
    rack.values[key] = value[:-1] + bytes([value[-1] ^ 1])


def test_damage_is_named(rack, journal):
    fill(journal, 3)
    journal.save_snapshot("r", snapshot_of(2))
    mailbox = KeyValueMailbox(MemoryKeyValue(rack))
    mailbox.post("r", Letter("a", 1, b"hello"))
    base = "quoracy/run/r"
    page = next(key for key in rack.values if key.startswith(f"{base}/blob/"))
    for key, call in {
        f"{base}/entry/2": lambda: journal.read("r", 1),
        page: lambda: journal.load_snapshot("r"),
        f"{base}/snapshot": lambda: journal.load_snapshot("r"),
        f"{base}/letter/a/1": lambda: mailbox.collect("r"),
        f"{base}/box/a": lambda: mailbox.collect("r"),
        "quoracy/runs/0": lambda: KeyValueJournal(MemoryKeyValue(rack)).runs(),
        "quoracy/store": lambda: KeyValueJournal(MemoryKeyValue(rack)),
    }.items():
        before = rack.values[key]
        damage(rack, key)
        with pytest.raises(JournalCorrupt, match=f"of {key}: .* is not the one that was written"):
            call()
        rack.values[key] = before
    assert journal.read("r", 1) == [b"1", b"2", b"3"]


def test_an_entry_under_another_number_is_damage(rack, journal):
    fill(journal, 2)
    rack.values["quoracy/run/r/entry/2"] = rack.values["quoracy/run/r/entry/1"]
    with pytest.raises(JournalCorrupt, match="entry 2"):
        journal.read("r", 2)


def test_a_missing_page_is_damage(rack, journal):
    fill(journal, 2)
    journal.save_snapshot("r", snapshot_of(2))
    del rack.values[next(key for key in rack.values if "/blob/" in key and "/3/" in key)]
    with pytest.raises(JournalCorrupt, match="a part of the snapshot is missing"):
        journal.load_snapshot("r")


def test_pages_that_nobody_names_any_more_are_deleted(rack, journal):
    fill(journal, 9)
    journal.save_snapshot("r", snapshot_of(3))
    count = sum("/blob/" in key for key in rack.values)
    for n in (4, 5, 9):
        journal.save_snapshot("r", snapshot_of(n))
    assert sum("/blob/" in key for key in rack.values) == count


def test_a_page_larger_than_a_value_comes_back(rack, journal):
    fill(journal, 1)
    large = Saved(1, b"root" * 400_000, {b"page": bytes(range(256)) * 10_000, b"empty": b""})
    journal.save_snapshot("r", large)
    assert journal.load_snapshot("r") == large


def test_of_two_who_save_at_once_the_newer_wins_and_is_whole(rack, journal):
    fill(journal, 9)
    journal.save_snapshot("r", snapshot_of(2))
    store = Watched(rack)
    slow = KeyValueJournal(store)
    overtaken = []

    def overtake(_, name):
        if name == "swap" and not overtaken:
            overtaken.append(1)
            journal.save_snapshot("r", snapshot_of(5))

    store.before = overtake
    slow.save_snapshot("r", snapshot_of(9))
    assert journal.load_snapshot("r") == snapshot_of(9)
    overtaken.clear()
    store.before = lambda _, name: journal.save_snapshot("r", snapshot_of(9)) if name == "swap" else None
    slow.save_snapshot("r", snapshot_of(8))
    assert journal.load_snapshot("r") == snapshot_of(9)


def test_a_poster_that_was_paused_brings_no_discarded_letter_back(rack):
    store = Watched(rack)
    slow, other = KeyValueMailbox(store), KeyValueMailbox(MemoryKeyValue(rack))
    slow.post("r", Letter("a", 1, b"one"))
    store.asked.clear()
    store.before = lambda _, name: other.discard("r", "a", 2) if name == "create" else None
    assert slow.post("r", Letter("a", 2, b"late")) is False
    assert other.collect("r") == []
    assert not any("/letter/" in key for key in rack.values)


def test_a_post_that_died_half_way_is_finished_by_its_repeat(rack):
    store = Watched(rack)
    mailbox = KeyValueMailbox(store)

    def die(_, name):
        if name == "get":
            raise KeyboardInterrupt

    store.before = die
    with pytest.raises(KeyboardInterrupt):
        mailbox.post("r", Letter("a", 1, b"one"))
    store.before = lambda *_: None
    assert mailbox.collect("r") == []
    assert mailbox.post("r", Letter("a", 1, b"one")) is False
    assert mailbox.collect("r") == [Letter("a", 1, b"one")]


@pytest.mark.parametrize("back", [True, False], ids=["another store", "an empty store"])
def test_a_store_that_lost_its_memory_is_noticed_before_anything_is_written(rack, journal, back):
    fill(journal, 2)
    rack.lose()
    if back:
        KeyValueJournal(MemoryKeyValue(rack))
    before = dict(rack.values)
    for _ in range(2):
        with pytest.raises(StoreLost, match=r"store_lost: quoracy/store was .*: the store lost its memory"):
            journal.append([Append("r", 3, b"3")])
    with pytest.raises(StoreLost):
        journal.watch("r", 2, 5.0)
    assert rack.values == before


def test_a_new_process_notices_it_only_if_it_knows_which_store_it_wants(rack, journal):
    wanted = journal.store_id
    assert KeyValueJournal(MemoryKeyValue(rack), store_id=wanted).store_id == wanted
    rack.lose()
    for _ in range(2):
        with pytest.raises(StoreLost, match="must not write again"):
            KeyValueJournal(MemoryKeyValue(rack), store_id=wanted)
        assert KeyValueJournal(MemoryKeyValue(rack)).store_id not in (None, wanted)


def test_a_newer_format_is_refused(rack):
    rack.values["quoracy/store"] = Sealed("store").seal(b"2 " + bytes(16))
    with pytest.raises(JournalNewer, match="format 2, this Quoracy reads up to 1"):
        KeyValueJournal(MemoryKeyValue(rack))


@pytest.mark.parametrize("prefix", ["", "a b", "x" * 129])
def test_a_prefix_outside_the_limits_is_refused(rack, prefix):
    with pytest.raises(ValueError, match=r"a (key|prefix)"):
        KeyValueJournal(MemoryKeyValue(rack), prefix)


def test_no_two_names_share_a_part_of_a_key():
    digest_like = part("x" * 500)
    names = [*ODD_NAMES, digest_like, "!", "~", "%21"]
    assert len({part(name) for name in names}) == len(names)
    assert all(len(part(name)) <= 120 and "/" not in part(name) for name in names)


def test_a_letter_discarded_while_it_is_read_does_not_count(rack):
    store = Watched(rack)
    slow, other = KeyValueMailbox(store), KeyValueMailbox(MemoryKeyValue(rack))
    for seq in (1, 2):
        other.post("r", Letter("a", seq, b"%d" % seq))

    def overtake(_, name):
        if name == "get" and store.asked.count("get") == 2:  # the record, after the letters were read
            other.discard("r", "a", 1)

    store.asked.clear()
    store.before = overtake
    assert slow.collect("r") == [Letter("a", 2, b"2")]


def test_a_snapshot_replaced_while_it_is_read_is_read_again(rack, journal):
    fill(journal, 9)
    journal.save_snapshot("r", snapshot_of(3))
    store = Watched(rack)
    slow = KeyValueJournal(store)

    def overtake(_, name):
        if name == "get_many":
            journal.save_snapshot("r", snapshot_of(9))

    store.before = overtake
    assert slow.load_snapshot("r") == snapshot_of(9)


def test_a_run_that_was_entered_and_never_begun_is_no_run(rack, journal):
    store = Watched(rack)
    dying = KeyValueJournal(store)

    def die(_, name):
        if name == "create_then_get":
            raise KeyboardInterrupt

    store.asked.clear()
    store.before = die
    with pytest.raises(KeyboardInterrupt):
        dying.append([Append("r", 1, b"one")])
    assert "quoracy/runs/0" in rack.values
    assert journal.runs() == []
    fill(journal, 1)
    forget(journal, 1)
    assert journal.runs() == ["r"]

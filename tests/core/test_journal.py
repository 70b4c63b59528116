"""Entries: damaged, moved, forged or from the future, they are refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core import tally
from tests.core.histories import busy_history
from tests.core.scribe import RUN, Scribe, bare_entry, created, doctored, raw_events

from quoracy.core.codec import NO_DIGEST, digest, encode
from quoracy.core.errors import ConfigError, FoldDiverged, JournalCorrupt, JournalNewer, JournalOlder
from quoracy.core.journal import (
    FORMAT,
    HostTook,
    RunCreated,
    chain_seed,
    decode_created,
    decode_entry,
    encode_event,
)
from quoracy.core.kinds import KINDS
from quoracy.core.run import Run, UnknownRules, fold

FIXTURE = Path(__file__).parent / "fixtures" / "journal-format-2.json"
HISTORY = busy_history()
WORLD = (JournalCorrupt, JournalNewer, JournalOlder, FoldDiverged)


def before(n: int) -> Run:
    """The fixed history up to entry n-1, each time anew."""
    run = fold(KINDS, RUN, HISTORY.payloads[: n - 1])
    assert run is not None
    return run


def copies(n: int) -> tuple[bytes, dict[bytes, bytes]]:
    snapshot = before(n).snapshot()
    return snapshot.root, snapshot.pages


def flipped(payload: bytes, bit: int) -> bytes:
    changed = bytearray(payload)
    changed[bit // 8] ^= 1 << (bit % 8)
    return bytes(changed)


def test_every_entry_names_the_digest_of_the_one_before() -> None:
    last = NO_DIGEST
    for n, payload in enumerate(HISTORY.payloads, start=1):
        assert decode_entry(payload, RUN, n).prev == last
        last = digest(payload)
    assert HISTORY.run.head.digest == last


@pytest.mark.parametrize("n", range(2, len(HISTORY.payloads) + 1))
def test_no_bit_of_an_entry_can_flip_unseen(n: int) -> None:
    """Refused at once; or, where the bit is a free choice of the host such as the nonce, the digest is another and
    the entry after it is refused. Whoever trusts the last digest can check all of the journal."""
    root, pages = copies(n)
    payload, after = HISTORY.payloads[n - 1], HISTORY.payloads[n : n + 1]
    for bit in range(len(payload) * 8):
        run = Run.restore(KINDS, RUN, n - 1, root, pages)
        changed = flipped(payload, bit)
        try:
            run.extend(changed)
        except WORLD:
            continue
        assert run.head.digest == digest(changed) != digest(payload)
        for following in after:
            with pytest.raises(JournalCorrupt, match="digest of the entry before does not fit"):
                run.extend(following)


def test_no_bit_of_the_first_entry_can_flip_unseen() -> None:
    """Here the damage may also look like another kind, other rules, or a setting that cannot be."""
    first, second = HISTORY.payloads[:2]
    for bit in range(len(first) * 8):
        with pytest.raises((*WORLD, UnknownRules, ConfigError)):
            fold(KINDS, RUN, [flipped(first, bit), second])


@pytest.mark.parametrize("n", range(1, len(HISTORY.payloads) + 1))
def test_an_entry_cut_short_anywhere_is_corrupt(n: int) -> None:
    payload = HISTORY.payloads[n - 1]
    for size in range(len(payload)):
        with pytest.raises(JournalCorrupt, match=f"entry {n} at offset 0 of the entry: cannot be decoded"):
            decode_entry(payload[:size], RUN, n)


def test_an_entry_with_something_after_it_is_corrupt() -> None:
    with pytest.raises(JournalCorrupt, match="cannot be decoded"):
        decode_entry(HISTORY.payloads[1] + b"\0", RUN, 2)


@given(st.binary(max_size=200))
def test_bytes_that_are_no_entry_are_corrupt_or_newer_and_nothing_else(junk: bytes) -> None:
    with pytest.raises((JournalCorrupt, JournalNewer)):
        decode_entry(junk, RUN, 1)


def test_a_deeply_nested_entry_is_corrupt_and_does_not_bring_the_fold_down() -> None:
    deep = msgspec.Raw(b"\x91" * 100_000 + b"\xc0")
    with pytest.raises(JournalCorrupt, match="recursion"):
        before(3).extend(doctored(HISTORY.payloads[2], events=deep))
    with pytest.raises(JournalCorrupt, match="recursion"):
        decode_entry(doctored(HISTORY.payloads[0], events=deep), RUN, 1)


def test_reordered_entries_are_refused() -> None:
    swapped = [HISTORY.payloads[0], HISTORY.payloads[2], HISTORY.payloads[1]]
    with pytest.raises(JournalCorrupt, match=r"entry 2 .*says it is entry 3: reordered or missing"):
        fold(KINDS, RUN, swapped)


def test_a_duplicated_entry_is_refused() -> None:
    with pytest.raises(JournalCorrupt, match=r"entry 3 .*says it is entry 2"):
        fold(KINDS, RUN, [*HISTORY.payloads[:2], HISTORY.payloads[1]])


def test_a_missing_entry_is_refused() -> None:
    with pytest.raises(JournalCorrupt, match="says it is entry 4"):
        fold(KINDS, RUN, [*HISTORY.payloads[:2], *HISTORY.payloads[3:]])


def test_an_entry_of_another_run_is_refused() -> None:
    foreign = Scribe(KINDS, created("cluster", run="other"))
    with pytest.raises(JournalCorrupt, match="belongs to run 'other'"):
        fold(KINDS, RUN, foreign.payloads)


def test_an_entry_of_another_journal_of_the_same_run_does_not_fit() -> None:
    """Same number, same run, but grown on another past."""
    twin = Scribe(KINDS, created("cluster", {"max_workers": 7}))
    twin.write()
    with pytest.raises(JournalCorrupt, match="digest of the entry before does not fit"):
        before(2).extend(twin.payloads[1])


def test_an_entry_of_a_newer_format_names_both_versions_whatever_its_shape() -> None:
    newer = [
        doctored(HISTORY.payloads[1], format=FORMAT + 1),
        encode([FORMAT + 2, RUN, 2, {"all": "different"}]),
        encode([FORMAT + 1, RUN, 2]),
    ]
    for payload in newer:
        with pytest.raises(JournalNewer, match=rf"format {msgspec.msgpack.decode(payload)[0]}, .* up to {FORMAT}"):
            before(2).extend(payload)


@pytest.mark.parametrize("number", [0, -1])
def test_an_entry_of_a_format_that_never_was_is_corrupt(number: int) -> None:
    with pytest.raises(JournalCorrupt, match=f"format {number} does not exist"):
        before(2).extend(doctored(HISTORY.payloads[1], format=number))


def test_run_time_that_goes_backwards_is_refused_and_standing_still_is_not() -> None:
    run = before(3)
    at_us = run.head.at_us
    with pytest.raises(JournalCorrupt, match="run time goes backwards"):
        run.extend(bare_entry(run, at_us=at_us - 1))
    run.extend(bare_entry(run, at_us=at_us))
    assert run.head.n == 3


def test_an_entry_that_does_not_begin_with_the_making_of_the_run_makes_none() -> None:
    first = HISTORY.payloads[0]
    for events in (raw_events(), raw_events((None, HostTook(1, "alpha"))), msgspec.Raw(encode(5))):
        with pytest.raises(JournalCorrupt, match=r"entry 1 .*does not create a run"):
            fold(KINDS, RUN, [doctored(first, events=events)])


def test_the_first_entry_creates_the_run_it_belongs_to_and_no_other() -> None:
    other = created("cluster", run="other")
    with pytest.raises(JournalCorrupt, match="belongs to run 'demo'"):
        fold(KINDS, RUN, [doctored(HISTORY.payloads[0], events=raw_events((None, other)))])


def test_a_journal_of_0_1_is_refused_with_a_clear_word() -> None:
    for payload in (doctored(HISTORY.payloads[1], format=1), encode([1, RUN, 2, {"all": "different"}])):
        with pytest.raises(JournalOlder, match=r"entry 2 has format 1, of Quoracy 0\.1, which is not read since 0\.2"):
            decode_entry(payload, RUN, 2)


def test_a_run_is_created_once() -> None:
    run = before(3)
    with pytest.raises(FoldDiverged, match=r"holds RunCreated, which these rules refuse \(run_exists"):
        run.extend(bare_entry(run, (None, created("cluster"))))


def test_rules_that_are_not_known_here_are_refused_and_the_known_ones_named() -> None:
    for made in (RunCreated(RUN, "cluster", 2, {}), RunCreated(RUN, "parliament", 1, {})):
        payload = doctored(HISTORY.payloads[0], events=raw_events((None, made)))
        with pytest.raises(UnknownRules, match=r"known: cluster 1\b.*use a newer Quoracy"):
            fold(KINDS, RUN, [payload])


def test_events_of_another_kind_are_corrupt() -> None:
    run = before(2)
    with pytest.raises(JournalCorrupt, match="events cannot be decoded"):
        run.extend(bare_entry(run, (None, tally.Agreed(1, []))))


def test_an_event_out_of_range_is_corrupt() -> None:
    """Fields are checked when an entry is read, not only at the door."""
    run = before(2)
    events = msgspec.Raw(encode([[None, ["worker-lost", "w1", 1, -5, "silent"]]]))
    with pytest.raises(JournalCorrupt, match="events cannot be decoded"):
        run.extend(bare_entry(run, events=events))


def test_a_seed_from_the_chain_is_a_hash_of_the_entry_before_and_the_number() -> None:
    assert chain_seed(b"a" * 32, 7) == digest(b"seed" + b"a" * 32 + (7).to_bytes(8, "big"))[:16]
    assert len({chain_seed(p, n) for p in (bytes(32), b"a" * 32) for n in (1, 2)}) == 4


def test_an_event_is_written_with_the_command_that_caused_it() -> None:
    assert msgspec.msgpack.decode(encode_event(None, HostTook(3, "alpha", "a:1"))) == [
        None,
        ["host-took", 3, "alpha", "a:1"],
    ]


def test_the_first_entry_tells_what_was_created() -> None:
    made = decode_created(decode_entry(HISTORY.payloads[0], RUN, 1))
    assert (made.run, made.kind, made.rules, made.seeding) == (RUN, "cluster", 1, "host")


def test_a_journal_of_format_1_folds_for_ever(rewrite_vectors: bool) -> None:
    """Written once. Rules may change, old folds may not."""
    if rewrite_vectors:
        written = {
            "run": RUN,
            "entries": [payload.hex() for payload in HISTORY.payloads],
            "state_digest": HISTORY.run.state_digest().hex(),
        }
        FIXTURE.write_text(json.dumps(written, indent=1) + "\n")
    kept = json.loads(FIXTURE.read_text())
    run = fold(KINDS, kept["run"], [bytes.fromhex(payload) for payload in kept["entries"]])
    assert run is not None
    assert run.head.n == len(kept["entries"]) == 11
    assert run.state_digest().hex() == kept["state_digest"]

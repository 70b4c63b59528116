"""What every store promises of each operation of its ports: whether it is atomic, acknowledged and durable, and which
checks of the suites look after it. ``docs/reference/ports.md`` is made from this table.

atomic        it happens at one moment, whole or not at all, also among callers in different processes
acknowledged  when it returns it has happened, and every handle sees it from then on. What raises ``OutcomeUnknown``
              may have happened or not; what raises anything else has not
durable       once acknowledged it survives whatever the store's own data survives: the processes of all who use it, and
              for stores that keep their data on disk their own too. What need not be durable may be forgotten
"""

from __future__ import annotations

from typing import Final

import msgspec


class Promise(msgspec.Struct, frozen=True):
    """``durable`` is None for what changes nothing."""

    port: str
    operation: str
    atomic: bool
    acknowledged: bool
    durable: bool | None
    means: str
    checks: tuple[str, ...]


JOURNAL: Final = (
    Promise(
        "Journal", "append", True, True, True,
        "each entry by itself: there is one of each number, whoever races for it. Wishes of one call are written in "
        "order, and none behind one that was lost. What a lost reply has left open is settled by the nonce",
        (
            "of_racing_appenders_exactly_one_wins", "appenders_that_go_on_after_a_conflict_lose_nothing",
            "a_gap_writes_nothing_at_all", "wishes_behind_a_lost_one_are_lost_too",
            "an_appended_entry_is_there_for_every_handle", "an_entry_survives_closing_and_opening",
            "an_unknown_outcome_is_resolved_by_the_nonce",
        ),
    ),
    Promise(
        "Journal", "runs", False, True, None,
        "every run of which an entry was acknowledged; others may be there by the time it returns",
        ("a_run_nobody_wrote_is_empty", "runs_do_not_see_each_other"),
    ),
    Promise(
        "Journal", "last", True, True, None, "never less than what anybody was told before",
        ("an_appended_entry_is_there_for_every_handle", "a_run_nobody_wrote_is_empty"),
    ),
    Promise(
        "Journal", "read", False, True, None,
        "each entry whole, and never another one afterwards; more may come while several are read",
        ("reading_gives_the_entries_that_were_asked_for", "readers_and_appenders_do_not_notice_a_compaction"),
    ),
    Promise(
        "Journal", "watch", False, True, None,
        "returns when there is more, or when its time is over; it may notice late, and never misses an entry",
        (
            "a_watch_sees_what_another_handle_appends", "a_watch_returns_at_once_if_there_is_something",
            "a_watch_ends_when_its_time_is_over",
        ),
    ),
    Promise(
        "Journal", "save_snapshot", True, True, True, "whoever loads one gets a whole one: the older or the newer",
        (
            "a_snapshot_is_whole_while_another_is_being_saved", "a_snapshot_that_is_not_newer_is_ignored",
            "the_newest_snapshot_is_kept_with_its_pages",
        ),
    ),
    Promise(
        "Journal", "load_snapshot", True, True, None, "the newest one, whole",
        ("a_snapshot_is_whole_while_another_is_being_saved", "the_newest_snapshot_is_kept_with_its_pages"),
    ),
    Promise(
        "Journal", "compact", False, True, True,
        "several steps, of which none is seen: readers and appenders notice nothing. One that dies in between leaves "
        "work for the next, and loses nothing",
        (
            "readers_and_appenders_do_not_notice_a_compaction", "reading_does_not_notice_the_archive",
            "an_archived_number_is_still_taken", "retention_deletes_the_oldest_and_says_so",
        ),
    ),
    Promise(
        "Journal", "segments", True, True, None, "also those that were deleted",
        ("entries_up_to_the_snapshot_are_archived", "retention_deletes_the_oldest_and_says_so"),
    ),
)  # fmt: skip

PULSE: Final = (
    Promise(
        "Pulse", "beat", True, True, False,
        "number and note change together, and a lower number changes nothing. A store may forget it: another follows",
        ("a_beat_replaces_the_one_before", "a_lower_beat_is_ignored_and_an_equal_one_is_not", "many_may_beat_at_once"),
    ),
    Promise(
        "Pulse", "beats", False, True, None, "each beat whole; those of two keys need not be of the same moment",
        ("a_beat_replaces_the_one_before", "many_may_beat_at_once"),
    ),
    Promise(
        "Pulse", "forget", True, True, False, "the key's next beat may have any number",
        ("a_forgotten_key_is_gone_and_may_come_back",),
    ),
    Promise(
        "Pulse", "tally", True, True, False,
        "of those who come at once each gets another number. A hint: one whose reply was lost may count twice",
        (
            "many_may_come_at_once_and_each_gets_another_number",
            "a_tally_counts_each_once_and_begins_anew_with_every_turn",
        ),
    ),
)  # fmt: skip

MAILBOX: Final = (
    Promise(
        "Mailbox", "post", True, True, True,
        "a slot is taken once, whoever races for it, and what was discarded stays closed; so a repeat is harmless",
        (
            "of_racing_posts_to_a_slot_one_wins", "a_taken_slot_keeps_its_letter", "a_discarded_slot_stays_closed",
            "letters_survive_closing_and_opening",
        ),
    ),
    Promise(
        "Mailbox", "collect", False, True, None, "each letter whole, in order; others may come meanwhile",
        ("a_posted_letter_can_be_collected_until_it_is_discarded", "letters_come_in_order_and_within_the_limit"),
    ),
    Promise(
        "Mailbox", "discard", False, True, True,
        "its slots are closed at one moment; the letters in them may go one after the other. Repeating it is harmless",
        ("a_discarded_slot_stays_closed", "letters_survive_closing_and_opening"),
    ),
)  # fmt: skip

PROMISES: Final = (*JOURNAL, *PULSE, *MAILBOX)

"""The suite that every mailbox must pass; see ``quoracy.testing.journal`` for how to use it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from quoracy.ports import MAX_LETTER_BYTES, Letter, Mailbox
from quoracy.testing.expect import Together, equal, opened, raises, true
from quoracy.testing.journal_reads import ODD_NAMES

OpenMailbox = Callable[[], Mailbox]
MailboxCheck = Callable[[OpenMailbox], None]


def a_posted_letter_can_be_collected_until_it_is_discarded(open_mailbox: OpenMailbox) -> None:
    with opened(open_mailbox) as mailbox, opened(open_mailbox) as other:
        letters = [Letter("a", 1, b"one"), Letter("a", 2, b"two"), Letter("b", 1, b"uno")]
        for letter in reversed(letters):
            true(mailbox.post("r", letter), f"posting {letter}")
        equal(other.collect("r"), letters, "letters, by sender and number")
        equal(other.collect("r"), letters, "letters, collected again")
        other.discard("r", "a", 1)
        equal(mailbox.collect("r"), letters[1:], "after discarding a/1")


def letters_survive_closing_and_opening(open_mailbox: OpenMailbox) -> None:
    with opened(open_mailbox) as mailbox:
        mailbox.post("r", Letter("a", 1, b"one"))
        mailbox.post("r", Letter("a", 2, b"two"))
        mailbox.discard("r", "a", 1)
    with opened(open_mailbox) as mailbox:
        equal(mailbox.collect("r"), [Letter("a", 2, b"two")], "letters after opening again")
        true(not mailbox.post("r", Letter("a", 1, b"one")), "what was discarded stays discarded")


def a_taken_slot_keeps_its_letter(open_mailbox: OpenMailbox) -> None:
    with opened(open_mailbox) as mailbox, opened(open_mailbox) as other:
        true(mailbox.post("r", Letter("a", 1, b"first")), "the first post")
        true(not other.post("r", Letter("a", 1, b"second")), "a second post to the slot")
        true(not mailbox.post("r", Letter("a", 1, b"first")), "the same letter again")
        equal(mailbox.collect("r"), [Letter("a", 1, b"first")], "letters")


def a_discarded_slot_stays_closed(open_mailbox: OpenMailbox) -> None:
    with opened(open_mailbox) as mailbox:
        mailbox.discard("r", "a", 3)
        mailbox.discard("r", "a", 2)
        for seq in (1, 2, 3):
            true(not mailbox.post("r", Letter("a", seq, b"late")), f"posting discarded slot {seq}")
        true(mailbox.post("r", Letter("a", 4, b"next")), "the next slot")
        true(mailbox.post("r", Letter("b", 1, b"other")), "another sender's slot")
        true(mailbox.post("s", Letter("a", 1, b"other")), "another run's slot")
        equal(mailbox.collect("r"), [Letter("a", 4, b"next"), Letter("b", 1, b"other")], "letters")


def letters_come_in_order_and_within_the_limit(open_mailbox: OpenMailbox) -> None:
    with opened(open_mailbox) as mailbox:
        for seq in (10, 9, 2, 1):
            for sender in ("b", "a", "é", "B"):
                mailbox.post("r", Letter(sender, seq, b"x"))
        order = [(sender, seq) for sender in ("B", "a", "b", "é") for seq in (1, 2, 9, 10)]
        for limit in (0, 1, 5, 16, 1000):
            found = [(letter.sender, letter.seq) for letter in mailbox.collect("r", limit)]
            equal(found, order[:limit], f"at most {limit} letters")


def of_racing_posts_to_a_slot_one_wins(open_mailbox: OpenMailbox) -> None:
    slots, racers = range(1, 16), 4

    def post_all(me: int) -> list[int]:
        with opened(open_mailbox) as mailbox:
            return [seq for seq in slots if mailbox.post("r", Letter("a", seq, b"%d" % me))]

    with Together() as together:
        for me in range(racers):
            together.call(post_all, me)
    equal(sorted(seq for won in together.results for seq in won), list(slots), "slots won by somebody")


def any_name_is_only_a_name(open_mailbox: OpenMailbox) -> None:
    with opened(open_mailbox) as mailbox:
        for i, name in enumerate(ODD_NAMES):
            mailbox.post(name, Letter("a", 1, b"%d" % i))
            mailbox.post("senders", Letter(name, 1, b"%d" % i))
        for i, name in enumerate(ODD_NAMES):
            equal(mailbox.collect(name), [Letter("a", 1, b"%d" % i)], f"the run called {name!r}")
        found = {letter.sender: letter.payload for letter in mailbox.collect("senders")}
        equal(found, {name: b"%d" % i for i, name in enumerate(ODD_NAMES)}, "senders")


def a_letter_outside_the_limits_is_refused(open_mailbox: OpenMailbox) -> None:
    with opened(open_mailbox) as mailbox:
        largest = Letter("a", 1, bytes(MAX_LETTER_BYTES))
        true(mailbox.post("r", largest), "the largest letter")
        too_large = Letter("a", 2, bytes(MAX_LETTER_BYTES + 1))
        raises(ValueError, "a letter that is too large", mailbox.post, "r", too_large)
        raises(ValueError, "letter 0", mailbox.post, "r", Letter("a", 0, b"x"))
        raises(ValueError, "a run without a name", mailbox.post, "", Letter("a", 2, b"x"))
        raises(ValueError, "a sender without a name", mailbox.post, "r", Letter("", 2, b"x"))
        equal(mailbox.collect("r"), [largest], "letters")


def closing_twice_is_fine_and_nothing_works_afterwards(open_mailbox: OpenMailbox) -> None:
    with opened(open_mailbox) as mailbox:
        mailbox.close()
        mailbox.close()
        raises(ValueError, "post after close", mailbox.post, "r", Letter("a", 1, b"x"))
        raises(ValueError, "collect after close", mailbox.collect, "r")
        raises(ValueError, "discard after close", mailbox.discard, "r", "a", 1)


MAILBOX_CHECKS: tuple[MailboxCheck, ...] = (
    a_posted_letter_can_be_collected_until_it_is_discarded,
    letters_survive_closing_and_opening,
    a_taken_slot_keeps_its_letter,
    a_discarded_slot_stays_closed,
    letters_come_in_order_and_within_the_limit,
    of_racing_posts_to_a_slot_one_wins,
    any_name_is_only_a_name,
    a_letter_outside_the_limits_is_refused,
    closing_twice_is_fine_and_nothing_works_afterwards,
)


def check_mailbox(fresh: Callable[[], AbstractContextManager[OpenMailbox]]) -> None:
    for check in MAILBOX_CHECKS:
        with fresh() as open_mailbox:
            check(open_mailbox)

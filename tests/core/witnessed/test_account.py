"""The account of batches against a dumb twin that keeps one word for each number."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quoracy.core.witnessed.account import SKIPS_KEPT, Account, Span, cut, joined, merged, tried


def test_those_that_wait_go_first_then_new_ones() -> None:
    account = Account()
    assert account.take(4) == [Span(0, 4)]
    account.wait([Span(1, 3, 2)])
    account.apply([(0, 1), (3, 4)])
    assert account.take(1) == [Span(1, 2, 2)]
    assert account.take(3) == [Span(2, 3, 2), Span(4, 6)]
    assert (account.next_batch, account.waiting) == (6, [])
    assert account.again == 2, "those that were given out once more are counted"


def test_a_batch_is_tried_so_often_and_then_skipped_with_the_reason() -> None:
    account = Account()
    spans = account.take(2)
    for _ in range(2):
        account.retry(tried(spans, 1), 3)
        spans = account.take(2)
    assert spans == [Span(0, 2, 2)]
    account.retry(tried(spans, 1), 3)
    assert (account.waiting, account.reasons) == ([], {"failed 3 times": 2})
    assert [(skip.first, skip.end) for skip in account.skipped] == [(0, 2)]


def test_neighbours_that_were_tried_equally_often_are_one() -> None:
    assert joined([Span(4, 6, 1), Span(0, 2), Span(2, 4), Span(6, 7, 1)]) == [Span(0, 4), Span(4, 7, 1)]
    assert merged([(4, 6), (0, 2), (2, 4)]) == [(0, 6)]


def test_a_piece_keeps_how_often_each_part_was_tried() -> None:
    spans = [Span(0, 4, 1), Span(9, 12, 3)]
    assert cut(spans, ((2, 4), (9, 10))) == [Span(2, 4, 1), Span(9, 10, 3)]
    assert cut(spans, ((4, 9),)) == []


def test_what_is_in_a_stored_checkpoint_is_not_returned_by_a_roll_back() -> None:
    account = Account()
    account.apply([(span.first, span.end) for span in account.take(4)])
    account.keep()
    account.apply([(span.first, span.end) for span in account.take(4)])
    account.roll_back()
    assert (account.stored, account.applied_in_all, account.waiting, account.returned) == (4, 4, [Span(4, 8)], 4)


def test_what_nobody_has_waits_again() -> None:
    account = Account()
    account.apply([(span.first, span.end) for span in account.take(8)])
    account.void(((2, 4), (5, 6)))
    assert account.applied == [(0, 2), (4, 5), (6, 8)]
    assert account.waiting == [Span(2, 4), Span(5, 6)]


def test_of_what_was_skipped_the_newest_are_named_and_all_are_counted() -> None:
    account = Account()
    for i in range(SKIPS_KEPT + 10):
        account.leave_out(((2 * i, 2 * i + 1),), "no luck")
    assert len(account.skipped) == SKIPS_KEPT
    assert account.skipped[-1].first == 2 * (SKIPS_KEPT + 9)
    assert account.skipped_in_all == SKIPS_KEPT + 10


move = st.tuples(st.sampled_from(["take", "apply", "retry", "void", "keep", "back"]), st.integers(1, 7))


@given(st.lists(move, max_size=60))
def test_every_number_is_always_in_exactly_one_place(moves: list[tuple[str, int]]) -> None:
    account, open_ = Account(), list[Span]()
    twin: dict[int, str] = {}
    for what, size in moves:
        match what:
            case "take" if not open_:
                open_ = account.take(size)
                twin |= {n: "open" for span in open_ for n in range(span.first, span.end)}
            case "apply" | "retry" if open_:
                half, rest = open_[: size % 2 + 1], open_[size % 2 + 1 :]
                for span in half:
                    numbers = range(span.first, span.end)
                    if what == "apply":
                        account.apply([(span.first, span.end)])
                        twin |= dict.fromkeys(numbers, "applied")
                    else:
                        account.retry(tried([span], 1), 3)
                        twin |= dict.fromkeys(numbers, "skipped" if span.tries + 1 >= 3 else "waiting")
                account.wait(rest)
                twin |= {n: "waiting" for span in rest for n in range(span.first, span.end)}
                open_ = []
            case "void" if account.applied:
                first, end = account.applied[size % len(account.applied)]
                account.void(((first, end),))
                twin |= dict.fromkeys(range(first, end), "waiting")
            case "keep":
                account.keep()
                twin = {n: "stored" if where == "applied" else where for n, where in twin.items()}
            case "back":
                account.roll_back()
                twin = {n: "waiting" if where == "applied" else where for n, where in twin.items()}
        assert sorted(twin) == list(range(account.next_batch))
        where = list(twin.values())
        assert account.applied_in_all == where.count("applied") + where.count("stored")
        assert account.waiting_in_all == where.count("waiting")
        assert account.skipped_in_all == where.count("skipped")
        named = [n for span in account.waiting for n in range(span.first, span.end)]
        assert named == sorted(n for n, at in twin.items() if at == "waiting")

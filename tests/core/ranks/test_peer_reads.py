"""How much a peer asks to read: some stores answer for each entry, whether it is there or not."""

from __future__ import annotations

from tests.core.ranks.test_peer import a_letter, answer, begin, peer

from quoracy.core import asks as ops


def test_what_is_known_to_be_there_is_read_and_nothing_beyond() -> None:
    one, written = peer(), list[bytes]()
    begin(one, written)
    steps = one.await_entry(1000)
    assert next(steps) == ops.Watch(1, 1000)
    assert answer(steps, 4) == ops.Read(2, 3)


def test_where_the_end_is_not_known_a_page_is_read() -> None:
    one, written = peer(), list[bytes]()
    begin(one, written)
    assert next(one.catch_up()) == ops.Read(2, ops.PAGE)


def test_a_long_way_is_read_in_pages() -> None:
    one, written = peer(), list[bytes]()
    begin(one, written)
    assert next(one.catch_up(10 * ops.PAGE)) == ops.Read(2, ops.PAGE)


def test_an_entry_that_may_be_ones_own_is_read_alone() -> None:
    one, written = peer(), list[bytes]()
    begin(one, written)
    steps = one.propose()
    next(steps)
    answer(steps, [a_letter(3)])
    assert answer(steps, ops.Unclear()) == ops.Read(2, 1)

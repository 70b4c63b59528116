"""What waits for a client that does not read: every answer in its order, and the newest of each view."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quoracy.core.errors import Refusal
from quoracy.core.messages import Declined, Told, Welcome
from quoracy.doors.outbox import Outbox, view_of

STANDING, ORDER = ("demo", "w1", "standing"), ("demo", "w1", "order")
Put = tuple[bytes, tuple[str, str, str] | None]


def filled(*puts: Put) -> Outbox:
    outbox = Outbox()
    for encoded, view in puts:
        outbox.put(encoded, view)
    return outbox


def test_answers_keep_their_order_and_are_counted() -> None:
    outbox = filled((b"one", None), (b"three", None))
    assert (len(outbox), outbox.answer_bytes) == (2, 8)
    assert outbox.take() == [b"one", b"three"]
    assert (len(outbox), outbox.answer_bytes, outbox.take()) == (0, 0, [])


def test_a_view_takes_the_place_of_an_older_one_of_the_same_and_is_not_counted() -> None:
    outbox = filled((b"s1", STANDING), (b"o1", ORDER), (b"s2", STANDING), (b"s3", STANDING))
    assert outbox.answer_bytes == 0
    assert outbox.take() == [b"o1", b"s3"]


def test_a_newer_view_never_comes_before_the_answer_that_it_followed() -> None:
    """A standing of the next incarnation would be passed over by somebody who does not know yet that it has begun."""
    assert filled((b"standing 1", STANDING), (b"joined", None), (b"standing 2", STANDING)).take() == [
        b"joined",
        b"standing 2",
    ]


def test_what_was_taken_is_replaced_by_nothing() -> None:
    outbox = filled((b"s1", STANDING))
    assert outbox.take() == [b"s1"]
    outbox.put(b"s2", STANDING)
    assert outbox.take() == [b"s2"]


def test_the_same_topic_of_another_member_or_run_is_another_view() -> None:
    told = Told("w1", 1, "standing", None)
    assert view_of(told, "demo") == STANDING
    assert len({view_of(told, "demo"), view_of(told, "other"), view_of(Told("w2", 1, "standing", None), "demo")}) == 3
    assert view_of(Told("w1", 2, "standing", None), "demo") == STANDING, "a newer incarnation is newer"
    for answer in (Welcome("w1", 1, 1, 1), Declined("w1", 1, "standing", Refusal("bug", "", ""))):
        assert view_of(answer, "demo") is None


class Twin:
    """The same, slowly: everything that was put, looked through when it is taken."""

    def __init__(self) -> None:
        self.puts: list[Put] = []

    def take(self) -> list[bytes]:
        puts, self.puts = self.puts, []
        later = [{view for _, view in puts[place + 1 :]} for place in range(len(puts))]
        return [encoded for place, (encoded, view) in enumerate(puts) if view is None or view not in later[place]]


VIEWS = st.tuples(st.sampled_from(["demo", "other"]), st.sampled_from(["w1", "w2"]), st.sampled_from("ab"))
PUTS = st.tuples(st.binary(max_size=4), st.none() | VIEWS)


@given(st.lists(st.none() | PUTS, max_size=40))
def test_it_does_what_its_twin_does(steps: list[Put | None]) -> None:
    outbox, twin = Outbox(), Twin()
    for step in steps:
        if step is None:
            assert outbox.take() == twin.take()
        else:
            outbox.put(*step)
            twin.puts.append(step)
        assert outbox.answer_bytes == sum(len(encoded) for encoded, view in twin.puts if view is None)
        assert len(outbox) <= 8 + sum(view is None for _, view in twin.puts)
    assert outbox.take() == twin.take()

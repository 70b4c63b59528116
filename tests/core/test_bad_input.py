"""Whatever comes in, in whatever state: refused by a name of the catalog, and nothing has changed.

But for one thing: a no to a command in sequence is an answer, and answers are kept; see ``Remembered``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core import byhand, shapes
from tests.core.byhand import Hand
from tests.core.scenes import EVERY, KINDS, MEMBERS, SCENES, scene_id
from tests.core.scribe import RUN, bare_entry
from tests.soak import soaking

from quoracy.core.codec import MAX_WHY, encode
from quoracy.core.dice import Cup
from quoracy.core.errors import CATALOG, JournalCorrupt, Refusal
from quoracy.core.host import Phase
from quoracy.core.journal import CommandRefused, DutyDone, HostTook, RunCreated
from quoracy.core.machine import Signal
from quoracy.core.members import COMMAND_BYTES, Accepted, Cause
from quoracy.core.messages import (
    MAX_MESSAGE_BYTES,
    Answered,
    Call,
    Declined,
    Hello,
    Sign,
    Told,
    decode_to_host,
    decode_to_member,
)
from quoracy.core.run import Decided, Run, fold
from quoracy.core.shell import Append, Received
from quoracy.core.snapshot import unpack

STRANGERS = ["nobody", "@operator", "", "w w"]
WORDS = {kind: [w, v, *STRANGERS] for kind, (v, w) in MEMBERS.items()}
HOSTILE = soaking("hostile")
pytestmark = pytest.mark.soak("hostile", shorter=True)
in_every_state = pytest.mark.parametrize(("kind", "key"), EVERY, ids=scene_id)


def events(kind: str) -> list[type[Any]]:
    return list(KINDS[kind].events.__args__)


def signals(kind: str) -> list[type[Any]]:
    return list(getattr(KINDS[kind].signals, "__args__", [KINDS[kind].signals]))


def run_of(hand: Hand) -> Run:
    assert hand.host.run is not None
    return hand.host.run


def sections(run: Run) -> dict[str, Any]:
    saved = run.snapshot()
    return unpack(RUN, run.head.n, saved.root, saved.pages)


def next_cause(run: Run, member: str) -> Cause:
    """The cause that is in sequence, if the member has joined."""
    known = run.roster.members.get(member)
    return Cause(member, known.incarnation, known.seq + 1) if known else Cause(member, 1, 1)


class Remembered:
    """Compares before and after: all that may differ is what the roster remembers of one sender's last answer. What was
    after one may be given as what is before the next."""

    def __init__(self, run: Run, cause: Cause, before: dict[str, Any] | None = None) -> None:
        self.run = run
        self.cause = cause
        self.before = sections(run) if before is None else before

    def check(self, answer: Refusal) -> dict[str, Any]:
        """-> what is after."""
        after, before = sections(self.run), self.before
        kept = {name for name in after if name not in ("head", "members", "operators")}
        assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
        changed = [row for row in after["members"] if row not in before["members"]]
        changed += [row for row in after["operators"] if row not in before["operators"]]
        if self.run.head.n == before["head"][6]:
            assert after == before
            return after
        (row,) = changed
        if self.cause.member.startswith("@"):
            assert row == [f"{self.cause.member}/{self.cause.seq}", self.cause.incarnation, msgspec.to_builtins(answer)]
        else:
            old = next(r for r in before["members"] if r[0] == self.cause.member)
            assert row[:8] == [*old[:5], self.cause.seq, msgspec.to_builtins(answer), old[7]]
            assert len(row[8]) == COMMAND_BYTES
        return after


def send(hand: Hand, cause: Cause, event: Any) -> Any:
    """Over the wire, as bytes; lands what follows; the one answer."""
    message = decode_to_host(encode(Call(RUN, cause, byhand.encode_raw(event))))
    assert isinstance(message, Call), message
    actions = [*hand.report(Received("peer", message)), *hand.land_all()]
    hand.actions.clear()
    (answer,) = [m.answer for peer, m in byhand.sent(actions, Answered) if peer == "peer"]  # type: ignore[union-attr]
    return answer


@cache
def malformed_events(kind: str) -> list[tuple[str, Any]]:
    """Every field of every event with everything that does not fit it; and what is no event at all."""
    return list(_malformed_events(kind))


def _malformed_events(kind: str) -> Iterator[tuple[str, Any]]:
    for sort in events(kind):
        fields = shapes.fields(sort)
        for field in fields:
            for misfit in shapes.misfits(sort, field.name, field.type):
                yield f"{sort.__name__}.{field.name}", shapes.wire(sort, **{field.name: misfit})
        required = sum(field.required for field in fields)
        for size in range(required):
            yield f"{sort.__name__} cut to {size}", [shapes.tag(sort), *shapes.wire(sort)[1 : 1 + size]]
        yield f"{sort.__name__} as a map", {"type": shapes.tag(sort)}
    for shared in (
        RunCreated(RUN, kind, 1, {}),
        HostTook(9, "x"),
        DutyDone(1, 0),
        CommandRefused(Refusal("a", "b", "c")),
    ):
        yield f"{type(shared).__name__}, which is for hosts", shared
    for strange in [*shapes.STRANGE, ["no-such-event"], ["x" * 400_000], [None, 1], [["worker-ready"]]]:
        yield f"no event: {str(strange)[:20]}", strange


def test_there_is_a_scene_for_every_state_of_every_table() -> None:
    for kind, scenes in SCENES.items():
        tables = KINDS[kind].tables
        assert set(scenes) == {(table.name, state.value) for table in tables for state in table.states}


def test_every_event_and_signal_has_bad_input_to_try() -> None:
    for kind in KINDS:
        tried = {what.split(".")[0].split(" ")[0] for what, _ in malformed_events(kind)}
        assert {sort.__name__ for sort in events(kind)} <= tried
    assert len(malformed_events("cluster")) > 300


@in_every_state
def test_a_malformed_event_is_refused_by_name_and_changes_nothing_but_the_memory_of_the_answer(
    kind: str, key: tuple[str, str]
) -> None:
    hand = SCENES[kind][key]()
    run = run_of(hand)
    me = MEMBERS[kind][1]
    joined = me in run.roster.members
    before = sections(run)
    for what, event in malformed_events(kind):
        cause = next_cause(run, me)
        before_n = run.head.n
        memory = Remembered(run, cause, before)
        answer = send(hand, cause, event)
        assert isinstance(answer, Refusal), what
        assert answer.code == "malformed", what
        field = "" if " " in what else what.partition(".")[2]
        assert answer.why.startswith(f"event.{field}" if field else "event"), f"{what}: {answer.why[:80]}"
        assert len(answer.why) < 2 * MAX_WHY + 100
        assert run.head.n == before_n + joined, what
        before = memory.check(answer)
        if joined:
            assert send(hand, cause, event) == answer
            assert run.head.n == before_n + 1
    assert hand.host.phase is Phase.SERVING


@in_every_state
def test_a_malformed_event_in_an_entry_is_corrupt_and_changes_nothing(kind: str, key: tuple[str, str]) -> None:
    run = run_of(SCENES[kind][key]())
    before = run.snapshot().root
    for what, event in malformed_events(kind):
        if what.endswith("for hosts"):
            continue
        payload = bare_entry(run, events=msgspec.Raw(encode([(next_cause(run, MEMBERS[kind][1]), event)])))
        with pytest.raises(JournalCorrupt, match="events cannot be decoded"):
            run.extend(payload)
    assert run.snapshot().root == before


@in_every_state
def test_an_event_that_fits_its_type_but_not_the_state_is_refused_and_changes_nothing(
    kind: str, key: tuple[str, str]
) -> None:
    """Through ``Run.decide``, with every field from a handful of values and any sender."""

    @settings(max_examples=600 if HOSTILE else 20)
    @given(
        st.lists(
            st.tuples(
                st.one_of(
                    st.none(),
                    st.builds(Cause, st.sampled_from(WORDS[kind][:4]), st.integers(0, 3), st.integers(0, 3)),
                    st.just("next"),
                ),
                st.one_of([shapes.any_of(sort, WORDS[kind]) for sort in events(kind)]),
            ),
            max_size=20,
        )
    )
    def try_all(pairs: list[tuple[Any, Any]]) -> None:
        run = run_of(SCENES[kind][key]())
        for cause, event in pairs:
            if cause == "next":
                cause = next_cause(run, getattr(event, "member", "") or MEMBERS[kind][1])
            before = run.snapshot().root
            outcome = run.decide(cause, event, run.head.at_us, Cup(RUN, bytes(16)), run.head.n + 1)
            if not isinstance(outcome, Decided):
                assert run.snapshot().root == before
            if isinstance(outcome, Refusal):
                assert outcome.code in CATALOG
                assert outcome.why
                assert outcome.fix

    try_all()


@in_every_state
def test_any_events_that_fit_their_types_leave_a_host_that_serves_and_a_journal_that_folds(
    kind: str, key: tuple[str, str]
) -> None:
    """Through the host, over the wire."""

    @settings(max_examples=250 if HOSTILE else 10)
    @given(
        st.lists(
            st.tuples(
                st.sampled_from(WORDS[kind][:4]),
                st.one_of([shapes.any_of(sort, WORDS[kind]) for sort in events(kind)]),
            ),
            max_size=15,
        )
    )
    def try_all(pairs: list[tuple[str, Any]]) -> None:
        hand = SCENES[kind][key]()
        run = run_of(hand)
        for number, (member, event) in enumerate(pairs, start=100):
            operator = member.startswith("@")
            cause = Cause(member, 0, number) if operator else next_cause(run, member)
            if event.joins:
                cause = Cause(event.member or MEMBERS[kind][1], event.supersedes, 0)
            memory = Remembered(run, cause)
            answer = send(hand, cause, event)
            if isinstance(answer, Refusal):
                assert answer.code in CATALOG
                memory.check(answer)
            else:
                assert isinstance(answer, Accepted)
        again = fold(hand.host.kinds, RUN, hand.journal.entries)
        assert again is not None
        assert again.state_digest() == run.state_digest()

    try_all()


# -- signals -------------------------------------------------------------------------------------------------------


def signed(signal: Any) -> Sign:
    """By whom it claims to be given, if it claims that readably: then nothing but the signal itself is wrong."""
    if isinstance(signal, Signal):
        return Sign.of(RUN, signal)
    member, incarnation = signal[1:3] if isinstance(signal, list) and len(signal) > 2 else ("", 0)
    named = isinstance(member, str) and 1 <= len(member) <= 64
    counted = type(incarnation) is int and 0 <= incarnation <= 2**53
    return Sign(RUN, byhand.encode_raw(signal), member if named else "w", incarnation if counted else 1)


def sign(hand: Hand, signal: Any) -> list[Any]:
    message = decode_to_host(encode(signed(signal)))
    assert isinstance(message, Sign), message
    actions = [*hand.report(Received("peer", message)), *hand.land_all()]
    hand.actions.clear()
    return [m for peer, m in byhand.sent(actions) if peer == "peer"]


@in_every_state
def test_a_malformed_signal_is_declined_by_name_and_changes_nothing(kind: str, key: tuple[str, str]) -> None:
    hand = SCENES[kind][key]()
    before = run_of(hand).snapshot().root
    bad = [
        shapes.wire(sort, **{field.name: misfit})
        for sort in signals(kind)
        for field in shapes.fields(sort)
        for misfit in shapes.misfits(sort, field.name, field.type)
    ]
    bad += [[shapes.tag(sort)] for sort in signals(kind)] + shapes.STRANGE + [["no-such-signal"], ["x" * 400_000]]
    assert len(bad) > 20
    for signal in bad:
        (declined,) = sign(hand, signal)
        assert isinstance(declined, Declined), signal
        sender = signed(signal)
        assert (declined.member, declined.incarnation) == (sender.member, sender.incarnation)
        assert declined.topic == "signal"
        assert declined.refusal.code == "malformed"
        assert len(declined.refusal.why) < 2 * MAX_WHY + 100
    assert run_of(hand).snapshot().root == before


@in_every_state
def test_any_signals_that_fit_their_types_are_taken_or_declined_by_name(kind: str, key: tuple[str, str]) -> None:
    @settings(max_examples=400 if HOSTILE else 15)
    @given(st.lists(st.one_of([shapes.any_of(sort, WORDS[kind]) for sort in signals(kind)]), max_size=20))
    def try_all(given_signals: list[Any]) -> None:
        hand = SCENES[kind][key]()
        for signal in given_signals:
            before = run_of(hand).snapshot().root
            for message in sign(hand, signal):
                assert isinstance(message, Declined | Told)
                if isinstance(message, Told):
                    assert not isinstance(message.value, Refusal)
                else:
                    assert (message.member, message.incarnation) == (signal.member, signal.incarnation)
                    assert message.refusal.code in CATALOG
                    assert run_of(hand).snapshot().root == before

    try_all()


@in_every_state
def test_a_signal_counts_for_no_incarnation_but_its_senders(kind: str, key: tuple[str, str]) -> None:
    """Whatever it is, and whoever is there: a process that was superseded cannot speak for its successor."""
    hand = SCENES[kind][key]()
    before = run_of(hand).snapshot().root
    for sort in signals(kind):
        claimed = signed(shapes.wire(sort))
        for member, incarnation in ((claimed.member, claimed.incarnation + 1), ("another", claimed.incarnation)):
            forged = Sign(RUN, claimed.signal, member, incarnation)
            actions = [*hand.report(Received("peer", forged)), *hand.land_all()]
            (declined,) = [m for peer, m in byhand.sent(actions) if peer == "peer"]
            assert isinstance(declined, Declined)
            assert declined.refusal.code == "contradiction"
    assert run_of(hand).snapshot().root == before


# -- messages ------------------------------------------------------------------------------------------------------


@settings(max_examples=5000 if HOSTILE else 200)
@given(st.binary(max_size=300))
def test_no_bytes_can_make_decoding_raise(junk: bytes) -> None:
    message = decode_to_host(junk)
    assert isinstance(message, Hello | Call | Sign | Refusal)
    if isinstance(message, Refusal):
        assert message.code == "malformed"
        assert message.why.startswith("message")
    assert decode_to_member(junk) is not None


MESSAGES = [
    encode(Hello(RUN, "w", 1)),
    encode(Call(RUN, Cause("w", 1, 3), byhand.encode_raw(shapes.wire(events("cluster")[0])))),
    *(encode(Call(RUN, Cause("w", 1, 3), byhand.encode_raw(shapes.wire(sort)))) for sort in events("cluster")),
    *(encode(signed(shapes.wire(sort))) for sort in signals("cluster")),
]


@settings(max_examples=4000 if HOSTILE else 200)
@given(st.data())
def test_messages_with_damaged_bytes_never_bring_a_host_down(data: st.DataObject) -> None:
    """Each either is no message, or is answered, and the journal still folds."""
    hand = SCENES["cluster"]["worker", "Idle"]()
    for _ in range(data.draw(st.integers(1, 4))):
        payload = bytearray(data.draw(st.sampled_from(MESSAGES)))
        for _ in range(data.draw(st.integers(1, 3))):
            at = data.draw(st.integers(0, len(payload) - 1))
            payload[at] = data.draw(st.integers(0, 255))
        message = decode_to_host(bytes(payload))
        if isinstance(message, Refusal):
            assert message.code == "malformed"
            continue
        actions = [*hand.report(Received("peer", message)), *hand.land_all()]
        hand.take_out(Append)
        if not isinstance(message, Sign):
            assert byhand.sent(actions)
    assert hand.host.phase is Phase.SERVING
    again = fold(hand.host.kinds, RUN, hand.journal.entries)
    assert again is not None
    assert again.state_digest() == run_of(hand).state_digest()


def test_a_message_that_is_too_long_is_refused_unread() -> None:
    refusal = decode_to_host(b"\xc1" * (MAX_MESSAGE_BYTES + 1))
    assert isinstance(refusal, Refusal)
    assert refusal.code == "too_large"
    at_most = decode_to_host(b"\xc1" * MAX_MESSAGE_BYTES)
    assert isinstance(at_most, Refusal)
    assert at_most.code == "malformed"


@pytest.mark.parametrize("nested", [b"\x91", b"\x81\xa1a"], ids=["lists", "maps"])
def test_deep_nesting_is_refused_wherever_it_stands(nested: bytes) -> None:
    deep = nested * 100_000 + b"\xc0"
    refusal = decode_to_host(deep)
    assert isinstance(refusal, Refusal)
    hand = SCENES["cluster"]["worker", "Idle"]()
    depth = 900
    arguments = msgspec.Raw(b"\x81\xa1a" + nested * depth + b"\xc0")
    answer = send(hand, Cause("@operator", 0, 500), ["worker-ordered", "w", "pause", arguments])
    assert isinstance(answer, Refusal)
    assert answer.code == "malformed"


@pytest.mark.parametrize(
    "message",
    [
        ["hello", "", "w"], ["hello", RUN, ""], ["hello", "x" * 129, "w"], ["hello", RUN, "x" * 65],
        ["hello", RUN, "w", -1], ["hello", RUN, "w", 2**53 + 1], ["hello", RUN], ["hello"], [], ["call", RUN],
        ["call", RUN, ["w", 1], []], ["call", RUN, ["", 1, 1], []], ["call", RUN, ["w", 1, -1], []],
        ["call", RUN, ["w", 1, 1]], ["sign", RUN], ["nonsense", RUN], {"type": "hello"}, 5, None, "hello",
    ],
    ids=str,
)  # fmt: skip
def test_a_malformed_message_is_refused(message: Any) -> None:
    refusal = decode_to_host(encode(message))
    assert isinstance(refusal, Refusal)
    assert refusal.code == "malformed"


@pytest.mark.parametrize(
    ("values", "fits"),
    [
        ({"member": "x" * 64}, True), ({"member": "x" * 65}, False), ({"member": ""}, False),
        ({"nonce": bytes(16)}, True), ({"nonce": bytes(15)}, False), ({"nonce": bytes(17)}, False),
        ({"key": bytes(64)}, True), ({"key": bytes(65)}, False),
        ({"supersedes": 2**53}, True), ({"supersedes": 2**53 + 1}, False), ({"supersedes": -1}, False),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_what_a_join_says_of_itself_is_bounded(values: dict[str, Any], fits: bool) -> None:
    """Written down once more: the other tests take the bounds from the types."""
    joined = shapes.wire(events("cluster")[0], **values)
    answer = send(SCENES["cluster"]["run", "Open"](), Cause("w", 0, 0), joined)
    assert (isinstance(answer, Accepted) or answer.code != "malformed") == fits

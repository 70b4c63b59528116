"""Three hosts, one journal, and a store that does its worst: every rule of the host at once.

Whatever is said was written before it was said. Every command is decided once, whoever is asked how often. Every host
that is quiet stands where the journal stands.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.core import byhand, tally
from tests.core.byhand import Hand, Journal, sent
from tests.core.scribe import RUN

from quoracy.core.errors import Refusal
from quoracy.core.host import Phase
from quoracy.core.journal import CommandRefused
from quoracy.core.limits import Limits
from quoracy.core.members import Accepted, Cause
from quoracy.core.messages import Answered
from quoracy.core.run import fold
from quoracy.core.shell import (
    Action,
    Append,
    Delayed,
    EntryRead,
    Explained,
    Followed,
    Load,
    ReadEntry,
    Save,
    Take,
    Taken,
    Unknown,
    Written,
)

NAMES = ("alpha", "beta", "gamma")
MEMBERS = ("a", "b", "c")
LIMITS = Limits(max_tries=6, snapshot_every=4)
NO_DECISION = {"overloaded", "sequence_gap", "answer_forgotten", "unknown_member"}
a_host = st.sampled_from(NAMES)


class Chaos(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        first = byhand.tallying(*MEMBERS, limits=LIMITS)
        self.journal: Journal = first.journal
        self.hands: dict[str, Hand] = {"alpha": first}
        for name in NAMES[1:]:
            self.hands[name] = Hand(tally.KINDS, self.journal, name, LIMITS)
        self.on_the_way: list[Append] = []
        """Writes whose outcome is unknown and that may yet land."""
        self.seqs = dict.fromkeys(MEMBERS, 1)
        self.amounts: dict[tuple[str, int], int] = {}
        self.said: dict[Cause, Any] = {}

    # -- members ------------------------------------------------------------------------------------------------

    @rule(member=st.sampled_from(MEMBERS), name=a_host, amount=st.sampled_from([1, 2, 6]))
    def call(self, member: str, name: str, amount: int) -> None:
        """Its next command, or the last one again: it is sent until it is answered."""
        self.send(member, name, self.seqs[member], amount)

    def send(self, member: str, name: str, seq: int, amount: int) -> None:
        event = tally.Counted(member, 1, self.amounts.setdefault((member, seq), amount))
        self.did(name, self.hands[name].call(member, Cause(member, 1, seq), event))

    @rule(member=st.sampled_from(MEMBERS), name=a_host)
    def call_again_what_was_answered(self, member: str, name: str) -> None:
        if self.seqs[member] > 1:
            self.send(member, name, self.seqs[member] - 1, 1)

    @rule(member=st.sampled_from(MEMBERS), name=a_host)
    def nod(self, member: str, name: str) -> None:
        self.did(name, self.hands[name].sign(member, tally.Nod(member, 1)))

    # -- hosts --------------------------------------------------------------------------------------------------

    @rule(name=a_host)
    def take(self, name: str) -> None:
        self.did(name, self.hands[name].report(Take()))

    @rule(name=a_host)
    def crash(self, name: str) -> None:
        """What it asked its store to write may still land."""
        self.on_the_way += self.hands[name].take_out(Append)
        self.hands[name] = Hand(tally.KINDS, self.journal, name, LIMITS)

    @rule(name=a_host, overlap=st.integers(0, 2))
    def follow(self, name: str, overlap: int) -> None:
        run = self.hands[name].host.run
        seen = 0 if run is None else run.head.n
        first = max(1, seen + 1 - overlap)
        self.did(name, self.hands[name].report(Followed(first, self.journal.entries[first - 1 :])))

    @rule(name=a_host)
    def tick(self, name: str) -> None:
        self.did(name, self.hands[name].tick(300_000))

    # -- the store ----------------------------------------------------------------------------------------------

    @rule(name=a_host)
    def load(self, name: str) -> None:
        if self.hands[name].take_out(Load):
            self.did(name, self.hands[name].report(self.journal.loaded()))

    @rule(name=a_host)
    def read(self, name: str) -> None:
        for wish in self.hands[name].take_out(ReadEntry):
            there = self.journal.entries[wish.n - 1] if wish.n <= len(self.journal.entries) else None
            self.did(name, self.hands[name].report(EntryRead(wish.n, there)))

    @rule(name=a_host, fate=st.sampled_from(["land", "land", "land", "unknown", "unknown but there", "delayed"]))
    def store(self, name: str, fate: str) -> None:
        for append in self.hands[name].take_out(Append):
            if fate == "delayed":
                self.did(name, self.hands[name].report(Delayed(append.nonce, "no room")))
            elif fate == "unknown":
                self.on_the_way.append(append)
                self.did(name, self.hands[name].report(Unknown(append.nonce)))
            else:
                there = self.write(append)
                report = Written(append.nonce) if there is None else Taken(append.nonce, there)
                unknown = fate == "unknown but there"
                self.did(name, self.hands[name].report(Unknown(append.nonce) if unknown else report))

    @rule(which=st.integers(0, 3))
    def land_late(self, which: int) -> None:
        if which < len(self.on_the_way):
            self.write(self.on_the_way.pop(which))

    @rule(name=a_host)
    def save(self, name: str) -> None:
        for save in self.hands[name].take_out(Save):
            if self.journal.snapshot is None or save.snapshot.n > self.journal.snapshot.n:
                self.journal.snapshot = save.snapshot

    def write(self, append: Append) -> bytes | None:
        """The one conditional write. Returns what is there instead."""
        if append.n == len(self.journal.entries) + 1:
            self.journal.entries.append(append.payload)
            return None
        assert append.n <= len(self.journal.entries), "an entry without the one before"
        return self.journal.entries[append.n - 1]

    # -- what must hold -----------------------------------------------------------------------------------------

    def did(self, name: str, actions: list[Action]) -> None:
        assert sum(isinstance(action, Append) for action in actions) <= 1
        for _, message in sent(actions, Answered):
            assert isinstance(message, Answered)
            self.heard(message.cause, message.answer)
        assert not [action for action in actions if isinstance(action, Explained)]

    def heard(self, cause: Cause, answer: Accepted | Refusal) -> None:
        """It was written before it was said, and nothing else was ever said."""
        if isinstance(answer, Refusal) and answer.code in NO_DECISION:
            return
        written = [
            (n, event)
            for n, payload in enumerate(self.journal.entries, start=1)
            for caused, event in byhand.recorded(tally.KINDS, payload, tally.KIND)
            if caused == cause
        ]
        ((n, event),) = written
        if isinstance(answer, Refusal):
            assert isinstance(event, CommandRefused)
            assert event.refusal == answer
        else:
            assert isinstance(event, tally.Counted)
            assert answer.entry == n
        assert self.said.setdefault(cause, answer) == answer
        if cause.seq == self.seqs[cause.member]:
            self.seqs[cause.member] += 1

    @invariant()
    def quiet_hosts_stand_where_the_journal_stands(self) -> None:
        for hand in getattr(self, "hands", {}).values():
            if hand.host.quiet():
                run = hand.host.run
                there = fold(tally.KINDS, RUN, self.journal.entries[: run.head.n])
                assert there is not None
                assert there.state_digest() == run.state_digest()

    @invariant()
    def nobody_stopped_but_for_a_store_that_failed_too_often(self) -> None:
        for hand in getattr(self, "hands", {}).values():
            if hand.host.stopped is not None:
                assert "in 6 tries" in hand.host.stopped.why

    def teardown(self) -> None:
        """When the store behaves again, everything that was asked is answered, and what was counted adds up."""
        if not hasattr(self, "hands"):
            return
        fresh = Hand(tally.KINDS, self.journal, "last", LIMITS)
        fresh.load()
        fresh.report(Take())
        fresh.land()
        assert fresh.host.phase is Phase.SERVING
        for member in MEMBERS:
            cause = Cause(member, 1, self.seqs[member])
            amount = self.amounts.get((member, cause.seq), 1)
            self.did("last", fresh.call(member, cause, tally.Counted(member, 1, amount)))
            if any(isinstance(action, Append) for action in fresh.actions):
                self.did("last", fresh.land())
            assert cause in self.said
        total = sum(
            event.amount
            for payload in self.journal.entries
            for _, event in byhand.recorded(tally.KINDS, payload, tally.KIND)
            if isinstance(event, tally.Counted)
        )
        assert byhand.sheet(fresh).total == total
        assert len(self.said) == sum(seq - 1 for seq in self.seqs.values())


TestChaos = Chaos.TestCase
TestChaos.settings = settings(max_examples=200, stateful_step_count=50)

"""Signatures in events: checked when a member proposes, and again by everybody who folds the journal."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.scribe import RUN, Scribe, bare_entry, created
from tests.core.witnessed.camp import SETTINGS, blob, model

from quoracy.core.errors import FoldDiverged, JournalCorrupt, Refusal
from quoracy.core.kinds import KINDS
from quoracy.core.members import CHALLENGE_BYTES, Cause, signed_by_joiner
from quoracy.core.run import Decided, Kinds, Run, fold
from quoracy.core.witnessed.committee import count
from quoracy.core.witnessed.events import (
    MemberJoined,
    Report,
    ResultCommitted,
    TwoFacedShown,
    WarmupBegan,
    WarmupEnded,
    signed_by_trainer,
)
from quoracy.core.witnessed.state import Course, Work
from quoracy.trust.keys import MemberKey, check_proof

CHECKED = KINDS.verified_by(check_proof)
CHALLENGE = bytes(CHALLENGE_BYTES)


class Signed:
    """A round of three members with keys, on a journal in a list."""

    def __init__(self, kinds: Kinds = CHECKED) -> None:
        self.keys = {name: MemberKey.create() for name in "abc"}
        self.scribe = Scribe(kinds, created("witnessed", SETTINGS | {"init_min_clients": 3}))
        names = ("a", "b", "c")
        for name in names:
            self.scribe.write((Cause(name, 0, 0), self.join(name)))
        self.scribe.write((None, WarmupBegan(0)))
        self.scribe.write((None, WarmupEnded(0, tuple(Report(name, 1, 0, model(0)) for name in names))))

    @property
    def course(self) -> Course:
        course = self.scribe.run.machine.course  # type: ignore[attr-defined]
        assert isinstance(course, Course)
        return course

    def join(self, name: str) -> MemberJoined:
        key = self.keys[name]
        signature = key.sign(signed_by_joiner(CHALLENGE, RUN, name, 0, bytes(16)))
        return MemberJoined(name, 0, bytes(16), key.public, CHALLENGE + signature)

    def work(self, name: str) -> Work:
        assert self.course.round is not None
        (mine,) = [work for work in self.course.round.works if work.member == name]
        return mine

    def signed(self, name: str, work: Work, digest: bytes, /, by: str = "", **changes: Any) -> bytes:
        fields: dict[str, Any] = {
            "run": RUN, "epoch": 0, "round_": 0, "assignment": work.index, "attempt": 1, "member": name,
            "digest": digest, "base": model(0),
        }  # fmt: skip
        return self.keys[by or name].sign(signed_by_trainer(**(fields | changes)))

    def commit(self, name: str, signature: bytes | None = None, **changes: Any) -> ResultCommitted:
        work = self.work(name)
        digest = blob(name, 0, 0, work.index, 1)
        if signature is None:
            signature = self.signed(name, work, digest, **changes)
        return ResultCommitted(name, 1, 0, 0, work.index, 1, digest, 10, model(0), count(work.batches), 1.0, signature)

    def decide(self, name: str, event: Any) -> Any:
        known = self.scribe.run.roster.members[name]
        return self.scribe.decide(Cause(name, 1, known.seq + 1), event)


def test_a_commitment_that_its_member_signed_is_taken() -> None:
    camp = Signed()
    assert isinstance(camp.decide("a", camp.commit("a")), Decided)


@pytest.mark.parametrize(
    "changes",
    [
        {"run": "other"}, {"epoch": 1}, {"round_": 1}, {"assignment": 9}, {"attempt": 2}, {"member": "b"},
        {"digest": model(5)}, {"base": model(5)}, {"by": "b"},
    ],
)  # fmt: skip
def test_the_signature_is_over_every_field_that_names_the_result(changes: dict[str, Any]) -> None:
    camp = Signed()
    before = camp.scribe.run.snapshot()
    refused = camp.decide("a", camp.commit("a", **changes))
    assert isinstance(refused, Refusal)
    assert refused.code == "bad_signature"
    assert camp.scribe.run.snapshot() == before


@pytest.mark.parametrize("signature", [b"", b"x" * 64])
def test_what_is_not_signed_is_not_taken(signature: bytes) -> None:
    camp = Signed()
    refused = camp.decide("a", camp.commit("a", signature))
    assert isinstance(refused, Refusal)
    assert refused.code == "bad_signature"
    assert isinstance(camp.decide("a", camp.commit("a")), Decided)


@pytest.mark.parametrize("kinds", [KINDS, CHECKED])
def test_nobody_joins_without_a_key_and_no_journal_has_such_a_join(kinds: Kinds) -> None:
    camp = Signed(kinds)
    refused = camp.scribe.decide(Cause("d", 0, 0), MemberJoined("d", 0, bytes(16)))
    assert isinstance(refused, Refusal)
    assert (refused.code, refused.why.partition(",")[0]) == ("malformed", "key is empty")
    assert "Ed25519 key" in refused.fix
    run = camp.scribe.run
    with pytest.raises(FoldDiverged, match="key is empty"):
        run.extend(bare_entry(run, (Cause("d", 0, 0), MemberJoined("d", 0, bytes(16)))))


def test_who_folds_the_journal_checks_the_signatures_again() -> None:
    """A host that does not check has written an entry that no other host believes."""
    careless = Signed(KINDS)
    careless.scribe.write((Cause("a", 1, 1), careless.commit("a", b"x" * 64)))
    assert fold(KINDS, RUN, careless.scribe.payloads) is not None
    with pytest.raises(JournalCorrupt, match="signature of ResultCommitted") as caught:
        fold(CHECKED, RUN, careless.scribe.payloads)
    assert caught.value.entry == len(careless.scribe.payloads)


def test_a_good_journal_folds_with_and_without_checking() -> None:
    camp = Signed()
    camp.scribe.write((Cause("a", 1, 1), camp.commit("a")), (Cause("c", 1, 1), camp.commit("c")))
    digests = []
    for kinds in (KINDS, CHECKED):
        run = fold(kinds, RUN, camp.scribe.payloads)
        assert isinstance(run, Run)
        digests.append(run.state_digest())
    assert digests[0] == digests[1] == camp.scribe.run.state_digest()


def two_faced(camp: Signed, accused: str = "a", **changes: Any) -> TwoFacedShown:
    work = camp.work(accused)
    lie = model(9, "lie")
    signature = camp.signed(accused, work, lie, **changes)
    return TwoFacedShown("b", 1, accused, 0, 0, work.index, 1, lie, model(0), signature)


def test_a_lie_is_proven_only_by_the_accuseds_own_signature() -> None:
    camp = Signed()
    camp.scribe.write((Cause("a", 1, 1), camp.commit("a")), (Cause("c", 1, 1), camp.commit("c")))
    for forged in (two_faced(camp, by="b"), two_faced(camp, round_=1), two_faced(camp, "c", by="a")):
        refused = camp.decide("b", forged)
        assert isinstance(refused, Refusal)
        assert refused.code == "bad_signature"
    assert isinstance(camp.decide("b", two_faced(camp)), Decided)
    assert camp.course.members["a"].ejected


def test_a_forged_proof_in_an_entry_is_corrupt_and_changes_nothing() -> None:
    camp = Signed()
    camp.scribe.write((Cause("a", 1, 1), camp.commit("a")))
    run = camp.scribe.run
    before = run.snapshot()
    payload = bare_entry(run, (Cause("b", 1, 1), two_faced(camp, by="b")))
    with pytest.raises(JournalCorrupt, match="TwoFacedShown"):
        run.extend(payload)
    assert run.snapshot() == before

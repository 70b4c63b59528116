"""A join that its key did not sign is found when the journal is folded, whoever wrote it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from tests.core.scribe import Scribe, created
from tests.doors.talk import RUN, Talk

from quoracy.cli.journal_source import DirectorySource
from quoracy.cli.journal_verify import verify
from quoracy.coordinator import Coordinator
from quoracy.core.cluster.events import WorkerRegistered
from quoracy.core.errors import JournalCorrupt
from quoracy.core.kinds import KINDS
from quoracy.core.members import Cause, signed_by_joiner
from quoracy.core.run import fold
from quoracy.ports import Append
from quoracy.stores import SqliteJournal
from quoracy.trust import MemberKey, check_proof

CHALLENGE = b"c" * 32
NONCE = b"n" * 16
KEY = MemberKey.create()
PROVEN = KINDS.verified_by(check_proof)


def journal_of(join: WorkerRegistered) -> list[bytes]:
    """Written by a host that looks at no signature."""
    scribe = Scribe(KINDS, created("cluster"))
    scribe.write((Cause(join.member, join.supersedes, 0), join))
    return scribe.payloads


def signed(by: MemberKey, member: str = "w1", run: str = RUN) -> bytes:
    return CHALLENGE + by.sign(signed_by_joiner(CHALLENGE, run, member, 0, NONCE))


@pytest.mark.parametrize(
    "proof",
    [b"", CHALLENGE, signed(MemberKey.create()), signed(KEY, "w2"), signed(KEY, run="other")],
    ids=["none", "no signature", "another key", "another member", "another run"],
)
def test_a_host_does_not_fold_a_join_that_its_key_did_not_sign(proof: bytes) -> None:
    payloads = journal_of(WorkerRegistered("w1", 0, NONCE, KEY.public, proof))
    with pytest.raises(JournalCorrupt, match=r"entry 2 .* a join of w1 that its key did not sign"):
        fold(PROVEN, RUN, payloads)


def test_a_signed_join_folds_and_so_does_one_without_a_key() -> None:
    for join in (WorkerRegistered("w1", 0, NONCE, KEY.public, signed(KEY)), WorkerRegistered("w1", 0, NONCE)):
        run = fold(PROVEN, RUN, journal_of(join))
        assert run is not None
        assert run.machine.incarnation_of("w1") == 1


def test_the_proof_of_a_real_join_is_in_the_journal_and_verify_checks_it(tmp_path: Path) -> None:
    with Coordinator(folder=tmp_path) as coordinator:
        coordinator.create(RUN)
        with Talk(coordinator.url) as talk:
            talk.join("w1", key=KEY)
    with closing(DirectorySource(tmp_path)) as source:
        assert verify(source).ok()


def test_verify_and_a_coordinator_refuse_a_journal_with_a_forged_join(tmp_path: Path) -> None:
    with closing(SqliteJournal(tmp_path)) as journal:
        for n, payload in enumerate(journal_of(WorkerRegistered("w1", 0, NONCE, KEY.public, signed(KEY, "w2"))), 1):
            journal.append([Append(RUN, n, payload)])
    with closing(DirectorySource(tmp_path)) as source:
        (damage,) = verify(source).damages
    assert (damage.code, damage.entry) == ("journal_corrupt", 2)
    with Coordinator(folder=tmp_path) as coordinator:
        assert "did not sign" in coordinator.explain(RUN)

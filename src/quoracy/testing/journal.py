"""The suite that every journal must pass.

A check is a plain function. It is given a function that opens the store: each call must give another handle on the same
store, as another process would have it; the store must be fresh for each check. With pytest:

    @pytest.mark.parametrize("check", JOURNAL_CHECKS, ids=lambda check: check.__name__)
    def test_journal(check, tmp_path):
        check(lambda: MyJournal(tmp_path))

``check_journal`` runs all of them where there is no test framework.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from quoracy.testing.journal_appends import APPEND_CHECKS, OpenJournal
from quoracy.testing.journal_archive import ARCHIVE_CHECKS
from quoracy.testing.journal_reads import READ_CHECKS

JournalCheck = Callable[[OpenJournal], None]

JOURNAL_CHECKS: tuple[JournalCheck, ...] = (*APPEND_CHECKS, *READ_CHECKS, *ARCHIVE_CHECKS)


def check_journal(fresh: Callable[[], AbstractContextManager[OpenJournal]]) -> None:
    """``fresh`` makes an empty store and removes it afterwards."""
    for check in JOURNAL_CHECKS:
        with fresh() as open_journal:
            check(open_journal)

"""For authors of adapters: the suites that every journal, pulse, mailbox, series and object store must pass. The map:

    journal.py     JOURNAL_CHECKS, from journal_appends.py, journal_reads.py and journal_archive.py
    pulse.py       PULSE_CHECKS
    mailbox.py     MAILBOX_CHECKS
    series.py      SERIES_CHECKS
    objects.py     OBJECTS_CHECKS
    promises.py    PROMISES: which operations are atomic, acknowledged and durable, and what checks that
    faults.py      LostReply: a journal whose replies get lost
    expect.py      assertions without a test framework

Needs no test framework. A check is a function whose name is the fact it checks.
"""

from quoracy.testing.faults import LostReply, append_surely
from quoracy.testing.journal import JOURNAL_CHECKS, check_journal
from quoracy.testing.mailbox import MAILBOX_CHECKS, check_mailbox
from quoracy.testing.objects import OBJECTS_CHECKS, check_objects
from quoracy.testing.promises import PROMISES, Promise
from quoracy.testing.pulse import PULSE_CHECKS, check_pulse
from quoracy.testing.series import SERIES_CHECKS, SUITE_IN_ALL, SUITE_PER_RUN, SUITE_TIERS, check_series

__all__ = [
    "JOURNAL_CHECKS",
    "MAILBOX_CHECKS",
    "OBJECTS_CHECKS",
    "PROMISES",
    "PULSE_CHECKS",
    "SERIES_CHECKS",
    "SUITE_IN_ALL",
    "SUITE_PER_RUN",
    "SUITE_TIERS",
    "LostReply",
    "Promise",
    "append_surely",
    "check_journal",
    "check_mailbox",
    "check_objects",
    "check_pulse",
    "check_series",
]

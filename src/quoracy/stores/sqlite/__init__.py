"""Journal, pulse, mailbox and series on a local disk, in SQLite files under one data directory. The map of the room:

journal.py      SqliteJournal: the conditional append, reading, watching
mailbox.py      SqliteMailbox, in the same file
pulse.py        SqlitePulse, in a file of its own
series.py       SqliteSeries, in a file of its own
database.py     one file: connections, transactions, whether it may still be written
schema.py       what is in the files, how they come into being, which are refused
heads.py        where each run stands
entries.py      hot entries as sealed rows
snapshots.py    snapshots and their pages
segments.py     compaction: from hot rows into archived segments
archive.py      segments as files
checkpoint.py   moving the write-ahead log into the file, off the commit path
tide.py         noticing commits of other processes
wal.py          commits that SQLite would drop silently
faults.py       what SQLite's error codes mean
locate.py       where in the file a damaged row is
salvage.py      what is left of a damaged journal
leaves.py       rows straight from the pages of a database
rebuild.py      a new journal from that
"""

from quoracy.stores.sqlite.journal import SqliteJournal
from quoracy.stores.sqlite.mailbox import SqliteMailbox
from quoracy.stores.sqlite.pulse import SqlitePulse
from quoracy.stores.sqlite.series import SqliteSeries

__all__ = ["SqliteJournal", "SqliteMailbox", "SqlitePulse", "SqliteSeries"]

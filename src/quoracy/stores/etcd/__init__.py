"""Journal, pulse and mailbox in etcd: for servers on several machines that share their runs. The map of the room:

journal.py     EtcdJournal: the conditional append, reading, watching, the lock, the shared secret
mailbox.py     EtcdMailbox
pulse.py       EtcdPulse
snapshots.py   snapshots and their pages
segments.py    compaction: from one key per entry into archived chunks
upkeep.py      one at a time saves or compacts a run
session.py     a lease that is kept as long as this process lives
tide.py        noticing what other processes wrote
store.py       what all three open: the client, the keys, the version of what is there
keys.py        which key holds what; the seal on every value
client.py      several members, tried in turn; what an error means for a write
link.py        one member: a channel, the methods
words.py       the parts of a transaction

Everything is one transaction of etcd or several that cannot be mistaken for one. A read looks at one revision, so it
sees one moment, however many requests it takes.
"""

from quoracy.stores.etcd.journal import EtcdJournal
from quoracy.stores.etcd.mailbox import EtcdMailbox
from quoracy.stores.etcd.pulse import EtcdPulse

__all__ = ["EtcdJournal", "EtcdMailbox", "EtcdPulse"]

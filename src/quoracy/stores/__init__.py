"""Where journals, beats, letters and series are kept. The map of the room:

    memory.py         MemoryJournal, MemoryPulse, MemoryMailbox: for tests, the simulator, runs that need not survive
    memory_series.py  MemorySeries: history that need not survive
    sqlite/           SqliteJournal, SqlitePulse, SqliteMailbox, SqliteSeries: one machine, local disk
    etcd/             EtcdJournal, EtcdPulse, EtcdMailbox: several machines; imported only where it is used
    keyvalue/         KeyValueJournal, KeyValuePulse, KeyValueMailbox: over any bare key-value store
    tcpstore.py       such a store: PyTorch's; imported only where it is used
    tcpwire.py        what goes over the wire to it
    segment.py        the file format of archived segments and exports, on plain bytes
    tiers.py          the arithmetic of series: buckets and tiers, pure
    limits.py         what every store checks, and which wishes it grants: pure
    seal.py           the checksum that guards every row and record
    durable.py        files that are whole or not there, and locks that die with their process

A store knows bytes and numbers. What an entry means is none of its business: nothing here decodes one.
"""

from quoracy.stores.memory import MemoryJournal, MemoryMailbox, MemoryPulse, Shelf
from quoracy.stores.memory_series import Drawer, MemorySeries
from quoracy.stores.sqlite import SqliteJournal, SqliteMailbox, SqlitePulse, SqliteSeries

__all__ = [
    "Drawer",
    "MemoryJournal",
    "MemoryMailbox",
    "MemoryPulse",
    "MemorySeries",
    "Shelf",
    "SqliteJournal",
    "SqliteMailbox",
    "SqlitePulse",
    "SqliteSeries",
]

"""Where journals, beats and letters are kept. The map of the room:

    memory.py    MemoryJournal, MemoryPulse, MemoryMailbox: for tests, the simulator, runs that need not survive
    sqlite/      SqliteJournal, SqlitePulse, SqliteMailbox: one machine, local disk
    segment.py   the file format of archived segments and exports, on plain bytes
    limits.py    what every store checks, and which wishes it grants: pure
    seal.py      the checksum that guards every row and record
    durable.py   files that are whole or not there, and locks that die with their process

A store knows bytes and numbers. What an entry means is none of its business: nothing here decodes one.
"""

from quorate.stores.memory import MemoryJournal, MemoryMailbox, MemoryPulse, Shelf
from quorate.stores.sqlite import SqliteJournal, SqliteMailbox, SqlitePulse

__all__ = [
    "MemoryJournal",
    "MemoryMailbox",
    "MemoryPulse",
    "Shelf",
    "SqliteJournal",
    "SqliteMailbox",
    "SqlitePulse",
]

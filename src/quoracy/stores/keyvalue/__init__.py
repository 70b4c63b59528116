"""Journal, pulse and mailbox over any bare key-value store (``ports.keyvalue``). The map of the room:

entries.py     the journal's algorithm: creation, reading, the floor, clean-up
journal.py     KeyValueJournal, of which that is the heart
snapshots.py   snapshots: one record, and blobs in parts
segments.py    lines through the entries
pulse.py       KeyValuePulse
notes.py       the notes of one turn, in one value
meeting.py     KeyValueMeeting: arriving in one trip, and being let go on by a key that comes to exist
mailbox.py     KeyValueMailbox
marks.py       numbers that only grow
roll.py        lists of names, for stores that cannot list keys
steps.py       one operation at a time: how all of these are written
session.py     runs them, and notices a store that lost its memory
keys.py        what the keys are called and what the values look like
memory.py      MemoryKeyValue: such a store in memory
"""

from quoracy.stores.keyvalue.journal import KeyValueJournal
from quoracy.stores.keyvalue.mailbox import KeyValueMailbox
from quoracy.stores.keyvalue.memory import MemoryKeyValue, Rack
from quoracy.stores.keyvalue.pulse import KeyValuePulse

__all__ = ["KeyValueJournal", "KeyValueMailbox", "KeyValuePulse", "MemoryKeyValue", "Rack"]

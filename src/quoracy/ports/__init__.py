"""What the outside must provide, as Protocols. Adapters live in ``stores`` and ``objects``; the suite that every
adapter must pass is ``quoracy.testing``.

All calls block and are safe from several threads; a shell that must not block runs them on a thread of its own. That
keeps one contract for a file, a key-value server and a dictionary, and lets the command line use them as they are.
"""

from quoracy.ports.journal import (
    MAX_ENTRY_BYTES,
    MAX_RUN_NAME_BYTES,
    Append,
    Appended,
    Conflict,
    Journal,
    Outcome,
    Saved,
    Segment,
)
from quoracy.ports.mailbox import MAX_LETTER_BYTES, Letter, Mailbox
from quoracy.ports.objects import Listed, Objects
from quoracy.ports.pulse import MAX_NOTE_BYTES, Beat, Pulse
from quoracy.ports.series import (
    MAX_SERIES,
    MAX_SERIES_PER_RUN,
    MAX_VALUE,
    TIERS,
    Bucket,
    Key,
    Point,
    Series,
    Tier,
)

__all__ = [
    "MAX_ENTRY_BYTES",
    "MAX_LETTER_BYTES",
    "MAX_NOTE_BYTES",
    "MAX_RUN_NAME_BYTES",
    "MAX_SERIES",
    "MAX_SERIES_PER_RUN",
    "MAX_VALUE",
    "TIERS",
    "Append",
    "Appended",
    "Beat",
    "Bucket",
    "Conflict",
    "Journal",
    "Key",
    "Letter",
    "Listed",
    "Mailbox",
    "Objects",
    "Outcome",
    "Point",
    "Pulse",
    "Saved",
    "Segment",
    "Series",
    "Tier",
]

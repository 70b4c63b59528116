"""``python -m quorate.demo.coordinator FOLDER RUN CONFIG``: a coordinator that is asked through its standard streams.

Made to be killed. It opens the journal, takes over or creates the run, and serves until its input ends.
"""

from __future__ import annotations

import select
import sys
from pathlib import Path

import msgspec

from quorate.core.messages import ToHost
from quorate.demo.pipe import Receiver, Sender
from quorate.hosts import InlineHost
from quorate.stores import SqliteJournal

TICK_S = 0.02


def main() -> None:
    folder, run, config = sys.argv[1:4]
    journal = SqliteJournal(Path(folder))
    host = InlineHost(journal, run, name="coordinator")
    if host.host.run is None:
        host.create("cluster", msgspec.json.decode(config))
    receiver = Receiver(sys.stdin.fileno(), ToHost)
    sender = Sender(sys.stdout.fileno())
    while not receiver.closed:
        readable, _, _ = select.select([sys.stdin], [], [], TICK_S)
        said = list(receiver.receive()) if readable else []
        answers = host.exchange(said) if said else host.tick()
        if answers and not sender.send(answers):
            break
    journal.close()


if __name__ == "__main__":
    main()

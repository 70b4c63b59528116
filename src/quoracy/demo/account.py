"""What happened in a run of a fleet, read from its journal alone: no memory of the demonstration is asked."""

from __future__ import annotations

import msgspec

from quoracy.core.cluster.events import BarrierAborted, BarrierReleased, WorkerLeft, WorkerLost, WorkerRegistered
from quoracy.core.cluster.kind import KIND
from quoracy.core.journal import HostTook, decode_entry, recorded_decoder


class Account(msgspec.Struct):
    entries: int = 0
    events: int = 0
    terms: int = 0
    released: int = 0
    aborted: int = 0
    twice: list[str] = []
    """Generations settled more than once, which must not be."""
    joined: dict[str, int] = {}
    """Lives per id."""
    ended: dict[str, str] = {}
    waits_us: dict[str, list[int]] = {}
    last_to_come: dict[str, int] = {}
    passages: set[tuple[str, int, int]] = set()
    """(worker, generation, step) of every release."""

    def straggler(self) -> str:
        """Who was last to arrive most often."""
        return max(self.last_to_come, key=lambda name: self.last_to_come[name], default="")


def read_account(journal: list[bytes], run: str) -> Account:
    account = Account(entries=len(journal))
    decoder = recorded_decoder(KIND.events)
    seats: list[str] = [""]
    settled: set[tuple[str, int]] = set()
    for n, payload in enumerate(journal, start=1):
        for _, event in decoder.decode(decode_entry(payload, run, n).events):
            account.events += 1
            match event:
                case HostTook():
                    account.terms += 1
                case WorkerRegistered():
                    seats.append(event.member)
                    account.joined[event.member] = account.joined.get(event.member, 0) + 1
                case WorkerLost() | WorkerLeft():
                    how = "lost" if isinstance(event, WorkerLost) else "left"
                    account.ended[event.member] = f"{how}: {event.reason}"
                case BarrierReleased() | BarrierAborted():
                    if (event.name, event.generation) in settled:
                        account.twice.append(f"{event.name} {event.generation}")
                    settled.add((event.name, event.generation))
                    if isinstance(event, BarrierReleased):
                        _released(account, event, seats)
                    else:
                        account.aborted += 1
    return account


def _released(account: Account, event: BarrierReleased, seats: list[str]) -> None:
    account.released += 1
    for seat, wait_us in zip(event.seats, event.waits_us, strict=True):
        account.waits_us.setdefault(seats[seat], []).append(wait_us)
        account.passages.add((seats[seat], event.generation, event.step))
    last = seats[event.seats[-1]]
    account.last_to_come[last] = account.last_to_come.get(last, 0) + 1

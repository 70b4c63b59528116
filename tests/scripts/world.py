"""A small world with explicit time: one run, its journal in a list, and real hosts over it.

Nothing here decides anything. Reports are handed to ``core.host.Host``, actions are carried out at once and in order,
and every entry, message and stop becomes a line. What a store does with an append can be set for each host: land it,
hold it, lose sight of it, have no room, or break. Each host has a clock of its own that began at another time, since
nothing may depend on two clocks being alike.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.scripts import say

from quoracy.core.codec import MICROSECONDS, digest
from quoracy.core.host import Host, Phase
from quoracy.core.journal import RunCreated, decode_entry
from quoracy.core.kinds import KINDS
from quoracy.core.limits import Limits
from quoracy.core.messages import ToHost, ToMember
from quoracy.core.run import fold
from quoracy.core.shell import (
    Action,
    Append,
    Asked,
    Beat,
    Broken,
    Create,
    Delayed,
    EntryRead,
    Explained,
    Followed,
    Load,
    Loaded,
    Perform,
    PulseSeen,
    ReadEntry,
    Received,
    Report,
    Save,
    Send,
    Stop,
    Take,
    Taken,
    Tick,
    Unknown,
    Written,
)
from quoracy.core.snapshot import Snapshot

RUN = "demo"
YOU = "you"
MAX_WAKES_AT_ONCE = 100
WHO_WIDTH = 13
HOUR_US = 3600 * MICROSECONDS


@dataclass
class Station:
    """A host in this world, its clock, and what its store does."""

    host: Host
    ahead_us: int
    writes: str = "land"
    held: deque[Append] = field(default_factory=deque)
    late: Append | None = None
    """A try that the store will get to after it was asked again."""

    @property
    def name(self) -> str:
        return self.host.name


class World:
    def __init__(self) -> None:
        self.now_us = 0
        self.kind = ""
        self.journal: list[bytes] = []
        self.snapshot: Snapshot | None = None
        self.pulses: dict[str, int] = {}
        self.stations: dict[str, Station] = {}
        self.lives = 0
        self.lines: list[str] = []
        self.deaf: set[str] = set()
        self.arrived: Callable[[str, ToMember], bool] = lambda _who, _message: True
        """Hands a message to whom it was sent; False: not worth a line."""
        self._reports: deque[tuple[Station, Report]] = deque()

    # -- hosts --------------------------------------------------------------------------------------------------

    def start(self, name: str, limits: Limits | None = None) -> None:
        self.lives += 1
        secret = digest(name.encode(), self.lives.to_bytes(8, "big"))
        host = Host(RUN, name, f"{name}:7700", secret, KINDS, limits)
        station = Station(host, self.lives * 100 * HOUR_US)
        self.stations[name] = station
        self._carry_out(station, host.start(self._clock(station)))
        self._run()

    def create(self, name: str, created: RunCreated) -> None:
        self.kind = created.kind
        self.report(name, Create(created))

    def take(self, name: str) -> None:
        self.report(name, Take())

    def crash(self, name: str) -> None:
        """Gone with everything it held in memory. What its store has, stays."""
        del self.stations[name]

    def report(self, name: str, report: Report) -> None:
        self._reports.append((self.stations[name], report))
        self._run()

    def send(self, name: str, peer: str, message: ToHost) -> None:
        if name in self.stations:
            self.report(name, Received(peer, message))
        else:
            self.say(peer, name, "(nobody is there)")

    def explain(self, name: str) -> None:
        self.report(name, Asked(YOU))

    def serving(self) -> Host:
        """The one that serves, for looking at its state."""
        serves = [s.host for s in self.stations.values() if s.host.phase is Phase.SERVING]
        if len(serves) != 1:
            raise AssertionError(f"{len(serves)} hosts think that they serve")
        return serves[0]

    def say(self, source: str, target: str, text: str) -> None:
        self.lines.append(f"{source + ' -> ' + target:<{WHO_WIDTH}} {text}")

    def _clock(self, station: Station) -> int:
        return self.now_us + station.ahead_us

    def _run(self) -> None:
        while self._reports:
            station, report = self._reports.popleft()
            if self.stations.get(station.name) is station:
                self._carry_out(station, station.host.handle(report, self._clock(station)))

    def _carry_out(self, station: Station, actions: list[Action]) -> None:
        for action in actions:
            self._carry_out_one(station, action)

    def _carry_out_one(self, station: Station, action: Action) -> None:
        name = station.name
        match action:
            case Load():
                after = self.snapshot.n if self.snapshot else 0
                self._reports.append((station, Loaded(self.snapshot, self.journal[after:])))
            case Append():
                self._append(station, action)
            case ReadEntry(n=n):
                payload = self.journal[n - 1] if n <= len(self.journal) else None
                self.say(name, "journal", f"read entry {n}: " + ("nothing is there" if payload is None else "found"))
                self._reports.append((station, EntryRead(n, payload)))
            case Send(peer=peer, message=message):
                self._deliver(name, str(peer), message)
            case Beat(key=key, seq=seq):
                self.pulses[key] = seq
            case Perform(duty=duty):
                self.say(name, "workshop", say.duty(duty))
            case Save(snapshot=snapshot):
                self.snapshot = snapshot
                self.say(name, "journal", f"snapshot of entries 1 to {snapshot.n}")
            case Explained(explanation=told):
                self.lines.append(say.explanation(told))
            case Stop(code=code, why=why):
                self.lines.append(f"{name} stops: {code}: {why}")

    def _deliver(self, name: str, peer: str, message: ToMember) -> None:
        if peer in self.deaf:
            self.say(name, peer, f"(lost on the way) {say.message(message)}")
        elif self.arrived(peer, message):
            self.say(name, peer, say.message(message))

    # -- the store ----------------------------------------------------------------------------------------------

    def _append(self, station: Station, append: Append) -> None:
        entry = decode_entry(append.payload, RUN, append.n)
        head = f"entry {append.n} at {say.seconds(entry.at_us)}: "
        for index, event in enumerate(say.entry(KINDS, self.kind, 1, entry.events)):
            if index == 0:
                self.say(station.name, "journal", head + event)
            else:
                self.lines.append(" " * (WHO_WIDTH + 1 + len(head)) + event)
        if station.late is not None:
            self.lines.append(f"(the earlier try of entry {station.late.n} lands now)")
            self._land(station, station.late)
            station.late = None
        station.held.append(append)
        if station.writes != "hold":
            self._settle(station, station.writes)

    def write(self, name: str, how: str) -> None:
        """``hold``: appends wait. Anything else: what happens to those that wait, and to later ones."""
        station = self.stations[name]
        once = how.startswith("unknown")
        station.writes = "land" if once else how
        if how == "hold":
            return
        if not station.held and once:
            raise AssertionError("nothing is being written")
        if station.held:
            self._settle(station, how)
        self._run()

    def _settle(self, station: Station, how: str) -> None:
        append = station.held.popleft()
        report: Report
        match how:
            case "land":
                report = self._land(station, append)
            case "unknown there" | "unknown lost" | "unknown late":
                if how == "unknown there":
                    self._land(station, append)
                elif how == "unknown late":
                    station.late = append
                self.say("journal", station.name, f"entry {append.n}: no answer, it may be there or not")
                report = Unknown(append.nonce)
            case "full":
                self.say("journal", station.name, f"entry {append.n}: no room on the disk")
                report = Delayed(append.nonce, "no room on the disk")
            case "broken":
                self.say("journal", station.name, f"entry {append.n}: fsync failed")
                report = Broken("journal_broken", "fsync failed")
            case _:
                raise AssertionError(f"a store cannot {how!r}")
        self._reports.append((station, report))

    def _land(self, station: Station, append: Append) -> Report:
        """The one conditional write: n-1 is there and n is free."""
        if append.n <= len(self.journal):
            there = self.journal[append.n - 1]
            entry = decode_entry(there, RUN, append.n)
            if entry.nonce == append.nonce:
                whose = "its own entry is there already"
            else:
                whose = f"taken by an entry of {entry.host}, term {entry.term}"
            self.say("journal", station.name, f"entry {append.n}: {whose}")
            return Taken(append.nonce, there)
        if append.n != len(self.journal) + 1:
            raise AssertionError(f"entry {append.n} would leave a gap after {len(self.journal)}")
        self.journal.append(append.payload)
        for other in self.stations.values():
            if other is not station:
                self._reports.append((other, Followed(append.n, [append.payload])))
        return Written(append.nonce)

    def written_at_crash(self, name: str) -> None:
        """The store finishes what the process began, and nobody is left to be told."""
        for append in self.stations[name].held:
            self._land(self.stations[name], append)

    # -- time ---------------------------------------------------------------------------------------------------

    def advance(self, until_us: int, agenda: dict[int, list[Callable[[], None]]]) -> None:
        """Let time pass, waking each host when it asks for it, and doing what is on the agenda at its time."""
        at_once = 0
        while True:
            times = [time for time in agenda if time <= until_us]
            times += [time for s in self.stations.values() if (time := self._wake(s)) is not None and time <= until_us]
            if not times:
                break
            then_us = max(self.now_us, min(times))
            at_once = at_once + 1 if then_us == self.now_us else 0
            if at_once > MAX_WAKES_AT_ONCE:
                raise AssertionError("a host asks to be woken again and again at one time")
            self.now_us = then_us
            for time in [time for time in agenda if time <= then_us]:
                for do in agenda.pop(time):
                    do()
            for station in list(self.stations.values()):
                if (wake_us := self._wake(station)) is not None and wake_us <= then_us:
                    self.report(station.name, PulseSeen(dict(self.pulses)))
                    self.report(station.name, Tick())
        self.now_us = until_us

    def _wake(self, station: Station) -> int | None:
        wake_us = station.host.wake_us()
        return None if wake_us is None else wake_us - station.ahead_us

    # -- checks -------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """At the end of every story: whoever folds the journal anew has the state that the serving host has."""
        anew = fold(KINDS, RUN, self.journal)
        for station in self.stations.values():
            host: Any = station.host
            if anew is not None and host.phase is Phase.SERVING and host.quiet():
                assert host.run.head.n == len(self.journal)
                assert host.run.state_digest() == anew.state_digest()

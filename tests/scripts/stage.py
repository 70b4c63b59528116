"""The commands that stories of every kind share. A kind adds those of its members (``<kind>/verbs.py``).

create [SETTING=VALUE ...]           host h1 starts, makes the run and serves it
start HOST [LIMIT=VALUE ...]         a host process begins and reads the journal
take HOST                            the host serves from now on
crash HOST [after writing]           the process is gone; ``after writing``: its held append reaches the store
write hold|land|full|broken [HOST]   what the store does with appends
write unknown HOW [HOST]             the store does not answer one append, which is there, lost, or late
cut WHO ...                          what hosts send them is lost, until they say hello
mend WHO ...                         or until the network is whole again
advance TIME [WHO ... beat]          time passes, with these members beating
freeze TIME                          time passes while every host stands still
explain [HOST]                       what the run is waiting for
journal [FROM]                       the entries
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.scripts import say
from tests.scripts.world import RUN, World

from quoracy.core.codec import us
from quoracy.core.journal import RunCreated, decode_entry
from quoracy.core.kinds import KINDS
from quoracy.core.limits import Limits

Verb = Callable[[list[str]], None]


class Stage:
    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.world = World()
        self.beat: Callable[[str], None] = lambda _who: None
        self.beat_every_us = us(5)
        self.verbs: dict[str, Verb] = {
            "create": self._create,
            "start": self._start,
            "take": lambda words: self.world.take(words[0]),
            "crash": self._crash,
            "write": self._write,
            "cut": self.world.deaf.update,
            "mend": self.world.deaf.difference_update,
            "advance": self._advance,
            "freeze": self._freeze,
            "explain": lambda words: self.world.explain(self.named(words)),
            "journal": self._journal,
        }

    def run(self, command: str) -> str:
        verb, *words = command.split()
        if verb not in self.verbs:
            raise AssertionError(f"unknown command {verb!r}; known: {', '.join(sorted(self.verbs))}")
        self.world.lines.clear()
        self.verbs[verb](words)
        return "\n".join(line.rstrip() for line in self.world.lines) or "ok"

    def named(self, words: list[str]) -> str:
        """The host that is meant: the one named, or the only one."""
        if words:
            return words[0]
        (only,) = self.world.stations
        return only

    def _create(self, words: list[str]) -> None:
        config = settings(words)
        self.world.start("h1")
        self.world.create("h1", RunCreated(RUN, self.kind, KINDS.newest(self.kind).rules, config))

    def _start(self, words: list[str]) -> None:
        self.world.start(words[0], Limits(**settings(words[1:])))

    def _crash(self, words: list[str]) -> None:
        if words[1:] == ["after", "writing"]:
            self.world.written_at_crash(words[0])
        self.world.crash(words[0])

    def _write(self, words: list[str]) -> None:
        how = " ".join(words[:2]) if words[0] == "unknown" else words[0]
        self.world.write(self.named(words[2:] if words[0] == "unknown" else words[1:]), how)

    def _advance(self, words: list[str]) -> None:
        until_us = self.world.now_us + duration_us(words[0])
        agenda: dict[int, list[Callable[[], None]]] = {}
        who = words[1:]
        if who and who.pop() != "beat":
            raise AssertionError("advance TIME, or advance TIME WHO ... beat")
        for time in range(self.world.now_us + self.beat_every_us, until_us + 1, self.beat_every_us):
            agenda[time] = [lambda name=name: self.beat(name) for name in who]
        self.world.advance(until_us, agenda)

    def _freeze(self, words: list[str]) -> None:
        self.world.now_us += duration_us(words[0])
        self.world.advance(self.world.now_us, {})

    def _journal(self, words: list[str]) -> None:
        first = int(words[0]) if words else 1
        for n, payload in enumerate(self.world.journal[first - 1 :], first):
            entry = decode_entry(payload, RUN, n)
            head = f"{n:>3}  at {say.seconds(entry.at_us)}  term {entry.term}  {entry.host}"
            events = say.entry(KINDS, self.kind, 1, entry.events)
            self.world.lines += [f"{head}  {events[0]}", *(f"{' ' * len(head)}  {event}" for event in events[1:])]


def settings(words: list[str]) -> dict[str, Any]:
    parsed: dict[str, Any] = {}
    for word in words:
        name, _, given = word.partition("=")
        parsed[name] = float(given) if "." in given else int(given)
    return parsed


def duration_us(word: str) -> int:
    for unit, in_s in (("ms", 0.001), ("s", 1.0), ("min", 60.0)):
        number = word.removesuffix(unit)
        if number != word and number.replace(".", "", 1).isdigit():
            return us(float(number) * in_s)
    raise AssertionError(f"{word!r} is not a time such as 31s, 200ms or 2min")

"""Ranks that die at an appointed operation, or live by a clock of their own: ``rank_program.py NAME STORE RANK JSON``
runs the function NAME, which says what happens to it, one JSON value a line."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from typing import Any

from tests.e2e.ranks_scripts import RUN, say

import quoracy
from quoracy.core import asks as ops
from quoracy.ports.keyvalue import KeyValue
from quoracy.stores.keyvalue import session
from quoracy.stores.keyvalue.steps import Step, changes, perform

PACE_S = 0.05
LATE_S = 0.25
"""An appointed rank arrives later than everybody else, and whoever arrives last proposes."""


class Hooks:
    """Around each operation of a vote. ``plan``: the operations up to the fatal one, by name; ``side``: whether to die
    before it is carried out, after, or inside, which is when it has changed the first key of a bare store and not the
    rest. A vote that goes another way, because somebody else was quicker, is survived. A plan that is one name means
    that operation while somebody has to be given up. ``polite_s``: it leaves that to others for so long."""

    def __init__(self, ranks: quoracy.Ranks, polite_s: float = 0.0) -> None:
        assert ranks.host is not None
        self._ranks = ranks
        self._polite_s = polite_s
        ranks.host.before = lambda op: self._meet(op, "before")
        ranks.host.after = lambda op: self._meet(op, "after")
        setattr(session, "perform", self._perform)  # noqa: B010
        self.done: list[str] = []
        self.plan: list[str] | str = []
        self.side = ""
        self.voting = 0

    def _meet(self, op: ops.Op, side: str) -> None:
        if not self.voting:
            return
        name = type(op).__name__
        if side == "before":
            self.done.append(name)
            if self._polite_s and not self.plan and name == "Arrivals" and self._gives_up():
                time.sleep(self._polite_s)
        self._reach(side)

    def _gives_up(self) -> bool:
        return bool(self._ranks.part.collector.gone(self._ranks.crew, time.monotonic_ns() // 1000))

    def _is_there(self) -> bool:
        if isinstance(self.plan, str):
            return self.done[-1:] == [self.plan] and self._gives_up()
        return bool(self.plan) and self.done == self.plan

    def _perform(self, store: KeyValue, step: Step) -> object:
        answer = perform(store, step)
        if changes(step):
            self._reach("inside")
        return answer

    def _reach(self, side: str) -> None:
        if self.voting and side == self.side and self._is_there():
            say("killed", [self.voting, time.monotonic()])
            os.kill(os.getpid(), signal.SIGKILL)


def told() -> list[Any] | None:
    """What the test wants, if it has said anything new."""
    if not select.select([sys.stdin], [], [], 0)[0]:
        return None
    line = sys.stdin.readline()
    return json.loads(line) if line else None


def dies(store: str, rank: int, polite_s: float = 0.0, **settings: Any) -> None:
    """Trains, until it is told at which operation to die. It keeps a snapshot of whatever it writes, and something is
    made once in each attempt: so its proposals also discard, save and compact."""
    with quoracy.ranks(store, RUN, rank, **settings) as ranks:
        ranks._peer._snapshot_every = 1
        hooks = Hooks(ranks, polite_s)
        appointed = False
        for it in ranks.iterations():
            say("it", {"attempt": it.attempt, "number": it.number, "members": it.members, "joined": it.joined,
                       "at_s": time.monotonic(), "before": decision(it.before)})  # fmt: skip
            wanted = told()
            if wanted is not None:
                hooks.plan, hooks.side = wanted
                appointed = True
            it.once("id", lambda: str(rank).encode())
            say("read", decision(it.before))
            time.sleep(LATE_S if appointed else PACE_S)
            hooks.done, hooks.voting = [], it.attempt
            committed = it.vote()
            hooks.voting = 0
            say("voted", [it.attempt, it.number, committed])
            if appointed and "Append" in hooks.done:
                say("proposed", hooks.done)


def decision(record: Any) -> list[Any] | None:
    """Everything that a record says and that a rank acts on; who decided as the last, which is not known at first."""
    if record is None:
        return None
    return [record.attempt, record.number, record.outcome, record.members, record.against, record.gone, record.decider]


def clocked(store: str, rank: int, offset_s: int = 0, **settings: Any) -> None:
    """Trains where the monotonic clock is ``offset_s`` ahead of the machine's: in a time namespace of its own, which
    its beater shares."""
    if os.environ.get("RANK_CLOCK") != str(offset_s):
        os.environ["RANK_CLOCK"] = str(offset_s)
        own = ["unshare", "--user", "--map-root-user", "--time", "--fork", "--kill-child"]
        clocks = ["--monotonic", str(offset_s), "--boottime", str(offset_s)]
        os.execvp(own[0], [*own, *clocks, sys.executable, "-u", *sys.argv])
    with quoracy.ranks(store, RUN, rank, **settings) as ranks:
        say("clocks", [time.monotonic(), time.time()])
        for it in ranks.iterations():
            say("it", {"attempt": it.attempt, "number": it.number, "members": it.members, "joined": it.joined,
                       "before": decision(it.before)})  # fmt: skip
            time.sleep(PACE_S)
            say("voted", [it.attempt, it.number, it.vote()])


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2], int(sys.argv[3]), **json.loads(sys.argv[4]))

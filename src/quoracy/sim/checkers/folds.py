"""The fold is identical on every host: one entry, one state, whoever folded it and from wherever it began."""

from __future__ import annotations

from quoracy.core.host import Host
from quoracy.core.kinds import KINDS
from quoracy.core.run import Run, fold
from quoracy.sim.checkers.base import Checker, Ending

EVERY = 7
"""Entries between two looks at a whole state; every entry's chain is looked at."""


class Folds(Checker):
    name = "folds"

    def __init__(self) -> None:
        self._looked: dict[str, tuple[int, int]] = {}
        self._chain: dict[int, bytes] = {}
        self._states: dict[int, bytes] = {}

    def folded(self, host: str, state: Host) -> None:
        run = state.run
        if run is None or not state.quiet() or self._looked.get(host) == (id(run), run.head.n):
            return
        self._looked[host] = (id(run), run.head.n)
        n = run.head.n
        if self._chain.setdefault(n, run.head.digest) != run.head.digest:
            self.fail(f"{host} has another entry {n} than somebody else")
        if n % EVERY == 0:
            digest = run.state_digest()
            if self._states.setdefault(n, digest) != digest:
                self.fail(f"{host} has another state after entry {n} than somebody else")

    def host_stopped(self, host: str, code: str, why: str) -> None:
        self.fail(f"{host} stopped: {code}: {why}")

    def finish(self, ending: Ending) -> None:
        """Once more from the beginning, and compare with what hosts had on the way."""
        run: Run | None = None
        for payload in ending.journal:
            run = fold(KINDS, ending.run, [payload], run)
            if run is None:
                break
            n = run.head.n
            if self._chain.get(n, run.head.digest) != run.head.digest:
                self.fail(f"entry {n} of the journal is not the one hosts folded")
            if n in self._states and self._states[n] != run.state_digest():
                self.fail(f"a fold from the beginning gives another state after entry {n}")

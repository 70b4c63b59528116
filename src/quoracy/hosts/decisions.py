"""The decision log of a run of ranks, one line per attempt: who was in, who came and went, who decided, how long.

All of it follows from the journal. What happened between two records, on the clocks of those who decided:

    record --- training --- first arrival --- waiting --- last arrival --- deciding --- record

Where somebody had to be given up, most of the time went by between the last arrival and the record. Where nobody was
in, all of it was waiting for ranks to come.
"""

from __future__ import annotations

import msgspec

from quoracy.core.ranks.events import AttemptDecided
from quoracy.core.ranks.state import Decision

NONE = Decision(0, 0, "", "", [], [], [], [], 0, 0, "")


class Phases(msgspec.Struct, frozen=True):
    """How long each took. Where the record was compacted away, ``waiting_us`` is all from the first arrival on."""

    training_us: int
    waiting_us: int
    deciding_us: int | None


class Line(msgspec.Struct):
    """One attempt in the decision log. Goodbyes and joins belong to the attempt during which they were written."""

    decision: Decision
    left: list[tuple[str, str]] = []
    joined: list[str] = []
    was_in: list[str] = []
    """Whom the record before named: they tried this attempt."""
    learners: list[str] | None = None
    """Who was still fetching the model when it was decided; None where that was compacted away."""
    phases: Phases = Phases(0, 0, None)

    def eventful(self) -> bool:
        """Whether it differs from what everybody expects: all who were in go on."""
        decision = self.decision
        return bool(decision.gone or decision.came or decision.against or self.left or decision.outcome != "committed")


def restored(log: list[Decision]) -> list[Line]:
    """What a snapshot still has of each."""
    lines = []
    before: Decision | None = None
    for decision in log:
        back = set(decision.members).difference(decision.came).union(rank for rank, _ in decision.gone)
        was_in = sorted(back, key=int) if before is None else before.members
        since_us = decision.at_us - decision.longest_wait_us if before is None else before.at_us
        whole_us = decision.at_us - since_us
        waited_us = min(whole_us, decision.longest_wait_us) if was_in else whole_us
        lines.append(Line(decision, was_in=was_in, phases=Phases(whole_us - waited_us, waited_us, None)))
        before = decision
    return lines


def phases(event: AttemptDecided, decision: Decision, before_us: int) -> Phases:
    """``before_us``: when the record before was written, or the run began."""
    whole_us = max(0, decision.at_us - before_us)
    if not event.arrived:
        return Phases(0, whole_us, 0)
    first_us = min(whole_us, max(event.waits_us, default=0))
    last_us = min(first_us, min(event.waits_us, default=0))
    return Phases(whole_us - first_us, first_us - last_us, last_us)

"""Every batch is applied once, or skipped with a recorded reason; roll-backs and voided results included.

The twin is ``batches``: one word for each batch, worked out from the events. The run's own account must say the same
after every round and every voided result, and at the end nothing may be left open.
"""

from __future__ import annotations

from quoracy.core.witnessed.events import ResultVoided, RoundSealed
from quoracy.core.witnessed.state import Phase
from quoracy.sim.checkers.journal import Happened
from quoracy.sim.witnessed.batches import APPLIED, KEPT, OPEN, WAITING, numbers
from quoracy.sim.witnessed.checkers.base import Over, WitnessedChecker
from quoracy.sim.witnessed.history import Course


class Accounts(WitnessedChecker):
    name = "account"

    def walked(self, course: Course, happened: Happened) -> None:
        if isinstance(happened.event, RoundSealed | ResultVoided):
            self._compare(course, happened.entry)

    def judge(self, course: Course, over: Over) -> None:
        self._compare(course, len(over.journal))
        if course.folded.state is Phase.FINISHED:
            for word in (OPEN, WAITING):
                if left := course.batches.numbers(word):
                    self.fail(f"the run is over, and batches {left[:5]} are {word}")

    def _compare(self, course: Course, entry: int) -> None:
        folded, batches = course.folded, course.batches
        account = folded.account
        round_ = () if folded.round is None else tuple((span.first, span.end) for span in folded.round.spans)
        pairs = {
            "given out": (account.next_batch, len(batches.word)),
            "waiting": (numbers(tuple((s.first, s.end) for s in account.waiting)), batches.numbers(WAITING)),
            "applied": (numbers(tuple(account.applied)), batches.numbers(APPLIED)),
            "kept": (account.stored, len(batches.numbers(KEPT))),
            "open": (sorted(numbers(round_)), batches.numbers(OPEN)),
            "skipped": (account.reasons, batches.skipped()),
        }
        for what, (said, is_so) in pairs.items():
            if said != is_so:
                self.fail(
                    f"entry {entry}: the run's account of batches {what} is {said}, and the journal makes {is_so}"
                )

"""All members in step have the same model at each step, and it is the one that what was sealed makes.

Every hash is worked out again from the journal: the model before, and the digests that were sealed, in their order.
What the run agreed on must be that. It is something else only where those who lied about their model, or whose memory
failed, were most of those who reported; then all others take over what most have.

A result is voided only if everybody who is in step then has said that it misses it. One that has not heard of it yet,
or that has been given the result since and whose new word is still on its way, may apply it nevertheless: it has
another model than most then, and has to catch up.
"""

from __future__ import annotations

import msgspec

from quoracy.core.witnessed.events import ResultVoided, RoundSealed
from quoracy.core.witnessed.facts import Apply
from quoracy.sim.checkers.journal import Happened
from quoracy.sim.witnessed.checkers.base import Over, WitnessedChecker
from quoracy.sim.witnessed.history import Course, Sealed
from quoracy.sim.witnessed.making import applied


class Did(msgspec.Struct):
    process: str
    apply: Apply
    model: bytes
    rotten: bool


class Models(WitnessedChecker):
    name = "models"

    def __init__(self) -> None:
        self._did: list[Did] = []
        self._strange: list[tuple[int, Sealed]] = []
        self._sealed: dict[tuple[int, int], Sealed] = {}

    def applied(self, process: str, apply: Apply, model: bytes, rotten: bool) -> None:
        self._did.append(Did(process, apply, model, rotten))

    def walked(self, course: Course, happened: Happened) -> None:
        if isinstance(happened.event, ResultVoided):
            unasked = sorted(course.folded.in_step.keys() - set(happened.event.missing_for))
            if unasked:
                self.fail(f"entry {happened.entry} voids a result that {unasked} have not said they miss")
        if not isinstance(happened.event, RoundSealed) or not course.sealed:
            return
        sealed = course.sealed[-1]
        self._sealed[sealed.epoch, sealed.number] = sealed
        said = {report.member: report.model for report in happened.event.models if report.step == sealed.step}
        if sealed.model and sealed.expected != sealed.model:
            self._strange.append((happened.entry, sealed))
        in_step = [name for name in said if name in course.folded.in_step]
        odd = [name for name in in_step if said[name] != sealed.model and sealed.model]
        if odd:
            self.fail(f"entry {happened.entry}: {odd} are in step with another model than most at step {sealed.step}")

    def judge(self, _course: Course, over: Over) -> None:
        bad = {model for process in over.processes for model in process.bench.bad_models}
        for entry, sealed in self._strange:
            if sealed.model not in bad and sealed.expected not in bad:
                self.fail(
                    f"entry {entry}: at step {sealed.step} all have {sealed.model.hex()[:8]}, not the right model"
                )
        for did in self._did:
            self._check(did)

    def _check(self, did: Did) -> None:
        apply = did.apply
        sealed = self._sealed.get((apply.epoch, apply.round))
        if sealed is None:
            self.fail(f"{did.process} applies round {apply.round} of epoch {apply.epoch}, which is not in the journal")
            return
        digests = tuple(result.digest for result in apply.results)
        before = [digest for digest in sealed.digests if digest in digests]
        if digests != sealed.counts() and (list(digests) != before or not sealed.voided):
            self.fail(
                f"{did.process} applies {len(digests)} results to step {sealed.step}, sealed are {sealed.counts()}"
            )
        if not did.rotten and did.model != applied(sealed.step, sealed.model, digests):
            self.fail(f"{did.process} comes to another model of step {sealed.step + 1} than what was sealed makes")

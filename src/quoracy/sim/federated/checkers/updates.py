"""An update counts once or not at all, and the journal says which: every one that was taken in ends in exactly one
fate, and where it does not count, the run keeps the reason."""

from __future__ import annotations

from collections import Counter

from quoracy.core.federated.machine import Federated
from quoracy.core.kinds import KINDS
from quoracy.core.run import fold
from quoracy.sim.checkers.base import Checker, Ending
from quoracy.sim.federated.history import Course


class Updates(Checker):
    name = "updates"

    def finish(self, ending: Ending) -> None:
        course = Course()
        for _ in course.walk(ending.journal, ending.run):
            pass
        run = fold(KINDS, ending.run, ending.journal)
        if run is None or not isinstance(run.machine, Federated):
            self.fail("there is no run")
            return
        history = run.machine.task.history
        if [closed.number for closed in course.closed] != [over.number for over in history]:
            self.fail(f"{len(course.closed)} rounds were closed, and the run has {len(history)}")
        for closed, over in zip(course.closed, history, strict=True):
            accepted = [(update.member, update.digest, update.samples) for update in closed.accepted]
            if accepted != over.admitted:
                self.fail(f"round {closed.number} accepted {accepted}, and the run says {over.admitted}")
            twice = [who for who, times in Counter(who for who, _, _ in over.admitted).items() if times > 1]
            if twice:
                self.fail(f"round {closed.number} counts {twice} twice")
            lost = Counter(u.member for u in course.updates if u.round == closed.number and u.fate != "admitted")
            told = Counter(who for who, why in over.dropped if why)
            if lost - told:
                self.fail(f"round {closed.number}: no reason is kept why updates of {lost - told} do not count")
        for update in course.updates:
            if update.fate == "offered" and course.over():
                self.fail(f"nobody has said what became of {update}")

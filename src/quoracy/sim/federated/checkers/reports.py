"""What a participant reported of a training is kept when its round is over, as it was said, whatever became of the
update; and weights to begin with are counted for no update."""

from __future__ import annotations

from collections import Counter

from quoracy.core.federated.machine import Federated
from quoracy.core.kinds import KINDS
from quoracy.core.run import fold
from quoracy.sim.checkers.base import Checker, Ending
from quoracy.sim.federated.history import Course


class Reports(Checker):
    name = "reports"

    def finish(self, ending: Ending) -> None:
        course = Course()
        for _ in course.walk(ending.journal, ending.run):
            pass
        run = fold(KINDS, ending.run, ending.journal)
        if run is None or not isinstance(run.machine, Federated):
            self.fail("there is no run")
            return
        task = run.machine.task
        kept = {(report.member, report.ticket): report for report in task.reports}
        judged = [update for update in course.updates if update.fate != "offered"]
        for update in judged:
            report = kept.pop((update.member, update.ticket), None)
            if update.round < 0:
                if report is not None:
                    self.fail(f"the weights to begin with are reported as a training: {report}")
            elif report is None:
                self.fail(f"nothing is kept of what {update.member} reported with ticket {update.ticket}")
            elif (report.metrics, report.history) != update.reported or report.fate.value.lower() != update.fate:
                self.fail(f"{update} was said, and {report} is kept")
        if kept and not task.reports_gone:
            self.fail(f"nobody has said what is kept as {next(iter(kept.values()))}")
        counted = Counter(update.member for update in judged if update.fate == "admitted" and update.round >= 0)
        for participant in task.participants.values():
            if participant.updates != counted[participant.id]:
                self.fail(
                    f"{participant.id} has {counted[participant.id]} updates that count, not {participant.updates}"
                )

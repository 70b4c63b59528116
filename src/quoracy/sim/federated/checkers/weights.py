"""Every model is made of exactly the accepted updates, in order of participants, each trained on the model before.

Updates count for the samples that the journal's claims come to, as the model of the run clips them. Trainers and
workshop are deterministic, so all models can be computed again from who was accepted. Neither crashes nor the order of
arrival are in that computation: where the same participants are accepted, the same weights come out."""

from __future__ import annotations

from quoracy.sim.checkers.base import Checker, Ending
from quoracy.sim.federated.history import Course
from quoracy.sim.federated.workshop import aggregated, optimized, trained


class Weights(Checker):
    name = "weights"

    def finish(self, ending: Ending) -> None:
        course = Course()
        for _ in course.walk(ending.journal, ending.run):
            pass
        if not course.closed:
            return
        weights, state = course.closed[0].previous, ""
        for closed in course.closed:
            members = [update.member for update in closed.accepted]
            for update in closed.accepted:
                if update.digest != trained(update.member, closed.number, weights):
                    self.fail(f"round {closed.number}: {update} was not trained on {weights}")
            counts = {update.member: update.samples for update in closed.accepted}
            made = [(who, trained(who, closed.number, weights), counts[who]) for who in sorted(members)]
            weights = aggregated(weights, made, state)
            state = optimized(weights)
            if closed.weights and closed.weights != weights:
                self.fail(f"round {closed.number} of {members} makes {weights}, and the run has {closed.weights}")

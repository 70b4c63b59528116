"""What happens to a participant, told as it happens: to a callback, and to the log of the program (``quoracy``)."""

from __future__ import annotations

import logging
from typing import Any

from quoracy.core.federated.state import Phase
from quoracy.sdk.client.driver import log
from quoracy.sdk.federated.client import Outcome, ParticipantClient
from quoracy.sdk.federated.client import Phase as RunPhase
from quoracy.sdk.federated.session import Work
from quoracy.sdk.federated.task import OnNews, ParticipantNews


class Teller:
    def __init__(self, member: str, on_news: OnNews | None) -> None:
        self._member = member
        self._on_news = on_news
        self._incarnation = 0
        self._away = False
        self._turned = ""
        self._standby = ""
        self._passes: RunPhase | None = None
        self._trouble = ""
        self._warned = 0
        """The ticket of the update whose warnings were told."""
        self.own: list[str] = []
        """Warnings that went with the last offer: what the coordinator repeats of them is no news."""

    def look(self, client: ParticipantClient) -> None:
        """What has changed since the last look, apart from rounds."""
        incarnation = client.incarnation
        if incarnation and incarnation != self._incarnation:
            self._incarnation = incarnation
            self._turned = ""
            again = "" if incarnation == 1 else f", as its life {incarnation}"
            self._tell("joined", f"{self._member} takes part in {client.settings.run}{again}")
        if client.outage is not None and not self._away and client.outage.tries > 1:
            self._away = True
            self._tell("unreachable", f"no coordinator: {client.outage.why}; tries on", level=logging.WARNING)
        elif client.outage is None and self._away:
            self._away = False
            self._tell("reachable", "the coordinator answers")
        if client.refused is not None and client.refused.why != self._turned:
            self._turned = client.refused.why
            self._tell("later", f"not let in yet: {client.refused.why}; tries on", level=logging.WARNING)
        self._stands(client)

    def _stands(self, client: ParticipantClient) -> None:
        standing = client.standing
        waits = standing is not None and standing.phase == "STANDBY" and client.over is None
        why = standing.reason if waits and standing is not None else ""
        if why and why != self._standby:
            self._tell("standby", why)
        self._standby = why
        self._passes_by(client, why)
        verdict = None if standing is None else standing.verdict
        if standing is not None and verdict is not None and verdict.ticket != self._warned:
            self._warned = verdict.ticket
            for warning in standing.warnings:
                if warning not in self.own:
                    self.warning(verdict.round, f"told by the coordinator: {warning}")

    def _passes_by(self, client: ParticipantClient, standby: str) -> None:
        """The run goes on, or stands, while there is nothing to do here. ``standby``: what was said of it already."""
        passes, standing = client.phase, client.standing
        if passes is None or passes == self._passes or client.work is not None or client.over is not None:
            return
        self._passes = passes
        if passes.run_phase == Phase.ROUND.value:
            called = f"round {passes.round}" if passes.round >= 0 else "the round for the initial weights"
            of = f" of {standing.rounds}" if standing is not None and passes.round >= 0 else ""
            verdict = None if standing is None else standing.verdict
            judged = -2 if verdict is None else verdict.round
            part = "is done with it" if passes.round in (client.last_round, judged) else "was not drawn"
            self._tell("standby", f"{called}{of} is under way; this participant {part}", round=passes.round)
        elif passes.reason and passes.reason != standby:
            self._tell("standby", f"{passes.run_phase.lower()}: {passes.reason}", round=passes.round)

    def trouble(self, what: str, error: Exception) -> None:
        """With weights. Said once for each reason."""
        text = f"cannot {what} weights: {error}; tries on"
        if text != self._trouble:
            self._trouble = text
            self._tell("unreachable", text, level=logging.WARNING)

    def round(self, work: Work) -> None:
        what = f"round {work.round} of {work.rounds}: {work.epochs} epochs" if work.round >= 0 else "initial weights"
        self._tell("round", what, round=work.round)

    def epoch(self, work: Work, number: int, metrics: dict[str, float]) -> None:
        text = f"round {work.round}: epoch {number + 1} of {work.epochs}{_numbers(metrics)}"
        self._tell("epoch", text, level=logging.DEBUG, round=work.round, metrics=metrics)

    def trained(self, work: Work, samples: int, metrics: dict[str, Any]) -> None:
        text = f"round {work.round}: trained on {samples} samples{_numbers(metrics)}"
        self._tell("trained", text, round=work.round, samples=samples, metrics=metrics)

    def warning(self, round_: int, text: str) -> None:
        """Something that the training does not lose, but people should know."""
        self._tell("warning", f"round {round_}: {text}", level=logging.WARNING, round=round_)

    def verdict(self, outcome: Outcome) -> None:
        called = f"round {outcome.round}" if outcome.round >= 0 else "initial weights"
        said = "admitted" if outcome.admitted else f"not counted: {outcome.why}"
        level = logging.INFO if outcome.admitted else logging.WARNING
        self._tell("verdict", f"{called}: {said}", level=level, round=outcome.round, admitted=outcome.admitted)

    def over(self, ended: str, reason: str) -> None:
        self._tell("over", f"{ended}: {reason}" if reason else ended)

    def _tell(self, what: Any, text: str, *, level: int = logging.INFO, **more: Any) -> None:
        log.log(level, "%s: %s", self._member, text)
        if self._on_news is not None:
            try:
                self._on_news(ParticipantNews(what, text, **more))
            except Exception:
                log.exception("%s: on_news failed; a callback must not cost a training", self._member)


def _numbers(metrics: dict[str, Any]) -> str:
    shown = ", ".join(f"{name} {value:.4g}" for name, value in metrics.items() if isinstance(value, float))
    return f": {shown}" if shown else ""

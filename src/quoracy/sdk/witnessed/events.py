"""What happens to a witnessed member, told as it happens: to a callback, and to the log (``quoracy``).

Whoever has a callback sees it there: the log has it too, but is not loud about it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec

from quoracy.core.errors import Refusal
from quoracy.core.witnessed import facts
from quoracy.core.witnessed.state import MemberState
from quoracy.core.witnessed.views import RoundShown, Standing
from quoracy.sdk.client.connection import Outage
from quoracy.sdk.client.driver import log

WAITS: Final = MemberState.PENDING.value
UNREACHED_SHOWN: Final = 3
"""Peers of which it is said why."""


class MemberNews(msgspec.Struct, frozen=True):
    """One happening, as a member sees it."""

    what: Literal["standing", "loaded", "round", "trained", "applied", "stored", "evaluated", "trouble", "over"]
    text: str
    epoch: int = -1
    round: int = -1
    step: int = -1
    model: str = ""
    metrics: dict[str, float] = {}


OnMemberNews = Callable[[MemberNews], None]


class Teller:
    def __init__(self, member: str, on_news: OnMemberNews | None) -> None:
        self._member = member
        self._on_news = on_news
        self._state = ("", "")
        self._round = (-1, -1, "")
        self._trouble = ""
        self._turned = ""
        self._away = False
        self._telling = threading.RLock()
        """The conductor and the trainer have news; whoever listens is told one thing at a time."""

    def line(self, outage: Outage | None, turned: Refusal | None) -> None:
        """Whether there is a coordinator, and whether it lets this member in."""
        if outage is not None and not self._away and outage.tries > 1:
            self._away = True
            self._tell("trouble", f"no coordinator: {outage.why}; tries on", logging.WARNING)
        elif outage is None and self._away:
            self._away = False
            self._tell("standing", "the coordinator answers")
        if turned is not None and turned.why != self._turned:
            self._turned = turned.why
            self._tell("trouble", f"not let in yet: {turned.why}; tries on", logging.WARNING)

    def stands(self, standing: Standing) -> None:
        now = (standing.state, standing.phase)
        if now != self._state:
            self._state = now
            why = f": {standing.reason}" if standing.reason else ""
            text = f"{self._member} is {standing.state} in epoch {standing.epoch} ({standing.phase}){why}"
            self._tell("standing", text, epoch=standing.epoch)

    def round(self, shown: RoundShown) -> None:
        now = (shown.epoch, shown.round, shown.phase)
        if now == self._round:
            return
        self._round = now
        text = f"epoch {shown.epoch} round {shown.round}: {shown.phase}"
        what, level = "round", logging.DEBUG
        if self._state[0] == WAITS:  # it has nothing else to tell
            what, level = "standing", logging.INFO
            text = f"{self._member} is {WAITS}; {text}"
        self._tell(what, text, level, epoch=shown.epoch, round=shown.round, step=shown.step)

    def did(self, job: Any, outcome: Any, seconds: float, came_from: str) -> None:
        took = f"{seconds:.2f} s"
        match outcome:
            case facts.ModelLoaded(step=step, model=model):
                self._tell("loaded", f"model of step {step} {came_from} in {took}", step=step, model=model.hex())
            case facts.ResultTrained(work=work, samples=samples, loss=loss):
                text = f"epoch {work.epoch} round {work.round}: trained {samples} samples in {took}, loss {loss:.4f}"
                self._tell("trained", text, logging.DEBUG, epoch=work.epoch, round=work.round, metrics={"loss": loss})
            case facts.ModelApplied(step=step, model=model):
                text = f"step {step}: {len(job.results)} results applied in {took}"
                self._tell("applied", text, logging.DEBUG, step=step, model=model.hex())
            case facts.ModelStored(step=step, size_bytes=size):
                self._tell("stored", f"checkpoint of step {step} stored, {size} bytes in {took}", step=step)
            case facts.ModelNotLoaded(why=why):
                self.trouble(f"the model cannot be loaded: {why}; tries on")
            case facts.ModelNotStored(why=why):
                self.trouble(f"the checkpoint cannot be stored: {why}; tries on")

    def bad_result(self, member: str, round_: int, why: str) -> None:
        self.trouble(f"the result of {member} in round {round_} is not what it should be: {why}")

    def unreached(self, tried: int, why: dict[str, str]) -> None:
        some = "; ".join(list(why.values())[:UNREACHED_SHOWN])
        self.trouble(f"{len(why)} of {tried} peers cannot be reached: {some}; goes on without a connection to them")

    def trouble(self, text: str) -> None:
        """Said once, until there is another."""
        if text != self._trouble:
            self._trouble = text
            self._tell("trouble", text, logging.WARNING)

    def evaluated(self, step: int, metrics: dict[str, float]) -> None:
        numbers = ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())
        if numbers:
            self._tell("evaluated", f"step {step}: {numbers}", step=step, metrics=metrics)

    def over(self, ended: str, reason: str) -> None:
        self._tell("over", f"{ended}: {reason}" if reason else ended)

    def _tell(self, what: Any, text: str, level: int = logging.INFO, **more: Any) -> None:
        log.log(level if self._on_news is None else min(level, logging.INFO), "%s: %s", self._member, text)
        if self._on_news is not None:
            with self._telling:
                self._call(self._on_news, MemberNews(what, text, **more))

    def _call(self, on_news: OnMemberNews, news: MemberNews) -> None:
        try:
            on_news(news)
        except Exception:
            log.exception("%s: on_news failed; a callback must not cost a training", self._member)

"""How long each wait of a run had lasted when it ended, on the run's own clock, and how long it should have.

A deliberately simple twin of the run's windows: an event that calls itself late must have waited for all of its time,
or there must have been nobody left to wait for.
"""

from __future__ import annotations

from statistics import median_low
from typing import Any, Final

from quoracy.core.codec import us
from quoracy.core.witnessed.config import Config
from quoracy.core.witnessed.events import CooldownEnded, RoundSealed, TrainEnded, WarmupBegan, WarmupEnded
from quoracy.core.witnessed.state import Course as Folded
from quoracy.core.witnessed.state import MemberState

TIMED: Final = 8
"""Of so many rounds the training is remembered."""


class Waits:
    def __init__(self) -> None:
        self.waited_us = 0
        """When the newest of these events came: how long what it ended had lasted..."""
        self.whole_us = 0
        """...and how long it may last."""
        self.deserted = False
        """Nobody was left to wait for."""
        self._since_us = 0
        self._at_us = 0
        self._took_part: set[tuple[str, int]] = set()
        """Members and their lives that were in a round of this epoch."""
        self._trained_us: list[int] = []
        self._overran = False
        self._allowed_us = 0
        """For the training of the newest round."""

    def come(self, event: Any, at_us: int, folded: Folded) -> None:
        """Before the event counts."""
        self._at_us = at_us
        self.waited_us = at_us - self._since_us
        if isinstance(event, TrainEnded | RoundSealed):
            self.deserted = not folded.in_step
        elif isinstance(event, CooldownEnded):
            behind = [one for one in folded.here.values() if one.state is MemberState.RESYNCING]
            have = any((one.id, one.incarnation) in self._took_part for one in behind)
            self.deserted = not folded.in_step and not have
        else:
            self.deserted = False

    def take(self, event: Any, config: Config, fell_back: bool) -> None:
        """When it counts. Who warms up for a model that is nowhere any more has all the time again for another."""
        match event:
            case WarmupBegan():
                self._took_part.clear()
            case WarmupEnded():
                self.whole_us = us(config.warmup_s)
            case TrainEnded():
                self.whole_us = self._allowed_us
                self._trained_us = [*self._trained_us, self.waited_us][-TIMED:]
                self._overran = event.late
            case RoundSealed():
                self.whole_us = us(config.round_witness_s)
            case CooldownEnded():
                self.whole_us = us(config.cooldown_s)
        if fell_back or isinstance(event, WarmupBegan | WarmupEnded | TrainEnded | RoundSealed):
            self._since_us = self._at_us

    def begin(self, config: Config, lives: dict[str, int]) -> None:
        """A round may train for three times what rounds take; after one that was too long, twice what that one had;
        within bounds."""
        self._took_part |= lives.items()
        most_us = us(config.round_train_max_s)
        wanted_us = [most_us]
        if config.adaptive_deadline and self._trained_us:
            again_us = 2 * self._allowed_us if self._overran else 0
            wanted_us = [us(config.deadline_floor_s), 3 * median_low(self._trained_us), again_us]
        self._allowed_us = min(most_us, max(wanted_us))

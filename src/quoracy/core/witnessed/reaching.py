"""Whether a member has tried to reach the others: in every warm-up, once, before it says that it is ready.

A peer that cannot be reached holds nobody up: what it makes comes through others, or through the coordinator. Who comes
or moves later in the warm-up is not tried again; it is reached when something is wanted of it.
"""

from __future__ import annotations

from quoracy.core.witnessed.facts import Pace, PeersTried, Reach
from quoracy.core.witnessed.sight import WARMING, Sight


class Reaching:
    def __init__(self, sight: Sight, pace: Pace) -> None:
        self._sight = sight
        self._pace = pace
        self._incarnation = 0
        self._epoch = -1
        """In whose warm-up this life has begun to try."""
        self.until_us = 0
        """So long the answer is waited for."""

    def begin_life(self, incarnation: int) -> None:
        self._incarnation, self._epoch, self.until_us = incarnation, -1, 0

    def begin(self, now_us: int) -> Reach | None:
        """In warm-up, as soon as it is known who the others are."""
        sight, standing = self._sight, self._sight.standing
        if standing is None or standing.state != WARMING or self._epoch == standing.epoch:
            return None
        if sight.peers_epoch != standing.epoch:
            return None
        self._epoch = standing.epoch
        peers = tuple(name for name in sight.others() if sight.can_be_asked(name) and sight.peers[name].key)
        self.until_us = now_us + self._pace.reach_us if peers else 0
        return Reach(standing.epoch, self._incarnation, peers) if peers else None

    def tried(self, fact: PeersTried) -> None:
        if (fact.epoch, fact.incarnation) == (self._epoch, self._incarnation):
            self.until_us = 0

    def is_over(self, epoch: int, now_us: int) -> bool:
        """Whether all were tried in this warm-up, or long enough."""
        return self._epoch == epoch and now_us >= self.until_us

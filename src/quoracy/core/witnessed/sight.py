"""Where the run stands, as far as a member was shown.

Views are shown apart and may come in any order, late or doubled; the newest counts. An epoch and its rounds only go
forward, so that what belongs to an earlier one is known to be old.
"""

from __future__ import annotations

from typing import Any, Final

from quoracy.core.witnessed.committee import Assignment, Committee, draw
from quoracy.core.witnessed.lists import Lists
from quoracy.core.witnessed.views import Peer, PeersShown, Result, RoundShown, Standing

WARMING: Final = "Warming"
IN_STEP: Final = "InStep"
RESYNCING: Final = "Resyncing"
TRAIN: Final = "RoundTrain"
WITNESS: Final = "RoundWitness"
COOLDOWN: Final = "Cooldown"
FINISHED: Final = "Finished"
OVER: Final = frozenset({"Removed", "Done"})
_BACK: Final = frozenset({(WITNESS, TRAIN), (COOLDOWN, TRAIN), (COOLDOWN, WITNESS)})
"""From one phase to another of the same round: only what is old looks like that."""


class Sight:
    def __init__(self, run: str, member: str) -> None:
        self._run = run
        self._member = member
        self.standing: Standing | None = None
        self.round: RoundShown | None = None
        self.committee: Committee | None = None
        """In a round: who witnesses and who trains what."""
        self.peers: dict[str, Peer] = {}
        self.peers_epoch = -1
        """Of which epoch these are, as this life was shown."""
        self.lists = Lists()
        self._others: tuple[Any, Any, tuple[str, ...]] = (None, None, ())
        self._mine: tuple[Any, Any, list[Assignment]] = (None, None, [])

    def begin_again(self) -> None:
        """A new life is shown everything anew."""
        self.standing = self.round = self.committee = None
        self.peers_epoch = -1

    # -- seeing -----------------------------------------------------------------------------------------------------

    def see_standing(self, shown: Standing) -> bool:
        """Whether it counts."""
        known = self.standing
        if known is not None:
            if shown.epoch < known.epoch:
                return False
            if shown.epoch == known.epoch and shown.state == WARMING and known.state == IN_STEP:
                return False  # an epoch has one warm-up
        self.standing = shown
        return True

    def see_round(self, shown: RoundShown) -> bool:
        """Whether it counts."""
        known = self.round
        if known is not None:
            before, after = (known.epoch, known.round), (shown.epoch, shown.round)
            back = before == after and (known.phase, shown.phase) in _BACK
            fewer = before == after and known.phase == shown.phase and len(shown.moved) < len(known.moved)
            if after < before or back or fewer:
                return False
        self.round = shown
        self.committee = draw(self._run, shown) if shown.phase in (TRAIN, WITNESS) else None
        self.lists.forget_before(shown.epoch, shown.round - 1)
        return True

    def see_peers(self, shown: PeersShown) -> None:
        self.peers = {peer.member: peer for peer in shown.peers}
        self.peers_epoch = shown.epoch

    # -- knowing ----------------------------------------------------------------------------------------------------

    def state(self) -> str:
        return "" if self.standing is None else self.standing.state

    def phase(self) -> str:
        return "" if self.round is None else self.round.phase

    def now(self) -> tuple[int, int]:
        """Epoch and round."""
        return (-1, -1) if self.round is None else (self.round.epoch, self.round.round)

    def takes_part(self, *states: str) -> bool:
        """Whether this member is one of these. Standing and round must be of one epoch to be compared."""
        standing, shown = self.standing, self.round
        if standing is None or shown is None:
            return False
        return standing.state in states and standing.epoch == shown.epoch

    def in_round(self) -> bool:
        """In step, while a round runs."""
        return self.committee is not None and self.takes_part(IN_STEP)

    def is_witness(self) -> bool:
        return self.committee is not None and self._member in self.committee.witnesses

    def listed(self) -> tuple[Result, ...]:
        """The round's journaled results, as far as they were shown."""
        return self.lists.of(*self.now()) or ()

    def mine(self) -> list[Assignment]:
        """What this member is to train in the round that runs, and the journal does not have."""
        if self.committee is None or self.phase() != TRAIN or not self.takes_part(IN_STEP):
            return []
        shown, listed, mine = self._mine
        if shown is not self.round or listed is not self.listed():  # asked for after every fact
            shown, listed = self.round, self.listed()
            known = {(result.assignment, result.attempt) for result in listed}
            mine = [each for each in self.committee.of(self._member) if (each.index, each.attempt) not in known]
            self._mine = (shown, listed, mine)
        return mine

    def can_be_asked(self, member: str) -> bool:
        """Whose address nobody knows cannot be blamed for not answering."""
        return member in self.peers and bool(self.peers[member].addresses)

    def others(self) -> tuple[str, ...]:
        """In an order in which each begins with another: the load is spread."""
        roster = self.round.roster if self.round is not None else ()
        peers, known, others = self._others
        if peers is not self.peers or known is not roster:
            names = sorted({*self.peers, *roster} - {self._member})
            place = next((i for i, name in enumerate(names) if name > self._member), 0)
            others = (*names[place:], *names[:place])
            self._others = (self.peers, roster, others)
        return others

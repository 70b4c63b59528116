"""What members said to each other directly, held against what the journal says.

Whoever commits to a result signs it, and announces it with that signature. Two signatures for one assignment and
attempt over different digests prove that their maker told different things to different members; the journal has one
of them, and any member that was given the other can show it.

Little is kept: of the round that runs, the one before and the one after, and of each maker and assignment two
announcements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from quoracy.core.witnessed.events import signed_by_trainer
from quoracy.core.witnessed.facts import ResultAnnounced
from quoracy.core.witnessed.views import Peer, Result, ResultsShown

Verify = Callable[[bytes, bytes, bytes], bool]
"""Public key, message, signature."""
MOST_SAID: Final = 2
"""Different announcements of one maker for one assignment and attempt: two prove as much as ten."""
MOST_ROUND: Final = 4096

Place = tuple[int, int, int, int, str]
"""Epoch, round, assignment, attempt, member."""


class Proofs:
    def __init__(self, run: str, verify: Verify | None) -> None:
        self._run = run
        self._verify = verify
        self._said: dict[Place, dict[bytes, ResultAnnounced]] = {}
        self._listed: dict[tuple[int, int], tuple[Result, ...]] = {}
        self.heard = 0
        """How many were believed."""
        self._shown: set[str] = set()
        """Whom this member has already shown to be two-faced."""

    def hear(self, fact: ResultAnnounced, peer: Peer | None, now: tuple[int, int]) -> bool:
        """Whether this is worth believing for the moment. ``now``: the round that runs."""
        result = fact.result
        if peer is None or result.member != fact.sender or not self._is_signed(fact, peer):
            return False
        if not _near((fact.epoch, fact.round), now) or result.assignment > MOST_ROUND:
            return False
        place = (fact.epoch, fact.round, result.assignment, result.attempt, result.member)
        said = self._said.setdefault(place, {})
        if len(said) < MOST_SAID:
            said[result.digest] = fact
            self.heard += 1
        return result.digest in said

    def _is_signed(self, fact: ResultAnnounced, peer: Peer) -> bool:
        """Without keys there is nothing to check; and nothing that could prove anything."""
        if not peer.key or self._verify is None:
            return not peer.key
        result = fact.result
        signed = signed_by_trainer(
            self._run, fact.epoch, fact.round, result.assignment, result.attempt, result.member, result.digest,
            result.base,
        )  # fmt: skip
        return self._verify(peer.key, signed, fact.signature)

    def of_round(self, epoch: int, round_: int) -> list[ResultAnnounced]:
        return [
            fact for place, said in self._said.items() if place[:2] == (epoch, round_) for fact in said.values()
        ]  # fmt: skip

    def learn(self, shown: ResultsShown) -> None:
        if len(self._listed.get((shown.epoch, shown.round), ())) < len(shown.results):  # a list only grows
            self._listed[shown.epoch, shown.round] = shown.results

    def forget(self, now: tuple[int, int]) -> None:
        """All but what is near the round that runs."""
        self._said = {place: said for place, said in self._said.items() if _near(place[:2], now)}
        self._listed = {at: results for at, results in self._listed.items() if _near(at, now)}

    def accusations(self) -> list[dict[str, Any]]:
        """Whoever signed something else than it committed to: the fields of a TwoFacedShown, each accused once."""
        found: list[dict[str, Any]] = []
        committed = {at: _by_place(results) for at, results in self._listed.items()} if self._said else {}
        for place, said in self._said.items():
            listed = committed.get(place[:2], {}).get(place[2:])
            if listed is None or place[4] in self._shown:
                continue
            for digest, fact in said.items():
                if digest != listed and fact.signature:
                    self._shown.add(place[4])
                    found.append(_accusation(fact))
                    break
        return found

    def begin_again(self, undecided: list[str]) -> None:
        """A new life: what nobody decided on is shown again."""
        self._shown.difference_update(undecided)


def _by_place(results: tuple[Result, ...]) -> dict[tuple[int, int, str], bytes]:
    return {(result.assignment, result.attempt, result.member): result.digest for result in results}


def _near(one: tuple[int, ...], now: tuple[int, int]) -> bool:
    """This round, the one before, the one after; also across the border of an epoch."""
    if one[0] == now[0]:
        return abs(one[1] - now[1]) <= 1
    return one[0] == now[0] + 1 and one[1] <= 1


def _accusation(fact: ResultAnnounced) -> dict[str, Any]:
    result = fact.result
    return {
        "accused": result.member, "epoch": fact.epoch, "round": fact.round, "assignment": result.assignment,
        "attempt": result.attempt, "digest": result.digest, "base": result.base, "signature": fact.signature,
    }  # fmt: skip

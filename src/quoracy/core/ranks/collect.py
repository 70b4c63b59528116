"""The collector of ranks: beats become suspicions, arrivals become the record of an attempt.

Every rank holds one, since every rank may decide. It judges on its own clock, and two of them may judge differently;
only one record can be written, and it is the record that counts.

An attempt is decided when every member has arrived or is suspected, and enough go on. A member that arrived and then
fell silent is suspected as well: whoever goes on without it need not wait for it next time.
"""

from __future__ import annotations

from typing import Any

import msgspec

from quoracy.core.codec import said_s, seconds, us
from quoracy.core.detector import Detector
from quoracy.core.errors import Refusal
from quoracy.core.machine import Event, Explanation, MemberEvent
from quoracy.core.members import superseded
from quoracy.core.ranks import rules
from quoracy.core.ranks.events import AttemptDecided, RankArrived, RankBeat, RankJoined
from quoracy.core.ranks.explain import Heard, explain
from quoracy.core.ranks.machine import Ranks
from quoracy.core.ranks.state import OUT, Crew, Phase, Rank, RankState


class Arrival(msgspec.Struct, frozen=True):
    ok: bool
    at_us: int


class Collector:
    def __init__(self, machine: Ranks, now_us: int) -> None:
        self.decider = "host"
        """Who proposes what is due here. It does not give itself up: whoever decides is there."""
        self.unsettled = True
        """See ``machine.Collector``."""
        self._look_us = 0
        self._timeout_us = us(machine.crew.config.t_dead_s)
        self._detector = Detector(self._timeout_us, now_us)
        self._arrivals: dict[int, Arrival] = {}
        self._since_us = now_us
        self._calm_until_us = 0
        self._here: tuple[str, ...] = ()
        self._watched = {rank.id: rank.seat for rank in machine.crew.here()}
        """By rank, the life whose silence is known. A newer one must not be given up for the silence of the older."""
        for rank in machine.crew.here():
            self._detector.watch(rank.id, now_us)

    def belong(self, decider: str, look_us: int) -> None:
        """To one that decides under this name and looks at the others' beats that often."""
        self.decider = decider
        self._look_us = look_us

    # -- signals in -------------------------------------------------------------------------------------------------

    def hear(self, signal: RankBeat | RankArrived, machine: Ranks, now_us: int) -> Refusal | None:
        crew = machine.crew
        self.unsettled = True
        rank = crew.ranks.get(signal.member)
        if rank is None:
            return Refusal("unknown_member", f"nobody has taken rank {signal.member}", "join first")
        if signal.incarnation != rank.incarnation:
            return superseded(rank.id, signal.incarnation, rank.incarnation)
        if isinstance(signal, RankBeat):
            self._detector.hear(rank.id, signal.seq, self._written_us(now_us))
            return None
        if signal.attempt != crew.attempt + 1:
            why = f"attempt {signal.attempt} is not the one that is being tried, which is {crew.attempt + 1}"
            return Refusal("stale_token", why, "read the journal, then go on from there")
        if rank.state is not RankState.MEMBER:
            return Refusal("wrong_state", f"rank {rank.id} is {rank.state.value}", "wait to be counted in")
        self._arrivals.setdefault(rank.seat, Arrival(signal.ok, self._came_us(signal, now_us)))
        return None

    def _came_us(self, arrival: RankArrived, seen_us: int) -> int:
        """When it came. Whoever decides sees most arrivals late and all at once, so each says how long it was at the
        attempt. It cannot have come after it was seen."""
        return min(seen_us, self._since_us + arrival.tried_us) if arrival.tried_us else seen_us

    def _written_us(self, seen_us: int) -> int:
        """The earliest that a beat can be which this look was the first to see: the look before did not see it. Where
        that was long ago it is taken for no older than a look, so that an observer whose look came late gives up
        nobody too early."""
        return min(seen_us, max(self._detector.looked_us, seen_us - self._look_us))

    def watched(self, now_us: int) -> None:
        """The observer has looked at everybody's numbers just now. One that has not done so for long knows nothing
        about the others: all start afresh."""
        self._detector.look(now_us)

    def watched_for(self, now_us: int, steady_us: int = 0) -> None:
        """As ``watched``, if somebody else looked in our place until now, without a gap since ``steady_us``: silence
        counts from then at the earliest."""
        self._detector.looked_after(now_us)
        for rank in self._watched:
            self._detector.touch(rank, steady_us)

    # -- events out -------------------------------------------------------------------------------------------------

    def due(self, machine: Ranks, now_us: int) -> list[Event]:
        crew = machine.crew
        self.unsettled = False
        if crew.state is Phase.CLOSED:
            return []
        gone = self.gone(crew, now_us)
        without = {rank.seat for rank in gone}
        here = crew.seats_of_members() - without
        arrived = sorted((seat for seat in self._arrivals if seat in here), key=lambda seat: self._arrivals[seat].at_us)
        if len(arrived) < len(here) or not crew.enough(arrived, crew.coming(not arrived, without)):
            return []
        against = [seat for seat in arrived if not self._arrivals[seat].ok]
        why = [(rank.seat, self._why(rank, now_us)) for rank in gone]
        waits_us = [max(0, now_us - self._arrivals[seat].at_us) for seat in arrived]
        outcome: Any = rules.outcome_of(crew, arrived, against)
        return [AttemptDecided(crew.number, outcome, arrived, against, why, self.decider, waits_us)]

    def gone(self, crew: Crew, now_us: int) -> list[Rank]:
        """Who would be given up now. Looking at everybody says until when nobody can be, since all that is heard
        afterwards only makes it later."""
        if now_us < self._calm_until_us:
            return []
        here = crew.seated().values()
        longest_us = max((self._detector.silent_us(rank.id, now_us) or 0 for rank in here), default=0)
        self._calm_until_us = now_us - longest_us + self._timeout_us + 1
        return [rank for rank in here if self._suspects(rank, now_us)] if longest_us > self._timeout_us else []

    def next_us(self, crew: Crew, now_us: int, most_us: int) -> int:
        """When the next one may have to be given up, after ``now_us`` and at most ``most_us``."""
        if most_us < self._calm_until_us:
            return most_us
        silent = (self._detector.silent_us(rank.id, now_us) for rank in crew.seated().values())
        due_us = (now_us - each + self._timeout_us + 1 for each in silent if each is not None)
        return min((each for each in due_us if now_us < each < most_us), default=most_us)

    def _suspects(self, rank: Rank, now_us: int) -> bool:
        silent_us = self._detector.silent_us(rank.id, now_us)
        known = silent_us is not None and self._watched.get(rank.id) == rank.seat
        return known and (silent_us or 0) > self._timeout_us and rank.id != self.decider

    def _why(self, rank: Rank, now_us: int) -> str:
        silent_us = self._detector.silent_us(rank.id, now_us) or 0
        arrived = " after it had arrived" if rank.seat in self._arrivals else ""
        return f"no sign of life for {said_s(silent_us)}{arrived}; {said_s(self._timeout_us)} are allowed"

    # -- after a commit ---------------------------------------------------------------------------------------------

    def committed(self, events: list[Event], machine: Ranks, now_us: int) -> None:
        for event in events:
            match event:
                case AttemptDecided():
                    self._arrivals.clear()
                    self._since_us = now_us
                case RankJoined():
                    self._detector.watch(event.member, now_us)
                    self._watched[event.member] = machine.crew.ranks[event.member].seat
                case MemberEvent():
                    self._detector.touch(event.member, now_us)
        here = machine.crew.names_here()
        if here is self._here:  # the very same: nobody has come or gone
            return
        self._here = here
        for gone in self._watched.keys() - here:
            del self._watched[gone]
            self._detector.drop(gone)
        for seat in self._arrivals.keys() - machine.crew.seated().keys():
            del self._arrivals[seat]

    def wake_us(self) -> int | None:
        return self._detector.wake_us()

    # -- for people -------------------------------------------------------------------------------------------------

    def silent_us(self, member: str, now_us: int) -> int | None:
        return self._detector.silent_us(member, now_us)

    def has_arrived(self, rank: Rank) -> bool:
        return rank.seat in self._arrivals

    def explain(self, machine: Ranks, now_us: int) -> Explanation:
        gone = [rank.seat for rank in self.gone(machine.crew, now_us)]
        heard = Heard(self._arrivals.keys(), gone, self._detector, self._since_us, self.decider)
        return explain(machine.crew, heard, now_us)

    def overview(self, machine: Ranks, now_us: int) -> dict[str, Any]:
        crew = machine.crew
        return {
            "phase": crew.state.value, "attempt": crew.attempt + 1, "number": crew.number,
            "ranks": [self._rank(crew, rank, now_us) for rank in sorted(crew.ranks.values(), key=Rank.number)],
            "log": [msgspec.structs.asdict(decision) for decision in crew.log],
        }  # fmt: skip

    def _rank(self, crew: Crew, rank: Rank, now_us: int) -> dict[str, Any]:
        silent_us = self._detector.silent_us(rank.id, now_us)
        return {
            "rank": rank.number(), "state": rank.state.value, "incarnation": rank.incarnation,
            "arrived": rank.seat in self._arrivals, "since": rank.since, "reason": rank.reason,
            "last_iteration": crew.last_iteration(rank),
            "silent_s": None if silent_us is None or rank.state in OUT else seconds(silent_us),
            "address": rank.address,
        }  # fmt: skip

"""One attempt at one iteration, as a rank's training loop sees it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Protocol

from quoracy.core.errors import ConfigError
from quoracy.core.ranks.part import Turn
from quoracy.core.ranks.state import Decision, Rank
from quoracy.sdk.ranks.heartbeat import Sight


class Loop(Protocol):
    """Whose attempt it is."""

    run: str
    rank: int

    def settle(self, iteration: Iteration, ok: bool) -> bool: ...

    def learned(self) -> None: ...

    def make_once(self, name: str, make: Callable[[], bytes]) -> bytes: ...

    def missing(self, lives: dict[int, int]) -> list[int]: ...

    def glance(self) -> Sight | None: ...

    def recall(self, before: Decision) -> Decision: ...


class Iteration:
    """The same for everybody who is in it, except ``index`` and ``joined``."""

    def __init__(self, ranks: Loop, turn: Turn, known: dict[int, Rank]) -> None:
        self._ranks = ranks
        self.number = turn.number
        """Of the training iteration: grows only when an attempt at it was committed."""
        self.attempt = turn.attempt
        """Always grows."""
        self.members = [int(name) for name in turn.members]
        """The ranks that are in, in order."""
        self.index = turn.index
        """This rank's place among them; -1 for a learner, which is not in yet."""
        self.joined = turn.joined
        """This process was not in the attempt before: it has to take over the model, from one of ``donors`` if there
        are any, from the last checkpoint otherwise."""
        self.donors = [int(name) for name in turn.donors]
        self._before = turn.before
        self.token = turn.token()
        """What checkpoints and messages carry: one that is older than what was seen before comes from a rank that has
        been given up. It grows with every attempt, and also when the run begins anew after its store was lost."""
        self.addresses = {rank: known[rank].address for rank in self.members if rank in known}
        """What each member called its address when it joined."""
        self._lives = {rank: known[rank].incarnation for rank in self.members if rank in known}
        self._voted: bool | None = None

    @property
    def learner(self) -> bool:
        return self.index < 0

    @property
    def group(self) -> str:
        """A name for collectives that only the members of this very attempt use."""
        members = ",".join(str(member) for member in self.members)
        return f"{self._ranks.run}-{self.token}-{hashlib.sha256(members.encode()).hexdigest()[:12]}"

    @property
    def before(self) -> Decision | None:
        """How the last attempt ended: who left and why. Who decided, and how long that took, is only known when the
        record has been read, which is when this rank votes or asks for something that is made once."""
        if self._before is not None and not self._before.decider:
            self._before = self._ranks.recall(self._before)
        return self._before

    @property
    def voted(self) -> bool:
        return self._voted is not None

    def vote(self, ok: bool = True) -> bool:
        """Arrive, and wait for what came of the attempt. True: all who were in said yes, and this rank was among them:
        take the step. False: do not; the loop goes on with what comes next, or ends. Raises CutOff if the store is out
        of reach, Superseded if another process has taken the rank."""
        if self.learner:
            raise ConfigError("vote", self.attempt, "a learner has no vote: call ready() when it holds the model")
        if self._voted is None:
            self._voted = self._ranks.settle(self, ok)
        return self._voted

    def ready(self) -> None:
        """A learner holds the model now: the next record counts it in."""
        if not self.learner:
            raise ConfigError("ready", self.attempt, "only a learner says so: this rank is counted in already")
        if self._voted is None:
            self._ranks.learned()
            self._voted = False

    def once(self, name: str, make: Callable[[], bytes]) -> bytes:
        """Something that one member makes and all members of this attempt use, such as a communicator's id: the same
        bytes for everybody, also if the one that was to make it dies. Raises Rejected if the attempt was decided
        without this rank: vote then."""
        return self._ranks.make_once(name, make)

    def check(self) -> None:
        """Raises CutOff if this rank must not act any more, as far as is known without asking the store: to be called
        before a checkpoint is written, and now and then in a long iteration. Costs microseconds."""
        self._ranks.glance()

    def missing(self) -> list[int]:
        """Members that will not come: silent for too long, or already another process. A collective that waits for one
        of them waits in vain: end it, and vote no. As cheap as ``check``."""
        return self._ranks.missing(self._lives)

    def __repr__(self) -> str:
        return f"Iteration(number={self.number}, attempt={self.attempt}, members={self.members}, index={self.index})"

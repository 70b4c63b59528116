"""One rank's part: join, try, agree, go on, until it leaves or cannot go on. Without I/O, as ``core.peer`` is.

    Joining -> NewIteration -> Training -> Ready -> Consensus -> Advance -> NewIteration -> ...

*Ready* has said that it is done with the attempt and waits for the record. *Consensus* sees that everybody has arrived
or is given up, and competes to write the record. *Advance* adopts it, whoever wrote it.

A fault-free attempt costs a rank two operations: its arrival, and waiting for the record. Whoever arrives is told how
many have; the last one writes the record, and says that it is the usual one. The others go on, and read it when they
arrive the next time. Nothing depends on the count, or on what was said and never heard: whoever waits looks at the
notes and for the record now and then, and decides in turn.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final

import msgspec

from quoracy.core import asks as ops
from quoracy.core.asks import Steps
from quoracy.core.codec import Reader, encode, said_s, us
from quoracy.core.errors import Bug, ConfigError, EntriesGone, Refusal, Refused
from quoracy.core.machine import Event
from quoracy.core.members import Cause
from quoracy.core.peer import Peer
from quoracy.core.ranks.collect import Collector
from quoracy.core.ranks.events import RankArrived, RankBeat, RankJoined, RankLeft, RankReady
from quoracy.core.ranks.machine import Ranks
from quoracy.core.ranks.state import OUT, Crew, Decision, Phase, Rank, RankState
from quoracy.core.ranks.times import Times
from quoracy.core.stagger import lone_delay_us, order
from quoracy.core.waits import soon

PLACES: Final = 8
"""Among which those draw who do not know each other yet."""
MAX_DUTY_NAME: Final = 64
TOO_FEW_FIX: Final = "start the others, or start every rank afresh from the last checkpoint"
GENERATION_BITS: Final = 40
"""Room for attempts below the generation in a token; both together fit into 60 bits."""


class Stage(Enum):
    JOINING = "Joining"
    LEARNER = "Learner"
    TRAINING = "Training"
    READY = "Ready"
    CONSENSUS = "Consensus"
    ADVANCE = "Advance"
    NEW_ITERATION = "NewIteration"
    STOPPED = "Stopped"


class Turn(msgspec.Struct, frozen=True):
    """What a rank is to do next."""

    attempt: int
    number: int
    members: list[str]
    index: int
    joined: bool
    """This life of the rank was not in the attempt before: it has to take over the others' model."""
    donors: list[str]
    """Members that were, and hold it."""
    before: Decision | None
    """How the attempt before this one ended. As long as the record has not been read, it is not known who decided."""
    generation: int = 0
    """Of the run: grows when it begins anew because its store lost its memory."""

    def token(self) -> int:
        """Grows with every attempt, and first of all with the generation: what carries a smaller one is of the past."""
        return (self.generation << GENERATION_BITS) + self.attempt


_delivered: Reader[bytes] = Reader(bytes, "duty")


class Part:
    def __init__(self, peer: Peer, times: Times, learner: bool = False, address: str = "") -> None:
        self.peer = peer
        self.times = times
        self.stage = Stage.JOINING
        self.incarnation = 0
        self.lives = 0
        self._learner = learner
        self._address = address
        self._nonce = b""
        self._seq = 0
        self._letters = 0
        self._let_in = False
        self._hope_us = 0
        """Until when it waits for those who were in before a loss of the store; 0 if it has not begun to."""
        self._now: Turn | None = None
        self._began_us = 0
        """When it was told of the attempt that it is in."""
        peer.folding = self._folding
        peer.outdated = self._outdated

    @property
    def crew(self) -> Crew:
        run, _ = self.peer.folded()
        machine: Any = run.machine
        ranks: Ranks = machine
        return ranks.crew

    @property
    def collector(self) -> Collector:
        _, collector = self.peer.folded()
        held: Any = collector
        known: Collector = held
        return known

    def mine(self) -> Rank | None:
        return self.crew.ranks.get(self.peer.me)

    def explain(self) -> str:
        """At which stage this rank is, and what the run waits for."""
        said = f"rank {self.peer.me} is in stage {self.stage.value}; {self.peer.explain().sentence}"
        if self._hope_us and self.stage is not Stage.STOPPED and self.crew.short(self.crew.coming(alone=True)):
            said += f"; this rank ends {soon(max(0, self._hope_us - self.peer.now_us))}"
        return said

    # -- joining ----------------------------------------------------------------------------------------------------

    def join(self) -> Steps:
        """-> Turn. Raises Refused if this rank cannot be had, or if too few are left of a run that lost its store."""
        self.stage = Stage.JOINING
        began_us = self.peer.now_us
        if self.peer.run is None:
            yield from self._load()
        self._own_collector()
        yield from self._begin_life()
        while True:
            self._check_open()
            standing = self._standing()
            if standing in (RankState.MEMBER, RankState.LEARNING):
                return self._turn(joined=True)
            if standing in OUT:
                yield from self._begin_life()
            elif self._overtaken():
                yield from self._apply()
            self._check_hope(began_us)
            yield from self._await_or_decide(self.peer.await_entry, self._wait_us, self._lone_us)

    def _load(self) -> Steps:
        """Read the journal, perhaps anew. Times that do not fit the run's would give up ranks that are well."""
        yield from self.peer.load()
        self._own_collector()
        run_s = self.crew.config.t_dead_s
        if run_s != self.times.dead_s:
            fix = f"the run was created with {run_s:g}: start every rank with the same, or create another run"
            raise ConfigError("t_dead_s", self.times.dead_s, fix)
        run, _ = self.peer.folded()
        known = run.roster.members.get(self.peer.me)
        self._let_in = self._let_in or (known is not None and known.nonce == self._nonce)

    def _own_collector(self) -> None:
        """Each time the journal is read there is a new one."""
        self.collector.belong(self.peer.me, us(self.times.look_s))

    def _begin_life(self) -> Steps:
        self.lives += 1
        self._nonce = self.peer.draw(b"life")[:16]
        self._seq = 0
        self._let_in = False
        yield from self._apply()

    def _apply(self) -> Steps:
        """Say that this process wants the rank, as the next life after the one that is known."""
        run, _ = self.peer.folded()
        supersedes = run.machine.incarnation_of(self.peer.me)
        cause = Cause(self.peer.me, supersedes, 0)
        event = RankJoined(self.peer.me, supersedes, self._nonce, learner=self._learner, address=self._address)
        would = self.peer.would(cause, event)
        if isinstance(would, Refusal):
            raise Refused(would)
        self.incarnation = supersedes + 1
        yield from self._post(cause, event)

    def _post(self, cause: Cause, event: Event) -> Steps:
        self._letters += 1
        yield ops.Post(ops.letter(f"{self.peer.me}.{self._nonce.hex()}", self._letters, cause, event))

    def _say(self, event: Event) -> Steps:
        """The next command of this life."""
        self._seq += 1
        yield from self._post(Cause(self.peer.me, self.incarnation, self._seq), event)

    def _folding(self, recorded: list[tuple[Cause | None, Event]]) -> None:
        for _, event in recorded:
            if isinstance(event, RankJoined) and event.nonce == self._nonce:
                self._let_in = True

    def _overtaken(self) -> bool:
        """Another process got the life that this one asked for, and this one was never let in: it asks for the next.
        Whoever was let in and then superseded ends instead, so two processes never take turns."""
        run, _ = self.peer.folded()
        return run.machine.incarnation_of(self.peer.me) >= self.incarnation and self._standing() is None

    def _standing(self) -> RankState | None:
        """What this life of the rank is by now, None if it has not been let in. Raises Refused if another process was
        let in after it."""
        run, _ = self.peer.folded()
        known = run.roster.members.get(self.peer.me)
        if known is not None and known.nonce == self._nonce:
            return self.crew.ranks[self.peer.me].state
        if not self._let_in or known is None:
            return None
        self.stage = Stage.STOPPED
        why = f"another process has taken rank {self.peer.me}, as its incarnation {known.incarnation}"
        raise Refused(Refusal("superseded", why, "exit: each rank is for one process"))

    def _check_open(self) -> None:
        if self.crew.state is Phase.CLOSED:
            self.stage = Stage.STOPPED
            why = f"the run is over: {self.crew.reason or 'it was stopped'}"
            raise Refused(Refusal("run_closed", why, "nothing"))

    def _check_hope(self, began_us: int) -> None:
        """After the loss of a store the first record needs a majority of those who were in before. If too many of them
        have died since the run began anew, nobody else can make up for them: who is left ends, as a minority does."""
        waited_us, crew = self.peer.now_us - began_us, self.crew
        self._hope_us = began_us + self.times.patience_us()
        here = crew.coming(alone=True)
        if waited_us <= self.times.patience_us() or not (short := crew.short(here)):
            return
        self.stage = Stage.STOPPED
        before = crew.config.began_members
        there = ", ".join(rank.id for rank in here if rank.id in before) or "nobody"
        why = (
            f"the store has lost its memory, and of those who were in before ({', '.join(before)}) only {there} joined "
            f"again within {said_s(waited_us)}; {short} more are needed to go on"
        )
        raise Refused(Refusal("store_lost", why, TOO_FEW_FIX))

    def ready(self) -> Steps:
        """A learner holds the model now. -> Turn, as soon as it is counted in."""
        began_us = self.peer.now_us
        yield from self._say(RankReady(self.peer.me, self.incarnation))
        while True:
            self._check_open()
            standing = self._standing()
            if standing is RankState.MEMBER:
                return self._turn(joined=True)
            if standing in OUT:
                return (yield from self.join())
            self._check_hope(began_us)
            yield from self._await_or_decide(self.peer.await_entry, self._wait_us, self._lone_us)

    # -- attempts ---------------------------------------------------------------------------------------------------

    def vote(self, ok: bool) -> Steps:
        """Arrive, and agree with the others on what came of the attempt. -> Turn. A rank that the record does not
        name begins a new life, and is told so by ``joined``."""
        attempt = self._trying().attempt
        self.stage = Stage.READY
        note = encode(RankArrived(self.peer.me, self.incarnation, attempt, ok, self.peer.now_us - self._began_us))
        if self._decided() < attempt:
            yield from self._arrive(attempt, note)
        while self._decided() < attempt:
            self._check_open()
            mine = self.mine()
            if self._standing() is not RankState.MEMBER or mine is None:
                raise Bug(f"rank {self.peer.me} is out of attempt {attempt} before there is a record of it")
            looked = yield from self._await_or_decide(self.peer.await_usual, self._next_us, self._turn_us)
            if looked and self._decided() < attempt and not self.collector.has_arrived(mine):
                yield from self.peer.arrive(attempt, note, len(self.crew.members()))  # the store has lost it, as it may
        self.stage = Stage.ADVANCE
        if self._standing() is not RankState.MEMBER:
            yield from self.settle()
            return (yield from self.join())
        return self._turn(joined=False) if self.peer.unread is None else self._usual_turn()

    def _decided(self) -> int:
        """The newest attempt of which there is a record, read or not."""
        return self.crew.attempt + (self.peer.unread is not None)

    def _trying(self) -> Turn:
        if self._now is None or self._now.index < 0:
            raise Bug(f"rank {self.peer.me} is in no attempt")
        return self._now

    def _arrive(self, attempt: int, note: bytes) -> Steps:
        """Who is told that all have come decides at once. Letters that somebody wrote in meanwhile do not keep it."""
        try:
            peer = self.peer
            arrived = yield from peer.arrive(attempt, note, len(self.crew.members()))
            if arrived.count < len(self.crew.members()):
                return
            self.stage = Stage.CONSENSUS
            if arrived.notes is None:
                yield from peer.gather(attempt)
            else:
                peer.observe(arrived.notes, peer.now_us)
            if self.collector.gone(self.crew, peer.now_us):
                yield from self._look()
            written = yield from peer.propose(arrived.letters)
            while written and self._decided() < attempt:
                written = yield from self.peer.propose()
        except EntriesGone:
            yield from self._load()

    def _await_or_decide(
        self, wait: Callable[[int], Steps], patience_us: Callable[[], int], delay_us: Callable[[], int]
    ) -> Steps:
        """Wait for the next entry a while; if none comes, and in this rank's turn, see whether one is due, and write
        it. -> whether this rank has seen everybody's notes meanwhile."""
        try:
            if (yield from wait(patience_us())):
                return False
            if (yield from self._await_turn(wait, delay_us)):
                return False
            self.stage = Stage.CONSENSUS if self.stage is Stage.READY else self.stage
            if self.crew.members():
                yield from self.peer.gather(self.crew.attempt + 1)
            yield from self._look()
            yield from self.peer.propose()
        except EntriesGone:
            yield from self._load()
            return False
        return True

    def _await_turn(self, wait: Callable[[int], Steps], delay_us: Callable[[], int]) -> Steps:
        """As long as the order says, and no longer than usual at a time: an entry may be there that nobody told of. If
        somebody has to be given up meanwhile the order is another one, and what was waited counts. -> whether there is
        an entry."""
        began_us = now_us = self.peer.now_us
        while (turn_us := began_us + delay_us()) > now_us:
            most_us = min(turn_us, now_us + us(self.times.wait_s()))
            if (yield from wait(self.collector.next_us(self.crew, now_us, most_us) - now_us)):
                return True
            now_us = self.peer.now_us
        return False

    def _look(self) -> Steps:
        """Nobody is given up before its beats were looked at just now."""
        yield from self.peer.look()
        self.collector.watched(self.peer.now_us)

    def _wait_us(self) -> int:
        return us(self.times.wait_s())

    def _next_us(self) -> int:
        """Until the next look, or until there may be somebody to give up."""
        now_us = self.peer.now_us
        return self.collector.next_us(self.crew, now_us, now_us + us(self.times.wait_s())) - now_us

    def _turn_us(self) -> int:
        """By place in the drawn order, among those who would not be given up. Not all at once, or most would find that
        they did it for nothing; and not so late that an observer would take the wait for a stall of its own."""
        head = self.peer.folded()[0].head
        drawn = order(head.run, head.digest, head.n + 1, self.crew.names_of_members())
        out = {rank.id for rank in self.collector.gone(self.crew, self.peer.now_us)}
        place = [name for name in drawn if name not in out].index(self.peer.me)
        return min(place * us(self.times.slot_s), us(self.times.beat_s))

    def _lone_us(self) -> int:
        """The same for one who is not in, and does not know who else may decide."""
        head = self.peer.folded()[0].head
        delay_us = lone_delay_us(head.run, head.digest, head.n + 1, self.peer.me, PLACES, us(self.times.slot_s))
        return min(delay_us, us(self.times.beat_s))

    def _usual_turn(self) -> Turn:
        """After the usual, which has yet to be read: everybody who was in goes on. Who decided is not known yet."""
        crew, now = self.crew, self._trying()
        names = crew.names_of_members()
        index = now.index if names is now.members else names.index(self.peer.me)
        before = Decision(crew.attempt + 1, crew.number, "committed", "", names, [], [], [], 0, 0, "")
        self.stage = Stage.NEW_ITERATION
        self._began_us = self.peer.now_us
        self._now = Turn(
            crew.attempt + 2, crew.number + 1, names, index, False, names, before, crew.config.generation
        )  # fmt: skip
        return self._now

    def recall(self, before: Decision) -> Decision:
        """The same, as the record has it, if this rank has read it by now."""
        return next((each for each in reversed(self.crew.log) if each.attempt == before.attempt), before)

    def settle(self) -> Steps:
        """Read what is unread, for those who want to know more than that it was the usual."""
        try:
            yield from self.peer.settle()
        except EntriesGone:
            yield from self._load()

    def _turn(self, joined: bool) -> Turn:
        """As the record says, and not as things are by now: everybody in the attempt must see the same."""
        crew = self.crew
        before = crew.log[-1] if crew.log else None
        names = before.members if before is not None else []
        in_it = self._standing() is RankState.MEMBER
        self.stage = Stage.NEW_ITERATION if in_it else Stage.LEARNER
        came = before.came if before is not None else []
        donors = [name for name in names if name not in came] if came else names
        if not in_it:
            donors = donors or names
        index = names.index(self.peer.me) if in_it else -1
        self._began_us = self.peer.now_us
        self._now = Turn(crew.attempt + 1, crew.number, names, index, joined, donors, before, crew.config.generation)
        return self._now

    # -- duties -----------------------------------------------------------------------------------------------------

    def once(self, name: str, make: Callable[[], bytes]) -> Steps:
        """Something that one member makes and all members of the attempt use, such as a communicator's id. -> the same
        bytes for everybody. The one named for it makes it; if it does not in ``times.help_s``, any other does, and
        what was delivered first counts. Raises Refused if the attempt has gone on without this rank."""
        turn = self._trying()
        if not 0 < len(name) <= MAX_DUTY_NAME or not name.isascii() or not name.isprintable() or " " in name:
            raise ConfigError("name", name, f"1 to {MAX_DUTY_NAME} printable ASCII characters without spaces")
        began_us, pause_us = self.peer.now_us, us(self.times.slot_s)
        yield from self.settle()  # or they would not agree on whom the record names
        patience_us = self._patience_us(turn)
        made: bytes | None = None
        while True:
            if made is None and self.peer.now_us - began_us >= patience_us:
                made = encode(make())
                yield ops.Post(ops.Letter(ops.DUTY + name, turn.attempt, made))
            letters: list[ops.Letter] = yield ops.Collect()
            for letter in letters:
                if (letter.sender, letter.seq) == (ops.DUTY + name, turn.attempt):
                    return _value(letter)
            yield from self._pause(pause_us)
            pause_us = min(2 * pause_us, us(self.times.wait_s()))
            if self.crew.attempt >= turn.attempt:
                why = f"attempt {turn.attempt} has been decided without rank {self.peer.me}"
                raise Refused(Refusal("stale_token", why, "vote: the rank joins again"))

    def _patience_us(self, turn: Turn) -> int:
        """Who decided the last attempt was alive and quick; it is named, if it is in."""
        decider = "" if turn.before is None else self.recall(turn.before).decider
        named = decider if decider in turn.members else turn.members[0]
        if self.peer.me == named:
            return 0
        return us(self.times.help_s) + min(turn.index * us(self.times.slot_s), us(self.times.wait_s()))

    def _pause(self, pause_us: int) -> Steps:
        try:
            yield from self.peer.await_entry(pause_us)
        except EntriesGone:
            yield from self._load()

    def _outdated(self, duty: ops.Letter) -> bool:
        """Its attempt is over: whoever was in it has what was made for it."""
        return duty.seq <= self.crew.attempt

    # -- going ------------------------------------------------------------------------------------------------------

    def leave(self, reason: str = "") -> Steps:
        """Say goodbye. Whoever writes the next entry writes it in; nobody has to wait for that."""
        self.stage = Stage.STOPPED
        if self.incarnation:
            yield from self._say(RankLeft(self.peer.me, self.incarnation, reason))

    def beat(self, count: int) -> ops.Beat:
        """The next sign of life, to be sent every ``times.beat_s``, beside whatever else goes on."""
        seq = (self.incarnation << 32) + count
        return ops.Beat(self.peer.me, seq, encode(RankBeat(self.peer.me, self.incarnation, seq)))


def _value(letter: ops.Letter) -> bytes:
    value = _delivered.read(letter.payload)
    if isinstance(value, Refusal):
        raise Refused(value)
    return value

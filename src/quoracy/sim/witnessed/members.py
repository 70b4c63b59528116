"""Simulated members: each drives the same part as a real one, over the SDK's own logic of membership.

One can be killed at any time or at a stage of its work, stopped beyond every time-out, slow or stuck, cut off from
others or from the coordinator, a liar, or one of two processes under one name. A new process has nothing but its key.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from quoracy.core.codec import encode
from quoracy.core.members import CHALLENGE_BYTES, Accepted, Cause, signed_by_joiner
from quoracy.core.messages import Call, ToHost
from quoracy.core.witnessed import facts
from quoracy.core.witnessed.attestation import Scheme
from quoracy.core.witnessed.events import Attest, HealthCheck, Loaded, MemberJoined, ModelHash
from quoracy.core.witnessed.facts import Action, Fact, Pace
from quoracy.core.witnessed.part import Part
from quoracy.core.witnessed.views import PeersShown, RoundShown, Standing
from quoracy.sdk.client.session import Note
from quoracy.sdk.witnessed.client import Fell, MemberClient
from quoracy.sdk.witnessed.client import Life as LifeShown
from quoracy.sdk.witnessed.session import LIFE, MemberSession
from quoracy.sim.lines import Training
from quoracy.sim.processes import RETRY_US, SimProcess
from quoracy.sim.streams import Streams
from quoracy.sim.witnessed import liars
from quoracy.sim.witnessed.bench import Bench, Objects
from quoracy.sim.witnessed.checkers import WitnessedCheckers
from quoracy.sim.witnessed.exchange import Announcement, Exchange, Gave, GaveModel, Get, GetModel, Kept
from quoracy.sim.witnessed.making import SIZE_BYTES, Model, hashed, key_of, sign, verify
from quoracy.sim.world import MS, World
from quoracy.wire.frames import frame

STAGES: Final = ("training", "trained", "committed", "announced", "attested", "applied", "loaded", "stored")
PACE: Final = Pace(
    resend_us=400 * MS, partial_us=60 * MS, retry_us=150 * MS, retry_max_us=1_000 * MS, accuse_us=4_500 * MS,
    ask_us=900 * MS,
)  # fmt: skip
REACH_US: Final = 5 * MS
"""To try all peers."""
SYBIL: Final = ".sybil"
_TALK: Final = (Get, Gave, GetModel, GaveModel, Kept)


def token_of(member: str) -> str:
    """Each has one of its own."""
    return f"token of {member}"


class Key:
    """What a connection signs joins with."""

    def __init__(self, public: bytes) -> None:
        self.public = public

    def sign(self, message: bytes) -> bytes:
        return sign(self.public, message)


def admitted(call: Call) -> Call:
    """As a door does: with the token that the join came by."""
    join = msgspec.msgpack.decode(call.event, type=MemberJoined)
    token = token_of(join.member.removesuffix(SYBIL))
    return Call(call.run, call.cause, Raw(encode(msgspec.structs.replace(join, token=token, token_ids=1))))


class SimMember(SimProcess):
    logic: MemberSession
    _checkers: WitnessedCheckers

    def __init__(
        self, world: World, streams: Streams, run: str, member: str, process: int, hosts: list[str],
        checkers: WitnessedCheckers, objects: Objects, batch_size: int, reachable: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(world, streams, member, process, hosts, checkers)
        self.dies_at = ""
        """The stage of its work at which it dies."""
        self.lie = ""
        self.lied = False
        self.reports: tuple[str, ...] = ()
        """Whom it takes for inactive, rightly or not: that is an opinion, and no lie."""
        self.sybil = False
        """Whether it wants to be two."""
        self.finished = False
        self.reachable = reachable
        self._run = run
        self._key = key_of(member)
        self.part = Part(run, member, self._sign, verify, PACE)
        self.exchange = Exchange(world, self.network, run, self.name, self._came, self._later)
        self.exchange.serves = self._serve
        self.bench = Bench(world, run, member, batch_size, self.exchange, objects, self._fact, self._later)
        self.bench.done = self._reaches
        self.bench.times = world.rng.choice((1, 1, 1, 2, 4))
        self.exchange.models = self._serve_model
        self._numbers: dict[int, int] = {}
        """Sequence numbers of open commands, and how the part calls them."""
        self._fed: Standing | None = None
        self._others: dict[bytes, bytes] = {}
        """What a liar gives instead of what it committed to."""
        self._wake_us: int | None = None
        about = {"addresses": (self.name,) if reachable else ()}
        self._connections = 0
        self.logic = self._use(
            MemberSession, MemberClient, run, member, self._secret, RETRY_US, self._key, about, key=Key(self._key)
        )
        self._begin()

    # -- life -------------------------------------------------------------------------------------------------------

    def overdue_command(self) -> Cause | None:
        return super().overdue_command() if self.present() else None

    def repent(self) -> None:
        """From now on it is honest."""
        self.lie = ""
        self.reports = ()
        self._others.clear()

    def _reaches(self, stage: str) -> bool:
        """Whether it lives on after this stage of its work."""
        if self.dies_at == stage:
            self.world.note(self.name, lambda: f"dies, {stage}")
            self.kill()
        return self.alive

    def _later(self, delay_us: int, action: Any, *args: Any) -> None:
        self.world.after(delay_us, self._now, action, args)

    def _now(self, action: Any, args: tuple[Any, ...]) -> None:
        if not self._holds(self._now, action, args) and not self.ended():
            action(*args)

    def _look(self) -> None:
        self.logic.progress += 1
        super()._look()

    def _sign(self, message: bytes) -> bytes:
        return sign(self._key, message)

    # -- talking ----------------------------------------------------------------------------------------------------

    def _receive(self, source: str, message: Any) -> None:
        if isinstance(message, (*_TALK, Announcement)):
            if not self._holds(self._receive, source, message) and not self.ended():
                self._talk(source, message)
        else:
            super()._receive(source, message)

    def _talk(self, source: str, message: Any) -> None:
        if isinstance(message, Announcement):
            told = message
            self._fact(facts.ResultAnnounced(told.sender, told.epoch, told.round, told.result, told.signature))
        else:
            self.exchange.receive(source, message)

    def _turn_to(self, host: str) -> None:
        super()._turn_to(host)
        self._fact(facts.Connected())

    def _flush(self) -> None:
        if self.training is not None:
            super()._flush()
            return
        for message in self.logic.take():
            if isinstance(message, Call):
                self._checkers.attempted(self.name, message.cause)
            told = self._proven(message)
            self.world.note(self.name, lambda told=told: f"-> {self._host}: {_said(told)}")  # type: ignore[misc]
            self.network.send(self.name, self._host, told)

    def _proven(self, message: ToHost) -> ToHost:
        """A join shows that its sender has the key, as a real connection sees to."""
        if not isinstance(message, Call) or message.cause.seq:
            return message
        join = msgspec.msgpack.decode(message.event, type=MemberJoined)
        challenge = bytes(CHALLENGE_BYTES)
        signed = signed_by_joiner(challenge, self._run, join.member, join.supersedes, join.nonce)
        proof = challenge + self._sign(signed)
        admitted = msgspec.structs.replace(join, proof=proof, token=token_of(self.member), token_ids=1)
        return Call(message.run, message.cause, Raw(encode(admitted)))

    def _join_again(self) -> None:
        """Under another name, by the token that has brought its own: keys are free."""
        name = f"{self.member}{SYBIL}"
        key, nonce, challenge = key_of(name), hashed(name)[:16], bytes(CHALLENGE_BYTES)
        proof = challenge + sign(key, signed_by_joiner(challenge, self._run, name, 0, nonce))
        join = MemberJoined(name, 0, nonce, key, proof, token=token_of(self.member), token_ids=1)
        call = Call(self._run, Cause(name, 0, 0), Raw(encode(join)))
        self._checkers.attempted(self.name, call.cause)
        if self.training is None:
            self.network.send(self.name, self._host, call)
        elif self.training.line.end is not None:
            self.training.line.end.write(frame(call))

    # -- what the part is told ----------------------------------------------------------------------------------------

    def _act(self) -> None:
        while self._notes and self.alive:
            self._react(self._next_note())
        if self.training is not None:
            self._look_at_views(self.training)
        standing = self.logic.standing
        if self.training is None and self.alive and standing is not None and standing is not self._fed:
            self._stands(standing)
        if self.alive:
            self._flush()

    def _react(self, note: Note) -> None:
        match note.what:
            case "joined":
                result = note.value
                self._numbers.clear()
                if self.sybil:
                    self._join_again()
                if self.training is None:
                    self._life_began(result)
            case "shown" if note.value[0] != LIFE and self.training is None:
                self._see(note.value[1])
            case "answered":
                cause, answer = note.value
                number = self._numbers.pop(cause.seq, None)
                if number is not None:
                    refusal = None if isinstance(answer, Accepted) else answer
                    self._fact(facts.CommandDecided(number, refusal))
            case "refused" if note.value.code == "ejected":
                self.world.note(self.name, lambda: f"ends: {note.value}")
                self.logic.give_up()
            case "lost" | "ended" | "refused":
                self.world.note(self.name, lambda: f"{note.what}: {note.value}")

    def _look_at_views(self, training: Training) -> None:
        """As the conductor of a real member does."""
        client = training.client
        if client.connections != self._connections:
            self._connections = client.connections
            self._fact(facts.Connected())
        while client.views and self.alive:
            view = client.views.popleft()
            if isinstance(view, LifeShown):
                self._life_began(view.result)
            elif isinstance(view, Standing):
                self._stands(view)
            elif not isinstance(view, Fell):
                self._see(view)

    def _life_began(self, result: dict[str, Any]) -> None:
        scheme = Scheme(result["attestation"], result["bloom_false_positives"])
        self._fact(facts.LifeBegan(result["incarnation"], scheme))

    def _stands(self, standing: Standing) -> None:
        self._fed = standing
        self.world.note(self.name, lambda: f"stands: {standing}")
        self._fact(facts.Shown(standing))

    def _see(self, value: Any) -> None:
        self.world.note(self.name, lambda: f"sees {value}")
        if isinstance(value, PeersShown):
            self.exchange.addresses = {peer.member: peer.addresses[0] for peer in value.peers if peer.addresses}
        self._fact(facts.Shown(value))
        committee = self.part.sight.committee
        if isinstance(value, RoundShown) and committee is not None and self.part.sight.round is value:
            self._checkers.drew(self.name, value, committee)

    def _came(self, fact: Fact) -> None:
        """Of the exchange."""
        if isinstance(fact, facts.ModelLoaded | facts.ModelNotLoaded):
            self.bench.loaded(fact)
        else:
            self._fact(fact)

    def _fact(self, fact: Fact) -> None:
        if not self.alive or self.ended():
            return
        if isinstance(fact, facts.ModelApplied):
            self._applied(fact)
        stage = _STAGE_OF.get(type(fact), "")
        if stage and not self._reaches(stage):
            return
        for action in self.part.handle(fact, self.clock_us()):
            if self.alive:
                self._carry_out(action)
        self._arm()
        if self.alive:
            self._advance()
            self._flush()

    def _applied(self, fact: facts.ModelApplied) -> None:
        busy = self.part.footing.busy
        if isinstance(busy, facts.Apply):
            self._checkers.applied(self.name, busy, fact.model, self.bench.rotten)

    def _arm(self) -> None:
        """One timer, at the part's next wish."""
        wake_us = self.part.wake_us()
        if wake_us is None or (self._wake_us is not None and self._wake_us <= wake_us):
            return
        self._wake_us = wake_us
        _, rate = self._clock
        self._later(int(max(0, wake_us - self.clock_us()) / rate) + 1, self._woken, wake_us)

    def _woken(self, wake_us: int) -> None:
        if wake_us == self._wake_us:
            self._wake_us = None
            self._fact(facts.Tick())

    # -- what the part asks for ---------------------------------------------------------------------------------------

    def _carry_out(self, action: Action) -> None:
        self.world.note(self.name, lambda: f"does {action}")
        match action:
            case facts.Send(signal=signal):
                self._say(signal)
            case facts.Command(number=number, event=event, fields=fields):
                self._numbers[self._command(event, **fields)] = number
            case facts.Announce():
                if self._reaches("committed"):
                    self._announce(action)
            case facts.Ask():
                self.logic.look_again()
            case facts.Done():
                self.finished = True
                self.logic.give_up()
            case _:
                self._hand_over(action)

    def _hand_over(self, action: Action) -> None:
        """To the one who trains, or to the exchange."""
        match action:
            case facts.Store(step=step, model=model) if self.lie == liars.HOLLOW:
                self.lied = True
                self._later(REACH_US, self._fact, facts.ModelStored(step, model, hashed("nothing", model), SIZE_BYTES))
            case facts.Load() | facts.Train() | facts.Apply() | facts.Store():
                self.bench.bad_header = self.lie == "header"
                self.lied = self.lied or (self.lie == "header" and isinstance(action, facts.Train))
                self.bench.do(action)
            case facts.Cease(work=work):
                self.bench.cease(work)
            case facts.Fetch():
                self.exchange.fetch(action)
            case facts.Drop(digests=digests):
                self.exchange.drop(digests)
            case facts.Reach(epoch=epoch, incarnation=incarnation):
                self._later(REACH_US, self._fact, facts.PeersTried(epoch, incarnation))
            case facts.Lend(model=wanted):
                if (lent := self.bench.model(wanted)) is not None:
                    self.exchange.put_model(lent)

    def _say(self, signal: Any) -> None:
        said: Any = liars.said(signal, self.lie, self.part) if self.lie else signal
        if said != signal:
            self.lied = True
            if isinstance(said, ModelHash | Loaded):
                self.bench.bad_models.add(said.model)
        self.world.note(self.name, lambda: f"says {said}")
        self.logic.say(said)
        if self.lie == "slanders" and isinstance(signal, ModelHash):
            self.lied = True
            self.logic.say(liars.slander(signal, sorted(self.exchange.addresses.keys() - {self.member})))
        elif self.reports and isinstance(signal, ModelHash):
            self.logic.say(HealthCheck(signal.member, signal.incarnation, signal.step, self.reports, (), signal.epoch))
        if isinstance(signal, Attest):
            self._reaches("attested")

    def _announce(self, announce: facts.Announce) -> None:
        payload = self.exchange.blobs.get(announce.result.digest)
        if payload is None:
            return
        if self.lie == "mismatch":
            self.lied = True
            self._others[announce.result.digest] = payload + b"!"
        if not self.reachable:
            self.exchange.put(announce.result.digest, self._others.get(announce.result.digest, payload))
        other = announce
        if self.lie == "two-faced":
            self.lied = True
            other, bytes_ = liars.other_face(announce, self._run, self._key, payload, self.world.rng)
            self._others[other.result.digest] = bytes_
        for place, (member, address) in enumerate(sorted(self.exchange.addresses.items())):
            if member != self.member:
                told = other if place % 2 else announce
                message = Announcement(self.member, told.epoch, told.round, told.result, told.signature)
                self.network.send(self.name, address, message)
        self._reaches("announced")

    def _serve_model(self, wanted: bytes) -> Model | None:
        model = self.bench.model(wanted)
        if model is None or self.lie != "poisons":
            return model
        self.lied = True
        return msgspec.structs.replace(model, rot=b"poison")

    def _serve(self, digest: bytes) -> bytes | None:
        if digest in self._others:
            return self._others[digest]
        return self.exchange.blobs.get(digest)


_STAGE_OF: Final[dict[type, str]] = {
    facts.ResultTrained: "trained",
    facts.ModelApplied: "applied",
    facts.ModelLoaded: "loaded",
    facts.ModelStored: "stored",
}


def _said(message: Any) -> str:
    return f"{type(message).__name__} {getattr(message, 'cause', '')}"

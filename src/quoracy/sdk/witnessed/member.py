"""A member of a witnessed run: one thread conducts, the caller's thread trains, the exchange gives and takes.

All that is decided is decided in ``core.witnessed.part``. Here its facts are gathered (what the run shows, what was
fetched, what the trainer did) and its actions carried out. While the trainer is busy the conductor goes on: it fetches
the others' results, attests, and answers. Only the conductor touches the part; the other threads tell it facts.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec

from quoracy.core.codec import encode
from quoracy.core.errors import QuoracyError, Refusal
from quoracy.core.witnessed import facts
from quoracy.core.witnessed.attestation import Scheme
from quoracy.core.witnessed.facts import Action, Fact
from quoracy.core.witnessed.part import Part
from quoracy.core.witnessed.sight import COOLDOWN
from quoracy.core.witnessed.views import PeersShown, Result, RoundShown, Standing
from quoracy.sdk.client.client import Request
from quoracy.sdk.client.driver import log
from quoracy.sdk.client.errors import Closed, Draining, RunClosed, Superseded, WorkerError, reason_of
from quoracy.sdk.client.settings import Settings
from quoracy.sdk.client.sync import BlockingDriver
from quoracy.sdk.federated.task import Ledger
from quoracy.sdk.witnessed.blobs import Blobs
from quoracy.sdk.witnessed.client import Fell, Life, MemberClient
from quoracy.sdk.witnessed.events import MemberNews, OnMemberNews, Teller
from quoracy.sdk.witnessed.exchange import Exchange
from quoracy.sdk.witnessed.jobs import Evaluate, Job, Jobs, NotWanted
from quoracy.sdk.witnessed.operations import MemberOperations
from quoracy.sdk.witnessed.session import MemberSession
from quoracy.sdk.witnessed.taking import Taking
from quoracy.sdk.witnessed.work import Outcome, Workroom
from quoracy.trust.keys import MemberKey, check_proof

__all__ = ["Member", "MemberNews", "MemberSummary"]

BETWEEN: Final = frozenset({"WaitingForMembers", "Paused"})
"""Phases in which nobody waits for this member: there is time to evaluate."""


class MemberSummary(msgspec.Struct, frozen=True):
    """How it went, for this process."""

    run: str
    member: str
    trained: int
    """Assignments."""
    applied: int
    """Rounds."""
    step: int
    """Of the model it ended with."""
    model: str
    """Its hash, as people write it."""
    metrics: dict[str, float]
    """Of the last evaluation."""
    ended: Literal["finished", "drained", "superseded"]
    reason: str
    exchanged: dict[str, int] = {}
    """What was given to others and taken from them, and what went through the coordinator."""


class Announced(msgspec.Struct, frozen=True, array_like=True):
    """What members tell each other directly."""

    epoch: int
    round: int
    result: Result
    signature: bytes


_announced: msgspec.msgpack.Decoder[Announced] = msgspec.msgpack.Decoder(Announced)


class Tools(msgspec.Struct, frozen=True):
    """What a member works with. Made once the coordinator has told the run's settings."""

    exchange: Exchange
    blobs: Blobs
    work: Workroom
    key: MemberKey
    tidy: Callable[[], None]
    """Nothing of what was made or fetched is needed any more."""


class Member(BlockingDriver[MemberClient]):
    def __init__(
        self,
        settings: Settings,
        tools: Callable[[Member], Tools],
        *,
        on_news: OnMemberNews | None,
        handle_sigterm: bool | None,
        pace: facts.Pace | None = None,
    ) -> None:
        super().__init__(settings, MemberSession, MemberClient)
        self._operations = MemberOperations(self._client, self._memory, self._drain)
        self._teller = Teller(settings.member, on_news)
        self._ledger = Ledger(self._memory, lambda: True, lambda: None, lambda _number, _metrics: None)
        self._facts: deque[Fact] = deque()
        self._bad: deque[tuple[str, int, str]] = deque()
        """Results that were not what they should be: people are told by the conductor."""
        self._jobs = Jobs()
        self._commands: dict[Request, int] = {}
        """Number of a request to that of the part's command."""
        self._connections = 0
        """How often the coordinator has answered, as far as the part knows."""
        self._drains_in: tuple[int, int] | None = None
        """Epoch and round in which SIGTERM came."""
        self._metrics: dict[str, float] = {}
        self._evaluated = -1
        """The step of which these are."""
        self._over: facts.Done | None = None
        self._tools: Tools | None = None
        self._conducting = threading.Thread(target=self._conduct, name="quoracy-member", daemon=True)
        try:
            self._tools = made = tools(self)
            self._drain.install(handle_sigterm)
        except BaseException as error:
            self.close(reason_of(error))
            raise
        self._work, self._exchange = made.work, made.exchange
        self._taking = Taking(
            made.exchange, made.blobs, lambda: (made.work.model, made.work.layout), self._tell, self._note_bad
        )  # fmt: skip
        self._part = Part(settings.run, settings.member, made.key.sign, check_proof, pace)
        atexit.register(self.close, "its process ended")

    # -- what tools need of it --------------------------------------------------------------------------------------

    def life(self) -> tuple[int, str]:
        """Incarnation and session token; 0 while there is no life."""
        if not self._conducting.is_alive() and not self._closed:
            self._refresh()
        return self._client.incarnation, self._client.token

    def check(self) -> None:
        """Called in the trainer's thread while something is awaited. Raises if it is not wanted any more."""
        self._jobs.check()

    def moved(self, amount: int = 1) -> None:
        """The training has. Raises as ``check`` does: an end to what would be for nothing."""
        self._jobs.check()
        self._memory.progress(amount)

    def trouble(self, text: str) -> None:
        """Tried again, but people want to know."""
        self._teller.trouble(text)

    # -- the whole of it --------------------------------------------------------------------------------------------

    def take_part(self) -> MemberSummary:
        """Until the run is over, SIGTERM comes, or a newer process has taken the id. Whatever else ends it is
        raised."""
        self._conducting.start()
        try:
            summary = self._ended()
        except BaseException as error:
            self.close(reason_of(error))
            raise
        self.close(summary.reason or "done")
        self._teller.over(summary.ended, summary.reason)
        return summary

    def _ended(self) -> MemberSummary:
        try:
            while (job := self._jobs.take()) is not None:
                self._do(job)
            self._evaluate()
        except Draining as error:
            return self._summary("drained", error.why)
        except Superseded as error:
            return self._summary("superseded", error.why)
        except RunClosed as error:
            return self._summary("finished", error.why)
        return self._summary("finished", "" if self._over is None else self._over.reason)

    def _summary(self, ended: Any, reason: str) -> MemberSummary:
        work = self._work
        return MemberSummary(
            self.run, self.member, work.trained, work.applied, work.step, work.model.hex(), self._metrics, ended,
            reason, self._exchange.figures(),
        )  # fmt: skip

    def close(self, reason: str = "done") -> None:
        """Leave, unless that was done, and end the heartbeat process."""
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        atexit.unregister(self.close)
        try:
            self._ring()
            if self._conducting.is_alive():
                self._conducting.join()
            self._run(self._operations.leave(reason, Closed(f"{self.member} has left: {reason}")))
        except WorkerError:
            pass
        finally:
            if self._tools is not None:
                self._tools.exchange.close()
                self._tools.tidy()
            self._end()

    # -- the caller's thread: what the trainer does -----------------------------------------------------------------

    def _do(self, job: Job) -> None:
        self._memory.progress()
        began_s = time.monotonic()
        try:
            outcome = self._outcome(job)
        except NotWanted:
            return
        self._memory.progress()
        if outcome is not None:
            self._teller.did(job.action, outcome, time.monotonic() - began_s, self._work.came_from)
            self._tell(outcome)

    def _outcome(self, job: Job) -> Outcome | None:
        work = self._work
        match job.action:
            case facts.Load() as load:
                return work.load(load, lambda: job.wanted)
            case facts.Train() as train:
                trained = work.train(train)
                self._ledger.measure(work.measured)
                if isinstance(trained, facts.ResultTrained):
                    self._taking.made(trained.digest)
                return trained
            case facts.Apply() as apply:
                return work.apply(apply, self._teller.bad_result)
            case facts.Store() as store:
                return work.store(store)
            case facts.Lend() as lend:
                work.lend(lend)
            case Evaluate():
                self._evaluate()
        return None

    def _evaluate(self) -> None:
        """For people: between two epochs, and at the end."""
        step = self._work.step
        if step < 0 or step == self._evaluated:
            return
        self._metrics = self._ledger.measure(self._work.evaluate())
        self._evaluated = step
        self._teller.evaluated(step, self._metrics)

    # -- the conductor ----------------------------------------------------------------------------------------------

    def _tell(self, fact: Fact) -> None:
        """From any thread."""
        self._facts.append(fact)
        self._ring()

    def _note_bad(self, member: str, round_: int, why: str) -> None:
        self._bad.append((member, round_, why))

    def _conduct(self) -> None:
        error: BaseException | None = None
        try:
            while not self._closed and self._over is None:
                self._turn()
                if self._over is None:
                    self._run(self._operations.wait(self._wake_s(), lambda: bool(self._facts), self._settled))
        except BaseException as raised:
            error = raised
            if not isinstance(error, QuoracyError):
                log.exception("%s: the conductor failed", self.member)
        self._jobs.end(error)

    def _wake_s(self) -> float | None:
        wake_us = self._part.wake_us()
        return None if wake_us is None else wake_us / 1e6

    def _settled(self) -> bool:
        """Whether the others can do without this member: the round in which SIGTERM came is sealed, and if it was drawn
        to store the checkpoint, that is done."""
        sight = self._part.sight
        if self._drains_in is None:
            self._drains_in = sight.now()
        stores = sight.standing is not None and sight.standing.store and sight.phase() == COOLDOWN
        return not stores and not (sight.in_round() and sight.now() == self._drains_in)

    def _turn(self) -> None:
        """All facts there are, and what follows from them and from the time."""
        while self._bad:
            self._teller.bad_result(*self._bad.popleft())
        gathered = self._gathered()
        self._teller.line(self._client.outage, self._client.refused)
        wake_us = self._part.wake_us()
        if wake_us is not None and now_us() >= wake_us:
            gathered.append(facts.Tick())
        if gathered:
            for action in self._part.handle_all(gathered, now_us()):
                self._carry_out(action)

    def _gathered(self) -> list[Fact]:
        found: list[Fact] = []
        with self._happened:
            client = self._client
            if client.connections != self._connections:
                found.append(facts.Connected())
            self._connections = client.connections
            views, client.views = client.views, deque()
            found += [
                self._begun(view) if isinstance(view, Life) else facts.Shown(view)
                for view in views if not isinstance(view, Fell)
            ]  # fmt: skip
            for request, number in list(self._commands.items()):
                if (answer := client.answer(request)) is not None:
                    del self._commands[request]
                    found.append(facts.CommandDecided(number, answer if isinstance(answer, Refusal) else None))
        for view in views:
            self._look(view)
        while self._facts:
            found.append(self._facts.popleft())
        return found

    def _begun(self, life: Life) -> facts.LifeBegan:
        """Nobody answers what an earlier life has asked."""
        for request in self._commands:
            self._client.abandon(request)
        self._commands.clear()
        result = life.result
        scheme = Scheme(result.get("attestation", "bitmap"), result.get("bloom_false_positives", 0.01))
        return facts.LifeBegan(result["incarnation"], scheme)

    def _look(self, view: Any) -> None:
        """What the exchange and people have to know of what is shown."""
        if isinstance(view, PeersShown):
            self._exchange.know(view)
        elif isinstance(view, RoundShown):
            self._teller.round(view)
            if view.phase in BETWEEN and self._work.step not in (-1, self._evaluated):
                self._jobs.put(Evaluate())
        elif isinstance(view, Standing):
            self._teller.stands(view)
        elif isinstance(view, Fell):
            self._teller.trouble(f"{view.why}; joins again")

    def _carry_out(self, action: Action) -> None:
        match action:
            case facts.Send(signal=signal):
                with self._happened:
                    self._client.say(signal)
            case facts.Command(number=number, event=event, fields=fields):
                with self._happened:
                    self._commands[self._client.command(event, **fields)] = number
            case facts.Fetch():
                self._taking.fetch(action)
            case facts.Drop(digests=digests):
                self._taking.drop(digests)
            case facts.Reach():
                self._reach(action)
            case facts.Announce(epoch=epoch, round=round_, result=result, signature=signature):
                self._taking.committed(result.digest)
                self._exchange.announce(encode(Announced(epoch, round_, result, signature)))
            case facts.Ask():
                with self._happened:
                    self._client.look()
            case facts.Done():
                self._over = action
            case facts.Cease(work=work):
                self._jobs.cease(work)
            case _:
                self._jobs.put(action)

    def _reach(self, wish: facts.Reach) -> None:
        def tried(unreached: dict[str, str]) -> None:
            if unreached:
                self._teller.unreached(len(wish.peers), unreached)
            self._tell(facts.PeersTried(wish.epoch, wish.incarnation, tuple(unreached)))

        self._exchange.reach(wish.peers, tried)

    def heard(self, member: str, payload: bytes) -> None:
        """A peer has told something. In a thread of the exchange."""
        try:
            told = _announced.decode(payload)
        except msgspec.DecodeError as error:
            log.debug("%s: %s announced something unreadable: %s", self.member, member, error)
            return
        self._tell(facts.ResultAnnounced(member, told.epoch, told.round, told.result, told.signature))


def now_us() -> int:
    return time.monotonic_ns() // 1000

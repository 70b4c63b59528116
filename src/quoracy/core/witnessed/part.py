"""One member's part in witnessed rounds, without I/O: load, train, commit, announce, fetch, attest, apply, report.

``handle(fact, now_us)`` takes one fact of the member's own side and returns what is to be done. Views say where the run
stands; after every fact the part compares that with where it stands itself, and asks for whatever is missing. Nothing
depends on the order in which views come, and a view that was lost is asked for.

Kept here and in the files beside this one:

- A member commits before it announces, and never to two different results for one epoch, round, assignment and
  attempt, not even where the first was not answered (``results``). It attests only what it holds and has verified.
- It applies exactly what was sealed, in that order, never skips anything and never applies anything twice
  (``catching_up``); and it reports the hash of its model at each step.
- If no holder gives it a sealed result, it says so, accuses those who attested it and do not deliver, and goes on
  asking. The end of that is that the result turns up, is voided, or that this member loads a later model.
- A new life begins with what the member really still holds: model and blobs. All else is asked for again.
- After a reconnection everything that is still open is said again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from quoracy.core.machine import MemberEvent
from quoracy.core.witnessed import facts
from quoracy.core.witnessed.attestation import Scheme
from quoracy.core.witnessed.catching_up import Footing, counting
from quoracy.core.witnessed.events import CheckpointStored, ResultCommitted, TwoFacedShown
from quoracy.core.witnessed.facts import Action, Apply, Blob, Command, Fact, Pace, Train, Work
from quoracy.core.witnessed.fetching import APPLY, ATTEST, Fetching
from quoracy.core.witnessed.proofs import Proofs, Verify
from quoracy.core.witnessed.reaching import Reaching
from quoracy.core.witnessed.results import Made, Results, Sign
from quoracy.core.witnessed.sight import FINISHED, IN_STEP, OVER, RESYNCING, WARMING, Sight
from quoracy.core.witnessed.telling import Telling
from quoracy.core.witnessed.views import (
    PeersShown,
    Pointer,
    ResultsShown,
    RoundShown,
    SealedList,
    SealedShown,
    Standing,
)


class Part:
    def __init__(
        self, run: str, member: str, sign: Sign | None = None, verify: Verify | None = None, pace: Pace | None = None
    ) -> None:
        """``sign``: with this member's key. ``verify``: whether a key signed a message. Without them nothing is signed
        and nothing can be proven."""
        self.run = run
        self.member = member
        self.pace = pace or Pace()
        self.incarnation = 0
        self.sight = Sight(run, member)
        self.footing = Footing()
        self.fetching = Fetching(self.pace)
        self.results = Results(run, member, sign)
        self.proofs = Proofs(run, verify)
        self.reaching = Reaching(self.sight, self.pace)
        self.telling = Telling(member, self.sight, self.footing, self.fetching, self.reaching, self.pace)
        self.over: facts.Done | None = None
        self._training: Work | None = None
        self._commands: dict[int, tuple[type[MemberEvent], dict[str, Any]]] = {}
        self._numbers = 0
        self._load_us = 0
        """Before that, no further attempt to load."""
        self._stored: tuple[int, int] | None = None
        """Epoch and step of the checkpoint this life stores, or has stored."""
        self._store_us = 0
        self._lent = -1
        """The epoch for which others were lent the model."""
        self._told_sealed = False
        """Whether this life was shown what was sealed, if only that there is nothing."""
        self._heard_us = 0
        self._asked_us: int | None = None
        self._untidy = False
        """Something became old since the last look."""
        self._seeks = True
        """What is wanted may be more than before. Blobs come one by one, and none of them makes more wanted."""
        self._sought: tuple[Any, ...] = ()
        """What the wishes of the round were worked out from."""
        self._now_us = 0
        self._out: list[Action] = []

    # -- in and out -------------------------------------------------------------------------------------------------

    def handle(self, fact: Fact, now_us: int) -> list[Action]:
        return self.handle_all((fact,), now_us)

    def handle_all(self, some: Iterable[Fact], now_us: int) -> list[Action]:
        """One after the other. What follows is considered once, since that may mean a look at every result."""
        self._now_us = max(self._now_us, now_us)
        for fact in some:
            if self.over is None:
                _HANDLERS[type(fact)](self, fact)
                self._seeks = self._seeks or type(fact) not in _WANT_NOTHING
        if self.over is None:
            self._consider()
        self._out += self.fetching.take()
        self._out += [facts.Send(signal) for signal in self.telling.saying.take()]
        out, self._out = self._out, []
        return out

    def wake_us(self) -> int | None:
        """When to ``Tick`` next."""
        if self.over is not None or not self.incarnation:
            return None
        times = [self.fetching.wake_us(self._now_us), self.telling.wake_us(self._now_us), self._ask_us()]
        later = (self._load_us, self._store_us, self.reaching.until_us)
        times += [time for time in later if time > self._now_us]
        return min((time for time in times if time is not None), default=None)

    # -- facts ------------------------------------------------------------------------------------------------------

    def _on_life(self, fact: facts.LifeBegan) -> None:
        self.incarnation = fact.incarnation
        self.sight.begin_again()
        self.reaching.begin_life(fact.incarnation)
        self.telling.begin_life(fact.incarnation, fact.scheme)
        undecided = [fields["accused"] for event, fields in self._commands.values() if event is TwoFacedShown]
        self.proofs.begin_again(undecided)
        self._commands.clear()
        self.results.begin_again()
        self.fetching.begin_again()
        self._stored = None
        self._told_sealed = False
        self._cease()

    def _on_connected(self, _fact: facts.Connected) -> None:
        self._heard_us = self._now_us
        self.telling.saying.again(self._now_us)

    def _on_tick(self, _fact: facts.Tick) -> None:
        self.telling.saying.tick(self._now_us)
        self.fetching.tick(self._now_us)
        ask_us = self._ask_us()
        if ask_us is not None and self._now_us >= ask_us:
            self._ask()

    def _on_beat(self, fact: facts.BeatAnswered) -> None:
        """Every heartbeat's answer says where the run stands: whoever has missed something learns it there."""
        seen, known = fact.seen, self.sight.round
        if known is None or (seen.phase, seen.epoch, seen.round) != (known.phase, known.epoch, known.round):
            self._ask()

    def _on_decided(self, fact: facts.CommandDecided) -> None:
        event, _ = self._commands.pop(fact.number, (None, {}))
        if event is ResultCommitted and (made := self.results.asked_as(fact.number)) is not None:
            made.asked = 0
            if fact.refusal is None:
                self._committed(made)
            else:
                made.refused = True
        elif event is CheckpointStored and fact.refusal is not None:
            self._stored, self._store_us = None, self._now_us + self.pace.retry_us

    def _on_blob(self, fact: facts.BlobHeld) -> None:
        if not self.fetching.arrived(fact.digest) and not self.fetching.holds(fact.digest):
            self._out.append(facts.Drop((fact.digest,)))

    def _on_no_blob(self, fact: facts.BlobGivenUp) -> None:
        self.fetching.failed(fact, self._now_us)

    def _on_announced(self, fact: facts.ResultAnnounced) -> None:
        self.proofs.hear(fact, self.sight.peers.get(fact.sender), self.sight.now())

    def _on_loaded(self, fact: facts.ModelLoaded) -> None:
        """This is what is there now, whether it is what was wanted or not. If not, it is neither reported nor trained
        on, and another is loaded after a while."""
        wanted = self.footing.busy
        if isinstance(wanted, Pointer):
            self.footing.take(fact.step, fact.model)
            if not self.footing.is_known(wanted):
                self._load_us = self._now_us + self.pace.retry_us

    def _on_not_loaded(self, _fact: facts.ModelNotLoaded) -> None:
        if isinstance(self.footing.busy, Pointer):
            self.footing.busy = None
            self._load_us = self._now_us + self.pace.retry_us

    def _on_trained(self, fact: facts.ResultTrained) -> None:
        if self._training == fact.work:
            self._training = None
        if self.results.add(fact) is None:
            self._out.append(facts.Drop((fact.digest,)))
        else:
            self.fetching.keep(fact.digest, fact.work.epoch, fact.work.round)

    def _on_applied(self, fact: facts.ModelApplied) -> None:
        self.footing.applied(fact.step, fact.model)

    def _on_not_applied(self, fact: facts.ModelNotApplied) -> None:
        self.footing.busy = None if isinstance(self.footing.busy, Apply) else self.footing.busy
        self.fetching.spoil(fact.unreadable)

    def _on_stored(self, fact: facts.ModelStored) -> None:
        standing = self.sight.standing
        if standing is not None and self._stored == (standing.epoch, fact.step):
            fields = {"epoch": standing.epoch, "step": fact.step, "model": fact.model}
            self._command(CheckpointStored, fields | {"digest": fact.digest, "size_bytes": fact.size_bytes})

    def _on_not_stored(self, _fact: facts.ModelNotStored) -> None:
        self._stored, self._store_us = None, self._now_us + self.pace.retry_us

    def _on_tried(self, fact: facts.PeersTried) -> None:
        self.reaching.tried(fact)

    # -- views ------------------------------------------------------------------------------------------------------

    def _on_shown(self, fact: facts.Shown) -> None:
        self._heard_us = self._now_us
        match fact.value:
            case Standing():
                self._see_standing(fact.value)
            case RoundShown():
                self._see_round(fact.value)
            case ResultsShown():
                self.sight.lists.learn(fact.value)
                self.proofs.learn(fact.value)
            case SealedList(rounds=rounds):
                self._told_sealed = True
                for shown in rounds:
                    self._see_sealed(shown)
            case PeersShown():
                self.sight.see_peers(fact.value)
                self.fetching.hurry()

    def _see_standing(self, shown: Standing) -> None:
        if shown.incarnation != self.incarnation or not self.sight.see_standing(shown):
            return
        if shown.state == WARMING and shown.load is not None:
            self.footing.begin_at(shown.epoch, shown.load.step)
        if shown.state in OVER or shown.phase == FINISHED:
            short = self.footing.short_of(shown.load) if shown.phase == FINISHED else ""
            self._end("; ".join(filter(None, (shown.reason or f"the run is {shown.phase}", short))), shown.state)

    def _see_round(self, shown: RoundShown) -> None:
        before = self.sight.now()
        if self.sight.see_round(shown) and self.sight.now() != before:
            self._untidy = True
            self.telling.begin_round()
            self.proofs.forget(self.sight.now())
            self.results.forget_before(shown.epoch, shown.round - 1)

    def _see_sealed(self, shown: SealedShown) -> None:
        whole = self.sight.lists.whole(shown)
        if whole is None:
            self._ask()
        elif self.footing.learn(whole):
            self._untidy = True
            if self.footing.lacks_before(shown.step):
                self._ask()  # one before it was not shown: of views that wait to be read only the newest is kept

    # -- what follows -----------------------------------------------------------------------------------------------

    def _consider(self) -> None:
        if self.sight.standing is None:
            return
        self._move(self.sight.standing)
        if (reach := self.reaching.begin(self._now_us)) is not None:
            self._out.append(reach)
        self._train()
        self._commit()
        if self._seeks:
            self._seeks = False
            self._seek_round()
            self._seek_sealed()
            self._prove()
        self.telling.tell(self._now_us)
        self._store(self.sight.standing)
        self._lend(self.sight.standing)
        self._tidy()

    def _move(self, standing: Standing) -> None:
        """Get the model to where it should be."""
        footing, pointer = self.footing, standing.load
        if isinstance(footing.busy, Apply):
            return
        if standing.state == WARMING:
            if pointer is not None and not footing.is_at(pointer):
                self._load(pointer)
            return
        if standing.state not in (IN_STEP, RESYNCING) or isinstance(footing.busy, Pointer):
            return
        if standing.state == RESYNCING and pointer is not None and self._must_load(pointer):
            if self._told_sealed:
                self._load(pointer)
            else:
                self._ask()  # what was sealed may be the cheaper way
            return
        shown = footing.next()
        if shown is None or not all(self.fetching.holds(digest) for digest in footing.digests(shown)):
            return
        apply = Apply(shown.step, shown.epoch, shown.round, counting(shown))
        footing.busy = apply
        self._cease()
        self._out.append(apply)

    def _must_load(self, pointer: Pointer) -> bool:
        """Results are the cheaper way, where all of them are to be had."""
        footing = self.footing
        return not footing.leads_on(pointer) or (footing.step < pointer.step and bool(self.telling.missing()))

    def _load(self, pointer: Pointer) -> None:
        busy = self.footing.busy
        if isinstance(busy, Pointer):
            same = (busy.source, busy.step, busy.model) == (pointer.source, pointer.step, pointer.model)
            if same or self.sight.state() != WARMING:
                return
        elif self._now_us < self._load_us:
            return
        agreed = self.footing.agreed() if self.sight.state() == RESYNCING else ()
        self.footing.busy = pointer
        self._seeks = True
        self._cease()
        self._out.append(facts.Load(pointer, agreed))

    # -- training ---------------------------------------------------------------------------------------------------

    def _train(self) -> None:
        shown, footing = self.sight.round, self.footing
        mine = self.sight.mine()
        keys = [(*self.sight.now(), each.index, each.attempt) for each in mine]
        if self._training is not None and self._training.key() not in keys:
            self._cease()
        if shown is None or self._training is not None or footing.busy is not None:
            return
        if footing.step != shown.step or footing.is_wrong():
            return
        for each, key in zip(mine, keys, strict=True):
            if key not in self.results.made:
                self._training = Work(*key, each.batches, footing.step, footing.model)
                self._out.append(Train(self._training))
                return

    def _cease(self) -> None:
        if self._training is not None:
            self._out.append(facts.Cease(self._training))
            self._training = None

    def _commit(self) -> None:
        now = self.sight.now()
        if not (undone := self.results.uncommitted(*now)):
            return
        for result in self.sight.listed():
            made = undone.get((result.assignment, result.attempt))
            if made is not None and made.result.digest == result.digest:
                self._committed(made)  # the answer was lost, or is still on its way
        for each in self.sight.mine():
            made = undone.get((each.index, each.attempt))
            if made is not None and not (made.asked or made.committed or made.refused):
                made.asked = self._command(ResultCommitted, made.fields())

    def _committed(self, made: Made) -> None:
        made.committed = True
        if not made.announced:
            made.announced = True
            self._out.append(facts.Announce(made.work.epoch, made.work.round, made.result, made.signature))

    def _command(self, event: type[MemberEvent], fields: dict[str, Any]) -> int:
        self._numbers += 1
        self._commands[self._numbers] = (event, fields)
        self._out.append(Command(self._numbers, event, fields))
        return self._numbers

    # -- fetching ---------------------------------------------------------------------------------------------------

    def _seek_round(self) -> None:
        """What the round's list has, and what was announced and is not in it yet."""
        committee = self.sight.committee
        if committee is None or not self.sight.in_round():
            return
        epoch, round_ = self.sight.now()
        listed = self.sight.listed()
        sought = (epoch, round_, committee, listed, self.proofs.heard, self.fetching.drops)
        if sought == self._sought:
            return
        self._sought = sought
        wanted = {(result.assignment, result.attempt): result for result in listed}
        drawn = {(each.index, each.attempt): each for each in committee.assignments}
        for fact in self.proofs.of_round(epoch, round_):
            place = (fact.result.assignment, fact.result.attempt)
            if place in drawn and drawn[place].member == fact.sender:
                wanted.setdefault(place, fact.result)
        for result in wanted.values():
            if self.fetching.wants(result.digest, ATTEST):
                continue
            blob = Blob(epoch, round_, result, committee.assignments[result.assignment].batches)
            maker = () if result.member == self.member else (result.member,)
            self.fetching.want(blob, maker, ATTEST, self.sight.others())

    def _seek_sealed(self) -> None:
        """What is still to be applied, from where the model stands or will stand."""
        footing = self.footing
        step = footing.busy.step if isinstance(footing.busy, Pointer) else footing.step
        wrong = footing.busy is None and footing.is_wrong()
        if self.sight.state() not in (IN_STEP, RESYNCING) or step < 0 or wrong:
            return
        for shown in [footing.sealed[s] for s in sorted(footing.sealed) if s >= step]:
            for position, result in enumerate(shown.results):
                if position not in shown.voided and not self.fetching.wants(result.digest, APPLY):
                    named = shown.holders[position] if position < len(shown.holders) else ()
                    holders = tuple(name for name in named if name != self.member) or self.sight.others()
                    blob = Blob(shown.epoch, shown.round, result)
                    self.fetching.want(blob, holders, APPLY, self.sight.others())

    # -- proving, storing -------------------------------------------------------------------------------------------

    def _prove(self) -> None:
        for fields in self.proofs.accusations():
            self._command(TwoFacedShown, fields)

    def _store(self, standing: Standing) -> None:
        footing = self.footing
        if not standing.store or footing.step < 0 or footing.busy is not None or footing.next() is not None:
            return
        if footing.is_wrong():
            return  # another one is drawn
        wanted = (standing.epoch, footing.step)
        if self._stored != wanted and self._now_us >= self._store_us:
            self._stored = wanted
            self._out.append(facts.Store(footing.step, footing.model))

    def _lend(self, standing: Standing) -> None:
        """Once in each warm-up: what was lent may have been lost since."""
        pointer, sight = standing.load, self.sight
        if standing.state != WARMING or pointer is None or pointer.source != "p2p" or self._lent == standing.epoch:
            return
        known = self.member in sight.peers
        hidden = known and not any(sight.can_be_asked(name) for name in (self.member, *pointer.holders))
        if hidden and self.footing.busy is None and self.footing.is_at(pointer):
            self._lent = standing.epoch
            self._out.append(facts.Lend(pointer.step, self.footing.model))

    # -- keeping house ----------------------------------------------------------------------------------------------

    def _tidy(self) -> None:
        """What is neither sealed nor of this round or the one before is needed by nobody. Where a view was lost, what
        was sealed is not known: who then threw away what it has attested would be taken for a liar."""
        if self.sight.round is None or not self._untidy:
            return
        self._untidy = False
        epoch, round_ = self.sight.now()
        sealed = self.footing.sealed.values()
        counts = {digest for shown in sealed for digest in self.footing.digests(shown)}
        decided = {(shown.epoch, shown.round) for shown in sealed}
        past = (epoch, round_ - 1 if self.footing.knows(epoch, self.sight.round.step) else 0)
        old = [
            digest for digest, origin in self.fetching.origins()
            if digest not in counts and (origin in decided or origin < past)
        ]  # fmt: skip
        dropped = self.fetching.drop(old)
        if dropped is not None:
            self._seeks = True
            self._out.append(dropped)

    def _ask_us(self) -> int | None:
        """Whoever works knows what to do; whoever waits may have missed something."""
        if not self.incarnation or self._training is not None or self.footing.busy is not None:
            return None
        return max(self._heard_us, self._asked_us or 0) + self.pace.ask_us

    def _ask(self) -> None:
        if self._asked_us is None or self._now_us - self._asked_us >= self.pace.retry_us:
            self._asked_us = self._now_us
            self._out.append(facts.Ask())

    def _end(self, reason: str, state: str) -> None:
        self._cease()
        self.telling.begin_life(self.incarnation, Scheme())
        self.over = facts.Done(reason, state)
        self._out.append(self.over)


_HANDLERS: Final[dict[type, Callable[[Part, Any], None]]] = {
    facts.LifeBegan: Part._on_life,
    facts.Connected: Part._on_connected,
    facts.Shown: Part._on_shown,
    facts.BeatAnswered: Part._on_beat,
    facts.CommandDecided: Part._on_decided,
    facts.BlobHeld: Part._on_blob,
    facts.BlobGivenUp: Part._on_no_blob,
    facts.ResultAnnounced: Part._on_announced,
    facts.ModelLoaded: Part._on_loaded,
    facts.ModelNotLoaded: Part._on_not_loaded,
    facts.ResultTrained: Part._on_trained,
    facts.ModelApplied: Part._on_applied,
    facts.ModelNotApplied: Part._on_not_applied,
    facts.ModelStored: Part._on_stored,
    facts.ModelNotStored: Part._on_not_stored,
    facts.PeersTried: Part._on_tried,
    facts.Tick: Part._on_tick,
}
_WANT_NOTHING: Final = frozenset({
    facts.Tick, facts.BeatAnswered, facts.BlobHeld, facts.BlobGivenUp, facts.CommandDecided, facts.ResultTrained,
    facts.PeersTried,
})  # fmt: skip
"""After these no blob is wanted that was not wanted before."""

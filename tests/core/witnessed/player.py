"""A member's part in the hand: a test shows it views, tells it facts, and sees what it asks for.

Three members, a, b and c; the part is a's. All are witnesses and each has one assignment, unless a test says otherwise.
"""

from __future__ import annotations

from typing import Any, TypeVar

from quoracy.core.errors import Refusal
from quoracy.core.machine import Signal
from quoracy.core.witnessed import facts
from quoracy.core.witnessed.attestation import Scheme
from quoracy.core.witnessed.committee import Assignment, draw
from quoracy.core.witnessed.facts import Action, Fact, Pace
from quoracy.core.witnessed.part import Part
from quoracy.core.witnessed.views import (
    Peer,
    PeersShown,
    Pointer,
    Result,
    ResultsShown,
    RoundShown,
    SealedList,
    SealedShown,
    Standing,
)

T = TypeVar("T")
RUN = "demo"
SEED = bytes(16)
PACE = Pace(
    resend_us=1000, partial_us=100, retry_us=500, retry_max_us=4000, accuse_us=10_000, ask_us=20_000,
    reach_us=3000,
)  # fmt: skip
NAMES = ("a", "b", "c")
KEYS = {name: b"key of " + name.encode() for name in NAMES}


def blob(mark: str) -> bytes:
    """A digest that is easy to tell from others."""
    return mark.encode().ljust(32, b".")


def model(step: int, branch: str = "") -> bytes:
    return blob(f"model {step}{branch}")


def sign(key: bytes, message: bytes) -> bytes:
    return b"signed by " + key[-1:] + bytes([sum(message) % 256])


def verify(key: bytes, message: bytes, signature: bytes) -> bool:
    return signature == sign(key, message)


def round_shown(number: int = 0, step: int = 0, epoch: int = 0, phase: str = "RoundTrain", **more: Any) -> RoundShown:
    fields: dict[str, Any] = {
        "seed": SEED, "roster": NAMES, "speeds": (1000, 1000, 1000), "batches": ((0, 6),), "witness_nodes": 0,
        "moved": (), "left_us": 0, "reason": "",
    }  # fmt: skip
    return RoundShown(phase, epoch, number, step, **(fields | more))


def assignment_of(member: str, shown: RoundShown) -> Assignment:
    (mine,) = draw(RUN, shown).of(member)
    return mine


def result_of(member: str, shown: RoundShown, mark: str = "", attempt: int = 1) -> Result:
    mine = assignment_of(member, shown)
    name = mark or f"{member} {shown.epoch}.{shown.round}"
    return Result(mine.index, attempt, member, blob(name), 100, model(shown.step))


def sealed(shown: RoundShown, results: tuple[Result, ...], **more: Any) -> SealedShown:
    ordered = tuple(sorted(results, key=lambda result: result.assignment))
    fields: dict[str, Any] = {
        "model": model(shown.step), "results": ordered, "holders": tuple(NAMES for _ in ordered),
        "positions": tuple(results.index(result) for result in ordered),
    }  # fmt: skip
    return SealedShown(shown.step, shown.epoch, shown.round, **(fields | more))


class Player:
    def __init__(self, member: str = "a", keyed: bool = True, scheme: Scheme | None = None) -> None:
        key = KEYS[member]
        self.member = member
        self.part = Part(RUN, member, (lambda message: sign(key, message)) if keyed else None, verify, PACE)
        self.now_us = 0
        self.actions: list[Action] = []
        self.life = 0
        self.scheme = scheme or Scheme()
        self.reaches = True
        """All peers, at once; otherwise a test says what came of it."""
        self.begin()

    # -- telling ------------------------------------------------------------------------------------------------

    def tell(self, fact: Fact, after_us: int = 0) -> list[Action]:
        self.now_us += after_us
        out = self.part.handle(fact, self.now_us)
        for reach in [action for action in out if isinstance(action, facts.Reach) and self.reaches]:
            out += self.part.handle(facts.PeersTried(reach.epoch, reach.incarnation), self.now_us)
        self.actions += out
        return out

    def show(self, *views: Any) -> list[Action]:
        return [action for view in views for action in self.tell(facts.Shown(view))]

    def tick(self, after_us: int) -> list[Action]:
        """Time passes, and the part is woken whenever it wants to be."""
        until_us = self.now_us + after_us
        out: list[Action] = []
        for _ in range(1000):
            wake_us = self.part.wake_us()
            if wake_us is None or wake_us > until_us:
                break
            self.now_us = max(self.now_us, wake_us)
            out += self.tell(facts.Tick())
        else:
            raise AssertionError("the part wants to be woken again and again at the same time")
        self.now_us = until_us
        return out

    def begin(self) -> list[Action]:
        self.life += 1
        return self.tell(facts.LifeBegan(self.life, self.scheme))

    def stand(self, state: str, epoch: int = 0, **more: Any) -> list[Action]:
        """Who begins to warm up is told who the others are."""
        fields: dict[str, Any] = {"phase": "RoundTrain", "strikes": 0, "reason": "", "load": None, "store": False}
        fields |= more
        sight = self.part.sight
        begins = state == "Warming" and sight.peers_epoch != epoch
        before = [PeersShown(epoch, tuple(sight.peers.values()))] if begins else []
        return self.show(
            *before,
            Standing(
                self.life, state, fields["phase"], epoch, fields["strikes"], fields["reason"], fields["load"],
                fields["store"],
            ),
        )  # fmt: skip

    def warm_up(self, step: int = 0, epoch: int = 0) -> None:
        """It has the model of this step."""
        self.peers(epoch)
        pointer = Pointer("stored", step, model(step), blob("file"))
        self.stand("Warming", epoch, load=pointer, phase="Warmup")
        if self.take(facts.Load):
            self.tell(facts.ModelLoaded(step, model(step)))

    def peers(self, epoch: int = 0, lives: int = 1) -> None:
        self.show(PeersShown(epoch, tuple(Peer(name, lives, KEYS[name], (f"{name}:1",)) for name in NAMES)))

    def in_round(self, number: int = 0, step: int = 0, epoch: int = 0, **more: Any) -> RoundShown:
        """In step, in the round."""
        shown = round_shown(number, step, epoch, **more)
        self.stand("InStep", epoch)
        self.show(shown)
        return shown

    def starts(self, **more: Any) -> RoundShown:
        """The first round begins, and a has got its work."""
        self.warm_up()
        return self.in_round(**more)

    def trains(self, mark: str = "") -> Result:
        """It has done the work it was given last."""
        work = self.take(facts.Train)[-1].work
        name = blob(mark or f"{self.member} {work.epoch}.{work.round}")
        self.tell(facts.ResultTrained(work, name, 100, 8, 0.5))
        return Result(work.assignment, work.attempt, self.member, name, 100, work.base)

    def commits(self, refusal: Refusal | None = None) -> facts.Command:
        command = self.take(facts.Command)[-1]
        self.tell(facts.CommandDecided(command.number, refusal))
        return command

    def holds(self, *results: Result) -> None:
        for result in results:
            self.tell(facts.BlobHeld(result.digest))

    # -- seeing -------------------------------------------------------------------------------------------------

    def take(self, sort: type[T]) -> list[T]:
        """All actions of this sort since the last time; the others stay."""
        taken: list[T] = [action for action in self.actions if isinstance(action, sort)]
        self.actions = [action for action in self.actions if not isinstance(action, sort)]
        return taken

    def said(self, sort: type[Signal]) -> list[Any]:
        """Signals of this sort since the last time."""
        sent = [action.signal for action in self.take(facts.Send)]
        self.actions += [facts.Send(signal) for signal in sent if not isinstance(signal, sort)]
        return [signal for signal in sent if isinstance(signal, sort)]

    def whole_round(self, shown: RoundShown) -> tuple[Result, ...]:
        """Everybody trains, commits, and gets everything; the round's list is shown."""
        mine = self.trains()
        self.commits()
        results = (mine, *(result_of(name, shown) for name in NAMES if name != self.member))
        self.show(ResultsShown(shown.epoch, shown.round, results))
        self.holds(*results)
        return results

    def seals(self, shown: RoundShown, results: tuple[Result, ...], **more: Any) -> SealedShown:
        it = sealed(shown, results, **more)
        self.show(SealedList((it,)))
        return it

    def applies(self, branch: str = "") -> facts.Apply:
        (apply,) = self.take(facts.Apply)
        self.tell(facts.ModelApplied(apply.step + 1, model(apply.step + 1, branch)))
        return apply

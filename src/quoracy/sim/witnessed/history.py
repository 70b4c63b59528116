"""A deliberately simple model of a witnessed run, walked along the journal.

Beside it the journal is folded by the real machine, of which little is taken: who was in the roster of a round, how
fast each was taken to be, the round's seed and who took over whose work; and whether the run fell back, and to which
checkpoint. All else is worked out from the meaning of the events alone, so that a mistake in the rules cannot hide
itself: who was a witness, what was held by a quorum, what was sealed, what every model must be, and what became of
every batch. Only the dice are the same, since a draw has to be repeatable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from math import ceil, floor
from typing import Any

import msgspec

from quoracy.core.dice import Cup, Dice
from quoracy.core.journal import RunCreated, decode_created, decode_entry
from quoracy.core.kinds import KINDS
from quoracy.core.run import Decided, Run
from quoracy.core.witnessed.attestation import read_bitmap, read_bloom, salt_of
from quoracy.core.witnessed.committee import Committee, draw
from quoracy.core.witnessed.config import Config
from quoracy.core.witnessed.events import (
    Attested,
    CheckpointStored,
    ModelAgreed,
    ResultCommitted,
    ResultVoided,
    RoundSealed,
    WarmupEnded,
    WorkReopened,
)
from quoracy.core.witnessed.machine import Witnessed
from quoracy.core.witnessed.state import Course as Folded
from quoracy.core.witnessed.state import Phase
from quoracy.core.witnessed.views import RoundShown
from quoracy.sim.checkers.journal import Happened
from quoracy.sim.witnessed.batches import Batches, numbers
from quoracy.sim.witnessed.making import FIRST, applied
from quoracy.sim.witnessed.waits import Waits

Place = tuple[str, int]


class Commitment(msgspec.Struct):
    member: str
    assignment: int
    attempt: int
    digest: bytes
    base: bytes
    salt: bytes = b""


class Round(msgspec.Struct):
    epoch: int
    number: int
    step: int
    seed: bytes
    lives: dict[str, int]
    """The roster, and in which life each was."""
    witnesses: list[str]
    drawn: Committee
    owners: set[tuple[int, int, str]]
    """Assignment, attempt, member: all there were."""
    attempts: dict[int, int]
    """Of each assignment, the newest."""
    results: list[Commitment] = []
    given_up: set[tuple[int, int]] = set()
    """Assignment and attempt of what nobody had."""

    def newest(self, assignment: int) -> int:
        """The place of its result; -1 if there is none. Only that of the newest attempt is one."""
        wanted = (assignment, self.attempts[assignment])
        found = (i for i, one in enumerate(self.results) if (one.assignment, one.attempt) == wanted)
        return -1 if wanted in self.given_up else next(found, -1)


class Sealed(msgspec.Struct):
    epoch: int
    number: int
    step: int
    model: bytes
    """That most had; empty if there is no such model."""
    expected: bytes
    """What it should have been."""
    digests: list[bytes]
    batches: list[list[int]]
    positions: list[int]
    claims: dict[str, tuple[int, set[int]]]
    """By witness: its life, and which results it said it holds."""
    bad: set[str]
    """Who did not do its part: as a witness, or with work that fewer than a quorum hold."""
    voided: set[int] = set()

    def counts(self) -> tuple[bytes, ...]:
        return tuple(digest for place, digest in enumerate(self.digests) if place not in self.voided)


class Course:
    """``fail`` is called with what the model cannot explain."""

    def __init__(self, fail: Callable[[str], None] = lambda _what: None) -> None:
        self._fail = fail
        self.run = ""
        self.config = Config()
        self.batches = Batches(fail)
        self.round: Round | None = None
        self.rounds: dict[tuple[int, int], Round] = {}
        self.sealed: list[Sealed] = []
        """All of them, also those of a past that was given up."""
        self.branch: dict[int, Sealed] = {}
        """By step: what makes the model of the next step, as things stand."""
        self.models: dict[int, bytes] = {0: FIRST.hash()}
        """By step."""
        self.place: Place = ("initial", 0)
        self.stored: Place = ("initial", 0)
        self.older: list[Place] = []
        """Checkpoints before it."""
        self.waits = Waits()
        self.fold: Run | None = None

    @property
    def folded(self) -> Folded:
        assert self.fold is not None
        machine = self.fold.machine
        assert isinstance(machine, Witnessed)
        return machine.course

    def walk(self, journal: list[bytes], run: str) -> Iterator[Happened]:
        """Each event, after it was folded and counts in the model."""
        self.run = run
        for n, payload in enumerate(journal, start=1):
            entry = decode_entry(payload, run, n)
            if self.fold is None:
                created = decode_created(entry)
                self.config = msgspec.convert(created.config, Config)
                self.fold = Run.create(KINDS, created)
            decoder = KINDS.decoder(self.fold.kind)
            cup = Cup(run, entry.seed)
            for index, (cause, event) in enumerate(decoder.decode(entry.events)):
                cup.index = index
                backs = self.folded.roll_backs
                self.waits.come(event, entry.at_us, self.folded)
                if not isinstance(event, RunCreated):
                    decided = self.fold.decide(cause, event, entry.at_us, cup, n)
                    if not isinstance(decided, Decided):
                        self._fail(f"entry {n}: {event} is not taken: {decided}")
                self._take(n, event, self.folded.roll_backs > backs)
                yield Happened(n, cause, event)
            self.fold.sealed(entry, payload)

    # -- events -----------------------------------------------------------------------------------------------------

    def _take(self, n: int, event: Any, fell_back: bool) -> None:
        match event:
            case ResultCommitted():
                self._commit(event)
            case RoundSealed():
                self._seal(n, event)
            case ResultVoided():
                self._void(n, event)
            case ModelAgreed(step=step):
                if self.place != ("stored", step):
                    self.place = ("p2p", step)
            case CheckpointStored(step=step):
                if self.place == ("p2p", step):
                    self.older.append(self.stored)
                    self.place = self.stored = ("stored", step)
                    self.batches.keep(step)
        self.waits.take(event, self.config, fell_back)
        if fell_back:
            self._fall_back(n, event)
        if isinstance(event, WarmupEnded | RoundSealed):
            self._begin(n)
        if self.round is not None:
            self._watch_owners(self.round, event)
        if self.folded.state is Phase.FINISHED and self.batches.numbers("waiting"):
            self.batches.close("the run ended")

    def _begin(self, n: int) -> None:
        """The fold says whether a round begins, with whom, and with which seed."""
        folded = self.folded.round
        self.round = None
        if folded is None:
            return
        batches = self.batches.take(self._wanted(folded.step))
        shown = RoundShown(
            "RoundTrain", folded.epoch, folded.number, folded.step, folded.seed, folded.roster, folded.speeds, batches,
            self.config.witness_nodes, (), 0, "",
        )  # fmt: skip
        few = min(self.config.witness_nodes or len(folded.roster), len(folded.roster))
        dice = Dice(self.run, "witness", folded.epoch, folded.number, folded.seed)
        witnesses = dice.sample(folded.roster, few)
        self.round = Round(
            folded.epoch, folded.number, folded.step, folded.seed, dict(zip(folded.roster, folded.lives, strict=True)),
            witnesses, draw(self.run, shown), set(), {},
        )  # fmt: skip
        self.rounds[folded.epoch, folded.number] = self.round
        self.waits.begin(self.config, self.round.lives)
        if folded.step not in self.models:
            self._fail(f"entry {n} begins a round at step {folded.step}, and the last model is {max(self.models)}")

    def _wanted(self, step: int) -> int:
        """Batches of a round: the samples of the ramp, rounded up."""
        config = self.config
        low, high = config.global_batch_size_start, config.global_batch_size_end or config.global_batch_size_start
        grown = Fraction(step, config.ramp_steps) if step < config.ramp_steps else Fraction(1)
        return ceil(Fraction(floor(low + (high - low) * grown), config.batch_size))

    def _watch_owners(self, round_: Round, event: Any) -> None:
        if isinstance(event, WorkReopened):
            round_.given_up.add((event.assignment, event.attempt))
        folded = self.folded.round
        if folded is None:
            return
        for work in folded.works:
            round_.owners.add((work.index, work.attempt, work.member))
            round_.attempts[work.index] = work.attempt

    def _commit(self, event: ResultCommitted) -> None:
        round_ = self.round
        if round_ is None or (event.epoch, event.round) != (round_.epoch, round_.number):
            self._fail(f"a result of round {event.round} of epoch {event.epoch} is taken in outside of it")
            return
        attempt = (event.assignment, event.attempt)
        if any((result.assignment, result.attempt) == attempt for result in round_.results):
            return  # the same again, in answer to a repeated command
        folded = self.folded.round
        salt = b"" if folded is None else folded.results[-1].salt
        round_.results.append(Commitment(event.member, *attempt, event.digest, event.base, salt))

    def held(self, round_: Round, said: tuple[Attested, ...]) -> dict[str, set[int]]:
        """Which results each of these says it holds."""
        found: dict[str, set[int]] = {}
        for one in said:
            digests = [result.digest for result in round_.results[: one.known]]
            if self.config.attestation == "bloom":
                drawn = round_.results[one.known - 1].salt if one.known else b""
                salt = salt_of(round_.epoch, round_.number, drawn, one.member)
                mask = read_bloom(one.held, digests, salt, self.config.bloom_false_positives)
            else:
                mask = read_bitmap(one.held, len(digests))
            if not isinstance(mask, int):
                self._fail(f"{one} cannot be read: {mask}")
                continue
            found[one.member] = {i for i in range(len(digests)) if mask >> i & 1}
        return found

    def needed(self, round_: Round) -> int:
        """The quorum: of the elected."""
        share = self.config.witness_quorum
        return max(1, ceil(Fraction(str(share).replace(" ", "")) * len(round_.witnesses)))

    def _seal(self, n: int, event: RoundSealed) -> None:
        round_ = self.round
        if round_ is None or (event.epoch, event.round) != (round_.epoch, round_.number):
            self._fail(f"entry {n} seals round {event.round} of epoch {event.epoch}, which is not open")
            return
        claims = {who: held for who, held in self.held(round_, event.attested).items() if who in round_.witnesses}
        votes = Counter(
            report.model for report in event.models
            if report.step == round_.step and round_.lives.get(report.member) == report.incarnation
        )  # fmt: skip
        most = [model for model, times in votes.items() if 2 * times > votes.total()]
        model = most[0] if most else b""
        positions = []
        for each in round_.drawn.assignments:
            place = round_.newest(each.index)
            holders = sum(place in held for held in claims.values())
            if holders >= self.needed(round_) and round_.results[place].base == model != b"":
                positions.append(place)
        fair = len(claims) >= self.needed(round_) and (bool(model) or not votes)
        counted = {round_.results[place].assignment for place in positions}
        for each in round_.drawn.assignments:
            if each.index in counted:
                self.batches.apply(numbers(each.batches))
            else:
                attempt = round_.attempts[each.index]
                tried = attempt if fair else attempt - 1
                self.batches.wait_again(numbers(each.batches), tried, self.config.attempts_max)
        lives = {one.member: one.incarnation for one in event.attested}
        by_life = {who: (lives[who], held) for who, held in claims.items()}
        self._model(round_, model, positions, by_life, self._bad(round_, claims))

    def _bad(self, round_: Round, claims: dict[str, set[int]]) -> set[str]:
        """Nobody where so few attested that it cannot be told."""
        if len(claims) < self.needed(round_):
            return set()
        bad = {who for who in round_.witnesses if who not in claims}
        for index, attempt, member in round_.owners:
            place = round_.newest(index)
            if attempt == round_.attempts[index] and sum(place in held for held in claims.values()) < self.needed(
                round_
            ):
                bad.add(member)
        return bad

    def _model(self, round_: Round, model: bytes, positions: list[int], claims: Any, bad: set[str]) -> None:
        sealed = Sealed(
            round_.epoch, round_.number, round_.step, model, self.models.get(round_.step, b""),
            [round_.results[place].digest for place in positions],
            [numbers(round_.drawn.assignments[round_.results[place].assignment].batches) for place in positions],
            positions, claims, bad,
        )  # fmt: skip
        self.sealed.append(sealed)
        if model:
            self.models[round_.step] = model
        if positions:
            self.branch[round_.step] = sealed
            self._chain(round_.step)

    def _chain(self, step: int) -> None:
        """What the models from here on must be."""
        while step in self.branch:
            self.models[step + 1] = applied(step, self.models[step], self.branch[step].counts())
            step += 1
        for later in [s for s in self.models if s > step]:
            del self.models[later]

    def _void(self, n: int, event: ResultVoided) -> None:
        sealed = self.branch.get(event.step)
        if sealed is None or event.result >= len(sealed.digests) or event.result in sealed.voided:
            self._fail(f"entry {n} voids result {event.result} of step {event.step}, which was not sealed")
            return
        sealed.voided.add(event.result)
        self.batches.give_back(sealed.batches[event.result])
        self._chain(event.step)

    def _fall_back(self, n: int, event: Any) -> None:
        """To the last checkpoint; to an older one only from a checkpoint that a whole warm-up could not load. Which of
        the older ones are remembered the fold says."""
        back = self.folded.stored.step
        if back != self.stored[1]:
            missed = isinstance(event, WarmupEnded) and not any(
                report.model == self.models.get(self.stored[1]) for report in event.loaded
            )
            if not missed or self.place != self.stored:
                self._fail(f"entry {n} gives up the checkpoint of step {self.stored[1]}, which nobody missed")
            self.older = [one for one in self.older if one[1] <= back]
            if not self.older or self.older[-1][1] != back:
                self._fail(f"entry {n} falls back to step {back}, of which there is no checkpoint")
            self.stored = self.older.pop() if self.older else ("initial", 0)
            self.batches.lose(back)
        self.batches.give_back(self.batches.numbers("applied"))
        self.place = self.stored
        step = self.stored[1]
        for later in [s for s in self.branch if s >= step]:
            del self.branch[later]
        for later in [s for s in self.models if s > step]:
            del self.models[later]

"""A run: the pure fold over its journal.

``Run`` holds what every kind needs (who serves, what time it is, who has joined and what they were told, which duties
are open) and beside it the kind's machine. ``decide`` takes one event with its cause and either changes both or
neither. A host calls it when it makes an entry, ``extend`` calls it when an entry is read: there is no second
implementation that could differ.

Decided here, and nowhere else:

- who may propose what (``By``), and that a member speaks only for its own newest incarnation;
- that a command is decided once: a repeat yields the answer that was given;
- that only the serving host's entries count: an entry of an older term is refused;
- that run time never goes backwards, and that the chain of digests is whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from quoracy.core.bounds import unbounded
from quoracy.core.codec import NO_DIGEST, digest, encode
from quoracy.core.dice import Cup
from quoracy.core.errors import Bug, ConfigError, ConfigErrors, FoldDiverged, JournalCorrupt, QuoracyError, Refusal
from quoracy.core.journal import (
    CommandRefused,
    DutyDone,
    Entry,
    HostTook,
    RunCreated,
    chain_seed,
    decode_created,
    decode_entry,
    recorded_decoder,
)
from quoracy.core.machine import DONE, Applied, By, Duty, DutyEnded, Effect, Event, Kind, Machine
from quoracy.core.members import (
    CHALLENGE_BYTES,
    OPERATOR_MARK,
    Accepted,
    Answer,
    Cause,
    Member,
    Repeat,
    Roster,
    signed_by_joiner,
)
from quoracy.core.snapshot import Snapshot, pack, unpack
from quoracy.core.wanted import wrong_settings

MAX_KNOWN_MEMBERS: Final = 100_000


_SHARED: Final = frozenset({HostTook, DutyDone, RunCreated})
"""Events that the run itself understands; all others are its machine's."""


Verify = Callable[[bytes, bytes, bytes], bool]
"""Public key, message, signature."""


class UnknownRules(QuoracyError):
    """The run was created under rules that this host does not have: it must not touch it."""

    code = "unknown_rules"


class Kinds:
    """The kinds this host knows, by name and rules version."""

    def __init__(self, kinds: tuple[Kind, ...], verify: Verify | None = None) -> None:
        """``verify``: whether the holder of a key signed a message; without it, proofs in the journal are not checked
        again when it is folded."""
        self.verify = verify
        self._kinds = {(kind.name, kind.rules): kind for kind in kinds}
        self._decoders = {key: recorded_decoder(kind.events) for key, kind in self._kinds.items()}

    def verified_by(self, verify: Verify) -> Kinds:
        return Kinds(tuple(self._kinds.values()), verify)

    def get(self, name: str, rules: int) -> Kind:
        kind = self._kinds.get((name, rules))
        if kind is None:
            known = ", ".join(f"{name} {rules}" for name, rules in sorted(self._kinds)) or "none"
            raise UnknownRules(
                f"rules {rules} of kind {name!r} are not known here (known: {known}): use a newer Quoracy"
            )
        return kind

    def newest(self, name: str) -> Kind:
        versions = [rules for known, rules in self._kinds if known == name]
        if not versions:
            known = ", ".join(sorted({known for known, _ in self._kinds}))
            raise ConfigError("kind", name, f"choose one of: {known}")
        return self._kinds[name, max(versions)]

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._kinds.values())

    def decoder(self, kind: Kind) -> msgspec.msgpack.Decoder[Any]:
        return self._decoders[kind.name, kind.rules]


class Head(msgspec.Struct, array_like=True):
    """Where the run stands."""

    run: str
    kind: str
    rules: int
    config: dict[str, Any]
    seeding: str
    label: str
    n: int = 0
    digest: bytes = NO_DIGEST
    at_us: int = 0
    term: int = 0
    host: str = ""
    address: str = ""
    request: str = ""


class Decided(msgspec.Struct, frozen=True):
    """The event was applied. ``answer`` goes to whoever caused it."""

    answer: Answer
    effects: tuple[Effect, ...] = ()


class Run:
    def __init__(self, kind: Kind, kinds: Kinds, head: Head, roster: Roster, duties: dict[str, Duty], machine: Machine):
        self.kind = kind
        self.head = head
        self.roster = roster
        self.duties = duties
        self.machine = machine
        self._decoder = kinds.decoder(kind)
        self._verify = kinds.verify

    @classmethod
    def create(cls, kinds: Kinds, created: RunCreated) -> Run:
        """An empty run. Raises ConfigError for a configuration the kind cannot
        use, UnknownRules for unknown rules."""
        kind = kinds.get(created.kind, created.rules)
        if found := list(unbounded(created.config)):
            raise ConfigErrors(found)
        readable(created, "run")
        try:
            config = msgspec.convert(created.config, kind.config)
        except msgspec.ValidationError as error:
            wrong = list(wrong_settings(created.config, kind.config))
            raise ConfigErrors(wrong or [ConfigError("config", created.config, str(error))]) from None
        kind.check_config(config)
        head = Head(created.run, created.kind, created.rules, created.config, created.seeding, created.label)
        head.request = created.request
        return cls(kind, kinds, head, Roster(MAX_KNOWN_MEMBERS), {}, kind.create(config))

    # -- deciding ---------------------------------------------------------------------------------------------------

    def decide(self, cause: Cause | None, event: Event, at_us: int, cup: Cup, entry: int) -> Decided | Repeat | Refusal:
        """Apply one event of entry ``entry``, or say why not, in which case nothing has changed."""
        if cause is None:
            if event.by is By.MEMBER or event.joins:
                return Refusal("not_yours", f"{type(event).__name__} needs the command of a member", "send a cause")
            return self._change(None, event, at_us, cup, entry)
        if event.joins:
            return self._join(cause, event, at_us, cup, entry)
        before = self.roster.check_cause(cause)
        if before is not None:
            repeats = isinstance(before, Repeat)
            return (self.roster.check_command(cause, command_of(event)) if repeats else None) or before
        refusal = _not_allowed(cause, event) or self._forged(event)
        return refusal or self._change(cause, event, at_us, cup, entry)

    def _forged(self, event: Event) -> Refusal | None:
        """Whether the event carries a signature that is none."""
        if self._verify is None or (claim := event.claim(self.head.run, self._key_of)) is None:
            return None
        if claim.key and self._verify(claim.key, claim.said, claim.signature):
            return None
        why = f"the signature of {type(event).__name__} is not by the key that the id is bound to"
        return Refusal("bad_signature", why, "sign with the key of the first join")

    def _key_of(self, member: str) -> bytes:
        known = self.roster.members.get(member)
        return b"" if known is None else known.key

    def _join(self, cause: Cause, event: Any, at_us: int, cup: Cup, entry: int) -> Decided | Repeat | Refusal:
        if (cause.member, cause.incarnation, cause.seq) != (event.member, event.supersedes, 0):
            why = f"a join's cause must be ({event.member}, {event.supersedes}, 0), it is {tuple_of(cause)}"
            return Refusal("contradiction", why, "send the join as the command it is")
        before = self.roster.check_join(event.member, event.supersedes, event.nonce, event.key)
        before = before or self.roster.check_token(event.member, event.token, event.token_ids)
        if before is not None:
            return before
        applied = self.machine.apply(event, at_us, cup)
        if isinstance(applied, Refusal):
            return applied
        joined = Accepted(entry, {"incarnation": event.supersedes + 1, **(applied.result or {})})
        self.roster.enter(event.member, event.nonce, event.key, joined, event.token)
        return Decided(joined, self._keep_duties(applied, entry, cup.index))

    def _change(self, cause: Cause | None, event: Event, at_us: int, cup: Cup, entry: int) -> Decided | Refusal:
        answer: Answer
        if type(event) is CommandRefused:
            if cause is None:
                return Refusal("contradiction", "a refusal without the command it refuses", "send a cause")
            applied, answer = DONE, event.refusal
        else:
            outcome = self._apply(event, at_us, cup)
            if isinstance(outcome, Refusal):
                return outcome
            applied, answer = outcome, Accepted(entry, outcome.result)
        if cause is not None:
            self.roster.remember(cause, answer, command_of(event))
        effects = self._keep_duties(applied, entry, cup.index) if applied.effects else ()
        return Decided(answer, effects)

    def _apply(self, event: Event, at_us: int, cup: Cup) -> Applied | Refusal:
        if type(event) not in _SHARED:
            return self.machine.apply(event, at_us, cup)
        match event:
            case HostTook():
                return self._host_took(event)
            case DutyDone():
                return self._duty_done(event, at_us, cup)
            case _:
                return Refusal("run_exists", f"run {self.head.run} was created before", "choose another name")

    def _host_took(self, event: HostTook) -> Applied | Refusal:
        if event.term != self.head.term + 1:
            why = f"term {event.term} cannot follow term {self.head.term}"
            return Refusal("stale_term", why, f"read the journal, then take term {self.head.term + 1}")
        self.head.term = event.term
        self.head.host = event.host
        self.head.address = event.address
        return DONE

    def _duty_done(self, event: DutyDone, at_us: int, cup: Cup) -> Applied | Refusal:
        name = duty_name(event.entry, event.index)
        if name not in self.duties:
            return Refusal("unknown_duty", f"duty {name} is not open", "nothing: it was done before")
        applied = self.machine.apply(DutyEnded(self.duties[name], event.result), at_us, cup)
        if isinstance(applied, Refusal):
            return applied
        del self.duties[name]
        return applied

    def _keep_duties(self, applied: Applied, entry: int, index: int) -> tuple[Effect, ...]:
        """Duties get their name and stay in the state until they are done."""
        effects: list[Effect] = []
        for effect in applied.effects:
            if isinstance(effect, Duty):
                effect = Duty(effect.what, effect.order, entry, index)
                name = duty_name(entry, index)
                if name in self.duties:
                    raise Bug(f"event {index} of entry {entry} wants two duties; one event may want one")
                self.duties[name] = effect
            effects.append(effect)
        return tuple(effects)

    # -- folding ----------------------------------------------------------------------------------------------------

    def extend(self, payload: bytes) -> tuple[Entry, list[tuple[Cause | None, Event]]]:
        """Fold the next entry in. Raises JournalCorrupt if it is not the one that was written, FoldDiverged if these
        rules cannot have accepted it."""
        entry = decode_entry(payload, self.head.run, self.head.n + 1)
        recorded = self._check_entry(entry)
        cup = Cup(self.head.run, entry.seed)
        for index, (cause, event) in enumerate(recorded):
            if entry.n == 1 and index == 0:
                continue
            cup.index = index
            if event.joins and self._verify is not None:
                self._check_proof(self._verify, event, entry.n)
            decided = self.decide(cause, event, entry.at_us, cup, entry.n)
            if isinstance(decided, Refusal) and decided.code == "bad_signature":
                raise JournalCorrupt(self.head.run, entry.n, 0, decided.why, "the entry")
            if type(decided) is not Decided:
                what = decided if isinstance(decided, Refusal) else "it repeats an earlier command"
                raise FoldDiverged(
                    f"run {self.head.run!r}: entry {entry.n} holds {type(event).__name__}, "
                    f"which these rules refuse ({what})"
                )
        self.sealed(entry, payload)
        return entry, recorded

    def _check_entry(self, entry: Entry) -> list[tuple[Cause | None, Event]]:
        head = self.head
        if entry.prev != head.digest:
            raise JournalCorrupt(head.run, entry.n, 0, "the digest of the entry before does not fit", "the entry")
        if entry.at_us < head.at_us:
            raise JournalCorrupt(head.run, entry.n, 0, "run time goes backwards", "the entry")
        if head.seeding == "chain" and entry.seed != chain_seed(head.digest, entry.n):
            raise JournalCorrupt(head.run, entry.n, 0, "the seed was chosen by the appender", "the entry")
        if entry.state and entry.state != self.state_digest():
            raise FoldDiverged(
                f"run {head.run!r}: the state before entry {entry.n} differs from the one its host had: "
                "this Quoracy folds the journal differently"
            )
        try:
            recorded: list[tuple[Cause | None, Event]] = self._decoder.decode(entry.events)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise JournalCorrupt(head.run, entry.n, 0, f"events cannot be decoded: {error}", "the entry") from None
        self._check_term(entry, recorded)
        return recorded

    def _check_proof(self, verify: Verify, join: Any, n: int) -> None:
        """A door has checked it, at another time and on another host. Whether the challenge was fresh only it knew."""
        if not join.key:
            return
        challenge, signature = join.proof[:CHALLENGE_BYTES], join.proof[CHALLENGE_BYTES:]
        signed = signed_by_joiner(challenge, self.head.run, join.member, join.supersedes, join.nonce)
        if not verify(join.key, signed, signature):
            what = f"holds a join of {join.member} that its key did not sign"
            raise JournalCorrupt(self.head.run, n, 0, what, "the entry")

    def _check_term(self, entry: Entry, recorded: list[tuple[Cause | None, Event]]) -> None:
        took = [event for _, event in recorded if type(event) is HostTook]
        term, host = (took[-1].term, took[-1].host) if took else (self.head.term, self.head.host)
        if (entry.term, entry.host) != (term, host) and (term or took):
            raise JournalCorrupt(
                self.head.run, entry.n, 0,
                f"was written by {entry.host!r} in term {entry.term}, while {host!r} serves term {term}", "the entry",
            )  # fmt: skip

    def sealed(self, entry: Entry, payload: bytes) -> None:
        """The entry is part of the journal: the run has moved on."""
        self.head.n = entry.n
        self.head.at_us = entry.at_us
        self.head.digest = digest(payload)

    def about(self) -> dict[str, Any]:
        """For people, in plain values: what there is to say of a run of any kind."""
        head = self.head
        return {
            "run": head.run, "kind": head.kind, "rules": head.rules, "label": head.label, "entry": head.n,
            "at_us": head.at_us, "term": head.term, "host": head.host, "address": head.address,
            "duties": len(self.duties),
        }  # fmt: skip

    # -- snapshots --------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        for member in self.roster.members.values():
            member.seal()
        sections: dict[str, Any] = {
            "head": self.head,
            "members": list(self.roster.members.values()),
            "operators": [(key, *given) for key, given in self.roster.operator_answers.items()],
            "duties": list(self.duties.values()),
        }
        for name, value in self.machine.sections().items():
            sections[f"{self.kind.name}.{name}"] = value
        return pack(self.head.run, self.head.n, sections)

    def state_digest(self) -> bytes:
        return self.snapshot().digest()

    @classmethod
    def restore(cls, kinds: Kinds, run: str, n: int, root: bytes, pages: dict[bytes, bytes]) -> Run:
        sections = unpack(run, n, root, pages)
        try:
            head = msgspec.convert(sections["head"], Head)
            kind = kinds.get(head.kind, head.rules)
            members = msgspec.convert(sections["members"], list[Member])
            operators = msgspec.convert(sections["operators"], list[tuple[str, int, Answer]])
            duties = msgspec.convert(sections["duties"], list[Duty])
            own = {
                name.removeprefix(f"{kind.name}."): value
                for name, value in sections.items()
                if name.startswith(f"{kind.name}.")
            }
            machine = kind.restore(own)
        except (msgspec.ValidationError, KeyError) as error:
            raise JournalCorrupt(run, n, 0, f"cannot be restored: {error}", "the snapshot") from None
        answers = {name: (command, answer) for name, command, answer in operators}
        roster = Roster(MAX_KNOWN_MEMBERS, {member.id: member for member in members}, answers)
        return cls(kind, kinds, head, roster, {duty_name(d.entry, d.index): d for d in duties}, machine)


def fold(kinds: Kinds, run: str, payloads: list[bytes], base: Run | None = None) -> Run | None:
    """The run that these entries make, after ``base`` or from the beginning; None if there are none at all."""
    current = base
    for payload in payloads:
        if current is None:
            current = Run.create(kinds, decode_created(decode_entry(payload, run, 1)))
        current.extend(payload)
    return current


def readable(event: Event, what: str) -> None:
    """What was made here is not checked by decoding it; what nobody could decode again must not be written."""
    try:
        msgspec.msgpack.decode(encode(event), type=type(event))
    except msgspec.ValidationError as error:
        raise ConfigError(what, event, str(error)) from None


def command_of(event: Event) -> Event | bytes:
    """What is compared if its number comes again. Of a refused command there is only the digest."""
    return event.command if type(event) is CommandRefused else event


def duty_name(entry: int, index: int) -> str:
    return f"{entry}.{index}"


def tuple_of(cause: Cause) -> tuple[str, int, int]:
    return (cause.member, cause.incarnation, cause.seq)


def _not_allowed(cause: Cause, event: Event) -> Refusal | None:
    """Whether this sender may propose this event."""
    if (
        event.by is By.MEMBER
        and getattr(event, "member", "") == cause.member
        and getattr(event, "incarnation", 0) == cause.incarnation
        and not cause.member.startswith(OPERATOR_MARK)
    ):
        return None
    return _why_not_allowed(cause, event)


def _why_not_allowed(cause: Cause, event: Event) -> Refusal | None:
    name = type(event).__name__
    if cause.member.startswith(OPERATOR_MARK):
        if event.by is By.OPERATOR or type(event) is CommandRefused:
            return None
        return Refusal("not_yours", f"{name} is not for operators", "leave it to members and hosts")
    if type(event) is CommandRefused:
        return None
    if event.by is not By.MEMBER:
        return Refusal("not_yours", f"{name} is not for members", f"only the {event.by.value} may do this")
    speaks_for = (getattr(event, "member", ""), getattr(event, "incarnation", 0))
    if speaks_for != (cause.member, cause.incarnation):
        why = (
            f"{cause.member} (incarnation {cause.incarnation}) speaks for {speaks_for[0]} (incarnation {speaks_for[1]})"
        )
        return Refusal("contradiction", why, "speak for yourself")
    return None

"""Who is who: identity, incarnation, and what each was last told.

A member is (id, incarnation). The id is a name, the incarnation counts its lives: every process that joins under the
id is a new one. The newest wins; an older one is *superseded*, is told so, and must not fight back.

Joining is a compare-and-set on the incarnation. The joiner says which life it means to follow (``supersedes``, 0 if it
knows of none), so a join that was delayed in the network for an hour cannot displace the life that came after it. It
also carries a ``nonce`` drawn once per life: the same join sent twice is recognised and answered alike.

The first join binds the id to a key; every later one must name the same. A join carries the *proof* that its sender
holds the key: the challenge it was given, and the signature. A door checks it before it proposes the join, and every
host that folds the entry checks it again, so that no host can bring a member in that did not want to come.

Keys are free: whoever may bring one id can make a thousand. So a token brings a number of ids into a run and no more.
The host says in the join by which token it came and how many that may bring; the fold counts, so that every replica and
every restart counts alike.

Commands of one life are numbered 1, 2, 3... with one outstanding at a time. The roster remembers the last number and
its answer: the same command under the same number gets the same answer, whether it was accepted or refused, across
restarts too. Another command under a used number is refused: its sender would believe that it has happened.
Operators are not members; their commands carry a random number each, and the last few hundred answers are kept. Where
an operator's cause has an incarnation, it is a digest of the command: one number must not mean two things.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from quoracy.core.codec import digest, encode
from quoracy.core.errors import Refusal

OPERATOR_MARK: Final = "@"
"""Names of operators begin with it; ids of members must not."""

MAX_OPERATOR_ANSWERS: Final = 256
MAX_NAMED: Final = 3
"""Ids that a refusal lists."""
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")

MemberId = Annotated[str, Meta(min_length=1, max_length=64)]
Counter = Annotated[int, Meta(ge=0, le=2**53)]
"""A number that every language can hold exactly."""
Nonce = Annotated[bytes, Meta(min_length=16, max_length=16)]
Key = Annotated[bytes, Meta(max_length=64)]
CHALLENGE_BYTES: Final = 32
COMMAND_BYTES: Final = 8
TokenId = Annotated[str, Meta(max_length=32)]
Proof = Annotated[bytes, Meta(max_length=128)]
"""The challenge, then the signature of ``signed_by_joiner``; empty where the member has no key."""


class Cause(msgspec.Struct, frozen=True, array_like=True):
    """Whose command led to an event: the id that ties request, entry, answer and log line together."""

    member: MemberId
    incarnation: Counter
    seq: Counter


class Accepted(msgspec.Struct, frozen=True, array_like=True, tag="accepted"):
    """The command is in the journal. ``result`` holds what the fold assigned, such as a rank."""

    entry: int
    result: dict[str, Any] | None = None


Answer = Accepted | Refusal


def joined_as(answer: Accepted) -> int:
    """The incarnation that an accepted join began. Not the one after what the joiner says it follows: a join that is
    repeated because its answer was lost may follow itself."""
    return int((answer.result or {})["incarnation"])


class Repeat(msgspec.Struct, frozen=True):
    """Decided before: this was the answer. Nothing changes now."""

    answer: Answer


class Member(msgspec.Struct, array_like=True):
    """One id with its newest life."""

    id: str
    incarnation: int
    key: bytes
    nonce: bytes
    joined: Accepted
    seq: int = 0
    answer: Answer | None = None
    token: str = ""
    """By which its first join came."""
    command: Any = b""
    """The last command, or its digest: see ``seal``. Empty where it is not known."""

    def seal(self) -> None:
        """A snapshot holds the digest of the command. It is made no earlier: most commands are never asked about."""
        if not isinstance(self.command, bytes):
            self.command = command_digest(self.command)


class Roster(msgspec.Struct):
    """All ids that ever joined, bounded by ``limit``: forgetting one would forget its key and its lives."""

    limit: int
    members: dict[str, Member] = {}
    operator_answers: dict[str, tuple[int, Answer]] = {}
    """By operator and number: the digest of the command, and what was answered."""
    brought: dict[str, int] = {}
    """How many ids each token has brought in: follows from ``members``."""

    def __post_init__(self) -> None:
        for member in self.members.values():
            self._count(member.token)

    def _count(self, token: str) -> None:
        if token:
            self.brought[token] = self.brought.get(token, 0) + 1

    def check_join(self, member: str, supersedes: int, nonce: bytes, key: bytes) -> Refusal | Repeat | None:
        """None: go ahead."""
        known = self.members.get(member)
        if known is None:
            if supersedes != 0:
                why = f"{member} wants to follow incarnation {supersedes}, but nobody of that id has joined"
                return Refusal("stale_join", why, "join with supersedes = 0")
            if not _PLAIN.issuperset(member):
                why = f"member id {member!r} has other characters than letters, digits, '.', '_' and '-'"
                return Refusal("malformed", why, "choose a plain id")
            if len(self.members) >= self.limit:
                why = f"{len(self.members)} ids have joined this run and no more than {self.limit} may"
                return Refusal("roster_full", why, "reuse an id, or create a new run")
            return None
        if known.key != key:
            why = f"the id {member} is bound to the key of its first join"
            return Refusal("key_mismatch", why, "join with that key, or under another id")
        if known.nonce == nonce:
            return Repeat(known.joined)
        if supersedes != known.incarnation:
            why = f"{member} is at incarnation {known.incarnation}, the join would follow {supersedes}"
            return Refusal("stale_join", why, "if this process is the newest, look again and join again; else exit")
        return None

    def check_token(self, member: str, token: str, most: int) -> Refusal | None:
        """After ``check_join`` said None: a new id costs its token one of those that it may bring. An id stays that of
        the token which brought it, also when it comes again by another."""
        if not most or not token or member in self.members or self.brought.get(token, 0) < most:
            return None
        known = [one.id for one in self.members.values() if one.token == token]
        named = ", ".join(known[:MAX_NAMED]) + (", ..." if len(known) > MAX_NAMED else "")
        why = f"the token has brought {named} into this run, and may bring {most} {'id' if most == 1 else 'ids'}"
        fix = "join as one of them, with its key; or ask for a token that may bring more"
        return Refusal("too_many_ids", why, f"{fix} (quoracy token new --ids {most + 1})")

    def enter(self, member: str, nonce: bytes, key: bytes, joined: Accepted, token: str = "") -> Member:
        """After ``check_join`` said None: the next life begins."""
        known = self.members.get(member)
        incarnation = 1 if known is None else known.incarnation + 1
        entered = Member(member, incarnation, key, nonce, joined, token=token if known is None else known.token)
        if known is None:
            self._count(token)
        self.members[member] = entered
        return entered

    def check_cause(self, cause: Cause) -> Refusal | Repeat | None:
        """None: a new command of a known life."""
        if cause.member.startswith(OPERATOR_MARK):
            return self._check_operator(cause)
        known = self.members.get(cause.member)
        if known is None:
            why = f"nobody of the id {cause.member} has joined this run"
            return Refusal("unknown_member", why, "join first")
        if cause.incarnation != known.incarnation:
            return superseded(cause.member, cause.incarnation, known.incarnation)
        expected = known.seq + 1
        if cause.seq == expected:
            return None
        if cause.seq == known.seq and known.answer is not None:
            return Repeat(known.answer)
        if cause.seq < known.seq:
            why = f"command {cause.seq} of {cause.member} is older than its last one, {known.seq}"
            return Refusal("answer_forgotten", why, "nothing: its sender has had the answer and gone on")
        why = f"command {cause.seq} of {cause.member} came while {expected} is the next"
        return Refusal("sequence_gap", why, f"send command {expected} first")

    def check_command(self, cause: Cause, command: Any) -> Refusal | None:
        """After ``check_cause`` said that it is a repeat: whether it is the same command. Those of operators name their
        digest themselves."""
        known = self.members.get(cause.member)
        if known is None or command == known.command:
            return None
        known.seal()
        meant = command if isinstance(command, bytes) else command_digest(command)
        if not meant or not known.command or meant == known.command:
            return None
        why = f"command {cause.seq} of {cause.member} was another one before"
        return Refusal("contradiction", why, f"number commands 1, 2, 3...: the next is {cause.seq + 1}")

    def _check_operator(self, cause: Cause) -> Refusal | Repeat | None:
        given = self.operator_answers.get(_operators_key(cause))
        if given is None:
            return None
        if given[0] != cause.incarnation:
            why = f"command {cause.seq} of {cause.member} was another one before"
            return Refusal("contradiction", why, "send a new command under a new number")
        return Repeat(given[1])

    def remember(self, cause: Cause, answer: Answer, command: Any = b"") -> None:
        """After ``check_cause`` said None: this is what was answered to this command."""
        if cause.member.startswith(OPERATOR_MARK):
            self.operator_answers[_operators_key(cause)] = (cause.incarnation, answer)
            if len(self.operator_answers) > MAX_OPERATOR_ANSWERS:
                del self.operator_answers[next(iter(self.operator_answers))]
            return
        known = self.members[cause.member]
        known.seq = cause.seq
        known.answer = answer
        known.command = command


def command_digest(command: Any) -> bytes:
    return digest(encode(command))[:COMMAND_BYTES]


def signed_by_joiner(challenge: bytes, run: str, member: str, supersedes: int, nonce: bytes) -> bytes:
    """The bytes a joiner signs with its key: this join, in answer to this challenge, and nothing else."""
    return encode(("quoracy join", challenge, run, member, supersedes, nonce))


def _operators_key(cause: Cause) -> str:
    return f"{cause.member}/{cause.seq}"


def superseded(member: str, incarnation: int, current: int) -> Refusal:
    if incarnation > current:
        why = f"{member} is at incarnation {current}; {incarnation} does not exist"
        return Refusal("contradiction", why, f"join to begin incarnation {current + 1}")
    why = f"incarnation {incarnation} of {member} was superseded by incarnation {current}"
    return Refusal("superseded", why, "exit: a newer process has taken this id")

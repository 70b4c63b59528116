"""What the collector's evidence says, and whether it may be believed.

Everybody who folds the journal reads the evidence anew: an event that claims a quorum carries the attestations, and is
refused if they are not there. Who may testify: members in step, by the life that the run knows; as a witness only who
was elected. Nobody counts twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from quoracy.core.errors import Refusal
from quoracy.core.witnessed import attestation, committee
from quoracy.core.witnessed.attestation import Scheme
from quoracy.core.witnessed.events import Attested, Inactive, Report
from quoracy.core.witnessed.state import Course, Round

Masks = dict[str, int]
"""By member: bit i for result i of the round's list."""


def masks(course: Course, round_: Round, said: Sequence[Attested], may: Collection[str]) -> Masks | Refusal:
    """What these hold. ``may``: who may testify at all."""
    may, scheme = frozenset(may), course.scheme
    results = len(round_.results)
    found: Masks = {}
    for one in said:
        member = course.in_step.get(one.member)
        if member is None or member.incarnation != one.incarnation or one.member not in may:
            why = f"{one.member} (incarnation {one.incarnation}) may not testify in {round_.called()}"
            return Refusal("no_quorum", why, "leave its word out")
        if one.member in found or one.known > results:
            why = f"{one.member} testifies twice, or about more than the {results} results there are"
            return Refusal("contradiction", why, "take each member's newest word")
        mask = read(scheme, round_, one.member, one.held, one.known)
        if isinstance(mask, Refusal):
            return mask
        found[one.member] = mask
    return found


def read(scheme: Scheme, round_: Round, member: str, held: bytes, known: int) -> int | Refusal:
    """What one member says it holds of the first ``known`` results, and what nobody has to hold any more. Only a filter
    needs to look at each of them."""
    if scheme.style == attestation.BITMAP:
        mask = attestation.read_bitmap(held, known)
    else:
        drawn = round_.results[known - 1].salt if known else b""
        salt = attestation.salt_of(round_.epoch, round_.number, drawn, member)
        mask = scheme.read(held, [result.digest for result in round_.results[:known]], salt)
    if isinstance(mask, Refusal) or not round_.forsaken:
        return mask
    return mask | sum(1 << place for place in round_.forsaken)


def counts(found: Iterable[int], results: int) -> list[int]:
    """By how many each result is held."""
    whole = (1 << results) - 1
    everything, held = 0, [0] * results
    for mask in found:
        if mask == whole:
            everything += 1
        else:
            for position in attestation.positions(mask):
                held[position] += 1
    return [everything + few for few in held]


def quorum(course: Course, round_: Round) -> int:
    return committee.quorum(course.config.share, len(round_.witnesses))


def reports(course: Course, said: Sequence[Report], may: Collection[str]) -> Refusal | None:
    """Whether each of these may say which model it has, once."""
    seen: set[str] = set()
    for one in said:
        member = course.here.get(one.member)
        if member is None or member.incarnation != one.incarnation or one.member not in may or one.member in seen:
            why = f"{one.member} (incarnation {one.incarnation}) may not say which model it has, or says it twice"
            return Refusal("contradiction", why, "take the newest word of each who takes part")
        seen.add(one.member)
    return None


def reported_inactive(course: Course, round_: Round, said: Sequence[Inactive]) -> dict[str, int] | Refusal:
    """How many of the others in step report each of these. A place in the roster stands for the life that began the
    round."""
    found: dict[str, int] = {}
    lives = dict(zip(round_.roster, round_.lives, strict=True))
    for one in said:
        by = attestation.read_bitmap(one.by, len(round_.roster))
        if isinstance(by, Refusal):
            return by
        names = [round_.roster[place] for place in attestation.positions(by)]
        for name in (one.member, *names):
            member = course.in_step.get(name)
            if member is None or member.incarnation != lives[name]:
                why = f"{name} is not in step in {round_.called()}: it neither is nor reports somebody inactive"
                return Refusal("contradiction", why, "leave its word out")
        if one.member in found or one.member in names:
            why = f"{one.member} is reported as inactive twice, or by itself"
            return Refusal("contradiction", why, "take each member's newest word about others")
        found[one.member] = len(names)
    return found


def majority(models: Iterable[bytes]) -> bytes:
    """What more than half of them have; empty if there is no such model."""
    found = Counter(models)
    if not found:
        return b""
    model, times = found.most_common(1)[0]
    return model if 2 * times > found.total() else b""

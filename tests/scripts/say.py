"""Entries and messages as one line of text each.

``w1.2`` is member w1 in its incarnation 2. Fields that a reader does not need (nonces, keys, empty values) are left
out. Times are run time, in seconds since the run was created.
"""

from __future__ import annotations

from typing import Any

import msgspec

from quoracy.core.codec import MICROSECONDS
from quoracy.core.errors import Refusal
from quoracy.core.journal import CommandRefused, HostTook, RunCreated
from quoracy.core.machine import Duty, Explanation
from quoracy.core.members import Accepted, Answer, Cause
from quoracy.core.messages import Answered, Declined, Moved, Told, ToMember, Welcome
from quoracy.core.run import Kinds

HIDDEN = frozenset({"nonce", "key", "silent_us", "heartbeat_interval_s", "heartbeat_timeout_s"})
ONLY_IF_RAISED = frozenset({"fence", "warnings"})
"""What says nothing while it is nought, or empty."""
SETTLED = frozenset(
    {"rounds", "epochs", "epoch_base", "size_bytes", "norm_bound", "max_update_bytes", "max_metrics_bytes"}
)
"""What is the same in every round of a story, and not what it tells."""
DIGITS = frozenset("0123456789abcdef")
"""Of a digest, which is told by its first eight."""


def seconds(microseconds: int) -> str:
    return f"{microseconds / MICROSECONDS:g} s"


def life(member: str, incarnation: int) -> str:
    return f"{member}.{incarnation}"


def value(thing: Any) -> str:
    match thing:
        case dict():
            return "{" + ", ".join(f"{key}: {value(of)}" for key, of in thing.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(value(of) for of in thing) + "]"
        case bytes():
            return thing.hex()[:8]
        case str() if len(thing) == 64 and DIGITS.issuperset(thing):
            return thing[:8]
        case msgspec.Struct():
            return "(" + pairs(msgspec.structs.asdict(thing)) + ")"
        case _:
            return str(thing)


def pairs(fields: dict[str, Any]) -> str:
    """``name value, name value``; times in seconds; what is empty is not said, except a nought."""
    said = []
    for name, of in fields.items():
        silent = name in ONLY_IF_RAISED and (of == 0 or of == [])
        if name in HIDDEN or of is None or of in ("", b"") or of == {} or silent:
            continue
        if name.endswith("_us"):
            times = [of] if isinstance(of, int) else of
            text = ", ".join(seconds(time) for time in times)
            said.append(f"{name.removesuffix('_us')} " + (text if isinstance(of, int) else f"[{text}]"))
        elif name == "released":
            said.append("released" if of else "aborted")
        elif name == "reason":
            said.append(f'"{of}"')
        else:
            said.append(f"{name} {value(of)}")
    return ", ".join(said)


def event(cause: Cause | None, happened: msgspec.Struct) -> str:
    tag = str(happened.__struct_config__.tag)
    match happened:
        case CommandRefused(refusal=no) if cause is not None:
            whose = life(cause.member, cause.incarnation) if cause.incarnation else cause.member
            return f"{tag} {whose}, command {cause.seq}: {no.code}"
        case RunCreated():
            return f"{tag} {happened.run}: {happened.kind}, rules {happened.rules}" + (
                f", {pairs(happened.config)}" if happened.config else ""
            )
        case HostTook():
            return f"{tag} {happened.host}, term {happened.term}"
    fields = {name: getattr(happened, name) for name in happened.__struct_fields__}
    if "member" in fields:
        member = fields.pop("member")
        incarnation = fields.pop("incarnation", None)
        begins = fields.pop("supersedes", None)
        if begins is not None:
            incarnation = begins + 1
        who = (member or "all") if incarnation is None else life(member, incarnation)
        tag = f"{tag} {who}"
    if "name" in fields:
        tag = f"{tag} {fields.pop('name')}"
    defaults = dict(zip(reversed(happened.__struct_fields__), reversed(happened.__struct_defaults__), strict=False))
    rest = pairs({name: of for name, of in fields.items() if defaults.get(name, msgspec.NODEFAULT) != of})
    return f"{tag}: {rest}" if rest else tag


def duty(wanted: Duty) -> str:
    order = {name: of for name, of in wanted.order.items() if name not in SETTLED}
    return f"duty {wanted.entry}.{wanted.index}: {wanted.what}: {pairs(order)}"


def entry(kinds: Kinds, kind: str, rules: int, events: bytes | msgspec.Raw) -> list[str]:
    recorded = kinds.decoder(kinds.get(kind, rules)).decode(events)
    return [event(cause, happened) for cause, happened in recorded]


def refusal(no: Refusal) -> str:
    return f"{no.code}: {no.why} -> {no.fix}"


def answer(given: Answer) -> str:
    if isinstance(given, Accepted):
        result = f": {pairs(given.result)}" if given.result else ""
        return f"accepted in entry {given.entry}{result}"
    return f"refused, {refusal(given)}"


def message(said: ToMember) -> str:
    match said:
        case Welcome():
            known = f"knows {life(said.member, said.incarnation)}" if said.incarnation else f"knows no {said.member}"
            return f"welcome: {known}; term {said.term}, entry {said.entry}"
        case Answered(cause=cause):
            what = "join" if cause.seq == 0 else f"command {cause.seq}"
            return f"{what} {answer(said.answer)}"
        case Declined():
            return f"{said.topic} declined, {refusal(said.refusal)}"
        case Moved():
            return f"moved: term {said.term}, " + (f"ask {said.address}" if said.address else "nobody serves here")
        case Told():
            return f"{said.topic}: {view(said.value)}"


def view(shown: Any) -> str:
    if shown is None:
        return "nothing"
    fields = {name: getattr(shown, name) for name in shown.__struct_fields__}
    fields.pop("barrier", None)  # the topic says which
    if "ticket" in fields:
        fields = {name: of for name, of in fields.items() if name not in SETTLED and (of or name == "round")}
    if fields.get("command") == "":
        fields.pop("order")
    return pairs(fields)


def explanation(told: Explanation) -> str:
    return told.sentence

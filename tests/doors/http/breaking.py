"""What would break those who were built against an earlier release of the OpenAPI document, each break by name.

Two directions: what somebody may send must still be taken, and what somebody was promised must still come. So a field
that is new breaks nobody in an answer, nor in a request if it need not be there; one that is gone breaks both, since
unknown fields and parameters are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]
_LEAST = ("minimum", "minLength", "minItems", "minProperties")
_MOST = ("maximum", "maxLength", "maxItems", "maxProperties")
_CHOICES = ("anyOf", "oneOf")


def breaks(old: Schema, new: Schema) -> list[str]:
    """Two documents."""
    return list(Comparison(old, new).paths())


class Comparison:
    def __init__(self, old: Schema, new: Schema) -> None:
        self._old = old
        self._new = new

    def paths(self) -> Iterator[str]:
        for path, there in self._old["paths"].items():
            for method, promised in there.items():
                name = f"{method.upper()} {path}"
                now = self._new["paths"].get(path, {}).get(method)
                if now is None:
                    yield f"{name} is gone"
                else:
                    yield from self._operation(name, promised, now)

    def _operation(self, name: str, old: Schema, new: Schema) -> Iterator[str]:
        if old["operationId"] != new["operationId"]:
            yield f"{name}: operationId was {old['operationId']}, is {new['operationId']}"
        if new.get("security") and not old.get("security"):
            yield f"{name} needs a token now"
        yield from self._parameters(name, old["parameters"], new["parameters"])
        yield from self._body(name, old.get("requestBody"), new.get("requestBody"))
        yield from self._answers(name, old["responses"], new["responses"])

    # -- what is sent -----------------------------------------------------------------------------------------------

    def _parameters(self, name: str, old: list[Schema], new: list[Schema]) -> Iterator[str]:
        before = {(one["in"], one["name"]): one for one in old}
        now = {(one["in"], one["name"]): one for one in new}
        for (place, what), promised in before.items():
            where = f"{name}: the {place} parameter {what}"
            if (place, what) not in now:
                yield f"{where} is gone"
            else:
                yield from self._taken(where, promised["schema"], now[place, what]["schema"])
        for (place, what), one in now.items():
            if one["required"] and not before.get((place, what), {}).get("required"):
                yield f"{name}: the {place} parameter {what} has to be sent now"

    def _body(self, name: str, old: Schema | None, new: Schema | None) -> Iterator[str]:
        if new is not None and new["required"] and not (old is not None and old["required"]):
            yield f"{name}: a body has to be sent now"
        for media, promised in (old or {}).get("content", {}).items():
            now = (new or {}).get("content", {}).get(media)
            if now is None:
                yield f"{name}: a body of {media} is not taken any more"
            else:
                yield from self._taken(f"{name}: the body", promised["schema"], now["schema"])

    def _taken(self, where: str, old: Schema, new: Schema) -> Iterator[str]:
        """Everything that fitted the old schema fits the new one."""
        for before, now in self._pairs(old, new):
            if now is None:
                yield f"{where} may not be {_called(before)} any more"
                continue
            yield from _narrower(where, before, now)
            yield from self._inside(where, before, now, sent=True)
            for field in sorted(set(now.get("required", ())) - set(before.get("required", ()))):
                yield f"{where}.{field} has to be sent now"
            if before.get("additionalProperties", True) is not False and now.get("additionalProperties") is False:
                yield f"{where} takes no other fields any more"

    # -- what comes back --------------------------------------------------------------------------------------------

    def _answers(self, name: str, old: dict[str, Schema], new: dict[str, Schema]) -> Iterator[str]:
        for status, promised in old.items():
            if int(status) >= 400:
                continue
            now = new.get(status)
            if now is None:
                yield f"{name}: the status {status} is gone"
                continue
            for header, said in promised.get("headers", {}).items():
                if said.get("required") and not now.get("headers", {}).get(header, {}).get("required"):
                    yield f"{name}: the header {header} of {status} is gone"
            for media, shown in promised.get("content", {}).items():
                if media not in now.get("content", {}):
                    yield f"{name}: {status} is not {media} any more"
                else:
                    yield from self._given(f"{name}: {status}", shown["schema"], now["content"][media]["schema"])

    def _given(self, where: str, old: Schema, new: Schema) -> Iterator[str]:
        """Whoever reads what the old schema promised finds it. That it is never null any more is no harm."""
        for before, now in self._pairs(old, new):
            if before.get("type") == "null":
                continue
            if now is None:
                yield f"{where} may not be {_called(before)} any more"
                continue
            if before.get("type") != now.get("type"):
                yield f"{where}: type was {before.get('type')}, is {now.get('type')}"
            yield from self._inside(where, before, now, sent=False)
            for field in sorted(set(before.get("required", ())) - set(now.get("required", ()))):
                if field in now.get("properties", {}):
                    yield f"{where}.{field} may be missing now"

    # -- both -------------------------------------------------------------------------------------------------------

    def _inside(self, where: str, old: Schema, new: Schema, sent: bool) -> Iterator[str]:
        compare = self._taken if sent else self._given
        for field, promised in old.get("properties", {}).items():
            if field not in new.get("properties", {}):
                yield f"{where}.{field} is gone"
            else:
                yield from compare(f"{where}.{field}", promised, new["properties"][field])
        for part, mark in (("items", "[]"), ("additionalProperties", "[]"), ("contentSchema", "")):
            if isinstance(old.get(part), dict) and isinstance(new.get(part), dict):
                yield from compare(f"{where}{mark}", old[part], new[part])

    def _pairs(self, old: Schema, new: Schema) -> Iterator[tuple[Schema, Schema | None]]:
        """Each choice of the old schema, with the choice of the new one that stands for it."""
        now = {_called(choice): self._follow(self._new, choice) for choice in _choices(self._follow(self._new, new))}
        for choice in _choices(self._follow(self._old, old)):
            before = self._follow(self._old, choice)
            only = next(iter(now.values())) if len(now) == 1 else None
            yield before, now.get(_called(choice), only)

    def _follow(self, document: Schema, schema: Schema) -> Schema:
        if "$ref" not in schema:
            return schema
        found: Schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return found


def _choices(schema: Schema) -> list[Schema]:
    return next((schema[word] for word in _CHOICES if word in schema), [schema])


def _called(schema: Schema) -> str:
    """What tells one choice from the others."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    event = schema.get("properties", {}).get("event", {}).get("const")
    return str(event or schema.get("title") or schema.get("type") or "anything")


def _narrower(where: str, old: Schema, new: Schema) -> Iterator[str]:
    if "type" in new and old.get("type") != new["type"]:
        yield f"{where}: type was {old.get('type')}, is {new['type']}"
    gone = set(map(str, old.get("enum", ()))) - set(map(str, new.get("enum", ())))
    if "enum" in new and (gone or "enum" not in old):
        yield f"{where} may not be {', '.join(sorted(gone)) or 'anything else'} any more"
    if new.get("pattern") not in (None, old.get("pattern")):
        yield f"{where}: pattern was {old.get('pattern')}, is {new['pattern']}"
    for bound in _LEAST:
        if new.get(bound, float("-inf")) > old.get(bound, float("-inf")):
            yield f"{where}: {bound} was {old.get(bound)}, is {new[bound]}"
    for bound in _MOST:
        if new.get(bound, float("inf")) < old.get(bound, float("inf")):
            yield f"{where}: {bound} was {old.get(bound)}, is {new[bound]}"

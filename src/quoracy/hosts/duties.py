"""The three duties of a federated run, done: look at an update, make one model of many, say how good it is.

All may be done twice: content is created once under its digest, and names are set to the same content again. What is
wrong with an update is an answer; what is wrong with the world is raised, and tried again.
"""

from __future__ import annotations

import importlib
import math
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from quoracy.core.errors import ObjectCorrupt, ObjectMissing, ObjectsError
from quoracy.core.federated.aggregation import Aggregation
from quoracy.folders import unneeded
from quoracy.hosts.keys import Keys
from quoracy.learn import BadTensors, CannotAggregate, Update, aggregate, digest_of, examine, load
from quoracy.ports import Objects

MAX_METRICS: Final = 32
MAX_NAME: Final = 64
MAX_VALUE: Final = 1e300


class Evaluated(msgspec.Struct, frozen=True):
    """What an evaluation function is told beside the weights."""

    run: str
    round: int
    digest: str


class ReferenceMissing(ObjectsError):
    """The model that an update is held against is not there, or is none: not the fault of whoever sent the update."""

    code = "object_missing"


class _Refused(Exception):
    def __init__(self, why: str, forged: bool = False) -> None:
        super().__init__(why)
        self.forged = forged


class Duties:
    """``scratch``: a folder for copies of what does not lie on this machine, and for models in the making. Calls may
    come from several threads."""

    def __init__(self, objects: Objects, scratch: Path) -> None:
        self._objects = objects
        self._scratch = scratch
        self._locks: dict[Path, threading.Lock] = {}
        self._guard = threading.Lock()

    def perform(self, run: str, prefix: str, what: str, order: dict[str, Any]) -> dict[str, Any]:
        """Raises ObjectsError and OSError for what may be better later."""
        keys = Keys(prefix)
        match what:
            case "admit":
                return self.admit(keys, order)
            case "aggregate":
                return self.aggregate(keys, order)
            case "evaluate":
                return self.evaluate(run, keys, order)
        return {"failed": f"nobody here knows the duty {what!r}"}

    # -- admit --------------------------------------------------------------------------------------------------------

    def admit(self, keys: Keys, order: dict[str, Any]) -> dict[str, Any]:
        round_, participant, digest = int(order["round"]), str(order["participant"]), str(order["digest"])
        blob = keys.blob(digest)
        size_bytes = self._objects.head(blob)
        if size_bytes is None:
            return _no(f"there is no object {blob}: upload the weights before the round is ended")
        try:
            norm = self._looked(keys, order, size_bytes)
        except _Refused as error:
            self._objects.alias(blob, keys.quarantine(round_, participant, digest))
            self._forget(keys, digest)
            if error.forged:
                self._objects.delete(blob)  # or nobody could ever put there what the digest names
            return _no(str(error))
        if round_ < 0:
            self._objects.alias(blob, keys.model(0))
        else:
            self._name_first(keys, round_, str(order["reference"]))
            self._objects.alias(blob, keys.update(round_, participant))
        return {"ok": True, "norm": norm}

    def _looked(self, keys: Keys, order: dict[str, Any], size_bytes: int) -> float:
        """How far it moves the model. Raises _Refused. What is too large is not even read."""
        digest, max_bytes, announced = str(order["digest"]), int(order["max_update_bytes"]), int(order["size_bytes"])
        if size_bytes > max_bytes:
            raise _Refused(f"the update has {size_bytes} bytes, at most {max_bytes} are taken (max_update_bytes)")
        path = self._here(keys, digest)
        if (found := digest_of(path)) != digest:
            raise _Refused(f"the update's digest is {found}, announced was {digest}", forged=True)
        if announced and announced != size_bytes:
            raise _Refused(f"the update has {size_bytes} bytes, announced were {announced}")
        reference = self._reference(keys, str(order["reference"]))
        try:
            verdict = examine(path, reference, norm_bound=float(order["norm_bound"]), max_bytes=max_bytes)
        except BadTensors as error:
            why = f"the global model {keys.blob(str(order['reference']))} cannot be read: {error}"
            raise ReferenceMissing(why) from None
        if not verdict.ok:
            raise _Refused(verdict.why)
        return verdict.norm

    def _reference(self, keys: Keys, digest: str) -> Path | None:
        if not digest:
            return None
        try:
            return self._here(keys, digest)
        except ObjectMissing:
            why = f"the global model {keys.blob(digest)} is not in the object store: put it there (setting initial)"
            raise ReferenceMissing(why) from None

    def _name_first(self, keys: Keys, round_: int, reference: str) -> None:
        """Weights that the settings give were admitted by nobody, so that they have no name yet."""
        if round_ == 0 and reference and self._objects.head(keys.model(0)) is None:
            self._objects.alias(keys.blob(reference), keys.model(0))

    # -- aggregate ----------------------------------------------------------------------------------------------------

    def aggregate(self, keys: Keys, order: dict[str, Any]) -> dict[str, Any]:
        settings: Any = msgspec.convert(order["aggregation"], Aggregation)
        try:
            updates = [
                Update(str(participant), self._checked(keys, str(digest)), int(samples))
                for participant, digest, samples in order["updates"]
            ]
            previous = self._checked(keys, str(order["previous"]))
            state = self._checked(keys, str(order["state"])) if order["state"] else None
            with self._folder() as made_in:
                made = aggregate(settings, updates, previous, state, made_in)
                if made.state is not None:
                    self._objects.put_file(keys.blob(made.state_digest), made.state, made.state_digest, give=True)
                self._objects.put_file(keys.blob(made.digest), made.weights, made.digest, give=True)
        except (ObjectMissing, ObjectCorrupt, CannotAggregate) as error:
            return {"failed": str(error)}
        self._objects.alias(keys.blob(made.digest), keys.model(int(order["round"]) + 1))
        for update in updates:
            unneeded(update.path)
        self._tidy(keys)
        return {"weights": made.digest, "size_bytes": made.size_bytes, "state": made.state_digest}

    # -- evaluate -----------------------------------------------------------------------------------------------------

    def evaluate(self, run: str, keys: Keys, order: dict[str, Any]) -> dict[str, Any]:
        named, digest = str(order["evaluation"]), str(order["weights"])
        try:
            path = self._checked(keys, digest)
        except (ObjectMissing, ObjectCorrupt) as error:
            return {"failed": str(error)}
        module, _, name = named.partition(":")
        try:
            function = getattr(importlib.import_module(module), name)
        except Exception as error:
            fix = "write module:function, as the server imports it"
            return {"failed": f"evaluation = {named!r}: {_said(error)}; {fix}"}
        try:
            told = function(load(path), Evaluated(run, int(order["round"]), digest))
        except Exception as error:
            return {"failed": f"{named} failed: {_said(error)}"}
        finally:
            self._tidy(keys)
        return measured(named, told)

    # -- files --------------------------------------------------------------------------------------------------------

    def _here(self, keys: Keys, digest: str) -> Path:
        """The object as a local file: itself where it is one, else a copy that stays until the round is over."""
        blob = keys.blob(digest)
        path = self._objects.local_path(blob)
        if path is not None:
            return path
        copy = self._scratch / keys.prefix / digest
        with self._guard:
            lock = self._locks.setdefault(copy, threading.Lock())
        with lock:
            if not copy.exists():
                copy.parent.mkdir(parents=True, exist_ok=True)
                self._objects.fetch(blob, copy)
        return copy

    def _checked(self, keys: Keys, digest: str) -> Path:
        """What was admitted is what is aggregated, whoever can write to the store."""
        path = self._here(keys, digest)
        if (found := digest_of(path)) != digest:
            self._forget(keys, digest)
            raise ObjectCorrupt(keys.blob(digest), f"its content has the digest {found}: it was changed")
        return path

    def _forget(self, keys: Keys, digest: str) -> None:
        (self._scratch / keys.prefix / digest).unlink(missing_ok=True)

    def _tidy(self, keys: Keys) -> None:
        """The round is over: its copies are not needed any more."""
        shutil.rmtree(self._scratch / keys.prefix, ignore_errors=True)
        with self._guard:
            self._locks.clear()

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(dir=self._scratch, prefix="made-", ignore_cleanup_errors=True) as name:
            yield Path(name)


def measured(named: str, told: Any) -> dict[str, Any]:
    """What an evaluation function returned, if it can be journaled."""
    if not isinstance(told, dict):
        return {"failed": f"{named} returned {type(told).__name__}: return a dict of names and numbers"}
    if len(told) > MAX_METRICS:
        return {"failed": f"{named} returned {len(told)} numbers: at most {MAX_METRICS}"}
    metrics: dict[str, float] = {}
    for name, value in told.items():
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
            return {"failed": f"{named} returned a number called {name!r}: 1 to {MAX_NAME} characters"}
        try:
            number = float(value)
        except (TypeError, ValueError):
            return {"failed": f"{named} returned {name} = {str(value)[:60]!r}: a number, please"}
        if not math.isfinite(number) or abs(number) > MAX_VALUE:
            return {"failed": f"{named} returned {name} = {number}: a finite number, please"}
        metrics[name] = number
    return {"metrics": metrics}


def _no(why: str) -> dict[str, Any]:
    return {"ok": False, "why": why}


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:160]}"

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
import numpy as np

from quoracy.core.errors import ObjectCorrupt, ObjectMissing, ObjectsError
from quoracy.core.federated.aggregation import Aggregation
from quoracy.folders import unneeded
from quoracy.hosts.keys import Keys
from quoracy.learn import BadTensors, CannotAggregate, TensorFile, Update, aggregate, digest_of, examine, load
from quoracy.learn.header import Spec
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
        brought = keys.brought(participant, digest, str(order["reference"]))
        size_bytes = self._objects.head(brought)
        if size_bytes is None:
            why = f"{participant} has not uploaded {digest} ({brought}): upload the weights, then end the round"
            return _no(why, initial=round_ < 0)
        try:
            norm = self._looked(keys, order, brought, size_bytes)
        except _Refused as error:
            self._objects.alias(brought, keys.quarantine(round_, participant, digest))
            self._forget(brought)
            if error.forged:
                self._objects.delete(brought)  # or it could never bring there what the digest names
            return _no(str(error), initial=round_ < 0)
        if round_ < 0:
            self._become_model(keys, brought, digest)
        else:
            self._name_first(keys, round_, str(order["reference"]))
            self._objects.alias(brought, keys.update(round_, participant))
        return {"ok": True, "norm": norm} | self._measured(keys, order) | ({"initial": True} if round_ < 0 else {})

    def _looked(self, keys: Keys, order: dict[str, Any], brought: str, size_bytes: int) -> float:
        """How far it moves the model. Raises _Refused. What is too large is not even read."""
        digest, max_bytes, announced = str(order["digest"]), int(order["max_update_bytes"]), int(order["size_bytes"])
        if size_bytes > max_bytes:
            raise _Refused(f"the update has {size_bytes} bytes, at most {max_bytes} are taken (max_update_bytes)")
        path = self._here(brought)
        if (found := digest_of(path)) != digest:
            if digest == order["reference"]:
                raise ReferenceMissing(f"the global model {brought} is damaged: its content has the digest {found}")
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

    def _measured(self, keys: Keys, order: dict[str, Any]) -> dict[str, Any]:
        """Metrics that came as an object: the shapes of those that can be kept, and what is wrong with the others.
        That costs the metrics alone."""
        digest, participant = str(order.get("metrics_digest", "")), str(order["participant"])
        if not digest:
            return {}
        brought = keys.upload(participant, digest)
        try:
            size_bytes, arrays, warnings = self._arrays(brought, digest, int(order["max_metrics_bytes"]))
        except (_Refused, BadTensors) as error:
            return {"warnings": [f"metrics_digest = {digest[:12]}… is left out: {error}"]}
        finally:
            self._forget(brought)
        if arrays:
            self._objects.alias(brought, keys.metrics(int(order["round"]), participant))
        return {"arrays": arrays, "metrics_bytes": size_bytes} | ({"warnings": warnings} if warnings else {})

    def _arrays(self, brought: str, digest: str, max_bytes: int) -> tuple[int, dict[str, list[int]], list[str]]:
        size_bytes = self._objects.head(brought)
        if size_bytes is None:
            raise _Refused("it was not uploaded")
        if size_bytes > max_bytes:
            raise _Refused(f"it has {size_bytes} bytes, at most {max_bytes} are taken (max_metrics_bytes)")
        path = self._here(brought)
        if (found := digest_of(path)) != digest:
            raise _Refused(f"its content has the digest {found}")
        arrays: dict[str, list[int]] = {}
        warnings: list[str] = []
        with TensorFile(path) as file:
            for spec in file.specs:
                why = _unfit(file, spec, len(arrays))
                if why:
                    warnings.append(f"metrics.{spec.name[:MAX_NAME]} is left out: {why}")
                else:
                    arrays[spec.name] = list(spec.shape)
        return size_bytes, arrays, warnings[:MAX_METRICS]

    def _reference(self, keys: Keys, digest: str) -> Path | None:
        if not digest:
            return None
        try:
            return self._here(keys.blob(digest))
        except ObjectMissing:
            why = f"the global model {keys.blob(digest)} is not in the object store: put it there (setting initial)"
            raise ReferenceMissing(why) from None

    def _become_model(self, keys: Keys, brought: str, digest: str) -> None:
        """The initial weights are the run's from here on, no longer one participant's."""
        blob = keys.blob(digest)
        self._objects.put_file(blob, self._here(brought), digest, give=True)
        self._objects.alias(blob, keys.model(0))

    def _name_first(self, keys: Keys, round_: int, reference: str) -> None:
        """Weights that the settings give were admitted by nobody, so that they have no name yet."""
        if round_ == 0 and reference and self._objects.head(keys.model(0)) is None:
            self._objects.alias(keys.blob(reference), keys.model(0))

    # -- aggregate ----------------------------------------------------------------------------------------------------

    def aggregate(self, keys: Keys, order: dict[str, Any]) -> dict[str, Any]:
        settings: Any = msgspec.convert(order["aggregation"], Aggregation)
        model = str(order["previous"])
        try:
            updates = [
                Update(
                    str(participant), self._checked(keys.brought(str(participant), str(digest), model)), int(samples)
                )
                for participant, digest, samples in order["updates"]
            ]
            previous = self._checked(keys.blob(model))
            state = self._checked(keys.blob(str(order["state"]))) if order["state"] else None
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
            path = self._checked(keys.blob(digest))
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

    def _here(self, key: str) -> Path:
        """The object as a local file: itself where it is one, else a copy that stays until the round is over."""
        path = self._objects.local_path(key)
        if path is not None:
            return path
        copy = self._scratch / key
        with self._guard:
            lock = self._locks.setdefault(copy, threading.Lock())
        with lock:
            if not copy.exists():
                copy.parent.mkdir(parents=True, exist_ok=True)
                self._objects.fetch(key, copy)
        return copy

    def _checked(self, key: str) -> Path:
        """What was admitted is what is aggregated, whoever can write to the store. A key ends with its digest."""
        path = self._here(key)
        if (found := digest_of(path)) != key.rpartition("/")[2]:
            self._forget(key)
            raise ObjectCorrupt(key, f"its content has the digest {found}: it was changed")
        return path

    def _forget(self, key: str) -> None:
        (self._scratch / key).unlink(missing_ok=True)

    def _tidy(self, keys: Keys) -> None:
        """The round is over: its copies are not needed any more."""
        shutil.rmtree(self._scratch / keys.prefix, ignore_errors=True)
        with self._guard:
            self._locks.clear()

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(dir=self._scratch, prefix="made-", ignore_cleanup_errors=True) as name:
            yield Path(name)


def _unfit(file: TensorFile, spec: Spec, kept: int) -> str:
    """Why this array is no metric; empty if it is one."""
    if kept >= MAX_METRICS:
        return f"at most {MAX_METRICS} are kept"
    if not 0 < len(spec.name) <= MAX_NAME:
        return f"a name has 1 to {MAX_NAME} characters"
    if spec.dtype.code.startswith("C"):
        return "complex numbers are no metric"
    numbers = np.empty(spec.size, spec.dtype.works_as)
    file.read_into(spec, 0, numbers)  # and not through a map: whoever brought the file may cut it short meanwhile
    return "" if bool(np.isfinite(numbers).all()) else "it has numbers that are not finite"


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


def _no(why: str, initial: bool = False) -> dict[str, Any]:
    return {"ok": False, "why": why} | ({"initial": True} if initial else {})


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:160]}"

"""Where weights are fetched from and brought to: the run's object store itself, or the coordinator's HTTP door before
it.

The coordinator is asked where they are, and asked again after any trouble: it may have been started anew, elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from quoracy.config.objects_url import parse_objects
from quoracy.core.errors import ConfigError, ObjectCorrupt, ObjectsUnreachable
from quoracy.hosts.keys import Keys, prefix_of
from quoracy.learn.packed import Packed
from quoracy.learn.tensors import digest_of
from quoracy.objects import open_objects
from quoracy.objects.opening import ROLES
from quoracy.ports import Objects
from quoracy.sdk.client.http import HttpLine
from quoracy.sdk.federated.weights_cache import Cache
from quoracy.sdk.federated.weights_http import HttpWeights

Way = Literal["auto", "store", "http"]
WAYS: Final = ("auto", "store", "http")
OnProgress = Callable[[], None]


class Place(Protocol):
    def fetch(self, digest: str, cache: Cache) -> Path:
        """A local file, whose digest was found to be right."""

    def upload(self, content: Path | Packed, digest: str) -> None:
        """Whose digest that is. Of a file, one that nobody writes to any more."""

    def close(self) -> None: ...


class Life(Protocol):
    def __call__(self) -> tuple[int, str]:
        """Incarnation and session token of the participant now; 0 while it has no life."""


class StoreWeights:
    def __init__(self, objects: Objects, prefix: str, participant: str = "") -> None:
        """``participant``: uploads go to the folder of its own. Empty: they become the run's."""
        self._objects = objects
        self._keys = Keys(prefix)
        self._participant = participant

    def fetch(self, digest: str, cache: Cache) -> Path:
        key = self._keys.blob(digest)
        here = self._objects.local_path(key)
        if here is None:
            return cache.get(digest, lambda part: self._fetch(key, part, digest))
        if digest_of(here) != digest:
            raise ObjectCorrupt(key, f"{here} is not what its digest says")
        return here

    def _fetch(self, key: str, part: Path, digest: str) -> None:
        self._objects.fetch(key, part, digest)

    def upload(self, content: Path | Packed, digest: str) -> None:
        """Create-only, and on disk when this returns. One that is there already has the same content: the key says
        so."""
        keys, participant = self._keys, self._participant
        key = keys.upload(participant, digest) if participant else keys.blob(digest)
        if isinstance(content, Packed):
            self._objects.put_chunks(key, content.pieces(), digest)
        else:
            self._objects.put_file(key, content, digest, give=True)

    def close(self) -> None:
        self._objects.close()


class Depot:
    def __init__(
        self,
        run: str,
        ask: Callable[[], dict[str, Any]],
        cache: Cache,
        *,
        way: Way,
        store: str,
        token: str,
        ca: str | None,
        on_progress: OnProgress,
        participant: str = "",
        life: Life | None = None,
    ) -> None:
        """``ask``: the question ``weights``. ``store``: this one, whatever the coordinator says. ``participant``: who
        brings weights, of a federated run; through the HTTP door it shows with ``life`` that it is the one."""
        if way not in WAYS:
            raise ConfigError("weights", way, f"one of: {', '.join(WAYS)}")
        if store:
            parse_objects(store, "store")
        if store and way == "http":
            raise ConfigError("store", store, 'with weights="http" there is none: leave one of them out')
        self._run = run
        self._ask = ask
        self._cache = cache
        self._way = way
        self._store = store
        self._token = token
        self._ca = ca
        self._on_progress = on_progress
        self._participant = participant
        self._life = life
        self._place: Place | None = None

    def fetch(self, digest: str) -> Path:
        return self._found().fetch(digest, self._cache)

    def upload(self, content: Path | Packed, digest: str) -> None:
        self._found().upload(content, digest)

    def forget(self) -> None:
        """Something went wrong: ask anew where they are."""
        place, self._place = self._place, None
        if place is not None:
            place.close()

    def _found(self) -> Place:
        if self._place is None:
            self._place = self._look()
        return self._place

    def _look(self) -> Place:
        if self._store:
            return StoreWeights(open_objects(self._store, "store"), prefix_of(self._run), self._participant)
        told = self._ask()
        store, http, prefix = str(told["store"]), str(told["http"]), str(told["prefix"])
        if self._way != "http" and store and (self._way == "store" or _within_reach(store)):
            return StoreWeights(open_objects(store, "store"), prefix, self._participant)
        if self._way != "store" and http:
            return HttpWeights(self._line(http), self._on_progress)
        fix = f"the coordinator names store {store!r} and HTTP door {http!r}: give it one that this machine can use"
        raise ConfigError("weights", self._way, fix)

    def _line(self, http: str) -> HttpLine:
        """With the session token, which is good for this participant alone, where there is one."""
        life, participant = self._life, self._participant
        if life is None:
            return HttpLine(http, self._run, lambda: self._token, self._ca)

        shown: dict[str, Any] = {}

        def token() -> str:
            """Asked before ``who``, and both are of one life: another may begin between two looks."""
            incarnation, session = life()
            if not incarnation or not session:
                raise ObjectsUnreachable(f"{participant} waits to be let in again")
            shown.update(member=participant, incarnation=incarnation)
            return session

        return HttpLine(http, self._run, token, self._ca, who=lambda: shown)


def _within_reach(store: str) -> bool:
    """A folder that is here and may be written to; a server for which there are credentials."""
    try:
        address = parse_objects(store)
    except ConfigError:
        return False
    if address.kind == "file":
        folder = Path(address.folder)
        return folder.is_dir() and os.access(folder, os.R_OK | os.W_OK | os.X_OK)
    return address.kind == "s3" and (address.anonymous or any(os.environ.get(name) for name in ROLES))

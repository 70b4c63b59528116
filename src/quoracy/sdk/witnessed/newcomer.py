"""Getting a model from those who have it: the manifest first, then every tensor, each from whoever gives it.

Everything is content-addressed, so nobody has to be trusted: what does not have the digest that the manifest names is
not the tensor, and a manifest that does not have the agreed hash is not the manifest. What was fetched before a break
is not fetched again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from quoracy.core.witnessed.facts import Load
from quoracy.learn.witnessed.manifest import MAX_MANIFEST_BYTES, Entry, Manifest, assemble, read_manifest
from quoracy.learn.witnessed.trainer import Weights
from quoracy.sdk.witnessed.exchange import Exchange, Fetched

TOGETHER: Final = 8
"""Tensors that are fetched at the same time."""
LOOK_S: Final = 0.2


class NotThere(Exception):
    """Nobody who was asked has it."""


class Newcomer:
    def __init__(
        self, exchange: Exchange, folder: Path, check: Callable[[], None], on_progress: Callable[[], None]
    ) -> None:
        """``check``: called while something is awaited; raises if it is not wanted any more."""
        self._exchange = exchange
        self._folder = folder
        self._check = check
        self._on_progress = on_progress
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def fetch(self, job: Load) -> tuple[int, Weights]:
        """The model that is wanted, or another that would do as well: the first that somebody has. Raises NotThere,
        and BadTensors for what is not what it should be."""
        pointer = job.pointer
        found: dict[int, bytes] = {}
        for step, model in ((pointer.step, pointer.model), *job.agreed):
            found.setdefault(step, model)
        why = "nobody was named who has it"
        for step, model in found.items():
            try:
                manifest = self._manifest(model, pointer.holders)
            except NotThere as error:
                why = str(error)
                continue
            weights = self._tensors(manifest, pointer.holders)
            self._tidy()
            return step, weights
        raise NotThere(why)

    def _manifest(self, model: bytes, holders: tuple[str, ...]) -> Manifest:
        pending = self._begin(model, None, holders, f"manifest of model {model.hex()[:12]}")
        self._wait([pending])
        path = self._path(model)
        try:
            return read_manifest(path.read_bytes(), model)
        finally:
            path.unlink(missing_ok=True)

    def _tensors(self, manifest: Manifest, holders: tuple[str, ...]) -> Weights:
        """Those that are here already are not fetched; the rest a few at a time."""
        wanted = {entry.digest: entry for entry in manifest.entries}
        missing = [entry for entry in wanted.values() if not self._path(entry.digest).exists()]
        for start in range(0, len(missing), TOGETHER):
            self._wait([
                self._begin(entry.digest, entry.size_bytes, holders, f"tensor {entry.name!r}")
                for entry in missing[start : start + TOGETHER]
            ])  # fmt: skip

        def bytes_of(entry: Entry) -> bytes:
            return self._path(entry.digest).read_bytes()

        try:
            return assemble(manifest, bytes_of)
        except BaseException:
            for digest in wanted:
                self._path(digest).unlink(missing_ok=True)
            raise

    def _tidy(self) -> None:
        """The model is there: whatever else was begun is not needed."""
        for path in self._folder.iterdir():
            path.unlink(missing_ok=True)

    def _path(self, digest: bytes) -> Path:
        return self._folder / digest.hex()

    def _begin(self, digest: bytes, size_bytes: int | None, holders: tuple[str, ...], what: str) -> _Pending:
        pending = _Pending(digest, what)
        limit = MAX_MANIFEST_BYTES if size_bytes is None else size_bytes
        self._exchange.fetch(digest, size_bytes, holders, self._path(digest), pending.set, max_bytes=limit)
        return pending

    def _wait(self, some: list[_Pending]) -> None:
        """Until all are there. What is not wanted any more, or fails, ends the others too."""
        try:
            for pending in some:
                while not pending.done.wait(LOOK_S):
                    self._check()
                self._check()
                if pending.outcome is None or not pending.outcome.ok:
                    raise NotThere(f"{pending.what}: {'' if pending.outcome is None else pending.outcome.why}")
                self._on_progress()
        except BaseException:
            for pending in some:
                self._exchange.cancel(pending.digest)
            raise


class _Pending:
    def __init__(self, digest: bytes, what: str) -> None:
        self.digest = digest
        self.what = what
        self.done = threading.Event()
        self.outcome: Fetched | None = None

    def set(self, outcome: Fetched) -> None:
        self.outcome = outcome
        self.done.set()

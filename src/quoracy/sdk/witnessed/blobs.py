"""The results a member holds, as files: its own and those of others, each under its digest.

They lie in a folder and are mapped when they are read, so many of them need little memory. What is dropped goes, with
all that a fetch may have left of it.
"""

from __future__ import annotations

import mmap
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from blake3 import blake3

from quoracy.core.witnessed.facts import Blob
from quoracy.learn.header import BadTensors, Layout
from quoracy.learn.witnessed.batches import Ranges, count_of
from quoracy.learn.witnessed.encodings import Encoding
from quoracy.learn.witnessed.results import About, batches_said, decode, size_bytes
from quoracy.learn.witnessed.trainer import Result

UNKNOWN_BYTES: Final = 64 * 2**30
"""The largest result that is fetched by one that has no model yet, and so cannot tell how large one may be."""
RANGES_BYTES: Final = 2**16
"""Room for batches that are not known beforehand, in a header."""


class Blobs:
    def __init__(self, run: str, folder: Path, batch_size: int, encoding: Encoding) -> None:
        self._run = run
        self._folder = folder
        self._batch_size = batch_size
        self._encoding = encoding
        self._lock = threading.Lock()
        self._kept: set[str] = set()
        """Names: held, or being fetched."""
        self._right: set[tuple[str, bytes]] = set()
        """Names of those that can be read, each with the model it was trained on."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def path(self, digest: bytes) -> Path:
        return self._folder / digest.hex()

    def expect(self, digest: bytes) -> Path:
        """Where it belongs, and where it stays until it is dropped."""
        with self._lock:
            self._kept.add(digest.hex())
        return self.path(digest)

    def put(self, blob: bytes) -> bytes:
        """Returns its digest."""
        digest = blake3(blob).digest()
        path = self.expect(digest)
        part = path.with_name(f".{path.name}.own")
        part.write_bytes(blob)
        part.replace(path)
        return digest

    def drop(self, digests: tuple[bytes, ...]) -> None:
        """With these goes whatever a fetch has left that was given up in its last moment."""
        with self._lock:
            self._kept.difference_update(digest.hex() for digest in digests)
            self._right = {looked for looked in self._right if looked[0] in self._kept}
            for path in self._folder.iterdir():
                if path.name.lstrip(".").partition(".")[0] not in self._kept:
                    with suppress(FileNotFoundError):
                        path.unlink()

    def about(
        self, epoch: int, round_: int, assignment: int, attempt: int, member: str, batches: Ranges, base: bytes
    ) -> About:
        samples = count_of(batches) * self._batch_size
        return About(self._run, epoch, round_, assignment, attempt, member, batches, base, samples)

    def too_large(self, blob: Blob, layout: Layout | None) -> str:
        """Why it is not fetched; empty if it may be what it should be."""
        most = UNKNOWN_BYTES
        if layout is not None:
            most = size_bytes(self._about(blob, blob.batches or (), b""), self._encoding, layout)
            most += 0 if blob.batches is not None else RANGES_BYTES
        size = blob.result.size_bytes
        return "" if size <= most else f"it has {size} bytes, and at most {most} make a result of this model"

    def read(self, blob: Blob, base: bytes, layout: Layout) -> Result:
        """What is in it; ``base``: the model it must be trained on. Raises BadTensors, naming the field or tensor that
        is not what the run says."""
        view = self._view(blob.result.digest)
        batches = batches_said(view) if blob.batches is None else blob.batches
        return decode(view, self._about(blob, batches, base), self._encoding, layout)

    def why_not(self, blob: Blob, base: bytes, layout: Layout) -> str:
        """What is wrong with it; empty if nothing is. What was found right once is not looked at again."""
        looked = (blob.result.digest.hex(), blob.result.base or base)
        if looked in self._right:
            return ""
        try:
            self.read(blob, base, layout)
        except BadTensors as error:
            return str(error)
        with self._lock:
            if looked[0] in self._kept:
                self._right.add(looked)
        return ""

    def _about(self, blob: Blob, batches: Ranges, base: bytes) -> About:
        result = blob.result
        return self.about(
            blob.epoch, blob.round, result.assignment, result.attempt, result.member, batches, result.base or base
        )  # fmt: skip

    def _view(self, digest: bytes) -> memoryview:
        path = self.path(digest)
        if path.stat().st_size == 0:
            return memoryview(b"")
        with path.open("rb") as file:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

"""What lies in the relay, in the order in which it came, and what has to go.

Blobs that members pass to each other through the coordinator are of use for a few rounds. Whatever is older goes, and
the oldest go first where there is no room. The blobs themselves are objects of the store; this is the list of them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

ROUNDS: Final = 8
"""As long as members keep results themselves."""


class Blob(NamedTuple):
    run: str
    digest: str


class Relayed:
    """Not for threads: the event loop's alone."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._blobs: dict[Blob, tuple[int, int]] = {}
        """Oldest first: its size, and the step at which it came."""
        self.total_bytes = 0
        self.listed = False
        """Whether what an earlier server left is in it."""

    def came(self, blob: Blob, size_bytes: int, step: int) -> list[Blob]:
        """It is there now, or once more. -> what has to go: never the newest."""
        self.gone(blob)
        self._blobs[blob] = (size_bytes, step)
        self.total_bytes += size_bytes
        going = [
            known for known, (_, then) in self._blobs.items() if known.run == blob.run and then + ROUNDS < step
        ]  # fmt: skip
        for known in going:
            self.gone(known)
        while self.total_bytes > self._max_bytes and len(self._blobs) > 1:
            oldest = next(iter(self._blobs))
            self.gone(oldest)
            going.append(oldest)
        return going

    def gone(self, blob: Blob) -> None:
        size_bytes, _ = self._blobs.pop(blob, (0, 0))
        self.total_bytes -= size_bytes

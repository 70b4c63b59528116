"""What a member needs to exchange blobs with others. One implementation is here; another transport fits the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from quoracy.core.witnessed.views import PeersShown
from quoracy.sdk.client.http import HttpLine

Source = bytes | memoryview | Path
"""Where the bytes of an offered blob are: in memory, or in a file."""


class Fetched(msgspec.Struct, frozen=True):
    """How a fetch ended."""

    digest: bytes
    ok: bool
    why: str = ""
    lacking: tuple[str, ...] = ()
    """They answered: that they do not have it, or with other bytes."""
    silent: tuple[str, ...] = ()
    """They could not be reached, or did not answer."""


OnDone = Callable[[Fetched], None]
OnTried = Callable[[dict[str, str]], None]
"""Who was not reached, and why."""
OnAnnounce = Callable[[str, bytes], None]
"""Who, and what."""


class Exchange(Protocol):
    @property
    def addresses(self) -> tuple[str, ...]:
        """Where others reach this member; empty if they cannot."""

    def know(self, peers: PeersShown) -> None:
        """These are the members, their keys and addresses. Nobody else is answered."""

    def reach(self, peers: tuple[str, ...], on_tried: OnTried) -> None:
        """Try to connect to these, so that it is known beforehand who can be reached. Returns at once; ``on_tried`` is
        called in another thread, within bounded time. A newer call replaces one that is under way."""

    def offer(self, digest: bytes, source: Source, *, relay: bool = False) -> None:
        """Whoever asks for it gets it, until ``withdraw``. ``relay``: nobody else has it, so that one who cannot be
        reached sends it through the coordinator: at once if it has no address, else when nobody comes for it."""

    def withdraw(self, digest: bytes) -> None: ...

    def fetch(
        self, digest: bytes, size_bytes: int | None, holders: tuple[str, ...], into: Path, on_done: OnDone, *,
        max_bytes: int,
    ) -> None:  # fmt: skip
        """Get a blob into a file, from any of these or from several at once; what arrived before a break stays.
        Returns at once; ``on_done`` is called in another thread, when the file is whole and has the digest or when
        nobody gave it. Asked for again while it is under way, it adds holders. ``size_bytes``: None if not known, then
        at most ``max_bytes``."""

    def cancel(self, digest: bytes) -> None:
        """``on_done`` is not called any more."""

    def announce(self, payload: bytes) -> None:
        """Tell everybody who is known. Best effort: who misses it learns the same from the run."""

    def on_announce(self, heard: OnAnnounce) -> None: ...

    def relay_by(self, line: HttpLine) -> None:
        """What nobody can fetch here, and what this one can fetch nowhere else, goes through the coordinator."""

    def figures(self) -> dict[str, int]: ...

    def close(self) -> None: ...

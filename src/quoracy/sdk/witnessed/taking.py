"""Getting results from others: what is asked of whom, and whether what came is what the run says.

A blob is *held* when its bytes have the digest and its header says what the run says of it; only then it is offered to
others. Called by the conductor and by threads of the exchange.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from quoracy.core.witnessed.facts import BlobGivenUp, BlobHeld, Fetch
from quoracy.learn.header import Layout
from quoracy.sdk.client.driver import log
from quoracy.sdk.witnessed.blobs import Blobs
from quoracy.sdk.witnessed.exchange import Exchange, Fetched

Tell = Callable[[BlobHeld | BlobGivenUp], None]
OnBad = Callable[[str, int, str], None]
"""Whose result, of which round, and what is wrong with it."""


class Taking:
    def __init__(
        self, exchange: Exchange, blobs: Blobs, model: Callable[[], tuple[bytes, Layout | None]], tell: Tell,
        on_bad: OnBad,
    ) -> None:  # fmt: skip
        """``model``: hash and layout of the one that is here."""
        self._exchange = exchange
        self._blobs = blobs
        self._model = model
        self._tell = tell
        self._on_bad = on_bad
        self._asked: dict[bytes, Fetch] = {}
        self._lock = threading.Lock()

    def fetch(self, wish: Fetch) -> None:
        result = wish.blob.result
        why = self._blobs.too_large(wish.blob, self._model()[1])
        if why:
            self._on_bad(result.member, wish.blob.round, why)
            self._tell(BlobGivenUp(result.digest))
            return
        with self._lock:
            self._asked[result.digest] = wish
        path = self._blobs.expect(result.digest)
        self._exchange.fetch(
            result.digest, result.size_bytes, wish.holders, path, self._fetched, max_bytes=result.size_bytes
        )  # fmt: skip

    def made(self, digest: bytes) -> None:
        """By this member. Nobody knows of it before it is committed to."""
        self._exchange.offer(digest, self._blobs.path(digest))

    def committed(self, digest: bytes) -> None:
        """The others want it now, and cannot have it from anybody else."""
        self._exchange.offer(digest, self._blobs.path(digest), relay=True)

    def drop(self, digests: tuple[bytes, ...]) -> None:
        for digest in digests:
            with self._lock:
                self._asked.pop(digest, None)
            self._exchange.cancel(digest)
            self._exchange.withdraw(digest)
        self._blobs.drop(digests)

    def _fetched(self, outcome: Fetched) -> None:
        """Whatever happens here, the part is told: it would wait for ever."""
        with self._lock:
            wish = self._asked.pop(outcome.digest, None)
        if wish is None:
            return
        try:
            why = self._why_not(wish) if outcome.ok else ""
        except OSError as error:
            log.debug("blob %s went away while it was looked at: %s", outcome.digest.hex()[:12], error)
            why = str(error)
        if not outcome.ok or why:
            self._tell(BlobGivenUp(outcome.digest, outcome.lacking, outcome.silent))
            if why:
                self._on_bad(wish.blob.result.member, wish.blob.round, why)
            return
        self._exchange.offer(outcome.digest, self._blobs.path(outcome.digest))
        self._tell(BlobHeld(outcome.digest))

    def _why_not(self, wish: Fetch) -> str:
        """What was sealed counts as it is: a quorum has looked at it."""
        model, layout = self._model()
        return "" if wish.why == "apply" or layout is None else self._blobs.why_not(wish.blob, model, layout)

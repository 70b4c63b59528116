"""The exchange over TCP and TLS, directly between members, with the coordinator as a relay for those out of reach."""

from __future__ import annotations

import logging
import socket
import threading
from pathlib import Path
from typing import Final

from quoracy.core.bounds import whole
from quoracy.core.errors import ConfigError, QuoracyError
from quoracy.core.witnessed.views import PeersShown
from quoracy.sdk.client.http import HttpLine
from quoracy.sdk.witnessed.exchange.fetching import Fetch, Tools
from quoracy.sdk.witnessed.exchange.figures import Figures
from quoracy.sdk.witnessed.exchange.known import Known
from quoracy.sdk.witnessed.exchange.limits import THREADS, Limits
from quoracy.sdk.witnessed.exchange.links import Links
from quoracy.sdk.witnessed.exchange.offers import Offers
from quoracy.sdk.witnessed.exchange.pool import Pool
from quoracy.sdk.witnessed.exchange.port import Fetched, OnAnnounce, OnDone, OnTried, Source
from quoracy.sdk.witnessed.exchange.reaching import Reaching
from quoracy.sdk.witnessed.exchange.relay import RelayClient
from quoracy.sdk.witnessed.exchange.serving import Giving
from quoracy.sdk.witnessed.exchange.telling import Telling
from quoracy.sdk.witnessed.exchange.unasked import Unasked
from quoracy.trust.keys import MemberKey

log = logging.getLogger("quoracy")
SENDING: Final = 2
"""Threads that bring blobs to the relay: fetching must not wait for them."""
ANYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound


class DirectExchange:
    def __init__(
        self, member: str, key: MemberKey, listen: tuple[str, int] | None, address: str | None, limits: Limits
    ) -> None:
        """Raises OSError if it cannot listen there."""
        self._known = Known(member)
        self._figures = Figures()
        self._limits = limits
        self._offers = Offers()
        self._giving = (
            None if listen is None else Giving(key, listen, self._known, self._offers, self._figures, limits)
        )  # fmt: skip
        here = "" if listen is None or self._giving is None else _joined(listen[0], self._giving.port)
        self._address = address or here
        self._unasked = Unasked(self._offers, limits.unasked_s, bool(self._address))
        self._links = Links(key, self._known, self._figures, limits)
        self._telling = Telling(self._known, self._links, self._figures)
        self._taking = Pool(THREADS, "quoracy-take")
        self._sending = Pool(SENDING, "quoracy-send")
        self._tools = Tools(self._links, self._taking, self._figures, limits)
        self._relay: RelayClient | None = None
        self._reaching: Reaching | None = None
        self._fetches: dict[bytes, Fetch] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="quoracy-watch", daemon=True).start()

    def call_itself(self, host: str) -> None:
        """What others are told, where it listens on all addresses."""
        if self._giving is not None:
            self._address = _joined(host, self._giving.port)

    @property
    def addresses(self) -> tuple[str, ...]:
        return (self._address,) if self._address else ()

    def know(self, peers: PeersShown) -> None:
        self._known.learn(peers)
        self._links.learned()
        if self._giving is not None:
            self._giving.learned()

    def reach(self, peers: tuple[str, ...], on_tried: OnTried) -> None:
        reaching = Reaching(self._links, peers, self._limits, on_tried)
        with self._lock:
            before, self._reaching = self._reaching, reaching
            closed = self._closed.is_set()
        if before is not None:
            before.close()
        if not closed:
            reaching.begin()

    def relay_by(self, line: HttpLine) -> None:
        self._relay = self._tools.relay = RelayClient(line, self._figures)

    def figures(self) -> dict[str, int]:
        return self._figures.shown()

    # -- giving -----------------------------------------------------------------------------------------------------

    def offer(self, digest: bytes, source: Source, *, relay: bool = False) -> None:
        self._offers.add(digest, source)
        if relay and self._relay is not None and self._unasked.made(digest):
            self._sending.submit(self._put, self._relay, digest, source)

    def _put(self, relay: RelayClient, digest: bytes, source: Source) -> None:
        try:
            relay.put(digest, source)
        except (QuoracyError, OSError) as error:
            log.warning("%s: nobody gets blob %s: %s", self._known.member, digest.hex()[:12], error)

    def withdraw(self, digest: bytes) -> None:
        self._unasked.gone(digest)
        self._offers.remove(digest)

    def on_announce(self, heard: OnAnnounce) -> None:
        if self._giving is not None:
            self._giving.on_announce(heard)

    def announce(self, payload: bytes) -> None:
        self._telling.announce(payload)

    # -- taking -----------------------------------------------------------------------------------------------------

    def fetch(
        self, digest: bytes, size_bytes: int | None, holders: tuple[str, ...], into: Path, on_done: OnDone, *,
        max_bytes: int,
    ) -> None:  # fmt: skip
        def done(outcome: Fetched) -> None:
            with self._lock:
                if self._fetches.get(digest) is not fetch:
                    return  # it was cancelled meanwhile
                del self._fetches[digest]
            on_done(outcome)

        named, out_of_reach = self._reached(holders)
        with self._lock:
            if self._closed.is_set():
                return
            known = self._fetches.get(digest)
            if known is None:
                fetch = self._fetches[digest] = Fetch(digest, size_bytes, into, max_bytes, self._tools, done)
        if known is None:
            fetch.begin(named, out_of_reach)
        else:
            known.add(named, out_of_reach)

    def _reached(self, holders: tuple[str, ...]) -> tuple[list[str], bool]:
        """Nobody named means everybody. And whether there is one among them that can be reached by nobody."""
        peers = {peer.member: peer for peer in self._known.all()}
        named = [holder for holder in holders or peers if holder != self._known.member]
        return named, any(holder in peers and not peers[holder].addresses for holder in named)

    def cancel(self, digest: bytes) -> None:
        with self._lock:
            known = self._fetches.pop(digest, None)
        if known is not None:
            known.cancel()

    def _watch(self) -> None:
        """A slow holder says nothing, and one who does not come neither: somebody has to look."""
        while not self._closed.wait(min(self._limits.slow_s, self._limits.unasked_s) / 4):
            self._send_unasked()
            with self._lock:
                fetches = list(self._fetches.values())
            for fetch in fetches:
                fetch.look()

    def _send_unasked(self) -> None:
        others = [peer for peer in self._known.all() if peer.member != self._known.member]
        for digest in self._unasked.due():
            source = self._offers.source(digest)
            if others and source is not None and self._relay is not None:
                what = f"nobody comes to {self._address} for blob {digest.hex()[:12]}"
                log.warning("%s: %s: it goes through the coordinator", self._known.member, what)
                self._sending.submit(self._put, self._relay, digest, source)

    def close(self) -> None:
        """Nobody is told of what was under way."""
        self._closed.set()
        with self._lock:
            fetches, self._fetches = list(self._fetches.values()), {}
            reaching = self._reaching
        if reaching is not None:
            reaching.close()
        for fetch in fetches:
            fetch.cancel()
        if self._giving is not None:
            self._giving.close()
        if self._relay is not None:
            self._relay.close()
        self._links.close()
        self._telling.close()
        self._taking.close()
        self._sending.close()


def open_exchange(
    member: str, key: MemberKey, listen: str, address: str | None = None, *, toward: str = "",
    limits: Limits | None = None,
) -> DirectExchange:  # fmt: skip
    """``listen``: HOST:PORT; empty: nobody can reach this member. ``address``: what others are told instead of it.
    ``toward``: a host; where ``listen`` is every address of this machine, others are told the one it reaches that host
    from. Raises ConfigError if it cannot listen there."""
    if not listen:
        return DirectExchange(member, key, None, address, limits or Limits())
    host, colon, port = listen.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    number = whole(port, 65535)
    if not colon or number is None:
        raise ConfigError("listen", listen, "HOST:PORT, such as 0.0.0.0:7800; port 0 takes a free one")
    try:
        exchange = DirectExchange(member, key, (host, number), address, limits or Limits())
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigError("listen", listen, f"this machine cannot listen there ({why})") from None
    if host in ANYWHERE and address is None:
        exchange.call_itself(_own_address(toward, host))
    return exchange


def _own_address(toward: str, host: str) -> str:
    """Nothing is sent: the system only says which of its addresses it would use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((toward or socket.gethostname(), 9))
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

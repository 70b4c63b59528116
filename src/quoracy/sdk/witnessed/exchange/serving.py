"""Giving: what this member offers, to those who are in the roster and prove it.

A thread listens, and one serves each connection. Connections are bounded, those of strangers more narrowly, and so is
the time one may take to introduce itself, to ask, and to take what it asked for: whoever is slow on purpose takes up
one place for a moment. Who leaves the roster is cut off.
"""

from __future__ import annotations

import logging
import secrets
import socket
import threading
from collections import Counter, OrderedDict
from contextlib import suppress
from typing import Final

from blake3 import blake3

from quoracy.core.witnessed.views import Peer
from quoracy.sdk.witnessed.exchange.channel import PIECE_BYTES, Broken, Channel
from quoracy.sdk.witnessed.exchange.figures import Figures
from quoracy.sdk.witnessed.exchange.known import Known
from quoracy.sdk.witnessed.exchange.limits import Limits
from quoracy.sdk.witnessed.exchange.offers import Offers
from quoracy.sdk.witnessed.exchange.port import OnAnnounce
from quoracy.sdk.witnessed.exchange.wire import (
    NONCE_BYTES,
    Get,
    Have,
    Mine,
    No,
    Nonce,
    NotHere,
    Tell,
    Thanks,
    introduction,
    to_listener,
)
from quoracy.trust.keys import MemberKey, check_proof
from quoracy.trust.pinned import listening_context

log = logging.getLogger("quoracy")
REMEMBERED: Final = 4096
"""Announcements, so that the same one is not heard twice."""
BACKLOG: Final = 128


class Giving:
    def __init__(
        self, key: MemberKey, listen: tuple[str, int], known: Known, offers: Offers, figures: Figures, limits: Limits
    ) -> None:
        """Raises OSError if it cannot listen there."""
        self._key = key
        self._known = known
        self._offers = offers
        self._figures = figures
        self._limits = limits
        self._lock = threading.Lock()
        self._strangers: set[Channel] = set()
        self._open: dict[Channel, Peer] = {}
        self._heard: OnAnnounce | None = None
        self._before: OrderedDict[bytes, None] = OrderedDict()
        self._giving = threading.BoundedSemaphore(limits.giving_at_once)
        self._closed = threading.Event()
        self._context = listening_context(key)
        family = socket.AF_INET6 if ":" in listen[0] else socket.AF_INET
        self._sock = socket.create_server(listen, family=family, backlog=BACKLOG)
        self.port = int(self._sock.getsockname()[1])
        threading.Thread(target=self._listen, name="quoracy-exchange", daemon=True).start()

    def on_announce(self, heard: OnAnnounce) -> None:
        self._heard = heard

    def learned(self) -> None:
        """The roster is another: who is not in it any more, or has another key, is cut off."""
        with self._lock:
            for channel, peer in self._open.items():
                if self._known.key(peer.member) != peer.key:
                    channel.cut()

    def close(self) -> None:
        self._closed.set()
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()
        with self._lock:
            for channel in (*self._strangers, *self._open):
                channel.cut()

    # -- one connection ---------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        while not self._closed.is_set():
            try:
                sock, _ = self._sock.accept()
            except OSError:
                if self._closed.wait(0.1):  # no more files, perhaps: it may be better in a while
                    return
                continue
            try:
                self._let_in(sock)
            except (OSError, RuntimeError) as error:
                log.warning("exchange: a connection could not be served: %s", error)
                sock.close()

    def _let_in(self, sock: socket.socket) -> None:
        channel = Channel(sock, self._context, to_listener, server=True)
        with self._lock:
            strangers, members = len(self._strangers), len(self._open)
            full = strangers >= self._limits.strangers or strangers + members >= self._limits.connections
            if not full:
                self._strangers.add(channel)
        if full or self._closed.is_set():
            self._figures.add("connections_refused")
            channel.close()
            return
        threading.Thread(target=self._serve, args=(channel,), name="quoracy-give", daemon=True).start()

    def _serve(self, channel: Channel) -> None:
        try:
            member = self._met(channel.greet(self._limits.dial_s))
            while not self._closed.is_set():
                self._answer(channel, member, channel.hear(self._limits.dial_s, self._limits.idle_s))
        except Broken as error:
            log.debug("exchange: a connection ended: %s", error)
        except Exception:
            log.exception("exchange: a connection failed")
        finally:
            with self._lock:
                self._strangers.discard(channel)
                self._open.pop(channel, None)
            channel.close()

    def _met(self, channel: Channel) -> str:
        """Who it is. Raises Broken unless it is in the roster and holds the key."""
        nonce, wait_s = secrets.token_bytes(NONCE_BYTES), self._limits.dial_s
        channel.say(Nonce(nonce), wait_s)
        mine = channel.hear(wait_s)
        if not isinstance(mine, Mine):
            raise Broken(f"it began with {type(mine).__name__}")
        why = self._why_not(mine, nonce) or self._enter(channel, mine.member)
        if why:
            self._figures.add("connections_refused")
            channel.say(No(why[:240]), wait_s)
            raise Broken(why)
        channel.say(Thanks(), wait_s)
        return mine.member

    def _why_not(self, mine: Mine, nonce: bytes) -> str:
        me, key = self._known.member, self._known.key(mine.member)
        if mine.wanted != me:
            return f"this is {me}, not {mine.wanted}"
        if not key:
            return f"{mine.member} is not in the roster of {me}, or has no key there"
        if not check_proof(key, introduction(nonce, self._key.public, me, mine.member), mine.signature):
            return f"{mine.member} does not hold the key that the roster of {me} has for it, {key.hex()[:16]}"
        return ""

    def _enter(self, channel: Channel, member: str) -> str:
        """Empty, if there is room for one more connection of this member."""
        peer = self._known.peer(member)
        if peer is None:
            return f"{member} has just left the roster"
        with self._lock:
            if Counter(known.member for known in self._open.values())[member] >= self._limits.connections_each:
                return f"{member} has {self._limits.connections_each} connections already"
            self._strangers.discard(channel)
            self._open[channel] = peer
        return ""

    def _answer(self, channel: Channel, member: str, request: object) -> None:
        match request:
            case Get():
                self._give(channel, request)
            case Tell(payload=payload):
                self._hear(member, payload)
                channel.say(Thanks(), self._limits.take_s)
            case _:
                raise Broken(f"it asked with {type(request).__name__}")

    def _hear(self, member: str, payload: bytes) -> None:
        mark = blake3(member.encode() + b"\0" + payload).digest()
        with self._lock:
            known = mark in self._before
            self._before[mark] = None
            self._before.move_to_end(mark)
            if len(self._before) > REMEMBERED:
                self._before.popitem(last=False)
        self._figures.add("heard_before" if known else "heard")
        if not known and self._heard is not None:
            self._heard(member, payload)

    def _give(self, channel: Channel, get: Get) -> None:
        with self._offers.opened(get.digest) as blob:
            if blob is None:
                channel.say(NotHere(), self._limits.take_s)
                return
            at, end = get.offset, min(get.offset + get.length, blob.size_bytes)
            channel.say(Have(max(0, end - at), blob.size_bytes), self._limits.take_s)
            if at >= end:
                return
            with self._giving, channel.corked():
                room = memoryview(bytearray(min(PIECE_BYTES, end - at)))
                while at < end:
                    piece = blob.piece(at, room[: min(len(room), end - at)])
                    if not piece:
                        raise Broken("a file became shorter while it was given")
                    channel.send(piece, self._limits.take_s)
                    self._figures.add("given_bytes", len(piece))
                    at += len(piece)

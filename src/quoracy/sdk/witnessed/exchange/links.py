"""Taking: connections to other members, made when they are needed and kept for the next time."""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from quoracy.core.witnessed.views import Peer
from quoracy.sdk.witnessed.exchange.channel import Broken, Channel
from quoracy.sdk.witnessed.exchange.figures import Figures
from quoracy.sdk.witnessed.exchange.known import Known
from quoracy.sdk.witnessed.exchange.limits import Limits
from quoracy.sdk.witnessed.exchange.plan import Work
from quoracy.sdk.witnessed.exchange.wide import WideChannel
from quoracy.sdk.witnessed.exchange.wire import (
    Get,
    Have,
    Mine,
    No,
    Nonce,
    NotHere,
    Tell,
    Thanks,
    introduction,
    to_dialler,
)
from quoracy.trust.keys import MemberKey
from quoracy.trust.pinned import dialling_context, key_in

TAKEN_BYTES: Final = 512 * 1024
"""What is taken at once, written and hashed: each time costs a little, whatever the size."""


class Lacks(Exception):
    """It answered, and does not have it."""


class Unwanted(Exception):
    """Nobody waits for what it was asked for any more."""


Following = Callable[[], Work | None]
Sized = Callable[[int], None]
"""Is told how large the holder says the whole is. Raises Lacks if that cannot be."""
Came = Callable[[Work, memoryview], bool]
"""Is given the next bytes of a work; whether it wants the others."""


class Links:
    def __init__(self, key: MemberKey, known: Known, figures: Figures, limits: Limits) -> None:
        self._key = key
        self._known = known
        self._figures = figures
        self._limits = limits
        self._context = dialling_context()
        self._idle: dict[str, list[tuple[Peer, WideChannel]]] = {}
        self._busy: set[Channel] = set()
        self._lock = threading.Lock()
        self._closed = False

    # -- asking -----------------------------------------------------------------------------------------------------

    def pull(self, member: str, digest: bytes, following: Following, sized: Sized, came: Came) -> None:
        """Stretches of a blob, as long as ``following`` names one; the next is asked for while one comes. Raises Lacks
        if it does not have it, Broken if it does not answer, Unwanted if it is too slow. Then what it was asked for
        last has not come whole."""
        work = following()
        if work is None:
            return
        with self._borrowed(member) as channel:
            channel.widen()
            room = memoryview(bytearray(TAKEN_BYTES))
            asked: deque[tuple[Work, Get]] = deque([(work, self._ask(channel, digest, work))])
            while asked:
                if len(asked) == 1 and (ahead := following()) is not None:
                    asked.append((ahead, self._ask(channel, digest, ahead)))
                work, get = asked.popleft()
                self._take(channel, room, work, self._answer(channel, member, get, sized).length, came)
                if not asked and (work := following()) is not None:
                    asked.append((work, self._ask(channel, digest, work)))
            channel.widen(False)

    def size(self, member: str, digest: bytes) -> int:
        """Of the whole, as this member says. Raises as ``pull`` does."""
        with self._borrowed(member) as channel:
            get = self._ask(channel, digest, Work(member, 0, 0, 0.0))
            return self._answer(channel, member, get, lambda _: None).total

    def _ask(self, channel: Channel, digest: bytes, work: Work) -> Get:
        get = Get(digest, work.at, work.end - work.at)
        channel.say(get, self._limits.answer_s)
        return get

    def _answer(self, channel: Channel, member: str, get: Get, sized: Sized) -> Have:
        """Its bytes follow."""
        answer = channel.hear(self._limits.answer_s)
        if isinstance(answer, NotHere):
            raise Lacks(f"{member} does not have it")
        if isinstance(answer, No):
            raise Broken(f"{member} refused: {answer.why}")
        if not isinstance(answer, Have):
            raise Broken(f"{member} answered with {type(answer).__name__}")
        sized(answer.total)
        if answer.length != max(0, min(get.length, answer.total - get.offset)):
            raise Lacks(f"{member} gives {answer.length} of the {get.length} bytes from {get.offset} on")
        return answer

    def _take(self, channel: Channel, room: memoryview, work: Work, left: int, came: Came) -> None:
        while left:
            piece = room[: min(len(room), left)]
            left -= len(piece)
            channel.fill(piece, self._limits.answer_s, left)
            self._figures.add("taken_bytes", len(piece))
            if not came(work, piece) and left:
                raise Unwanted

    def tell(self, member: str, payload: bytes) -> None:
        with self._borrowed(member) as channel:
            channel.say(Tell(payload), self._limits.answer_s)
            answer = channel.hear(self._limits.answer_s)
            if not isinstance(answer, Thanks):
                raise Broken(f"{member} did not take it: {answer}")

    def reach(self, member: str) -> None:
        """Whether it is there, and is who it should be; the connection is kept. Raises Broken."""
        with self._borrowed(member):
            pass

    # -- connections ------------------------------------------------------------------------------------------------

    @contextmanager
    def _borrowed(self, member: str) -> Iterator[WideChannel]:
        """One that is kept if all went well, and closed if not."""
        peer, channel = self._taken(member)
        fine = False
        try:
            yield channel
            fine = True
        except Broken:
            self._figures.add("connections_broken")
            raise
        finally:
            with self._lock:
                self._busy.discard(channel)
                kept = self._idle.setdefault(member, [])
                fine = fine and len(kept) < self._limits.kept and not self._closed and self._known.peer(member) == peer
                if fine:
                    kept.append((peer, channel))
            if not fine:
                channel.close()

    def _taken(self, member: str) -> tuple[Peer, WideChannel]:
        peer = self._known.peer(member)
        if peer is None:
            raise Broken(f"{member} is not in the roster")
        if not peer.addresses:
            raise Broken(f"{member} cannot be reached: it has no address")
        if not peer.key:
            raise Broken(f"{member} cannot be known again: it has no key")
        while True:
            with self._lock:
                kept = self._idle.get(member)
                if not kept:
                    break
                known, channel = kept.pop()
            if known == peer and channel.quiet():
                return peer, self._used(channel)
            channel.close()
        return peer, self._used(self._dial(peer))

    def _used(self, channel: WideChannel) -> WideChannel:
        with self._lock:
            self._busy.add(channel)
            closed = self._closed
        if closed:
            channel.close()
            raise Broken("this exchange is closed")
        return channel

    def _dial(self, peer: Peer) -> WideChannel:
        """At the first of its addresses that leads to it."""
        why = []
        for address in peer.addresses:
            try:
                return self._met(peer, address)
            except (Broken, OSError, ValueError, OverflowError) as error:
                said = getattr(error, "strerror", None) or error
                why.append(f"{peer.member} at {address}: {said}")
        raise Broken("; ".join(why))

    def _met(self, peer: Peer, address: str) -> WideChannel:
        host, _, port = address.rpartition(":")
        limits = self._limits
        sock = socket.create_connection((host.strip("[]"), int(port)), limits.dial_s)
        channel = WideChannel(sock, self._context, to_dialler, server=False)
        try:
            channel.greet(limits.dial_s)
            found = key_in(channel.certificate())
            if found != peer.key:
                ours = peer.key.hex()[:16]
                raise Broken(f"its key is {found.hex()[:16] or 'none'}, that of {peer.member} in the roster is {ours}")
            nonce = channel.hear(limits.dial_s)
            if not isinstance(nonce, Nonce):
                raise Broken(nonce.why if isinstance(nonce, No) else f"it began with {type(nonce).__name__}")
            me = self._known.member
            signature = self._key.sign(introduction(nonce.nonce, peer.key, peer.member, me))
            channel.say(Mine(me, peer.member, signature), limits.dial_s)
            answer = channel.hear(limits.dial_s)
            if not isinstance(answer, Thanks):
                raise Broken(f"it refused: {answer.why}" if isinstance(answer, No) else f"it answered {answer}")
        except BaseException:
            channel.close()
            raise
        return channel

    def learned(self) -> None:
        """The roster is another: connections to those who have gone, or moved, are of no use."""
        with self._lock:
            for member, kept in self._idle.items():
                peer = self._known.peer(member)
                for known, channel in kept:
                    if known != peer:
                        channel.close()
                kept[:] = [(known, channel) for known, channel in kept if known == peer]
            self._idle = {member: kept for member, kept in self._idle.items() if kept}

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, {}
            for channel in self._busy:
                channel.cut()
        for kept in idle.values():
            for _, channel in kept:
                channel.close()

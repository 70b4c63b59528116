"""Many members in one process, each with its session and its heartbeat connection over TLS, as a training and the
process beside it have them: the very ``Connection``, ``WorkerSession`` and ``Sender``, over plain sockets and epoll.

Sessions are silent once they have joined, as those of trainings that compute; heartbeats go on. Orders come as lines;
each is answered with one line of JSON, and so is the first, which says who joins where.
"""

from __future__ import annotations

import math
import os
import random
import resource
import select
import socket
import ssl
import sys
import time
from collections.abc import Callable
from functools import partial

import msgspec

from quoracy.core.cluster.events import WorkerReady
from quoracy.sdk.client.address import Address
from quoracy.sdk.client.connection import Connection, State
from quoracy.sdk.client.dialer import receive, send
from quoracy.sdk.client.heartbeat import Beating, Sender, Task
from quoracy.sdk.client.memory import Memory
from quoracy.sdk.client.session import Stage
from quoracy.sdk.client.vitals import Vitals
from quoracy.sdk.cluster import heartbeat
from quoracy.sdk.cluster.session import WorkerSession
from quoracy.trust.tls import client_context

TOGETHER = 32
"""So many join at a time."""
LOOK_S = 0.05
"""How often everybody's clock is looked at."""
PATIENCE_S = 120.0
"""For an order to be carried out."""
DIAL_US = 5_000_000
"""For a connection and its handshake, as the SDK has it."""


class Wish(msgspec.Struct):
    address: Address
    ca: str
    run: str
    members: list[str]


class Told(msgspec.Struct):
    at_us: int
    unwell: list[str]
    """Members that were given up, superseded or refused, and why."""


class Line:
    """A connection and its socket."""

    def __init__(self, connection: Connection, tls: ssl.SSLContext, poll: select.epoll) -> None:
        self.connection = connection
        self._tls = tls
        self._poll = poll
        self._sock: socket.socket | None = None
        self._host = ""
        self._dialed_us = 0
        """When it was dialed; 0 when that is over."""
        self._unsent = b""
        self._heard = True

    def fileno(self) -> int:
        return -1 if self._sock is None else self._sock.fileno()

    def listen(self) -> None:
        """From now on somebody reads."""
        if self._sock is not None:
            self._poll.register(self._sock, select.EPOLLIN)
        self._heard = True

    def ignore(self) -> None:
        """From now on nobody reads."""
        if self._sock is not None:
            self._poll.unregister(self._sock)
        self._heard = False

    def tick(self, at_us: int) -> None:
        connection = self.connection
        connection.tick(at_us)
        if self._dialed_us and at_us - self._dialed_us > DIAL_US:
            self._failed("timed out", at_us)
        self.act(at_us)

    def due(self, at_us: int) -> bool:
        wake_us = self.connection.wake_us()
        return (wake_us is not None and wake_us <= at_us) or bool(self._dialed_us)

    def act(self, at_us: int) -> None:
        if self.connection.close_wanted:
            self.close()
        if (address := self.connection.connect_to(at_us)) is not None:
            self._dial(address, at_us)
        self._write(at_us)

    def ready(self, at_us: int) -> None:
        """Its socket has something to say."""
        if self._dialed_us:
            self._shake_hands(at_us)
        while self._sock is not None and not self._dialed_us:
            chunk = receive(self._sock, 1 << 16)
            if chunk is None:
                break
            if isinstance(chunk, str):
                self.connection.closed(chunk, at_us)
                self.close()
            else:
                self.connection.received(chunk, at_us)
                if self.connection.close_wanted:
                    self.close()
        self.act(at_us)

    def _dial(self, address: Address, at_us: int) -> None:
        sock = socket.socket()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.connect_ex((address.host, address.port))
        self._sock, self._host = sock, address.host
        self._dialed_us = at_us
        self._poll.register(self._sock, select.EPOLLOUT)

    def _shake_hands(self, at_us: int) -> None:
        """As far as it goes without waiting."""
        if self._sock is None:
            return
        if not isinstance(self._sock, ssl.SSLSocket):
            if error := self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self._failed(os.strerror(error), at_us)
                return
            self._sock = self._tls.wrap_socket(
                self._sock, server_hostname=self._host, do_handshake_on_connect=False
            )  # the descriptor stays the same
        try:
            self._sock.do_handshake()
        except ssl.SSLWantReadError:
            self._poll.modify(self._sock, select.EPOLLIN)
            return
        except ssl.SSLWantWriteError:
            return
        except OSError as error:
            self._failed(error.strerror or str(error), at_us)
            return
        self._dialed_us = 0
        self._poll.modify(self._sock, select.EPOLLIN)
        self.connection.connected(at_us)

    def _failed(self, why: str, at_us: int) -> None:
        self.close()
        self.connection.failed(why, at_us)

    def _write(self, at_us: int) -> None:
        out = self._unsent + self.connection.take_out()
        if self._sock is None or self._dialed_us or not out:
            return
        left = send(self._sock, out)
        if isinstance(left, str):
            self.connection.closed(left, at_us)
            self.close()
        else:
            self._unsent = left

    def close(self) -> None:
        self.connection.close_wanted = False
        self._dialed_us = 0
        self._unsent = b""
        if self._sock is not None:
            if self._heard:
                self._poll.unregister(self._sock)
            self._sock.close()
            self._sock = None


class Member:
    def __init__(self, wish: Wish, name: str, tls: ssl.SSLContext, poll: select.epoll) -> None:
        at_us, draw = now_us(), random.SystemRandom().random
        self.memory = Memory.create()
        self.session = WorkerSession(wish.run, name, os.urandom(32))
        self.sender = Sender(
            Task(wish.run, name, [wish.address], True, wish.ca, "", heartbeat.__name__),
            self.memory,
            Vitals(self.memory, os.getpid(), at_us),
        )
        of_session = Connection(self.session, [wish.address], "", None, draw, at_us, True, WorkerSession.joins)
        of_beats = Connection(self.sender, [wish.address], "", None, draw, at_us, True, heartbeats=True)
        self.line, self.beats = Line(of_session, tls, poll), Line(of_beats, tls, poll)
        self.unwell = ""
        """What it was told that it should not have been told."""
        self._ready = False

    def hear(self) -> None:
        """What its session was told; and for which incarnation to beat."""
        session = self.session
        while session.notes:
            note = session.notes.popleft()
            if note.what == "joined" and not self._ready:
                self._ready = True
                session.wish(WorkerReady)
            elif note.what in ("lost", "ended", "joined", "refused"):
                self.unwell = f"{note.what}: {note.value}"
        if session.token and session.incarnation != self.sender.incarnation:
            told = Beating(session.incarnation, session.token, session.beat_interval_us, session.beat_timeout_us)
            self.sender.beat_for(told, now_us())
            session.beats_elsewhere = True

    def here(self) -> bool:
        """Joined, ready, and up."""
        standing, connection = self.session.standing, self.line.connection
        takes_part = standing is not None and standing.state == "Idle" and self.session.idle()
        return takes_part and connection.state is State.UP and self.session.stage is Stage.JOINED

    def beats_since(self, at_us: int) -> bool:
        """Whether a heartbeat was answered since then."""
        outage, now = self.beats.connection.outage, now_us()
        self.sender.note_outage(0 if outage is None else outage.since_us)
        return self.memory.beats_for(self.sender.incarnation, now, now - at_us)


class Crowd:
    def __init__(self, wish: Wish) -> None:
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 65536), most))
        self._poll = select.epoll()
        tls = client_context(wish.ca)
        self.members = [Member(wish, name, tls, self._poll) for name in wish.members]
        self._by_fd: dict[int, tuple[Member, Line]] = {}
        self._looked_s = 0.0

    def join(self) -> None:
        """All sessions, a few at a time, and then all heartbeats."""
        for first in range(0, len(self.members), TOGETHER):
            some = self.members[first : first + TOGETHER]
            self.drive(some, partial(_all_here, some))
        self.drive([], lambda: all(member.beats_since(0) for member in self.members))

    def beat_again(self, since_us: int) -> None:
        """Until everybody's heartbeat was answered since then."""
        self.drive([], lambda: all(member.beats_since(since_us) for member in self.members))

    def told(self) -> Told:
        """How things stand after an order."""
        unwell = [f"{member.session.member}: {member.unwell}" for member in self.members if member.unwell]
        return Told(now_us(), unwell)

    def call_again(self) -> None:
        """The trainings have computed, and call the SDK: their sessions come back."""
        for first in range(0, len(self.members), TOGETHER):
            some = self.members[first : first + TOGETHER]
            self.drive(some, partial(_all_here, some))

    def drive(self, awake: list[Member], done: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
        """``awake``: those whose sessions are driven too. Nobody reads what the others are told."""
        until_s = time.monotonic() + patience_s
        for member in awake:
            member.line.listen()
            member.line.ready(now_us())
            self._step(member, member.line)
        while True:
            at_s = time.monotonic()
            if at_s - self._looked_s >= LOOK_S:
                self._looked_s = at_s
                self._look(awake)
                if done():
                    break
                if at_s > until_s:
                    raise TimeoutError(f"not done after {patience_s:g} s; not well: {self.told().unwell}")
            for fd, _ in self._poll.poll(LOOK_S):
                member, line = self._by_fd[fd]
                line.ready(now_us())
                self._know(member, line)
        for member in awake:
            member.line.ignore()

    def _look(self, awake: list[Member]) -> None:
        at_us = now_us()
        for member in self.members:
            if member.sender.incarnation and member.beats.due(at_us):
                self._step(member, member.beats)
        for member in awake:
            if member.line.due(at_us):
                self._step(member, member.line)

    def _step(self, member: Member, line: Line) -> None:
        line.tick(now_us())
        self._know(member, line)

    def _know(self, member: Member, line: Line) -> None:
        """What has become of it."""
        if line.fileno() >= 0:
            self._by_fd[line.fileno()] = (member, line)
        member.hear()
        line.act(now_us())


def _all_here(members: list[Member]) -> bool:
    """But for those that will not be any more."""
    return all(member.here() or member.unwell for member in members)


def now_us() -> int:
    return time.monotonic_ns() // 1000


def main() -> None:
    crowd = Crowd(msgspec.json.decode(sys.stdin.buffer.readline(), type=Wish))
    crowd.join()
    while True:
        sys.stdout.write(msgspec.json.encode(crowd.told()).decode() + "\n")
        sys.stdout.flush()
        crowd.drive([], lambda: bool(select.select([0], [], [], 0)[0]), math.inf)
        order, _, argument = sys.stdin.buffer.readline().decode().strip().partition(" ")
        if order == "beat":
            crowd.beat_again(int(argument))
        elif order == "call":
            crowd.call_again()
        else:
            return


if __name__ == "__main__":
    main()

"""A bare client for tests: says exactly what it is told to, and waits for exactly what is expected."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any

from msgspec import Raw

from quoracy.core.cluster.events import Arrive, Heartbeat, WorkerReady, WorkerRegistered
from quoracy.core.codec import encode
from quoracy.core.machine import Event, Signal
from quoracy.core.members import Cause, signed_by_joiner
from quoracy.core.messages import Answered, Call, Hello, Sign, Told
from quoracy.trust import MemberKey
from quoracy.wire.frames import FrameReader, frame
from quoracy.wire.messages import Ask, Goodbye, Granted, Greet, Greeted, Replied, to_client

RUN = "demo"
PATIENCE_S = 20.0


class Talk:
    def __init__(self, url: str, greet: bool = True, token: str = "", heartbeats: bool = False) -> None:
        host, _, port = url.rpartition("/")[2].rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self._reader = FrameReader()
        self.heard: list[Any] = []
        self.greeted: Greeted | None = None
        if greet:
            self.say(Greet(2, 2, token, "", heartbeats))
            first = self.hear(Greeted, Goodbye)
            self.greeted = first if isinstance(first, Greeted) else None

    def __enter__(self) -> Talk:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.socket.close()

    def say(self, *messages: Any) -> None:
        self.socket.sendall(b"".join(frame(message) for message in messages))

    def raw(self, stream: bytes) -> None:
        self.socket.sendall(stream)

    def hear(self, *types: type, where: Callable[[Any], bool] = lambda _m: True) -> Any:
        """The next message of these types; others before it are dropped."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            while self.heard:
                message = self.heard.pop(0)
                if isinstance(message, types) and where(message):
                    return message
            chunk = self.socket.recv(65536)
            if not chunk:
                raise ConnectionError(f"closed while waiting for {types}")
            self.heard += [to_client.read(body) for body in self._reader.feed(chunk)]
        raise TimeoutError(f"no {types} within {PATIENCE_S} s")

    def closed(self) -> bool:
        """Blocks until the other side has closed."""
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionResetError:
            pass
        return True

    def ask(self, what: str, run: str = RUN, **arguments: Any) -> Replied:
        self.say(Ask(7, what, run, arguments))
        replied: Replied = self.hear(Replied)
        assert replied.number == 7
        return replied

    def call(self, cause: Cause, event: Event, run: str = RUN) -> Any:
        self.say(Call(run, cause, Raw(encode(event))))
        answered: Answered = self.hear(Answered, where=lambda m: m.cause == cause)
        return answered.answer

    def sign(self, signal: Signal, run: str = RUN) -> None:
        self.say(Sign.of(run, signal))

    def join(self, member: str, supersedes: int = 0, key: MemberKey | None = None, nonce: bytes = b"") -> Any:
        nonce = nonce or f"{member}/{supersedes}".encode().ljust(16, b".")[:16]
        public = b"" if key is None else key.public
        proof = b""
        if key is not None and self.greeted is not None:
            challenge = self.greeted.challenge
            proof = challenge + key.sign(signed_by_joiner(challenge, RUN, member, supersedes, nonce))
        return self.call(Cause(member, supersedes, 0), WorkerRegistered(member, supersedes, nonce, public, proof))

    def granted(self) -> Granted:
        granted: Granted = self.hear(Granted)
        return granted

    def ready(self, member: str, incarnation: int = 1, seq: int = 1) -> Any:
        return self.call(Cause(member, incarnation, seq), WorkerReady(member, incarnation))

    def arrive(self, member: str, step: int, after: int = 0, incarnation: int = 1) -> None:
        self.sign(Arrive(member, incarnation, "step", step, after))

    def beat(self, member: str, seq: int, incarnation: int = 1) -> None:
        self.sign(Heartbeat(member, incarnation, seq))

    def passed(self, member: str) -> Any:
        told: Told = self.hear(Told, where=lambda m: m.member == member and m.topic == "barrier/step")
        return told.value

    def hello(self, member: str, incarnation: int = 0, token: str = "") -> None:
        self.say(Hello(RUN, member, incarnation, token))

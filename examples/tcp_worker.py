"""A worker over TCP with nothing but sockets and msgpack: what a client in another language has to do.

python examples/tcp_worker.py 127.0.0.1 7700 demo w1

It prints a line for each barrier it passes. Kill it and start it again, kill the coordinator and start that again:
it goes on where the others are.
"""

from __future__ import annotations

import json
import secrets
import socket
import sys
import time
from typing import Any

import msgspec

PAUSE_S = 0.2
NOT_NOW = {"overloaded", "draining", "not_serving", "too_fast", "journal_busy"}


class Line:
    """Frames: four bytes of length, then a message, which is an array that begins with its name."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=30)
        self._read = b""

    def say(self, *message: Any) -> None:
        body = msgspec.msgpack.encode(message)
        self._socket.sendall(len(body).to_bytes(4, "big") + body)

    def hear(self, timeout_s: float) -> list[Any] | None:
        """The next message; None if there is none in time. Raises OSError if the connection is over."""
        self._socket.settimeout(timeout_s)
        try:
            while len(self._read) < 4 or len(self._read) < 4 + (size := int.from_bytes(self._read[:4], "big")):
                chunk = self._socket.recv(65536)
                if not chunk:
                    raise ConnectionError("the coordinator is gone")
                self._read += chunk
        except TimeoutError:
            return None
        message, self._read = msgspec.msgpack.decode(self._read[4 : 4 + size]), self._read[4 + size :]
        return list(message)

    def close(self) -> None:
        self._socket.close()


class Over(Exception):
    """This incarnation is over: it was declared dead, or the run was rolled back. Register again, and recover."""


class Life:
    """One incarnation of the worker, from registering to the end, over as many connections as it takes."""

    def __init__(self, host: str, port: int, run: str, member: str) -> None:
        self.place, self.run, self.member = (host, port), run, member
        self.incarnation = self.seq = self.beats = self.ended = 0
        self.interval_s = 1.0
        self.standing: dict[str, Any] = {}
        self.open: tuple[Any, ...] = ()
        """What was said last and is not answered yet: said again on the next connection."""
        self.connect()

    def connect(self) -> None:
        """Until the coordinator is there: it comes back with everything that it has acknowledged."""
        while True:
            try:
                self.line = Line(*self.place)
                self.line.say("greet", 2, 2, "", "a worker without an SDK")
                self.line.say("hello", self.run, self.member, self.incarnation, "")
                if self.open:
                    self.line.say(*self.open)
                return
            except OSError:
                time.sleep(PAUSE_S)

    def say(self, *message: Any) -> None:
        try:
            self.line.say(*message)
        except OSError:
            self.connect()

    def ask(self, *message: Any) -> None:
        self.open = message
        self.say(*message)

    def wait(self, name: str, topic: str = "") -> list[Any]:
        """The next message of that name and topic. Heartbeats go on meanwhile, and every standing is kept."""
        while True:
            try:
                message = self.line.hear(self.interval_s)
            except OSError:
                self.connect()
                continue
            if message is None:
                self.beat()
                continue
            if message[0] == "told" and message[3] == "standing":
                self.stand(message[4])
            if message[0] == "declined" and message[4][1] not in NOT_NOW:
                raise Over(message[4])
            if message[0] == name and topic in ("", message[3] if name == "told" else ""):
                return message

    def stand(self, standing: dict[str, Any]) -> None:
        self.standing = standing
        if self.incarnation and standing["incarnation"] > self.incarnation:
            raise SystemExit("superseded: a newer process has taken this id")
        if standing["run"] == "Closed":
            raise SystemExit(f"the run is over: {standing['reason']}")

    def beat(self) -> None:
        if self.incarnation:
            self.beats += 1
            beat = ["heartbeat", self.member, self.incarnation, self.beats]
            self.say("sign", self.run, beat, self.member, self.incarnation)

    def command(self, *event: Any) -> None:
        self.seq += 1
        cause = [self.member, self.incarnation, self.seq]
        self.ask("call", self.run, cause, [event[0], self.member, self.incarnation, *event[1:]])
        while self.wait("answered")[1] != cause:
            pass
        self.open = ()

    def join(self) -> None:
        known = self.wait("welcome")[2]
        join = ["worker-registered", self.member, known, secrets.token_bytes(16)]
        self.ask("call", self.run, [self.member, known, 0], join)
        answer, self.open = self.wait("answered")[2], ()
        if answer[0] != "accepted":
            raise SystemExit(f"{answer}")
        self.incarnation, self.interval_s = answer[2]["incarnation"], answer[2]["heartbeat_interval_s"]

    def begin(self) -> int:
        """Take part, and say at which step: from here on no barrier goes on without this worker."""
        self.command("worker-ready")
        while self.standing.get("state") not in ("Idle", "Recovering"):
            self.wait("told", "standing")
        if self.standing["state"] == "Recovering":
            # load the last checkpoint
            self.command("worker-idle", self.standing["fence"])
            while self.standing["state"] != "Idle":
                self.wait("told", "standing")
        return self.next_step()

    def next_step(self) -> int:
        _, step = self.standing["barriers"].get("step", (0, -1))
        return int(step) + 1

    def train(self, steps: int) -> None:
        step = self.begin()
        while step < steps:
            # train this step
            passage = self.arrive(step)
            if passage["released"]:
                print(json.dumps(passage), flush=True)
                step += 1
            else:  # aborted, for all alike: look where the barrier is, and go on from there
                self.say("hello", self.run, self.member, self.incarnation, "")
                self.wait("told", "standing")
                step = self.next_step()
        self.command("worker-left", "done")

    def arrive(self, step: int) -> dict[str, Any]:
        """How the barrier ended. Every hello tells of the last end again: one that is known is no answer."""
        arrive = ["arrive", self.member, self.incarnation, "step", step, None, self.standing["fence"]]
        self.ask("sign", self.run, arrive, self.member, self.incarnation)
        while True:
            passage: dict[str, Any] = self.wait("told", "barrier/step")[4]
            if passage["generation"] > self.ended:
                self.ended, self.open = passage["generation"], ()
                return passage


def live(host: str, port: int, run: str, member: str, steps: int) -> None:
    while True:
        life = Life(host, port, run, member)
        try:
            life.join()
            return life.train(steps)
        except Over:
            time.sleep(PAUSE_S)
        finally:
            life.line.close()


if __name__ == "__main__":
    live(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], int((*sys.argv, "3")[5]))

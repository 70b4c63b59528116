"""A worker over TCP with nothing but sockets and msgpack: what a client in another language has to do.

python examples/tcp_worker.py 127.0.0.1 7700 demo w1

It prints a line for each barrier it passes. Kill it and start it again, kill the coordinator and start that again:
it registers again and goes on where the others are.
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


class Life:
    """One incarnation of the worker, from registering to the end."""

    def __init__(self, line: Line, run: str, member: str) -> None:
        self.line, self.run, self.member = line, run, member
        self.incarnation = self.seq = self.beats = self.ended = 0
        self.interval_s = 1.0
        self.standing: dict[str, Any] = {}

    def wait(self, name: str, topic: str = "") -> list[Any]:
        """The next message of that name and topic. Heartbeats go on meanwhile, and every standing is kept."""
        while True:
            message = self.line.hear(self.interval_s)
            if message is None:
                self.beats += 1
                beat = ["heartbeat", self.member, self.incarnation, self.beats]
                self.line.say("sign", self.run, beat, self.member, self.incarnation)
                continue
            if message[0] == "told" and message[3] == "standing":
                self.standing = message[4]
                if self.standing["incarnation"] > self.incarnation:
                    raise SystemExit("superseded: a newer process has taken this id")
            if message[0] == name and topic in ("", message[3] if name == "told" else ""):
                return message
            if message[0] in ("goodbye", "declined", "moved"):
                raise ConnectionError(f"{message}")

    def command(self, *event: Any) -> None:
        self.seq += 1
        cause = [self.member, self.incarnation, self.seq]
        self.line.say("call", self.run, cause, [event[0], self.member, self.incarnation, *event[1:]])
        self.wait("answered")

    def join(self) -> None:
        self.line.say("greet", 1, 1, "", "a worker without an SDK")
        self.wait("greeted")
        self.line.say("hello", self.run, self.member, 0, "")
        known = self.wait("welcome")[2]
        join = ["worker-registered", self.member, known, secrets.token_bytes(16)]
        self.line.say("call", self.run, [self.member, known, 0], join)
        answer = self.wait("answered")[2]
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
                self.line.say("hello", self.run, self.member, self.incarnation, "")
                self.wait("told", "standing")
                step = self.next_step()
        self.command("worker-left", "done")

    def arrive(self, step: int) -> dict[str, Any]:
        """How the barrier ended. Every hello tells of the last end again: one that is known is no answer."""
        arrive = ["arrive", self.member, self.incarnation, "step", step, None, self.standing["fence"]]
        self.line.say("sign", self.run, arrive, self.member, self.incarnation)
        while True:
            passage: dict[str, Any] = self.wait("told", "barrier/step")[4]
            if passage["generation"] > self.ended:
                self.ended = passage["generation"]
                return passage


def live(host: str, port: int, run: str, member: str, steps: int) -> None:
    """Join, pass barriers, leave; and begin again when the connection is lost, or this incarnation is over."""
    while True:
        try:
            line = Line(host, port)
            try:
                life = Life(line, run, member)
                life.join()
                life.train(steps)
                return
            finally:
                line.close()
        except OSError:
            time.sleep(PAUSE_S)  # the coordinator is away: it comes back with everything that it has acknowledged


if __name__ == "__main__":
    live(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], int((*sys.argv, "3")[5]))

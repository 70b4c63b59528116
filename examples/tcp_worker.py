"""A worker over TCP with nothing but sockets and msgpack: what a client in another language has to do.

python examples/tcp_worker.py 127.0.0.1 7700 demo w1
"""

from __future__ import annotations

import secrets
import socket
import sys
from typing import Any

import msgspec


class Line:
    """Frames: four bytes of length, then a message, which is an array that begins with its name."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=30)
        self._file = self._socket.makefile("rb")

    def say(self, *message: Any) -> None:
        body = msgspec.msgpack.encode(message)
        self._socket.sendall(len(body).to_bytes(4, "big") + body)

    def hear(self, wanted: str) -> list[Any]:
        """The next message of that name; news about other things is passed over."""
        while True:
            size = int.from_bytes(self._file.read(4), "big")
            name, *fields = msgspec.msgpack.decode(self._file.read(size))
            if name == wanted:
                return fields
            if name in ("goodbye", "declined"):
                raise SystemExit(f"{name}: {fields}")

    def close(self) -> None:
        self._file.close()
        self._socket.close()


def live(host: str, port: int, run: str, member: str, steps: int) -> list[int]:
    """Join, pass a few barriers, leave. Returns the generations that were passed."""
    line = Line(host, port)
    line.say("greet", 1, 1, "", "a worker without an SDK")
    line.hear("greeted")

    line.say("hello", run, member, 0, "")
    _, known, _, _ = line.hear("welcome")
    join = ["worker-registered", member, known, secrets.token_bytes(16)]
    line.say("call", run, [member, known, 0], join)
    _, answer = line.hear("answered")
    life = answer[2]["incarnation"]

    line.say("call", run, [member, life, 1], ["worker-ready", member, life])
    line.hear("answered")

    passed: list[int] = []
    for step in range(steps):
        line.say("sign", run, ["heartbeat", member, life, step + 1], member)
        after = passed[-1] if passed else 0
        line.say("sign", run, ["arrive", member, life, "step", step, after], member)
        topic = ""
        while topic != "barrier/step":
            _, _, topic, value = line.hear("told")
        passed.append(value["generation"])

    line.say("call", run, [member, life, 2], ["worker-left", member, life, "done"])
    line.hear("answered")
    line.close()
    return passed


if __name__ == "__main__":
    print(live(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], steps=3))

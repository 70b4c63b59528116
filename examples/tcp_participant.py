"""A participant of a federated run over TCP, with nothing but sockets and msgpack, as a client in another language
would do. Weights go through the HTTP door.

quoracy run create lines --kind federated --set clients=1 --set rounds=3
python examples/tcp_participant.py 127.0.0.1 7700 lines p1

What it trains is one number, which is to become the mean of its own numbers. Prints the rounds that its updates count
in, and what the number has become.
"""

from __future__ import annotations

import secrets
import socket
import sys
import threading
import urllib.request
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
from blake3 import blake3
from safetensors.numpy import load, save

MINE = np.array([1.0, 2.0, 6.0])


class Line:
    """Frames: four bytes of length, then a message, which is an array that begins with its name."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=60)
        self._file = self._socket.makefile("rb")
        self._lock = threading.Lock()

    def say(self, *message: Any) -> None:
        body = msgspec.msgpack.encode(message)
        with self._lock:
            self._socket.sendall(len(body).to_bytes(4, "big") + body)

    def hear(self) -> Iterator[tuple[str, list[Any]]]:
        while head := self._file.read(4):
            name, *fields = msgspec.msgpack.decode(self._file.read(int.from_bytes(head, "big")))
            if name in ("goodbye", "declined"):
                raise SystemExit(f"{name}: {fields}")
            yield name, fields

    def close(self) -> None:
        self._file.close()
        self._socket.close()


def wait(line: Line, wanted: str) -> list[Any]:
    return next(fields for name, fields in line.hear() if name == wanted)


def live(host: str, port: int, run: str, member: str) -> tuple[list[int], float]:
    line = Line(host, port)
    line.say("greet", 2, 2, "", "a participant without an SDK")
    wait(line, "greeted")
    line.say("ask", 1, "weights", run, {})
    _, places, _ = wait(line, "replied")
    at = f"{places['http']}/api/runs/{run}/weights"

    line.say("hello", run, member, 0, "")
    _, known, _, _ = wait(line, "welcome")
    join = ["participant-joined", member, known, secrets.token_bytes(16), b"", b"", {}, True]
    line.say("call", run, [member, known, 0], join)
    _, (_, _, assigned) = wait(line, "answered")
    life, over = assigned["incarnation"], threading.Event()
    beats = (line, run, member, life, assigned["heartbeat_interval_s"], over)
    beating = threading.Thread(target=beat, args=beats, daemon=True)
    beating.start()
    try:
        return take_part(line, run, member, life, at)
    finally:
        over.set()
        beating.join()
        line.close()


def beat(line: Line, run: str, member: str, life: int, every_s: float, over: threading.Event) -> None:
    """Heartbeats, also while it trains. The answers are passed over: what they say is in the standing."""
    seq = 0
    while not over.wait(every_s):
        seq += 1
        line.say("sign", run, ["heartbeat", member, life, seq], member, life)


def take_part(line: Line, run: str, member: str, life: int, at: str) -> tuple[list[int], float]:
    counted: set[int] = set()
    ticket = commands = 0
    line.say("hello", run, member, life, "")
    for standing in standings(line):
        if standing["verdict"] and standing["verdict"][3]:
            counted.add(standing["verdict"][0])
        if standing["phase"] == "ROUND" and not standing["offered"] and standing["ticket"] != ticket:
            digest, size_bytes = train(at, f"?member={member}&incarnation={life}", standing)
            ticket, commands = standing["ticket"], commands + 1
            update = [standing["round"], ticket, len(MINE), digest, size_bytes, {"loss": 0.5}]
            line.say("call", run, [member, life, commands], ["update-offered", member, life, *update])
        if standing["phase"] == "FINISHED":
            line.say("call", run, [member, life, commands + 1], ["participant-left", member, life, "done"])
            wait(line, "answered")
            return sorted(counted), float(fetch(at, standing["weights"])["mean"][0])
    raise SystemExit("the coordinator is gone")


def standings(line: Line) -> Iterator[dict[str, Any]]:
    """How the run stands for this participant: now, and whenever it changes."""
    for name, fields in line.hear():
        if name == "answered" and fields[1][0] == "refused":
            print(f"not taken: {fields[1][1:]}", file=sys.stderr)
        elif name == "told" and fields[2] == "standing":
            yield fields[3]


def train(at: str, me: str, standing: dict[str, Any]) -> tuple[str, int]:
    """In round -1 the weights to begin with are wanted, untrained. ``me``: what comes out is this participant's."""
    weights = {"mean": np.zeros(1)} if standing["round"] < 0 else fetch(at, standing["weights"])
    for _ in range(standing["epochs"] if standing["round"] >= 0 else 0):
        weights["mean"] += 0.5 * (MINE.mean() - weights["mean"])
    content = save(weights)
    digest = blake3(content).hexdigest()
    request = urllib.request.Request(f"{at}/{digest}{me}", content, method="PUT")  # noqa: S310
    urllib.request.urlopen(request, timeout=60).close()  # noqa: S310
    return digest, len(content)


def fetch(at: str, digest: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{at}/{digest}", timeout=60) as answer:  # noqa: S310
        return load(answer.read())


if __name__ == "__main__":
    print(*live(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]))

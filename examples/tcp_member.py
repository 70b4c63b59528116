"""A member of a witnessed run over TCP, with nothing but sockets and msgpack, as a client in another language would do.

quoracy run create alone --kind witnessed --set total_steps=5 --set checkpoint=none --set waiting_extra_s=0
python examples/tcp_member.py 127.0.0.1 7700 alone m1

It is the only member, so that it has nobody to exchange results with: it is its own witness. The model is a number, and
to train a batch means to add the number of the batch to it.
"""

from __future__ import annotations

import secrets
import socket
import sys
from typing import Any

import msgspec
from blake3 import blake3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


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


def hash_of(model: int) -> bytes:
    return blake3(str(model).encode()).digest()


def signed(key: Ed25519PrivateKey, *what: Any) -> bytes:
    return key.sign(msgspec.msgpack.encode(what))


class Member:
    def __init__(self, line: Line, run: str, member: str, life: int, batch_size: int, key: Ed25519PrivateKey) -> None:
        self.line, self.run, self.member, self.life, self.batch_size = line, run, member, life, batch_size
        self.key = key
        self.model = self.step = self.beats = self.commands = self.trained = 0
        self.round: Any = None
        self.over = False

    def sign(self, what: str, *fields: Any) -> None:
        self.line.say("sign", self.run, [what, self.member, self.life, *fields], self.member, self.life)

    def told(self, topic: str, value: Any) -> None:
        """Something looks different now. What it looks like is in core/witnessed/views.py, field by field."""
        if topic == "standing":
            _, state, phase, epoch, _, _, load, _ = value
            self.over = phase == "Finished"
            if state == "Warming" and load is not None:
                self.sign("loaded", epoch, load[1], hash_of(self.model))
        elif topic == "round":
            self.round = value
            self.work()
        elif topic == "results":
            epoch, round_, results, *_ = value
            everything = (1 << len(results)) - 1
            self.sign("attest", epoch, round_, len(results), everything.to_bytes((len(results) + 7) // 8, "little"))
        elif topic == "sealed-brief":
            self.model += self.trained
            self.step += 1
            self.work()

    def work(self) -> None:
        """What was sealed is applied first: the next round may be shown before it, and begins with that model."""
        phase, epoch, round_, step, _, _, _, batches, *_ = self.round
        if step != self.step or phase not in ("RoundTrain", "Cooldown"):
            return
        self.beats += 1  # a member whose rounds take longer beats from a thread
        self.sign("heartbeat", self.beats)
        self.sign("model-hash", step, hash_of(self.model), epoch)
        if phase == "RoundTrain":
            self.train(epoch, round_, batches)

    def train(self, epoch: int, round_: int, batches: list[list[int]]) -> None:
        """All batches of the round are this member's: assignment 0, at the first attempt."""
        numbers = [number for first, end in batches for number in range(first, end)]
        self.trained = sum(numbers)
        blob = str(self.trained).encode()
        self.commands += 1
        digest, base = blake3(blob).digest(), hash_of(self.model)
        signature = signed(self.key, "quoracy result", self.run, epoch, round_, 0, 1, self.member, digest, base)
        committed = [
            "result-committed", self.member, self.life, epoch, round_, 0, 1, digest, len(blob), base,
            len(numbers) * self.batch_size, 0.0, signature,
        ]  # fmt: skip
        self.line.say("call", self.run, [self.member, self.life, self.commands], committed)


def live(host: str, port: int, run: str, name: str) -> int:
    """A whole run. Returns the model that it ended with."""
    line = Line(host, port)
    line.say("greet", 2, 2, "", "a member without an SDK")
    _, challenge, *_ = line.hear("greeted")
    line.say("ask", 1, "settings", run, {})
    _, settings, _ = line.hear("replied")
    line.say("hello", run, name, 0, "")
    _, known, _, _ = line.hear("welcome")
    key, nonce = Ed25519PrivateKey.generate(), secrets.token_bytes(16)  # to come back, one keeps the key in a file
    proof = challenge + signed(key, "quoracy join", challenge, run, name, known, nonce)
    join = ["member-joined", name, known, nonce, key.public_key().public_bytes_raw(), proof]
    line.say("call", run, [name, known, 0], join)
    _, answer = line.hear("answered")
    member = Member(line, run, name, answer[2]["incarnation"], settings["config"]["batch_size"], key)
    while not member.over:
        _, _, topic, value = line.hear("told")
        member.told(topic, value)
    line.close()
    return member.model


if __name__ == "__main__":
    print(live(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]))

"""``python -m quoracy.bench.witness_crowd JSON``: many witnessed members in one process, with nothing to train.

Each has its own connection, its own life and the logic of the SDK's member; only what a trainer and an exchange do is
left out: a result is named, not made, and whoever wants it has it. What is left is the coordination, which is what is
measured. Prints at its end, as one JSON object, when what happened to whom.

Real members have machines of their own. Here they share one interpreter, so whatever has come is read for all of them
before any of them acts on it: what one does must not count as time that another was waiting for the coordinator.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import secrets
import sys
import time
from typing import Final, cast

import msgspec
import uvloop
from blake3 import blake3

from quoracy.bench.witness_seen import Seen, Wish
from quoracy.core.codec import encode
from quoracy.core.errors import Refusal
from quoracy.core.witnessed import facts
from quoracy.core.witnessed.attestation import Scheme
from quoracy.core.witnessed.events import Attest, Holds
from quoracy.core.witnessed.part import Part
from quoracy.core.witnessed.views import RoundShown, Standing
from quoracy.hosts.keys import Keys, prefix_of
from quoracy.objects import open_objects
from quoracy.sdk.client.address import Address
from quoracy.sdk.client.connection import Connection, State
from quoracy.sdk.client.session import Note
from quoracy.sdk.witnessed.client import SHOWN
from quoracy.sdk.witnessed.session import LIFE, MemberSession
from quoracy.trust.keys import MemberKey

RETRY_US: Final = 1_000_000
LEAST_S: Final = 0.0005


class Crowd:
    def __init__(self, wish: Wish) -> None:
        self.wish = wish
        self.seen = Seen()
        self.dialing = asyncio.Semaphore(32)
        self.key = MemberKey.create()
        self._seats = [_Seat(self, member) for member in wish.members]

    async def run(self) -> Seen:
        await asyncio.gather(*(seat.run() for seat in self._seats))
        return self.seen

    def stop(self) -> None:
        for seat in self._seats:
            seat.over.set()


class _Seat(asyncio.Protocol):
    """One member: its connection, its part, and one timer for whatever is next."""

    def __init__(self, crowd: Crowd, member: str) -> None:
        self._crowd = crowd
        self._member = member
        wish = crowd.wish
        key = crowd.key
        self._session = session = MemberSession(wish.run, member, secrets.token_bytes(32), RETRY_US, key.public)
        self._connection = Connection(
            session, [Address(wish.host, wish.port)], "", key, random.SystemRandom().random, now_us(),
            joins=session.joins,
        )  # fmt: skip
        self._up = False
        self._standing: Standing | None = None
        self._part = Part(wish.run, member, key.sign)
        self._commands: dict[int, int] = {}
        """Number of a command of this incarnation to that of the part."""
        self._step = -1
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_us = 0
        self._facts: list[facts.Fact] = []
        self._acts = False
        self._tasks: set[asyncio.Task[None]] = set()
        self.over = asyncio.Event()

    async def run(self) -> None:
        self._act()
        await self.over.wait()
        if self._timer is not None:
            self._timer.cancel()
        self._hang_up()

    # -- what asyncio reports ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connection.connected(now_us())

    def data_received(self, chunk: bytes) -> None:
        self._crowd.seen.in_bytes += len(chunk)
        self._connection.received(chunk, now_us())
        self._read()
        self._soon()

    def connection_lost(self, error: Exception | None) -> None:
        if self._transport is not None and not self.over.is_set():
            self._transport = None
            self._connection.closed(str(error or "it closed the connection"), now_us())
            self._soon()

    # -- what follows -----------------------------------------------------------------------------------------------

    def _soon(self) -> None:
        if not self._acts:
            self._acts = True
            asyncio.get_running_loop().call_soon(self._act)

    def _read(self) -> None:
        notes, session = self._session.notes, self._session
        while notes:
            if (fact := self._hear(notes.popleft())) is not None:
                self._facts.append(fact)
        if session.standing is not None and session.standing is not self._standing:
            self._standing = session.standing
            self._facts.append(facts.Shown(self._standing))
        up = self._connection.state is State.UP
        if up and not self._up:
            self._facts.append(facts.Connected())
        self._up = up
        if self._connection.over is not None:
            self.over.set()

    def _act(self) -> None:
        self._acts = False
        if self.over.is_set():
            return
        connection = self._connection
        connection.tick(now_us())
        self._read()
        self._handle()
        if connection.close_wanted:
            connection.close_wanted = False
            self._hang_up()
        if (out := connection.take_out()) and self._transport is not None:
            self._crowd.seen.out_bytes += len(out)
            self._transport.write(out)
        if (address := connection.connect_to(now_us())) is not None:
            task = asyncio.get_running_loop().create_task(self._dial(address))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self._arm()

    async def _dial(self, address: Address) -> None:
        try:
            async with self._crowd.dialing:
                await asyncio.get_running_loop().create_connection(lambda: self, address.host, address.port)
        except OSError as error:
            self._connection.failed(error.strerror or str(error), now_us())
        self._soon()

    def _arm(self) -> None:
        """A timer that is early does no harm: it is not set anew whenever something has come."""
        times = [time for time in (self._connection.wake_us(), self._part.wake_us()) if time is not None]
        wake_us = min(times, default=None)
        if wake_us is None or (self._timer is not None and self._timer_us <= wake_us):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_us = wake_us
        delay_s = max(LEAST_S, (wake_us - now_us()) / 1e6)
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._ring)

    def _ring(self) -> None:
        self._timer = None
        wake_us = self._part.wake_us()
        if wake_us is not None and now_us() >= wake_us:
            self._facts.append(facts.Tick())
        self._act()

    def _hang_up(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()

    def _hear(self, note: Note) -> facts.Fact | None:
        match note.what:
            case "shown":
                topic, value = note.value
                if topic == LIFE:
                    scheme = Scheme(value.get("attestation", "bitmap"), value.get("bloom_false_positives", 0.01))
                    self._commands.clear()
                    return facts.LifeBegan(value["incarnation"], scheme)
                shown = value if isinstance(value, SHOWN[topic]) else msgspec.convert(value, SHOWN[topic])
                if isinstance(shown, RoundShown):
                    self._note(shown)
                return facts.Shown(shown)
            case "answered":
                cause, answer = note.value
                if (number := self._commands.pop(cause.seq, None)) is not None:
                    return facts.CommandDecided(number, answer if isinstance(answer, Refusal) else None)
            case "moved":
                self._connection.moved(note.value, now_us())
            case "finished" | "ended":
                self.over.set()
        return None

    def _note(self, shown: RoundShown) -> None:
        seen, now = self._crowd.seen, now_us()
        if shown.phase == "RoundTrain":
            self._step = shown.step
            seen.began_us[shown.step] = now
            if shown.round == 0:
                seen.epoch_us[shown.epoch] = now
        elif shown.phase == "Cooldown":
            seen.cooled_us.setdefault(shown.epoch, now)

    def _handle(self) -> None:
        """Whatever has come, and whatever follows at once, is told as one."""
        while self._facts:
            told, self._facts = self._facts, []
            actions = self._part.handle_all(told, now_us())
            self._facts = [fact for action in actions if (fact := self._carry_out(action)) is not None]

    def _carry_out(self, action: facts.Action) -> facts.Fact | None:
        match action:
            case facts.Fetch(blob=blob):
                return facts.BlobHeld(blob.result.digest)
            case facts.Load(pointer=pointer):
                return facts.ModelLoaded(pointer.step, pointer.model or _hash(b"initial"))
            case facts.Reach(epoch=epoch, incarnation=incarnation):
                return facts.PeersTried(epoch, incarnation)
            case facts.Train(work=work):
                samples = sum(end - first for first, end in work.batches) * self._crowd.wish.batch_size
                digest = _hash(encode((self._member, work)))
                return facts.ResultTrained(work, digest, self._crowd.wish.size_bytes, samples, 0.5)
            case facts.Apply(step=step, results=results):
                model = _hash(encode((step, [result.digest for result in results])))
                return facts.ModelApplied(step + 1, model)
            case facts.Store(step=step, model=model):
                _stored(self._crowd.wish, model)
                return facts.ModelStored(step, model, _hash(model), len(model))
            case _:
                self._say(action)
                return None

    def _say(self, action: facts.Action) -> None:
        match action:
            case facts.Send(signal=signal):
                if isinstance(signal, Attest | Holds):
                    self._crowd.seen.attested_us[self._step] = now_us()
                self._session.say(signal)
            case facts.Command(number=number, event=event, fields=fields):
                self._commands[self._session.wish(event, **fields)] = number
            case facts.Ask():
                self._session.look_again()
            case facts.Done():
                self.over.set()


def _stored(wish: Wish, model: bytes) -> None:
    """The checkpoint is the hash of its model: there is no more of it."""
    objects = open_objects(wish.objects)
    try:
        objects.put(Keys(prefix_of(wish.run)).blob(_hash(model).hex()), model)
    finally:
        objects.close()


def _hash(said: bytes) -> bytes:
    return blake3(said).digest()


def now_us() -> int:
    return time.monotonic_ns() // 1000


async def hold(wish: Wish) -> Seen:
    crowd = Crowd(wish)

    def read() -> None:
        if not os.read(sys.stdin.fileno(), 1):
            crowd.stop()

    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), read)
    return await crowd.run()


def main() -> None:
    gc.collect()
    gc.freeze()  # as `quoracy serve` does
    seen = uvloop.run(hold(msgspec.json.decode(sys.argv[1], type=Wish)))
    sys.stdout.write(msgspec.json.encode(seen).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

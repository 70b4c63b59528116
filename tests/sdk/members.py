"""Members for tests: ``members.py NAME URL ...`` runs the function NAME, which says what happens to it.

Their model is the account of batches: a number for each, which counts how often that batch was applied.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from blake3 import blake3
from tests.sdk.scripts import RUN, hear, say

import quoracy
from quoracy.core.codec import encode
from quoracy.core.witnessed.events import signed_by_trainer
from quoracy.core.witnessed.facts import Announce, Command
from quoracy.learn.witnessed import Result, RunTask, Weights
from quoracy.sdk.federated import weights as depot
from quoracy.sdk.witnessed.exchange import DirectExchange
from quoracy.sdk.witnessed.exchange.channel import Channel
from quoracy.sdk.witnessed.exchange.fetching import Fetch
from quoracy.sdk.witnessed.exchange.links import Links
from quoracy.sdk.witnessed.exchange.serving import Giving
from quoracy.sdk.witnessed.exchange.wire import Get
from quoracy.sdk.witnessed.member import Announced, Member
from quoracy.sdk.witnessed.newcomer import Newcomer
from quoracy.trust.keys import MemberKey

BATCHES = 4096
"""A run of a test has fewer."""
THREAD_S = 5.0
SILENT_S = 50.0


class Counting:
    """Trains nothing: its result says which batches it is of."""

    def __init__(self, task: RunTask) -> None:
        self.task = task
        self.seen = np.zeros(BATCHES, np.float32)

    def load(self, weights: Weights | None) -> None:
        self.seen = np.zeros(BATCHES, np.float32) if weights is None else weights["seen"].astype(np.float32)

    def train(self, batch_ids: Sequence[int]) -> Result:
        time.sleep(float(os.environ.get("PACE_S", "0")) * len(batch_ids))
        found = np.zeros(BATCHES, np.float32)
        found[list(batch_ids)] += 1
        return Result({"seen": found}, len(batch_ids) * self.task.batch_size, loss=1.0)

    def apply(self, results: Iterable[Result]) -> None:
        for result in results:
            self.seen = self.seen + result.arrays["seen"]

    def weights(self) -> Weights:
        return {"seen": self.seen}

    def evaluate(self) -> dict[str, float]:
        return {"batches": float(self.seen.sum()), "most": float(self.seen.max())}


class Asking(Counting):
    """Says when it trains, and does there what it is told, line by line, until it is told to be done."""

    def train(self, batch_ids: Sequence[int]) -> Result:
        say("trains", list(batch_ids))
        while (line := hear()) not in ("done", ""):
            if line == "fail":
                raise ValueError("the disk is on fire")
            if line == "progress":
                self.task.progress()
                say("moved")
            if line == "threads":
                say("threads", sorted(thread.name for thread in threading.enumerate()))
        return super().train(batch_ids)


def _join(url: str, name: str, trainer: Callable[[RunTask], Any], **more: Any) -> None:
    folder = Path(os.environ["FOLDER"])
    try:
        summary = quoracy.join(
            url, trainer, RUN, member=name, identity=folder / f"{name}.key", cache=folder / "cache" / name,
            on_news=lambda news: say("news", [news.what, news.text]), **more,
        )  # fmt: skip
    except quoracy.QuoracyError as error:
        say("raised", [type(error).__name__, error.code, str(error)])
        return
    said = {field: getattr(summary, field) for field in summary.__struct_fields__}
    said["threads"] = _threads()
    said["left"] = sorted(path.name for path in (folder / "cache" / name).iterdir() if path.name.startswith("member-"))
    say("summary", said)


def _threads() -> list[str]:
    """Those that are left of a member in the main thread. One that is on its way out is waited for."""
    if threading.current_thread() is threading.main_thread():
        for thread in threading.enumerate():
            if thread is not threading.main_thread():
                thread.join(THREAD_S)
    return sorted(thread.name for thread in threading.enumerate())


def plain(url: str, name: str, listen: str = "127.0.0.1:0", address: str = "") -> None:
    """Trains without asking anybody."""
    _join(url, name, Counting, listen="" if listen == "nowhere" else listen, address=address or None)


def told(url: str, name: str, drain_s: str = "20") -> None:
    _join(url, name, Asking, drain_s=float(drain_s))


def crew(url: str, *names: str) -> None:
    """Several of those who ask nobody, in one process."""
    threads = [threading.Thread(target=_join, args=(url, name, Counting), name=name) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def held(url: str, name: str, where: str, drain_s: str = "20") -> None:
    """Stops and says so at a certain point, once, and goes on when it is told to."""
    _hold(where)
    _join(url, name, Counting, drain_s=float(drain_s))


def uncommitted(url: str, name: str) -> None:
    """Nobody can reach it. When it commits to its first result it says whether that was given to the relay before, and
    when it has announced it, whether it is now."""
    carry_out, offer, relayed = Member._carry_out, DirectExchange.offer, list[bool]()

    def offered(self: DirectExchange, digest: bytes, source: Any, *, relay: bool = False) -> None:
        if isinstance(source, Path):
            relayed.append(relay)
        offer(self, digest, source, relay=relay)

    def carried(self: Member, action: Any) -> None:
        if isinstance(action, Command | Announce):
            before = list(relayed)
            carry_out(self, action)
            say(type(action).__name__, [any(before), any(relayed)])
        else:
            carry_out(self, action)

    DirectExchange.offer, Member._carry_out = offered, carried  # type: ignore[method-assign]
    _join(url, name, Counting, listen="")


def two_faced(url: str, name: str) -> None:
    """Tells the others of another result than it has committed to, and signs that too."""
    key = MemberKey.open(Path(os.environ["FOLDER"]) / f"{name}.key")
    real = DirectExchange.announce

    def announce(self: DirectExchange, payload: bytes) -> None:
        told = msgspec.msgpack.decode(payload, type=Announced)
        lie = msgspec.structs.replace(told.result, digest=blake3(b"a lie").digest())
        said = signed_by_trainer(RUN, told.epoch, told.round, lie.assignment, lie.attempt, name, lie.digest, lie.base)
        real(self, encode(Announced(told.epoch, told.round, lie, key.sign(said))))

    DirectExchange.announce = announce  # type: ignore[method-assign]
    _join(url, name, Counting)


def _is_tensor(source: Any) -> bool:
    return isinstance(source, memoryview) and source.nbytes == 4 * BATCHES


def giving(url: str, name: str) -> None:
    """Stops and says so when a tensor of its model is wanted of it, before it gives any of it."""
    offer, give = DirectExchange.offer, Giving._give
    tensors: set[bytes] = set()

    def noted(self: DirectExchange, digest: bytes, source: Any, *, relay: bool = False) -> None:
        if _is_tensor(source):
            tensors.add(digest)
        offer(self, digest, source, relay=relay)

    def stopped(self: Giving, channel: Channel, get: Get) -> None:
        if get.digest in tensors:
            say("gives")
            hear()
        give(self, channel, get)

    DirectExchange.offer = noted  # type: ignore[method-assign]
    Giving._give = stopped  # type: ignore[method-assign]
    _join(url, name, Counting)


def corrupt(url: str, *names: str) -> None:
    """Gives others tensors in which a bit is another. Results are as they should be."""
    real = DirectExchange.offer

    def offer(self: DirectExchange, digest: bytes, source: Any, *, relay: bool = False) -> None:
        if _is_tensor(source):
            wrong = bytearray(source)
            wrong[0] ^= 1
            source = bytes(wrong)
        real(self, digest, source, relay=relay)

    DirectExchange.offer = offer  # type: ignore[method-assign]
    crew(url, *names)


class Sampled(Counting):
    """Gets its samples from wherever the run's settings say."""

    def train(self, batch_ids: Sequence[int]) -> Result:
        assert self.task.source is not None
        samples = self.task.source.samples(batch_ids)
        assert {name: len(array) for name, array in samples.items()} == dict.fromkeys(
            ("x", "y"), len(batch_ids) * self.task.batch_size
        )
        return super().train(batch_ids)

    def evaluate(self) -> dict[str, float]:
        held_out = None if self.task.source is None else self.task.source.held_out()
        return {"held_out": 0.0 if held_out is None else float(len(held_out["x"]))}


def sampled(url: str, name: str) -> None:
    _join(url, name, Sampled)


def _hold(where: str) -> None:
    points: dict[str, tuple[Any, str]] = {
        "trains": (Counting, "train"),
        "committed": (DirectExchange, "announce"),
        "fetches": (Fetch, "begin"),
        "loads": (Counting, "load"),
        "newcomes": (Newcomer, "_tensors"),
        "reaches": (Links, "reach"),
        "stores": (depot.StoreWeights, "upload"),
    }
    kind, method = points[where]
    real, stopped = getattr(kind, method), threading.Lock()

    def stop(*args: Any, **more: Any) -> Any:
        if stopped.acquire(blocking=False):
            say(where)
            hear()
        return real(*args, **more)

    setattr(kind, method, stop)


if __name__ == "__main__":
    faulthandler.dump_traceback_later(SILENT_S)  # a process that hangs says where, before the test gives it up
    globals()[sys.argv[1]](*sys.argv[2:])

"""``python -m quoracy.launch.crowd_process JSON``: a process that holds many participants; see ``crowd``.

Prints, as one JSON object at its end, what became of each. It ends when all of them have, or when its standard input
does: it does not outlive whoever started it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import uvloop

from quoracy.core.errors import ConfigError
from quoracy.hosts.keys import Keys, prefix_of
from quoracy.launch.crowd import Crowd, Fate
from quoracy.learn import tensors
from quoracy.objects.opening import open_objects
from quoracy.sdk.client.address import parse_address
from quoracy.sdk.federated.session import Offer, Work


class Wish(msgspec.Struct, frozen=True):
    url: str
    run: str
    members: dict[str, dict[str, Any]]
    """By id, what the join says of each."""
    objects: str
    """Where the weights are; the process reads and writes there itself."""
    trainer: str
    """``module:function`` that makes the trainer of ``arguments``."""
    arguments: dict[str, Any] = {}


class Hands:
    """Fetch, train, upload: one after the other, on one thread. The global weights are read once for all."""

    def __init__(self, wish: Wish, scratch: Path) -> None:
        module, _, name = wish.trainer.partition(":")
        self._train = getattr(import_module(module), name)(wish.arguments)
        self._objects = open_objects(wish.objects)
        self._keys = Keys(prefix_of(wish.run))
        self._scratch = scratch
        self._digest = ""
        self._weights: dict[str, np.ndarray[Any, Any]] = {}

    def serve(self, member: str, work: Work) -> Offer:
        weights, samples, metrics, history = self._train(member, self._fetched(work.weights), work)
        path = self._scratch / member
        digest = tensors.save(path, weights)
        self._objects.put_file(self._keys.upload(member, digest), path, digest, give=True)
        size_bytes = path.stat().st_size
        path.unlink()
        return Offer(work.round, work.ticket, samples, digest, size_bytes, metrics, history)

    def _fetched(self, digest: str) -> dict[str, np.ndarray[Any, Any]] | None:
        if not digest:
            return None
        if digest != self._digest:
            key = self._keys.blob(digest)
            path = self._objects.local_path(key)
            if path is None:
                path = self._scratch / "global"
                self._objects.fetch(key, path, digest)
            self._weights = tensors.load(path)
            self._digest = digest
        return self._weights


async def hold(wish: Wish, scratch: Path) -> dict[str, Fate]:
    address = parse_address(wish.url)
    if address is None:
        raise ConfigError("url", wish.url, "write tcp://HOST:PORT")
    crowd = Crowd([address], wish.run, wish.members, Hands(wish, scratch).serve)

    def read() -> None:
        if not os.read(sys.stdin.fileno(), 1):
            crowd.stop()

    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), read)
    return await crowd.run()


def main() -> None:
    wish = msgspec.json.decode(sys.argv[1], type=Wish)
    with tempfile.TemporaryDirectory(prefix="quoracy-crowd-") as scratch:
        fates = uvloop.run(hold(wish, Path(scratch)))
        sys.stdout.write(msgspec.json.encode(fates).decode() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

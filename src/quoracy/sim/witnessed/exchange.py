"""How simulated members give each other blobs and models: over the same bad network, one question at a time.

A member is asked at the address it joined with. One that has no address cannot be asked; it puts its own results into
the relay, which everybody asks last. Whatever comes is checked before it counts, since it may come from a liar.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from quoracy.core.witnessed.facts import Blob, BlobGivenUp, BlobHeld, Fact, Fetch, Load, ModelLoaded, ModelNotLoaded
from quoracy.core.witnessed.views import Result
from quoracy.sim.network import Network
from quoracy.sim.witnessed.making import Model, is_right
from quoracy.sim.world import MS, World

RELAY: Final = "relay"
ANSWER_US: Final = 200 * MS
"""Who has not answered by then is taken to be away."""
PUT_US: Final = 400 * MS


class Get(msgspec.Struct, frozen=True):
    ask: int
    digest: bytes


class Gave(msgspec.Struct, frozen=True):
    ask: int
    payload: bytes | None
    """None: not here."""


class GetModel(msgspec.Struct, frozen=True):
    ask: int
    hashes: tuple[bytes, ...]


class GaveModel(msgspec.Struct, frozen=True):
    ask: int
    model: Model | None


class Put(msgspec.Struct, frozen=True):
    digest: bytes
    payload: bytes


class PutModel(msgspec.Struct, frozen=True):
    model: Model


class Kept(msgspec.Struct, frozen=True):
    digest: bytes


class Announcement(msgspec.Struct, frozen=True):
    sender: str
    epoch: int
    round: int
    result: Result
    signature: bytes


Talk = Get | Gave | GetModel | GaveModel | Kept | Announcement


class Relay:
    """At the coordinator's door: keeps what those give it that nobody can reach. It may forget."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.blobs: dict[bytes, bytes] = {}
        self.models: dict[bytes, Model] = {}
        self.given = 0
        network.attach(RELAY, self._receive)

    def forget(self) -> None:
        self.blobs.clear()
        self.models.clear()

    def _receive(self, source: str, message: Any) -> None:
        match message:
            case Put(digest=digest, payload=payload):
                self.blobs[digest] = payload
                self._network.send(RELAY, source, Kept(digest))
            case PutModel(model=model):
                self.models[model.hash()] = model
                self._network.send(RELAY, source, Kept(model.hash()))
            case GetModel(ask=ask, hashes=hashes):
                found = [self.models[each] for each in hashes if each in self.models]
                self.given += bool(found)
                self._network.send(RELAY, source, GaveModel(ask, found[0] if found else None))
            case Get(ask=ask, digest=digest):
                self.given += digest in self.blobs
                self._network.send(RELAY, source, Gave(ask, self.blobs.get(digest)))


class Job(msgspec.Struct):
    """One blob or model that is being asked for."""

    what: Fetch | Load
    left: list[str]
    lacking: list[str] = []
    silent: list[str] = []
    asking: str = ""
    ask: int = 0


class Exchange:
    """One process' side of it. ``tell`` takes what came of it; ``later`` does something after a while, if the process
    lives then."""

    def __init__(
        self, world: World, network: Network, run: str, name: str, tell: Callable[[Fact], None],
        later: Callable[..., None],
    ) -> None:  # fmt: skip
        self.world = world
        self.network = network
        self._later = later
        self.blobs: dict[bytes, bytes] = {}
        self.serves: Callable[[bytes], bytes | None] = self.blobs.get
        self.models: Callable[[bytes], Model | None] = lambda _hash: None
        self.addresses: dict[str, str] = {}
        """Of those peers that have one."""
        self.loaded: Model | None = None
        """The model that came last."""
        self._run = run
        self._name = name
        self._tell = tell
        self._jobs: dict[bytes, Job] = {}
        """By digest; a load under no digest."""
        self._asks = 0
        self._putting: dict[bytes, Put | PutModel] = {}

    # -- giving -----------------------------------------------------------------------------------------------------

    def receive(self, source: str, message: Talk) -> None:
        match message:
            case Get(ask=ask, digest=digest):
                self._send(source, Gave(ask, self.serves(digest)))
            case GetModel(ask=ask, hashes=hashes):
                found = [model for each in hashes if (model := self.models(each)) is not None]
                self._send(source, GaveModel(ask, found[0] if found else None))
            case Gave(ask=ask, payload=payload):
                self._gave(ask, payload)
            case GaveModel(ask=ask, model=model):
                self._gave_model(ask, model)
            case Kept(digest=digest):
                self._putting.pop(digest, None)

    def put(self, digest: bytes, payload: bytes) -> None:
        """Into the relay, until it says that it has it."""
        self._putting[digest] = Put(digest, payload)
        self._put_again(digest)

    def put_model(self, model: Model) -> None:
        """The same for a model."""
        self._putting[model.hash()] = PutModel(model)
        self._put_again(model.hash())

    def _put_again(self, digest: bytes) -> None:
        if digest in self._putting:
            self._send(RELAY, self._putting[digest])
            self._later(PUT_US, self._put_again, digest)

    def drop(self, digests: tuple[bytes, ...]) -> None:
        for digest in digests:
            self.blobs.pop(digest, None)
            self._jobs.pop(digest, None)
            self._putting.pop(digest, None)

    # -- taking -----------------------------------------------------------------------------------------------------

    def fetch(self, fetch: Fetch) -> None:
        digest = fetch.blob.result.digest
        if digest in self.blobs:
            self._tell(BlobHeld(digest))
            return
        job = self._jobs.get(digest)
        if job is None:
            self._jobs[digest] = job = Job(fetch, [*fetch.holders, RELAY])
            self._next(digest)
            return
        known = {job.asking, *job.lacking, *job.silent, *job.left}
        job.what = fetch
        job.left = [*(name for name in fetch.holders if name not in known), *job.left]

    def load(self, load: Load) -> None:
        self._jobs[b""] = Job(load, [*load.pointer.holders, RELAY])
        self._next(b"")

    def stop_loading(self) -> None:
        self._jobs.pop(b"", None)

    def _next(self, digest: bytes) -> None:
        job = self._jobs[digest]
        if not job.left:
            self._give_up(digest, job)
            return
        job.asking = job.left.pop(0)
        address = RELAY if job.asking == RELAY else self.addresses.get(job.asking)
        if address is None:
            job.silent.append(job.asking)
            self._next(digest)
            return
        self._asks += 1
        job.ask = self._asks
        if isinstance(job.what, Fetch):
            self._send(address, Get(job.ask, digest))
        else:
            hashes = (job.what.pointer.model, *(model for _, model in job.what.agreed))
            self._send(address, GetModel(job.ask, hashes))
        self._later(ANSWER_US, self._silent, digest, job.ask)

    def _give_up(self, digest: bytes, job: Job) -> None:
        del self._jobs[digest]
        if isinstance(job.what, Load):
            self._tell(ModelNotLoaded("nobody gave it"))
        else:
            self._tell(BlobGivenUp(digest, tuple(job.lacking), tuple(job.silent)))

    def _silent(self, digest: bytes, ask: int) -> None:
        job = self._jobs.get(digest)
        if job is None or job.ask != ask:
            return
        if job.asking != RELAY:
            job.silent.append(job.asking)
        self._next(digest)

    def _asked(self, ask: int) -> tuple[bytes, Job] | None:
        return next(((digest, job) for digest, job in self._jobs.items() if job.ask == ask), None)

    def _gave(self, ask: int, payload: bytes | None) -> None:
        found = self._asked(ask)
        if found is None:
            return
        digest, job = found
        if isinstance(job.what, Load):
            return
        if payload is not None and is_right(payload, self._run, job.what.blob):
            self.keep(digest, payload)
            del self._jobs[digest]
            self._tell(BlobHeld(digest))
            return
        if job.asking != RELAY:
            job.lacking.append(job.asking)
        self._next(digest)

    def _gave_model(self, ask: int, model: Model | None) -> None:
        found = self._asked(ask)
        if found is None:
            return
        digest, job = found
        if isinstance(job.what, Fetch):
            return
        wanted = {job.what.pointer.model, *(each for _, each in job.what.agreed)}
        if model is not None and model.hash() in wanted:
            del self._jobs[digest]
            self.loaded = model
            self._tell(ModelLoaded(model.step, model.hash()))
        else:
            self._next(digest)

    def keep(self, digest: bytes, payload: bytes) -> None:
        self.blobs[digest] = payload

    def wants(self) -> list[Blob]:
        """What is being asked for."""
        return [job.what.blob for job in self._jobs.values() if isinstance(job.what, Fetch)]

    def _send(self, target: str, message: Talk | Put | PutModel) -> None:
        self.world.note(self._name, lambda: f"-> {target}: {message}")
        self.network.send(self._name, target, message)

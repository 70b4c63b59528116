"""The one who trains, simulated: loads, trains, applies and stores, one after the other, each taking its time.

It can be slow, stand still for a while, or let a bit fall over when it applies.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from quoracy.core.codec import digest
from quoracy.core.witnessed.committee import count
from quoracy.core.witnessed.facts import (
    Apply,
    Fact,
    Load,
    ModelApplied,
    ModelLoaded,
    ModelNotLoaded,
    ModelNotStored,
    ModelStored,
    ResultTrained,
    Store,
    Train,
    Work,
)
from quoracy.sim.witnessed.exchange import Exchange
from quoracy.sim.witnessed.making import FIRST, SIZE_BYTES, Model, hashed, trained
from quoracy.sim.world import MS, World

Job = Load | Train | Apply | Store
USUAL_US: Final = (10 * MS, 90 * MS)
"""For one batch."""
KEEPS: Final = 2
"""Models, the newest: who catches up may ask for the one before."""


class Objects:
    """The object store. It keeps what it was given; now and then it cannot be reached."""

    def __init__(self) -> None:
        self.models: dict[bytes, Model] = {}
        self.away = False

    def put(self, model: Model) -> bytes:
        name = hashed("file", model.hash())
        self.models[name] = model
        return name


class Bench:
    def __init__(
        self, world: World, run: str, member: str, batch_size: int, exchange: Exchange, objects: Objects,
        tell: Callable[[Fact], None], later: Callable[..., None],
    ) -> None:  # fmt: skip
        self.world = world
        self.batch_us = USUAL_US
        self.times = 1
        """So many times slower than others this one is, always."""
        self.stuck_us = 0
        """The next job takes so much longer."""
        self.rots = False
        """A bit falls over at the next apply."""
        self.rotten = False
        """One has, and the model has come from that since."""
        self.bad_models: set[bytes] = set()
        """Hashes of models that are not what they should be."""
        self.trainings = 0
        self.done: Callable[[str], bool] = lambda _stage: True
        """Told after each stage of the work; False: the process has died of it."""
        self.bad_header = False
        self._run = run
        self._member = member
        self._batch_size = batch_size
        self._exchange = exchange
        self._objects = objects
        self._tell = tell
        self._later = later
        self._models: deque[Model] = deque(maxlen=KEEPS)
        self._queue: deque[Job] = deque()
        self._job: Job | None = None
        self._started = 0

    def model(self, wanted: bytes) -> Model | None:
        return next((model for model in self._models if model.hash() == wanted), None)

    def hash(self) -> bytes:
        return self._models[-1].hash() if self._models else b""

    # -- one after the other ----------------------------------------------------------------------------------------

    def do(self, job: Job) -> None:
        if isinstance(job, Load):
            self._queue = deque(other for other in self._queue if not isinstance(other, Load))
            if isinstance(self._job, Load):
                self._exchange.stop_loading()
                self._job = None
        self._queue.append(job)
        self._next()

    def cease(self, work: Work) -> None:
        self._queue = deque(job for job in self._queue if not (isinstance(job, Train) and job.work == work))
        if isinstance(self._job, Train) and self._job.work == work and self.world.chance(0.5):
            self._job = None  # a trainer may listen, or be done before it does
            self._next()

    def _next(self) -> None:
        if self._job is not None or not self._queue:
            return
        self._job = self._queue.popleft()
        self._started += 1
        stuck_us, self.stuck_us = self.stuck_us, 0
        if isinstance(self._job, Train) and not self.done("training"):
            return
        self._later(stuck_us + self._takes_us(self._job), self._finish, self._started)

    def _takes_us(self, job: Job) -> int:
        between = self.world.between
        match job:
            case Train(work=work):
                return between(*self.batch_us) * self.times * count(work.batches)
            case Store():
                return between(5 * MS, 150 * MS)
            case _:
                return between(500, 10 * MS)

    def _finish(self, started: int) -> None:
        job = self._job
        if job is None or started != self._started:
            return
        if isinstance(job, Load) and job.pointer.source == "p2p":
            self._exchange.load(job)
            return
        self._job = None
        self._report(self._outcome(job))

    def _report(self, outcome: Fact) -> None:
        self._tell(outcome)
        self._next()

    def loaded(self, fact: ModelLoaded | ModelNotLoaded) -> None:
        """What came of asking others for a model."""
        job = self._job
        if not isinstance(job, Load):
            return
        self._job = None
        if isinstance(fact, ModelNotLoaded) and job.pointer.digest:
            self._report(self._load(job))  # it is stored as well
            return
        if isinstance(fact, ModelLoaded) and self._exchange.loaded is not None:
            self._take(self._exchange.loaded)
        self._report(fact)

    # -- outcomes -----------------------------------------------------------------------------------------------------

    def _outcome(self, job: Job) -> Fact:
        match job:
            case Load():
                return self._load(job)
            case Train(work=work):
                return self._train(work)
            case Apply():
                return self._apply(job)
            case Store():
                return self._store(job)

    def _take(self, model: Model) -> None:
        self._models.clear()
        self._models.append(model)
        self.rotten = bool(model.rot)

    def _load(self, job: Load) -> Fact:
        pointer = job.pointer
        model = FIRST if pointer.source == "initial" else self._objects.models.get(pointer.digest)
        if model is None or (self._objects.away and pointer.source != "initial"):
            return ModelNotLoaded("the object store does not answer")
        self._take(model)
        return ModelLoaded(pointer.step, model.hash())

    def _train(self, work: Work) -> Fact:
        self.trainings += 1
        meant: Any = work
        if self.bad_header:
            meant = Work(work.epoch, work.round + 1, *work.key()[2:], work.batches, work.step, work.base)
        payload = trained(self._run, self._member, meant, self.world.rng.randbytes(8))
        name = digest(payload)
        self._exchange.keep(name, payload)
        samples = count(work.batches) * self._batch_size
        return ResultTrained(work, name, SIZE_BYTES, samples, self.world.rng.random())

    def _apply(self, job: Apply) -> Fact:
        rot = self.world.rng.randbytes(8) if self.rots else b""
        self.rots = False
        self.rotten = self.rotten or bool(rot)
        model = Model(job.step + 1, self.hash(), tuple(result.digest for result in job.results), rot)
        self._models.append(model)
        if rot:
            self.bad_models.add(model.hash())
        return ModelApplied(model.step, model.hash())

    def _store(self, job: Store) -> Fact:
        if self._objects.away or self.hash() != job.model:
            return ModelNotStored(job.step, "the object store does not answer")
        return ModelStored(job.step, job.model, self._objects.put(self._models[-1]), SIZE_BYTES)

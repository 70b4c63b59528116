"""A participant of a federated run: waits for its turn, fetches, trains, brings its update, and waits again.

All that is decided about rounds is decided in ``session``; here is the work that it asks for. One thread stands beside
a round, takes in what comes, and hands the place back if SIGTERM came and the training goes on for too long.
"""

from __future__ import annotations

import atexit
import os
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeVar

from quoracy.core.backoff import Backoff, Waits
from quoracy.core.errors import (
    ConfigError,
    ObjectCorrupt,
    ObjectMissing,
    ObjectsError,
    ObjectsUnreachable,
    QuoracyError,
    Refused,
    Retry,
)
from quoracy.core.federated.measured import few_warnings
from quoracy.learn.header import BadTensors
from quoracy.learn.packed import Packed
from quoracy.sdk.client.driver import log
from quoracy.sdk.client.errors import (
    Closed,
    Draining,
    RunClosed,
    Superseded,
    UnfitUpdate,
    Unreachable,
    WeightsFailed,
    WorkerError,
    reason_of,
)
from quoracy.sdk.client.settings import Settings
from quoracy.sdk.client.sync import BlockingDriver
from quoracy.sdk.federated.arrays import Loaded, load, pack
from quoracy.sdk.federated.client import Outcome, ParticipantClient
from quoracy.sdk.federated.events import Teller
from quoracy.sdk.federated.operations import NEWS, ParticipantOperations
from quoracy.sdk.federated.session import Offer, ParticipantSession, Work
from quoracy.sdk.federated.task import Ledger, OnNews, Returned, Summary, Task, returned_metrics
from quoracy.sdk.federated.weights import Depot, Life

T = TypeVar("T")
WAITS: Final = Waits(first_us=100_000, longest_us=10_000_000)
TRIES: Final = 5
"""For an object that is not there, or is damaged: that does not pass by waiting."""
ANEW: Final = frozenset({"upload_offset", "digest_mismatch", "superseded"})
"""Refusals that the next try may not meet although the same request would: of an upload that was damaged or doubled, or
of a life that is just over. Whoever is superseded for good is told so before the next try."""

Trained = tuple[Mapping[str, Any], int, Returned]
Trainer = Callable[[dict[str, Any], Task], tuple[Mapping[str, Any], int, Mapping[str, Any] | None]]


class Means:
    """What a participant brings along: how to train, what to begin with, and what its numbers are stored as."""

    def __init__(
        self,
        train: Trainer,
        initial: Callable[[], Any] | None = None,
        codes: Callable[[], Mapping[str, str]] = dict,
        dataset: Any = None,
        check: bool = True,
    ) -> None:
        self.train = train
        self.initial = initial
        self.codes = codes
        self.dataset = dataset
        self.check = check


class Participant(BlockingDriver[ParticipantClient]):
    def __init__(
        self,
        settings: Settings,
        means: Means,
        depot: Callable[[Callable[[], None], Life], Depot],
        *,
        on_news: OnNews | None,
        handle_sigterm: bool | None,
    ) -> None:
        self._telling = threading.RLock()
        super().__init__(settings, ParticipantSession, ParticipantClient)
        self._operations = ParticipantOperations(self._client, self._memory, self._drain)
        self._means = means
        self._teller = Teller(settings.member, on_news)
        self._trained = self._admitted = 0
        self._refused: list[tuple[int, str]] = []
        try:
            self._depot = depot(self._memory.progress, self._life)
            self._drain.install(handle_sigterm)
        except BaseException as error:
            self.close(reason_of(error))
            raise
        atexit.register(self.close, "its process ended")

    def _life(self) -> tuple[int, str]:
        """Incarnation and session token; 0 while there is no life."""
        return self._client.incarnation, self._client.token

    # -- the whole of it --------------------------------------------------------------------------------------------

    def take_part(self) -> Summary:
        """Until the run is over, SIGTERM comes, or a newer process has taken the id. Whatever else ends it is
        raised."""
        try:
            summary = self._ended()
        except BaseException as error:
            self.close(reason_of(error))
            raise
        finally:
            self._depot.forget()
        self.close()
        self._teller.over(summary.ended, summary.reason)
        return summary

    def _ended(self) -> Summary:
        try:
            while (work := self._next()) is not None:
                self._do(work)
            return self._summary("finished", self._client.over or "")
        except Draining as error:
            return self._summary("drained", error.why)
        except Superseded as error:
            return self._summary("superseded", error.why)
        except RunClosed as error:
            return self._summary("finished", error.why)

    def _summary(self, ended: Any, reason: str) -> Summary:
        return Summary(
            self.run, self.member, self._trained, self._admitted, tuple(self._refused), ended, reason
        )  # fmt: skip

    def close(self, reason: str = "done") -> None:
        """Leave, unless that was done, and end the heartbeat process."""
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        atexit.unregister(self.close)
        try:
            self._run(self._operations.leave(reason, Closed(f"{self.member} has left: {reason}")))
        except WorkerError:
            pass
        finally:
            self._end()

    def _next(self) -> Work | None:
        while True:
            found: Work | None = self._run(self._operations.next_work())
            if found is not NEWS:
                return found

    def _deliver(self) -> None:
        """From whichever thread, one at a time."""
        with self._telling:
            self._count()
            self._teller.look(self._client)

    def _count(self) -> None:
        """What became of updates since the last look."""
        while self._client.outcomes:
            outcome: Outcome = self._client.outcomes.popleft()
            if outcome.admitted:
                self._admitted += outcome.round >= 0
            else:
                self._refused.append((outcome.round, outcome.why))
            self._teller.verdict(outcome)

    # -- one round --------------------------------------------------------------------------------------------------

    def _do(self, work: Work) -> None:
        self._teller.round(work)
        self._memory.progress()
        with self._watching(work):
            offer = self._made(work)
        if offer is not None:
            self._run(self._operations.offer(offer))
            while self._run(self._operations.settled(work)) is NEWS:
                continue

    def _made(self, work: Work) -> Offer | None:
        """Fetched, trained and brought; None if nobody waits for it any more."""
        like = self._patiently(work, "fetch", lambda: self._fetched(work)) if work.round >= 0 else None
        if not self._client.wants(work):
            return None
        ledger = Ledger(
            self._memory, lambda: self._client.wants(work), self._why_stop, partial(self._teller.epoch, work)
        )
        arrays, samples, metrics = self._initial() if like is None else self._train(work, like, ledger)
        if not self._client.wants(work):
            return None
        packed = pack(arrays, like, self._means.codes(), self._means.check)
        if self._patiently(work, "upload", lambda: self._uploaded(packed)) is None:
            return None
        warnings = [*ledger.warnings, *metrics.warnings]
        brought = self._bring(work, metrics.large, warnings)
        self._teller.own = few_warnings(warnings)
        return Offer(
            work.round, work.ticket, samples, packed.digest, packed.size_bytes, metrics.small, ledger.history, brought,
            self._teller.own,
        )  # fmt: skip

    def _bring(self, work: Work, large: dict[str, Any], warnings: list[str]) -> str:
        """Metrics that are large; their digest. What goes wrong costs the metrics alone."""
        if not large:
            return ""
        try:
            packed = Packed(large)
            if self._patiently(work, "upload", lambda: self._uploaded(packed)) is not None:
                return packed.digest
        except (QuoracyError, OSError) as error:
            if not self._client.wants(work):
                raise
            warnings.append(f"metrics {', '.join(sorted(large))} are left out: {error}")
            self._teller.warning(work.round, warnings[-1])
        return ""

    def _initial(self) -> Trained:
        assert self._means.initial is not None, "only those that can give initial weights are asked for them"
        arrays = self._means.initial()
        if not isinstance(arrays, Mapping) or not arrays:
            raise UnfitUpdate(f"initial gave {type(arrays).__name__}", "a dict of numpy arrays by name")
        return arrays, 0, Returned({}, {}, [])

    def _train(self, work: Work, like: Loaded, ledger: Ledger) -> Trained:
        task = Task(
            self.run, self.member, work.round, work.rounds, work.epochs, work.epoch_base, dict(work.hyper),
            self._means.dataset, ledger,
        )  # fmt: skip
        self._memory.report(epoch=work.epoch_base)
        self._memory.forget_metrics()
        returned = self._means.train(dict(like.arrays), task)
        self._trained += 1
        arrays, samples, metrics = _checked(returned)
        for warning in metrics.warnings:
            self._teller.warning(work.round, warning)
        self._teller.trained(work, samples, metrics.small)
        return arrays, samples, metrics

    def _why_stop(self) -> WorkerError | None:
        """Why a training that reports progress need not go on; one that only waits for nothing looks itself."""
        ended = self._client.ended
        return ended if self._client.over is None and isinstance(ended, WorkerError) else None

    def _fetched(self, work: Work) -> Loaded:
        path = self._depot.fetch(work.weights)
        try:
            return load(path)
        except BadTensors as error:
            why = f"the weights of round {work.round} ({work.weights[:12]}) cannot be used: {error}"
            raise WeightsFailed(why, "the run needs other initial weights", "object_corrupt") from None

    def _uploaded(self, packed: Packed) -> bool:
        self._depot.upload(packed, packed.digest)
        return True

    def _patiently(self, work: Work, what: str, act: Callable[[], T]) -> T | None:
        """Do it, again and again while that may help and somebody waits for it. None: nobody does any more."""
        backoff = Backoff(WAITS)
        since_s = self._operations.now()
        in_vain = 0
        while True:
            try:
                return act()
            except (ConfigError, UnfitUpdate, WeightsFailed):
                raise
            except (ObjectsError, Unreachable, Refused, OSError) as error:
                if isinstance(error, Refused) and error.refusal.retry is not Retry.LATER and error.code not in ANEW:
                    raise WeightsFailed(error.refusal.why, error.refusal.fix, error.code) from None
                if isinstance(error, ObjectMissing | ObjectCorrupt):
                    in_vain += 1
                    if in_vain >= TRIES:
                        raise WeightsFailed(f"weights cannot be {what}ed: {error}", "", error.code) from None
                self._depot.forget()
                self._teller.trouble(what, error)
                self._give_up(since_s, what, error)
                advised_s = error.retry_after_s if isinstance(error, ObjectsUnreachable) else None
            pause_s = backoff.failed_s(self._operations.now(), random.SystemRandom().random(), advised_s)
            if not self._run(self._operations.pause(work, pause_s)):
                return None

    def _give_up(self, since_s: float, what: str, error: Exception) -> None:
        give_up_s = self._settings.timeouts.give_up_s
        if give_up_s is not None and self._operations.now() - since_s >= give_up_s:
            code = error.code if isinstance(error, QuoracyError) else ""
            raise WeightsFailed(f"weights could not be {what}ed for give_up_s = {give_up_s:g}: {error}", "", code)

    @contextmanager
    def _watching(self, work: Work) -> Iterator[None]:
        done: list[bool] = []
        thread = threading.Thread(target=self._watch, args=(work, done), name="quoracy-watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.append(True)
            self._ring()
            thread.join()

    def _watch(self, work: Work, done: list[bool]) -> None:
        try:
            while self._run(self._operations.watch(work, done)) is NEWS:
                continue
        except QuoracyError as error:
            log.debug("%s: the watch has ended: %s", self.member, error)


def _checked(returned: Any) -> Trained:
    if not isinstance(returned, tuple) or len(returned) != 3:
        raise UnfitUpdate(f"train returned {type(returned).__name__}", "return (weights, samples, metrics)")
    arrays, samples, metrics = returned
    if not isinstance(arrays, Mapping) or not arrays:
        raise UnfitUpdate(f"train returned {type(arrays).__name__} as weights", "a dict of numpy arrays by name")
    try:
        count = int(samples)
    except (TypeError, ValueError):
        count = 0
    if not 1 <= count <= 2**53:
        raise UnfitUpdate(f"train returned samples = {samples!r}", "how many samples it has trained on, at least 1")
    return arrays, count, returned_metrics(metrics)

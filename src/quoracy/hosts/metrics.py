"""What a server counts for Prometheus.

Counting costs next to nothing: plain integers, changed by the event loop alone. What Prometheus wants is made from them
when somebody asks, and its library is loaded only then.

No label names a member, and at most ``MAX_RUNS`` runs have labels of their own; what is counted for further ones is
counted under ``OTHER``. So a server with ten thousand workers exports as many lines as one with ten.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from quoracy.core.cluster.events import BarrierAborted, BarrierReleased, WorkerLost
from quoracy.core.errors import CATALOG, Refusal
from quoracy.core.federated.events import ParticipantLost
from quoracy.core.journal import DutyDone
from quoracy.core.machine import Event
from quoracy.core.members import Accepted
from quoracy.core.witnessed.events import MemberLost, ResultCommitted, RoundSealed
from quoracy.version import __version__

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import HistogramMetricFamily, Metric

MAX_RUNS: Final = 100
OTHER: Final = "(other)"
COMMIT_S: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""From a page cache to a disk in trouble."""
WAIT_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0)
"""Up to the default deadline of a barrier."""
ROUND_S: Final = (
    0.1,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    120.0,
    300.0,
    600.0,
    1800.0,
    3600.0,
    7200.0,
    21600.0,
    86400.0,
)
"""From rounds with nothing to train to a day."""
AGE_S: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 7.5, 10.0, 15.0, 20.0, 25.0, 30.0, 60.0)
"""By the default settings a heartbeat is due after 5 s, and a worker given up after 30 s."""

UNKEPT: Final = ("no room", "cannot be written", "the disk is behind")


class Tally:
    """A histogram: how many numbers were at most each of the bounds."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def add_all(self, values: list[float]) -> None:
        """Sorted first: then there is one search for each bound and none for each number."""
        values = sorted(values)
        below = 0
        for index, bound in enumerate(self.bounds):
            upto = bisect_right(values, bound)
            self.counts[index] += upto - below
            below = upto
        self.counts[-1] += len(values) - below
        self.total += sum(values)


class Commits:
    """How long the commits of one run took since somebody looked last."""

    __slots__ = ("count", "high", "low", "total")

    def __init__(self) -> None:
        self.count = 0
        self.low = self.high = self.total = 0.0

    def add(self, seconds: float) -> None:
        self.low = min(self.low, seconds) if self.count else seconds
        self.high = max(self.high, seconds)
        self.count += 1
        self.total += seconds


class Metrics:
    """One for each server. All calls from its event loop, but for ``unkept``."""

    def __init__(self, max_runs: int = MAX_RUNS) -> None:
        self._max_runs = max_runs
        self._labels: dict[str, str] = {}
        self._commit = Tally(COMMIT_S)
        self._commits: dict[str, Commits] = {}
        self._waits: dict[str, Tally] = {}
        self._ages: dict[str, Tally] = {}
        self._heartbeats: Counter[str] = Counter()
        self._entries: Counter[str] = Counter()
        self._lost: Counter[str] = Counter()
        self._released: Counter[str] = Counter()
        self._aborted: Counter[str] = Counter()
        self._rounds: dict[str, Tally] = {}
        self._admitted: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._outcomes: Counter[str] = Counter()
        self._unkept = dict.fromkeys(UNKEPT, 0)
        self._phases: dict[str, int] = {}
        self._workers: dict[str, dict[str, int]] = {}
        self._participants: dict[str, dict[str, int]] = {}
        self._members: dict[str, dict[str, int]] = {}
        self._results: Counter[str] = Counter()
        self._sealed: Counter[tuple[str, str]] = Counter()
        self._relayed: Counter[tuple[str, str]] = Counter()
        self._watched: dict[tuple[str, str], Callable[[], float]] = {}
        self._registry: CollectorRegistry | None = None

    # -- what happens -----------------------------------------------------------------------------------------------

    def committed(self, run: str, seconds: float) -> None:
        """An entry of this run became durable so long after it was handed to the store."""
        self._commit.add(seconds)
        self._entries[self._label(run)] += 1
        commits = self._commits.get(run)
        if commits is None:
            commits = self._commits[run] = Commits()
        commits.add(seconds)

    def recorded(self, run: str, events: Iterable[Event]) -> None:
        """These are in the journal now, written by this server."""
        for event in events:
            if isinstance(event, BarrierReleased):
                label = self._label(run)
                self._released[label] += 1
                waits = self._waits.get(label)
                if waits is None:
                    waits = self._waits[label] = Tally(WAIT_S)
                waits.add_all([wait_us / 1e6 for wait_us in event.waits_us])
            elif isinstance(event, BarrierAborted):
                self._aborted[self._label(run)] += 1
            elif isinstance(event, WorkerLost | ParticipantLost | MemberLost):
                self._lost[self._label(run)] += 1
            elif isinstance(event, ResultCommitted):
                self._results[self._label(run)] += 1
            elif isinstance(event, RoundSealed):
                self._sealed[self._label(run), "late" if event.late else "early"] += 1
            elif isinstance(event, DutyDone) and "ok" in (result := event.result or {}) and not result.get("initial"):
                counted = self._admitted if result["ok"] else self._refused
                counted[self._label(run)] += 1

    def answered(self, answer: Accepted | Refusal) -> None:
        """Somebody was told how its command ended."""
        if isinstance(answer, Refusal):
            self._outcomes[answer.code if answer.code in CATALOG else OTHER] += 1
        else:
            self._outcomes["accepted"] += 1

    # -- what is looked at once a second ----------------------------------------------------------------------------

    def heard(self, run: str, heartbeats: int) -> None:
        """So many more have come in."""
        self._heartbeats[self._label(run)] += heartbeats

    def aged(self, run: str, ages_s: list[float]) -> None:
        """How old the last heartbeat of each worker is at this moment."""
        label = self._label(run)
        ages = self._ages.get(label)
        if ages is None:
            ages = self._ages[label] = Tally(AGE_S)
        ages.add_all(ages_s)

    def counted(self, run: str, workers: dict[str, int]) -> None:
        """How many workers are in each state."""
        self._workers[run] = workers

    def counted_participants(self, run: str, participants: dict[str, int]) -> None:
        """How many participants are in each state."""
        self._participants[run] = participants

    def counted_members(self, run: str, members: dict[str, int]) -> None:
        """How many members of a witnessed run are in each state."""
        self._members[run] = members

    def rounds_over(self, run: str, seconds: list[float]) -> None:
        """So many rounds of a federated or witnessed run are over, and took so long each."""
        if seconds:
            label = self._label(run)
            rounds = self._rounds.get(label)
            if rounds is None:
                rounds = self._rounds[label] = Tally(ROUND_S)
            rounds.add_all(seconds)

    def relayed(self, run: str, direction: str, size_bytes: int) -> None:
        """So many bytes of blobs came in, or went out, because members cannot reach each other."""
        self._relayed[self._label(run), direction] += size_bytes

    def phased(self, phases: dict[str, int]) -> None:
        """How many runs this server serves, follows and so on."""
        self._phases = phases

    def unkept(self, why: str, points: int) -> None:
        """So many points of history were not kept. ``why`` is one of ``UNKEPT``; from any thread."""
        self._unkept[why] += points

    def take_commits(self, run: str) -> Commits | None:
        """Those since the last call."""
        return self._commits.pop(run, None)

    def gone(self, run: str) -> None:
        """This server has nothing to do with the run any more. What was counted stays counted."""
        self._workers.pop(run, None)
        self._participants.pop(run, None)
        self._members.pop(run, None)
        self._commits.pop(run, None)

    def watch(self, family: str, label: str, read: Callable[[], float]) -> None:
        """A number that is looked up when it is asked for. ``family``: connections (by door) or queue."""
        self._watched[family, label] = read

    def _label(self, run: str) -> str:
        label = self._labels.get(run)
        if label is None:
            label = run if len(self._labels) < self._max_runs else OTHER
            if label is not OTHER:
                self._labels[run] = label
        return label

    # -- what Prometheus gets ---------------------------------------------------------------------------------------

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """What is counted, and its content type: OpenMetrics if ``accept`` asks for it, else Prometheus text."""
        from prometheus_client.exposition import choose_encoder

        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type

    @property
    def registry(self) -> CollectorRegistry:
        if self._registry is None:
            from prometheus_client import CollectorRegistry, ProcessCollector

            self._registry = CollectorRegistry(auto_describe=False)
            self._registry.register(self)
            ProcessCollector(registry=self._registry)
        return self._registry

    def collect(self) -> Iterator[Metric]:
        """What the library asks of a collector."""
        yield from self._gauges()
        yield from self._counters()
        yield _histogram(
            "quoracy_commit_seconds", "From the wish to append an entry until it is durable.", self._commit
        )
        waits = "How long each worker stood at a barrier before it was released."
        yield _histograms("quoracy_barrier_wait_seconds", waits, self._waits)
        ages = "Age of the last heartbeat of each worker, looked at once a second."
        yield _histograms("quoracy_heartbeat_age_seconds", ages, self._ages)
        rounds = "From the beginning of a round until its model was made and evaluated, or it was sealed."
        yield _histograms("quoracy_round_seconds", rounds, self._rounds)

    def _gauges(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        build = GaugeMetricFamily("quoracy_build_info", "Which Quoracy this is.", labels=["version"])
        build.add_metric([__version__], 1)
        yield build
        runs = GaugeMetricFamily("quoracy_runs", "Runs on this server.", labels=["phase"])
        for phase, count in sorted(self._phases.items()):
            runs.add_metric([phase], count)
        yield runs
        workers = GaugeMetricFamily("quoracy_workers", "Workers in each state.", labels=["run", "state"])
        for (run, state), count in sorted(self._by_state(self._workers).items()):
            workers.add_metric([run, state], count)
        yield workers
        participants = GaugeMetricFamily("quoracy_participants", "Participants in each state.", labels=["run", "state"])
        for (run, state), count in sorted(self._by_state(self._participants).items()):
            participants.add_metric([run, state], count)
        yield participants
        members = GaugeMetricFamily("quoracy_members", "Members of witnessed runs.", labels=["run", "state"])
        for (run, state), count in sorted(self._by_state(self._members).items()):
            members.add_metric([run, state], count)
        yield members
        connections = GaugeMetricFamily("quoracy_connections", "Open connections and streams.", labels=["door"])
        queues = GaugeMetricFamily("quoracy_queue_length", "What waits, in each queue.", labels=["queue"])
        for (family, label), read in sorted(self._watched.items()):
            (connections if family == "connections" else queues).add_metric([label], read())
        yield connections
        yield queues

    def _by_state(self, members: dict[str, dict[str, int]]) -> Counter[tuple[str, str]]:
        counts: Counter[tuple[str, str]] = Counter()
        for run, states in members.items():
            for state, count in states.items():
                counts[self._label(run), state] += count
        return counts

    def _counters(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily

        by_run = {
            "heartbeats": ("Heartbeats taken in.", self._heartbeats),
            "entries": ("Entries written to journals.", self._entries),
            "members_lost": ("Members that were given up because they fell silent.", self._lost),
        }
        for name, (about, counts) in by_run.items():
            family = CounterMetricFamily(f"quoracy_{name}", about, labels=["run"])
            for run, count in sorted(counts.items()):
                family.add_metric([run], count)
            yield family
        commands = CounterMetricFamily(
            "quoracy_commands", "Answered commands: accepted, or why not.", labels=["outcome"]
        )
        for outcome, count in sorted(self._outcomes.items()):
            commands.add_metric([outcome], count)
        yield commands
        barriers = CounterMetricFamily(
            "quoracy_barriers", "Settled generations of barriers.", labels=["run", "outcome"]
        )
        for outcome, counts in (("released", self._released), ("aborted", self._aborted)):
            for run, count in sorted(counts.items()):
                barriers.add_metric([run, outcome], count)
        yield barriers
        updates = CounterMetricFamily(
            "quoracy_updates", "Updates of participants that were looked at.", labels=["run", "outcome"]
        )
        for outcome, counts in (("admitted", self._admitted), ("refused", self._refused)):
            for run, count in sorted(counts.items()):
                updates.add_metric([run, outcome], count)
        yield updates
        results = CounterMetricFamily("quoracy_results", "Results that members have committed to.", labels=["run"])
        for run, count in sorted(self._results.items()):
            results.add_metric([run], count)
        yield results
        sealed = CounterMetricFamily(
            "quoracy_rounds_sealed", "Rounds that were sealed: with a quorum, or when time was over.",
            labels=["run", "outcome"],
        )  # fmt: skip
        for (run, outcome), count in sorted(self._sealed.items()):
            sealed.add_metric([run, outcome], count)
        yield sealed
        relayed = CounterMetricFamily(
            "quoracy_relayed_bytes", "Bytes that members passed to each other through this server: in, out.",
            labels=["run", "direction"],
        )  # fmt: skip
        for (run, direction), count in sorted(self._relayed.items()):
            relayed.add_metric([run, direction], count)
        yield relayed
        unkept = CounterMetricFamily(
            "quoracy_points_not_kept", "Points of history not kept, by reason.", labels=["why"]
        )
        for why, count in sorted(self._unkept.items()):
            unkept.add_metric([why], count)
        yield unkept


def _histogram(name: str, about: str, tally: Tally) -> HistogramMetricFamily:
    from prometheus_client.core import HistogramMetricFamily

    family = HistogramMetricFamily(name, about, labels=[])
    family.add_metric([], *_cumulated(tally))
    return family


def _histograms(name: str, about: str, tallies: dict[str, Tally]) -> HistogramMetricFamily:
    from prometheus_client.core import HistogramMetricFamily

    family = HistogramMetricFamily(name, about, labels=["run"])
    for run, tally in sorted(tallies.items()):
        family.add_metric([run], *_cumulated(tally))
    return family


def _cumulated(tally: Tally) -> tuple[Any, float]:
    upto, buckets = 0, []
    for bound, count in zip((*map(repr, tally.bounds), "+Inf"), tally.counts, strict=True):
        upto += count
        buckets.append((bound, upto))
    return buckets, tally.total

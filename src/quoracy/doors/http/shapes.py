"""What goes in and out as JSON. Requests are decoded into these types, answers are made of them, and the OpenAPI
document is written from them: there is nothing that could say something else.

Times are seconds (``*_s``), bytes are hex. Whatever is in a journal entry stands there as the journal has it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from quoracy.core.cluster.events import Arguments, BarrierName, Command, Metrics, Name, Share
from quoracy.core.errors import Retry
from quoracy.core.journal import RunName
from quoracy.core.kinds import KINDS
from quoracy.core.members import Counter, MemberId
from quoracy.doors.http.cursors import Named, Numbered, Paired
from quoracy.doors.http.shapes_rounds import History, OpenRound, Participant, Round
from quoracy.doors.http.shapes_witnessed import Account, Checkpoint, Epoch, Member, OpenWitnessedRound, SealedRound

# -- answers -------------------------------------------------------------------------------------------------------


class Status(msgspec.Struct, frozen=True):
    """The server."""

    version: str
    host: str
    address: str
    """Where members connect over TCP."""
    serving: bool
    """False while another server holds the store: this one follows."""
    draining: bool
    uptime_s: float
    runs: int


class Wait(msgspec.Struct, frozen=True):
    """One thing that is awaited."""

    what: str
    missing: list[str]
    waited_s: float
    left_s: float | None
    """Until ``then`` happens if they stay away; null if nothing but their coming ends it."""
    then: str


class Explanation(msgspec.Struct, frozen=True):
    """What a run is waiting for and why."""

    sentence: str
    waits: list[Wait] = []


class Worker(msgspec.Struct, frozen=True):
    id: str
    state: str
    rank: int
    incarnation: int
    run: str = ""
    address: str = ""
    gpus: int = 0
    losses: int = 0
    reason: str = ""
    silent_s: float | None = None
    """Since it was last heard; null if it is not expected to be."""
    stuck_s: float = 0.0
    waits: bool = False
    """It stands at a barrier."""
    step: int | None = None
    epoch: int | None = None
    progress: int | None = None
    cpu: float | None = None
    gpu: float | None = None
    memory: float | None = None
    task: str | None = None
    metrics: dict[str, float] = {}
    """What its training measures, such as its loss."""


class Barrier(msgspec.Struct, frozen=True):
    name: str
    generation: int
    step: int
    released: int
    aborted: int
    last_to_come: str | None = None
    longest_wait_s: float | None = None
    arrived: int | None = None
    missing: list[str] = []
    waited_s: float | None = None


class RunBrief(msgspec.Struct, frozen=True):
    """A run among many: how many of each there are, not each of them."""

    run: str
    explanation: Explanation
    kind: str = ""
    rules: int = 0
    label: str = ""
    entry: int = 0
    """The number of its newest journal entry."""
    at_s: float = 0.0
    """Run time of that entry."""
    term: int = 0
    host: str = ""
    address: str = ""
    phase: str = ""
    generation: int = 0
    """Rises with each roll-back: the fence."""
    here: int = 0
    taking_part: int = 0
    workers: int = 0
    barriers: int = 0
    round: int | None = None
    """Of a federated run: the round that is open or comes next; -1 while the initial weights are wanted."""
    rounds: int | None = None
    participants: int = 0
    epoch: int | None = None
    """Of a witnessed run, as all that follows: the epoch that is under way or comes next."""
    step: int | None = None
    """Rounds applied since it began."""
    members: int = 0


class RunShown(msgspec.Struct, frozen=True):
    """A run with all its workers and barriers."""

    run: str
    explanation: Explanation
    kind: str = ""
    rules: int = 0
    label: str = ""
    entry: int = 0
    at_s: float = 0.0
    term: int = 0
    host: str = ""
    address: str = ""
    phase: str = ""
    generation: int = 0
    here: int = 0
    taking_part: int = 0
    workers: list[Worker] = []
    barriers: list[Barrier] = []
    round: int | None = None
    """Of a federated run, as all that follows."""
    rounds: int | None = None
    clients: int | None = None
    """So many must be registered before a round begins."""
    reason: str = ""
    weights: str = ""
    """Digest of the global model."""
    open: OpenRound | None = None
    participants: list[Participant] = []
    history: list[Round] = []
    """The newest rounds that are over; all of them under /history."""
    epoch: int | None = None
    """Of a witnessed run, as all that follows. Its round is ``round`` above."""
    step: int | None = None
    total_steps: int | None = None
    left_s: float | None = None
    """Until the phase ends by itself; null if it does not."""
    min_clients: int | None = None
    quorum: int | None = None
    """Of the round that is open: so many of its witnesses have to hold a result."""
    current: OpenWitnessedRound | None = None
    account: Account | None = None
    checkpoint: Checkpoint | None = None
    members: list[Member] = []
    sealed: list[SealedRound] = []
    """The newest rounds that were sealed, oldest first."""
    epochs: list[Epoch] = []
    """The newest epochs that are over; more of them under /epochs."""


class Runs(msgspec.Struct, frozen=True):
    runs: list[RunBrief]
    next: str | None
    """The cursor of the next page; null on the last one."""


class Workers(msgspec.Struct, frozen=True):
    workers: list[Worker]
    next: str | None


class Entry(msgspec.Struct, frozen=True):
    """One entry of a journal. Each event has ``type``, ``cause`` and its own fields."""

    n: int
    at_us: int
    term: int
    host: str
    digest: str
    events: list[dict[str, Any]]


class Entries(msgspec.Struct, frozen=True):
    entries: list[Entry]
    next: str | None
    first: int
    """The first entry that is still there."""
    last: int


class Done(msgspec.Struct, frozen=True, omit_defaults=True):
    """It is in the journal, in this entry."""

    entry: int
    order: int | None = None
    """The number of the order that was given."""
    fence: int | None = None
    """The run's generation after a roll-back."""


class Alive(msgspec.Struct, frozen=True):
    alive: bool = True


class Ready(msgspec.Struct, frozen=True):
    ready: bool
    reasons: list[str]
    """Why not, if it is not."""


class Meaning(msgspec.Struct, frozen=True):
    """What a problem's code means."""

    code: str
    status: int
    meaning: str
    retry: Retry


class LoggedIn(msgspec.Struct, frozen=True):
    role: str
    run: str
    """Which runs the token is for; * for all."""
    name: str


class Challenge(msgspec.Struct, frozen=True):
    challenge: str
    """In hex. Good for a minute."""


Marks = dict[str, Annotated[list[int], Meta(min_length=2, max_length=2)]]
"""By barrier: its newest settled generation, and the step of its newest release, -1 if there was none since the run
began or was rolled back."""


class Registered(msgspec.Struct, frozen=True):
    run: str
    member: str
    incarnation: int
    token: str
    """The session token: this life's proof of who it is. Empty where no tokens are asked for."""
    entry: int
    result: dict[str, Any]
    """What the run assigned: rank, seat, fence, heartbeat_interval_s, heartbeat_timeout_s."""
    barriers: Marks
    """Where each barrier stands. They go on until this worker takes part: what ``state`` answers says where to
    begin."""


class Stands(msgspec.Struct, frozen=True):
    """How the worker stands, now that what it said is in the journal."""

    entry: int
    state: str
    """Recovering after ready: something has to be recovered, and then idle is reported."""
    fence: int
    """The generation of the run, to be sent with arrivals."""
    barriers: Marks
    """Where each barrier stands. Once a worker is idle, loading or training no barrier goes on without it: so this says
    at which step to begin."""


class HeartbeatAnswer(msgspec.Struct, frozen=True):
    seq: int
    order: int
    """The number of the order that waits for the worker; 0 for none."""
    command: str
    arguments: dict[str, Any]
    fence: int
    token: str
    """The next session token, when half of the time of the present one is over; else empty. Use it from here on."""


class Passage(msgspec.Struct, frozen=True):
    """How a generation of the barrier ended."""

    barrier: str
    generation: int
    step: int
    released: bool
    order: int
    """Its place among ``of`` arrivals, from 0; -1 if it was missing."""
    of: int
    reason: str
    fence: int


class SeriesName(msgspec.Struct, frozen=True):
    name: str
    subject: str
    """Whom or what the numbers are of: a worker, a barrier; empty for the whole run."""


class Bucket(msgspec.Struct, frozen=True):
    """All numbers of one stretch of time."""

    start_s: float
    """Seconds since 1970."""
    width_s: float
    count: int
    low: float
    high: float
    mean: float
    last: float


class SeriesShown(msgspec.Struct, frozen=True):
    series: list[SeriesName]
    """Every series of the run, or the one that was asked for."""
    buckets: list[Bucket]
    """Of the one that was asked for, oldest first."""
    now_s: float
    """The server's clock, which the times are of."""


# -- requests ------------------------------------------------------------------------------------------------------

Hex = Annotated[str, Meta(pattern=r"^([0-9a-f]{2})*$")]
Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]
RoundNumber = Annotated[int, Meta(ge=0, le=2**31)]
Reason = Annotated[str, Meta(max_length=256)]


def _wish(kind: str, config: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """The settings of a kind, where what is not said is left to the server's defaults."""
    fields = [(field.name, field.type | UnsetType, UNSET) for field in msgspec.structs.fields(config)]
    return msgspec.defstruct(
        f"{kind.title()}Config", fields, forbid_unknown_fields=True, frozen=True, namespace={"__doc__": config.__doc__}
    )


ClusterConfig: Any = _wish("cluster", KINDS.newest("cluster").config)
FederatedConfig: Any = _wish("federated", KINDS.newest("federated").config)
WitnessedConfig: Any = _wish("witnessed", KINDS.newest("witnessed").config)


class Creation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    run: RunName
    kind: Literal["cluster"] = "cluster"
    config: ClusterConfig = msgspec.field(default_factory=ClusterConfig)
    label: Reason = ""


class FederatedCreation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    run: RunName
    kind: Literal["federated"]
    config: FederatedConfig = msgspec.field(default_factory=FederatedConfig)
    label: Reason = ""


class WitnessedCreation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    run: RunName
    kind: Literal["witnessed"]
    config: WitnessedConfig = msgspec.field(default_factory=WitnessedConfig)
    label: Reason = ""


VARIANTS: dict[type, dict[str, type[msgspec.Struct]]] = {
    Creation: {"federated": FederatedCreation, "witnessed": WitnessedCreation}
}
"""Other shapes that a body may have instead, by its ``kind``: each kind has its own settings."""


class Reasoned(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reason: Reason = ""


class Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    command: Command
    member: Annotated[str, Meta(max_length=64)] = ""
    """Empty: everybody."""
    arguments: Arguments = {}


class Login(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    token: Annotated[str, Meta(min_length=1, max_length=1024)]


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Neither fields nor parameters."""


class Registration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A process reports for work."""

    member: Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9._-]+$")]
    nonce: Annotated[str, Meta(pattern=r"^[0-9a-f]{32}$")] | None = None
    """Drawn once per life: the same registration sent twice is answered alike. An Idempotency-Key may stand for it,
    unless it is signed."""
    supersedes: Counter | None = None
    """The life it follows, 0 for none; null for whichever is the newest."""
    key: Annotated[Hex, Meta(max_length=64)] = ""
    """Its public key, where keys are asked for."""
    proof: Annotated[Hex, Meta(max_length=256)] = ""
    """A challenge and the signature over it."""
    address: Annotated[str, Meta(max_length=255)] = ""
    gpus: Annotated[int, Meta(ge=0, le=1024)] = 0
    labels: Annotated[dict[Name, Annotated[str, Meta(max_length=256)]], Meta(max_length=32)] = {}


class State(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the worker does now."""

    incarnation: Counter
    seq: Counter
    """1, 2, 3 and so on in each life; the same number again gets the same answer."""
    state: Literal["ready", "idle", "loading", "training", "checkpointing"]
    fence: Counter = 0


class Leaving(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    incarnation: Counter
    seq: Counter
    reason: Reason = ""


class Beat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    incarnation: Counter
    seq: Counter
    step: Counter = 0
    epoch: Counter = 0
    progress: Counter = 0
    cpu: Share = 0.0
    gpu: Share = 0.0
    memory: Share = 0.0
    task: Annotated[str, Meta(max_length=128)] = ""
    order: Counter = 0
    """The number of the last order it has."""
    metrics: Metrics = {}
    """What the training measures, such as its loss."""


class Arrival(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    incarnation: Counter
    step: Counter
    after: Counter | None = None
    """The last generation of this barrier that the worker knows to be settled. Left out, the step tells a repeat from
    the next visit: so the steps of a barrier have to grow."""
    fence: Counter = 0
    timeout_s: Annotated[float, Meta(ge=0.0, le=300.0)] = 30.0
    """How long to wait for the answer. After that the arrival stays, and is repeated to wait on."""


# -- parameters ----------------------------------------------------------------------------------------------------

Limit = Annotated[int, Meta(ge=1, le=1000)]


class RunsPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 100
    cursor: Named = ""
    """What the page before gave as ``next``."""


class WorkersPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    run: Annotated[str, Meta(max_length=128)] = ""
    """Empty: of every run."""
    limit: Limit = 100
    cursor: Paired = ""


class NumberedPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of entries, and of rounds."""

    limit: Limit = 100
    cursor: Numbered = ""


class Since(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    after: Counter | None = None
    """The number of the last entry that is known; without it and without Last-Event-ID only what is new is sent."""
    follow: bool = True
    """Go on with what comes. Otherwise the stream ends with what is there."""


class Which(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    run: Annotated[str, Meta(max_length=128)] = ""
    """A run, or a beginning with a star as in bert-*; empty for all."""
    history: bool = False
    """From the first entry on, and not only what is new."""
    follow: bool = True


class Selection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(max_length=128)] = ""
    """Empty: only tell which series there are."""
    subject: Annotated[str, Meta(max_length=128)] = ""
    last_s: Annotated[float, Meta(ge=0.001, le=1e9)] = 3600.0
    """The last so many seconds, unless ``since_s`` is said."""
    since_s: Annotated[float, Meta(ge=0.0, le=1e12)] | None = None
    """Seconds since 1970, by the server's clock."""
    max_points: Annotated[int, Meta(ge=1, le=10_000)] = 500


__all__ = ["BarrierName", "Counter", "History", "MemberId", "Round", "RunName"]

"""What the training process and its sidecar say to each other, through a pair of sockets, in frames as on the network.

The sidecar holds the session and can be killed at any moment, so the training process remembers all it takes to go on:
its open requests, and what it was told (``Known``). Requests name the life and the run's generation they were made in;
one that crossed with bad news on the way is refused and not carried out in a life it was not meant for.
"""

from __future__ import annotations

from typing import Any

import msgspec

from quoracy.core.cluster.views import Passage
from quoracy.core.errors import Refusal
from quoracy.core.members import Accepted
from quoracy.sdk.line import Outage
from quoracy.sdk.membership import Known
from quoracy.sdk.settings import Settings

# -- to the sidecar ------------------------------------------------------------------------------------------------


class Start(msgspec.Struct, frozen=True, array_like=True, tag="start"):
    """The first message. ``restarts``: how many sidecars of this member were there before."""

    settings: Settings
    secret: bytes
    known: Known
    restarts: int
    holds: Any = None
    """What the kind has to remember beside: a participant's work, and what it offers."""


class Do(msgspec.Struct, frozen=True, array_like=True, tag="do"):
    """A durable command, such as worker-ready. Ends with ``Done``."""

    number: int
    life: int
    event: str
    fields: dict[str, Any] = {}


class Stand(msgspec.Struct, frozen=True, array_like=True, tag="stand"):
    """Stand at a barrier. Ends with ``Settled``, or with ``Done`` if it is refused."""

    number: int
    life: int
    barrier: str
    step: int
    fence: int
    after: int = 0
    """The newest generation that the training process knows to be settled. The session may know a newer one, whose news
    is still on its way."""


class Offered(msgspec.Struct, frozen=True, array_like=True, tag="offered"):
    """A participant has trained, and its weights are uploaded. Ends with ``Judged`` or ``Dropped``."""

    offer: Any


class Said(msgspec.Struct, frozen=True, array_like=True, tag="said"):
    """A signal of a witnessed member, as it goes to the coordinator. Ends with nothing: what follows is shown."""

    signal: bytes


class Look(msgspec.Struct, frozen=True, array_like=True, tag="look"):
    """A witnessed member wants to be shown everything again."""


class Bye(msgspec.Struct, frozen=True, array_like=True, tag="bye"):
    """The sidecar is not needed any more."""


ToSidecar = Start | Do | Stand | Offered | Said | Look | Bye

# -- to the training process ---------------------------------------------------------------------------------------


class Done(msgspec.Struct, frozen=True, array_like=True, tag="done"):
    """``number`` 0: a command of the session itself, which counts and nobody waits for."""

    number: int
    answer: Accepted | Refusal


class Settled(msgspec.Struct, frozen=True, array_like=True, tag="settled"):
    """How a generation of a barrier ended. ``number`` 0: nobody is known to wait for it any more."""

    number: int
    passage: Passage


class Joined(msgspec.Struct, frozen=True, array_like=True, tag="joined"):
    """A life has begun; ``known`` is what to remember of it."""

    known: Known
    place: int
    """A worker's rank, a participant's seat."""


class Token(msgspec.Struct, frozen=True, array_like=True, tag="token"):
    token: str


class Stands(msgspec.Struct, frozen=True, array_like=True, tag="stands"):
    """What the run thinks of this member now, as its kind shows it. Whoever reads it knows the kind."""

    standing: Any


class Ordered(msgspec.Struct, frozen=True, array_like=True, tag="ordered"):
    number: int
    command: str
    arguments: dict[str, Any]


class Lost(msgspec.Struct, frozen=True, array_like=True, tag="lost"):
    """The coordinator gave this life up. All open requests are void; a new life begins."""

    why: str


class Fell(msgspec.Struct, frozen=True, array_like=True, tag="fell"):
    """The run was rolled back: arrivals are void."""

    reason: str
    fence: int


class Trains(msgspec.Struct, frozen=True, array_like=True, tag="trains"):
    """Work for a participant."""

    work: Any


class Dropped(msgspec.Struct, frozen=True, array_like=True, tag="dropped"):
    """Nobody waits for that work any more."""

    ticket: int
    why: str


class Judged(msgspec.Struct, frozen=True, array_like=True, tag="judged"):
    """Whether an update counts."""

    verdict: Any


class Shown(msgspec.Struct, frozen=True, array_like=True, tag="shown"):
    """What the run shows to a witnessed member under a topic."""

    topic: str
    value: Any


class Passes(msgspec.Struct, frozen=True, array_like=True, tag="passes"):
    """A federated run goes on, or stands, while this participant has nothing to do in it."""

    run_phase: str
    round: int
    reason: str


class Over(msgspec.Struct, frozen=True, array_like=True, tag="over"):
    """All rounds are over, or somebody has stopped the run."""

    reason: str


class Turned(msgspec.Struct, frozen=True, array_like=True, tag="turned"):
    """A join or hello was refused. Tried again, but whoever connects for the first time wants to know."""

    refusal: Refusal


class Finished(msgspec.Struct, frozen=True, array_like=True, tag="finished"):
    """The session is over."""

    refusal: Refusal


class Unfit(msgspec.Struct, frozen=True, array_like=True, tag="unfit"):
    """A setting cannot be used; found out by the sidecar because only it opens keys and certificates."""

    field: str
    value: str
    fix: str


class Up(msgspec.Struct, frozen=True, array_like=True, tag="up"):
    """The coordinator answers."""


ToTraining = (
    Done | Settled | Joined | Token | Stands | Ordered | Lost | Fell | Turned | Finished | Unfit | Up | Outage
    | Trains | Dropped | Judged | Shown | Passes | Over
)  # fmt: skip
OfKind = Settled | Ordered | Fell | Trains | Dropped | Judged | Shown | Passes | Over
"""What not every kind is told."""

to_sidecar: msgspec.msgpack.Decoder[ToSidecar] = msgspec.msgpack.Decoder(ToSidecar)
to_training: msgspec.msgpack.Decoder[ToTraining] = msgspec.msgpack.Decoder(ToTraining)

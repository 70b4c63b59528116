"""The settings of a federated run, each with its default and why it is that."""

from __future__ import annotations

from math import ceil
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from quoracy.core.bounds import Plain
from quoracy.core.errors import ConfigError, ConfigErrors
from quoracy.core.federated.aggregation import Aggregation, FedAvg, client_hyper, problems
from quoracy.core.federated.events import Name

Seconds = Annotated[float, Meta(ge=0.001, le=31_536_000)]
MaybeSeconds = Annotated[float, Meta(ge=0.0, le=31_536_000)]
Many = Annotated[int, Meta(ge=1, le=10_000)]
MaybeMany = Annotated[int, Meta(ge=0, le=10_000)]
Hyper = Annotated[dict[Name, Plain], Meta(max_length=64)]


class HyperStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """From this round on, these hyper-parameters instead."""

    round: Annotated[int, Meta(ge=0, le=1_000_000)]
    hyper: Hyper


class EarlyStop(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Stop when a metric has not become better for a while."""

    metric: Name = ""
    """Of the evaluation if it has one of that name, else of the participants' metrics. Empty: never."""
    patience: Annotated[int, Meta(ge=1, le=1_000_000)] = 5
    """Rounds without anything better."""
    min_delta: Annotated[float, Meta(ge=0.0, le=1e300)] = 0.0
    """Better by less than this is not better."""
    better: Literal["higher", "lower"] = "higher"


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    clients: Many = 1
    """So many must be registered before a round begins, or goes on."""
    rounds: Annotated[int, Meta(ge=1, le=1_000_000)] = 10
    """After so many the run is finished."""
    epochs: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    """Passes over its own samples that each participant makes in a round."""
    per_round: MaybeMany = 0
    """How many updates a round is meant to have, drawn from those registered. 0: all of them."""
    over_select: Annotated[float, Meta(ge=0.0, le=10.0)] = 0.0
    """Draw this share more than ``per_round``, and close with the first who finish."""
    aggregation: Aggregation = FedAvg()
    """How many updates become one model."""
    count_min: MaybeMany = 0
    """With fewer updates a round does not close. 0: as many as the round is meant to have."""
    count_max: MaybeMany = 0
    """With so many it closes at once. 0: as many as the round is meant to have."""
    time_min_s: MaybeSeconds = 0.0
    """No round closes earlier."""
    time_max_s: Seconds = 3600.0
    """After this time a round closes with those who are done, if they are enough; else the others are replaced."""
    standby_max_s: Seconds = 600.0
    """Too few for longer than this, and the run pauses and says who is missing."""
    heartbeat_interval_s: Seconds = 5.0
    """How often a participant says that it is alive."""
    heartbeat_timeout_s: Seconds = 15.0
    """Silent for longer than this, a participant is given up."""
    hyper: Hyper = {}
    """Hyper-parameters for the trainers, such as lr and batch_size. Quoracy only carries them."""
    hyper_steps: Annotated[tuple[HyperStep, ...], Meta(max_length=256)] = ()
    """Changes of them on the way."""
    initial: Annotated[str, Meta(pattern="^([0-9a-f]{64})?$")] = ""
    """Digest of the weights to begin with, which must be in the object store, or the run begins paused. Empty: from the
    first participant that can give some."""
    evaluation: Annotated[
        str, Meta(pattern=r"^([A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_.]*)?$", max_length=256)
    ] = ""
    """``module:function``, called by the coordinator with the new weights after every round. The module has to be in
    workshop.modules of the server's own configuration."""
    early_stop: EarlyStop = EarlyStop()
    """When to stop before all rounds are over."""
    samples_max: Annotated[int, Meta(ge=0, le=2**53)] = 0
    """No update counts for more samples than this, whatever it claims. 0: no bound. In any case, from 4 updates on, a
    claim above 10 times the median of the round counts as that."""
    norm_bound: Annotated[float, Meta(ge=0.0, le=1e300)] = 0.0
    """An update that moves the weights farther than this is refused. 0: no bound."""
    max_update_bytes: Annotated[int, Meta(ge=1, le=2**40)] = 2 * 1024**3
    """A larger update is refused before it is read."""
    max_metrics_bytes: Annotated[int, Meta(ge=0, le=2**40)] = 16 * 1024**2
    """Metrics that are large come as an object beside the update; a larger object than this is left out, with a
    warning. 0: none is taken."""
    updates_readable: bool = False
    """Whether everybody who may look at the run may fetch single updates over HTTP. Else operators may, and each
    participant its own. Global models may be fetched in any case."""
    refused_max: Annotated[int, Meta(ge=1, le=1000)] = 1
    """After so many refused updates a participant is quarantined: it is told why, and is not drawn any more."""
    seed: Annotated[int, Meta(ge=0, le=2**53)] = 0
    """Of the draws: the same participants and the same seed give the same selection."""
    max_participants: Many = 10_000
    """The next one is told to come later."""
    stuck_after_s: Seconds = 120.0
    """A participant whose heartbeats go on while its training has not moved for so long is shown as stuck."""

    def hyper_at(self, number: int) -> dict[str, Plain]:
        hyper = dict(self.hyper)
        for step in sorted(self.hyper_steps, key=lambda step: step.round):
            if step.round <= number:
                hyper |= step.hyper
        return hyper | client_hyper(self.aggregation)


def check_config(config: Config) -> None:
    found = problems(config.aggregation, _least(config), largest(config))
    _refuse(_problems(config) + found + clashes(config))


def largest(config: Config) -> int:
    """With how many updates a round may close. One that has to stay open for a while may get more than it needs."""
    meant = config.per_round or config.max_participants
    drawn = min(ceil(meant * (1 + config.over_select) - 1e-9), config.max_participants)
    return drawn if config.time_min_s else min(config.count_max or meant, drawn)


def clashes(config: Config) -> list[ConfigError]:
    """Hyper-parameters that are set twice: here, and by the rule."""
    places = [
        ("hyper", config.hyper),
        *((f"hyper_steps[{at}].hyper", step.hyper) for at, step in enumerate(config.hyper_steps)),
    ]
    return [
        ConfigError(f"{where}.{name}", hyper[name], f"aggregation.{name} = {value:g} is what counts: leave this out")
        for where, hyper in places
        for name, value in client_hyper(config.aggregation).items()
        if name in hyper
    ]


def _least(config: Config) -> int:
    return config.count_min or min(config.per_round or config.clients, config.count_max or config.max_participants)


def _refuse(found: list[ConfigError]) -> None:
    if found:
        raise ConfigErrors(found)


def _problems(config: Config) -> list[ConfigError]:
    found: list[ConfigError] = []
    most = config.per_round or config.max_participants
    if config.heartbeat_timeout_s < 2 * config.heartbeat_interval_s:
        fix = f"at least twice heartbeat_interval_s ({config.heartbeat_interval_s}): one may be lost on the way"
        found.append(ConfigError("heartbeat_timeout_s", config.heartbeat_timeout_s, fix))
    if config.clients > config.max_participants:
        fix = f"at most max_participants ({config.max_participants}), or no round can ever begin"
        found.append(ConfigError("clients", config.clients, fix))
    if config.per_round > config.max_participants:
        fix = f"at most max_participants ({config.max_participants})"
        found.append(ConfigError("per_round", config.per_round, fix))
    if config.over_select and not config.per_round:
        found.append(
            ConfigError("over_select", config.over_select, "0, or set per_round: more than all cannot be drawn")
        )
    if config.count_min > most:
        fix = f"at most per_round ({config.per_round})" if config.per_round else f"at most max_participants ({most})"
        found.append(ConfigError("count_min", config.count_min, fix))
    if config.count_max and config.count_max < config.count_min:
        found.append(ConfigError("count_max", config.count_max, f"at least count_min ({config.count_min}), or 0"))
    if config.time_min_s > config.time_max_s:
        found.append(ConfigError("time_min_s", config.time_min_s, f"at most time_max_s ({config.time_max_s})"))
    return found

"""The settings of a witnessed run, each with its default and why it is that.

What types cannot say is checked in ``check_config``, also where two settings exclude each other. Everything that is
wrong is said at once, each with a value that would do.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from quoracy.core.bounds import Plain, share
from quoracy.core.errors import ConfigError, ConfigErrors
from quoracy.core.witnessed.events import MAX_MEMBERS, MAX_RESULTS, Name

Seconds = Annotated[float, Meta(ge=0.001, le=31_536_000)]
MaybeSeconds = Annotated[float, Meta(ge=0.0, le=31_536_000)]
Many = Annotated[int, Meta(ge=1, le=MAX_MEMBERS)]
MaybeMany = Annotated[int, Meta(ge=0, le=MAX_MEMBERS)]
Rounds = Annotated[int, Meta(ge=0, le=1_000_000)]
Steps = Annotated[int, Meta(ge=0, le=2**40)]
Samples = Annotated[int, Meta(ge=1, le=2**40)]
MaybeSamples = Annotated[int, Meta(ge=0, le=2**40)]
Hyper = Annotated[dict[Name, Plain], Meta(max_length=64)]
Share = Annotated[str, Meta(max_length=40)] | float
Text = Annotated[str, Meta(max_length=256)]


class DataSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the members get their samples from."""

    kind: Literal["local", "door"] = "local"
    """local: each member has them. door: the coordinator hands out the batches it assigned, and no others."""
    location: Text = ""
    """door: what the coordinator reads them from."""


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    min_clients: Many = 1
    """With fewer in step an epoch ends, and none begins."""
    init_min_clients: MaybeMany = 0
    """So many must have come before the first epoch begins. 0: as many as ``min_clients``."""
    max_clients: Many = 256
    """So many take part in an epoch at most; as many again may wait for the next one."""
    waiting_extra_s: MaybeSeconds = 3.0
    """How long an epoch waits for more, once the least are there."""
    warmup_s: Seconds = 60.0
    """Who has not loaded the model by then catches up while the others begin."""
    round_train_max_s: Seconds = 300.0
    """A round's training takes no longer; what is not done by then is done in the next round."""
    round_witness_s: Seconds = 10.0
    """How long those who lack a result may take to fetch it, before the round is sealed without them."""
    cooldown_s: Seconds = 60.0
    """How long the checkpoint at the end of an epoch may take."""
    rounds_per_epoch: Rounds = 20
    """Newcomers are let in between two epochs. 0: only ``epoch_s`` ends one."""
    epoch_s: MaybeSeconds = 0.0
    """Or an epoch ends with the round in which it has lasted so long. 0: only ``rounds_per_epoch`` ends one."""
    total_steps: Steps = 0
    """After so many applied rounds the run is finished. 0: when it is stopped."""
    witness_nodes: MaybeMany = 0
    """How many of a round's members are drawn as its witnesses. 0: all."""
    witness_quorum: Share = "2/3"
    """The share of the elected witnesses that has to hold a result, as "2/3" or 0.67. Two thirds go on when a third
    is gone or lies."""
    strikes_max: Annotated[int, Meta(ge=0, le=1000)] = 2
    """More bad rounds in a row than this, and a member is out until the next epoch."""
    attempts_max: Annotated[int, Meta(ge=1, le=1000)] = 5
    """A batch that failed so often is skipped, and the account says so."""
    batch_size: Samples = 32
    """Samples in one batch: the smallest piece of work that is given to somebody."""
    global_batch_size_start: Samples = 256
    """Samples in one round, and so in one step of the model."""
    global_batch_size_end: MaybeSamples = 0
    """Samples in one round when the ramp is over. 0: as at the start."""
    ramp_steps: Steps = 0
    """Over so many steps the samples of a round go from start to end."""
    speed_weighted: bool = True
    """Who is slow gets fewer batches, so that all are done at about the same time."""
    adaptive_deadline: bool = True
    """A round waits three times as long as rounds take, instead of always ``round_train_max_s``."""
    deadline_floor_s: Seconds = 1.0
    """But never less than this."""
    attestation: Literal["bitmap", "bloom"] = "bitmap"
    """How a witness says what it holds: one bit for each result, or a Bloom filter, which may claim too much."""
    bloom_false_positives: Annotated[float, Meta(ge=0.000001, le=0.5)] = 0.01
    """How often a filter may claim a result that the witness does not hold. It is sized for that."""
    verification_percent: Annotated[int, Meta(ge=0, le=100)] = 0
    """How much of the work is done a second time by somebody else. Not to be had yet."""
    heartbeat_interval_s: Seconds = 5.0
    """How often a member says that it is alive."""
    heartbeat_timeout_s: Seconds = 30.0
    """Silent for longer than this, a member is given up."""
    checkpoint: Literal["stored", "none"] = "stored"
    """stored: one of the members puts the model into the object store after each epoch. none: only they have it."""
    checkpoint_retry_s: Seconds = 10.0
    """After this time another one is drawn to store it."""
    seed: Annotated[int, Meta(ge=0, le=2**53)] = 0
    """Of the order in which the samples are used, and of the initial model."""
    initial: Annotated[str, Meta(pattern="^([0-9a-f]{64})?$")] = ""
    """Digest of the model to begin with, which must be in the object store. Empty: each makes it from the seed."""
    hyper: Hyper = {}
    """Hyper-parameters for the trainers, such as lr. Quoracy only carries them."""
    data: DataSource = DataSource()
    """Where the members get their samples from."""
    model: Text = ""
    """What is trained, for people."""
    stuck_after_s: Seconds = 120.0
    """A member whose heartbeats go on while its training has not moved for so long is shown as stuck."""

    @property
    def least_first(self) -> int:
        """Members before the first epoch begins."""
        return self.init_min_clients or self.min_clients

    @property
    def share(self) -> Fraction:
        """Of the elected witnesses, exactly."""
        return share(self.witness_quorum)

    def batches_at(self, step: int) -> int:
        """How many batches the round of this step has: whole numbers, so that everybody counts alike."""
        start, end = self.global_batch_size_start, self.global_batch_size_end or self.global_batch_size_start
        samples = end if step >= self.ramp_steps else start + (end - start) * step // self.ramp_steps
        return min(-(-samples // self.batch_size), MAX_BATCHES)


MAX_BATCHES = 2**31
"""In one round: more than any cluster trains."""


def check_config(config: Config) -> None:
    found = [*_alone(config), *_together(config)]
    if found:
        raise ConfigErrors(found)


def _alone(config: Config) -> Iterator[ConfigError]:
    try:
        share(config.witness_quorum)
    except ValueError:
        yield ConfigError("witness_quorum", config.witness_quorum, 'a share above 0 and up to 1, such as "2/3" or 0.67')
    if config.verification_percent:
        fix = "0: having work done a second time by others is not built yet"
        yield ConfigError("verification_percent", config.verification_percent, fix)
    if config.data.kind == "door" and not config.data.location:
        fix = 'what the coordinator reads the samples from, or kind = "local"'
        yield ConfigError("data.location", config.data.location, fix)


def _together(config: Config) -> Iterator[ConfigError]:
    if config.init_min_clients and config.init_min_clients < config.min_clients:
        fix = f"at least min_clients ({config.min_clients}), or 0 for as many"
        yield ConfigError("init_min_clients", config.init_min_clients, fix)
    for name in ("min_clients", "init_min_clients"):
        if (value := getattr(config, name)) > config.max_clients:
            fix = f"at most max_clients ({config.max_clients}), or no epoch can ever begin"
            yield ConfigError(name, value, fix)
    if config.witness_nodes > config.min_clients:
        fix = f"at most min_clients ({config.min_clients}), or a round may have fewer to draw from; 0 takes all"
        yield ConfigError("witness_nodes", config.witness_nodes, fix)
    if config.heartbeat_timeout_s < 2 * config.heartbeat_interval_s:
        fix = f"at least twice heartbeat_interval_s ({config.heartbeat_interval_s:g}): one may be lost on the way"
        yield ConfigError("heartbeat_timeout_s", config.heartbeat_timeout_s, fix)
    if config.deadline_floor_s > config.round_train_max_s:
        fix = f"at most round_train_max_s ({config.round_train_max_s:g})"
        yield ConfigError("deadline_floor_s", config.deadline_floor_s, fix)
    yield from _epochs(config)
    yield from _batches(config)


def _epochs(config: Config) -> Iterator[ConfigError]:
    if not config.rounds_per_epoch and not config.epoch_s:
        yield ConfigError("rounds_per_epoch", 0, "at least 1, or set epoch_s: or an epoch never ends")
    if config.epoch_s and config.warmup_s >= config.epoch_s:
        fix = f"less than epoch_s ({config.epoch_s:g}), which counts from its beginning"
        yield ConfigError("warmup_s", config.warmup_s, fix)
    lasts_s = config.rounds_per_epoch * (config.round_train_max_s + config.round_witness_s)
    if config.rounds_per_epoch and config.warmup_s >= lasts_s:
        fix = f"less than the rounds of an epoch can take together ({lasts_s:g})"
        yield ConfigError("warmup_s", config.warmup_s, fix)


def _batches(config: Config) -> Iterator[ConfigError]:
    start, end = config.global_batch_size_start, config.global_batch_size_end
    clients = max(config.least_first, config.min_clients)
    needed = (clients - 1) * config.batch_size + 1
    for name, samples in (("global_batch_size_start", start), ("global_batch_size_end", end)):
        if samples and -(-samples // config.batch_size) < clients:
            why = f"{clients} members need a batch of batch_size = {config.batch_size} each"
            yield ConfigError(name, samples, f"at least {needed}: {why}")
        if samples > MAX_BATCHES * config.batch_size:
            fix = f"at most {MAX_BATCHES} batches of batch_size = {config.batch_size}"
            yield ConfigError(name, samples, fix)
    if end and end != start and not config.ramp_steps:
        fix = f"at least 1: over how many steps the samples of a round go from {start} to {end}"
        yield ConfigError("ramp_steps", config.ramp_steps, fix)
    if config.ramp_steps and end in (0, start):
        fix = f"0, or a global_batch_size_end other than global_batch_size_start ({start})"
        yield ConfigError("ramp_steps", config.ramp_steps, fix)


assert MAX_RESULTS >= MAX_MEMBERS, "each member may have a result in a round"

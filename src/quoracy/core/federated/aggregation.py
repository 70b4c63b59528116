"""How a round's updates become the next model: one struct of settings per rule, told apart by ``rule``.

Pure: what the rules compute is in ``quoracy.learn``. Here is what can be known before a run begins. A rule that would
not do what its name promises with as few updates as a round may close with is refused here, with the arithmetic, and
not discovered in round 40.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from quoracy.core.errors import ConfigError

Rate = Annotated[float, Meta(gt=0, le=1000)]
Decay = Annotated[float, Meta(ge=0, lt=1)]
Floor = Annotated[float, Meta(gt=0, le=1)]
Few = Annotated[int, Meta(ge=0, le=10_000)]

MAX_COMPARED: Final = 1000
"""Updates that a rule compares each with each: half a million distances, and a second or two of sorting them."""


class FedAvg(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="rule", tag="fedavg"):
    """The mean of the updates, weighted by the samples each was trained on (McMahan et al. 2017)."""


class FedAvgM(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="rule", tag="fedavgm"):
    """The same mean, approached with momentum (Hsu et al. 2019): steadier where participants hold different classes."""

    server_lr: Rate = 1.0
    """How much of the step is taken. With 1 and no momentum this is fedavg."""
    momentum: Decay = 0.9
    """How much of the last step is in the next. What the authors found good, also with very unequal participants."""


class FedAdam(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="rule", tag="fedadam"):
    """Adam on the server, with the mean's difference to the model as its gradient (Reddi et al. 2021)."""

    server_lr: Rate = 0.01
    """About how far a weight moves in a round whose updates agree: a hundredth, which is little for most weights."""
    beta1: Decay = 0.9
    """How much of the last step is in the next. The authors' value."""
    beta2: Decay = 0.99
    """How slowly the scale of a weight's steps is forgotten. The authors' value, below Adam's own: rounds are few."""
    tau: Floor = 0.001
    """The smallest scale: a weight that hardly moves is not blown up beyond 1/tau. The authors' value."""


class FedYogi(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="rule", tag="fedyogi"):
    """As fedadam, but the scale changes by a bounded amount, so that one wild round is not remembered for long."""

    server_lr: Rate = 0.01
    """About how far a weight moves in a round whose updates agree: a hundredth, which is little for most weights."""
    beta1: Decay = 0.9
    """How much of the last step is in the next. The authors' value."""
    beta2: Decay = 0.99
    """How slowly the scale of a weight's steps changes. The authors' value."""
    tau: Floor = 0.001
    """The smallest scale: a weight that hardly moves is not blown up beyond 1/tau. The authors' value."""


class FedAdagrad(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="rule", tag="fedadagrad"):
    """As fedadam, but the scale only grows: for weights that move rarely. There is no beta2: nothing is forgotten."""

    server_lr: Rate = 0.1
    """The first step's size. It is larger than fedadam's because the scale only grows, so that steps only shrink."""
    beta1: Decay = 0.0
    """How much of the last step is in the next. None: Adagrad has no momentum of its own."""
    tau: Floor = 0.001
    """The smallest scale: a weight that hardly moves is not blown up beyond 1/tau. The authors' value."""


class FedProx(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="rule", tag="fedprox"):
    """Aggregates as fedavg; what is different is done by the participants, which get ``mu`` as a hyper-parameter and
    add mu/2 times the squared distance to the global model to their loss (Li et al. 2020)."""

    mu: Annotated[float, Meta(ge=0, le=1000)] = 0.01
    """How strongly a participant is held near the global model. The second smallest of those the authors tried: too
    much slows the training, 0 is fedavg."""


class Median(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="rule", tag="median"):
    """Of every weight the median of the updates (Yin et al. 2018). Samples do not count: a liar could claim many."""


class TrimmedMean(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="rule", tag="trimmed_mean"):
    """Of every weight the mean without the largest and the smallest (Yin et al. 2018). Samples do not count."""

    trim: Annotated[float, Meta(ge=0, le=10_000)] = 0.1
    """What is left out on each side: below 0.5 a share of the updates, rounded down; from 1 a number of them. The
    default withstands one liar in ten."""


class Krum(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="rule", tag="krum"):
    """The one update that is nearest to its neighbours (Blanchard et al. 2017). Samples do not count."""

    byzantine: Few = 1
    """So many updates may be lies, of at least 2 * byzantine + 3."""


class MultiKrum(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="rule", tag="multi_krum"):
    """The mean of the updates that krum likes best (Blanchard et al. 2017): less noise than one alone."""

    byzantine: Few = 1
    """So many updates may be lies, of at least 2 * byzantine + 3."""
    keep: Few = 0
    """How many are averaged; 0 is as many as is sound, all but byzantine + 2."""


class Bulyan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="rule", tag="bulyan"):
    """Krum again and again to choose all but 2 * byzantine updates, then of every weight the mean of those nearest to
    the median (El Mhamdi et al. 2018): a lie cannot hide in one weight of a vector that is near as a whole."""

    byzantine: Few = 1
    """So many updates may be lies, of at least 4 * byzantine + 3."""


class Own(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="rule", tag="own"):
    """A rule of your own: a class that ``quoracy.learn.Rule`` describes, where the aggregation runs."""

    of: Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$", max_length=255)]
    """Where the class is, as module:Class. The module has to be in workshop.modules of the server's own
    configuration."""
    settings: Annotated[dict[str, Any], Meta(max_length=100)] = {}
    """What the class is made with."""


Aggregation = (
    FedAvg | FedAvgM | FedAdam | FedYogi | FedAdagrad | FedProx | Median | TrimmedMean | Krum | MultiKrum | Bulyan | Own
)


def problems(aggregation: Aggregation, least: int, most: int) -> list[ConfigError]:
    """Why the rule would not do what it promises when a round closes with ``least`` to ``most`` updates."""
    return list(_problems(aggregation, least, most))


def trimmed(trim: float, updates: int) -> int:
    """How many of so many updates are left out on each side. A share of 0.29 of 100 is 29, whatever a float makes
    of it."""
    return int(trim) if trim >= 1 else math.floor(trim * updates + 1e-9)


def client_hyper(aggregation: Aggregation) -> dict[str, float]:
    """The hyper-parameters that the rule needs on the participants' side."""
    return {"mu": aggregation.mu} if isinstance(aggregation, FedProx) else {}


def _problems(aggregation: Aggregation, least: int, most: int) -> Iterator[ConfigError]:
    match aggregation:
        case Median() if least < 3:
            fix = f"a round may close with {least}, and the median of fewer than 3 is their mean: raise count_min to 3"
            yield ConfigError("aggregation.rule", "median", fix)
        case TrimmedMean(trim):
            yield from _wrong_trim(trim, least)
        case Krum(f):
            yield from _too_few(f, least, 2, "krum")
            yield from _too_many(most, "krum")
        case MultiKrum(f, keep):
            too_few = list(_too_few(f, least, 2, "multi_krum"))
            yield from too_few
            if keep > least - f - 2 and not too_few:
                sound = (
                    f"at most {least} - {f} - 2 = {least - f - 2}, updates that lies cannot be among; 0 takes as many"
                )
                yield ConfigError("aggregation.keep", keep, f"a round may close with {least}, of which {sound}")
            yield from _too_many(most, "multi_krum")
        case Bulyan(f):
            yield from _too_few(f, least, 4, "bulyan")
            yield from _too_many(most, "bulyan")


def _wrong_trim(trim: float, least: int) -> Iterator[ConfigError]:
    field = "aggregation.trim"
    if 0.5 <= trim < 1:
        yield ConfigError(field, trim, "a share of both sides has to leave something: below 0.5")
        return
    if trim >= 1 and trim != int(trim):
        yield ConfigError(field, trim, "from 1 on it is a number of updates: make it whole, or a share below 0.5")
        return
    out = trimmed(trim, least)
    if 2 * out >= least:
        fix = f"a round may close with {least}, and twice {out} leaves none of them: at most {(least - 1) // 2}"
        yield ConfigError(field, trim, fix)
    elif trim < 0.0001:
        yield ConfigError(
            field, trim, "this leaves nobody out, which is fedavg without samples: 1, or a share such as 0.1"
        )
    elif out == 0:
        enough = math.ceil(1 / trim - 1e-9)
        why = f"a round may close with {least}, and {trim} of {least} is no update left out"
        yield ConfigError(field, trim, f"{why}: 1, or count_min from {enough} on")


def _too_few(f: int, least: int, times: int, rule: str) -> Iterator[ConfigError]:
    needed = times * f + 3
    if least < needed:
        sum_ = f"{rule} needs {times} * {f} + 3 = {needed} updates against {f} lies, and a round may close with {least}"
        fix = f"count_min from {needed} on" + (f", or at most {(least - 3) // times} here" if least >= 3 else "")
        yield ConfigError("aggregation.byzantine", f, f"{sum_}: {fix}")


def _too_many(most: int, rule: str) -> Iterator[ConfigError]:
    if most > MAX_COMPARED:
        pairs = most * (most - 1) // 2
        why = f"a round may close with {most}, and {rule} compares each with each, {pairs:,} pairs"
        fix = f"{why}: at most {MAX_COMPARED} as per_round, max_participants, or count_max with time_min_s = 0"
        yield ConfigError("aggregation.rule", rule, fix)

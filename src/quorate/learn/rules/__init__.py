"""The aggregation rules, one per file, each as its paper defines it. ``base`` says what a rule is; ``order``,
``distances`` and ``whole`` are what several of them stand on."""

from __future__ import annotations

from typing import Final

import msgspec

from quorate.core.federated import aggregation
from quorate.learn.rules.base import CannotAggregate, Row, Rows, Rule, Slice, Weights
from quorate.learn.rules.bulyan import Bulyan
from quorate.learn.rules.fedadagrad import FedAdagrad
from quorate.learn.rules.fedadam import FedAdam
from quorate.learn.rules.fedavg import FedAvg
from quorate.learn.rules.fedavgm import FedAvgM
from quorate.learn.rules.fedprox import FedProx
from quorate.learn.rules.fedyogi import FedYogi
from quorate.learn.rules.krum import Krum
from quorate.learn.rules.median import Median
from quorate.learn.rules.multi_krum import MultiKrum
from quorate.learn.rules.own import Own
from quorate.learn.rules.trimmed_mean import TrimmedMean

RULES: Final[dict[type[msgspec.Struct], type[Rule]]] = {
    aggregation.FedAvg: FedAvg,
    aggregation.FedAvgM: FedAvgM,
    aggregation.FedAdam: FedAdam,
    aggregation.FedYogi: FedYogi,
    aggregation.FedAdagrad: FedAdagrad,
    aggregation.FedProx: FedProx,
    aggregation.Median: Median,
    aggregation.TrimmedMean: TrimmedMean,
    aggregation.Krum: Krum,
    aggregation.MultiKrum: MultiKrum,
    aggregation.Bulyan: Bulyan,
    aggregation.Own: Own,
}


def rule_for(settings: aggregation.Aggregation) -> Rule:
    """A rule for one round. Its arguments are the settings' fields."""
    return RULES[type(settings)](**msgspec.structs.asdict(settings))


__all__ = ["CannotAggregate", "Row", "Rows", "Rule", "Slice", "Weights", "rule_for"]

"""The aggregation rules, one per file, each as its paper defines it. ``base`` says what a rule is; ``order``,
``distances`` and ``whole`` are what several of them stand on."""

from __future__ import annotations

from typing import Final

import msgspec

from quoracy.core.federated import aggregation
from quoracy.learn.rules.base import CannotAggregate, Row, Rows, Rule, Slice, Weights
from quoracy.learn.rules.bulyan import Bulyan
from quoracy.learn.rules.fedadagrad import FedAdagrad
from quoracy.learn.rules.fedadam import FedAdam
from quoracy.learn.rules.fedavg import FedAvg
from quoracy.learn.rules.fedavgm import FedAvgM
from quoracy.learn.rules.fedprox import FedProx
from quoracy.learn.rules.fedyogi import FedYogi
from quoracy.learn.rules.krum import Krum
from quoracy.learn.rules.median import Median
from quoracy.learn.rules.multi_krum import MultiKrum
from quoracy.learn.rules.own import Own
from quoracy.learn.rules.trimmed_mean import TrimmedMean

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

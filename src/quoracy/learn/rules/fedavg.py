"""FedAvg: McMahan et al. 2017, "Communication-Efficient Learning of Deep Networks from Decentralized Data", where
n(k) is the number of samples that participant k trained on:

w(t+1) = sum over k of n(k) / n * w(k)
"""

from __future__ import annotations

from quoracy.learn.rules.base import Row, Rule, Slice, fast_weighted_mean
from quoracy.learn.rules.whole import exact_weighted_mean


class FedAvg(Rule):
    def merge(self, piece: Slice) -> Row:
        return fast_weighted_mean(piece)

    def merge_whole(self, piece: Slice) -> Row:
        return exact_weighted_mean(piece)

"""FedProx: Li et al. 2020, "Federated Optimization in Heterogeneous Networks". The server does what it does in FedAvg;
the proximal term with ``mu`` is in the participants' loss."""

from __future__ import annotations

from quoracy.learn.rules.fedavg import FedAvg


class FedProx(FedAvg):
    def __init__(self, mu: float) -> None:
        self.mu = mu

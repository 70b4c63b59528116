"""Whole runs on this machine, with real processes and real faults, one file per kind.

cluster   the demonstration of the `cluster` kind: a coordinator, eight workers, and what happens to them
worker    the program that each of its workers runs
account   what happened, read from the journal alone

ranks          the demonstration of the `ranks` kind: eight equal processes that train in step
rank_process   the program that each of them runs
model          what they train
serving        the store they share

federated      the demonstration of the `federated` kind: ten participants, one of whom lies
participant    the program that each of them runs
task           a whole federated task, with participants in two processes

witnessed      the demonstration of the `witnessed` kind: five members and one model, bit for bit
member         the program that each of them runs
"""

from quoracy.demo.cluster import demo_cluster
from quoracy.demo.federated import demo_federated
from quoracy.demo.ranks import demo_ranks
from quoracy.demo.witnessed import demo_witnessed

__all__ = ["demo_cluster", "demo_federated", "demo_ranks", "demo_witnessed"]

"""Whole runs on this machine, with real processes and real faults, one file per kind.

cluster   the demonstration of the `cluster` kind: a coordinator, eight workers, and what happens to them
worker    the program that each of its workers runs
account   what happened, read from the journal alone
"""

from quorate.demo.cluster import demo_cluster

__all__ = ["demo_cluster"]

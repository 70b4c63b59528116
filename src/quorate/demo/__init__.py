"""Whole runs on this machine, with real processes and real faults, one file per kind.

pipe         frames between two processes over a pipe
coordinator  the process that is killed: a host on a SQLite journal, asked through pipes
cluster      the demonstration of the `cluster` kind
account      what happened, read from the journal alone
"""

from quorate.demo.cluster import demo_cluster

__all__ = ["demo_cluster"]

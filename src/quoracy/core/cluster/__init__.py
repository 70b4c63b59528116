"""The ``cluster`` kind: a fleet of workers, kept in step.

events   what can happen, and the volatile signals beside it
state    workers, barriers, settings
table    run, worker and barrier as transition tables
rules    what the rows of the tables check and change
machine  finds whom an event is about and lets the tables decide
views    what a worker is shown
heard    what the collector has heard and not yet turned into events
collect  heartbeats become losses, arrivals become releases
explain  what the run is waiting for, and what everybody does, for people
"""

from quoracy.core.cluster.collect import Collector
from quoracy.core.cluster.events import ClusterEvent, ClusterSignal
from quoracy.core.cluster.machine import Cluster
from quoracy.core.cluster.state import Config, check_config
from quoracy.core.cluster.table import TABLES
from quoracy.core.machine import Kind

KIND = Kind(
    name="cluster",
    rules=1,
    config=Config,
    check_config=check_config,
    events=ClusterEvent,
    signals=ClusterSignal,
    create=Cluster.create,
    restore=Cluster.restore,
    collector=Collector,
    tables=TABLES,
)

__all__ = ["KIND", "Cluster", "Collector", "Config"]

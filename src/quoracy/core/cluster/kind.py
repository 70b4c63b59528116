"""The ``cluster`` kind, put together: what the rest of the house needs to know of it."""

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

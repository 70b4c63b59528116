"""The ``federated`` kind, put together: what the rest of the house needs to know of it."""

from quoracy.core.federated.collect import Collector
from quoracy.core.federated.config import Config, check_config
from quoracy.core.federated.events import FederatedEvent, FederatedSignal
from quoracy.core.federated.machine import Federated
from quoracy.core.federated.table import TABLES
from quoracy.core.machine import Kind

KIND = Kind(
    name="federated",
    rules=1,
    config=Config,
    check_config=check_config,
    events=FederatedEvent,
    signals=FederatedSignal,
    create=Federated.create,
    restore=Federated.restore,
    collector=Collector,
    tables=TABLES,
    ids_per_token=1,
)

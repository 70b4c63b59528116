"""The ``witnessed`` kind, put together: what the rest of the house needs to know of it."""

from quoracy.core.machine import Kind
from quoracy.core.witnessed.collect import Collector
from quoracy.core.witnessed.config import Config, check_config
from quoracy.core.witnessed.events import WitnessedEvent, WitnessedSignal
from quoracy.core.witnessed.machine import Witnessed
from quoracy.core.witnessed.table import TABLES

KIND = Kind(
    name="witnessed",
    rules=1,
    config=Config,
    check_config=check_config,
    events=WitnessedEvent,
    signals=WitnessedSignal,
    create=Witnessed.create,
    restore=Witnessed.restore,
    collector=Collector,
    tables=TABLES,
    ids_per_token=1,
)

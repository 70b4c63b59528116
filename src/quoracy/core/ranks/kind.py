"""The ``ranks`` kind, put together: what the rest of the house needs to know of it."""

from quoracy.core.machine import Kind
from quoracy.core.ranks.collect import Collector
from quoracy.core.ranks.events import RanksEvent, RanksSignal
from quoracy.core.ranks.machine import Ranks
from quoracy.core.ranks.state import Config, check_config
from quoracy.core.ranks.table import TABLES

KIND = Kind(
    name="ranks",
    rules=1,
    config=Config,
    check_config=check_config,
    events=RanksEvent,
    signals=RanksSignal,
    create=Ranks.create,
    restore=Ranks.restore,
    collector=Collector,
    tables=TABLES,
)

"""The ``ranks`` kind: equal ranks agree on the next iteration, with no coordinator.

events   what can happen, and the volatile signals beside it
state    ranks, settings, the log of decisions
table    run and rank as transition tables
rules    what the rows of the tables check and change
machine  finds whom an event is about and lets the tables decide
collect  beats become suspicions, arrivals become the record of an attempt
salvage  beginning anew after the store has lost its memory
times    every time-out, derived from one
"""

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

__all__ = ["KIND", "Collector", "Config", "Ranks"]

"""The ``federated`` kind: the data stays where it is, the weights travel.

events       what can happen, and the heartbeat beside it
config       the settings of a task
aggregation  the rules by which updates become one model, as settings
state        the task, its participants, the open round, rounds that are over, what was reported of trainings
measured     metrics, made fit for the journal
reports      what participants reported, kept for people
table        run and participant as transition tables
drawing      who is to train, and why a round cannot begin
rules        what the participant's rows check and change
rounds       what the run's rows check and change
machine      finds whom an event is about and lets the tables decide
views        what a participant is shown
collect      heartbeats become losses, windows become rounds
explain      what the run is waiting for, and how the rounds went, for people
"""

from quoracy.core.federated.collect import Collector
from quoracy.core.federated.config import Config, check_config, check_new
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
    check_new=check_new,
    ids_per_token=1,
)

__all__ = ["KIND", "Collector", "Config", "Federated"]

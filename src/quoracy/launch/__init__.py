"""Processes on this machine, started and ended for whoever needs some: demonstrations, measurements, experiments.

coordinator  a real ``quoracy serve``, to be killed and started again
crowds       participants, many in one process
errors       what goes wrong with them
"""

from quoracy.launch.coordinator import Coordinator, coordinating, journal_of, listing
from quoracy.launch.crowds import crowds
from quoracy.launch.errors import NotStarted, TookTooLong

__all__ = ["Coordinator", "NotStarted", "TookTooLong", "coordinating", "crowds", "journal_of", "listing"]

"""Processes on this machine, started and ended for whoever needs some: demonstrations, measurements, experiments.

coordinator  a real ``quorate serve``, to be killed and started again
crowds       participants, many in one process
"""

from quorate.launch.coordinator import Coordinator, coordinating, journal_of
from quorate.launch.crowds import crowds

__all__ = ["Coordinator", "coordinating", "crowds", "journal_of"]

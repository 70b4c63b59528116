"""Federated rounds, simulated: participants, the workshop, what goes wrong, and what must hold.

participants  processes that train, upload and offer, over the SDK's own logic
workshop      looks at updates, aggregates and evaluates; slow, doubled, dying on the way
faults        what goes wrong, and when
life          one life of a run
history       a deliberately simple model of a run, walked along the journal
checkers/     the promises, one file each
"""

from quoracy.sim.federated.life import Life, Outcome, live

__all__ = ["Life", "Outcome", "live"]

"""Witnessed rounds, simulated: members that train, exchange, attest and apply, what goes wrong, and what must hold.

making     blobs, models and signatures, small and exact
exchange   how members give each other blobs and models; the relay
bench      the one who trains
liars      the ways to lie
members    processes over the SDK's own logic and the member's real part
faults     what goes wrong, and when
life       one life of a run
batches    a dumb account of batches
history    a deliberately simple model of a run, walked along the journal
checkers/  the promises, one file each
"""

from quoracy.sim.witnessed.life import Life, Outcome, live

__all__ = ["Life", "Outcome", "live"]

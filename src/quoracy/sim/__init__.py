"""The simulator: years of faults in minutes, repeatable to the last message.

world      the seeded event heap, time, and the transcript
network    delays, loses, doubles, reorders, partitions
streams    TCP: connects that go wrong, bytes in pieces, windows that fill up, ends that are not told
disk       forgets what was not synced, tears what it was writing
store      a journal on that disk, asked over that network
hosts      the simulator's shell over ``core.host``
doors      its TCP door: the real one, over streams
lines      a training over the SDK's client, and the heartbeat process beside it
processes  what all simulated members have in common: a clock, a host to talk to, an end
members    worker processes and an operator, over the SDK's own session logic
trouble    what goes wrong with hosts, the store and the network
line_trouble  what goes wrong with connections and heartbeat processes
faults     what goes wrong in a fleet, and when
cluster    one life of a fleet
verdict    what was wrong with a life
checkers/  the promises, one file each
federated/ the same for federated rounds
ranks/     the same for ranks without a coordinator
witnessed/ the same for witnessed rounds
explore    every interleaving of a journal on a bare key-value store, to the end
"""

from quoracy.sim.cluster import Outcome, live

__all__ = ["Outcome", "live"]

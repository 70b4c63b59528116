"""The pure heart: no I/O, no clock, no randomness of its own, no threads.

machine    events, effects, transition tables
journal    entries, shared events, the chain of digests
run        the fold: decides each event once, for whoever writes and whoever reads
snapshot   the fold so far, in pages named by digest
host       when to decide, who serves, what to do when the world answers badly
desk, batch, writer   the parts of a host: deciding, one entry, getting it written
limits     what a host bounds, and how patient it is
shell      the seam: what a shell reports, what a host asks
messages   what members and hosts say to each other
members    identity, incarnation, remembered answers
detector   sequence numbers in, verdicts out
dice       seeded draws that everybody can recompute
stagger    whose turn it is to propose the next entry
errors     the error tree and the catalog of codes
codec      bytes and digests
kinds      the kinds this Quoracy knows
cluster/   the kind for worker fleets
"""

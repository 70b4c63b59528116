"""The ``ranks`` kind: equal ranks agree on the next iteration, with no coordinator.

events   what can happen, and the volatile signals beside it
state    ranks, settings, the log of decisions
table    run and rank as transition tables
rules    what the rows of the tables check and change
machine  finds whom an event is about and lets the tables decide
collect  beats become suspicions, arrivals become the record of an attempt
salvage  beginning anew after the store has lost its memory
times    every time-out, derived from one

Nothing is imported here: what beats for a training needs the events and no more. ``kind`` puts all of it together.
"""

"""The ``cluster`` kind: a fleet of workers, kept in step.

events   what can happen, and the volatile signals beside it
state    workers, barriers, settings
table    run, worker and barrier as transition tables
rules    what the rows of the tables check and change
machine  finds whom an event is about and lets the tables decide
views    what a worker is shown
heard    what the collector has heard and not yet turned into events
collect  heartbeats become losses, arrivals become releases
tangles  barriers that wait for each other
explain  what the run is waiting for, in words
overview what everybody does, in figures

Nothing is imported here: what beats for a training needs the events and no more. ``kind`` puts all of it together.
"""

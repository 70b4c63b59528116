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

Nothing is imported here: what beats for a training needs the events and no more. ``kind`` puts all of it together.
"""

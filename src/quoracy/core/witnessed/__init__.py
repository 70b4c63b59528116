"""The ``witnessed`` kind: open membership, and rounds that a quorum of elected witnesses has seen.

events       what can happen, and the signals beside it
config       the settings of a run
committee    who is a witness and who trains what: the draw that coordinator and members make alike
attestation  how a member says what it holds: a bitmap, or a Bloom filter
account      every batch is applied once, waits, or is skipped with a reason
state        the course of the run, its members, the open round, what came before
table        run and member as transition tables
evidence     what attestations and reports say, and who may give them
epochs       what the run's rows do: epochs begin, warm up, cool down
rounds       a round's training, and work that moves to another member
sealing      what counts, who is in step, who gets a strike
checkpoint   where the model is, and falling back when it is nowhere
rules        what the member's rows do: coming, going, being found out
machine      finds whom an event is about and lets the tables decide
views, shown what members are shown, and when
tally        what was said in the open round, counted as it comes in
complaints   results that nobody has, members that do not deliver
collect      signals become events
explain      what the run is waiting for, in words
overview     the run in figures
part         a member's side, without I/O; and what belongs to it

Nothing is imported here: what beats for a training needs the events and no more. ``kind`` puts all of it together.
"""

"""The mathematics: tensors in files, aggregation rules one per file, models and the sets they train on.

dtypes     types of numbers, and what they are calculated with
float8     those of eight bits, in tables
header     what stands at the beginning of a file of tensors, checked
tensors    such files, read and written in slices; behind: by a thread of its own, where they are large
packed     whole arrays as such a file, without one
slices     how large a slice is
reader     the same slice of every file of a round
admission  whether an update may count
rules      one file per aggregation rule
aggregate  updates in, the next model out
witnessed  the training side of witnessed rounds: trainers, results, model hashes
"""

from quoracy.learn.admission import Verdict, examine
from quoracy.learn.aggregate import Aggregated, Update, aggregate
from quoracy.learn.rules import CannotAggregate, Rule, Slice
from quoracy.learn.tensors import BadTensors, TensorFile, digest_of, load, save

__all__ = [
    "Aggregated", "BadTensors", "CannotAggregate", "Rule", "Slice", "TensorFile", "Update", "Verdict", "aggregate",
    "digest_of", "examine", "load", "save",
]  # fmt: skip

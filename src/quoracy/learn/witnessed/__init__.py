"""The training side of witnessed rounds.

trainer        what a member brings to train with, and what it is given
gradient       the trainer most people want: three functions to write
batches        which samples a batch is
source, door   where they come from
manifest       what a model is, in one hash; newcomers check every tensor against it
encodings      how the numbers of a result travel
results        a result as one blob, every field of it checked
optimizers     from a mean gradient to the next weights, bit for bit
apply          results in, the next model out
packing        arrays as bytes
rehearsal      a trainer tried without a run
opening        a trainer by its name
mlp_trainer, torch_trainer, nothing   trainers
"""

from quoracy.learn.witnessed.apply import Descent
from quoracy.learn.witnessed.gradient import GradientTrainer
from quoracy.learn.witnessed.manifest import BadModel, model_hash
from quoracy.learn.witnessed.rehearsal import alone, together
from quoracy.learn.witnessed.results import BadResult
from quoracy.learn.witnessed.trainer import Result, RunTask, Samples, Source, Trainer, Weights

__all__ = [
    "BadModel", "BadResult", "Descent", "GradientTrainer", "Result", "RunTask", "Samples", "Source", "Trainer",
    "Weights", "alone", "model_hash", "together",
]  # fmt: skip

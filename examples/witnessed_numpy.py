"""An own model in a witnessed run: softmax regression on handwritten digits, written in numpy.

python examples/witnessed_numpy.py                                             # tried first, without a run
cd examples && quoracy join URL --run digits --trainer witnessed_numpy:Trainer # then on every machine
"""

from collections.abc import Sequence

import numpy as np

from quoracy.learn import digits
from quoracy.learn.witnessed import GradientTrainer, Result, RunTask, Weights, alone, together
from quoracy.learn.witnessed.rehearsal import rounds_of


class Trainer(GradientTrainer):
    def __init__(self, task: RunTask) -> None:
        super().__init__(task)
        self.x, self.y = digits.load("train")
        self.test = digits.load("test")

    def initial(self) -> Weights:
        return {"weight": np.zeros((64, 10), np.float32), "bias": np.zeros(10, np.float32)}

    def scores(self, x: np.ndarray) -> np.ndarray:
        return x @ self.model["weight"] + self.model["bias"]

    def train(self, batch_ids: Sequence[int]) -> Result:
        rows = self.task.rows(batch_ids, len(self.x))
        x, y = self.x[rows], self.y[rows]
        scores = self.scores(x)
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        loss = -np.log(shares[np.arange(len(y)), y] + 1e-9).mean()
        shares[np.arange(len(y)), y] -= 1
        return Result({"weight": x.T @ shares / len(y), "bias": shares.mean(axis=0)}, len(y), float(loss))

    def evaluate(self) -> dict[str, float]:
        x, y = self.test
        return {"accuracy": float((self.scores(x).argmax(axis=1) == y).mean())}


if __name__ == "__main__":
    task = RunTask(seed=1, batch_size=16, hyper={"lr": 0.1, "momentum": 0.9, "encoding": "int8"})
    rounds = rounds_of(0, count=200, size=4)
    print("alone", alone(Trainer, task, rounds)["accuracy"])
    figures, model = together(Trainer, task, rounds, members=4)
    print("four together", figures["accuracy"], "model", model.hex()[:16])

"""``python -m quoracy.demo.member URL NAME MANNER FOLDER``: a member of the witnessed demonstration.

``MANNER``: fair, or slow, which takes its time over every batch. How it ended is printed as one JSON object.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

import quoracy
from quoracy.demo.witnessed import RUN
from quoracy.learn.witnessed.mlp_trainer import MlpTrainer, digits
from quoracy.learn.witnessed.trainer import Result, RunTask

PACE_S: Final = {"fair": 0.02, "slow": 0.12}
"""For each batch, on top of what the training takes: a model this small would be through in a moment."""


def main(url: str, name: str, manner: str, folder: Path) -> None:
    def trainer(task: RunTask) -> MlpTrainer:
        made = digits(task)
        train = made.train

        def paced(batch_ids: Sequence[int]) -> Result:
            time.sleep(PACE_S[manner] * len(batch_ids))
            return train(batch_ids)

        made.train = paced  # type: ignore[method-assign]
        return made

    ended: dict[str, Any] = {}
    loaded: list[str] = []

    def hear(news: quoracy.MemberNews) -> None:
        if news.what == "loaded":
            loaded.append(news.text)

    try:
        summary = quoracy.join(
            url, trainer, RUN, member=name, identity=folder / f"{name}.key", cache=folder / "cache" / name,
            on_news=hear,
        )  # fmt: skip
        ended = msgspec.to_builtins(summary) | {"loaded": loaded}
    except quoracy.QuoracyError as error:
        ended = {"ended": error.code, "why": str(error)}
    sys.stdout.write(msgspec.json.encode(ended).decode() + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))

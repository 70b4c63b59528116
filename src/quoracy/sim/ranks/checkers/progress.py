"""When the faults stop, the ranks that are alive are all in, and go on."""

from __future__ import annotations

from typing import Any

from quoracy.sim.ranks.checkers.base import Checker

MOVES_ON_ATTEMPTS = 5


class Progress(Checker):
    name = "progress"

    def finish(self, alive: list[Any], attempts_then: int, members: set[str], attempts: int) -> None:
        moved = attempts - attempts_then
        if alive and moved < MOVES_ON_ATTEMPTS:
            doing = ", ".join(f"{each.name}: {each.part.stage.value}" for each in alive)
            self.fail(f"{moved} attempts since the faults stopped ({doing}); {_stuck(alive)}")
        left_out = [each.name for each in alive if each.rank not in members]
        if left_out:
            self.fail(f"{left_out} are alive and not in")


def _stuck(alive: list[Any]) -> str:
    first = alive[0]
    return str(first.peer.explain().sentence) if first.peer.run is not None else "it has not read its journal"

"""After the store has lost its memory a majority begins anew, once, where it stood; a minority decides nothing."""

from __future__ import annotations

from quoracy.core.ranks.part import Turn
from quoracy.core.ranks.state import Config
from quoracy.sim.ranks.checkers.base import Checker, Life


class Generations(Checker):
    """Over all generations of a run, and told of each beginning and of the first record in it."""

    name = "generations"

    def __init__(self) -> None:
        self._tokens: dict[str, int] = {}
        self._records: dict[int, dict[int, tuple[int, list[str]]]] = {}
        """By generation and attempt: the number that is next, and who goes on."""
        self._read: set[int] = set()
        """Generations of which somebody has read a record."""
        self._stores: dict[int, int] = {}
        """In which store each generation has records."""

    def began(self, process: str, _life: Life, turn: Turn) -> None:
        self._read.add(turn.generation)
        token = turn.token()
        if token <= self._tokens.get(process, -1):
            self.fail(f"{process} goes on with token {token} after {self._tokens[process]}")
        self._tokens[process] = token

    def recorded(self, store: int, config: Config, attempt: int, number: int, members: list[str]) -> None:
        """A record is durable in this store."""
        generation = config.generation
        if self._stores.setdefault(generation, store) != store:
            self.fail(f"generation {generation} has records in store {self._stores[generation]} and in store {store}")
        if generation and generation not in self._records:
            self._first(config, members)
            began = (config.began_number, config.began_members)
            self._records[generation] = {config.began_attempt: began}  # the rest may be lost before anybody has read it
        self._records.setdefault(generation, {})[attempt] = (number, members)

    def _first(self, config: Config, members: list[str]) -> None:
        """It follows the newest generation that has records: one may have begun and come to nothing."""
        newest = max(self._records, default=0)
        before = self._records.get(newest, {})
        if not newest and newest not in self._read:
            before = {0: (0, []), **before}  # whatever was written, nobody knows of it
        if config.began_attempt not in before:
            self.fail(f"generation {config.generation} begins at attempt {config.began_attempt}, which nobody decided")
        number, were_in = before[config.began_attempt]
        if config.began_number != number:
            self.fail(f"generation {config.generation} begins at number {config.began_number}; it was {number}")
        there = set(were_in) & set(members)
        if were_in and 2 * len(there) <= len(were_in):
            self.fail(f"generation {config.generation} goes on with {sorted(there)} of {were_in}: a minority")

"""Under which keys the weights of a run lie.

Content lies under its digest and never changes: models of the run as blobs, and what a participant brings in a folder
of its own, so that nobody can offer what another has brought. Beside it are names for people and plain tools: the
global weights that a round begins with, each participant's update and metrics, and what was refused.
"""

from __future__ import annotations

from typing import Final

from quoracy.ports.objects import key_part

GLOBAL: Final = "global"
INITIAL: Final = "initial"
"""In place of a round's number, where there is none yet."""


class Keys:
    """``prefix``: the folder of one run, which ``prefix_of`` makes from its name."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def blob(self, digest: str) -> str:
        return f"{self.prefix}/blobs/{digest}"

    def upload(self, participant: str, digest: str) -> str:
        """What this participant has brought itself: weights that it offers, metrics that are large."""
        return f"{self.prefix}/uploads/{_part(participant)}/{digest}"

    def brought(self, participant: str, digest: str, model: str) -> str:
        """Where an update is. One that gives the model back unchanged need not be brought: everybody has that."""
        return self.blob(digest) if digest == model else self.upload(participant, digest)

    def model(self, round_: int) -> str:
        """The global weights that this round begins with."""
        return f"{self.prefix}/{round_}/{GLOBAL}"

    def update(self, round_: int, participant: str) -> str:
        return f"{self.prefix}/{round_}/{_part(participant)}"

    def metrics(self, round_: int, participant: str) -> str:
        """Those that were too large for the offer."""
        return f"{self.prefix}/metrics/{round_}/{_part(participant)}"

    def quarantine(self, round_: int, participant: str, digest: str) -> str:
        when = INITIAL if round_ < 0 else str(round_)
        return f"{self.prefix}/quarantine/{when}/{_part(participant)}/{digest}"


def prefix_of(run: str) -> str:
    """A run may be called anything, an object not."""
    return key_part(run)


def _part(participant: str) -> str:
    """One that is called global must not be taken for the model."""
    return "=global" if participant == GLOBAL else key_part(participant)

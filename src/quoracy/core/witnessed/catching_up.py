"""Where a member's model stands, and how it gets to where it should be.

Models form a chain: the model of step s and what was sealed for step s give the model of step s + 1. A member that has
a model of this chain goes on by applying what was sealed, in order, whatever it has missed. One that has none, or one
whose hash is not the agreed one, loads a model and goes on from there.

Kept here:

- Exactly the sealed results are applied, in their order, to the model they are meant for; nothing is skipped but what
  was voided, and nothing is applied twice.
- To a model that is known to be wrong nothing is applied.
- After a roll-back the steps are counted again from an earlier one. What was sealed for them before belongs to a past
  that no longer counts.
"""

from __future__ import annotations

from quoracy.core.witnessed.facts import Apply
from quoracy.core.witnessed.state import KEPT
from quoracy.core.witnessed.views import Pointer, Result, SealedShown


class Footing:
    def __init__(self) -> None:
        self.step = -1
        """-1: there is no model."""
        self.model = b""
        self.sealed: dict[int, SealedShown] = {}
        self.busy: Pointer | Apply | None = None
        """What is being loaded or applied."""
        self._hashes: dict[int, bytes] = {}
        """Of the models this one has come from, by step."""
        self._applied: dict[int, tuple[bytes, ...]] = {}
        self._digests: dict[int, tuple[SealedShown, tuple[bytes, ...]]] = {}
        """Worked out once for each: they are asked for after every fact."""
        self._wrong = False
        self._floor = (0, 0)
        """Epoch and step: whatever was sealed before that epoch for that step or a later one counts no more."""

    # -- what was sealed --------------------------------------------------------------------------------------------

    def learn(self, shown: SealedShown) -> bool:
        """Whether it is news."""
        epoch, step = self._floor
        if shown.epoch < epoch and shown.step >= step:
            return False
        known = self.sealed.get(shown.step)
        if known is not None:
            before, after = (known.epoch, known.round), (shown.epoch, shown.round)
            if before > after or (before == after and len(known.voided) >= len(shown.voided)):
                return False
        for later in [s for s, it in self.sealed.items() if s > shown.step and it.epoch < shown.epoch]:
            del self.sealed[later]
        self.sealed[shown.step] = shown
        newest = max(self.sealed)
        for old in [s for s in self.sealed if s <= newest - KEPT]:
            del self.sealed[old]
        self._compare()
        return True

    def begin_at(self, epoch: int, step: int) -> None:
        """An epoch begins with the model of this step."""
        self._floor = max(self._floor, (epoch, step))
        for later in [s for s, it in self.sealed.items() if s >= step and it.epoch < epoch]:
            del self.sealed[later]
        self._compare()

    def newest(self) -> int:
        """The last step for which it is known what was sealed, -1 if there is none."""
        return max(self.sealed, default=-1)

    def voids(self, epoch: int) -> int:
        """How many results of the step before this model were left out, as they are void."""
        made = self.sealed.get(self.step - 1)
        return len(made.voided) if made is not None and made.epoch == epoch else 0

    def knows(self, epoch: int, step: int) -> bool:
        """Whether all that was sealed in this epoch before this step was shown here, as far back as it is kept."""
        began, first = self._floor
        first = max(first if began == epoch else self.step, step - KEPT, 0)
        return all(before in self.sealed for before in range(first, step))

    def agreed(self) -> tuple[tuple[int, bytes], ...]:
        return tuple((step, self.sealed[step].model) for step in sorted(self.sealed, reverse=True))

    # -- the model --------------------------------------------------------------------------------------------------

    def take(self, step: int, model: bytes) -> None:
        """Loaded: this is the model now, whatever was there before."""
        self.step, self.model, self.busy = step, model, None
        self._hashes, self._applied = {step: model}, {}
        self._compare()

    def applied(self, step: int, model: bytes) -> bool:
        """Whether that is what was asked for."""
        if not isinstance(self.busy, Apply) or step != self.busy.step + 1:
            return False
        self._applied[self.busy.step] = tuple(result.digest for result in self.busy.results)
        self.step, self.model, self.busy = step, model, None
        self._hashes[step] = model
        for old in [s for s in self._hashes if s < step - KEPT]:
            del self._hashes[old]
            self._applied.pop(old, None)
        self._compare()
        return True

    def is_at(self, pointer: Pointer) -> bool:
        """Whether this model is the one pointed at."""
        return self.step == pointer.step and pointer.model in (b"", self.model)

    def is_wrong(self) -> bool:
        """Others agreed on another model somewhere on the way, or on another set."""
        return self._wrong

    def _compare(self) -> None:
        self._wrong = any(
            self._hashes.get(step, shown.model) != shown.model
            or (step in self._applied and self._applied[step] != self.digests(shown))
            for step, shown in self.sealed.items()
        )
        self._digests = {step: known for step, known in self._digests.items() if step in self.sealed}

    def digests(self, shown: SealedShown) -> tuple[bytes, ...]:
        """Of what is applied, in that order."""
        known = self._digests.get(shown.step)
        if known is None or known[0] is not shown:
            known = self._digests[shown.step] = (shown, tuple(result.digest for result in counting(shown)))
        return known[1]

    def is_known(self, pointer: Pointer | None) -> bool:
        """Whether this model belongs to the chain: it is the one pointed at, or one that was agreed on, or was made
        from such a one."""
        if self.step < 0 or self.is_wrong():
            return False
        made = self.step - 1 in self.sealed and self.step - 1 in self._applied
        return made or self.step in self.sealed or (pointer is not None and self.is_at(pointer))

    def leads_on(self, pointer: Pointer) -> bool:
        """Whether everything from here to the newest sealed round is known, and this model belongs to it."""
        return self.is_known(pointer) and all(step in self.sealed for step in range(self.step, self.newest() + 1))

    def short_of(self, final: Pointer | None) -> str:
        """What this model lacks to be the one that the run ended with; empty if it is that. What is being applied will
        be applied."""
        on_its_way = final is not None and isinstance(self.busy, Apply) and self.busy.step + 1 == final.step
        if final is None or on_its_way or self.is_at(final):
            return ""
        mine = f"the model of step {self.step} ({self.model.hex()[:12]})" if self.step >= 0 else "no model"
        return f"this member has {mine}; the run ended with that of step {final.step} ({final.model.hex()[:12]})"

    def lacks_before(self, step: int) -> bool:
        """Whether what is to be applied next is not known, though this later step is."""
        return 0 <= self.step < step and self.step not in self.sealed

    def next(self) -> SealedShown | None:
        """What is to be applied to the model as it is."""
        if self.step < 0 or self.is_wrong():
            return None
        return self.sealed.get(self.step)


def counting(shown: SealedShown) -> tuple[Result, ...]:
    """Those that are applied: all but what nobody has any more."""
    return tuple(result for position, result in enumerate(shown.results) if position not in shown.voided)

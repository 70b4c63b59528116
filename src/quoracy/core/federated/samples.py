"""How many samples an update counts for. What it claims cannot be checked, since nobody sees its data: so no claim
counts for more than a bound that the others set, and the journal says where one was clipped."""

from __future__ import annotations

from typing import Final

CLIP_FROM: Final = 4
"""With fewer updates the median says little: of three, one liar and one beginner would set it."""
CLIP_FACTOR: Final = 10


def samples_bound(claims: list[int], samples_max: int) -> int:
    """What no claim of this round counts above; 0 if none does. ``samples_max`` of 0 is no bound."""
    bounded = sorted(min(claim, samples_max) if samples_max else claim for claim in claims)
    bounds = [samples_max] if samples_max else []
    if len(bounded) >= CLIP_FROM:
        middle = bounded[(len(bounded) - 1) // 2] + bounded[len(bounded) // 2]
        bounds.append(CLIP_FACTOR * middle // 2)
    return min(bounds) if bounds and max(claims) > min(bounds) else 0


def counted(claim: int, bound: int) -> int:
    return min(claim, bound) if bound else claim

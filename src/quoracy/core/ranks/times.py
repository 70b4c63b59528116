"""Every time-out of a rank, derived from one: ``t_dead_s``, after which a silent rank is given up.

The order in which things must happen, and therefore the order of the times:

1. a beat is repeated often enough that a few lost ones do no harm;
2. others look at the beats more often than they are sent;
3. a rank that cannot reach the store stops itself,
4. before the others give it up, so that it does nothing more once they go on without it.

Silence counts from the look before the one that saw the last beat, since the beat may be as old as that. So a rank may
be given up a look sooner than ``dead_s`` after its last beat, and never later.
"""

from __future__ import annotations

import msgspec

from quoracy.core.codec import us
from quoracy.core.errors import ConfigError

MOST_S = 31_536_000
OP_SHARE = 6
BEAT_SHARE = 6
LOOK_SHARE = 3
MOST_LOOK_S = 0.5
PATIENCE = 2
"""How many times ``dead_s`` too few wait for others, after their store was lost."""


class Times(msgspec.Struct, frozen=True):
    """All in seconds."""

    dead_s: float
    beat_s: float
    """Between two beats."""
    look_s: float
    """Between two looks at the beats of the others."""
    op_s: float
    """A store that does not answer within this is tried anew."""
    stop_s: float
    """Without a word from the store for so long, a rank stops itself."""
    slot_s: float
    """Between two proposers in the drawn order."""
    help_s: float
    """After which anybody does what the one named for it did not."""

    def dead_us(self) -> int:
        return us(self.dead_s)

    def patience_us(self) -> int:
        return PATIENCE * self.dead_us()

    def wait_s(self) -> float:
        """How long whoever waits for a record leaves it to others: then it looks for one itself, and at everybody's
        notes. That is several operations, so it does so less often than it looks at beats where that is very often."""
        return max(self.look_s, min(MOST_LOOK_S, LOOK_SHARE * self.look_s))


def derive(dead_s: float, **wanted: float | None) -> Times:
    """The times that follow from ``dead_s``; each may be set, and the combination is checked. Raises ConfigError with
    the arithmetic shown."""
    given = {name: value for name, value in wanted.items() if value is not None}
    beat_s = given.get("beat_s", dead_s / BEAT_SHARE)
    times = Times(
        dead_s=dead_s,
        beat_s=beat_s,
        look_s=given.get("look_s", min(MOST_LOOK_S, beat_s / LOOK_SHARE)),
        op_s=given.get("op_s", dead_s / OP_SHARE),
        stop_s=given.get("stop_s", dead_s * 2 / 3),
        slot_s=given.get("slot_s", min(0.1, dead_s / 60)),
        help_s=given.get("help_s", dead_s / 3),
    )
    _check(times)
    return times


def _check(times: Times) -> None:
    for name, value in msgspec.structs.asdict(times).items():
        if not 0 < value <= MOST_S:
            raise ConfigError(name, value, f"more than 0 seconds and at most {MOST_S}")
    third_s = 3 * times.beat_s + times.look_s
    if third_s > times.dead_s:
        sums = f"3 x {times.beat_s:g} + {times.look_s:g} = {third_s:g} > {times.dead_s:g}"
        fix = "3 x beat_s + look_s at most dead_s, for two beats may be lost, and silence counts from a look before"
        raise ConfigError("beat_s", times.beat_s, f"{fix}: {sums}")
    if times.look_s > times.beat_s:
        raise ConfigError("look_s", times.look_s, f"at most beat_s ({times.beat_s:g}), or a beat is seen too late")
    last_s = times.stop_s + times.op_s + 2 * times.look_s
    if last_s > times.dead_s:
        sums = f"{times.stop_s:g} + {times.op_s:g} + 2 x {times.look_s:g} = {last_s:g} > {times.dead_s:g}"
        fix = "stop_s + op_s + 2 x look_s at most dead_s, or a rank that is cut off still acts when it is given up"
        raise ConfigError("stop_s", times.stop_s, f"{fix}: {sums}")
    if times.stop_s < 2 * times.beat_s:
        sums = f"{times.stop_s:g} < 2 x {times.beat_s:g}"
        raise ConfigError("stop_s", times.stop_s, f"at least two beats, or one lost beat stops the rank: {sums}")

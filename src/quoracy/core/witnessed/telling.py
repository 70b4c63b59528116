"""What a member has to say at the moment: its model's hash, what it holds, what nobody gave it, and who should have.

Each sort of signal is worked out from where the member stands and handed to ``Saying``, which sends it when it is
another than before, and again until it is taken back here.
"""

from __future__ import annotations

from typing import Any, Final

from quoracy.core.witnessed.attestation import Scheme, bitmap, salt_of
from quoracy.core.witnessed.catching_up import Footing
from quoracy.core.witnessed.events import Attest, HealthCheck, Holds, Loaded, ModelHash
from quoracy.core.witnessed.facts import Pace
from quoracy.core.witnessed.fetching import Fetching
from quoracy.core.witnessed.reaching import Reaching
from quoracy.core.witnessed.saying import Saying
from quoracy.core.witnessed.sight import COOLDOWN, IN_STEP, RESYNCING, WARMING, Sight
from quoracy.core.witnessed.views import Result, RoundShown

MOST_ACCUSED: Final = 64


class Telling:
    def __init__(
        self, member: str, sight: Sight, footing: Footing, fetching: Fetching, reaching: Reaching, pace: Pace
    ) -> None:
        self._member = member
        self._sight = sight
        self._footing = footing
        self._fetching = fetching
        self._reaching = reaching
        self._pace = pace
        self._incarnation = 0
        self.scheme = Scheme()
        self.saying = Saying(pace.resend_us)
        self._partial_us: int | None = None
        """Since when something of the round's list is missing here."""
        self._complained = (-1, -1, 0)
        """The last sealed round of which this life missed something, by epoch and step, and how many results it had."""
        self._blames = (-1, -1)
        """Epoch and step of the last sealed round for which this life accused somebody."""
        self._held: tuple[Any, Any, int, tuple[bool, bytes]] = (None, None, -1, (False, b""))

    def begin_life(self, incarnation: int, scheme: Scheme) -> None:
        self._incarnation, self.scheme = incarnation, scheme
        self.saying = Saying(self._pace.resend_us)
        self._partial_us = None
        self._complained, self._blames = (-1, -1, 0), (-1, -1)
        self._held = (None, None, -1, (False, b""))

    def begin_round(self) -> None:
        self._partial_us = None
        self.saying.unsay(Attest, Holds, ModelHash)

    def wake_us(self, now_us: int) -> int | None:
        """When something has to be said again, or said at last."""
        again_us = self.saying.wake_us()
        partial_us = None if self._partial_us is None else self._partial_us + self._pace.partial_us
        late = [partial_us] if partial_us is not None and partial_us > now_us else []
        return min([*late, *([] if again_us is None else [again_us])], default=None)

    def missing(self) -> list[int]:
        """Positions in the sealed list that stops this member: what nobody gave it."""
        shown = self._footing.next()
        if shown is None:
            return []
        return [
            position for position, result in enumerate(shown.results)
            if position not in shown.voided and self._fetching.is_missing(result.digest)
        ]  # fmt: skip

    # -- each sort --------------------------------------------------------------------------------------------------

    def tell(self, now_us: int) -> None:
        self._tell_loaded(now_us)
        self._tell_model(now_us)
        shown = self._sight.round
        if shown is not None and self._sight.in_round():
            self._tell_held(shown, now_us)
        else:
            self.saying.unsay(Attest)
            ends = shown is not None and shown.phase == COOLDOWN and self._sight.takes_part(IN_STEP)
            self._tell_missing(None if shown is None or not ends else self._about(shown, 0, b""), False, now_us)
        self._tell_accused(now_us)

    def _tell_loaded(self, now_us: int) -> None:
        """When the model is here, and all peers were tried."""
        standing, footing = self._sight.standing, self._footing
        pointer = None if standing is None or standing.state != WARMING else standing.load
        here = pointer is not None and footing.busy is None and footing.is_at(pointer)
        if standing is not None and here and self._reaching.is_over(standing.epoch, now_us):
            loaded = Loaded(self._member, self._incarnation, standing.epoch, footing.step, footing.model)
            self.saying.say(loaded, now_us)
        else:
            self.saying.unsay(Loaded)

    def _tell_model(self, now_us: int) -> None:
        """At the step of the round; of one that catches up, wherever it is."""
        sight, footing, shown = self._sight, self._footing, self._sight.round
        asked = shown is not None and (sight.committee is not None or shown.phase == COOLDOWN)
        at_step = shown is not None and (footing.step == shown.step or sight.state() == RESYNCING)
        sure = footing.step >= 0 and footing.busy is None and not footing.is_wrong()
        if sight.state() == RESYNCING and sight.standing is not None:
            sure = sure and footing.is_known(sight.standing.load)
        if asked and at_step and sure and sight.takes_part(IN_STEP, RESYNCING):
            epoch, _ = sight.now()
            made = (footing.step, footing.model, epoch, footing.voids(epoch))
            self.saying.say(ModelHash(self._member, self._incarnation, *made), now_us)
        else:
            self.saying.unsay(ModelHash)

    def _tell_held(self, shown: RoundShown, now_us: int) -> None:
        """What is not complete is said after a short while: the rest may be on its way."""
        results = self._sight.lists.of(shown.epoch, shown.round)
        listed = results or ()
        whole, bits = self._bits(shown, listed)
        if whole:
            self._partial_us = None
        elif self._partial_us is None:
            self._partial_us = now_us
        if self._partial_us is not None and now_us < self._partial_us + self._pace.partial_us:
            return
        about = self._about(shown, len(listed), bits)
        is_witness = self._sight.is_witness()
        if is_witness and results is not None:
            self.saying.say(Attest(*about), now_us)
        self._tell_missing(about, not is_witness and results is not None, now_us)

    def _bits(self, shown: RoundShown, listed: tuple[Result, ...]) -> tuple[bool, bytes]:
        """Whether all of the list is held, and which of it: worked out when either has changed, since this is asked
        after every fact."""
        seen, known, changes, said = self._held
        if seen is not shown or known is not listed or changes != self._fetching.changes:
            held = [i for i, result in enumerate(listed) if self._fetching.holds(result.digest)]
            drawn = self._sight.lists.salt(shown.epoch, shown.round)
            salt = salt_of(shown.epoch, shown.round, drawn, self._member)
            bits = self.scheme.write(held, [result.digest for result in listed], salt)
            said = (len(held) == len(listed), bits)
            self._held = (shown, listed, self._fetching.changes, said)
        return said

    def _about(self, shown: RoundShown, known: int, held: bytes) -> tuple[str, int, int, int, int, bytes]:
        return (self._member, self._incarnation, shown.epoch, shown.round, known, held)

    def _tell_missing(self, about: tuple[str, int, int, int, int, bytes] | None, anyway: bool, now_us: int) -> None:
        """That something is missing; and when it is not any more, that too: or it would be taken for void. ``anyway``:
        what is held has to be said in any case."""
        stops, missing = self._footing.next(), self.missing()
        if about is not None and missing and stops is not None:
            self._complained = (stops.epoch, stops.step, len(stops.results))
            self.saying.say(Holds(*about, step=stops.step, missing=bitmap(missing, len(stops.results))), now_us)
            return
        epoch, step, results = self._complained
        if about is not None and about[2] == epoch and step == self._footing.newest():
            self.saying.say(Holds(*about, step=step, missing=bitmap((), results)), now_us)
        elif about is not None and anyway:
            self.saying.say(Holds(*about), now_us)
        else:
            self.saying.unsay(Holds)

    def _tell_accused(self, now_us: int) -> None:
        stops = self._footing.next()
        accused: dict[str, int] = {}
        if stops is not None:
            for position in self.missing():
                digest = stops.results[position].digest
                lazy = self._fetching.accused(digest, now_us)
                for name in lazy:
                    if self._sight.can_be_asked(name):
                        accused.setdefault(name, position)
        if stops is not None and accused:
            self._blames = (stops.epoch, stops.step)
        names = tuple(accused)[:MOST_ACCUSED]
        epoch, step = self._blames
        if names or (epoch == self._sight.now()[0] and step >= max(0, self._footing.newest() - 1)):
            results = tuple(accused[name] for name in names)
            self.saying.say(HealthCheck(self._member, self._incarnation, step, names, results, epoch), now_us)
        else:
            self.saying.unsay(HealthCheck)

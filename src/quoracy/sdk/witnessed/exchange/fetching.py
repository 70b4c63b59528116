"""One blob on its way into a file: in stretches, from several holders at once, gone on with after a break.

What a slow or broken holder was asked for goes to another one. When all is there the whole is checked. If it is not
what it should be, somebody lied: then it is taken again, whole, from one holder after the other, until it is right; and
whoever gave other bytes than those is named.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from quoracy.core.errors import QuoracyError
from quoracy.sdk.witnessed.exchange.channel import Broken
from quoracy.sdk.witnessed.exchange.figures import Figures
from quoracy.sdk.witnessed.exchange.limits import MAX_BLOB_BYTES, Limits
from quoracy.sdk.witnessed.exchange.links import Lacks, Links, Unwanted
from quoracy.sdk.witnessed.exchange.part import Part
from quoracy.sdk.witnessed.exchange.plan import Plan, Work
from quoracy.sdk.witnessed.exchange.pool import Pool
from quoracy.sdk.witnessed.exchange.port import Fetched, OnDone

log = logging.getLogger("quoracy")


class Relay(Protocol):
    def get(self, digest: bytes, part: Part, max_bytes: int, wait: bool) -> int | None:
        """Its size, when all of it is in the part; None: the coordinator does not have it. ``wait``: somebody may be
        sending it."""


class Tools:
    """What all fetches of a member share."""

    def __init__(self, links: Links, pool: Pool, figures: Figures, limits: Limits) -> None:
        self.links = links
        self.pool = pool
        self.figures = figures
        self.limits = limits
        self.relay: Relay | None = None


class Fetch:
    def __init__(
        self, digest: bytes, size_bytes: int | None, into: Path, max_bytes: int, tools: Tools, on_done: OnDone
    ) -> None:
        self.digest = digest
        self._size = size_bytes
        self._into = into
        self._max = max_bytes
        self._tools = tools
        self._on_done = on_done
        self._lock = threading.Lock()
        self._part: Part | None = None
        self._plan: Plan | None = None
        self._waiting: deque[str] = deque()
        self._resting: deque[str] = deque()
        """They have given what they were asked for, and would give more."""
        self._sluggish: deque[str] = deque()
        """They did not give in time; better than nobody."""
        self._overtaken: set[str] = set()
        """At work on what somebody else gives meanwhile."""
        self._busy: dict[str, float] = {}
        """Since when."""
        self._asked: dict[str, None] = {}
        self._broke: Counter[str] = Counter()
        self._claims: dict[str, int] = {}
        """What each says how large it is, where nobody knew."""
        self._doubted: list[str] = []
        """They say that it is of another size than the first said."""
        self._lacking: dict[str, str] = {}
        self._silent: dict[str, str] = {}
        self._trouble = ""
        """Of our own: no other holder can help."""
        self._out_of_reach = False
        self._begun = self._cancelled = self._over = False

    # -- from outside -----------------------------------------------------------------------------------------------

    def begin(self, holders: Iterable[str], out_of_reach: bool) -> None:
        try:
            if self._size is not None and self._size > min(self._max, MAX_BLOB_BYTES):
                raise OSError(f"{self._size} bytes; at most {min(self._max, MAX_BLOB_BYTES)} are taken")
            self._part = Part(self._into, self.digest)
            if self._size is not None:
                self._lay_out(self._size)
        except OSError as error:
            self._trouble = f"{self._into}: {error.strerror or error}"
        self._begun = True
        self.add(holders, out_of_reach)

    def add(self, holders: Iterable[str], out_of_reach: bool) -> None:
        """``out_of_reach``: there is one among the holders that nobody can ask."""
        with self._lock:
            self._out_of_reach |= out_of_reach
            new = [holder for holder in holders if holder not in self._asked]
            self._asked.update(dict.fromkeys(new))
            self._waiting += new
        if self._begun:
            self._spread()

    def cancel(self) -> None:
        self._cancelled = True

    def look(self) -> None:
        """Called now and then: what a slow holder was asked for goes to one that has nothing to do."""
        now_s, slow_s = time.monotonic(), self._tools.limits.slow_s
        with self._lock:
            free = len(self._waiting) + len(self._resting)
            for work in [] if self._plan is None else self._plan.slow(now_s, slow_s):
                if free and self._plan is not None:
                    free -= 1
                    self._plan.take_over(work)
                    self._overtaken.add(work.holder)
                    self._tools.figures.add("taken_over")
        if self._begun:
            self._spread()

    # -- who gets what ----------------------------------------------------------------------------------------------

    def _spread(self) -> None:
        """Put holders to work; if all is there, or none is at work and none is left, it is over."""
        starting = []
        with self._lock:
            while not self._stopped() and self._wants_more() and (free := self._free()):
                holder = free.popleft()
                self._busy[holder] = time.monotonic()
                starting.append(holder)
            whole = self._plan is not None and self._plan.whole()
            ended = not self._over and (whole or not self._busy)
            self._over |= ended
        for holder in starting:
            self._tools.pool.submit(self._line, holder)
        if ended:
            self._tools.pool.submit(self._finish)

    def _wants_more(self) -> bool:
        """Whether another holder would have something to do."""
        if self._plan is None:
            slow_s = time.monotonic() - self._tools.limits.slow_s
            return all(since_s < slow_s for since_s in self._busy.values())
        working = len(self._busy.keys() - self._overtaken)
        return self._plan.waiting() > 0 and working < min(self._tools.limits.holders_at_once, self._plan.open())

    def _free(self) -> deque[str]:
        return self._waiting or self._resting or self._sluggish

    def _stopped(self) -> bool:
        return self._cancelled or self._over or bool(self._trouble)

    def _line(self, holder: str) -> None:
        """All that one holder gives, until nothing is left to ask for or it fails."""
        before = 0
        try:
            if self._plan is None:
                self._learn_size(holder)
            before = self._given(holder)
            self._tools.links.pull(
                holder, self.digest, lambda: self._following(holder), lambda total: self._sized(holder, total),
                self._came,
            )  # fmt: skip
            failed = None
        except (Lacks, Broken, Unwanted, OSError) as error:
            failed = error
        except Exception as error:  # nobody would ever be told otherwise
            log.exception("exchange: a holder could not be asked")
            failed = Broken(f"{holder}: {type(error).__name__} {error}")
        with self._lock:
            self._settle(holder, failed, before)
            del self._busy[holder]
            self._overtaken.discard(holder)
        self._spread()

    def _settle(self, holder: str, failed: Exception | None, before: int) -> None:
        if self._plan is not None and failed is not None:
            self._plan.give_up(holder)
        match failed:
            case None:
                self._resting.append(holder)
            case Lacks() if holder not in self._doubted:
                self._lacking[holder] = str(failed)
            case Broken() if self._given(holder) > before and self._broke[holder] < self._tools.limits.again:
                self._broke[holder] += 1
                self._waiting.append(holder)
            case Broken() if holder not in self._lacking:
                self._silent[holder] = str(failed)
            case Unwanted():
                self._sluggish.append(holder)
            case OSError():
                self._trouble = f"{self._into}: {failed.strerror or failed}"

    def _given(self, holder: str) -> int:
        return 0 if self._plan is None else self._plan.given[holder]

    def _learn_size(self, holder: str) -> None:
        total = self._tools.links.size(holder, self.digest)
        self._check_size(holder, total)
        with self._lock:
            self._claims[holder] = total
            if self._plan is None:
                self._lay_out(total)

    def _check_size(self, holder: str, total: int) -> None:
        if total > min(self._max, MAX_BLOB_BYTES):
            raise Lacks(f"{holder} has {total} bytes under that digest, at most {self._max} are taken")

    def _lay_out(self, size_bytes: int) -> None:
        if self._part is not None:
            self._plan = Plan(size_bytes, self._part.take_up(size_bytes))

    def _sized(self, holder: str, total: int) -> None:
        if self._plan is None or total == self._plan.size_bytes:
            return
        if self._size is None:
            self._check_size(holder, total)
            with self._lock:
                self._claims[holder] = total
                self._doubted.append(holder)
        raise Lacks(f"{holder} has {total} bytes under that digest, it should be {self._plan.size_bytes}")

    def _following(self, holder: str) -> Work | None:
        with self._lock:
            if self._plan is None or self._stopped():
                return None
            busy = self._plan.works(holder)
            if busy and self._plan.waiting() < self._tools.limits.holders_at_once:
                return None  # what is left is for whoever is free first
            return self._plan.take(holder, time.monotonic())

    def _came(self, work: Work, piece: memoryview) -> bool:
        part, plan = self._part, self._plan
        if part is None or plan is None:
            raise RuntimeError("bytes came before anybody asked for them")
        with self._lock:
            if work.cut or self._cancelled or self._over:
                return False
            offset = work.at
            part.write(offset, piece)
            stretch = plan.came(work, len(piece))
            if stretch is not None:
                part.note(stretch)
        part.hash_along(offset, piece, self._there)
        return True

    def _there(self, offset: int) -> int:
        with self._lock:
            return offset if self._plan is None else self._plan.there_from(offset)

    # -- the end ----------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Nobody writes any more; a holder that was too slow may still be waited for, in vain."""
        try:
            ok = not self._cancelled and not self._trouble and self._ended_well()
        except OSError as error:
            ok, self._trouble = False, f"{self._into}: {error.strerror or error}"
        except Exception as error:  # nobody would ever be told otherwise
            log.exception("exchange: a fetch failed")
            ok, self._trouble = False, f"{type(error).__name__}: {error}"
        if self._part is not None:
            self._part.close()
        why = "" if ok else self._why()
        outcome = Fetched(self.digest, ok, why, tuple(self._lacking), tuple(self._silent))
        if not self._cancelled:
            self._on_done(outcome)

    def _why(self) -> str:
        said = [*self._lacking.values(), *self._silent.values()][:4]
        return self._trouble or "; ".join(said) or "nobody was named who has it"

    def _ended_well(self) -> bool:
        part, plan = self._part, self._plan
        if part is None:
            return False
        if plan is not None and plan.whole():
            if part.right(plan.size_bytes):
                part.publish()
                return True
            if self._found_right(part, plan):
                return True
        elif self._doubted and self._found_right(part, plan):
            return True
        return self._relayed()

    def _found_right(self, part: Part, plan: Plan | None) -> bool:
        """Somebody gave wrong bytes. The right ones, if anybody has them; and who gave others is named."""
        givers = {gave.holder for gave in plan.gave} if plan is not None else set()
        if plan is not None and plan.whole() and len(givers) == 1 and not plan.resumed:
            self._blame(givers)
        for holder in [name for name in self._asked if name not in self._lacking and name not in self._silent]:
            alone = self._alone(holder)
            if alone is None:
                continue
            try:
                if plan is not None:
                    self._blame({g.holder for g in plan.gave if part.differs(alone, g.start, g.end)})
                self._blame({who for who, total in self._claims.items() if total != alone.size_bytes()})
                alone.publish()
                part.path.unlink(missing_ok=True)
            finally:
                alone.close()
            return True
        part.forget()
        return False

    def _blame(self, holders: Iterable[str]) -> None:
        for holder in sorted(holders):
            if holder not in self._lacking:
                self._tools.figures.add("given_wrong")
            self._lacking[holder] = f"{holder} gave other bytes than the digest says"

    def _alone(self, holder: str) -> Part | None:
        """The whole from one holder; None if it is not right, or does not come."""
        part = Part(self._into, self.digest, again=True)
        try:
            total = self._size if self._size is not None else self._claims.get(holder)
            if total is None:
                total = self._tools.links.size(holder, self.digest)
            plan = Plan(total)

            def came(work: Work, piece: memoryview) -> bool:
                part.write(work.at, piece)
                plan.came(work, len(piece))
                return not self._cancelled

            self._tools.links.pull(
                holder, self.digest, lambda: plan.take(holder, 0.0), lambda claimed: _same(holder, claimed, total), came
            )  # fmt: skip
            if part.right(total):
                return part
            self._blame([holder])
        except Lacks as error:
            self._lacking[holder] = str(error)
        except (Broken, Unwanted) as error:
            self._silent[holder] = str(error)
        part.path.unlink(missing_ok=True)
        part.close()
        return None

    def _relayed(self) -> bool:
        relay = self._tools.relay
        if relay is None:
            return False
        part = Part(self._into, self.digest, again=True)
        try:
            size_bytes = relay.get(self.digest, part, self._max, self._out_of_reach)
            if size_bytes is not None and part.right(size_bytes):
                part.publish()
                return True
        except QuoracyError as error:
            self._trouble = f"{self._why()}; and not through the coordinator: {error}"
        finally:
            part.close()
        part.path.unlink(missing_ok=True)
        return False


def _same(holder: str, claimed: int, total: int) -> None:
    if claimed != total:
        raise Lacks(f"{holder} has {claimed} bytes under that digest, it should be {total}")

"""The blobs of a member: which it holds, which it wants and from whom, and who did not give what it should have.

A blob of the round that runs is asked of the one who made it; if that fails, of all others in the round, who may have
got it meanwhile. A sealed one is asked of those who attested it. Whatever fails is tried again, ever more seldom, for
as long as it is wanted: a partition ends some day.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from quoracy.core.witnessed.facts import Blob, BlobGivenUp, Drop, Fetch, Pace

ATTEST = "attest"
APPLY = "apply"


class Wanted(msgspec.Struct):
    blob: Blob
    holders: tuple[str, ...]
    others: tuple[str, ...]
    """Asked too, once the holders have failed."""
    why: str
    under_way: bool = True
    tries: int = 0
    """That failed, with these holders."""
    retry_us: int = 0
    lacking: dict[str, bool] = {}
    """Who said that it does not have it, as an ordered set."""
    silent_us: dict[str, int] = {}
    """Who did not answer, since when."""


class Fetching:
    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self.held: dict[bytes, tuple[int, int]] = {}
        """Digest -> epoch and round it belongs to."""
        self.wanted: dict[bytes, Wanted] = {}
        self.out: list[Fetch] = []
        self.changes = 0
        """How often something came to be held, or was dropped."""
        self.drops = 0
        self.spoilt: set[bytes] = set()
        """Digests of bytes that nobody can read: whoever attested them does not have what it should."""

    def holds(self, digest: bytes) -> bool:
        return digest in self.held

    def wants(self, digest: bytes, why: str) -> bool:
        """Whether there is nothing to do any more: it is here, or asked for, for this reason or a better one."""
        wanted = self.wanted.get(digest)
        return digest in self.held or (wanted is not None and wanted.why in (why, APPLY))

    def keep(self, digest: bytes, epoch: int, round_: int) -> None:
        """It is here: made by this member, or given by another."""
        self.wanted.pop(digest, None)
        self.held[digest] = (epoch, round_)
        self.changes += 1

    def want(self, blob: Blob, holders: tuple[str, ...], why: str, others: tuple[str, ...] = ()) -> None:
        """Who had nothing while the round ran may have it by the time it is sealed: each reason begins anew."""
        digest = blob.result.digest
        if not self.wants(digest, why):
            if digest in self.spoilt:
                lacking = dict.fromkeys(holders, True)
                self.wanted[digest] = Wanted(blob, holders, others, why, False, 1, lacking=lacking)
                return
            self.wanted[digest] = Wanted(blob, holders, others, why)
            self.out.append(Fetch(blob, holders or others, why))

    def spoil(self, digests: Iterable[bytes]) -> None:
        """They are here and of no use: missing, for as long as they are wanted."""
        for digest in digests:
            self.spoilt.add(digest)
            self.held.pop(digest, None)
            self.changes += 1

    def arrived(self, digest: bytes) -> bool:
        """Whether anybody wanted it."""
        wanted = self.wanted.get(digest)
        if wanted is None:
            return False
        self.keep(digest, wanted.blob.epoch, wanted.blob.round)
        return True

    def failed(self, fact: BlobGivenUp, now_us: int) -> None:
        wanted = self.wanted.get(fact.digest)
        if wanted is None or not wanted.under_way:
            return
        pace = self._pace
        wanted.under_way = False
        wanted.tries += 1
        wanted.retry_us = now_us + min(pace.retry_us << min(wanted.tries - 1, 16), pace.retry_max_us)
        for member in fact.lacking:
            wanted.lacking[member] = True
            wanted.silent_us.pop(member, None)
        for member in fact.silent:
            if member not in wanted.lacking:
                wanted.silent_us.setdefault(member, now_us)

    def tick(self, now_us: int) -> None:
        for digest, wanted in self.wanted.items():
            if not wanted.under_way and now_us >= wanted.retry_us and digest not in self.spoilt:
                wanted.under_way = True
                holders = tuple(dict.fromkeys((*wanted.holders, *wanted.others)))
                self.out.append(Fetch(wanted.blob, holders, wanted.why))

    def hurry(self) -> None:
        """Somebody came back, or a connection was made: what has failed may work now."""
        for wanted in self.wanted.values():
            wanted.retry_us = 0

    def begin_again(self) -> None:
        """Nobody is reproached for what happened to an earlier life."""
        for digest, wanted in self.wanted.items():
            if digest not in self.spoilt:
                wanted.lacking, wanted.silent_us = {}, {}

    def is_missing(self, digest: bytes) -> bool:
        """A sealed result that every holder was asked for, in vain."""
        wanted = self.wanted.get(digest)
        if wanted is None or wanted.why != APPLY or not wanted.tries:
            return False
        return all(who in wanted.lacking or who in wanted.silent_us for who in wanted.holders)

    def accused(self, digest: bytes, now_us: int) -> list[str]:
        """Those of its holders who do not deliver: who say so at once, who say nothing after a while."""
        wanted = self.wanted.get(digest)
        if wanted is None or not self.is_missing(digest):
            return []
        late_us = now_us - self._pace.accuse_us
        silent = [who for who, since_us in wanted.silent_us.items() if since_us <= late_us]
        return [who for who in (*wanted.lacking, *silent) if who in wanted.holders]

    def origins(self) -> list[tuple[bytes, tuple[int, int]]]:
        """Every blob that is held or wanted, with epoch and round."""
        wanted = [(digest, (it.blob.epoch, it.blob.round)) for digest, it in self.wanted.items()]
        return [*self.held.items(), *wanted]

    def drop(self, digests: Iterable[bytes]) -> Drop | None:
        gone = []
        for digest in digests:
            self.spoilt.discard(digest)
            was_wanted = self.wanted.pop(digest, None) is not None
            if self.held.pop(digest, None) is not None or was_wanted:
                gone.append(digest)
        self.changes += bool(gone)
        self.drops += bool(gone)
        return Drop(tuple(gone)) if gone else None

    def busy(self) -> bool:
        return any(wanted.under_way for wanted in self.wanted.values())

    def take(self) -> list[Fetch]:
        out, self.out = self.out, []
        return out

    def wake_us(self, now_us: int) -> int | None:
        """When to try again, or when somebody's silence has lasted too long."""
        times = [it.retry_us for name, it in self.wanted.items() if not it.under_way and name not in self.spoilt]
        late = [
            since_us + self._pace.accuse_us
            for digest, wanted in self.wanted.items()
            for since_us in wanted.silent_us.values()
            if self.is_missing(digest)
        ]
        return min([*times, *(time for time in late if time > now_us)], default=None)

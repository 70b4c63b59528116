"""A client of a whole etcd: several members, of which any will do, tried in turn.

Reads are repeated at the next member until one answers or patience is over. A write is sent once. If no answer comes,
nobody knows whether it happened, and that is what is raised: OutcomeUnknown. Only where it is certain that nothing was
written (no member could be reached, or etcd said so) is another member asked, or something else raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from time import monotonic, sleep
from typing import Any, Final, NamedTuple, TypeVar

import grpc

from quoracy.config.etcd_url import EtcdAddress
from quoracy.core.errors import JournalBroken, JournalBusy, JournalError, JournalFull, OutcomeUnknown
from quoracy.stores.etcd.link import Link
from quoracy.stores.etcd.words import Compare, KeyValue, Op, Reach, asking, get
from quoracy.wire.pb import etcd_pb2 as pb

CALL_S: Final = 5.0
"""The deadline of a write. A slow disk under etcd takes a second now and then; ten would be a long time not to know."""
READ_S: Final = 2.0
"""The deadline of one try to read."""
PATIENCE_S: Final = 10.0
"""How long members are tried in turn, before the store counts as out of reach."""
PAUSE_S: Final = 0.05
MAX_OPS: Final = 100
"""Operations in one transaction: etcd takes 128 (--max-txn-ops)."""
MAX_BYTES: Final = 1_200_000
"""Of one transaction: etcd takes 1.5 MiB (--max-request-bytes)."""
PAGE_BYTES: Final = 2_000_000
MAX_PAGE: Final = 1024

T = TypeVar("T")


class Compacted(Exception):
    """etcd has forgotten the revision that was being read: begin again with a newer one."""


class Unreached(Exception):
    """The call failed in a way that may pass: another member may do better."""

    def __init__(self, why: str, applied: bool) -> None:
        super().__init__(why)
        self.why = why
        self.applied = applied
        """Whether it may have happened all the same."""


class Seen(NamedTuple):
    """What was there at one moment."""

    revision: int
    found: list[list[KeyValue]]

    def one(self, which: int) -> KeyValue | None:
        return self.found[which][0] if self.found[which] else None


class Written(NamedTuple):
    revision: int
    succeeded: bool
    found: list[list[KeyValue]]


class Client:
    def __init__(
        self,
        address: EtcdAddress,
        credentials: grpc.ChannelCredentials | None = None,
        *,
        call_s: float = CALL_S,
        read_s: float = READ_S,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.address = address
        self.call_s = call_s
        self.read_s = min(read_s, call_s)
        self.patience_s = patience_s
        self._place = f"{address.prefix}/schema".encode()
        self._links = [Link(endpoint, credentials) for endpoint in address.endpoints]
        self._at = 0
        self._lock = Lock()
        self._closed = False

    def close(self) -> None:
        with self._lock:
            closed, self._closed = self._closed, True
        if not closed:
            for link in self._links:
                link.close()

    def check_open(self) -> None:
        if self._closed:
            raise ValueError("this store is closed")

    # -- reading ----------------------------------------------------------------------------------------------------

    def read(self, *reaches: Reach, revision: int = 0) -> Seen:
        """All of them at one moment. Raises Compacted if that moment is too long ago."""
        if len(reaches) == 1:
            return self._range(reaches[0], revision)
        request = pb.TxnRequest(success=[get(reach, revision) for reach in reaches])
        try:
            response = self.repeat(lambda link, left_s: link.txn(request, min(self.read_s, left_s)))
        except JournalFull:  # then etcd takes no transactions at all, but can be asked one thing after the other
            seen = self._range(reaches[0], revision)
            more = [self._range(reach, seen.revision).found[0] for reach in reaches[1:]]
            return Seen(seen.revision, [*seen.found, *more])
        return Seen(response.header.revision, _ranges(response))

    def _range(self, reach: Reach, revision: int) -> Seen:
        request = asking(reach, revision)
        response = self.repeat(lambda link, left_s: link.range(request, min(self.read_s, left_s)))
        return Seen(revision or response.header.revision, [list(response.kvs)])

    def scan(self, reach: Reach, revision: int) -> Iterator[KeyValue]:
        """Everything in a reach, in the order of keys, a page at a time. Pages grow while what is there is small."""
        first, left, size = reach.first, reach.limit or 2**62, 16
        while left > 0:
            (page,) = self.read(Reach(first, reach.end, min(size, left), reach.keys_only), revision=revision).found
            yield from page
            if len(page) < min(size, left):
                return
            left -= len(page)
            first = page[-1].key + b"\0"
            carried = sum(len(kv.value) for kv in page)
            size = min(size * 2, MAX_PAGE) if carried < PAGE_BYTES // 2 else max(1, size // 2)

    def repeat(self, call: Callable[[Link, float], T]) -> T:
        """A call that may happen any number of times, until one is answered. Raises JournalBusy."""
        deadline = monotonic() + self.patience_s
        while True:
            link = self.link()
            try:
                return self.try_at(link, call, max(0.01, deadline - monotonic()))
            except Unreached as failed:
                self._move_on(link, failed.why, deadline)

    # -- writing ----------------------------------------------------------------------------------------------------

    def write(self, compares: Sequence[Compare], then: Sequence[Op], otherwise: Sequence[Op] = ()) -> Written:
        """One transaction. Raises OutcomeUnknown if it may have happened, another JournalError if it did not."""
        request = pb.TxnRequest(compare=compares, success=then, failure=otherwise)
        response = self.once(lambda link, left_s: link.txn(request, left_s), "the transaction")
        return Written(response.header.revision, response.succeeded, _ranges(response))

    def once(self, call: Callable[[Link, float], T], what: str) -> T:
        """A call that must not be repeated where it may have happened."""
        deadline = monotonic() + self.patience_s
        while True:
            link = self.link()
            try:
                if not link.good:
                    self.try_at(link, self._probe, max(0.01, deadline - monotonic()))
            except Unreached as failed:
                self._move_on(link, failed.why, deadline)
                continue
            try:
                return self.try_at(link, call, self.call_s)
            except Unreached as failed:
                if failed.applied:
                    self.turn(link)
                    why = f"{link.target} did not answer ({failed.why}): {what} may have happened or not"
                    raise OutcomeUnknown(f"etcd at {self.address}: {why}") from None
                self._move_on(link, failed.why, deadline)

    def _probe(self, link: Link, left_s: float) -> pb.RangeResponse:
        return link.range(asking(Reach(self._place, keys_only=True)), min(self.read_s, left_s))

    # -- members ----------------------------------------------------------------------------------------------------

    def link(self) -> Link:
        """The member that is asked now."""
        self.check_open()
        return self._links[self._at % len(self._links)]

    def turn(self, link: Link) -> None:
        """Ask another one from now on, if this is still the one that is asked."""
        link.good = False
        with self._lock:
            if self._links[self._at % len(self._links)] is link:
                self._at += 1

    def _move_on(self, link: Link, why: str, deadline: float) -> None:
        self.turn(link)
        if monotonic() + PAUSE_S >= deadline:
            fix = "is it running, and can it be reached from here?"
            raise JournalBusy(f"etcd at {self.address} does not answer within {self.patience_s:g} s ({why}): {fix}")
        sleep(PAUSE_S)
        self.check_open()

    def try_at(self, link: Link, call: Callable[[Link, float], T], left_s: float = CALL_S) -> T:
        """One try at one member. Raises Unreached, Compacted or a JournalError."""
        try:
            result = call(link, left_s)
        except grpc.RpcError as error:
            self.check_open()
            raise self._judge(error) from None
        except ValueError:  # gRPC: the channel was closed under us
            self.check_open()
            raise
        link.good = True
        return result

    def _judge(self, error: Any) -> Exception:
        """What an error of gRPC or etcd means."""
        code, said = error.code(), str(error.details() or error.code())
        text = f"etcd at {self.address}: {said}"
        match code:
            case grpc.StatusCode.UNAVAILABLE:
                return Unreached(said, applied="no leader" not in said)
            case grpc.StatusCode.RESOURCE_EXHAUSTED if "space exceeded" in said:
                fix = "compact and defragment it, or raise its --quota-backend-bytes; then: etcdctl alarm disarm"
                return JournalFull(f"{text}: {fix}")
            case grpc.StatusCode.RESOURCE_EXHAUSTED if "too many requests" in said:
                return JournalBusy(text)
            case grpc.StatusCode.OUT_OF_RANGE if "compacted" in said:
                return Compacted(said)
        return _for_good(code, said, text)


def _for_good(code: grpc.StatusCode, said: str, text: str) -> Exception:
    match code:
        case grpc.StatusCode.INVALID_ARGUMENT if "too large" in said or "too many operations" in said:
            return JournalBroken(f"{text}: start it with the usual --max-request-bytes and --max-txn-ops, or more")
        case grpc.StatusCode.UNAUTHENTICATED | grpc.StatusCode.PERMISSION_DENIED:
            return JournalBroken(f"{text}: give this client a certificate whose user may read and write the prefix")
        case grpc.StatusCode.INVALID_ARGUMENT if "user name is empty" in said:
            return JournalBroken(f"{text}: give this client a certificate whose user may read and write the prefix")
        case grpc.StatusCode.NOT_FOUND | grpc.StatusCode.OUT_OF_RANGE | grpc.StatusCode.UNIMPLEMENTED:
            return JournalError(text)
        case grpc.StatusCode.INVALID_ARGUMENT | grpc.StatusCode.FAILED_PRECONDITION:
            return JournalError(text)
    return Unreached(said, applied=True)


def _ranges(response: pb.TxnResponse) -> list[list[KeyValue]]:
    return [list(each.response_range.kvs) for each in response.responses]

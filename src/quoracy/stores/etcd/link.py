"""One member of etcd: a channel and the few methods that are called on it, under etcd's own names."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event
from typing import Any, Final

import grpc

from quoracy.wire.pb import etcd_pb2 as pb

OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3000),
    ("grpc.use_local_subchannel_pool", 1),
)
"""Nothing is repeated behind our back, since only we know what may be. A connection is looked after often enough to
notice a dead machine, and not so often that etcd would send us away (it allows every 5 s)."""
LEADER: Final = (("hasleader", "true"),)
"""A member that has lost the others says so at once instead of letting us wait."""


class Link:
    def __init__(self, target: str, credentials: grpc.ChannelCredentials | None) -> None:
        self.target = target
        self.good = False
        """The last call was answered. Before a write through a link that is not good, something is read: if that
        fails nothing was written, and the next member can be asked without any doubt."""
        channel: Any
        if credentials is None:
            channel = grpc.insecure_channel(target, options=OPTIONS)
        else:
            channel = grpc.secure_channel(target, credentials, options=OPTIONS)
        self._channel = channel
        self._range = _method(channel.unary_unary, "KV/Range", pb.RangeRequest, pb.RangeResponse)
        self._txn = _method(channel.unary_unary, "KV/Txn", pb.TxnRequest, pb.TxnResponse)
        self._grant = _method(channel.unary_unary, "Lease/LeaseGrant", pb.LeaseGrantRequest, pb.LeaseGrantResponse)
        self._revoke = _method(channel.unary_unary, "Lease/LeaseRevoke", pb.LeaseRevokeRequest, pb.LeaseRevokeResponse)
        self._keep = _method(
            channel.stream_stream, "Lease/LeaseKeepAlive", pb.LeaseKeepAliveRequest, pb.LeaseKeepAliveResponse
        )
        self._watch = _method(channel.stream_stream, "Watch/Watch", pb.WatchRequest, pb.WatchResponse)

    def range(self, request: pb.RangeRequest, timeout_s: float) -> pb.RangeResponse:
        response: pb.RangeResponse = self._range(request, timeout=timeout_s, metadata=LEADER)
        return response

    def txn(self, request: pb.TxnRequest, timeout_s: float) -> pb.TxnResponse:
        response: pb.TxnResponse = self._txn(request, timeout=timeout_s, metadata=LEADER)
        return response

    def grant(self, ttl_s: int, timeout_s: float) -> pb.LeaseGrantResponse:
        response: pb.LeaseGrantResponse = self._grant(
            pb.LeaseGrantRequest(TTL=ttl_s), timeout=timeout_s, metadata=LEADER
        )
        return response

    def revoke(self, lease: int, timeout_s: float) -> None:
        self._revoke(pb.LeaseRevokeRequest(ID=lease), timeout=timeout_s, metadata=LEADER)

    def keep(self, lease: int, timeout_s: float) -> int:
        """Prolong the lease; for how many seconds from now, 0 if it is gone."""
        call = self._keep(iter([pb.LeaseKeepAliveRequest(ID=lease)]), timeout=timeout_s, metadata=LEADER)
        try:
            for response in call:
                return int(response.TTL)
        finally:
            call.cancel()
        return 0

    def watch(self, first: bytes, end: bytes) -> tuple[Any, Event]:
        """A call to iterate over, and to cancel; and what to set when it is over, so that gRPC lets it go."""
        over = Event()
        wanted = pb.WatchRequest(create_request=pb.WatchCreateRequest(key=first, range_end=end))
        return self._watch(_once(wanted, over), metadata=LEADER), over

    def close(self) -> None:
        self._channel.close()


def _method(kind: Any, name: str, request: Any, response: Any) -> Any:
    return kind(
        f"/etcdserverpb.{name}",
        request_serializer=request.SerializeToString,
        response_deserializer=response.FromString,
    )


def _once(request: pb.WatchRequest, over: Event) -> Iterator[pb.WatchRequest]:
    """A stream that says one thing and stays open: to etcd the end of it would be the end of the watch."""
    yield request
    over.wait()

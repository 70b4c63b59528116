"""The gRPC door: for programs in any language. What can be said is in ``proto/quoracy/v1/coordinator.proto``.

door        GrpcDoor: the server's life, limits, TLS, health and reflection
session     one Session stream: a guest of the service, as a TCP connection is
members     the calls of workers, each alone
participants  the calls of participants of federated runs
witnesses   the calls of members of witnessed runs
people      the calls of people and tools
translate   protobuf messages from and to the core's own
errors      refusals as statuses
"""

from quoracy.doors.grpc.door import GrpcDoor

__all__ = ["GrpcDoor"]

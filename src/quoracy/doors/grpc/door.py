"""The gRPC door itself: the server's life, who may call, how much, and how it ends.

Requests are taken as bytes and read here, not by the library: what cannot be read is answered like any other wrong
request, with the code and the way out.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import AsyncIterable, Awaitable, Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NoReturn, cast
from urllib.parse import unquote

import grpc
from google.protobuf.message import DecodeError, Message
from grpc_health.v1 import health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from quoracy.config import ConnectionLimits, Grpc, Tls
from quoracy.core.errors import AWHILE_S, ConfigError, QuoracyError, Refusal, Refused
from quoracy.doors.auth import Meter, server_context
from quoracy.doors.calls import Calls
from quoracy.doors.federated import FederatedCalls
from quoracy.doors.grpc.errors import refuse
from quoracy.doors.grpc.health import Health
from quoracy.doors.grpc.members import Caller, MemberCalls
from quoracy.doors.grpc.participants import SERVICE as FEDERATED
from quoracy.doors.grpc.participants import ParticipantCalls
from quoracy.doors.grpc.people import PeoplesCalls
from quoracy.doors.grpc.session import LAST_WORDS_S, Context, Stream
from quoracy.doors.grpc.witnesses import SERVICE as WITNESSED
from quoracy.doors.grpc.witnesses import WitnessCalls
from quoracy.doors.service import Service
from quoracy.doors.witnessed import WitnessedCalls
from quoracy.hosts.server import now_us
from quoracy.wire.pb import coordinator_pb2 as pb
from quoracy.wire.pb import federated_pb2 as federated_pb

SERVICE: Final = pb.DESCRIPTOR.services_by_name["Coordinator"].full_name
PATROL_S: Final = 0.2
ANSWERS_S: Final = 0.1
"""When the door closes, for calls under way. What then still waits, such as for a barrier, is told to ask elsewhere."""
FIRST_WORD_S: Final = 1.0
"""For the first message of a stream that is turned away."""
HEALTH: Final = "grpc.health.v1.Health"

Work = Callable[[Caller, Any], Awaitable[Message]]


class GrpcDoor:
    def __init__(
        self,
        service: Service,
        calls: Calls,
        limits: ConnectionLimits,
        settings: Grpc,
        meter: Meter | None = None,
        federated: FederatedCalls | None = None,
        witnessed: WitnessedCalls | None = None,
    ) -> None:
        """``meter``: shared with other doors, since limits are meant for all of them together."""
        self.service = service
        self.limits = limits
        self.settings = settings
        self.meter = meter or Meter(limits)
        self.streams: dict[Stream, None] = {}
        self.hushed = False
        self._members = MemberCalls(calls)
        self._people = PeoplesCalls(service)
        self._participants = ParticipantCalls(service, federated or FederatedCalls(service))
        self._witnesses = WitnessCalls(service, witnessed or WitnessedCalls(service), self._people)
        self._health = Health(self._healthy, SERVICE, FEDERATED, WITNESSED)
        self._server: grpc.aio.Server | None = None
        self._host, self._port = "", 0
        self._patrol: asyncio.Task[None] | None = None
        self._calls: set[asyncio.Task[Any]] = set()
        self._closing: Refusal | None = None

    # -- life -------------------------------------------------------------------------------------------------------

    async def open(self, host: str, port: int, tls: Tls | None = None) -> tuple[str, int]:
        """Take the address; nobody is answered before ``listen``. Port 0 takes a free one; returns what it is. Raises
        ConfigError."""
        _check_free(host, port)
        server = grpc.aio.server(options=self._options())
        witnessed = self._unaries(WITNESSED, self._witnesses.works())
        server.add_generic_rpc_handlers((self._handlers(), self._federated_handlers(), witnessed))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        reflection.enable_server_reflection((SERVICE, FEDERATED, WITNESSED, HEALTH, reflection.SERVICE_NAME), server)
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        credentials = None if tls is None else _credentials(tls)
        try:
            bound = server.add_secure_port(place, credentials) if credentials else server.add_insecure_port(place)
        except RuntimeError:
            raise ConfigError("grpc.port", port, f"this machine cannot listen on {place}: choose another") from None
        self._server = server
        self._host, self._port = host, bound
        return host, bound

    async def listen(self) -> None:
        """Let people in."""
        if self._server is not None:
            await self._health.look()
            await self._server.start()
            self._patrol = asyncio.get_running_loop().create_task(self._walk())

    def hush(self) -> None:
        """Let nobody in, and hear nothing more on open streams: what is under way can end."""
        self.hushed = True
        if self._patrol is not None:
            self._patrol.cancel()

    async def close(self, refusal: Refusal) -> None:
        """Tell everybody why, and go. Whoever does not listen is not waited for."""
        self.hush()
        await self._health.look()
        self._closing = refusal
        for stream in list(self.streams):
            stream.end(refusal)
        if self._calls:
            await asyncio.wait(set(self._calls), timeout=ANSWERS_S)
        for call in self._calls:
            call.cancel()
        deadline_us = now_us() + round(2 * LAST_WORDS_S * 1e6)
        while (self.streams or self._calls) and now_us() < deadline_us:
            await asyncio.sleep(0.005)
        server, self._server = self._server, None
        if server is not None:
            await server.stop(LAST_WORDS_S)

    def _healthy(self) -> bool:
        return self.service.server.serving and not self.service.draining and not self.hushed

    async def _walk(self) -> None:
        """Streams that have fallen silent do not stay for ever, and health is told when it changes."""
        while True:
            await asyncio.sleep(PATROL_S)
            await self._health.look()
            at_us = now_us()
            for stream in list(self.streams):
                stream.overdue(at_us)
                self.service.renew(stream)

    def _options(self) -> Sequence[tuple[str, Any]]:
        """No probing for bandwidth: it is for long transfers, and costs a ping and its answer for nearly every call.
        No channelz: nobody can ask for it here, and it costs 3 % of a call."""
        settings, limits = self.settings, self.limits
        return (
            ("grpc.so_reuseport", 0),
            ("grpc.http2.bdp_probe", 0),
            ("grpc.enable_channelz", 0),
            ("grpc.max_channel_trace_event_memory_per_node", 0),
            ("grpc.max_receive_message_length", limits.max_frame_bytes),
            ("grpc.max_allowed_incoming_connections", limits.max_connections),
            ("grpc.server_handshake_timeout_ms", round(limits.greet_timeout_s * 1000)),
            ("grpc.max_connection_idle_ms", round(limits.idle_timeout_s * 1000)),
            ("grpc.keepalive_time_ms", round(settings.keepalive_s * 1000)),
            ("grpc.keepalive_timeout_ms", round(settings.keepalive_timeout_s * 1000)),
            ("grpc.http2.ping_timeout_ms", round(settings.keepalive_timeout_s * 1000)),
            ("grpc.keepalive_permit_without_calls", int(settings.keepalive_without_calls)),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.http2.min_time_between_pings_ms", round(settings.keepalive_s * 1000)),
            ("grpc.http2.min_ping_interval_without_data_ms", round(settings.min_ping_interval_s * 1000)),
        )

    # -- calls ------------------------------------------------------------------------------------------------------

    def _handlers(self) -> grpc.GenericRpcHandler[Any, Any]:
        members, people = self._members, self._people
        works: dict[str, tuple[type[Message], Work]] = {
            "RegisterWorker": (pb.RegisterWorkerRequest, members.register),
            "Heartbeat": (pb.HeartbeatRequest, members.heartbeat),
            "ReportState": (pb.ReportStateRequest, members.report),
            "WaitAtBarrier": (pb.WaitAtBarrierRequest, members.wait),
            "Deregister": (pb.DeregisterRequest, members.leave),
            "GetChallenge": (pb.GetChallengeRequest, members.challenge),
            "GetStatus": (pb.GetStatusRequest, people.status),
            "ListRuns": (pb.ListRunsRequest, people.runs),
            "GetRun": (pb.GetRunRequest, people.run),
            "CreateRun": (pb.CreateRunRequest, people.create),
            "StopRun": (pb.StopRunRequest, people.stop),
            "OrderWorkers": (pb.OrderWorkersRequest, people.order),
            "RollBackRun": (pb.RollBackRunRequest, people.roll_back),
            "DropBarrier": (pb.DropBarrierRequest, people.drop_barrier),
        }
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(self._unary(request, work))
            for name, (request, work) in works.items()
        }
        handlers["Session"] = grpc.stream_stream_rpc_method_handler(self._session)
        return grpc.method_handlers_generic_handler(SERVICE, handlers)

    def _federated_handlers(self) -> grpc.GenericRpcHandler[Any, Any]:
        calls = self._participants
        works: dict[str, tuple[type[Message], Work]] = {
            "Rendezvous": (federated_pb.RendezvousRequest, calls.rendezvous),
            "Heartbeat": (federated_pb.ParticipantHeartbeatRequest, calls.heartbeat),
            "StartTrainingRound": (federated_pb.StartTrainingRoundRequest, calls.start),
            "EndTrainingRound": (federated_pb.EndTrainingRoundRequest, calls.end),
            "Leave": (federated_pb.LeaveRequest, calls.leave),
        }
        return self._unaries(FEDERATED, works)

    def _unaries(self, service: str, works: dict[str, tuple[type[Message], Work]]) -> grpc.GenericRpcHandler[Any, Any]:
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(self._unary(request, work))
            for name, (request, work) in works.items()
        }
        return grpc.method_handlers_generic_handler(service, handlers)

    def _unary(self, request: type[Message], work: Work) -> Callable[[bytes, Context], Awaitable[bytes]]:
        async def handle(raw: bytes, context: Context) -> bytes:
            outcome = await self._call(request, work, raw, context)
            if isinstance(outcome, bytes):
                return outcome
            return await refuse(context, outcome, self._serving_address(outcome, request, raw))

        return handle

    async def _call(self, request: type[Message], work: Work, raw: bytes, context: Context) -> bytes | Refusal:
        try:
            said = request.FromString(raw)
        except DecodeError:
            why = f"{request.DESCRIPTOR.name}: these {len(raw)} bytes are not that"
            return Refusal("malformed", why, "use code generated from our .proto files")
        peer = _peer(context.peer())
        caller = self._caller(context, peer, getattr(said, "token", ""))
        if isinstance(caller, Refusal):
            return caller
        counted_as, at_us = caller.identity.id or peer[0], now_us()
        refusal = self.meter.connect(counted_as, at_us)
        if refusal is not None:
            return refusal
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._calls.add(task)
        try:
            refusal = self.meter.spend(counted_as, 1, len(raw), at_us)
            return (await work(caller, said)).SerializeToString() if refusal is None else refusal
        except asyncio.CancelledError:
            if self._closing is None:
                raise
            task.uncancel()
            return self._closing
        except Refused as error:
            return error.refusal
        except QuoracyError as error:
            return Refusal(error.code, str(error), "see the server's log")
        except Exception as error:
            self.service.server.log.error("a call broke the door", call=request.DESCRIPTOR.name, why=repr(error))
            return Refusal("bug", f"{type(error).__name__} in this call", "report it, with the server's log")
        finally:
            self._calls.discard(task)
            self.meter.disconnect(counted_as)

    async def _session(self, requests: AsyncIterable[bytes], context: Context) -> None:
        peer = _peer(context.peer())
        caller = self._caller(context, peer, "")
        if isinstance(caller, Refusal):
            await _turn_away(requests, context, caller)
        if len(self.streams) >= self.settings.max_streams:
            why = f"the server has its {self.settings.max_streams} streams (grpc.max_streams)"
            too_many = Refusal("too_fast", why, "use one stream for many workers, or try again later", AWHILE_S)
            await _turn_away(requests, context, too_many)
        counted_as = caller.identity.id or peer[0]
        refusal = self.meter.connect(counted_as, now_us())
        if refusal is not None:
            await _turn_away(requests, context, refusal)
        stream = Stream(self, requests, context, caller.identity, counted_as)
        self.streams[stream] = None
        try:
            await stream.serve()
        finally:
            del self.streams[stream]
            self.meter.disconnect(counted_as)

    def _caller(self, context: Context, peer: tuple[str, int], token: str) -> Caller | Refusal:
        if self.hushed:
            return Refusal("draining", "this server stops", "connect again in a while; nothing is lost", AWHILE_S)
        bearer = _bearer(context)
        shown = bearer or token
        identity = self.service.identify(shown, None if shown else self._stranger(peer))
        if isinstance(identity, Refusal):
            return identity
        return Caller(identity, bearer, context.time_remaining)

    def _stranger(self, peer: tuple[str, int]) -> Refusal | None:
        """For each call: the library shows no connection to keep the answer with, and a port may change hands."""
        if self.service.tokens or self.service.local_users is None:
            return None
        return self.service.stranger(peer, (self._host_for(peer), self._port))

    def _host_for(self, peer: tuple[str, int]) -> str:
        """Where it came in: this door's own address, or what its name stands for in the caller's family."""
        if self._host.lower() != "localhost":
            return self._host.strip("[]")
        return "::1" if ":" in peer[0] else "127.0.0.1"

    def _serving_address(self, refusal: Refusal, request: type[Message], raw: bytes) -> str:
        """Where to go, if it is known."""
        if refusal.code != "not_serving":
            return ""
        run = self.service.server.runs.get(getattr(request.FromString(raw), "run", ""))
        return "" if run is None or run.host.run is None else run.host.run.head.address


async def _turn_away(requests: AsyncIterable[bytes], context: Context, refusal: Refusal) -> NoReturn:
    """After the client's first message, if it comes soon. One that is still writing when the call ends may be told by
    its own library that something broke inside, and never learns why."""
    with contextlib.suppress(grpc.aio.BaseError, StopAsyncIteration, TimeoutError):
        async with asyncio.timeout(FIRST_WORD_S):
            await anext(aiter(requests))
    await refuse(context, refusal)


def _bearer(context: Context) -> str:
    for name, value in context.invocation_metadata() or ():
        if name == "authorization":
            scheme, _, token = str(value).partition(" ")
            return token.strip() if scheme.lower() == "bearer" else str(value)
    return ""


@lru_cache(maxsize=4096)
def _peer(name: str) -> tuple[str, int]:
    """Of ipv4:10.0.0.7:41234 or ipv6:%5B::1%5D:41234. Limits are counted by its host where nobody shows a token."""
    place, _, port = unquote(name).rpartition(":")
    return place.partition(":")[2].strip("[]"), int(port) if port.isdecimal() else 0


def _credentials(tls: Tls) -> grpc.ServerCredentials:
    server_context(tls.cert, tls.key)  # says exactly what is wrong with the files; gRPC would not
    key, cert = Path(tls.key).read_bytes(), Path(tls.cert).read_bytes()
    return grpc.ssl_server_credentials([(key, cert)])


def _check_free(host: str, port: int) -> None:
    """gRPC says only that it failed; a socket says why."""
    try:
        family, *_, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with contextlib.closing(socket.socket(family, socket.SOCK_STREAM)) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
    except OSError as error:
        match error.errno:
            case errno.EADDRINUSE:
                fix = "another program listens there: choose another port, or auto"
                raise ConfigError("grpc.port", port, fix) from None
            case errno.EACCES:
                raise ConfigError("grpc.port", port, "the system does not allow it: choose a port above 1023") from None
        fix = f"this machine cannot listen there ({error.strerror or error})"
        raise ConfigError("listen.host", host, fix) from None

"""What every gRPC server should have: reflection, health, keepalive, an address of its own."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import importlib.util
import select
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.doors.grpc.conftest import opened
from tests.doors.grpc.talk import PATIENCE_S, RUN, Talk, door, place
from tests.e2e.command import until

from quoracy.bench import crowd, grpc_door
from quoracy.bench.grpc_door import BODY, Link
from quoracy.config import Grpc
from quoracy.coordinator import Coordinator
from quoracy.core.errors import ConfigError
from quoracy.wire.pb import coordinator_pb2 as pb

ROOT = Path(__file__).parents[3]
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
PING, GOAWAY = 6, 7


def health(talk: Talk, service: str = "") -> Any:
    stub = health_pb2_grpc.HealthStub(talk.channel)
    return stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=PATIENCE_S).status


# -- reflection ----------------------------------------------------------------------------------------------------


def example() -> Any:
    spec = importlib.util.spec_from_file_location("grpc_call", ROOT / "examples" / "grpc_call.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_any_method_can_be_called_by_what_the_server_itself_tells(talk: Talk) -> None:
    called = example()
    assert set(called.services(talk.channel)) == {
        "quoracy.v1.Coordinator", "quoracy.v1.Federated", "quoracy.v1.Witnessed", "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
    }  # fmt: skip
    method = "quoracy.v1.Coordinator/CreateRun"
    shown = called.call(talk.channel, method, '{"run": "other", "config": {"barrier_min": 3}}')
    assert shown["run"]["kind"] == "cluster"
    assert called.call(talk.channel, "quoracy.v1.Coordinator/GetStatus")["runs"] == "2"
    assert called.call(talk.channel, "grpc.health.v1.Health/Check") == {"status": "SERVING"}


def test_the_example_is_a_command(coordinator: Coordinator, capsys: pytest.CaptureFixture[str]) -> None:
    called = example()
    called.main([place(coordinator)])
    assert "quoracy.v1.Coordinator\n" in capsys.readouterr().out
    called.main([place(coordinator), "quoracy.v1.Coordinator/GetStatus"])
    assert '"serving": true' in capsys.readouterr().out


def test_every_method_of_the_file_is_there(talk: Talk) -> None:
    for method in pb.DESCRIPTOR.services_by_name["Coordinator"].methods:
        if method.name == "Session":
            continue
        path = f"/quoracy.v1.Coordinator/{method.name}"
        called = talk.channel.unary_unary(path, None, None).future(b"", timeout=PATIENCE_S)
        assert called.code() not in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.INTERNAL), method.name


# -- health --------------------------------------------------------------------------------------------------------


def test_health_tells_serving_from_following(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        with opened(tmp_path) as first, Talk(place(first)) as here:
            there = stack.enter_context(Talk(place(stack.enter_context(opened(tmp_path)))))
            assert (health(here), health(here, "quoracy.v1.Coordinator")) == (SERVING, SERVING)
            assert (health(there), health(there, "quoracy.v1.Coordinator")) == (NOT_SERVING, NOT_SERVING)
            with pytest.raises(grpc.RpcError):
                health(here, "nobody")
        until(lambda: health(there) == SERVING, "the second takes over")


def test_whoever_watches_health_is_told_when_it_drains(tmp_path: Path) -> None:
    with opened(tmp_path) as running, Talk(place(running)) as talk:
        stub = health_pb2_grpc.HealthStub(talk.channel)
        watching = stub.Watch(health_pb2.HealthCheckRequest(), timeout=PATIENCE_S)
        assert next(watching).status == SERVING
        running._loop.call_soon_threadsafe(setattr, running._open().service, "draining", True)
        assert next(watching).status == NOT_SERVING
        assert health(talk) == NOT_SERVING
        watching.cancel()


# -- keepalive -----------------------------------------------------------------------------------------------------


class Deaf(Link):
    """Speaks HTTP/2, but answers no pings."""

    def __init__(self, port: int) -> None:
        super().__init__(port, 1)
        self.socket.settimeout(PATIENCE_S)
        self.seen: list[int] = []
        self.last = b""

    def listen(self) -> None:
        """Until the other side closes, or sends it away."""
        rest = b""
        while GOAWAY not in self.seen:
            try:
                chunk = self.socket.recv(65536)
            except ConnectionResetError:
                return
            if not chunk:
                return
            rest += chunk
            while len(rest) >= 9 and len(rest) >= 9 + (size := int.from_bytes(rest[:3], "big")):
                self.seen.append(rest[3])
                self.last = rest[9 : 9 + size]
                rest = rest[9 + size :]

    def ping(self, times: int) -> None:
        self.socket.sendall(times * (b"\x00\x00\x08" + struct.pack(">BBI", PING, 0, 0) + bytes(8)))


def port_of(running: Coordinator) -> int:
    return int(place(running).rpartition(":")[2])


def test_a_client_that_answers_no_pings_is_given_up(tmp_path: Path) -> None:
    with opened(tmp_path, {"keepalive_s": 0.2, "keepalive_timeout_s": 0.2}) as running:
        running.create(crowd.RUN)
        with contextlib.closing(Deaf(port_of(running))) as deaf:
            deaf.join()
            assert len(door(running).streams) == 1
            deaf.listen()
            assert PING in deaf.seen
            until(lambda: not door(running).streams, "its stream is gone")


def test_a_client_that_pings_too_often_is_sent_away_and_others_are_not(tmp_path: Path) -> None:
    with opened(tmp_path, {"min_ping_interval_s": 60.0}) as running:
        with contextlib.closing(Deaf(port_of(running))) as hasty:
            hasty.ping(10)
            hasty.listen()
            assert b"too_many_pings" in hasty.last
        with Talk(place(running)) as talk:
            assert talk.call(pb.GetStatusRequest()).serving


def test_a_client_may_ping_as_often_as_the_settings_say(tmp_path: Path) -> None:
    with (
        opened(tmp_path, {"min_ping_interval_s": 0.02}) as running,
        contextlib.closing(Deaf(port_of(running))) as patient,
    ):
        for _ in range(6):
            patient.ping(1)
            time.sleep(0.03)  # slower than the limit
        patient.socket.settimeout(0.2)
        with contextlib.suppress(TimeoutError):
            patient.listen()
        assert patient.seen.count(PING) == 6
        assert GOAWAY not in patient.seen


def test_no_ping_goes_along_with_what_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library would measure the way with pings, and ask for an answer to nearly each message."""
    sent: list[int] = []

    def noted(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
        sent.append(kind)
        return framed(kind, flags, stream, payload)

    framed = grpc_door._frame
    monkeypatch.setattr(grpc_door, "_frame", noted)
    with opened(tmp_path) as running:
        running.create(crowd.RUN)
        with contextlib.closing(Link(port_of(running), 1)) as link:
            link.socket.settimeout(PATIENCE_S)
            link.join()
            for _ in range(5):
                grpc_door._stream(link)
                while not link.hear()[0]:
                    pass
    assert BODY in sent
    assert PING not in sent  # as answers to pings of the server


def keepalive() -> list[tuple[str, int]]:
    """Of the worker in examples, which needs code that is not there to be imported."""
    tree = ast.parse((ROOT / "examples" / "grpc_worker.py").read_text(encoding="utf-8"))
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="KEEPALIVE")], value=value):
                found: list[tuple[str, int]] = ast.literal_eval(value)
                return found
    raise AssertionError("the example has no KEEPALIVE")


def test_both_sides_ask_every_ten_seconds_and_wait_five(coordinator: Coordinator) -> None:
    wanted = {
        "grpc.keepalive_time_ms": 10_000, "grpc.keepalive_timeout_ms": 5_000, "grpc.keepalive_permit_without_calls": 1,
        "grpc.http2.max_pings_without_data": 0, "grpc.http2.min_time_between_pings_ms": 10_000,
        "grpc.http2.min_ping_interval_without_data_ms": 5_000,
    }  # fmt: skip
    for options in (keepalive(), door(coordinator)._options()):
        assert {name: value for name, value in options if name in wanted} == wanted


class Relay(threading.Thread):
    """Stands between a client and the door for one connection, and counts what kinds of frames go by."""

    PREFACE = len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._port = port
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self.asked = self.told = 0
        self.sent_away = self.ended = False

    def run(self) -> None:
        server = socket.create_connection(("127.0.0.1", self._port))
        with self._listening, server, self._listening.accept()[0] as client:
            rest = {client: b"", server: b""}
            skip = {client: self.PREFACE, server: 0}
            while True:
                for source in select.select([client, server], [], [])[0]:
                    chunk = source.recv(65536)
                    if not chunk:
                        self.ended = True
                        return
                    (server if source is client else client).sendall(chunk)
                    whole = rest[source] + chunk
                    whole, skip[source] = whole[skip[source] :], max(0, skip[source] - len(whole))
                    rest[source] = self._frames(whole, source is client)

    def _frames(self, whole: bytes, of_client: bool) -> bytes:
        while len(whole) >= 9 and len(whole) >= 9 + (size := int.from_bytes(whole[:3], "big")):
            kind, answers = whole[3], whole[4] & 1
            self.asked += of_client and kind == PING and not answers
            self.told += not of_client and kind == PING and bool(answers)
            self.sent_away |= not of_client and kind == GOAWAY
            whole = whole[9 + size :]
        return whole


@pytest.mark.parametrize("stream", [False, True], ids=["without calls", "on a stream"])
def test_a_client_with_these_options_stays_connected(tmp_path: Path, stream: bool) -> None:
    """All times a fiftieth, on both sides."""
    times = 50
    options = [(name, value // times if name.endswith("_ms") else value) for name, value in keepalive()]
    was = Grpc()
    settings = {
        "keepalive_s": was.keepalive_s / times, "keepalive_timeout_s": was.keepalive_timeout_s,
        "min_ping_interval_s": was.min_ping_interval_s / times,
    }  # fmt: skip
    with opened(tmp_path, settings) as running:
        relay = Relay(port_of(running))
        relay.start()
        channel = grpc.insecure_channel(relay.address, [*options, ("grpc.enable_http_proxy", 0)])
        with Talk("", channel=channel) as talk, contextlib.ExitStack() as stack:
            talk.create()
            if stream:
                stack.enter_context(talk.session()).say(hello=pb.Hello(run=RUN, worker="w1"))
            until(lambda: relay.told >= 5 or relay.sent_away or relay.ended, "five pings")
            assert talk.call(pb.GetStatusRequest()).serving
            assert relay.asked >= relay.told >= 5
            assert not relay.sent_away
            assert not relay.ended
        relay.join(PATIENCE_S)


# -- its address ---------------------------------------------------------------------------------------------------


def test_a_port_that_is_taken_is_named(coordinator: Coordinator, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"grpc\.port = .*another program"):
        opened(tmp_path / "other", {"port": port_of(coordinator)}).__enter__()


def test_no_other_server_can_share_the_port(coordinator: Coordinator) -> None:
    """gRPC servers share ports unless they are told not to, and half of the calls would go astray."""
    with ThreadPoolExecutor(1) as pool:
        other = grpc.server(pool)
        with pytest.raises(RuntimeError, match="bind"):
            other.add_insecure_port(place(coordinator))


def test_auto_takes_another_port_if_the_usual_one_is_taken(tmp_path: Path) -> None:
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            squatter.bind(("127.0.0.1", 50051))
            squatter.listen()
        except OSError:
            squatter.close()
        with opened(tmp_path, {"port": "auto"}) as running, Talk(place(running)) as talk:
            assert port_of(running) != 50051
            assert talk.call(pb.GetStatusRequest()).serving


def test_a_host_that_is_not_of_this_machine_is_named(coordinator: Coordinator) -> None:
    work = door(coordinator).open("192.0.2.1", 0)
    with pytest.raises(ConfigError, match=r"listen\.host = '192\.0\.2\.1'"):
        asyncio.run_coroutine_threadsafe(work, coordinator._loop).result(PATIENCE_S)

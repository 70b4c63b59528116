"""Without tokens the server's own user comes in, and other users of the machine do not: at every door."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import httpx
import pytest
from tests.doors.another_user import reached_by_another_user
from tests.doors.grpc.talk import Talk as GrpcTalk
from tests.doors.talk import Talk

import quoracy
from quoracy.coordinator import Coordinator
from quoracy.core.errors import Refusal, Refused
from quoracy.core.members import Accepted
from quoracy.core.messages import Declined
from quoracy.doors import local_users
from quoracy.doors.auth import MemberKey, Role
from quoracy.doors.local_users import LocalUsers, Netlink, place_of, read_tables
from quoracy.sdk.client.ask import Asker
from quoracy.wire.messages import Goodbye
from quoracy.wire.pb import coordinator_pb2 as pb

LOOKS = [pytest.param(Netlink, id="netlink"), pytest.param(lambda: read_tables, id="tables")]


# -- what the kernel says --------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    client: socket.socket
    accepted: socket.socket


def pair(stack: ExitStack, listen: str = "127.0.0.1", connect: str = "", family: int = socket.AF_INET) -> Pair:
    listener = stack.enter_context(closing(socket.socket(family)))
    listener.bind((listen, 0))
    listener.listen()
    client = stack.enter_context(closing(socket.socket(socket.AF_INET6 if ":" in (connect or listen) else family)))
    client.connect((connect or listen, listener.getsockname()[1]))
    accepted, _ = listener.accept()
    return Pair(client, stack.enter_context(closing(accepted)))


def seen(look: Any, accepted: socket.socket) -> int | None:
    peer, here = place_of(accepted.getpeername()), place_of(accepted.getsockname())
    assert peer is not None
    assert here is not None
    found: int | None = look(peer, here)
    return found


@pytest.fixture(params=LOOKS)
def look(request: pytest.FixtureRequest) -> Any:
    made = request.param()
    yield made
    if isinstance(made, Netlink):
        made.close()


@pytest.mark.parametrize(
    ("listen", "connect", "family"),
    [
        ("127.0.0.1", "", socket.AF_INET),
        ("127.0.0.2", "", socket.AF_INET),
        ("127.0.0.1", "::ffff:127.0.0.1", socket.AF_INET),
        ("::1", "", socket.AF_INET6),
        ("::ffff:127.0.0.1", "", socket.AF_INET6),
    ],
)
def test_a_connection_of_ours_is_known_in_every_family(look: Any, listen: str, connect: str, family: int) -> None:
    with ExitStack() as stack:
        made = pair(stack, listen, connect, family)
        assert seen(look, made.accepted) == os.geteuid()


def test_a_connection_that_nobody_holds_any_more_belongs_to_nobody(look: Any) -> None:
    """Many kernels call it root's: whoever asks something and closes at once would pass for root."""
    with ExitStack() as stack:
        made = pair(stack)
        made.client.sendall(b"do as I say")
        made.client.close()
        assert seen(look, made.accepted) is None


def test_a_client_that_has_said_all_and_still_listens_is_known(look: Any) -> None:
    with ExitStack() as stack:
        made = pair(stack)
        made.client.shutdown(socket.SHUT_WR)
        assert seen(look, made.accepted) == os.geteuid()


def test_whoever_listens_on_the_port_is_not_taken_for_the_one_who_connected(look: Any) -> None:
    with ExitStack() as stack:
        listener = stack.enter_context(closing(socket.create_server(("127.0.0.1", 0))))
        here = place_of(listener.getsockname())
        gone = place_of(("127.0.0.1", 1))
        assert here is not None
        assert gone is not None
        assert look(here, gone) is None


def test_what_is_no_address_is_a_stranger() -> None:
    with closing(LocalUsers()) as users:
        for peer in (None, "", ("", 0), ("/tmp/socket",), ("not an address", 1)):
            assert isinstance(users.stranger(peer, ("127.0.0.1", 1)), Refusal)


def test_where_the_kernel_does_not_tell_everybody_needs_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(local_users, "_sees_itself", lambda _look: False)
    with Coordinator(folder=tmp_path, log={"level": "warn"}) as coordinator:
        assert "nobody comes in without a token" in capsys.readouterr().err
        with Talk(coordinator.url, greet=False) as talk:
            talk.say(local_users_greeting())
            refusal = talk.hear(Goodbye).refusal
    assert refusal.code == "bad_token"
    assert "does not tell whose sockets are whose" in refusal.why
    assert "--insecure" in refusal.fix


def test_without_netlink_the_tables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden() -> Netlink:
        raise PermissionError("no netlink here")

    monkeypatch.setattr(local_users, "Netlink", forbidden)
    users = LocalUsers()
    with ExitStack() as stack:
        made = pair(stack)
        assert not users.blind
        assert users.stranger(made.accepted.getpeername(), made.accepted.getsockname()) is None


def test_a_server_that_runs_as_the_overflow_user_of_a_small_namespace_cannot_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_users, "own_uid", lambda: 65534)
    monkeypatch.setattr(local_users, "UID_MAP", tmp_path / "uid_map")
    (tmp_path / "uid_map").write_text("         0     100000      65536\n")
    with closing(LocalUsers()) as users:
        assert "whom its namespace does not know" in users.blind
    (tmp_path / "uid_map").write_text("         0          0 4294967295\n")
    with closing(LocalUsers()) as users:
        assert not users.blind


# -- at the doors ----------------------------------------------------------------------------------------------------


def local_users_greeting(token: str = "") -> Any:
    from quoracy.wire.messages import Greet

    return Greet(2, 2, token)


class Shared(NamedTuple):
    """A server, and where another user reaches its doors."""

    coordinator: Coordinator
    tcp: str
    grpc: str
    http: str

    def token(self, role: Role, run: str = "*") -> str:
        return self.coordinator._open().service.authority.new_token(role, run)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    doors: dict[str, Any] = {"grpc": {"enabled": True, "port": 0}, "http": {"enabled": True, "port": 0}}
    with Coordinator(folder=tmp_path_factory.mktemp("shared"), **doors) as coordinator:
        coordinator.create("demo")
        ports = [int(coordinator.addresses[door].rpartition(":")[2]) for door in ("tcp", "grpc", "http")]
        with reached_by_another_user(*ports) as (tcp, grpc_port, http):
            places = (f"tcp://127.0.0.1:{tcp}", f"127.0.0.1:{grpc_port}", f"http://127.0.0.1:{http}")
            yield Shared(coordinator, *places)


def test_another_user_is_told_to_show_a_token_over_tcp(shared: Shared) -> None:
    with (
        pytest.raises(
            Refused, match=r"this connection is one of user \d+, while the server runs as user \d+"
        ) as caught,
        Asker(shared.tcp) as client,
    ):
        client.ask("status")
    assert caught.value.code == "bad_token"
    assert "quoracy token new" in caught.value.refusal.fix


def test_another_user_is_told_to_show_a_token_over_grpc(shared: Shared) -> None:
    with GrpcTalk(shared.grpc) as talk:
        status, told = talk.refused(pb.GetStatusRequest())
        assert (status, told.code) == (grpc.StatusCode.UNAUTHENTICATED, "bad_token")
        assert "this connection is one of user" in told.why
        _, told = talk.refused(pb.CreateRunRequest(run="theirs", kind="cluster"))
        assert told.code == "bad_token"


def test_another_user_is_told_to_show_a_token_over_http(shared: Shared) -> None:
    with httpx.Client(base_url=shared.http, trust_env=False) as client:
        for answer in (client.get("/api/runs"), client.post("/api/runs", json={"run": "theirs"})):
            assert (answer.status_code, answer.json()["code"]) == (401, "bad_token")
            assert "this connection is one of user" in answer.json()["detail"]
        assert client.get("/livez").status_code == 200
    assert {run["run"] for run in shared.coordinator.ask("runs")} == {"demo"}


def test_another_user_comes_in_by_a_token_and_may_do_what_it_says(shared: Shared) -> None:
    viewer = shared.token(Role.VIEWER)
    with Asker(shared.tcp, token=viewer) as client:
        assert client.ask("status")["runs"]
        with pytest.raises(Refused, match="does not allow"):
            client.ask("create", "theirs", kind="cluster", config={})
    with GrpcTalk(shared.grpc, viewer) as talk:
        assert talk.call(pb.ListRunsRequest()).runs
    with httpx.Client(base_url=shared.http, trust_env=False, headers={"authorization": f"Bearer {viewer}"}) as client:
        assert client.get("/api/runs").status_code == 200


def test_another_user_with_a_token_works_as_everywhere_else(shared: Shared) -> None:
    with quoracy.connect(shared.tcp, run="demo", member="theirs", token=shared.token(Role.MEMBER)) as worker:
        worker.barrier("theirs", 0)


def test_another_user_with_a_token_does_not_speak_for_a_member_of_the_servers_user(shared: Shared) -> None:
    """The server's user proves nothing; whoever came by a token proves everything."""
    with Talk(shared.coordinator.url) as ours, Talk(shared.tcp, token=shared.token(Role.MEMBER)) as theirs:
        assert isinstance(ours.join("ours"), Accepted)
        theirs.beat("ours", 900_000)
        assert theirs.hear(Declined).refusal.code == "bad_token"
        assert theirs.ready("ours").code == "bad_token"
        theirs.hello("ours", 1)
        assert theirs.hear(Declined).refusal.code == "bad_token"
        assert theirs.join("keyless").code == "bad_token"
        assert isinstance(theirs.join("keyed", key=MemberKey.create()), Accepted)


def test_another_user_with_a_token_does_not_speak_for_a_member_by_single_calls(shared: Shared) -> None:
    with GrpcTalk(shared.coordinator.addresses["grpc"].partition("//")[2]) as ours:
        life = ours.join("by-calls").incarnation
        with GrpcTalk(shared.grpc, shared.token(Role.MEMBER)) as theirs:
            _, told = theirs.refused(pb.HeartbeatRequest(run="demo", worker="by-calls", incarnation=life, seq=900_000))
            assert told.code == "bad_token"
        ours.call(pb.HeartbeatRequest(run="demo", worker="by-calls", incarnation=life, seq=1))


def test_with_insecure_every_user_of_the_machine_comes_in(tmp_path: Path) -> None:
    with Coordinator(folder=tmp_path, access={"insecure": True}) as coordinator:
        port = int(coordinator.url.rpartition(":")[2])
        with reached_by_another_user(port) as (there,), Asker(f"tcp://127.0.0.1:{there}") as client:
            assert client.ask("status")["version"]

"""What is no HTTP, too much of it, or too slow."""

from __future__ import annotations

import asyncio
import random
import socket
import time
from functools import partial
from pathlib import Path

import httpx
import pytest
from tests.doors.crowds import Readers
from tests.doors.http.live import Live, live, problem, raw, until

from quoracy.coordinator import Coordinator
from quoracy.core.errors import ConfigError
from quoracy.doors.auth import Authority, Role
from quoracy.doors.http.line import SPARE


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"hello\r\n\r\n",
        b"GET /livez HTTP/9.9\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nbad header\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nhost: localhost\r\ncontent-length: x\r\n\r\n",
        b"POST /livez HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /api/runs HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n\r\n",
        b"GET  HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"\x00" * 64,
    ],
)
def test_what_is_no_http_is_told_so_and_closed(home: Live, sent: bytes) -> None:
    answer = raw(home.port, sent)
    assert answer.startswith(b"HTTP/1.1 400"), answer
    assert b"application/problem+json" in answer
    assert b'"code":"malformed"' in answer
    assert b"x-content-type-options: nosniff" in answer
    assert home.http.get("/livez").status_code == 200


def test_an_upgrade_is_not_taken(home: Live) -> None:
    sent = b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
    assert raw(home.port, sent, read_all=False).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"x: " + b"y" * 70_000 + b"\r\n", b"431"),
        (b"x: y\r\n" * 120, b"431"),
    ],
)
def test_headers_have_a_size(home: Live, head: bytes, status: bytes) -> None:
    answer = raw(home.port, b"GET /livez HTTP/1.1\r\nhost: localhost\r\n" + head + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 " + status), answer[:200]


def test_headers_that_never_end_are_not_kept(home: Live) -> None:
    with socket.create_connection(("127.0.0.1", home.port), timeout=30) as line:
        line.sendall(b"GET /livez HTTP/1.1\r\nhost: localhost\r\nx: ")
        got = b""
        try:
            for _ in range(200):
                line.sendall(b"y" * 4096)
            got = line.recv(65536)
        except (BrokenPipeError, ConnectionResetError):
            got = got or b"closed"
        assert got == b"closed" or b"431" in got[:20]
    assert home.http.get("/livez").status_code == 200


def test_an_address_has_a_length(home: Live) -> None:
    answer = raw(home.port, b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 414")
    assert b'"code":"url_too_long"' in answer


def test_requests_one_after_the_other_on_one_connection(home: Live) -> None:
    one = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n"
    answer = raw(home.port, one + b"\r\n" + one + b"\r\n" + one + b"connection: close\r\n\r\n")
    assert answer.count(b"HTTP/1.1 200") == 3


@pytest.mark.parametrize(
    "begun",
    [b"", b"GET /livez HT", b"GET /livez HTTP/1.1\r\nhost: loc",
     b"POST /api/runs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 90\r\n\r\n{"],
)  # fmt: skip
def test_a_request_that_does_not_come_whole_is_given_up(tmp_path: Path, begun: bytes) -> None:
    with live(tmp_path, http={"request_timeout_s": 0.5}) as running:
        with socket.create_connection(("127.0.0.1", running.port), timeout=30) as slow:
            slow.sendall(begun)
            got = b""
            while chunk := slow.recv(65536):
                got += chunk
        assert got.startswith(b"HTTP/1.1 408"), got
        assert b'"code":"too_slow"' in got
        assert running.http.get("/livez").status_code == 200


def test_a_byte_now_and_then_does_not_keep_a_request_alive(tmp_path: Path) -> None:
    with live(tmp_path, http={"request_timeout_s": 0.5}) as running:
        with socket.create_connection(("127.0.0.1", running.port), timeout=30) as slow:
            slow.sendall(b"GET /livez HTTP/1.1\r\nhost: localhost\r\nx: ")
            deadline = time.monotonic() + 30
            try:
                while time.monotonic() < deadline:
                    slow.sendall(b"y")
                    slow.settimeout(0.05)
                    try:
                        got = slow.recv(65536)
                        break
                    except TimeoutError:
                        continue
            except OSError:
                got = b"HTTP/1.1 408"
        assert got.startswith(b"HTTP/1.1 408")


def test_an_idle_connection_is_closed_in_the_end(tmp_path: Path) -> None:
    with live(tmp_path, limits={"idle_timeout_s": 1.0}) as running:
        with socket.create_connection(("127.0.0.1", running.port), timeout=30) as idle:
            idle.sendall(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n")
            got = b""
            while chunk := idle.recv(65536):
                got += chunk
        assert got.startswith(b"HTTP/1.1 200")


def test_connections_beyond_the_limit_are_told_so(tmp_path: Path) -> None:
    with live(tmp_path, limits={"max_connections_per_identity": 2}) as running:
        held = [socket.create_connection(("127.0.0.1", running.port)) for _ in range(2)]
        try:
            for line in held:
                line.sendall(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n")
                assert line.recv(100).startswith(b"HTTP/1.1 200")
            answer = raw(running.port, b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 429")
            assert b'"code":"too_fast"' in answer
            assert b"retry-after: " in answer
        finally:
            for line in held:
                line.close()
        until(lambda: running.http.get("/livez").status_code == 200, "room again")


def test_every_connection_beyond_the_limit_of_the_server_is_told_so(tmp_path: Path) -> None:
    """Many more than may take their time."""
    limits = {"max_connections": 100, "max_connections_per_identity": 100}

    async def crowd(port: int) -> dict[tuple[int, str], int]:
        async with Readers(port) as readers:
            await readers.come(100 + 4 * SPARE)
            return dict(readers.told)

    with live(tmp_path, limits=limits) as running:
        running.coordinator.create("demo")
        running.http.close()
        told = asyncio.run(crowd(running.port))
    assert told == {(200, ""): 100, (429, "too_fast"): 4 * SPARE}


def test_whoever_says_nothing_beyond_the_limit_is_told_so_as_well(tmp_path: Path) -> None:
    """Without being asked anything, and long before a request would have to be there."""
    with live(tmp_path, limits={"max_connections_per_identity": 1}) as running:
        with socket.create_connection(("127.0.0.1", running.port)) as held:
            held.sendall(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert held.recv(100).startswith(b"HTTP/1.1 200")
            silent = [socket.create_connection(("127.0.0.1", running.port), timeout=20) for _ in range(2 * SPARE)]
            answers = [b"".join(iter(partial(line.recv, 65536), b"")) for line in silent]
            for line in silent:
                line.close()
        assert all(answer.startswith(b"HTTP/1.1 429") and b'"too_fast"' in answer for answer in answers)
        until(lambda: running.http.get("/livez").status_code == 200, "room again")


def test_connections_are_counted_by_token_where_there_is_one(tmp_path: Path) -> None:
    access, limits = {"tokens": "required"}, {"max_connections_per_identity": 2}
    with live(tmp_path, access=access, limits=limits) as running:
        authority = Authority.open(tmp_path)
        mine, yours = authority.new_token(Role.VIEWER), authority.new_token(Role.VIEWER)
        clients = [httpx.Client(base_url=running.url, trust_env=False) for _ in range(4)]
        try:
            tokens = (mine, mine, yours, mine)
            answers = [
                client.get("/api/status", headers={"authorization": f"Bearer {token}"})
                for client, token in zip(clients, tokens, strict=True)
            ]
        finally:
            for client in clients:
                client.close()
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        problem(answers[3], 429, "too_fast")


def test_more_requests_than_allowed_are_told_when_to_come_back(tmp_path: Path) -> None:
    with live(tmp_path, limits={"messages_per_s": 1, "burst_messages": 5}) as running:
        answers = [running.http.get("/livez") for _ in range(7)]
        problem(answers[-1], 429, "too_fast")
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 10
        assert [answer.status_code for answer in answers[:5]] == [200] * 5


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"http\.port = {port}"), live(tmp_path, http={"port": port}):
            pass


def test_auto_takes_another_port_if_the_usual_one_is_taken(tmp_path: Path) -> None:
    settings = {"enabled": True, "port": "auto"}
    with (
        Coordinator(folder=tmp_path / "1", http=settings) as one,
        Coordinator(folder=tmp_path / "2", http=settings) as two,
    ):
        urls = {one._open().addresses["http"], two._open().addresses["http"]}
        assert len(urls) == 2
        assert [httpx.get(f"{url}/livez", trust_env=False).status_code for url in urls] == [200, 200]


def test_requests_in_one_piece_are_counted_one_by_one(tmp_path: Path) -> None:
    with live(tmp_path, limits={"messages_per_s": 1, "burst_messages": 5}) as running:
        one = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n"
        assert b"HTTP/1.1 429" in raw(running.port, one * 20)


def test_nobody_waits_for_a_worker_that_is_gone(tmp_path: Path) -> None:
    with live(tmp_path) as running:
        running.coordinator.create("demo", barrier_min=2)
        running.http.post("/api/runs/demo/workers", json={"member": "w1", "nonce": "0" * 32})
        wish = {"incarnation": 1, "seq": 1, "state": "ready"}
        assert running.http.post("/api/runs/demo/workers/w1/state", json=wish).status_code == 200
        body = b'{"incarnation": 1, "step": 0, "timeout_s": 300}'
        head = b"POST /api/runs/demo/workers/w1/barriers/b HTTP/1.1\r\nhost: localhost\r\n"
        head += b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
        standins = running.coordinator._open().calls._standins
        with socket.create_connection(("127.0.0.1", running.port)) as waiter:
            waiter.sendall(head + body)
            until(lambda: any(standin.waiting for standin in standins.values()), "the arrival")
        until(lambda: not any(standin.waiting for standin in standins.values()), "it is given up")


def test_mangled_requests_break_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    dice = random.Random(7)
    good = [
        b"GET /api/runs/demo?limit=1 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
        b"POST /api/runs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}",
        b"OPTIONS * HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
        b"CONNECT localhost:1 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
        b"GET http://localhost/livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
    ]
    with live(tmp_path, http={"request_timeout_s": 0.2}) as running:
        for turn in range(300):
            sent = bytearray(good[turn % len(good)])
            for _ in range(turn // len(good) % 4):
                at = dice.randrange(len(sent))
                sent[at : at + dice.randrange(3)] = dice.randbytes(dice.randrange(4))
            answer = raw(running.port, bytes(sent), read_all=False)
            assert answer.startswith(b"HTTP/1.1 ") or not answer, sent
            assert not answer.startswith(b"HTTP/1.1 5"), (sent, answer)
        assert running.http.get("/livez").status_code == 200
    assert "failed inside" not in capfd.readouterr().err

"""Large bodies over real sockets: slowed down and never sent away, on disk before they are acknowledged, and out of the
way of everything else on their connection."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import socket
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3
from tests.doors.http.live import PATIENCE_S, Live, live, problem
from tests.e2e.command import until

from quoracy.core.errors import ObjectsFull
from quoracy.core.federated.events import ParticipantJoined
from quoracy.core.members import signed_by_joiner
from quoracy.doors.auth import Authority, Identity, MemberKey, Role
from quoracy.doors.federated import Entered, FederatedCalls
from quoracy.doors.http import transfers
from quoracy.doors.http.intake import PIECE_BYTES
from quoracy.doors.http.line import Line
from quoracy.doors.http.turns import Pace
from quoracy.hosts.shelf import Shelf
from quoracy.objects import LocalObjects
from quoracy.objects.walk import Reading
from quoracy.ports import Objects
from quoracy.trust.ca import create_authority
from quoracy.trust.tls import client_context

MIB = 1024 * 1024


def content(seed: int, size_bytes: int) -> bytes:
    return random.Random(seed).randbytes(size_bytes)


LARGE = content(1, 5 * MIB + 11)


def place(body: bytes) -> str:
    return f"/api/runs/fed/weights/{blake3(body).hexdigest()}"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("home")) as running:
        running.coordinator.create("fed", "federated", max_update_bytes=16 * MIB)
        yield running


def request(method: str, body: bytes, sent: bytes = b"", *headers: str) -> bytes:
    lines = [f"{method} {place(body)} HTTP/1.1", "host: localhost", *headers, f"content-length: {len(sent)}", "", ""]
    return "\r\n".join(lines).encode() + sent


def answers(line: socket.socket, count: int) -> list[tuple[bytes, bytes]]:
    """Status line and body of so many answers."""
    found, got = [], b""
    file = line.makefile("rb")
    while len(found) < count:
        status = file.readline().strip()
        length = 0
        while (got := file.readline().strip()) != b"":
            name, _, value = got.lower().partition(b": ")
            length = int(value) if name == b"content-length" else length
        if status != b"HTTP/1.1 100 Continue":
            found.append((status, file.read(length)))
    return found


# -- paced, never reset ------------------------------------------------------------------------------------------------


def test_many_at_once_beyond_the_limit_of_bytes_are_slowed_down_and_none_is_sent_away(tmp_path: Path) -> None:
    """What comes of all of them with their heads is three times what one address may send at once."""
    limits = {"bytes_per_s": 4 * MIB, "burst_bytes": MIB}
    with live(tmp_path, limits=limits) as running, ExitStack() as stack:
        running.coordinator.create("fed", "federated")
        bodies = [content(seed, 100_000) for seed in range(30)]
        connect = partial(socket.create_connection, ("127.0.0.1", running.port), timeout=PATIENCE_S)
        lines = [stack.enter_context(connect()) for _ in bodies]
        for line, body in zip(lines, bodies, strict=True):
            line.sendall(request("PUT", body, body) + request("GET", body))
        for line, body in zip(lines, bodies, strict=True):
            created, got = answers(line, 2)
            assert created[0] == b"HTTP/1.1 201 Created"
            assert got == (b"HTTP/1.1 200 OK", body)


def test_a_pace_is_kept_both_ways_and_costs_nobody_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[tuple[str, int]] = []
    owes_us = Pace.owes_us

    def noted(pace: Pace, identity: str, size_bytes: int) -> int:
        wait_us = owes_us(pace, identity, size_bytes)
        waited.append((identity, wait_us))
        return wait_us

    monkeypatch.setattr(Pace, "owes_us", noted)
    limits = {"weights_bytes_per_s": 20 * MIB}
    http = {"request_timeout_s": 0.5}
    with live(tmp_path, limits=limits, http=http, access={"tokens": "required"}) as running:
        running.coordinator.create("fed", "federated")
        token = Authority.open(tmp_path).new_token(Role.OPERATOR)
        headers = {"authorization": f"Bearer {token}"}
        assert running.http.put(place(LARGE), content=LARGE, headers=headers).status_code == 201
        upload_us = sum(wait_us for _, wait_us in waited)
        assert upload_us > 0, "it was slowed down"
        waited.clear()
        assert running.http.get(place(LARGE), headers=headers).content == LARGE
        assert sum(wait_us for _, wait_us in waited) > 0
        assert len({identity for identity, _ in waited}) == 1, "by the token, not by the address"
        assert "127.0.0.1" not in waited[0][0]


def session(running: Live, member: str) -> str:
    """The token of a participant that has joined."""
    calls, identity = (
        FederatedCalls(running.coordinator._open().service),
        Identity(Role.MEMBER, "*", "", "one for all", 9),
    )
    key, nonce, challenge = MemberKey.create(), secrets.token_bytes(16), calls.challenge()
    proof = challenge + key.sign(signed_by_joiner(challenge, "fed", member, 0, nonce))
    joined = running.coordinator._wait(
        calls.rendezvous(identity, "fed", ParticipantJoined(member, 0, nonce, key.public, proof, {}, True))
    )
    assert isinstance(joined, Entered)
    return joined.token


def stalled(port: int, token: str, body: bytes, who: str) -> socket.socket:
    """An upload of which some is written, and does not go on."""
    head = f"PUT {place(body)}{who} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n"
    line = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    line.sendall(head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body[: PIECE_BYTES + 1000])
    return line


@pytest.mark.parametrize("sessions", [False, True])
def test_a_member_that_holds_many_transfers_does_not_keep_another_waiting(
    sessions: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the token of a role, and by the session token: many participants may share an address."""
    monkeypatch.setattr(transfers, "MAX_AT_ONCE", 4)
    with live(tmp_path, access={"tokens": "required"}) as running:
        running.coordinator.create("fed", "federated")
        authority = Authority.open(tmp_path)
        greedy, modest = authority.new_token(Role.OPERATOR), authority.new_token(Role.OPERATOR)
        who = ["", ""]
        if sessions:
            greedy, modest = session(running, "p1"), session(running, "p2")
            who = ["?member=p1&incarnation=1", "?member=p2&incarnation=1"]
        lines = [stalled(running.port, greedy, content(seed, 2 * PIECE_BYTES), who[0]) for seed in range(8)]
        try:
            folder = tmp_path / "objects"
            until(lambda: len(list(folder.rglob("put-*"))) == 2, "it has half of the turns")
            headers = {"authorization": f"Bearer {modest}"}
            for seed in range(20, 23):
                body = content(seed, 100_000)
                assert running.http.put(place(body) + who[1], content=body, headers=headers).status_code == 201
                assert running.http.get(place(body) + who[1], headers=headers).content == body
            assert len(list(folder.rglob("put-*"))) == 2, "and all of its own are still there"
        finally:
            for line in lines:
                line.close()


# -- durable -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_an_upload_is_on_disk_before_it_is_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    fsync, synced, may = os.fsync, threading.Event(), threading.Event()
    seen: list[tuple[str, int]] = []

    def watched(descriptor: int) -> None:
        status = os.fstat(descriptor)
        if threading.current_thread().name.startswith("quoracy-weights"):
            kind = "folder" if stat.S_ISDIR(status.st_mode) else "file"
            seen.append((kind, status.st_size if kind == "file" else 0))
            if kind == "file":
                synced.set()
                assert may.wait(PATIENCE_S)
        fsync(descriptor)

    with live(tmp_path) as running, ThreadPoolExecutor(1) as pool:
        running.coordinator.create("fed", "federated")
        body = content(3, 2 * MIB)
        monkeypatch.setattr(os, "fsync", watched)
        headers = {"upload-offset": "0", "upload-length": str(len(body))} if method == "PATCH" else {}
        answer = pool.submit(running.http.request, method, place(body), content=body, headers=headers)
        assert synced.wait(PATIENCE_S)
        assert not answer.done(), "nobody was told before"
        may.set()
        assert answer.result(PATIENCE_S).status_code == 201
        assert seen.count(("file", len(body))) == 1, "once, when all of it was there"
        assert seen[-1] == ("folder", 0), "and then its name"


# -- on one connection -------------------------------------------------------------------------------------------------


def test_what_follows_an_upload_on_its_connection_is_understood(home: Live) -> None:
    """Its bytes go past the parser: exactly those, whether they come at once, bit by bit, or with the next request."""
    small, large = content(10, 1000), content(11, 3 * MIB)
    with socket.create_connection(("127.0.0.1", home.port), timeout=PATIENCE_S) as line:
        sent = request("PUT", large, large) + request("GET", large) + request("PUT", small, small)
        sender = threading.Thread(target=line.sendall, args=(sent + request("GET", small),))
        sender.start()
        found = answers(line, 4)
        sender.join(PATIENCE_S)
        assert [body for _, body in found] == [b"", large, b"", small]
        assert [status.split()[1] for status, _ in found] == [b"201", b"200", b"201", b"200"]
        other = content(12, 100_000)
        line.sendall(request("PUT", other, other, "expect: 100-continue"))
        line.sendall(request("GET", other, b"", "range: bytes=99990-"))
        created, ranged = answers(line, 2)
        assert created[0] == b"HTTP/1.1 201 Created"
        assert ranged == (b"HTTP/1.1 206 Partial Content", other[99_990:])


def test_what_cannot_be_kept_is_said_after_the_body_and_the_connection_goes_on(
    home: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_store: LocalObjects, upload: str, offset: int, piece: Any) -> int:
        raise ObjectsFull(f"no room for {len(piece)} bytes of {upload} at {offset}")

    with monkeypatch.context() as patched:
        patched.setattr(LocalObjects, "append", full)
        problem(home.http.put(place(LARGE), content=LARGE), 507, "objects_full")
    assert home.http.put(place(LARGE), content=LARGE).status_code in (200, 201)
    assert home.http.get(place(LARGE)).content == LARGE


def test_without_a_length_and_through_memory_it_is_the_same(home: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of a body whose length nobody said, and a store whose files the kernel cannot send."""
    body = content(13, 4 * MIB + 3)
    pieces = (body[at : at + 100_000] for at in range(0, len(body), 100_000))
    assert home.http.put(place(body), content=pieces).status_code == 201
    monkeypatch.setattr(Reading, "fileno", lambda _reading: -1)
    assert home.http.get(place(body)).content == body
    part = home.http.get(place(body), headers={"range": "bytes=1048575-3145729"})
    assert (part.status_code, part.content) == (206, body[1_048_575:3_145_730])


def test_with_tls_they_go_both_ways_as_well(tmp_path: Path) -> None:
    made = create_authority(tmp_path / "ca", ["localhost", "127.0.0.1"])
    tls = {"cert": str(made.server.cert), "key": str(made.server.key)}
    context = client_context(str(made.authority.cert))
    with live(tmp_path / "data", verify=context, tls=tls, access={"tokens": "required"}) as running:
        running.coordinator.create("fed", "federated")
        token = Authority.open(tmp_path / "data").new_token(Role.OPERATOR)
        headers = {"authorization": f"Bearer {token}"}
        assert running.http.put(place(LARGE), content=LARGE, headers=headers).status_code == 201
        assert running.http.get(place(LARGE), headers=headers).content == LARGE
        problem(running.http.put(place(LARGE), content=LARGE[:-1], headers=headers), 422, "digest_mismatch")


def test_a_reader_that_goes_away_or_stops_leaves_its_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfers, "MAX_AT_ONCE", 2)
    with live(tmp_path, http={"request_timeout_s": 0.4}) as running:
        running.coordinator.create("fed", "federated", max_update_bytes=64 * MIB)
        body = content(14, 40 * MIB)
        assert running.http.put(place(body), content=body).status_code == 201
        stops = socket.create_connection(("127.0.0.1", running.port), timeout=PATIENCE_S)
        stops.sendall(request("GET", body))
        assert stops.recv(100).startswith(b"HTTP/1.1 200 OK")
        assert running.http.get(place(body)).content == body, "it waited until the other was given up"
        stops.close()
        with socket.create_connection(("127.0.0.1", running.port), timeout=PATIENCE_S) as leaves:
            leaves.sendall(request("GET", body))
            leaves.recv(100)
        assert running.http.get(place(body)).content == body


def test_what_a_thread_was_given_is_its_own_until_it_is_done(tmp_path: Path) -> None:
    """Also if the request is cancelled: memory and descriptors that are used again would be somebody else's."""
    shelf, begun, may = Shelf(f"file://{tmp_path}"), threading.Event(), threading.Event()

    def work(_objects: Objects) -> None:
        begun.set()
        assert may.wait(PATIENCE_S)

    async def cancelled() -> None:
        loop = asyncio.get_running_loop()
        doing = loop.create_task(shelf.do(work))
        assert await loop.run_in_executor(None, begun.wait, PATIENCE_S)
        doing.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        assert not doing.done()
        may.set()
        with pytest.raises(asyncio.CancelledError):
            await doing
        await shelf.close()

    asyncio.run(cancelled())


# -- few turns, few copies ---------------------------------------------------------------------------------------------


def sent_at_once(port: int, method: str, path: str, body: bytes, *headers: str, halves: bool = False) -> int:
    """Head and body in one go, so that they are read together; ``halves``: only half of the body, and the other when
    the server has begun with it. Returns the status."""
    lines = [
        f"{method} {path} HTTP/1.1",
        "host: localhost",
        f"content-length: {len(body)}",
        "connection: close",
        *headers,
    ]
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as line:
        first = len(body) // 2 if halves else len(body)
        line.sendall("\r\n".join([*lines, "", ""]).encode() + body[:first])
        with line.makefile("rb") as answer:
            if halves:
                assert answer.readline().startswith(b"HTTP/1.1 100")
                assert answer.readline() == b"\r\n"
                line.sendall(body[first:])
            return int(answer.readline().split()[1])


@pytest.mark.parametrize("there", [False, True])
def test_what_fits_into_one_piece_is_put_in_one_turn(
    there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = content(1, 900_000)
    with live(tmp_path) as running:
        running.coordinator.create("fed", "federated")
        if there:
            assert running.http.put(place(body), content=body).status_code == 201
        turns: list[object] = []
        do = Shelf.do

        async def counted(self: Shelf, work: Any) -> Any:
            turns.append(work)
            return await do(self, work)

        monkeypatch.setattr(Shelf, "do", counted)
        assert running.http.put(place(body), content=body).status_code == (200 if there else 201)
        assert len(turns) == 1
        assert running.http.get(place(body)).content == body


def test_a_large_body_does_not_pass_through_the_parser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[int] = []
    on_body = Line.on_body
    monkeypatch.setattr(Line, "on_body", lambda self, body: (parsed.append(len(body)), on_body(self, body))[1])
    with live(tmp_path) as running:
        running.coordinator.create("fed", "federated")
        for seed in range(5):
            body = content(seed, 1_000_000)
            assert sent_at_once(running.port, "PUT", place(body), body) == 201
            assert running.http.get(place(body)).content == body
    assert sum(parsed) == 0


def test_what_nobody_takes_as_it_is_passes_through_the_parser(tmp_path: Path) -> None:
    """A part of an upload is looked at before it is taken, and JSON is taken as a whole."""
    with live(tmp_path) as running:
        running.coordinator.create("fed", "federated")
        body = content(9, 1_000_000)
        told = ("upload-offset: 0", f"upload-length: {len(body)}")
        assert sent_at_once(running.port, "PATCH", place(body), body, *told) == 201
        assert running.http.get(place(body)).content == body
        wish = b'{"run": "large", "label": "%b"}' % (b"x" * 100_000)
        json_body = "content-type: application/json"
        assert sent_at_once(running.port, "POST", "/api/runs", wish, json_body) in (400, 413)
        whole = b'{"run": "small", %b "kind": "cluster"}' % (b" " * 40_000)
        assert sent_at_once(running.port, "POST", "/api/runs", whole, json_body) == 201
        begun = b'{"run": "halved", %b "kind": "cluster"}' % (b" " * 40_000)
        assert (
            sent_at_once(running.port, "POST", "/api/runs", begun, json_body, "expect: 100-continue", halves=True)
            == 201
        )


def test_a_body_behind_a_head_that_is_refused_harms_nobody(tmp_path: Path) -> None:
    with live(tmp_path) as running:
        running.coordinator.create("fed", "federated")
        body = content(3, 1_000_000)
        assert sent_at_once(running.port, "PUT", "/api/runs/nowhere/weights/" + "0" * 64, body) == 404
        assert sent_at_once(running.port, "PUT", place(body), content(4, 1_000_000)) == 422
        assert running.http.get("/livez").status_code == 200

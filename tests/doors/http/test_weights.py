"""Weights through the HTTP door: streamed, ranged, gone on with, and never other bytes than the digest names."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import httpx
import pytest
from blake3 import blake3
from tests.doors.http.live import Live, live, problem, raw
from tests.e2e.command import until

from quoracy.doors.auth import Authority, Role
from quoracy.doors.http.intake import PIECE_BYTES
from quoracy.hosts.keys import Keys
from quoracy.objects import LocalObjects

BYTES = random.Random(7).randbytes(3 * 1024 * 1024 + 17)
DIGEST = blake3(BYTES).hexdigest()
PLACE = f"/api/runs/fed/weights/{DIGEST}"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path) as running:
        running.coordinator.create("fed", "federated", max_update_bytes=8 * 1024 * 1024)
        running.coordinator.create("demo")
        yield running


def test_what_is_put_can_be_got_whole_and_in_part(home: Live) -> None:
    assert home.http.put(PLACE, content=BYTES).status_code == 201
    assert home.http.put(PLACE, content=BYTES).status_code == 200
    got = home.http.get(PLACE)
    assert (got.status_code, got.content) == (200, BYTES)
    assert got.headers["etag"] == f'"{DIGEST}"'
    assert home.http.get(PLACE, headers={"if-none-match": got.headers["etag"]}).status_code == 304
    head = home.http.head(PLACE)
    assert (head.headers["content-length"], head.content) == (str(len(BYTES)), b"")
    for wanted, part in (
        ("bytes=0-0", BYTES[:1]),
        ("bytes=2000000-", BYTES[2_000_000:]),
        ("bytes=-5", BYTES[-5:]),
        ("bytes=10-99999999", BYTES[10:]),
    ):
        got = home.http.get(PLACE, headers={"range": wanted})
        assert (got.status_code, got.content) == (206, part), wanted
    assert got.headers["content-range"] == f"bytes 10-{len(BYTES) - 1}/{len(BYTES)}"
    assert home.http.get(PLACE, headers={"range": "bytes=5-6", "if-range": '"other"'}).status_code == 200
    refused = home.http.get(PLACE, headers={"range": f"bytes={len(BYTES)}-"})
    problem(refused, 416, "no_such_range")
    assert refused.headers["content-range"] == f"bytes */{len(BYTES)}"


def test_other_bytes_than_the_digest_names_are_not_kept(home: Live) -> None:
    problem(home.http.put(PLACE, content=BYTES[:-1]), 422, "digest_mismatch")
    problem(home.http.get(PLACE), 404, "object_missing")
    assert "blake3" in problem(home.http.put(PLACE, content=b""), 422, "digest_mismatch")["fix"]
    assert home.http.put(PLACE, content=BYTES).status_code == 201


def parts(home: Live, offset: int, size: int, length: int = len(BYTES)) -> httpx.Response:
    headers = {"upload-offset": str(offset), "upload-length": str(length)}
    return home.http.patch(PLACE, content=BYTES[offset : offset + size], headers=headers)


def test_an_upload_goes_on_where_it_was_interrupted(home: Live) -> None:
    first = parts(home, 0, 1_000_000)
    assert (first.status_code, first.headers["upload-offset"]) == (204, "1000000")
    head = home.http.head(PLACE)
    assert (head.status_code, head.headers["upload-offset"]) == (204, "1000000")
    problem(parts(home, 999_999, 5), 409, "upload_offset")
    lost = b"PATCH %b HTTP/1.1\r\nhost: localhost\r\nupload-offset: 1000000\r\nupload-length: %d\r\n" % (
        PLACE.encode(), len(BYTES),
    )  # fmt: skip
    with closing(HTTPConnection("127.0.0.1", home.port)) as line:
        line.request("GET", "/livez")
        line.getresponse().read()  # it is let in: one that is gone before that is nobody's
        assert line.sock is not None
        line.sock.sendall(lost + b"content-length: 2000000\r\n\r\n" + BYTES[1_000_000:2_500_000])
    until(lambda: int(home.http.head(PLACE).headers["upload-offset"]) > 1_000_000, "what came is kept")

    def goes_on() -> bool:
        """What was sent before the connection ended may still come in: then this one is too early, and looks again."""
        there = int(home.http.head(PLACE).headers["upload-offset"])
        answer = parts(home, there, len(BYTES))
        assert answer.status_code in (201, 409)
        return answer.status_code == 201

    until(goes_on, "the rest is taken")
    assert home.http.get(PLACE).content == BYTES
    assert "upload-offset" not in home.http.head(PLACE).headers


@pytest.mark.parametrize(("offset", "content"), [(5, b""), (5, b"x"), (len(BYTES), b"")])
def test_a_part_of_an_upload_that_nobody_began_is_refused(home: Live, offset: int, content: bytes) -> None:
    """Also one without bytes, for which there is nothing to be written."""
    headers = {"upload-offset": str(offset), "upload-length": str(len(BYTES))}
    refused = home.http.patch(PLACE, content=content, headers=headers)
    problem(refused, 409, "upload_offset")
    assert refused.headers["upload-offset"] == "0"
    problem(home.http.get(PLACE), 404, "object_missing")


def test_what_is_there_is_not_answered_with_other_bytes(home: Live) -> None:
    """Whoever sends the wrong file is told so, whether the right one is there or not."""
    assert home.http.put(PLACE, content=BYTES).status_code == 201
    for other in (b"", BYTES[1:], BYTES + b"x"):
        problem(home.http.put(PLACE, content=other), 422, "digest_mismatch")
    assert home.http.put(PLACE, content=BYTES).status_code == 200
    assert home.http.get(PLACE).content == BYTES


def test_an_answer_without_a_body_has_no_media_type(home: Live) -> None:
    for answer in (parts(home, 0, 5), home.http.put(PLACE, content=BYTES), home.http.put(PLACE, content=BYTES)):
        assert answer.is_success
        assert (answer.content, "content-type" in answer.headers) == (b"", False)
    assert answer.headers["etag"] == f'"{DIGEST}"'


def test_what_is_too_large_is_refused_before_it_is_read(home: Live) -> None:
    head = b"PUT %b HTTP/1.1\r\nhost: localhost\r\ncontent-length: 20000009\r\n\r\n" % PLACE.encode()
    assert b"object_too_large" in raw(home.port, head, read_all=False)
    assert "max_update_bytes" in problem(parts(home, 0, 5, length=99_999_999), 413, "object_too_large")["fix"]
    assert "1099511627776" in problem(parts(home, 0, 5, length=2**40 + 1), 400, "malformed")["fix"]
    chunked = (BYTES for _ in range(3))
    problem(home.http.put(PLACE, content=chunked), 413, "object_too_large")


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/api/runs/fed/weights/nothex", 400, "malformed"),
        (f"/api/runs/none/weights/{DIGEST}", 404, "unknown_run"),
        (f"/api/runs/demo/weights/{DIGEST}", 422, "wrong_kind"),
        (f"/api/runs/fed/weights/{'0' * 64}", 404, "object_missing"),
        ("/api/runs/fed/weights/3/global", 404, "object_missing"),
        ("/api/runs/fed/weights/x/global", 400, "malformed"),
        (f"/api/runs/fed/weights/{2**31 + 1}/global", 400, "malformed"),
    ],
)
def test_what_is_not_there_is_told(home: Live, path: str, status: int, code: str) -> None:
    problem(home.http.get(path), status, code)


def test_a_patch_without_its_headers_is_told_what_is_missing(home: Live) -> None:
    assert "upload-offset" in problem(home.http.patch(PLACE, content=b"x"), 400, "malformed")["detail"]


def test_operators_bring_models_and_viewers_only_look(tmp_path: Path) -> None:
    with live(tmp_path, access={"tokens": "required"}) as running:
        running.coordinator.create("fed", "federated")
        authority = Authority.open(tmp_path)
        tokens = {role: authority.new_token(role) for role in Role}
        other = authority.new_token(Role.MEMBER, run="another")

        def put(token: str) -> httpx.Response:
            return running.http.put(PLACE, content=BYTES, headers={"authorization": f"Bearer {token}"})

        problem(running.http.get(PLACE), 401, "bad_token")
        problem(put(tokens[Role.VIEWER]), 403, "forbidden")
        problem(put(other), 403, "forbidden")
        assert "session token" in problem(put(tokens[Role.MEMBER]), 403, "forbidden")["fix"]
        assert put(tokens[Role.OPERATOR]).status_code == 201
        assert put(tokens[Role.ADMIN]).status_code == 200
        seen = running.http.get(PLACE, headers={"authorization": f"Bearer {tokens[Role.VIEWER]}"})
        assert seen.content == BYTES
        foreign = {"authorization": f"Bearer {other}"}
        problem(running.http.get(PLACE, headers=foreign), 403, "forbidden")


def test_names_lead_to_what_they_name(home: Live, tmp_path: Path) -> None:
    store = LocalObjects(str(tmp_path / "objects"))
    keys = Keys("fed")
    store.put(keys.blob(DIGEST), BYTES)
    store.alias(keys.blob(DIGEST), keys.model(4))
    store.alias(keys.blob(DIGEST), keys.update(3, "p1"))
    assert home.http.get("/api/runs/fed/weights/4/global").content == BYTES
    assert home.http.get("/api/runs/fed/weights/3/p1", headers={"range": "bytes=0-9"}).content == BYTES[:10]


def test_whoever_sends_too_fast_is_read_more_slowly(tmp_path: Path) -> None:
    """The limit is half of what comes: it takes longer, and nobody is sent away."""
    limits = {"bytes_per_s": 2 * 1024 * 1024, "burst_bytes": 2 * 1024 * 1024}
    with live(tmp_path, limits=limits, http={"request_timeout_s": 0.4}) as running:
        running.coordinator.create("fed", "federated")
        assert running.http.put(PLACE, content=BYTES).status_code == 201
        assert running.http.get(PLACE).content == BYTES


def test_an_upload_that_is_given_up_leaves_nothing(home: Live, tmp_path: Path) -> None:
    head = b"PUT %b HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2000000\r\n\r\n" % PLACE.encode()
    folder = tmp_path / "objects"
    with socket.create_connection(("127.0.0.1", home.port)) as line:
        line.sendall(head + bytes(PIECE_BYTES + 1000))
        until(lambda: list(folder.rglob("put-*")), "it has begun")
    until(lambda: not list(folder.rglob("put-*")), "it is gone")

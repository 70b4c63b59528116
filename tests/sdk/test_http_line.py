"""Requests over HTTP: connections are kept, one that was closed meanwhile costs nobody a request, and what an answer
says about coming again is believed."""

from __future__ import annotations

import json
import socket
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPConnection
from typing import Any

import pytest
from tests.sdk.live import PATIENCE_S, wait_for

from quoracy.core.errors import ObjectCorrupt, ObjectMissing, ObjectsError, ObjectsUnreachable, Refused
from quoracy.sdk.client.http import KEPT, HttpLine, failed

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
LAST = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok"
HUNG_UP = b""
"""The connection ends, and nothing was said."""


class Door:
    """Answers each request with what comes next, and counts."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.next: deque[bytes] = deque()
        self.connections = 0
        self.heard: list[str] = []
        """Methods."""
        self.hold = threading.Event()
        self.hold.set()
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._serve)]
        self._threads[0].start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                self._open.append(client)
                self._threads.append(threading.Thread(target=self._speak, args=(client,)))
                self._threads[-1].start()

    def _speak(self, client: socket.socket) -> None:
        with client, client.makefile("rb") as reader, suppress(OSError):
            while head := reader.readline():
                length = 0
                while (header := reader.readline().strip().lower()) != b"":
                    name, _, value = header.partition(b":")
                    length = int(value) if name == b"content-length" else length
                reader.read(length)
                self.heard.append(head.split()[0].decode())
                self.hold.wait(PATIENCE_S)
                said = self.next.popleft() if self.next else OK
                if not said:
                    return
                client.sendall(said)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for client in self._open:
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE_S)


@pytest.fixture
def door() -> Iterator[Door]:
    opened = Door()
    yield opened
    opened.close()


@pytest.fixture
def line(door: Door) -> Iterator[HttpLine]:
    opened = HttpLine(door.url, "run", str, None)
    yield opened
    opened.close()


def ask(line: HttpLine, method: str = "GET", body: bytes | None = None) -> bytes:
    def send(connection: HTTPConnection) -> bool:
        connection.send(body or b"")
        return True

    headers = {} if body is None else {"Content-Length": str(len(body))}
    with line.asked(method, "path", "something", headers, None if body is None else send) as answer:
        return answer.read()


def test_one_connection_does_for_all(door: Door, line: HttpLine) -> None:
    assert [ask(line), ask(line, "PUT", b"12345"), ask(line, "PATCH", b"6"), ask(line)] == [b"ok"] * 4
    assert door.heard == ["GET", "PUT", "PATCH", "GET"]
    assert door.connections == 1


def test_threads_that_ask_at_once_have_one_each_and_a_few_are_kept(door: Door, line: HttpLine) -> None:
    def at_once(count: int) -> None:
        door.hold.clear()
        threads = [threading.Thread(target=ask, args=(line,)) for _ in range(count)]
        before = len(door.heard)
        for thread in threads:
            thread.start()
        wait_for(lambda: len(door.heard) == before + count, "all of them have asked")
        door.hold.set()
        for thread in threads:
            thread.join(PATIENCE_S)

    at_once(KEPT + 2)
    assert door.connections == KEPT + 2
    assert len(line._kept) == KEPT
    at_once(KEPT)
    assert door.connections == KEPT + 2, "those that were kept did"


def test_one_that_the_server_will_close_is_not_kept(door: Door, line: HttpLine) -> None:
    door.next.append(LAST)
    assert ask(line) == b"ok"
    assert line._kept == []


def test_one_whose_answer_was_not_read_to_its_end_is_not_kept(door: Door, line: HttpLine) -> None:
    with line.asked("GET", "path", "something") as answer:
        answer.read(1)
    assert line._kept == []
    assert ask(line) == b"ok"


@pytest.mark.parametrize(("method", "body"), [("GET", None), ("HEAD", None), ("PUT", b"12345")])
def test_a_kept_one_that_was_closed_meanwhile_is_replaced_and_the_request_repeated(
    door: Door, line: HttpLine, method: str, body: bytes | None
) -> None:
    ask(line)
    door.next.append(HUNG_UP)
    door.next.append(OK if method != "HEAD" else b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
    ask(line, method, body)
    assert door.heard == ["GET", method, method]
    assert door.connections == 2
    ask(line)
    assert door.connections == 2, "and the new one is kept"


def test_what_does_harm_when_it_is_repeated_is_not(door: Door, line: HttpLine) -> None:
    ask(line)
    door.next.append(HUNG_UP)
    with pytest.raises(ObjectsUnreachable):
        ask(line, "PATCH", b"6")
    assert door.heard == ["GET", "PATCH"]


def test_a_new_one_that_is_closed_is_trouble_and_so_is_a_second(door: Door, line: HttpLine) -> None:
    door.next.append(HUNG_UP)
    with pytest.raises(ObjectsUnreachable):
        ask(line)
    assert door.heard == ["GET"]
    ask(line)
    door.next.extend((HUNG_UP, HUNG_UP))
    with pytest.raises(ObjectsUnreachable):
        ask(line)
    assert door.heard == ["GET"] * 4


def test_an_answer_that_began_is_not_asked_for_again(door: Door, line: HttpLine) -> None:
    ask(line)
    door.next.append(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\nconnection: close\r\n\r\nhalf")
    door.next.append(HUNG_UP)
    broken = line.asked("GET", "path", "something")
    broken.__enter__()
    with pytest.raises(ObjectsUnreachable):
        broken.__exit__(ConnectionResetError, ConnectionResetError("in the middle of it"), None)
    assert door.heard == ["GET", "GET"]


def test_one_that_is_seen_to_be_closed_is_not_even_tried(door: Door, line: HttpLine) -> None:
    ask(line)
    (kept,) = line._kept
    kept.sock.shutdown(socket.SHUT_RDWR)
    assert ask(line, "PATCH", b"6") == b"ok"
    assert door.connections == 2


def test_a_forked_process_leaves_the_connections_of_its_parent_alone(door: Door, line: HttpLine) -> None:
    ask(line)
    line._process = -1
    ask(line)
    assert door.connections == 2


def test_when_the_door_has_moved_nothing_of_the_old_place_is_used(door: Door) -> None:
    line = HttpLine(door.url, "run", str, None, find=lambda: door.url)
    ask(line)
    door.next.append(HUNG_UP)
    with pytest.raises(ObjectsUnreachable):
        ask(line, "PATCH", b"6")
    ask(line)
    assert door.connections == 2
    line.close()


def test_after_it_was_closed_nothing_is_kept(door: Door, line: HttpLine) -> None:
    ask(line)
    line.close()
    assert line._kept == []
    ask(line)
    assert line._kept == []


# -- what went wrong -------------------------------------------------------------------------------------------------


def wrong(door: Door, line: HttpLine, status: int, body: Any = None, *headers: str) -> ObjectsError | Refused:
    content = b"<html>" if body is None else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} No", f"content-length: {len(content)}", *headers]
    door.next.append("\r\n".join([*lines, "", ""]).encode() + content)
    with line.asked("GET", "path", "something") as answer:
        return failed(answer, "GET", "something", "the key")


def test_what_the_body_says_about_coming_again_counts_more_than_the_status(door: Door, line: HttpLine) -> None:
    later = wrong(door, line, 409, {"code": "of_tomorrow", "retry": "later", "retry_after_s": 2.5}, "Retry-After: 3")
    assert isinstance(later, ObjectsUnreachable)
    assert later.retry_after_s == 2.5
    over = wrong(door, line, 503, {"code": "store_lost", "retry": "over", "detail": "gone", "fix": "stop"})
    assert isinstance(over, Refused)
    assert (over.code, over.refusal.why, over.refusal.fix) == ("store_lost", "gone", "stop")


def test_what_something_between_says_is_judged_by_its_status(door: Door, line: HttpLine) -> None:
    busy = wrong(door, line, 502, None, "Retry-After: 7")
    assert isinstance(busy, ObjectsUnreachable)
    assert busy.retry_after_s == 7.0
    dated = wrong(door, line, 503, None, "Retry-After: Fri, 31 Dec 1999 23:59:59 GMT")
    assert isinstance(dated, ObjectsUnreachable)
    assert dated.retry_after_s is None
    denied = wrong(door, line, 403)
    assert isinstance(denied, Refused)
    assert denied.code == "forbidden"
    strange = wrong(door, line, 451)
    assert isinstance(strange, Refused)
    assert strange.code == "config"


def test_what_is_not_there_and_what_is_damaged_have_errors_of_their_own(door: Door, line: HttpLine) -> None:
    assert isinstance(wrong(door, line, 404), ObjectMissing)
    damaged = wrong(door, line, 500, {"code": "object_corrupt", "retry": "changed", "detail": "torn"})
    assert isinstance(damaged, ObjectCorrupt)
    assert damaged.key == "the key"

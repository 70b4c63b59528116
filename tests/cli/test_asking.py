"""Questions to a coordinator that is not there, is none, is deaf, or sends people on: named, and not waited for."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from quoracy.coordinator import Coordinator
from quoracy.core.errors import ConfigError, QuoracyError, Refusal, Refused
from quoracy.sdk.client.ask import Asker
from quoracy.sdk.client.errors import Unreachable
from quoracy.trust import server_context
from quoracy.trust.ca import create_authority
from quoracy.wire.frames import FrameReader, frame
from quoracy.wire.messages import Ask, Goodbye, Greet, Greeted, Replied, to_server

Behave = Callable[[socket.socket], None]
GREETED = Greeted(2, bytes(32), "quoracy", "admin")


@contextlib.contextmanager
def somebody(behave: Behave) -> Iterator[str]:
    """Who answers at that address, in this way."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    sock, _ = listener.accept()
                    with sock, contextlib.suppress(OSError):
                        behave(sock)

        threading.Thread(target=serve, daemon=True).start()
        yield f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def saying(*words: bytes) -> Behave:
    """Says this, whatever it hears, and then hangs up when the other side does."""

    def behave(sock: socket.socket) -> None:
        sock.sendall(b"".join(words))
        while sock.recv(65536):
            pass

    return behave


def answering(answer: Callable[[Ask], Any]) -> Behave:
    """A coordinator of sorts."""

    def behave(sock: socket.socket) -> None:
        reader = FrameReader()
        while chunk := sock.recv(65536):
            for body in reader.feed(chunk):
                message = to_server.read(body)
                if isinstance(message, Greet):
                    sock.sendall(frame(GREETED))
                elif isinstance(message, Ask):
                    sock.sendall(frame(answer(message)))

    return behave


def deaf(sock: socket.socket) -> None:
    while sock.recv(65536):
        pass


def hangs_up(sock: socket.socket) -> None:
    sock.recv(65536)


def failing(url: str, timeout_s: float = 20.0, **how: Any) -> QuoracyError:
    with pytest.raises(QuoracyError) as caught, Asker(url, timeout_s=timeout_s, **how) as asker:
        asker.ask("status")
    return caught.value


# -- answers --------------------------------------------------------------------------------------------------------


def test_a_real_coordinator_answers_and_refuses(tmp_path: Path) -> None:
    with Coordinator(folder=tmp_path) as running, Asker(running.url) as asker:
        assert asker.ask("create", "demo", config={"barrier_min": 3})["run"] == "demo"
        assert [shown["run"] for shown in asker.ask("runs")] == ["demo"]
        with pytest.raises(Refused, match="unknown_run"):
            asker.ask("show", "other")
        assert asker.ask("status")["serving"] is True, "the same connection, after a refusal"


def test_a_reply_to_another_question_is_not_taken_for_ours() -> None:
    def answer(ask: Ask) -> Any:
        return Replied(ask.number, "right")

    def behave(sock: socket.socket) -> None:
        sock.sendall(frame(GREETED) + frame(Replied(77, "wrong")))
        answering(answer)(sock)

    with somebody(behave) as url, Asker(url) as asker:
        assert [asker.ask("status"), asker.ask("status")] == ["right", "right"]


def test_a_coordinator_that_was_started_again_is_found_again(tmp_path: Path) -> None:
    with Coordinator(folder=tmp_path) as first:
        asker = Asker(first.url)
        asker.ask("status")
        port = int(first.url.rpartition(":")[2])
    with pytest.raises(QuoracyError):
        asker.ask("status")
    with Coordinator(folder=tmp_path, port=port):
        assert asker.ask("status")["serving"] is True
    asker.close()


def test_of_several_addresses_the_first_that_can_answer_does() -> None:
    asked: list[str] = []

    def follower(ask: Ask) -> Any:
        asked.append("follower")
        return Replied(ask.number, None, Refusal("not_serving", "another host serves", "ask there"))

    def server(ask: Ask) -> Any:
        asked.append("server")
        return Replied(ask.number, "yes")

    with somebody(answering(follower)) as one, somebody(answering(server)) as two:
        with Asker(f"tcp://127.0.0.1:1,{one},{two}") as asker:
            assert [asker.ask("create"), asker.ask("create")] == ["yes", "yes"]
        assert asked == ["follower", "server", "server"], "what worked is kept"
        with Asker(f"{one},tcp://127.0.0.1:1") as asker, pytest.raises(Refused, match="not_serving"):
            asker.ask("create")
        with Asker("tcp://127.0.0.1:1,127.0.0.1:2") as asker, pytest.raises(Unreachable, match=r"127\.0\.0\.1:2"):
            asker.ask("create")


# -- trouble --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("behave", "words"),
    [
        (hangs_up, "hung up without a greeting; if that server has TLS"),
        (saying(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "does not speak like a coordinator"),
        (saying(b"SSH-2.0-OpenSSH_9.6\r\n"), "does not speak like a coordinator"),
        (saying(b"\x00\x00\x00\x02\xc1\xc1"), "does not speak like a coordinator"),
        (saying(frame(Replied(1, "hi"))), "a greeting was answered with Replied"),
        (saying(b"\x15\x03\x03\x00\x02\x02\x46"), "if that server has TLS"),
    ],
)
def test_whoever_is_no_coordinator_is_noticed(behave: Behave, words: str) -> None:
    with somebody(behave) as url:
        error = failing(url)
    assert error.code == "unreachable"
    assert words in str(error)


@pytest.mark.parametrize("code", ["bad_token", "wrong_version", "too_fast", "draining"])
def test_a_goodbye_is_told_as_it_was_said(code: str) -> None:
    with somebody(saying(frame(Goodbye(Refusal(code, "because", "do that"))))) as url:
        error = failing(url)
    assert isinstance(error, Refused)
    assert error.refusal == Refusal(code, "because", "do that")


def test_an_answer_that_does_not_come_is_not_waited_for() -> None:
    began = time.monotonic()
    with somebody(deaf) as url:
        assert "did not answer within 0.3 s" in str(failing(url, 0.3))
    with somebody(answering(lambda _ask: GREETED)) as url:
        assert "did not answer within 0.3 s" in str(failing(url, 0.3))
    assert time.monotonic() - began < 20


def test_a_server_that_drips_is_not_waited_for_either() -> None:
    """Each byte comes in time; all of them together would not."""

    def drips(sock: socket.socket) -> None:
        for byte in frame(GREETED):
            sock.sendall(bytes([byte]))
            time.sleep(0.05)

    with somebody(drips) as url:
        assert "did not answer within 0.4 s" in str(failing(url, 0.4))


def test_a_name_server_that_takes_its_time_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    woken = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_more: woken.wait(60))
    assert "did not answer within 0.2 s" in str(failing("tcp://somewhere.example", 0.2))
    woken.set()


@pytest.mark.parametrize("url", ["tcp://" + "a" * 70 + ".invalid", "tcp://..", "tcp://[::1%nothing]:1"])
def test_what_is_no_name_is_named(url: str) -> None:
    error = failing(url)
    assert error.code in ("unreachable", "config")


def test_tls_on_one_side_only_is_named_with_the_other_scheme(tmp_path: Path) -> None:
    with Coordinator(folder=tmp_path / "runs") as running:
        port = running.url.rpartition(":")[2]
        error = failing(f"tcps://127.0.0.1:{port}", ca=create_authority(tmp_path / "tls", []).authority.cert)
        assert "tcp:// instead of tcps://" in str(error)


def test_a_certificate_of_a_stranger_is_not_believed(tmp_path: Path) -> None:
    theirs, ours = (create_authority(tmp_path / name, ["localhost"]) for name in ("theirs", "ours"))
    context = server_context(theirs.server.cert, theirs.server.key)

    def behave(sock: socket.socket) -> None:
        with context.wrap_socket(sock, server_side=True) as wrapped:
            wrapped.recv(1)

    with somebody(behave) as url:
        port = url.rpartition(":")[2]
        error = failing(f"tcps://localhost:{port}", ca=ours.authority.cert)
    assert error.code == "unreachable"
    assert "not believed" in str(error)
    assert "--ca FILE" in str(error)


@pytest.mark.parametrize(
    ("url", "how", "words"),
    [
        ("tcp://127.0.0.1:1", {"ca": "ca.pem"}, "tcps://"),
        ("tcps://127.0.0.1:1", {"ca": "/no/such/file"}, "cannot be read"),
        ("tcp://127.0.0.1:1", {"timeout_s": 0.0}, "more than 0 seconds"),
        ("udp://127.0.0.1:1", {}, "tcp://HOST:PORT"),
    ],
)
def test_bad_settings_are_named_before_anything_is_dialed(url: str, how: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Asker(url, **how)

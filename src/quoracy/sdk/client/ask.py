"""Questions to a coordinator, one at a time, by somebody who waits for the answer: the command line and scripts.

``Asker.ask`` connects if it has to, greets, asks, and reads the reply. It blocks, but never longer than ``timeout_s``,
whatever the other end or a name server does. After any trouble the connection is dropped and the next question dials
anew. A question that was sent is never sent again by itself: it may have been an order.
"""

from __future__ import annotations

import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from quoracy.core.errors import CATALOG, ConfigError, ProtocolError, Refusal, Refused, Retry
from quoracy.sdk.client.address import Address, parse_url
from quoracy.sdk.client.errors import Unreachable
from quoracy.version import __version__
from quoracy.wire.frames import FrameReader, frame
from quoracy.wire.messages import NEWEST, OLDEST, Ask, Goodbye, Greet, Greeted, Replied, to_client

TIMEOUT_S: Final = 10.0
MAX_REPLY_BYTES: Final = 64 * 1024 * 1024
"""A run with ten thousand workers is described in about four million bytes."""
ELSEWHERE: Final = frozenset(
    code
    for code, known in CATALOG.items()
    if known.retry is Retry.LATER and known.grpc in ("UNAVAILABLE", "RESOURCE_EXHAUSTED")
)
"""Refusals after which the next address of the URL is asked: nothing was done, and another may."""
_TLS_ALERT: Final = b"\x15\x03"
_NOT_SERVING: Final = "start it (quoracy serve), or correct the address"
_NO_TLS: Final = "if that server has no TLS, write tcp:// instead of tcps://"
_HAS_TLS: Final = "if that server has TLS, write tcps:// instead of tcp://"


class Asker:
    def __init__(
        self, url: str, *, token: str = "", ca: str | os.PathLike[str] | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        """Raises ConfigError. Nothing is dialed before the first question."""
        self._addresses, tls = parse_url(url)
        if ca is not None and not tls:
            raise ConfigError("ca", str(ca), "only used with TLS: write tcps:// instead of tcp://")
        if not 0 < timeout_s < 1e6:
            raise ConfigError("timeout", timeout_s, "more than 0 seconds")
        self._scheme = "tcps" if tls else "tcp"
        self._tls = _context(ca) if tls else None
        self._token = token
        self._timeout_s = timeout_s
        self._line: _Line | None = None
        self._number = 0

    def __enter__(self) -> Asker:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def ask(self, what: str, run: str = "", **arguments: Any) -> Any:
        """Raises Unreachable, or Refused with the code that the coordinator gave."""
        deadline_s = time.monotonic() + self._timeout_s
        refused: Refused | None = None
        tried: list[Unreachable] = []
        for address in [self._line.address] if self._line is not None else list(self._addresses):
            try:
                line = self._line or self._dial(address, deadline_s)
                return self._exchange(line, what, run, arguments, deadline_s)
            except Unreachable as error:
                tried.append(error)
            except Refused as error:
                if error.code not in ELSEWHERE:
                    raise
                self._prefer_another(address)
                refused = error
        if refused is not None:
            raise refused
        if len(tried) == 1:
            raise tried[0]
        raise Unreachable("; ".join(error.why for error in tried), _NOT_SERVING)

    def close(self) -> None:
        if self._line is not None:
            self._line.sock.close()
            self._line = None

    def _dial(self, address: Address, deadline_s: float) -> _Line:
        with _telling(f"{self._scheme}://{address}", self._timeout_s):
            line = _Line(address, _connect(address, self._tls, deadline_s), deadline_s)
            try:
                line.say(Greet(OLDEST, NEWEST, self._token, f"quoracy {__version__} (python)"), deadline_s)
                greeted = line.hear(deadline_s)
                if not isinstance(greeted, Greeted):
                    raise ProtocolError(f"a greeting was answered with {type(greeted).__name__}")
            except BaseException:
                line.sock.close()
                raise
        self._line = line
        return line

    def _exchange(self, line: _Line, what: str, run: str, arguments: dict[str, Any], deadline_s: float) -> Any:
        self._number += 1
        try:
            with _telling(f"{self._scheme}://{line.address}", self._timeout_s):
                line.say(Ask(self._number, what, run, arguments), deadline_s)
                while True:
                    replied = line.hear(deadline_s)
                    if isinstance(replied, Replied) and replied.number == self._number:
                        break
        except BaseException:
            self.close()
            raise
        if replied.refusal is not None:
            raise Refused(replied.refusal)
        return replied.value

    def _prefer_another(self, address: Address) -> None:
        """This one will not do: the next question begins with another, if there is one."""
        if len(self._addresses) > 1:
            self.close()
            self._addresses = [known for known in self._addresses if known != address] + [address]


def rounds_over(asker: Asker, run: str) -> list[dict[str, Any]]:
    """All rounds of a federated run that are over, page by page."""
    rows: list[dict[str, Any]] = []
    after: int | None = -1
    while after is not None:
        page = asker.ask("history", run, after=after)
        rows += page["rounds"]
        after = page["next"]
    return rows


def trainings_of(asker: Asker, run: str, participant: str) -> dict[str, Any]:
    """What one participant of a federated run reported of its trainings, page by page: as the question ``reports`` is
    answered, with all of its ``rounds``."""
    page = asker.ask("reports", run, member=participant)
    rows: list[dict[str, Any]] = page["rounds"]
    while page["next"] is not None:
        page = asker.ask("reports", run, member=participant, after=page["next"])
        rows += page["rounds"]
    return {**page, "rounds": rows}


class _Line:
    """One connection, and what came over it."""

    def __init__(self, address: Address, sock: socket.socket, deadline_s: float) -> None:
        self.address = address
        self.sock = sock
        self._reader = FrameReader(MAX_REPLY_BYTES)
        self._frames: list[bytes] = []
        self._heard = False
        sock.settimeout(_left_s(deadline_s))

    def say(self, message: Any, deadline_s: float) -> None:
        self.sock.settimeout(_left_s(deadline_s))
        self.sock.sendall(frame(message))

    def hear(self, deadline_s: float) -> Any:
        """The next message. Raises Refused for a goodbye, ProtocolError for what is none of ours."""
        while not self._frames:
            self.sock.settimeout(_left_s(deadline_s))
            chunk = self.sock.recv(256 * 1024)
            if not chunk:
                raise _HungUp(self._heard)
            if not self._heard and chunk.startswith(_TLS_ALERT):
                raise _HungUp(False)
            self._heard = True
            self._frames += self._reader.feed(chunk)
        message = to_client.read(self._frames.pop(0))
        if isinstance(message, Refusal):
            raise ProtocolError(message.why)
        if isinstance(message, Goodbye):
            raise Refused(message.refusal)
        return message


class _HungUp(Exception):
    def __init__(self, heard: bool) -> None:
        """``heard``: whether it had said anything before."""
        self.heard = heard


def _context(ca: str | os.PathLike[str] | None) -> ssl.SSLContext:
    from quoracy.trust import client_context  # brings all of cryptography; most questions need nothing of it

    return client_context(None if ca is None else os.fspath(ca))


def _connect(address: Address, tls: ssl.SSLContext | None, deadline_s: float) -> socket.socket:
    """Raises OSError."""
    error: OSError = OSError("the name leads to no address")
    for family, kind, protocol, _, place in _resolve(address, deadline_s):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(_left_s(deadline_s))
            sock.connect(place)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is None:
                return sock
            return tls.wrap_socket(sock, server_hostname=address.host)
        except OSError as failed:
            sock.close()
            error = failed
        except BaseException:
            sock.close()
            raise
    raise error


def _resolve(address: Address, deadline_s: float) -> list[Any]:
    """In a thread, because a name server may take its time and nobody can tell it how much."""
    outcome: list[Any] = []

    def look_up() -> None:
        try:
            outcome.append(socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            outcome.append(error)

    thread = threading.Thread(target=look_up, name="quoracy-names", daemon=True)
    thread.start()
    thread.join(_left_s(deadline_s))
    if not outcome:
        raise TimeoutError
    if isinstance(outcome[0], UnicodeError):
        raise OSError("that is no name of a machine")
    if isinstance(outcome[0], OSError):
        raise outcome[0]
    found: list[Any] = outcome[0]
    return found


def _left_s(deadline_s: float) -> float:
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


@contextmanager
def _telling(where: str, timeout_s: float) -> Iterator[None]:
    """Whatever the world does becomes one error that says where, what, and what to do about it."""
    try:
        yield
    except (Refused, Unreachable):
        raise
    except TimeoutError:
        raise Unreachable(f"{where} did not answer within {timeout_s:g} s", _NOT_SERVING) from None
    except ssl.SSLCertVerificationError as error:
        why = f"the certificate of {where} is not believed: {error.verify_message}"
        raise Unreachable(why, "name the authority that signed it with --ca FILE") from None
    except ssl.SSLError as error:
        raise Unreachable(f"no TLS connection to {where} ({error.reason or error})", _NO_TLS) from None
    except _HungUp as error:
        if error.heard:
            raise Unreachable(f"{where} hung up before it answered", "ask again in a while") from None
        raise Unreachable(f"{where} hung up without a greeting", _HAS_TLS) from None
    except ProtocolError as error:
        why = f"whoever answers at {where} does not speak like a coordinator: {error}"
        raise Unreachable(why, "correct the address") from None
    except socket.gaierror as error:
        raise Unreachable(f"{where}: {(error.strerror or 'no such name').lower()}", "correct the address") from None
    except OSError as error:
        raise Unreachable(f"{where}: {(error.strerror or str(error)).lower()}", _NOT_SERVING) from None

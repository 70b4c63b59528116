"""Journal, pulse and mailbox on PyTorch's TCPStore: for runs that share nothing but the store they have anyway.

What the store of torch 2.13 does; ``tests/stores/test_tcpstore_facts.py`` tries it out:

- It keeps everything in the memory of one process. Killed, it is empty when it comes back: see ``StoreLost``. Anybody
  who can reach it may read and write everything, so it belongs into a closed network.
- ``compare_set(key, "", value)`` sets if absent and returns what is stored. Of a key that is missing,
  ``compare_set(key, expected, value)`` returns ``expected`` and sets nothing, but wakes up those who wait for the key.
- ``compare_set``, ``add``, ``check`` and ``delete_key`` are answered; ``set``, ``append`` and ``multi_set`` are not, so
  they are not used.
- ``get`` and ``multi_get`` of a missing key block until it comes or the store's time is over. ``check`` does not. Of a
  key that is there, ``compare_set`` from a value that nobody stores to itself is a ``get`` that never blocks.
- ``wait`` holds the connection's lock: every other call over it waits too. When its time is over the connection is
  good, but torch prints two warnings. So it is given more time than it needs, and is woken up when its time is over.
- ``add`` on a value that is no number makes the server hang up, and so does a value over 8 MiB. Keys and values may
  hold any bytes. The empty value is stored, but who compares with it takes it for a missing one.
- A server that died is noticed at the next call. One that is merely silent never is: every call but ``wait`` blocks for
  ever, and so does dialling. Hence each connection has a thread of its own, and whoever calls waits only so long.
- Dialling looks up names, also that of a numeric address, and a resolver that does not answer costs 5 s; nothing else
  is wrong then. So dialling is given more time than an operation.
- A connection that failed stays failed. A new one has to be dialled, and who answers there may be another store.

When a connection is lost torch prints where in its own code it noticed; TORCH_CPP_LOG_LEVEL=ERROR keeps it quiet.

``python -m quorate.stores.tcpstore --port 29500`` runs such a server alone.
"""

from __future__ import annotations

import argparse
import atexit
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from concurrent.futures import wait as wait_for
from contextlib import suppress
from datetime import timedelta
from queue import SimpleQueue
from threading import Lock, Thread
from time import monotonic
from typing import Any, TypeVar
from urllib.parse import urlsplit
from weakref import WeakSet

from quorate.core.errors import ConfigError, OutcomeUnknown
from quorate.ports.keyvalue import Look, Unreachable
from quorate.stores.keyvalue import KeyValueJournal, KeyValueMailbox, KeyValuePulse
from quorate.stores.keyvalue.keys import checked_key, checked_value
from quorate.stores.keyvalue.session import PREFIX

SCHEME = "tcpstore"
TIMEOUT_S = 5.0
"""How long one operation may take before nobody is said to answer."""
DIAL_S = 15.0
"""Dialling, if an operation has less. A closed port is told at once all the same."""
EXIT_S = 3.0
"""How long the end of the process waits for connections that do not answer, if there are any."""
IDLE_WAITERS = 2
_SLICE_S = 1.0
"""``wait`` looks up this often, to see whether it was closed."""
_NOBODY = b"nobody stores this: " + secrets.token_bytes(16)

T = TypeVar("T")
Job = tuple[Callable[[Any], Any], "Future[Any]"]


def torch_distributed() -> Any:
    """The module, imported late: that takes a second, and most who run Quorate do not have it."""
    try:
        import torch.distributed
    except ImportError as error:
        fix = f"needs PyTorch, which is an extra: pip install 'quorate[torch]' ({error})"
        raise ConfigError("store", SCHEME, fix) from None
    return torch.distributed


_abandoned: WeakSet[Thread] = WeakSet()
"""Threads that wait for an answer nobody waits for any more."""


@atexit.register
def _see_off() -> None:
    """A thread that comes back from torch while the interpreter ends takes the whole process down with it."""
    deadline = monotonic() + EXIT_S
    for thread in list(_abandoned):
        thread.join(max(0.0, deadline - monotonic()))


class _Failed(Exception):
    """The connection is of no use any more."""


class _Line:
    """One connection, and the only thread that uses it. Whoever asks waits for the answer, but not for ever."""

    def __init__(self, host: str, port: int, timeout_s: float) -> None:
        self.good = True
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        try:  # torch would try for long and print pages; a closed port is seen at once like this
            socket.create_connection((host, port), timeout_s).close()
        except OSError as error:
            raise _Failed(str(error)) from None
        torch = torch_distributed()
        self._thread = Thread(target=self._work, args=(torch, host, port), name="quorate-tcpstore", daemon=True)
        self._thread.start()
        patience = timedelta(seconds=timeout_s / 2)  # so that torch gives up before whoever waits for it does
        self.call(lambda store: store.set_timeout(patience), max(DIAL_S, timeout_s))

    def call(self, ask: Callable[[Any], T], timeout_s: float) -> T:
        """Raises _Failed if there is no answer; then it may have been done nevertheless."""
        return self.result(self.begin(ask), timeout_s)

    def begin(self, ask: Callable[[Any], T]) -> Future[T]:
        future: Future[T] = Future()
        self._jobs.put((ask, future))
        return future

    def result(self, future: Future[T], timeout_s: float) -> T:
        try:
            return future.result(timeout_s)
        except FutureTimeout:
            self.good = False
            self.close()
            _abandoned.add(self._thread)
            raise _Failed(f"no answer within {timeout_s:g} s") from None

    def close(self) -> None:
        self._jobs.put(None)

    def _work(self, torch: Any, host: str, port: int) -> None:
        store, dial = None, timedelta(seconds=DIAL_S)
        while (job := self._jobs.get()) is not None:
            ask, future = job
            try:
                if not self.good:
                    raise _Failed("the connection was lost before")
                if store is None:
                    store = torch.TCPStore(host, port, is_master=False, wait_for_workers=False, timeout=dial)
                future.set_result(ask(store))
            except torch.DistError as error:
                self.good = False
                future.set_exception(_Failed(str(error).partition("\n")[0]))
            except Exception as error:  # whatever it is, it belongs to whoever asked
                future.set_exception(error)


class TcpStoreKeyValue:
    def __init__(self, host: str, port: int, *, timeout_s: float = TIMEOUT_S) -> None:
        self._address = (host, port)
        self._timeout_s = timeout_s
        self._dialling = Lock()
        self._line: _Line | None = None
        self._waiters: list[_Line] = []
        self._check: Callable[[Look], None] | None = None
        self._closed = False

    def get(self, key: str) -> bytes | None:
        checked_key(key)
        return self._read(lambda store: _get(store, key))

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        wanted = [checked_key(key) for key in keys]
        return self._read(lambda store: _get_many(store, wanted))

    def create(self, key: str, value: bytes) -> bytes:
        checked_key(key)
        checked_value(value)
        return self._change(lambda store: bytes(store.compare_set(key, "", value)))

    def swap(self, key: str, expected: bytes, value: bytes) -> bytes | None:
        checked_key(key)
        checked_value(expected)
        checked_value(value)
        if expected == value:  # nothing to change, and the answer would not tell whether the key is there
            return self.get(key)
        stored = self._change(lambda store: bytes(store.compare_set(key, expected, value)))
        return None if stored in (expected, b"") else stored

    def add(self, key: str, amount: int) -> int:
        checked_key(key)
        return self._change(lambda store: int(store.add(key, amount)))

    def delete(self, key: str) -> bool:
        checked_key(key)
        return self._change(lambda store: bool(store.delete_key(key)))

    def wait(self, key: str, timeout_s: float) -> bool:
        checked_key(key)
        deadline = monotonic() + timeout_s
        found = self._read(lambda store: bool(store.check([key])))
        while not found and (left_s := deadline - monotonic()) > 0:
            found = self._wait(key, min(left_s, _SLICE_S))
            self._refuse_closed()
        return found

    def guard(self, check: Callable[[Look], None]) -> None:
        self._check = check
        check(self.get)

    def close(self) -> None:
        with self._dialling:
            self._closed = True
            for line in (self._line, *self._waiters):
                if line is not None:
                    line.close()
            self._line, self._waiters = None, []

    # -- connections --------------------------------------------------------------------------------------------------

    def _read(self, ask: Callable[[Any], T]) -> T:
        """A lost connection is not told: what changes nothing is simply asked again over a new one."""
        line = self._connected()
        try:
            return line.call(ask, self._timeout_s)
        except _Failed:
            line = self._connected()
        try:
            return line.call(ask, self._timeout_s)
        except _Failed as failed:
            raise Unreachable(self._said(failed)) from None

    def _change(self, ask: Callable[[Any], T]) -> T:
        line = self._connected()
        try:
            return line.call(ask, self._timeout_s)
        except _Failed as failed:
            raise OutcomeUnknown(self._said(failed)) from None

    def _wait(self, key: str, timeout_s: float) -> bool:
        """Over a connection of its own, which is woken up when the time is over: asking for a missing key does that."""
        with self._dialling:
            self._refuse_closed()
            line = self._waiters.pop() if self._waiters else self._dial()
        try:
            waiting = line.begin(lambda store: _wait(store, key, timeout_s + self._timeout_s / 2))
            if not wait_for([waiting], timeout_s).done:
                self._read(lambda store: store.compare_set(key, _NOBODY, _NOBODY))
            return line.result(waiting, self._timeout_s)
        except _Failed:
            return False
        finally:
            self._put_back(line)

    def _put_back(self, line: _Line) -> None:
        with self._dialling:
            if self._closed or not line.good or len(self._waiters) >= IDLE_WAITERS:
                line.close()
            else:
                self._waiters.append(line)

    def _connected(self) -> _Line:
        with self._dialling:
            self._refuse_closed()
            if self._line is None or not self._line.good:
                if self._line is not None:
                    self._line.close()
                self._line = None
                self._line = self._dial()
            return self._line

    def _dial(self) -> _Line:
        try:
            line = _Line(*self._address, self._timeout_s)
            if self._check is not None:
                try:
                    self._check(lambda key: line.call(lambda store: _get(store, key), self._timeout_s))
                except BaseException:
                    line.close()
                    raise
        except _Failed as failed:
            raise Unreachable(self._said(failed)) from None
        return line

    def _refuse_closed(self) -> None:
        if self._closed:
            raise ValueError("this store is closed")

    def _said(self, failed: _Failed) -> str:
        host, port = self._address
        return f"the TCPStore at {host}:{port} does not answer: {failed}"


def _get(store: Any, key: str) -> bytes | None:
    """``check`` first, because asking for a missing key with ``compare_set`` wakes up those who wait for it."""
    if not store.check([key]):
        return None
    stored = bytes(store.compare_set(key, _NOBODY, _NOBODY))
    return None if stored in (_NOBODY, b"") else stored


def _get_many(store: Any, keys: list[str]) -> list[bytes | None]:
    if len(keys) > 2 and store.check(keys):
        with suppress(torch_distributed().DistStoreError):  # one was deleted just now: torch waited for it to come back
            return [bytes(value) or None for value in store.multi_get(keys)]
    return [_get(store, key) for key in keys]


def _wait(store: Any, key: str, timeout_s: float) -> bool:
    """Somebody who asked for the key may have woken it up, so it has to look."""
    try:
        store.wait([key], timedelta(seconds=timeout_s))
    except torch_distributed().DistStoreError:
        return False
    return bool(store.check([key]))


# -- addresses --------------------------------------------------------------------------------------------------------


def parse_url(url: str) -> tuple[str, int, str]:
    """Host, port and prefix of ``tcpstore://host:port`` or ``tcpstore://host:port/prefix``."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None or port is None or parts.scheme != SCHEME or parts.query or parts.fragment or parts.username:
        raise ConfigError("store", url, f"write {SCHEME}://host:port, or {SCHEME}://host:port/prefix")
    return host, port, parts.path.strip("/") or PREFIX


def open_journal(url: str, *, timeout_s: float = TIMEOUT_S, store_id: bytes | None = None) -> KeyValueJournal:
    host, port, prefix = parse_url(url)
    return KeyValueJournal(TcpStoreKeyValue(host, port, timeout_s=timeout_s), prefix, store_id)


def open_pulse(url: str, *, timeout_s: float = TIMEOUT_S, store_id: bytes | None = None) -> KeyValuePulse:
    host, port, prefix = parse_url(url)
    return KeyValuePulse(TcpStoreKeyValue(host, port, timeout_s=timeout_s), prefix, store_id)


def open_mailbox(url: str, *, timeout_s: float = TIMEOUT_S, store_id: bytes | None = None) -> KeyValueMailbox:
    host, port, prefix = parse_url(url)
    return KeyValueMailbox(TcpStoreKeyValue(host, port, timeout_s=timeout_s), prefix, store_id)


# -- a server alone ---------------------------------------------------------------------------------------------------


def serve(arguments: Sequence[str]) -> None:
    """Until SIGTERM or SIGINT. torch would listen on every interface, so the socket is made here."""
    parser = argparse.ArgumentParser(prog="python -m quorate.stores.tcpstore", description="A TCPStore, alone.")
    parser.add_argument("--host", default="127.0.0.1", help="which interface to listen on; anybody there may write")
    parser.add_argument("--port", type=int, default=29500, help="0 for any free one")
    options = parser.parse_args(arguments)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    torch = torch_distributed()
    listening = socket.create_server((options.host, options.port))
    port = listening.getsockname()[1]
    server = torch.TCPStore(
        options.host, port, is_master=True, wait_for_workers=False, master_listen_fd=listening.detach()
    )
    sys.stdout.write(f"{SCHEME}://{options.host}:{port}\n")
    sys.stdout.flush()
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    del server


if __name__ == "__main__":
    serve(sys.argv[1:])
